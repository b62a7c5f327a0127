// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lets everything through, for the hosts' ends of the wires. A veth of kernel 6.1 that
 * sends by XDP_TX wakes its peer only where the peer has an XDP program: with GRO alone
 * the frames lie in the peer's ring until a redirected one comes.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int xdp_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
