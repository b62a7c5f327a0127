// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include "report.h"

static int failures;

void report_ok(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("ok ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	fflush(stdout);
}

static void line(const char *what, const char *name, const char *fmt, va_list ap)
{
	printf("%s %s: ", what, name);
	vprintf(fmt, ap);
	printf("\n");
	fflush(stdout);
}

void report_skip(const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("skip", name, fmt, ap);
	va_end(ap);
}

void report_fail(const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("not ok", name, fmt, ap);
	va_end(ap);
	failures++;
}

int report_exit(void)
{
	return failures ? 1 : 0;
}

uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint32_t rng_below(struct rng *rng, uint32_t n)
{
	return rng_next(rng) % n;
}

bool rng_chance(struct rng *rng, uint32_t permille)
{
	return rng_below(rng, 1000) < permille;
}

uint64_t rng_mix(uint64_t a, uint64_t b)
{
	struct rng rng = {a * 0xd1342543de82ef95ull + b};

	return rng_next(&rng);
}
