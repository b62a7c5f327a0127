/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints of a termination switch on RDMA devices: a channel is an RC queue pair, and the device
 * does all of its packets. verbs.c makes and ends devices, verbs_channel.c channels, verbs_data.c
 * moves messages; all on the device's thread, but for two calls that may wait for long and have
 * threads of their own: the step to RTR, where the kernel looks for a peer's Ethernet address, and
 * the end of a device that waits for such a step.
 *
 * Each inc_term_device opens its RDMA device for itself: context, protection domain, one completion
 * queue, one descriptor for all that happens. Nothing is posted to a queue pair that does not have
 * its peer yet, so that one whose channel is shut meanwhile has no memory to write to.
 */
#ifndef INC_TERM_VERBS_PRIV_H
#define INC_TERM_VERBS_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/rdma/async.h"
#include "lib/rdma/completion.h"
#include "lib/rdma/inventory.h"
#include "lib/rdma/qp.h"
#include "userspace/term/endpoint.h"
#include "userspace/term/node.h"

#define VERBS_MAX_MESSAGE (1 << 20)
#define VERBS_BATCH       32 /* work requests per doorbell, completions per poll */
#define VERBS_BUCKETS     256
/* A port that is down for so long has lost its channels. */
#define VERBS_PORT_DOWN_NS (2 * INC_NSEC_PER_SEC)
/* Not every device tells that it goes: so often it is looked for. */
#define VERBS_LOOK_NS (5 * INC_NSEC_PER_SEC)

struct verbs_memory {
	LIST_ENTRY(verbs_memory) entry;
	uintptr_t start, end;
	struct ibv_mr *mr;
};

struct verbs_send {
	const void *buffer;
	uint32_t length;
	uint32_t imm;
	bool has_imm;
};

enum verbs_life {
	VERBS_MADE,
	VERBS_ENTERING, /* its step to RTR is under way */
	VERBS_CONNECTED,
	VERBS_BROKEN, /* and its handler knows, unless `report` */
};

/* A queue pair's step to RTR. */
struct verbs_entry {
	LIST_ENTRY(verbs_entry) entry;
	struct verbs_channel *ch; /* NULL: it was shut, and the queue pair is the entry's */
	struct inc_rdma_qp qp;    /* then */
	struct inc_rdma_rtr rtr;
	pthread_t thread;
	int error;        /* the thread's, until over */
	atomic_bool over; /* dev->entered_fd was signalled, too */
	int entered_fd;
};

struct verbs_channel {
	struct inc_term_channel ch; /* first */
	enum verbs_life life;       /* verbs_go() */
	char what[64];
	void *ctx;
	uint32_t payload, max_message_bytes, messages;
	uint32_t psn; /* of its first packet */
	bool se;      /* messages sent are solicited events */
	uint32_t id;  /* in requests (wr_id): of no other channel of the device, ever */
	LIST_ENTRY(verbs_channel) in_bucket;
	TAILQ_ENTRY(verbs_channel) in_all;
	bool active; /* it has something to post */
	SLIST_ENTRY(verbs_channel) next_active;
	struct inc_rdma_qp qp;
	struct inc_rdma_subscriber events;
	struct verbs_entry *entry; /* its step to RTR, while that is under way */
	/* why it is broken */
	bool report; /* the handler has not heard it yet */
	enum inc_term_reason reason;
	char text[160];
	bool flushed; /* a request came back because of another one, which should tell why */

	/* Rings of `messages`, counted in 64 bits: taken <= given <= posted <= taken + messages,
	 * sent <= begun <= queued <= sent + messages. */
	void **buffers;
	uint64_t posted; /* by post() */
	uint64_t given;  /* to the device */
	uint64_t taken;  /* messages received */
	struct verbs_send *sends;
	uint64_t queued; /* by send() */
	uint64_t begun;  /* the device has them */
	uint64_t sent;   /* acknowledged */
};

struct verbs_device {
	struct inc_term_device dev; /* first */
	const struct inc_term_handler *handler;
	struct inc_rdma_inventory *inventory; /* of this device and port alone */
	struct inc_rdma_device *device;
	uint8_t port, gid_index;
	unsigned int mtu_bytes;
	struct inc_rdma_subscriber events; /* of the port and the device */
	struct inc_rdma_completions completions;
	/* Completions that channels may have in the queue, and those of channels that were shut,
	 * which are there until the queue has been seen empty. */
	unsigned int reserved, left_over;
	int epoll_fd, entered_fd;
	LIST_HEAD(, verbs_memory) memory;
	LIST_HEAD(, verbs_entry) entries;
	LIST_HEAD(, verbs_channel) bucket[VERBS_BUCKETS]; /* by id */
	TAILQ_HEAD(, verbs_channel) channels;
	SLIST_HEAD(, verbs_channel) active;
	uint32_t last_id;
	unsigned int reports;     /* channels with `report` */
	uint64_t port_down_at_ns; /* 0: it is up */
	uint64_t look_at_ns;
};

#define VERBS_DEV(d) ((struct verbs_device *)(d))
#define VERBS_CH(c)  ((struct verbs_channel *)(c))

static inline struct verbs_device *verbs_device_of(const struct verbs_channel *ch)
{
	return VERBS_DEV(ch->ch.dev);
}

/* It has something to post, or will have: flush() looks at it. */
static inline void verbs_activate(struct verbs_channel *ch)
{
	if (ch->active || ch->life != VERBS_CONNECTED)
		return;
	ch->active = true;
	SLIST_INSERT_HEAD(&verbs_device_of(ch)->active, ch, next_active);
}

/* verbs.c */
/* The key of a buffer's memory; false: the device was not told of it. */
bool inc_verbs_key(const struct verbs_device *dev, const void *buffer, uint32_t length,
		   uint32_t *lkey);

/* verbs_channel.c */
int inc_verbs_make(struct inc_term_device *d, const struct inc_term_channel_opts *opts,
		   struct inc_term_channel **out, struct inc_term_numbers *own,
		   struct inc_err *err);
int inc_verbs_connect(struct inc_term_channel *c, const struct inc_term_peer_addr *peer,
		      struct inc_err *err);
void inc_verbs_shut(struct inc_term_channel *c, uint8_t syndrome);
/* Takes in steps to RTR that are over. */
void inc_verbs_take_entries(struct verbs_device *dev);
/* Waits for those that are left when all channels are shut. */
void inc_verbs_end_entries(struct verbs_device *dev);
/* Breaks the channel; its handler hears so at the end of progress(), this one or the next. */
void inc_verbs_lose(struct verbs_channel *ch, enum inc_term_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* All of them, for what has become of the device. */
void inc_verbs_lose_all(struct verbs_device *dev, const char *text);

/* verbs_data.c */
int inc_verbs_post(struct inc_term_channel *c, void *buffer);
int inc_verbs_send(struct inc_term_channel *c, const void *buffer, uint32_t length, bool has_imm,
		   uint32_t imm);
void inc_verbs_flush(struct inc_term_device *d);
uint64_t inc_verbs_deadline_ns(const struct inc_term_device *d);
bool inc_verbs_progress(struct inc_term_device *d);

#endif
