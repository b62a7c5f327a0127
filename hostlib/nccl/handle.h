/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handle that listen fills, NCCL carries to the other rank, and connect reads. NCCL passes the
 * same memory to each call of connect, so the last member, which only that process uses, holds the
 * connection that is being made. The functions are pure, and control_msg.c has them.
 */
#ifndef HA_HANDLE_H
#define HA_HANDLE_H

#include <assert.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/tcp.h"
#include "lib/base/err.h"

#define HA_HANDLE_DUAL 0x1u /* the listener's device has two rails */

/* The handle is packed, because NCCL stores it in an array of char, at any address. */
struct ha_handle {
	uint32_t magic; /* magic number; all members but `comm` are in network order */
	uint8_t version, flags, family /* 4 or 6 */, zero;
	uint16_t tcp_port;
	/* address on which the listener listens; IPv4 uses the first 4 bytes */
	uint8_t address[16];
	uint8_t scope[4]; /* IPv6 */
	uint8_t nonce[8];
	uint8_t rest[82]; /* 0 */
	/* struct ha_comm of the connecting process, which only that process uses; listen sets 0 */
	uint64_t comm;
} __attribute__((packed, aligned(1)));
static_assert(sizeof(struct ha_handle) == HA_NCCL_HANDLE_BYTES, "NCCL's handles");

/* Fills a handle. The caller has chosen the nonce at random. */
void ha_handle_make(struct ha_handle *handle, const union ha_address *address, unsigned int flags,
		    uint64_t nonce);
/* Reads a handle. Returns 0, or -EPROTO and the reason: it is of another plugin or another version,
 * or has no valid address. */
int ha_handle_read(const struct ha_handle *handle, union ha_address *address, unsigned int *flags,
		   uint64_t *nonce, struct inc_err *err);

#endif
