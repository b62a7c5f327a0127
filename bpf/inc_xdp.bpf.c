/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The switch's XDP programs: one for the packets received on each port, one for those of them that
 * another CPU handles, and one for the packets that the switch sends.
 */
#include "bpf/inc_egress.h"
#include "bpf/inc_handle.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_steer.h"
#include "bpf/inc_template.h"

SEC("xdp")
int inc_switch(struct xdp_md *ctx)
{
	enum inc_counter_id c;

	inc_count(INC_CTR_RX);
	c = inc_handle(ctx, INC_AT_PORT);
	inc_count(c);
	return inc_verdict(ctx, c, INC_AT_PORT);
}

/* Handles a packet on the CPU of its communicator. A port's program has counted it as received. */
SEC("xdp/cpumap")
int inc_steered(struct xdp_md *ctx)
{
	enum inc_counter_id c;

	inc_take_steered();
	c = inc_handle(ctx, INC_AT_CPU);
	inc_count(c);
	return inc_verdict(ctx, c, INC_AT_CPU);
}

/* This one program for all ports runs on each copy and answer that leaves a port. */
SEC("xdp/devmap")
int inc_egress(struct xdp_md *ctx)
{
	if (inc_is_shared_copy(ctx)) {
		if (!inc_copies_shared)
			inc_emit(INC_EVENT_COPIES_SHARED, 0, 0, 0, 0, 0);
		inc_copies_shared = 1;
		inc_count(INC_CTR_X_COPY_DROP);
		return XDP_DROP;
	}
	if (!inc_is_template(ctx))
		return XDP_PASS;
	return inc_egress_copy(ctx, ctx->egress_ifindex);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
