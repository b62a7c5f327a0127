/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The tables of docs/floats.md must have the values that the library computes, line by line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/reduce/floats.h"

static char text[65536];

static int read_document(void **state)
{
	const char *top = getenv("INC_TOP");
	char path[4096];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/docs/floats.md", top ? top : ".");
	f = fopen(path, "r");
	if (!f)
		return -errno;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	return 0;
}

static void expect_line(const char *line)
{
	const char *found = strstr(text, line);
	size_t n = strlen(line);

	if (!found || (found > text && found[-1] != '\n') || found[n] != '\n')
		fail_msg("docs/floats.md has no line '%s'", line);
}

/* Prints "2^-n", or "-" if no two elements of different size are exact. */
static const char *power(char room[16], int n)
{
	if (n > 0)
		snprintf(room, 16, "2^-%d", n);
	else
		snprintf(room, 16, "-");
	return room;
}

static void bits_by_ranks(void **state)
{
	static const unsigned int log2_ranks[] = {0, 1, 2, 3, 5, 8, 10, 12};
	char line[200], room[4][16];
	struct inc_fixed f;
	unsigned int i;

	for (i = 0; i < sizeof(log2_ranks) / sizeof(*log2_ranks); i++) {
		int bits;

		assert_int_equal(inc_fixed_init(&f, INC_FLOAT32, 1, 1u << log2_ranks[i], NULL), 0);
		bits = (int)f.bits;
		snprintf(line, sizeof(line), "| %u | %d | %s | %s | %s | %s |", f.world, bits,
			 power(room[0], bits - (int)log2_ranks[i]), power(room[1], bits - 24),
			 power(room[2], bits - 11), power(room[3], bits - 8));
		expect_line(line);
		assert_int_equal(inc_fixed_init(&f, INC_FLOAT64, 1, 1u << log2_ranks[i], NULL), 0);
		snprintf(line, sizeof(line), "| %u | %u | %s |", f.world, f.bits,
			 power(room[0], (int)f.bits - 7 - (int)log2_ranks[i]));
		expect_line(line);
	}
}

static void expect_floats(const char *name, const float *x)
{
	char line[200];

	snprintf(line, sizeof(line), "| %s | %.9g | %.9g | %.9g | %.9g |", name, (double)x[0],
		 (double)x[1], (double)x[2], (double)x[3]);
	expect_line(line);
}

static void expect_integers(const char *name, const int32_t *x)
{
	char line[200];

	snprintf(line, sizeof(line), "| %s | %d | %d | %d | %d |", name, x[0], x[1], x[2], x[3]);
	expect_line(line);
}

static void example(void **state)
{
	const float values[2][4] = {{1, 0.1f, 6e-9f, 3}, {2.5f, 0.2f, 1e-9f, -3}};
	struct inc_fixed_head heads[2];
	int32_t fixed[2][4], sums[4];
	struct inc_fixed f;
	float result[4];
	int i;

	assert_int_equal(inc_fixed_init(&f, INC_FLOAT32, 4, 2, NULL), 0);
	assert_int_equal(f.bits, 29);
	for (i = 0; i < 2; i++) {
		inc_fixed_heads(&f, &heads[i], values[i], 4);
		assert_int_equal(heads[i].exponent, 2 + 126);
		assert_int_equal(inc_fixed_put(&f, fixed[i], values[i], heads, 0, 4, NULL), 0);
	}
	for (i = 0; i < 4; i++)
		sums[i] = fixed[0][i] + fixed[1][i];
	inc_fixed_get(&f, result, sums, heads, NULL, 0, 4, 1);
	expect_line("| rank 0 | 1 | 0.1 | 6e-09 | 3 |");
	expect_line("| rank 1 | 2.5 | 0.2 | 1e-09 | -3 |");
	expect_integers("integers of rank 0", fixed[0]);
	expect_integers("integers of rank 1", fixed[1]);
	expect_integers("sum in the switch", sums);
	expect_floats("result", result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_by_ranks),
		cmocka_unit_test(example),
	};

	return cmocka_run_group_tests(tests, read_document, NULL);
}
