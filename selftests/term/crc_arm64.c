/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the CRC of arm64 with one that is computed bit by bit, at every length up to some, and
 * at several addresses. test_crc_arm64 builds this program for arm64. Its isa-l is a fake, because
 * that library exists for the machine's own CPU only. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "lib/roce/crc.h"

#define MAX_LEN 1300
#define SHIFTS  5
#define FILL    0x5a /* bytes that must not be written */

static uint32_t by_bits(uint32_t state, const uint8_t *data, uint64_t len)
{
	int bit;

	while (len--) {
		state ^= *data++;
		for (bit = 0; bit < 8; bit++)
			state = state >> 1 ^ (state & 1 ? 0xedb88320 : 0);
	}
	return state;
}

/* isa-l's function, which lib/roce/crc.c calls for fewer than four bytes. */
uint32_t crc32_gzip_refl(uint32_t inverted, const uint8_t *data, uint64_t len)
{
	return ~by_bits(~inverted, data, len);
}

static unsigned int check_length(const uint8_t *from, size_t len)
{
	const uint32_t state = (uint32_t)len * 2654435761u, want = by_bits(state, from, len);
	uint8_t to[MAX_LEN + 2], right[MAX_LEN + 2];

	memset(to, FILL, sizeof(to));
	memset(right, FILL, sizeof(right));
	memcpy(right + 1, from, len);
	return (inc_crc32_update(state, from, len) != want) +
	       (inc_crc32_copy(state, to + 1, from, len) != want) + !!memcmp(to, right, sizeof(to));
}

int main(void)
{
	static uint8_t data[MAX_LEN + SHIFTS];
	unsigned int i, shift, wrong = 0;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	for (i = 0; i <= MAX_LEN; i++)
		for (shift = 0; shift < SHIFTS; shift++)
			wrong += check_length(data + shift, i);
	printf("%s %u\n", inc_crc_set_names[inc_crc_set()], wrong);
	return wrong != 0;
}
