/* SPDX-License-Identifier: BSD-2-Clause */
/* The sets of instructions that compute CRC-32 (crc.h), as crc.c calls them. */
#ifndef INC_CRC_SETS_H
#define INC_CRC_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INC_CRC_LANES      4  /* vectors that a set folds side by side */
#define INC_CRC_LEAST      4  /* a set has so many bytes at least; isa-l has shorter data */
#define INC_CRC_COPY_LEAST 16 /* the same where the set copies */

struct inc_crc_kernels {
	bool (*usable)(void); /* whether this CPU has the instructions */
	/* len: INC_CRC_LEAST and INC_CRC_COPY_LEAST at least */
	uint32_t (*update)(uint32_t state, const uint8_t *data, size_t len);
	uint32_t (*copy)(uint32_t state, uint8_t *to, const uint8_t *data, size_t len);
};

/* Those of other CPUs do not exist. */
extern const struct inc_crc_kernels inc_crc_clmul256, inc_crc_clmul512, inc_crc_pmull;

#endif
