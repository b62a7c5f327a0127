/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels on RDMA devices: a channel is an RC queue pair, and the hardware handles all of its
 * packets.
 *
 *	verbs.c		finds, opens and closes devices; their memory and events
 *	verbs_channel.c	makes, connects and ends queue pairs
 *	verbs_data.c	messages to work requests, completions to messages
 *
 * All these functions run on the device's thread, except two calls that may wait for long. These
 * are the step to RTR, during which the kernel looks for the peer's Ethernet address, and the end
 * of a device that waits for such a step. If a device must not block, they have threads of their
 * own.
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
#include "lib/rdma/port_timer.h"
#include "lib/rdma/qp.h"
#include "lib/channel/channel.h"

#define VERBS_BATCH   32 /* number of work requests per doorbell, and of completions per poll */
#define VERBS_BUCKETS 256
/* Time between two checks whether the device is still there, because not every device reports that
 * it is removed. */
#define VERBS_LOOK_NS (5 * INC_NSEC_PER_SEC)

struct verbs_send {
	const void *buffer;
	uint64_t remote_addr; /* WRITE: the address at the peer to which the device writes */
	uint32_t length, lkey, rkey;
	uint32_t imm;
	bool has_imm, write;
	/* this send requests a completion, which also completes the sends before it */
	bool signaled;
	/* mirrored channels: reference to the registration, held until the send is complete */
	struct inc_rdma_mr *mr;
};

struct verbs_receive {
	void *buffer;
	/* size of the buffer; 0: no buffer is needed, because the peer sends by WRITE */
	uint32_t bytes;
	uint32_t lkey;
	/* mirrored channels: the result that is expected */
	const struct inc_channel_region *region;
	uint32_t length, packets, imm;
	bool has_imm;
};

enum verbs_life {
	VERBS_MADE,
	VERBS_ENTERING, /* the queue pair's step to RTR is in progress */
	VERBS_CONNECTED,
	/* the channel has failed; its handler has received the report, unless `report` is set */
	VERBS_BROKEN,
};

/* A queue pair's step to the state RTR, which a thread of its own makes. */
struct verbs_entry {
	LIST_ENTRY(verbs_entry) entry;
	/* channel of the queue pair; NULL: the channel was shut, so this struct owns the queue
	 * pair */
	struct verbs_channel *ch;
	struct inc_rdma_qp qp; /* queue pair of a channel that was shut */
	struct inc_rdma_rtr rtr;
	pthread_t thread;
	int error;        /* result of the step, which the thread writes before it sets `over` */
	atomic_bool over; /* the step has ended, and dev->entered_fd is signalled next */
	int entered_fd;
};

struct verbs_channel {
	struct inc_channel ch; /* the public part, which must be the first member */
	enum verbs_life life;  /* changed by verbs_go() only */
	char what[96];
	void *ctx;
	uint32_t payload, max_message_bytes;
	uint32_t psn; /* PSN of this end's first packet */
	struct inc_channel_verbs_settings settings;
	uint8_t gid_index;
	uint16_t pkey_index, pkey; /* the P_Key and its index */
	bool mirrored;
	bool se;         /* messages sent have the solicited event bit */
	uint32_t memory; /* posted channels: local key of the region with all buffers */
	/* id of the channel, which is part of its requests' wr_id; the device gives no other
	 * channel the same id */
	uint32_t id;
	LIST_ENTRY(verbs_channel) in_bucket;
	TAILQ_ENTRY(verbs_channel) in_all;
	bool active; /* the channel has requests to post */
	SLIST_ENTRY(verbs_channel) next_active;
	struct inc_rdma_qp qp;
	struct inc_rdma_subscriber events;
	struct verbs_entry *entry; /* the queue pair's step to RTR, while it is under way */
	bool report;               /* `loss` was not reported to the handler yet */
	struct inc_channel_loss loss;
	/* a request came back flushed because another one failed, whose completion should say
	 * why */
	bool flushed;

	/* Rings of n_receives and n_sends elements. Positions are counted in 64 bits: taken <=
	 * given <= posted <= taken + n_receives, and sent <= begun <= queued <= sent + n_sends. */
	uint32_t n_receives, n_sends;
	struct verbs_receive *receives;
	uint64_t posted; /* number of receives from post() or exchange() */
	uint64_t given;  /* number of receives that were given to the device */
	uint64_t taken;  /* number of messages received */
	struct verbs_send *sends;
	uint64_t queued; /* number of messages from send() or exchange() */
	uint64_t begun;  /* number of messages that were given to the device */
	uint64_t sent;   /* number of messages that are acknowledged */

	/* members of mirrored channels */
	/* index of the first message after the last send that has requested a completion */
	uint64_t signal_due;
	uint64_t under_way; /* number of packets under way */
	/* immediate of the collective in progress, which WRITEs without one of their own repeat */
	uint32_t imm;
	uint64_t tx_packets, rx_packets, acks;
};

struct verbs_device {
	struct inc_channel_device dev; /* the public part, which must be the first member */
	const struct inc_channel_handler *handler;
	void (*log)(void *ctx, enum inc_log_level level, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
	void *log_ctx;
	struct inc_channel_verbs_settings settings;
	bool may_block;
	/* inventory of this device and port alone; NULL if may_block is set */
	struct inc_rdma_inventory *inventory;
	struct inc_rdma_device *device;
	uint8_t port, gid_index;
	uint16_t pkey; /* the P_Key at settings.pkey_index */
	unsigned int mtu_bytes;
	uint32_t max_message_bytes;
	/* subscription to events of the port and the device */
	struct inc_rdma_subscriber events;
	/* completion queue, which is made with the first channel */
	struct inc_rdma_completions completions;
	/* Numbers of completions that may be in the queue: of the present channels, and of channels
	 * that were shut since the queue was last empty. */
	unsigned int reserved, left_over;
	int epoll_fd, entered_fd;
	/* cache of registrations; its ops pointer is set once it is open */
	struct inc_rdma_cache cache;
	LIST_HEAD(, verbs_entry) entries;
	LIST_HEAD(, verbs_channel) bucket[VERBS_BUCKETS]; /* channels by id */
	TAILQ_HEAD(, verbs_channel) channels;
	SLIST_HEAD(, verbs_channel) active;
	uint32_t last_id;
	unsigned int reports;    /* number of channels with `report` */
	unsigned int idle_polls; /* number of empty polls since events were last read */
	bool flushed;            /* a channel has `flushed` set */
	struct inc_rdma_port_timer port_timer;
	/* time of the next check whether the device is still there; UINT64_MAX: never, because
	 * there is no inventory */
	uint64_t look_at_ns;
	uint64_t send_calls, recv_calls;
};

#define VERBS_DEV(d) ((struct verbs_device *)(d))
#define VERBS_CH(c)  ((struct verbs_channel *)(c))

static inline struct verbs_device *verbs_device_of(const struct verbs_channel *ch)
{
	return VERBS_DEV(ch->ch.dev);
}

/* Puts the channel into the list of active channels, which flush() goes through. */
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
/* Frees the memory of a channel, and not its queue pair, which in a forked child is the parent's.
 */
void inc_verbs_release(struct verbs_channel *ch);
/* Returns the most messages under way of a mirrored channel. 0: the device's queues are too
 * short. */
unsigned int inc_verbs_most_messages(const struct inc_rdma_device *device);
/* Processes the steps to RTR that have ended since the last call. */
void inc_verbs_take_entries(struct verbs_device *dev);
/* Waits for the remaining steps, after all channels are shut. */
void inc_verbs_end_entries(struct verbs_device *dev);
/* Breaks the channel. The handler receives the report at the end of progress(), this call or the
 * next. error: a positive errno. */
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
/* Releases the references to registrations that the channel's sends hold. */
void inc_verbs_drop_sends(struct verbs_channel *ch);
/* Breaks the mirrored channels that await a result in this region. */
void inc_verbs_stop_writes(struct verbs_device *dev, const struct inc_channel_region *region);

#endif
