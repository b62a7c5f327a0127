/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An XDP program of another owner: counts packets and passes them on. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 other_packets;

SEC("xdp")
int other_pass(struct xdp_md *ctx)
{
	__sync_fetch_and_add(&other_packets, 1);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
