/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures lib/reduce in gigabytes per second of a host's elements, for every set of loops that
 * this CPU runs. The buffer stays in the second-level cache. The best of several rounds counts.
 */
#include <stdbool.h>
#include <stdio.h>
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/reduce/floats.h"
#include "lib/reduce/kernels.h"

#define BYTES    65536 /* bytes of elements in each of the buffers */
#define ROUNDS   10
#define ROUND_NS 2000000

struct settings {
	bool json;
};

struct pass {
	const struct inc_kernels *k;
	int op, type;
	size_t count;
};

/* dst is twice as large, because the fixed-point integer of a float16 has 4 bytes. */
static uint8_t a[BYTES], b[BYTES], dst[2 * BYTES];

static double gigabytes(void (*run)(const struct pass *p), const struct pass *p)
{
	double best = 0;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		uint64_t at_ns = inc_now_ns(), taken_ns;
		double rate;
		int n = 0;

		do {
			run(p);
			n++;
			taken_ns = inc_now_ns() - at_ns;
		} while (taken_ns < ROUND_NS);
		rate = (double)BYTES * n / (double)taken_ns;
		best = rate > best ? rate : best;
	}
	return best;
}

static void reduce(const struct pass *p)
{
	p->k->ints[p->type]->reduce[p->op](dst, (const void *const[]){a, b}, 2, p->count);
}

static void divide(const struct pass *p)
{
	p->k->ints[p->type]->divide(dst, a, p->count, 7);
}

static void to_order(const struct pass *p)
{
	p->k->floats[p->type]->to_order(dst, a, p->count, INT32_MAX);
}

static void from_order(const struct pass *p)
{
	p->k->floats[p->type]->from_order(dst, a, p->count);
}

/* Loops of floats run on blocks of INC_FIXED_BLOCK elements, as in lib/reduce/floats.c. */
#define BLOCKS(p, i) for (size_t i = 0; i < (p)->count; i += INC_FIXED_BLOCK)
#define AT(x, p, i)  ((x) + (i) * (BYTES / (p)->count))

static void scan(const struct pass *p)
{
	bool special;

	BLOCKS(p, i)
	p->k->floats[p->type]->scan(AT(a, p, i), INC_FIXED_BLOCK, &special);
}

static void put(const struct pass *p)
{
	BLOCKS(p, i)
	p->k->floats[p->type]->put(dst + 4 * i, AT(a, p, i), INC_FIXED_BLOCK, 20);
}

/* dst holds integers here. Their values do not matter. */
static void get(const struct pass *p)
{
	BLOCKS(p, i)
	p->k->floats[p->type]->get(AT(b, p, i), dst + 4 * i, INC_FIXED_BLOCK, -20);
}

static void get_mean(const struct pass *p)
{
	BLOCKS(p, i)
	p->k->floats[p->type]->get_mean(AT(b, p, i), dst + 4 * i, INC_FIXED_BLOCK, -20, 7);
}

static void divide_floats(const struct pass *p)
{
	p->k->floats[p->type]->divide(dst, a, p->count, 7);
}

/* One table of the output. It has a row for each loop and a column for each type. */
struct table {
	const char *const *types;
	const size_t *bytes; /* size in bytes of one element of each type */
	int n;
};

/* Prints one row: the loops of one operator, or one loop of floats. */
static void row(const struct settings *s, const struct table *t, const char *name,
		void (*run)(const struct pass *p), struct pass p)
{
	if (!s->json)
		printf("%-8s %-11s", p.k->name, name);
	for (p.type = 0; p.type < t->n; p.type++) {
		double rate;

		p.count = BYTES / t->bytes[p.type];
		rate = gigabytes(run, &p);
		if (s->json)
			printf("{\"set\":\"%s\",\"loop\":\"%s\",\"type\":\"%s\","
			       "\"gigabytes_per_s\":%.3f}\n",
			       p.k->name, name, t->types[p.type], rate);
		else
			printf(" %8.2f", rate);
	}
	if (!s->json)
		printf("\n");
}

static void heading(const struct settings *s, const struct table *t)
{
	int type;

	if (s->json)
		return;
	printf("%-8s %-11s", "set", "loop");
	for (type = 0; type < t->n; type++)
		printf(" %8s", t->types[type]);
	printf("\n");
}

static void integers(const struct settings *s)
{
	static const char *const operators[] = {
#define _(NAME, name) #name,
		INC_OPERATORS(_)
#undef _
	};
	static const char *const types[] = {
#define _(NAME, name, bytes, has_sign) #name,
		INC_DTYPES(_)
#undef _
	};
	static const size_t bytes[] = {
#define _(NAME, name, bytes, has_sign) bytes,
		INC_DTYPES(_)
#undef _
	};
	const struct table t = {types, bytes, INC_N_DTYPES};
	unsigned int i;
	int op;

	heading(s, &t);
	for (i = 0; inc_kernel_sets[i]; i++) {
		struct pass p = {.k = inc_kernel_sets[i]};

		if (!p.k->usable())
			continue;
		for (op = 0; op < INC_N_OPERATORS; op++) {
			p.op = op;
			row(s, &t, operators[op], reduce, p);
		}
		row(s, &t, "divide", divide, p);
	}
}

static void floats(const struct settings *s)
{
	static const struct {
		const char *name;
		void (*run)(const struct pass *p);
	} loops[] = {
		{"to_order", to_order},
		{"from_order", from_order},
		{"scan", scan},
		{"put", put},
		{"get", get},
		{"get_mean", get_mean},
		{"divide", divide_floats},
	};
	static const char *const types[] = {
#define _(NAME, name, bits, mantissa_bits) #name,
		INC_FLOATS(_)
#undef _
	};
	static const size_t bytes[] = {
#define _(NAME, name, bits, mantissa_bits) (bits) / 8,
		INC_FLOATS(_)
#undef _
	};
	const struct table t = {types, bytes, INC_N_FLOATS};
	unsigned int i;
	size_t l;

	heading(s, &t);
	for (i = 0; inc_kernel_sets[i]; i++)
		for (l = 0; l < sizeof(loops) / sizeof(*loops); l++)
			if (inc_kernel_sets[i]->usable())
				row(s, &t, loops[l].name, loops[l].run,
				    (struct pass){.k = inc_kernel_sets[i]});
}

static const struct inc_opt options[] = {
	{.name = "json",
	 .help = "an object a line instead of tables",
	 INC_OPT_FLAG(struct settings, json)},
	{},
};

static const struct inc_program program = {
	.name = "bench_reduce",
	.about = "Speeds of the host's reductions, for each set of loops that this CPU runs, in "
		 "GB/s of the elements' own size.",
	.groups = {{options, 0}},
};

int main(int argc, char **argv)
{
	struct settings s = {};
	unsigned int i;
	int ret;

	ret = inc_opt_parse(&program, argc, argv, &s, NULL);
	if (ret >= 0)
		return ret;
	for (i = 0; i < BYTES; i++) {
		a[i] = (uint8_t)(i * 37 + (i >> 8));
		b[i] = (uint8_t)(i * 101 + (i >> 7));
	}
	integers(&s);
	floats(&s);
	return 0;
}
