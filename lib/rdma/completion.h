/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion queue with a descriptor to sleep on.
 *
 * A caller does this in a loop: poll the queue (ibv_poll_cq) until it is empty, and call
 * inc_rdma_completions_arm(). Poll again, because completions from before it cause no notification.
 * Sleep until the descriptor is readable, call inc_rdma_completions_take(), and begin again.
 *
 * Threads: one at a time per queue.
 */
#ifndef INC_RDMA_COMPLETION_H
#define INC_RDMA_COMPLETION_H

#include <stdbool.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/device.h"

struct inc_rdma_completions {
	struct inc_rdma_device *device; /* the device, to which the queue holds a reference */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool armed;           /* a notification was requested and has not come yet */
	unsigned int unacked; /* number of notifications that were read but not acknowledged */
	unsigned int ack_batch;
};

/*
 * Opens a queue of so many entries, which must be enough for the completions of all queue pairs
 * that will use it. Notifications are acknowledged ack_batch (not 0) at a time, because each
 * acknowledgement takes a lock of libibverbs. 0, or -errno: -EINVAL if the device does not support
 * so many entries. On error there is nothing to close.
 */
int inc_rdma_completions_open(struct inc_rdma_completions *completions,
			      struct inc_rdma_device *device, unsigned int entries,
			      unsigned int ack_batch, struct inc_err *err);
/* Enlarges the queue to at least so many entries; completions in it stay. 0, or -errno: -EINVAL
 * if the device does not support so many. On error the queue is unchanged. */
int inc_rdma_completions_grow(struct inc_rdma_completions *completions, unsigned int entries,
			      struct inc_err *err);
/* Closes the queue, after all queue pairs that use it have been destroyed. A struct of zeros is
 * allowed. */
void inc_rdma_completions_close(struct inc_rdma_completions *completions);

/* Returns the queue's descriptor, which is readable when a requested notification has come. The
 * descriptor does not block. */
int inc_rdma_completions_fd(const struct inc_rdma_completions *completions);
/* Requests one notification for the next completion, unless one is requested already. Returns 0 or
 * -errno. */
int inc_rdma_completions_arm(struct inc_rdma_completions *completions);
/* Reads all notifications, so that the descriptor becomes readable only for new ones. */
void inc_rdma_completions_take(struct inc_rdma_completions *completions);

/* Returns the errno that describes best why a request has failed, from the status of its
 * completion. */
int inc_rdma_completion_errno(enum ibv_wc_status status);

#endif
