/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 states, of which the ICRC is made. A state is the register of the CRC, without initial and
 * final inversion. The functions use carry-less multiplications of the widest vectors that the CPU
 * has. isa-l computes the CRC on other CPUs, and that of fewer than four bytes. For any thread.
 */
#ifndef INC_ROCE_CRC_H
#define INC_ROCE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC state after len more bytes, which are at data. */
uint32_t inc_crc32_update(uint32_t state, const void *data, size_t len);

/* Does the same as inc_crc32_update(), and copies the bytes to `to`, which must not overlap with
 * them, in the same pass over the data. */
uint32_t inc_crc32_copy(uint32_t state, void *to, const void *data, size_t len);

/* The sets of instructions that compute a CRC. A CPU uses the last one in this list that it has. */
enum inc_crc_set {
	INC_CRC_ISAL,     /* isa-l, which chooses instructions itself */
	INC_CRC_PMULL,    /* 128-bit PMULL of arm64 */
	INC_CRC_CLMUL256, /* 256-bit VPCLMULQDQ */
	INC_CRC_CLMUL512, /* 512-bit VPCLMULQDQ, with AVX-512 */
	INC_N_CRC_SETS,
};

extern const char *const inc_crc_set_names[INC_N_CRC_SETS];

/* Returns the set of instructions that computes CRCs on this CPU. */
enum inc_crc_set inc_crc_set(void);
/* Replaces the set, for a test, while no other thread computes a CRC. Returns -ENOTSUP if this CPU
 * does not have it. */
int inc_crc_use(enum inc_crc_set set);

#endif
