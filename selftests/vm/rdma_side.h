/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs on the two devices of a test (rdma_ends.h), in one process. */
#ifndef RDMA_SIDE_H
#define RDMA_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/completion.h"
#include "lib/rdma/qp.h"
#include "lib/rdma/region.h"
#include "selftests/vm/rdma_ends.h"

#define DEADLINE_S         60
#define RDMA_SIDE_BYTES    (1u << 20) /* size of each side's memory in bytes */
#define RDMA_SIDE_MESSAGES 40         /* messages in flight in each direction */

struct rdma_side {
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

/* Makes both queue pairs in RTS, with memory that allows this access. timeout: the ACK timeout of
 * the queue pair, after which the device retries six times. */
void rdma_side_pair_open(struct rdma_side s[2], unsigned int access, uint8_t timeout);
void rdma_side_pair_close(struct rdma_side s[2]);

/* Waits for the side's next completion. Returns false if none arrives within the limit, which may
 * be exceeded by a second. */
bool rdma_side_next_within(struct rdma_side *s, unsigned int limit_ms, struct ibv_wc *wc);
/* Waits for the side's next completion, and fails the test if none arrives. */
struct ibv_wc rdma_side_next(struct rdma_side *s);
void rdma_side_receive(struct rdma_side *s, uint64_t id, uint32_t at, uint32_t len);
/* Posts a SEND or WRITE from this side's memory at `at`, or a READ into it. `there` is the offset
 * in the other side's memory. */
void rdma_side_post(struct rdma_side *s, uint64_t id, enum ibv_wr_opcode opcode, uint32_t at,
		    uint32_t len, const struct rdma_side *other, uint32_t there);

/* rdma_pair.c: the tests of two queue pairs, which rdma_live.c runs beside its own */
void test_messages(void **state);
void test_read_and_write(void **state);
void test_what_a_peer_may_not(void **state);
void test_stop_flushes(void **state);
void test_refusals(void **state);

#endif
