/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares SUMs of many sources with a copy that reads and writes as many bytes. Each round
 * measures both. One run has messages that a switch still has in its caches, and another has
 * vectors that come from memory. Prints the median of the rounds for every set of loops that this
 * CPU runs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/reduce/kernels.h"

#define MOST        8 /* greatest number of sources of a sum */
#define ROUND_BYTES (8u << 20)

struct settings {
	bool json;
	uint64_t rounds;
};

/* One thing that is measured: a sum by one set of loops, or a copy. */
struct pass {
	const struct inc_kernels *k; /* the set of loops; NULL: this pass is a copy, by */
	void (*copy)(void *dst, const void *src, size_t bytes);
	struct inc_reduction r;
	size_t element_bytes, bytes; /* sizes of one element, and of one source */
	unsigned int n;
	/* GB/s that were read and written, one value for each round; sorted afterwards */
	double *rates;
	double median;
};

static uint8_t *memory; /* memory for MOST sources, followed by the result */

static void by_memcpy(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

#ifdef __SSE2__
static void by_vectors(void *dst, const void *src, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes / sizeof(__m128i); i++) {
		_mm_storeu_si128((__m128i *)dst + i, _mm_loadu_si128((const __m128i *)src + i));
		/* without this barrier the compiler would turn the loop into a memcpy() */
		__asm__ volatile("" ::: "memory");
	}
}

static void past_the_caches(void *dst, const void *src, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes / sizeof(__m128i); i++)
		_mm_stream_si128((__m128i *)dst + i, _mm_loadu_si128((const __m128i *)src + i));
	_mm_sfence();
}
#endif

static void run(const struct pass *p)
{
	const void *src[MOST];
	unsigned int i;

	if (p->copy) {
		size_t half = p->bytes / 2 * (p->n + 1);

		p->copy(memory + half, memory, half);
		return;
	}
	for (i = 0; i < p->n; i++)
		src[i] = memory + i * p->bytes;
	inc_reduce_many_by(p->k, &p->r, memory + p->n * p->bytes, src, p->n,
			   p->bytes / p->element_bytes);
}

static int by_rate(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void once(struct pass *p, uint64_t round)
{
	size_t bytes = p->bytes * (p->n + 1), done = 0;
	uint64_t at_ns = inc_now_ns();

	do {
		run(p);
		done += bytes;
	} while (done < ROUND_BYTES);
	p->rates[round] = (double)done / (double)(inc_now_ns() - at_ns);
}

static const struct {
	const char *name;
	enum inc_dtype type;
	size_t bytes;
} types[] = {
	{"int32", INC_DTYPE_INT32, 4},     {"float32", INC_DTYPE_FLOAT32, 4},
	{"float16", INC_DTYPE_FLOAT16, 2}, {"bfloat16", INC_DTYPE_BFLOAT16, 2},
	{"float64", INC_DTYPE_FLOAT64, 8},
};
#define N_TYPES (sizeof(types) / sizeof(*types))

static const struct {
	const char *name;
	void (*copy)(void *dst, const void *src, size_t bytes);
} copies[] = {
	{"memcpy", by_memcpy},
#ifdef __SSE2__
	{"vectors", by_vectors},
	{"past the caches", past_the_caches},
#endif
};
#define N_COPIES (sizeof(copies) / sizeof(*copies))

/* Prints the rows of one number and size of sources. Each row has one set of loops and the best
 * copy of the same bytes. */
static void print(const struct settings *s, const struct pass *passes, const struct pass *end)
{
	const struct pass *copy = passes, *p;
	size_t i;

	for (i = 1; i < N_COPIES; i++)
		copy = passes[i].median > copy->median ? &passes[i] : copy;
	for (p = passes + N_COPIES, i = 0; p < end; p++, i = (i + 1) % N_TYPES) {
		if (s->json) {
			printf("{\"set\":\"%s\",\"type\":\"%s\",\"sources\":%u,\"source_bytes\":"
			       "%zu,\"gigabytes_per_s\":%.3f,\"copy\":\"%s\","
			       "\"copy_gigabytes_per_s\":%.3f}\n",
			       p->k->name, types[i].name, p->n, p->bytes, p->median,
			       copies[copy - passes].name, copy->median);
			continue;
		}
		if (!i)
			printf("%-8s %9zu %7u %7.2f", p->k->name, p->bytes, p->n, copy->median);
		printf(" %8.2f %3.0f%%", p->median, 100 * p->median / copy->median);
		if (i == N_TYPES - 1)
			printf("\n");
	}
}

static void measure(const struct settings *s, size_t bytes, unsigned int n)
{
	struct pass passes[N_COPIES + 8 * N_TYPES] = {}, *end = passes, *p;
	unsigned int set;
	uint64_t round;
	size_t i;

	for (i = 0; i < N_COPIES; i++)
		*end++ = (struct pass){.copy = copies[i].copy, .bytes = bytes, .n = n};
	for (set = 0; inc_kernel_sets[set]; set++)
		for (i = 0; i < N_TYPES && inc_kernel_sets[set]->usable(); i++)
			*end++ = (struct pass){
				.k = inc_kernel_sets[set],
				.r = {.op = INC_OPERATOR_SUM, .type = types[i].type},
				.element_bytes = types[i].bytes,
				.bytes = bytes,
				.n = n,
			};
	for (p = passes; p < end; p++)
		p->rates = calloc(s->rounds, sizeof(*p->rates));
	for (round = 0; round < s->rounds; round++)
		for (p = passes; p < end; p++)
			once(p, round);
	for (p = passes; p < end; p++) {
		qsort(p->rates, s->rounds, sizeof(*p->rates), by_rate);
		p->median = p->rates[s->rounds / 2];
		free(p->rates);
	}
	print(s, passes, end);
}

static const struct inc_opt options[] = {
	{.name = "rounds",
	 .value = "N",
	 .preset = "20",
	 .help = "of which the median counts",
	 INC_OPT_NUMBER(struct settings, rounds, 1, 1000)},
	{.name = "json",
	 .help = "an object a line instead of a table",
	 INC_OPT_FLAG(struct settings, json)},
	{},
};

static const struct inc_program program = {
	.name = "bench_many",
	.about = "Speeds of SUMs of many sources in GB/s read and written, and in percent of the "
		 "best copy that reads and writes as many bytes.",
	.groups = {{options, 0}},
};

int main(int argc, char **argv)
{
	/* bytes of a source: from a size that fits into caches to one that does not */
	static const size_t sizes[] = {256 << 10, 1 << 20, 16 << 20};
	struct settings s = {};
	size_t most = (MOST + 1) * sizes[2], i;
	unsigned int n;
	int ret;

	ret = inc_opt_parse(&program, argc, argv, &s, NULL);
	if (ret >= 0)
		return ret;
	memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("bench_many: memory");
		return 1;
	}
	/* start with 1 or more, because this is a normal number in every type */
	for (i = 0; i < most / 2; i++)
		((uint16_t *)memory)[i] = (uint16_t)(0x3f80 + i % 64);
	if (!s.json)
		printf("%-8s %9s %7s %7s %13s %13s %13s %13s\n", "set", "bytes", "sources", "copy",
		       types[0].name, types[1].name, types[2].name, types[3].name);
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (n = 2; n <= MOST; n *= 2)
			measure(&s, sizes[i], n);
	munmap(memory, most);
	return 0;
}
