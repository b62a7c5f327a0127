/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 states, of which the ICRC is made. A state is the register of the CRC, without initial and
 * final inversion. The functions use carry-less multiplications of the widest vectors that the CPU
 * has. isa-l computes the CRC on other CPUs, and that of fewer than four bytes. For any thread.
 */
#ifndef INC_ROCE_CRC_H
#define INC_ROCE_CRC_H

#include <stdbool.h>
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

/* ---- the sets of instructions that compute it, as crc.c calls them ---- */

#define INC_CRC_LANES 4 /* number of vectors that are folded side by side */
/* least length of the data for a set's update(); isa-l processes shorter data */
#define INC_CRC_LEAST      4
#define INC_CRC_COPY_LEAST 16 /* least length of the data for a set's copy() */

struct inc_crc_kernels {
	bool (*usable)(void); /* whether this CPU has the instructions */
	/* len: at least INC_CRC_LEAST for update(), and INC_CRC_COPY_LEAST for copy() */
	uint32_t (*update)(uint32_t state, const uint8_t *data, size_t len);
	uint32_t (*copy)(uint32_t state, uint8_t *to, const uint8_t *data, size_t len);
};

/* The sets. Only those for the CPUs of this architecture are compiled. */
extern const struct inc_crc_kernels inc_crc_clmul256, inc_crc_clmul512, inc_crc_pmull;

#endif
