/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of the two devices of a test (rdma_ends.h), joined, in one process. */
#ifndef RDMA_SIDE_H
#define RDMA_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/completion.h"
#include "lib/rdma/qp.h"
#include "lib/rdma/region.h"

#define SIDE_BYTES    (1u << 20) /* of a side's memory */
#define SIDE_MESSAGES 40         /* under way in each direction */

struct side {
	struct inc_rdma_device *device;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct inc_rdma_cache cache;
	struct inc_rdma_mr *mr;
	uint8_t *mem;
	uint8_t gid[16];
	uint8_t gid_index;
	unsigned int mtu_bytes;
	uint32_t psn;
};

/* In RTS, each with memory of this access; timeout: the device's, for its six retries. */
void side_pair_open(struct side s[2], unsigned int access, uint8_t timeout);
void side_pair_close(struct side s[2]);

/* The next completion, slept for; false: it has not come, give or take a second. */
bool side_next_within(struct side *s, unsigned int limit_ms, struct ibv_wc *wc);
/* The same, which must come. */
struct ibv_wc side_next(struct side *s);
void side_receive(struct side *s, uint64_t id, uint32_t at, uint32_t len);
/* What is sent from, or read to, our memory at `at`; the other's at `there`. */
void side_post(struct side *s, uint64_t id, enum ibv_wr_opcode opcode, uint32_t at, uint32_t len,
	       const struct side *other, uint32_t there);

#endif
