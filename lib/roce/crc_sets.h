/* SPDX-License-Identifier: BSD-2-Clause */
/* The sets of instructions that compute CRC-32 (crc.h), as crc.c calls them. */
#ifndef INC_CRC_SETS_H
#define INC_CRC_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
