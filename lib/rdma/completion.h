/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion queue with a descriptor to sleep on.
 *
 * In a loop: poll the queue (ibv_poll_cq) until it is empty; inc_rdma_completions_arm(); poll
 * again, for of what came before there is no notification; sleep until the descriptor is readable;
 * take(); again.
 *
 * Threads: one at a time.
 */
#ifndef INC_RDMA_COMPLETION_H
#define INC_RDMA_COMPLETION_H

#include <stdbool.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/device.h"

struct inc_rdma_completions {
	struct inc_rdma_device *device; /* a reference of its own */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool armed;           /* a notification was asked for and has not come */
	unsigned int unacked; /* notifications that were read and are not acknowledged */
	unsigned int ack_batch;
};

/*
 * A queue of so many entries, which must hold the completions of all queues that will use it.
 * Notifications are acknowledged ack_batch (not 0) at a time, as that takes a lock of libibverbs.
 * 0, or -errno: -EINVAL where the device cannot do so many. On error nothing is left to close.
 */
int inc_rdma_completions_open(struct inc_rdma_completions *completions,
			      struct inc_rdma_device *device, unsigned int entries,
			      unsigned int ack_batch, struct inc_err *err);
/* Makes room for so many entries at least; those that it has stay. 0, or -errno: -EINVAL where the
 * device cannot do so many; the queue is as it was then. */
int inc_rdma_completions_grow(struct inc_rdma_completions *completions, unsigned int entries,
			      struct inc_err *err);
/* The queue pairs that use it are destroyed. One of zeros is allowed. */
void inc_rdma_completions_close(struct inc_rdma_completions *completions);

/* Readable when a notification that was asked for has come. Does not block. */
int inc_rdma_completions_fd(const struct inc_rdma_completions *completions);
/* Asks for one notification of the next completion, unless one is asked for. 0 or -errno. */
int inc_rdma_completions_arm(struct inc_rdma_completions *completions);
/* Takes notifications in until there are none: what descriptor says is looked at afresh. */
void inc_rdma_completions_take(struct inc_rdma_completions *completions);

/* The errno that says best what has become of a request which has not succeeded. */
int inc_rdma_completion_errno(enum ibv_wc_status status);

#endif
