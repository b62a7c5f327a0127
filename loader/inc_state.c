/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies the state that the data path writes (inc_state.h), and returns the mapped arrays for tests
 * (inc_raw.h).
 */
#include <errno.h>
#include <string.h>
#include "loader/inc_loader_priv.h"
#include "loader/inc_raw.h"
#include "loader/inc_state.h"

#define LOAD(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

_Static_assert(sizeof(struct inc_conn_state) == 16 * sizeof(uint64_t), "a word has no part twice");

void inc_switch_read_conn(const struct inc_switch *sw, uint32_t conn, struct inc_conn_state *out)
{
	/* the words of the state, in the order in which they must be read (inc_state.h): rx_next,
	 * which is word 0, comes last, and tx_acked, word 1, after those that a NAK sets */
	static const uint8_t order[] = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2, 3, 0};
	const uint64_t *from = (const uint64_t *)&sw->conn_state[conn];
	uint64_t word[sizeof(order)];
	size_t i;

	for (i = 0; i < sizeof(order); i++)
		word[order[i]] = LOAD(from[order[i]]);
	memcpy(out, word, sizeof(*out));
}

bool inc_switch_take_becn(const struct inc_switch *sw, uint32_t conn)
{
	uint8_t *due = &sw->conn_state[conn].becn_due;

	return __atomic_load_n(due, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(due, 0, __ATOMIC_RELAXED);
}

void inc_switch_read_comm(const struct inc_switch *sw, uint32_t comm, struct inc_comm_state *out)
{
	const struct inc_comm_state *from = &sw->comm_state[comm];

	*out = (struct inc_comm_state){.tx_next = LOAD(from->tx_next), .error = LOAD(from->error)};
	/* read up_next after tx_next, so that the copy's up_next is not the smaller one */
	out->up_next = LOAD(from->up_next);
	/* read error_r after error, because its writer stores error_r first */
	out->error_r = LOAD(from->error_r);
}

static uint64_t slot_of(const struct inc_comm_cfg *cfg, uint64_t r)
{
	return r & ((1u << cfg->log2_slots) - 1);
}

bool inc_switch_waiting(const struct inc_switch *sw, uint32_t comm, uint64_t *r, uint32_t *arrived)
{
	const struct inc_comm_cfg *cfg = &sw->comm[comm];
	uint64_t word;

	*r = LOAD(sw->comm_state[comm].tx_next);
	word = LOAD(sw->slots[cfg->sum_base + slot_of(cfg, *r)].word);
	*arrived = INC_SLOT_ARRIVED(word);
	return INC_SLOT_GENERATION(word) == (uint32_t)(*r >> cfg->log2_slots) && *arrived;
}

static const struct inc_buf *sum_row(const struct inc_switch *sw, uint32_t comm, uint64_t r)
{
	const struct inc_comm_cfg *cfg = &sw->comm[comm];

	return &sw->sums[cfg->sum_base + slot_of(cfg, r)];
}

static const struct inc_buf *kept_row(const struct inc_switch *sw, uint32_t comm, uint32_t child,
				      uint64_t r)
{
	const struct inc_comm_cfg *cfg = &sw->comm[comm];

	return &sw->kept[cfg->kept_base + (child << cfg->log2_slots) + slot_of(cfg, r)];
}

static void read_head(const struct inc_buf *row, struct inc_kept_head *out)
{
	*out = (struct inc_kept_head){
		.mirror =
			{
				.desc = row->desc,
				.opcode = row->opcode,
				.flags = row->flags,
				.va = row->va,
				.rkey = row->rkey,
				.dmalen = row->dmalen,
			},
		.len = LOAD(row->len),
	};
}

/* Checks that the row still has chunk r. The program writes a row's chunk number first. So if the
 * number is r before and after the copy, the copy is consistent. */
static int still_held(const struct inc_buf *row, uint64_t r)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return LOAD(row->r) == r ? 0 : -ESTALE;
}

int inc_switch_read_kept(const struct inc_switch *sw, uint32_t comm, uint32_t child, uint64_t r,
			 struct inc_kept_head *out)
{
	const struct inc_buf *row = kept_row(sw, comm, child, r);
	bool held = LOAD(row->r) == r;

	read_head(row, out);
	return held ? still_held(row, r) : -ESTALE;
}

static int read_payload(const struct inc_buf *row, uint64_t r, uint8_t *payload,
			struct inc_kept_head *out)
{
	if (LOAD(row->r) != r)
		return -ESTALE;
	read_head(row, out);
	if (out->len > INC_MAX_PAYLOAD)
		return -ESTALE;
	memcpy(payload, row->payload, out->len);
	return still_held(row, r);
}

int inc_switch_read_sum(const struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t *payload,
			uint32_t *len)
{
	const struct inc_comm_cfg *cfg = &sw->comm[comm];
	struct inc_kept_head head = {};
	int ret;

	ret = read_payload(cfg->flags & INC_COMM_F_UP ? kept_row(sw, comm, cfg->children, r)
						      : sum_row(sw, comm, r),
			   r, payload, &head);
	*len = head.len;
	return ret;
}

int inc_switch_read_partial(const struct inc_switch *sw, uint32_t comm, uint64_t r,
			    uint8_t *payload, struct inc_kept_head *out)
{
	return read_payload(sum_row(sw, comm, r), r, payload, out);
}

uint32_t inc_switch_read_differ(const struct inc_switch *sw, uint32_t comm, uint64_t r)
{
	return LOAD(sum_row(sw, comm, r)->differ);
}

void inc_switch_found_peer(struct inc_switch *sw, uint32_t conn, const uint8_t mac[6])
{
	union inc_mac found = {.known = 1}, was = {};

	memcpy(found.addr, mac, 6);
	__atomic_compare_exchange_n(&sw->conn_state[conn].mac.word, &was.word, found.word, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool inc_switch_route_idle(const struct inc_switch *sw, uint32_t comm, uint64_t *word)
{
	const struct inc_route *route = &sw->routes[comm];
	/* These are read before the word. So if the sum is that of the word, it was complete when
	 * the word was read. */
	uint64_t done = LOAD(route->done);

	done += LOAD(route->refused);
	*word = LOAD(route->word);
	return inc_route_count(*word) == inc_route_count(done);
}

bool inc_switch_move_comm(struct inc_switch *sw, uint32_t comm, uint64_t word, uint32_t cpu)
{
	__u64 was = word, moved = (cpu + 1ull) << INC_ROUTE_CPU_SHIFT | inc_route_count(word);

	return __atomic_compare_exchange_n(&sw->routes[comm].word, &was, moved, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void inc_switch_end_comm(struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t syndrome)
{
	struct inc_comm_state *st = &sw->comm_state[comm];

	__atomic_store_n(&st->error_r, r, __ATOMIC_RELAXED);
	__atomic_store_n(&st->error, syndrome, __ATOMIC_RELEASE);
}

struct inc_conn_state *inc_switch_conn_state(const struct inc_switch *sw)
{
	return sw->conn_state;
}

struct inc_comm_state *inc_switch_comm_state(const struct inc_switch *sw)
{
	return sw->comm_state;
}

struct inc_slot *inc_switch_slots(const struct inc_switch *sw)
{
	return sw->slots;
}

struct inc_buf *inc_switch_kept(const struct inc_switch *sw)
{
	return sw->kept;
}

struct inc_buf *inc_switch_sums(const struct inc_switch *sw)
{
	return sw->sums;
}

struct inc_route *inc_switch_routes(const struct inc_switch *sw)
{
	return sw->routes;
}

struct inc_queue *inc_switch_queues(const struct inc_switch *sw)
{
	return sw->queues;
}
