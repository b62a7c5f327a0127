/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives a communicator's packets to its CPU. A NIC with several receive queues spreads connections
 * over CPUs, so results of one communicator could overtake each other on their way out. With
 * inc_steers set, each communicator has a CPU. A port's program counts each packet in the
 * communicator's route. If another CPU than its own is named there, it puts the packet into the
 * queue of that CPU, where the program inc_steered handles it. docs/decisions.md, "Steering",
 * says why the order holds.
 */
#ifndef INC_STEER_H
#define INC_STEER_H

#include "lib/proto/counters.h"
#include "lib/proto/maps.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_parse.h"

/* The program that handles a packet: that of its port, or that of its communicator's CPU. */
enum inc_where { INC_AT_PORT, INC_AT_CPU };

/* Whether the packet is a NAK or RNR NAK. It stays on the CPU that received it, because the slow
 * path's AF_XDP sockets accept frames from there only. */
static __always_inline bool inc_is_nak(const struct inc_packet *pkt)
{
	return pkt->opcode == INC_OP_ACK &&
	       (pkt->imm >> 24 & INC_AETH_TYPE_MASK) != INC_AETH_TYPE_ACK;
}

/* Puts the packet into the queue of a CPU. The route has counted the packet. */
static __always_inline enum inc_counter_id inc_enqueue(struct inc_route *route, __u32 cpu)
{
	struct inc_queue *queue = bpf_map_lookup_elem(&inc_queue, &cpu);
	enum inc_counter_id c = INC_CTR_DROP_CONFIG;
	__u64 before;

	if (queue) {
		before = __sync_fetch_and_add(&queue->put, 1);
		/* negative if later packets of other ports have left the queue meanwhile */
		if ((__s64)(before - *(volatile __u64 *)&queue->taken) >= INC_QUEUE_ROOM)
			c = INC_CTR_DROP_QUEUE_FULL;
		else if (bpf_redirect_map(&inc_cpu, cpu, 0) == XDP_REDIRECT)
			return INC_CTR_X_STEERED;
		__sync_fetch_and_add(&queue->put, -1);
	}
	__sync_fetch_and_add(&route->refused, 1);
	return c;
}

/* Whether packets that the route had counted before this packet are still in the queue. They may be
 * older packets of the same connection, if its receive queue was served by another CPU until now.
 * So this packet must not overtake them. */
static __always_inline bool inc_is_waiting(struct inc_route *route, __u64 before)
{
	__u64 handled = *(volatile __u64 *)&route->done + *(volatile __u64 *)&route->refused;

	return inc_route_count(before) != inc_route_count(handled);
}

/*
 * Counts the packet in its communicator's route. Puts it into the queue of the communicator's CPU
 * if that is another one, or if older packets wait there. Returns INC_CONTINUE if this CPU handles
 * the packet. Then *counted is the route in which the packet is counted, or stays NULL.
 */
static __always_inline enum inc_counter_id inc_steer(const struct inc_packet *pkt,
						     const struct inc_match *m,
						     enum inc_where where,
						     struct inc_route **counted)
{
	__u32 comm = m->cfg->comm, cpu_plus_1;
	struct inc_route *route = bpf_map_lookup_elem(&inc_route, &comm);
	__u64 before;

	if (!route)
		return INC_CTR_DROP_CONFIG;
	if (where == INC_AT_PORT) {
		if (inc_is_nak(pkt))
			return INC_CONTINUE;
		before = __sync_fetch_and_add(&route->word, 1);
		cpu_plus_1 = inc_route_cpu_plus_1(before);
		if (!cpu_plus_1)
			return INC_CONTINUE;
		if (cpu_plus_1 - 1 != bpf_get_smp_processor_id() || inc_is_waiting(route, before))
			return inc_enqueue(route, cpu_plus_1 - 1);
	}
	*counted = route;
	return INC_CONTINUE;
}

/* Counts a packet as handled. Only the communicator's CPU calls this, one program at a time. */
static __always_inline void inc_route_done(struct inc_route *route)
{
	inc_publish64(&route->done, route->done + 1);
}

/* Counts a packet that has left the queue of this CPU. */
static __always_inline void inc_take_steered(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct inc_queue *queue = bpf_map_lookup_elem(&inc_queue, &cpu);

	if (queue)
		inc_publish64(&queue->taken, queue->taken + 1);
}

#endif
