/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What listen gives, NCCL carries to the other rank, and connect takes. Its first part is the same
 * everywhere; NCCL hands connect the same memory on each call, so that the last part, own to that
 * process, can hold what is under way. Pure.
 */
#ifndef HA_HANDLE_H
#define HA_HANDLE_H

#include <assert.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/tcp.h"
#include "lib/base/err.h"

#define HA_HANDLE_DUAL 0x1u /* the listener has two rails */

/* NCCL keeps it in an array of char, at any address. */
struct ha_handle {
	uint32_t magic; /* network order, as all of it but `comm` */
	uint8_t version, flags, family /* 4 or 6 */, zero;
	uint16_t tcp_port;
	uint8_t address[16]; /* IPv4: the first 4 */
	uint8_t scope[4];    /* IPv6 */
	uint8_t nonce[8];
	uint8_t rest[82]; /* 0 */
	uint64_t comm;    /* connect's, in its own process; 0 from listen */
} __attribute__((packed, aligned(1)));
static_assert(sizeof(struct ha_handle) == HA_NCCL_HANDLE_BYTES, "NCCL's handles");

/* The nonce is of getrandom(). */
void ha_handle_make(struct ha_handle *handle, const union ha_address *address, unsigned int flags,
		    uint64_t nonce);
/* 0, or -EPROTO and why: another magic (of another plugin), another version. */
int ha_handle_read(const struct ha_handle *handle, union ha_address *address, unsigned int *flags,
		   uint64_t *nonce, struct inc_err *err);

#endif
