/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The CRC of each set of instructions that this CPU has, beside zlib's. The sanitizer notices a
 * byte that is read or written beyond the data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "lib/roce/crc.h"

#define MAX_LEN 4200 /* more than a packet with 4,096 bytes of data */
#define SHIFTS  3    /* addresses that are tried, from the start of a block on */

/* Data in a block of exactly their size, of which the first `shift` bytes are not used. */
static uint8_t *make_data(size_t shift, size_t len)
{
	uint8_t *data = malloc(shift + len);
	size_t i;

	for (i = 0; i < shift + len; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13 ^ len);
	return data;
}

static void check_length(size_t shift, size_t len)
{
	const uint32_t state = (uint32_t)len * 2654435761u + (uint32_t)shift;
	uint8_t *data = make_data(shift, len), *to = malloc(len + SHIFTS - shift);
	const uint8_t *from = data + shift;
	/* zlib inverts the state before and after */
	const uint32_t want = ~(uint32_t)crc32(~state, from, len);

	assert_int_equal(inc_crc32_update(state, from, len), want);
	assert_int_equal(inc_crc32_copy(state, to + SHIFTS - shift, from, len), want);
	assert_memory_equal(to + SHIFTS - shift, from, len);
	free(to);
	free(data);
}

static void every_length(void **test)
{
	const enum inc_crc_set usual = inc_crc_set();
	enum inc_crc_set set;
	size_t len, shift;

	for (set = 0; set < INC_N_CRC_SETS; set++) {
		if (inc_crc_use(set)) {
			printf("# this CPU does not have %s\n", inc_crc_set_names[set]);
			continue;
		}
		assert_int_equal(inc_crc_set(), set);
		for (len = 0; len <= MAX_LEN; len++)
			for (shift = 0; shift <= SHIFTS; shift++)
				check_length(shift, len);
	}
	assert_int_equal(inc_crc_use(usual), 0);
}

/* A set is used as soon as a CPU has it, and the last one has precedence. */
static void chosen_set(void **test)
{
	const enum inc_crc_set usual = inc_crc_set();
	enum inc_crc_set set;

	for (set = usual + 1; set < INC_N_CRC_SETS; set++)
		assert_int_not_equal(inc_crc_use(set), 0);
	assert_int_equal(inc_crc_use(usual), 0);
	printf("# %s\n", inc_crc_set_names[usual]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chosen_set),
		cmocka_unit_test(every_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
