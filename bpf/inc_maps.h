/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps and read-only data of the switch, and the functions that address rows of the maps. The
 * comments here give the keys, the values and the writers. lib/proto/maps.h describes the fields of
 * the values. If a size is 1 here, the loader replaces it by the size that its options give.
 */
#ifndef INC_MAPS_H
#define INC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "lib/proto/desc.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"

/* Addresses and queue pair number of a packet -> connection id. Writer: loader. One entry per
 * connection; a packet without an entry is not for the switch. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct inc_conn_key);
	__type(value, __u32);
} inc_conn_lookup SEC(".maps");

/*
 * Last bits of a queue pair number (inc_conn_place_of()) -> connection id plus 1, or 0. This map
 * saves the look-up in inc_conn_lookup for most packets. The id is a hint, so the program compares
 * it with the connection's own numbers. Writer: loader, with the look-up entry. inc_conn_places()
 * gives its size.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} inc_conn_place SEC(".maps");

/* An address of the switch that connections use -> number of these connections. Writer: loader,
 * before the look-up entry. Size: the most connections of the switch. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __be32);
	__type(value, __u32);
} inc_own_addr SEC(".maps");

/* Connection id -> configuration. Writer: loader, before the look-up entry. Size: the most
 * connections of the switch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_conn_cfg);
} inc_conn_cfg SEC(".maps");

/* Connection id -> state. Writer: the program that holds its busy word; user space only as
 * struct inc_conn_state allows. Size: like inc_conn_cfg. User space maps it into its memory and
 * reads it there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_conn_state);
} inc_conn_state SEC(".maps");

/* Communicator -> configuration. Writer: loader. Size: the most communicators of the switch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_comm_cfg);
} inc_comm_cfg SEC(".maps");

/* Row of a communicator's ranks, counted from the communicator's root_base -> the children behind
 * which the ranks are. Writer: loader. Size: inc_switch_root_rows(). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_root_row);
} inc_root_child SEC(".maps");

/* Communicator -> state. Writers: the CPU with the last contribution to a chunk; below the root
 * the CPU with the parent's packet; the slow path, when it ends a communicator. Size: like
 * inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_comm_state);
} inc_comm_state SEC(".maps");

/* Row of a slot -> the slot's generation and arrival bits. Writer: XDP, atomically. Size: like
 * inc_sum. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_slot);
} inc_slot SEC(".maps");

/* Row of (child, slot), counted from the communicator's kept_base -> the child's contribution,
 * or the parent's result. Writer: the CPU that has taken the connection. Size: the switch's
 * max_rows, 2,304 bytes each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_buf);
} inc_kept SEC(".maps");

/* Row of a slot, counted from the communicator's sum_base -> its sum. Writer: the CPU with the
 * last contribution. Size: half of inc_kept, 2,304 bytes each. */
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

/* Communicator and direction (enum inc_ports_row) -> the devmap through which the communicator's
 * templates are multicast: receiver -> port and egress program. Writer: loader. Size:
 * INC_PORTS_ROWS times that of inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct inc_devmap);
} inc_comm_ports SEC(".maps");

/* Communicator below the root -> the parent's port and the egress program. Writer: loader. Size:
 * like inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} inc_parent_port SEC(".maps");

/* Connection id of a port's first child -> which copy of a result left last. Writer: the egress
 * program, each CPU in its own. Size: like inc_conn_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_copy);
} inc_copy SEC(".maps");

/* Ifindex -> number of the port. Writer: loader. Size: INC_MAX_PORTS. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INC_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct inc_port);
} inc_port SEC(".maps");

/* Ifindex of a port -> that port, with the egress program. In inc_verdict() an answer leaves
 * through the port on which its packet arrived. Writer: loader. Size: INC_MAX_PORTS. */
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

/* Counter -> its value. Writers: both programs, each CPU in its own. Size: INC_CTR_MAX. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, INC_CTR_MAX);
	__type(key, __u32);
	__type(value, __u64);
} inc_counter SEC(".maps");

/* Communicator -> its CPU, and how many of its packets are on their way to that CPU. Writers: the
 * programs; user space as struct inc_route says. Size: like inc_comm_cfg. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_route);
} inc_route SEC(".maps");

/* CPU -> the queue by which packets reach this CPU, and the program inc_steered, which handles them
 * there. Writer: loader. Size: the machine's CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_cpumap_val));
} inc_cpu SEC(".maps");

/* CPU -> how full this queue is. Writers: the programs. Size: like inc_cpu. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_queue);
} inc_queue SEC(".maps");

/* Ring buffer of events for the slow path, oldest first. Writer: XDP. Size: 64 KB. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} inc_event SEC(".maps");

/* Key 0 -> a row in which the program checks packets that have no row of their own yet. Writer:
 * XDP, each CPU in its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_buf);
} inc_scratch SEC(".maps");

/* CRC tables, filled by the loader (loader/inc_crc_tables.c). */
/* [k][b]: the CRC state after byte b and k zero bytes, from state 0 */
const volatile __u32 inc_crc_table[8][256];
/* [p][j][b]: the state whose byte j is b, advanced over 4 << p zero bytes */
const volatile __u32 inc_shift_table[10][4][256];
/* false: the program does not check ICRCs, which is for measurements only */
const volatile bool inc_check_icrc = true;
/* Number of entries of inc_conn_place. */
const volatile __u32 inc_places = 1;
/* Whether the ports run the XDP programs in generic mode. */
const volatile bool inc_generic = false;
/* Whether communicators have CPUs (inc_steer.h). */
const volatile bool inc_steers = false;
/* If it is 1, the kernel's copies of a frame share their bytes (inc_is_shared_copy()), so the slow
 * path sends all results. Writer: the egress program, which never resets it. */
__u32 inc_copies_shared;
/* Whether this CPU may reorder stores, or loads (INC_ORDER_STORES). Then inc_publish*() and
 * inc_barrier() need an atomic instruction, which x86 does not need. Writer: loader. */
const volatile bool inc_order_stores = true;

/* Keeps the compiler from merging range checks into a form that the verifier of Linux 6.1 cannot
 * follow. */
#define inc_opaque(var) asm volatile("" : "+r"(var))

/* Stores value in *p in order with other stores. A CPU that reads value from *p sees all earlier
 * stores of this CPU, and a CPU that does not read it there sees no later store. */
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

/* Orders earlier loads before later loads, and earlier stores before later stores. Any atomic
 * instruction that returns a value does so, so it works on an unimportant word. */
static __always_inline void inc_barrier(void)
{
	__u64 nothing = 0;

	asm volatile("" ::: "memory");
	if (inc_order_stores)
		__sync_lock_test_and_set(&nothing, 0);
	asm volatile("" ::: "memory");
}

/* Finds a child's row in inc_kept. The parent's rows are those of child number comm->children. */
static __always_inline struct inc_buf *inc_kept_row(const struct inc_comm_cfg *comm, __u32 child,
						    __u32 slot)
{
	__u32 row = comm->kept_base + (child << (comm->log2_slots & 15)) + slot;

	return bpf_map_lookup_elem(&inc_kept, &row);
}

static __always_inline struct inc_buf *inc_sum_row(const struct inc_comm_cfg *comm, __u32 slot)
{
	__u32 row = comm->sum_base + slot;

	return bpf_map_lookup_elem(&inc_sum, &row);
}

/* The child behind which the root rank of the collective is, plus 1. It is 0 if no child has the
 * root, or if the collective has no root. */
static __always_inline __u32 inc_root_child_plus_1(const struct inc_comm_cfg *comm, __u32 desc)
{
	__u32 root = INC_DESC_ROOT(desc), row;
	struct inc_root_row *children;

	if (!inc_has_root(desc) || !inc_root_row(comm, root, &row))
		return 0;
	children = bpf_map_lookup_elem(&inc_root_child, &row);
	return children ? *inc_root_place(children, root) : 0;
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
