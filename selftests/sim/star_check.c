// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "loader/inc_raw.h"
#include "selftests/unit/ref_switch.h"
#include "sim.h"
#include "star_priv.h"

static const struct inc_comm_cfg *comm_cfg(void)
{
	return inc_switch_comm(xdp_switch(star.daemon.xdp), star.comm);
}

static int64_t number_of(uint32_t psn, uint32_t start, uint64_t near)
{
	return (int64_t)near + inc_psn_diff(psn, start + (uint32_t)near);
}

/* Nothing is acknowledged that the switch has not kept: the packet stands in its row and counts for
 * its slot, or its result has been made. */
static void check_ack(unsigned int child, uint32_t psn)
{
	const struct inc_switch *sw = xdp_switch(star.daemon.xdp);
	const struct inc_comm_cfg *cfg = comm_cfg();
	const struct inc_conn_cfg *conn = inc_switch_conn(sw, cfg->conn_base + child);
	const uint64_t next = inc_switch_conn_state(sw)[cfg->conn_base + child].rx_next;
	const int64_t r = number_of(psn, conn->rx_start_psn, next);
	const uint32_t slot = r & ((1 << cfg->log2_slots) - 1);
	const struct inc_buf *row =
		&inc_switch_kept(sw)[cfg->kept_base + (child << cfg->log2_slots) + slot];
	const uint64_t word = inc_switch_slots(sw)[cfg->sum_base + slot].word;

	sim_require(r < (int64_t)next, "rank %u: packet %lld is acknowledged, and %llu is the next",
		    child, (long long)r, (unsigned long long)next);
	if (r < 0 || inc_switch_comm_state(sw)[star.comm].tx_next > (uint64_t)r)
		return;
	sim_require(row->r == (uint64_t)r,
		    "rank %u: packet %lld is acknowledged, and its row has %lld", child,
		    (long long)r, (long long)row->r);
	sim_require(INC_SLOT_GENERATION(word) == r >> cfg->log2_slots &&
			    INC_SLOT_ARRIVED(word) >> child & 1,
		    "rank %u: packet %lld is acknowledged, and does not count", child,
		    (long long)r);
}

/* A result leaves when it is complete, and is the same for all, however often it leaves. */
static void check_data(unsigned int child, uint32_t psn, const uint8_t *payload, size_t len)
{
	const struct inc_switch *sw = xdp_switch(star.daemon.xdp);
	const struct inc_comm_cfg *cfg = comm_cfg();
	const struct inc_conn_cfg *conn = inc_switch_conn(sw, cfg->conn_base + child);
	const uint64_t end = inc_switch_comm_state(sw)[star.comm].tx_next;
	const int64_t r = number_of(psn, conn->tx_start_psn, end);
	uint64_t sum = len + 1;
	size_t i;

	sim_require(r >= 0 && r < (int64_t)end && r < CHUNKS_MOST,
		    "rank %u: result %lld leaves, and %llu is the next", child, (long long)r,
		    (unsigned long long)end);
	for (i = 0; i < len; i++)
		sum = (sum ^ payload[i]) * 0x100000001b3;
	sum |= 1;
	sim_require(!star.sent[r] || star.sent[r] == sum,
		    "rank %u: result %lld leaves, and is another one than before", child,
		    (long long)r);
	star.sent[r] = sum;
}

void star_watch(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	const uint8_t opcode = frame[FRAME_BTH];
	const uint32_t psn = get24(frame + FRAME_BTH + 9);
	const size_t head = FRAME_EXT + frame_ext_len(opcode);
	const size_t pad = frame[FRAME_BTH + 1] >> 4 & 3;
	struct frame copy = {.len = len};

	memcpy(copy.data, frame, len);
	sim_require(frame_icrc(frame + FRAME_IP, len - FRAME_IP - INC_ICRC_LEN) ==
			    __builtin_bswap32(get32(frame + len - INC_ICRC_LEN)),
		    "a frame with a wrong ICRC leaves for rank %u", port);
	sim_require(frame_udp_csum_ok(&copy), "a wrong UDP checksum leaves for rank %u", port);
	if (opcode != INC_OP_ACK)
		check_data(port, psn, frame + head, len - head - pad - INC_ICRC_LEN);
	else if ((frame[FRAME_EXT] & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_ACK)
		check_ack(port, psn);
}

static void expect(struct star_call *call, unsigned int number)
{
	const uint32_t desc = INC_DESC(INC_COLL_ALLREDUCE, call->op, call->dtype, 0, 0);
	unsigned int r;

	memcpy(call->expected, star.rank[0].call[number].given, call->bytes);
	for (r = 1; r < star.n_ranks; r++)
		ref_operate(desc, false, call->expected, star.rank[r].call[number].given,
			    call->bytes);
	call->known = true;
}

void star_check_result(struct star_rank *rank, unsigned int number)
{
	struct star_call *call = &star.call[number];
	size_t i = 0;

	if (!call->known)
		expect(call, number);
	while (i < call->bytes && rank->call[number].recv[i] == call->expected[i])
		i++;
	sim_require(i == call->bytes, "rank %u, call %u: byte %zu of %zu is wrong", rank->number,
		    number, i, call->bytes);
	if (!call->in_place)
		sim_require(!memcmp(rank->call[number].send, rank->call[number].given, call->bytes),
			    "rank %u, call %u: what was given has changed", rank->number, number);
	sim_hash_bytes(rank->call[number].recv, call->bytes);
}
