/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels on RDMA devices: a channel is an RC queue pair, and the hardware handles all of its
 * packets.
 *
 *	verbs.c		finds, opens and closes devices; their memory and events
 *	verbs_channel.c	makes, connects and ends queue pairs
 *	verbs_data.c	messages to work requests, completions to messages
 *
 * All of it runs on the device's thread, except two calls that may wait for long. These are the
 * step to RTR, during which the kernel looks for the peer's Ethernet address, and the end of a
 * device that waits for such a step. If a device must not block, they have threads of their own.
 *
 * Each device has a protection domain, one completion queue, and one descriptor for all events. A
 * device of a switch has an inventory as well, which notices that the hardware was removed. Nothing
 * is posted to a queue pair before its peer is known. So a queue pair whose channel is shut
 * meanwhile has no memory to write to.
 */
#ifndef INC_CHANNEL_VERBS_PRIV_H
#define INC_CHANNEL_VERBS_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/rdma/async.h"
#include "lib/rdma/cache.h"
#include "lib/rdma/completion.h"
#include "lib/rdma/inventory.h"
#include "lib/rdma/qp.h"
#include "lib/channel/channel.h"

#define VERBS_BATCH   32 /* work requests per doorbell, completions per poll */
#define VERBS_BUCKETS 256
/* Not every device reports that it is removed, so it is looked for so often. */
#define VERBS_LOOK_NS (5 * INC_NSEC_PER_SEC)

struct verbs_send {
	const void *buffer;
	uint64_t remote_addr; /* of a WRITE */
	uint32_t length, lkey, rkey;
	uint32_t imm;
	bool has_imm, write;
	bool signaled;          /* its completion also completes those before it */
	struct inc_rdma_mr *mr; /* mirrored: a reference, held until the send is complete */
};

struct verbs_receive {
	void *buffer;
	uint32_t bytes; /* of the buffer; 0: no memory, because the peer writes to it by WRITE */
	uint32_t lkey;
	/* mirrored: the result that is expected */
	const struct inc_channel_region *region;
	uint32_t length, packets, imm;
	bool has_imm;
};

enum verbs_life {
	VERBS_MADE,
	VERBS_ENTERING, /* its step to RTR is in progress */
	VERBS_CONNECTED,
	VERBS_BROKEN, /* reported to the handler, unless `report` is set */
};

/* A queue pair's step to RTR. */
struct verbs_entry {
	LIST_ENTRY(verbs_entry) entry;
	struct verbs_channel *ch; /* NULL: it was shut, and this entry owns its queue pair */
	struct inc_rdma_qp qp;    /* of a channel that was shut */
	struct inc_rdma_rtr rtr;
	pthread_t thread;
	int error;        /* written by the thread before it sets `over` */
	atomic_bool over; /* the step has ended, and dev->entered_fd is signalled next */
	int entered_fd;
};

struct verbs_channel {
	struct inc_channel ch; /* first */
	enum verbs_life life;  /* verbs_go() */
	char what[96];
	void *ctx;
	uint32_t payload, max_message_bytes;
	uint32_t psn; /* of its first packet */
	bool mirrored;
	bool se;         /* messages sent are solicited events */
	uint32_t memory; /* posted: the local key of all buffers */
	uint32_t id;     /* in requests (wr_id): of no other channel of the device, ever */
	LIST_ENTRY(verbs_channel) in_bucket;
	TAILQ_ENTRY(verbs_channel) in_all;
	bool active; /* it has something to post */
	SLIST_ENTRY(verbs_channel) next_active;
	struct inc_rdma_qp qp;
	struct inc_rdma_subscriber events;
	struct verbs_entry *entry; /* its step to RTR, while that is under way */
	bool report;               /* `loss` is not reported to the handler yet */
	struct inc_channel_loss loss;
	bool flushed; /* a request came back because of another one, which should tell why */

	/* Rings of n_receives and n_sends, counted in 64 bits:
	 * taken <= given <= posted <= taken + n_receives,
	 * sent <= begun <= queued <= sent + n_sends. */
	uint32_t n_receives, n_sends;
	struct verbs_receive *receives;
	uint64_t posted; /* by post() or exchange() */
	uint64_t given;  /* to the device */
	uint64_t taken;  /* messages received */
	struct verbs_send *sends;
	uint64_t queued; /* by send() or exchange() */
	uint64_t begun;  /* the device has them */
	uint64_t sent;   /* acknowledged */

	/* mirrored */
	uint64_t signal_due; /* request a completion at this message at the latest */
	uint64_t under_way;  /* packets */
	uint32_t imm;        /* of the collective in progress */
	uint64_t tx_packets, rx_packets, acks;
};

struct verbs_device {
	struct inc_channel_device dev; /* first */
	const struct inc_channel_handler *handler;
	void (*log)(void *ctx, enum inc_log_level level, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
	void *log_ctx;
	struct inc_channel_verbs_settings settings;
	bool may_block;
	struct inc_rdma_inventory *inventory; /* of this device and port alone; NULL: may_block */
	struct inc_rdma_device *device;
	uint8_t port, gid_index;
	uint16_t pkey; /* at settings.pkey_index */
	unsigned int mtu_bytes;
	uint32_t max_message_bytes;
	struct inc_rdma_subscriber events;       /* of the port and the device */
	struct inc_rdma_completions completions; /* made with the first channel */
	/* Completions that channels may have in the queue, and those of channels that were shut,
	 * which are there until the queue has been seen empty. */
	unsigned int reserved, left_over;
	int epoll_fd, entered_fd;
	struct inc_rdma_cache cache; /* of registrations; has an ops pointer once it is open */
	LIST_HEAD(, verbs_entry) entries;
	LIST_HEAD(, verbs_channel) bucket[VERBS_BUCKETS]; /* by id */
	TAILQ_HEAD(, verbs_channel) channels;
	SLIST_HEAD(, verbs_channel) active;
	uint32_t last_id;
	unsigned int reports;     /* channels with `report` */
	unsigned int idle_polls;  /* since events were last read */
	bool flushed;             /* a channel has `flushed` */
	uint64_t port_down_at_ns; /* 0: it is up */
	uint64_t look_at_ns;      /* UINT64_MAX: never, because there is no inventory */
	uint64_t send_calls, recv_calls;
};

#define VERBS_DEV(d) ((struct verbs_device *)(d))
#define VERBS_CH(c)  ((struct verbs_channel *)(c))

static inline struct verbs_device *verbs_device_of(const struct verbs_channel *ch)
{
	return VERBS_DEV(ch->ch.dev);
}

/* Puts the channel into the list that flush() works off. */
static inline void verbs_activate(struct verbs_channel *ch)
{
	if (ch->active || ch->life != VERBS_CONNECTED)
		return;
	ch->active = true;
	SLIST_INSERT_HEAD(&verbs_device_of(ch)->active, ch, next_active);
}

/* verbs_channel.c */
int inc_verbs_make(struct inc_channel_device *d, const struct inc_channel_opts *opts,
		   struct inc_channel **out, struct inc_channel_own *own, struct inc_err *err);
int inc_verbs_connect(struct inc_channel *c, const struct inc_channel_peer *peer,
		      struct inc_err *err);
void inc_verbs_shut(struct inc_channel *c, uint8_t syndrome);
/* Frees a channel in a forked child, whose queue pair is the parent's. */
void inc_verbs_abandon_channel(struct verbs_channel *ch);
/* The most messages under way of a mirrored channel; 0: the device's queues are too short. */
unsigned int inc_verbs_most_messages(const struct inc_rdma_device *device);
/* Processes the steps to RTR that have ended. */
void inc_verbs_take_entries(struct verbs_device *dev);
/* Waits for the remaining steps, after all channels are shut. */
void inc_verbs_end_entries(struct verbs_device *dev);
/* Breaks the channel. The handler learns of it at the end of progress(), this one or the next.
 * error: a positive errno. */
void inc_verbs_lose(struct verbs_channel *ch, enum inc_channel_reason reason, int error,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Breaks all channels, because the device or its port has failed. */
void inc_verbs_lose_all(struct verbs_device *dev, int error, const char *text);

/* verbs_data.c */
int inc_verbs_post(struct inc_channel *c, void *buffer);
int inc_verbs_send(struct inc_channel *c, const void *buffer, uint32_t length, bool has_imm,
		   uint32_t imm);
int inc_verbs_exchange(struct inc_channel *c, const struct inc_channel_exchange *x);
void inc_verbs_flush(struct inc_channel_device *d);
uint64_t inc_verbs_deadline_ns(const struct inc_channel_device *d);
bool inc_verbs_progress(struct inc_channel_device *d);
bool inc_verbs_arm(struct inc_channel_device *d);
/* Gives back what the channel's sends hold. */
void inc_verbs_drop_sends(struct verbs_channel *ch);
/* Breaks the mirrored channels that await a result in this region. */
void inc_verbs_stop_writes(struct verbs_device *dev, const struct inc_channel_region *region);

#endif
