/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/proto/roce.h"
#include "loader/inc_crc_tables.h"

static uint32_t zero_byte(const uint32_t table[256], uint32_t state)
{
	return table[state & 0xff] ^ state >> 8;
}

static uint32_t shifted(const uint32_t shift[4][256], uint32_t state)
{
	return shift[0][state & 0xff] ^ shift[1][state >> 8 & 0xff] ^ shift[2][state >> 16 & 0xff] ^
	       shift[3][state >> 24];
}

void inc_crc_fill_tables(uint32_t crc[INC_CRC_SLICES][256],
			 uint32_t shift[INC_SHIFT_POWERS][4][256])
{
	uint32_t b, state;
	int i, j, k, p;

	for (b = 0; b < 256; b++) {
		state = b;
		for (i = 0; i < 8; i++)
			state = state & 1 ? state >> 1 ^ INC_CRC_POLY : state >> 1;
		crc[0][b] = state;
	}
	for (k = 1; k < INC_CRC_SLICES; k++)
		for (b = 0; b < 256; b++)
			crc[k][b] = zero_byte(crc[0], crc[k - 1][b]);

	for (j = 0; j < 4; j++) {
		for (b = 0; b < 256; b++) {
			state = b << (8 * j);
			for (i = 0; i < 4; i++)
				state = zero_byte(crc[0], state);
			shift[0][j][b] = state;
		}
	}
	/* to advance a state over twice as many zero bytes as table p - 1 does, use that table
	 * twice */
	for (p = 1; p < INC_SHIFT_POWERS; p++)
		for (j = 0; j < 4; j++)
			for (b = 0; b < 256; b++)
				shift[p][j][b] = shifted(shift[p - 1], shift[p - 1][j][b]);
}
