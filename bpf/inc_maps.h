/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps and rodata of the switch. Keys, values and who writes what are told here, fields where the
 * values are declared (lib/proto/maps.h). Sizes of 1 are set by the loader from its options.
 */
#ifndef INC_MAPS_H
#define INC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"

/* What a packet names (addresses and queue pair) -> connection id. Writer: loader. One entry per
 * connection; a packet without one is none of ours. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct inc_conn_key);
	__type(value, __u32);
} inc_conn_lookup SEC(".maps");

/* Last bits of a queue pair number (inc_conn_place_of()) -> connection id plus 1, or 0: saves most
 * packets the look-up. A hint: the connection's own numbers say whether it is the one. Writer:
 * loader, with the look-up entry. As many as inc_conn_places() says. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} inc_conn_place SEC(".maps");

/* Address that the switch's connections have at its end -> how many have it. Writer: loader, before
 * the look-up entry. As many as the switch may have connections. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __be32);
	__type(value, __u32);
} inc_own_addr SEC(".maps");

/* Connection id -> what is fixed of it. Writer: loader, before the look-up entry. As many as the
 * switch may have. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_conn_cfg);
} inc_conn_cfg SEC(".maps");

/* Connection id -> how far it is. Writer: the program that holds its busy word; user space only as
 * struct inc_conn_state says. As many as inc_conn_cfg; user space reads it in its own memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_conn_state);
} inc_conn_state SEC(".maps");

/* Communicator -> what is fixed of it. Writer: loader. As many as the switch may have. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_comm_cfg);
} inc_comm_cfg SEC(".maps");

/* Row of a communicator's ranks, counted from its root_base -> the children that have them. Writer:
 * loader. inc_switch_root_rows(). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_root_row);
} inc_root_child SEC(".maps");

/* Communicator -> how far it is. Writer: the last arriver of each chunk, below the root the
 * parent's packet; the slow path, where it ends one. As many as inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_comm_state);
} inc_comm_state SEC(".maps");

/* Result row -> generation and arrival bits of its slot. Writer: XDP, atomically. As many as
 * inc_sum. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_slot);
} inc_slot SEC(".maps");

/* Row of (child, slot), counted from the communicator's kept_base -> what the child gave, or the
 * parent sent. Writer: who holds the connection. The switch's max_rows, 2,304 bytes each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_buf);
} inc_kept SEC(".maps");

/* Row of a slot, counted from the communicator's sum_base -> its sum. Writer: the last
 * arriver. Half as many as inc_kept, 2,304 bytes each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_buf);
} inc_sum SEC(".maps");

struct inc_devmap {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, INC_MAX_CHILDREN + 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

/* Communicator and way (enum inc_ports_row) -> the devmap that its templates are multicast through:
 * receiver -> port and egress program. Writer: loader. INC_PORTS_ROWS times as many as
 * inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct inc_devmap);
} inc_comm_ports SEC(".maps");

/* Communicator below the root -> the parent's port and the egress program. Writer: loader. As many
 * as inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} inc_parent_port SEC(".maps");

/* Connection id of a port's first child -> which of one result's copies left last. Writer: the
 * egress program, on each CPU its own. As many as inc_conn_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_copy);
} inc_copy SEC(".maps");

/* Ifindex -> number of the port. Writer: loader. INC_MAX_PORTS. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INC_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct inc_port);
} inc_port SEC(".maps");

/* Ifindex -> the same port with the egress program, through which answers leave (inc_verdict() says
 * why). Writer: loader. INC_MAX_PORTS. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, INC_MAX_PORTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} inc_answer_port SEC(".maps");

/* Number of the port * INC_PORT_QUEUES + queue -> AF_XDP socket. Writer: slow path. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, INC_MAX_PORTS *INC_PORT_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} inc_xsk SEC(".maps");

/* Counter -> its value. Writer: both programs, on each CPU its own. INC_CTR_MAX. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, INC_CTR_MAX);
	__type(key, __u32);
	__type(value, __u64);
} inc_counter SEC(".maps");

/* What the slow path must hear of, oldest first. Writer: XDP. 64 KB. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} inc_event SEC(".maps");

/* Key 0: where packets are checked that have no row of their own (yet). Writer: XDP, on each CPU
 * its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_buf);
} inc_scratch SEC(".maps");

/* CRC tables, made by the loader (loader/inc_crc_tables.c). */
const volatile __u32 inc_crc_table[8][256];       /* byte, then k zero bytes */
const volatile __u32 inc_shift_table[10][4][256]; /* byte j of a state, past 4 << p zero bytes */
const volatile bool inc_check_icrc = true;        /* false for measuring only */
/* Entries of inc_conn_place. */
const volatile __u32 inc_places = 1;
/* The ports run this in generic mode. */
const volatile bool inc_generic = false;
/* 1: copies share their bytes (inc_is_shared_copy()), so results are left to the slow path. Writer:
 * the egress program, once and for all. */
__u32 inc_copies_shared;
/* Whether this CPU may reorder stores, or loads (INC_ORDER_STORES): then inc_publish*() and
 * inc_barrier() need an atomic instruction, for which x86 does not pay. Writer: loader. */
const volatile bool inc_order_stores = true;

/* verifier 6.1: keeps the compiler from merging range checks into a form that it cannot follow. */
#define inc_opaque(var) asm volatile("" : "+r"(var))

/* Whoever reads value in *p sees all that was stored before it; what is stored after it is
 * seen by nobody who does not. */
static __always_inline void inc_publish64(__u64 *p, __u64 value)
{
	asm volatile("" ::: "memory");
	if (inc_order_stores)
		__sync_lock_test_and_set(p, value);
	else
		*(volatile __u64 *)p = value;
	asm volatile("" ::: "memory");
}

static __always_inline void inc_publish32(__u32 *p, __u32 value)
{
	asm volatile("" ::: "memory");
	if (inc_order_stores)
		__sync_lock_test_and_set(p, value);
	else
		*(volatile __u32 *)p = value;
	asm volatile("" ::: "memory");
}

/* What was loaded and stored before it is done before anything after it. An atomic that returns a
 * value is a barrier whatever memory it works on. */
static __always_inline void inc_barrier(void)
{
	__u64 nothing = 0;

	asm volatile("" ::: "memory");
	if (inc_order_stores)
		__sync_lock_test_and_set(&nothing, 0);
	asm volatile("" ::: "memory");
}

static __always_inline void inc_count_add(enum inc_counter_id id, __u64 n)
{
	__u32 key = id;
	__u64 *value = bpf_map_lookup_elem(&inc_counter, &key);

	if (value)
		*value += n;
}

static __always_inline void inc_count(enum inc_counter_id id)
{
	inc_count_add(id, 1);
}

static __always_inline void inc_emit(enum inc_event_type type, __u32 comm, __u32 conn, __u32 arg,
				     __u64 r, __u32 mask)
{
	struct inc_event *e = bpf_ringbuf_reserve(&inc_event, sizeof(*e), 0);

	if (!e) {
		inc_count(INC_CTR_X_EVENT_LOST);
		return;
	}
	e->time_ns = bpf_ktime_get_ns();
	e->type = type;
	e->comm = comm;
	e->conn = conn;
	e->arg = arg;
	e->r = r;
	e->mask = mask;
	e->resv = 0;
	bpf_ringbuf_submit(e, 0);
}

#endif
