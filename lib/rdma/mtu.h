/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path MTUs of InfiniBand and RoCE: bytes of payload per packet, 256 to 4096, and their codes 1 to
 * 5 in verbs and on the wire (enum ibv_mtu has the same numbers). All code here counts in bytes;
 * codes are used only in calls of libibverbs and in messages.
 */
#ifndef INC_RDMA_MTU_H
#define INC_RDMA_MTU_H

#define INC_RDMA_MTU_MIN_BYTES 256u
#define INC_RDMA_MTU_MAX_BYTES 4096u

/* Returns the MTU in bytes that a code stands for, and 0 for an invalid code. */
static inline unsigned int inc_rdma_mtu_bytes(unsigned int code)
{
	return code >= 1 && code <= 5 ? INC_RDMA_MTU_MIN_BYTES / 2 << code : 0;
}

/* Returns the code of the largest MTU that is at most so many bytes, and 0 below 256. */
static inline unsigned int inc_rdma_mtu_code(unsigned int bytes)
{
	unsigned int code = 0;

	while (code < 5 && inc_rdma_mtu_bytes(code + 1) <= bytes)
		code++;
	return code;
}

#endif
