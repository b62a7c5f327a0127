/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The switch's code as plain XDP programs for BPF_PROG_TEST_RUN, which rejects devmap programs and
 * repeats one frame. They are the egress program, and loops for the benchmark that restore state
 * and headers before each round. The harness shares the maps of inc_xdp.bpf.o with them.
 */
#include "bpf/inc_egress.h"
#include "bpf/inc_handle.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_template.h"

__u32 inc_test_egress_ifindex;

SEC("xdp")
int inc_egress_test(struct xdp_md *ctx)
{
	return inc_egress_copy(ctx, inc_test_egress_ifindex);
}

/* The benchmark sets these: the frame's own headers, and the state from which each round starts.
 * The headers are copied in words, as a device writes them. After stores of bytes, each load of a
 * header's word would wait until the stores are in the cache. */
__u64 inc_bench_headers[(INC_HEADERS_LEN + 7) / 8];
__u32 inc_bench_conn;
__u32 inc_bench_slot_row;
__u64 inc_bench_arrived; /* arrival bits of the other children, which every round restores */

static __always_inline int inc_bench_reset(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 conn = inc_bench_conn, row = inc_bench_slot_row;
	struct inc_conn_state *st = bpf_map_lookup_elem(&inc_conn_state, &conn);
	struct inc_slot *slot = bpf_map_lookup_elem(&inc_slot, &row);

	if (!st || !slot || data + sizeof(inc_bench_headers) > end)
		return -1;
#pragma unroll
	for (__u32 i = 0; i < sizeof(inc_bench_headers) / 8; i++)
		((__u64 *)data)[i] = inc_bench_headers[i];
	st->rx_next = 0;
	slot->word = inc_bench_arrived;
	return 0;
}

SEC("xdp")
int inc_bench_empty(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* A program that only restores the state, as each round of the benchmark's other programs does. Its
 * time shows how much of theirs is spent on that. */
SEC("xdp")
int inc_bench_reset_only(struct xdp_md *ctx)
{
	return inc_bench_reset(ctx) ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp")
int inc_bench_handle(struct xdp_md *ctx)
{
	enum inc_counter_id c;

	if (inc_bench_reset(ctx))
		return XDP_ABORTED;
	inc_count(INC_CTR_RX);
	c = inc_handle(ctx, INC_AT_PORT);
	inc_count(c);
	return inc_verdict(ctx, c, INC_AT_PORT);
}

/* The template that the benchmark provides, a struct inc_template as inc_multicast.h makes it. */
__u32 inc_bench_template[sizeof(struct inc_template) / 4];

static __always_inline int inc_bench_put_template(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;

	if (data + sizeof(inc_bench_template) > (void *)(long)ctx->data_end)
		return -1;
	__builtin_memcpy(data, inc_bench_template, sizeof(inc_bench_template));
	return 0;
}

SEC("xdp")
int inc_bench_template_only(struct xdp_md *ctx)
{
	return inc_bench_put_template(ctx) ? XDP_ABORTED : XDP_PASS;
}

/* Benchmark program: makes one child's copy from the template, which it first puts into the
 * packet. */
SEC("xdp")
int inc_bench_copy(struct xdp_md *ctx)
{
	if (inc_bench_put_template(ctx) || inc_make_copy(ctx, inc_test_egress_ifindex))
		return XDP_ABORTED;
	inc_count(INC_CTR_X_COPY);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
