/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the native builds of the XDP programs (orders, sim, native): the memory of frames,
 * helpers that only move bytes, and a way to set constants. Each build includes this file once,
 * after the programs, in the file that acts as their kernel.
 */
#ifndef ORDERS_FRAMES_H
#define ORDERS_FRAMES_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* below 4 GiB, because struct xdp_md has 32 bits for an address */
#define FRAMES_AT  ((void *)0x20000000)
#define FRAME_ROOM 4096 /* bytes for a frame with its headroom, as in BPF_PROG_TEST_RUN */
#define HEADROOM   256

/* Maps memory for n frames. Returns NULL with errno on failure. */
static inline uint8_t *map_frames(unsigned int n)
{
	void *at = mmap(FRAMES_AT, n * FRAME_ROOM, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* The element of an array map at index i, or NULL. */
static inline void *element(void *base, size_t size, uint32_t n, uint32_t i)
{
	return i < n ? (uint8_t *)base + i * size : NULL;
}

long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 offset, void *buf, __u32 len)
{
	if (ctx->data + offset + len > ctx->data_end)
		return -EINVAL;
	memcpy(buf, (void *)(long)(ctx->data + offset), len);
	return 0;
}

long bpf_xdp_store_bytes(struct xdp_md *ctx, __u32 offset, void *buf, __u32 len)
{
	if (ctx->data + offset + len > ctx->data_end)
		return -EINVAL;
	memcpy((void *)(long)(ctx->data + offset), buf, len);
	return 0;
}

/* Moves the end of the frame by delta bytes. New bytes are zeros, as in the kernel. */
static inline void move_end(struct xdp_md *ctx, int delta)
{
	if (delta > 0)
		memset((void *)(long)ctx->data_end, 0, delta);
	ctx->data_end += delta;
}

/* Makes a constant of the programs writable, as the loader can set it before it loads them. */
static inline void *constant(const volatile void *at, size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)at & ~(page - 1);
	void *writable = (void *)at;

	/* PROT_EXEC, because the linker may put the end of the code on the first page of a table */
	if (mprotect((void *)from, (uintptr_t)at + size - from,
		     PROT_READ | PROT_WRITE | PROT_EXEC)) {
		perror("constants of the XDP programs");
		abort();
	}
	/* otherwise the compiler may assume that the constant never changes */
	inc_opaque(writable);
	return writable;
}

#define CONSTANT(name) constant(&(name), sizeof(name))

#endif
