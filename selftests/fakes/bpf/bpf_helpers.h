/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's helpers for XDP programs. Replaces libbpf's header of this name when the programs
 * are compiled natively. Maps are variables of which only the address matters. The helpers are
 * functions of the file that acts as the kernel and has the contents of each map:
 * orders/data_path.c, native/native.c or sim/xdp.c.
 */
#ifndef SELFTESTS_FAKES_BPF_HELPERS_H
#define SELFTESTS_FAKES_BPF_HELPERS_H

#include <linux/types.h>

struct xdp_md;

#undef __always_inline
#define SEC(name)
#define __uint(name, val)  int(*name)[val]
#define __type(name, val)  typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define __always_inline    inline __attribute__((always_inline))
#define __noinline         static __attribute__((noinline))

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_redirect_map(void *map, __u64 key, __u64 flags);
long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 offset, void *buf, __u32 len);
long bpf_xdp_store_bytes(struct xdp_md *ctx, __u32 offset, void *buf, __u32 len);
long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta);
long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta);
void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags);
void bpf_ringbuf_submit(void *data, __u64 flags);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_smp_processor_id(void);

/* This helper is the same for all, so it is here. */
#define bpf_loop(rounds, callback, ctx, flags)                        \
	({                                                            \
		__u32 round_ = 0;                                     \
		while (round_ < (rounds) && !(callback)(round_, ctx)) \
			round_++;                                     \
		(long)round_;                                         \
	})

#endif
