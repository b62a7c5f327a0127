/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of inccl-perf. */
#include <errno.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "lib/reduce/floats.h"
#include "hostlib/tools/perf_opts.h"

static int add_size(struct perf_opts *opts, uint64_t size, struct inc_err *err)
{
	if (opts->nsizes == PERF_MAX_SIZES)
		return inc_err_set(err, EINVAL, "more than %d sizes", PERF_MAX_SIZES);
	opts->sizes[opts->nsizes++] = size;
	return 0;
}

static int take_sizes(void *settings, const char *text, struct inc_err *err)
{
	struct perf_opts *opts = settings;
	const char *at = text;
	uint64_t size;

	opts->nsizes = 0;
	for (;;) {
		if (inc_opt_size(at, &at, &size) || (*at && *at != ','))
			return inc_err_set(err, EINVAL, "'%.300s' is not a list of sizes", text);
		if (add_size(opts, size, err))
			return -EINVAL;
		if (!*at++)
			return 0;
	}
}

static const char *dtype_name(unsigned int number)
{
	return inccl_dtype_name(number);
}

static const char *op_name(unsigned int number)
{
	return inccl_op_name(number);
}

/* Reads the words of an option, with commas between them, or "all", into a set. */
static int take_set(uint32_t *set, const char *text, const char *(*name_of)(unsigned int number),
		    struct inc_err *err)
{
	const bool all = !strcmp(text, "all");
	const char *at = text;

	for (*set = 0;; at++) {
		const size_t len = strcspn(at, ",");
		const uint32_t had = *set;

		for (unsigned int i = 0; i < PERF_MAX_WORDS; i++) {
			const char *name = name_of(i);

			if (name && (all || (strlen(name) == len && !strncmp(name, at, len))))
				*set |= 1u << i;
		}
		if (*set == had)
			return inc_err_set(err, EINVAL, "'%.*s' is unknown or given twice",
					   (int)(len < 300 ? len : 300), at);
		at += len;
		if (!*at)
			return 0;
	}
}

static int take_dtypes(void *set, const char *text, struct inc_err *err)
{
	return take_set(set, text, dtype_name, err);
}

static int take_ops(void *set, const char *text, struct inc_err *err)
{
	return take_set(set, text, op_name, err);
}

static int take_collective(void *collective, const char *text, struct inc_err *err)
{
#define _(NAME, name) " " #name
	return inccl_collective_parse(text, collective)
		       ? inc_err_set(err, EINVAL, "'%.300s' is not one of" INC_COLLECTIVES(_), text)
		       : 0;
#undef _
}

static const struct inc_opt options[] = {
	{.value = "COLLECTIVE", INC_OPT_TAKE(struct perf_opts, collective, take_collective)},
	{.name = "minbytes",
	 .letter = 'b',
	 .value = "SIZE",
	 .preset = "4",
	 .help = "the first size in bytes, with a suffix K, M or G",
	 INC_OPT_SIZE(struct perf_opts, min)},
	{.name = "maxbytes",
	 .letter = 'e',
	 .value = "SIZE",
	 .preset = "1M",
	 .help = "no size above this",
	 INC_OPT_SIZE(struct perf_opts, max)},
	{.name = "stepfactor",
	 .letter = 'f',
	 .value = "FACTOR",
	 .preset = "4",
	 .help = "factor from one size to the next",
	 INC_OPT_NUMBER(struct perf_opts, factor, 2, 1 << 20)},
	{.name = "sizes",
	 .value = "A,B,...",
	 .help = "these sizes instead",
	 INC_OPT_TAKE_WHOLE(take_sizes)},
	{.name = "iters",
	 .letter = 'n',
	 .value = "N",
	 .preset = "20",
	 .help = "iterations per size",
	 INC_OPT_NUMBER(struct perf_opts, iters, 1, 1000000000)},
	{.name = "warmup",
	 .letter = 'w',
	 .value = "N",
	 .preset = "5",
	 .help = "iterations before them that are not timed",
	 INC_OPT_NUMBER(struct perf_opts, warmup, 0, 1000000000)},
	{.name = "pause-ms",
	 .value = "T",
	 .help = "pause before each iteration, as of a program that computes between its calls; "
		 "each iteration is timed alone, after a barrier",
	 INC_OPT_NUMBER(struct perf_opts, pause_ms, 0, 3600000)},
	{.name = "together",
	 .letter = 'm',
	 .value = "M",
	 .preset = "1",
	 .help = "each iteration starts M allreduces, each with vectors of its own, and then waits "
		 "for all of them; the time is that of one",
	 INC_OPT_NUMBER(struct perf_opts, together, 1, PERF_MAX_TOGETHER)},
	{.name = "dtype",
	 .value = "TYPE,...|all",
	 .preset = "int32",
	 .help = "types of the elements, one after the other; of several each size is cut down to "
		 "whole elements",
	 INC_OPT_TAKE(struct perf_opts, dtypes, take_dtypes)},
	{.name = "op",
	 .value = "OP,...|all",
	 .preset = "sum",
	 .help = "the operator; one that a type does not have is left out where there are "
		 "several",
	 INC_OPT_TAKE(struct perf_opts, ops, take_ops)},
	{.name = "root",
	 .value = "RANK",
	 .preset = "0",
	 .help = "root of reduce and broadcast",
	 INC_OPT_NUMBER(struct perf_opts, root, 0, INC_MAX_RANKS - 1)},
	{.name = "float-block",
	 .value = "N",
	 .preset = INC_STR(INC_FIXED_BLOCK),
	 .help = "elements that share an exponent in sums and averages of floats",
	 INC_OPT_NUMBER(struct perf_opts, float_block, 1, PERF_MAX_FLOAT_BLOCK)},
	{.name = "split",
	 .value = "COLORS",
	 .help = "rank R in part R % COLORS: all parts at once, each with a table of its own",
	 INC_OPT_NUMBER(struct perf_opts, split, 1, INC_MAX_RANKS)},
	{.name = "in-place",
	 .help = "the result replaces the data",
	 INC_OPT_FLAG(struct perf_opts, in_place)},
	{.name = "check",
	 .help = "verify every element of every iteration",
	 INC_OPT_FLAG(struct perf_opts, check)},
	{.name = "json",
	 .help = "rank 0 prints one object per line and size",
	 INC_OPT_FLAG(struct perf_opts, json)},
	{.name = "stats",
	 .help = "every rank ends with its transport's statistics on stderr",
	 INC_OPT_FLAG(struct perf_opts, stats)},
	{},
};

static int make_sizes(struct perf_opts *opts)
{
	struct inc_err err;
	uint64_t size;

	if (opts->min > opts->max)
		return inc_usage("-b %llu is more than -e %llu", (unsigned long long)opts->min,
				 (unsigned long long)opts->max);
	for (size = opts->min; size <= opts->max; size *= opts->factor) {
		if (add_size(opts, size, &err))
			return inc_usage("%s", err.msg);
		if (!size)
			break;
	}
	return 0;
}

static int check(void *settings)
{
	struct perf_opts *opts = settings;
	enum inccl_dtype dtype = __builtin_ctz(opts->dtypes);
	size_t unit = inccl_dtype_size(dtype);

	if (job_check(&opts->job))
		return -EINVAL;
	if (opts->together > 1 && opts->collective != INCCL_ALLREDUCE)
		return inc_usage("--together is for allreduce");
	if (opts->collective == INCCL_BARRIER) {
		opts->nsizes = 1;
		opts->sizes[0] = 0;
		return 0;
	}
	if (!opts->nsizes && make_sizes(opts))
		return -EINVAL;
	for (unsigned int i = 0; i < opts->nsizes; i++)
		if (opts->sizes[i] % unit && opts->dtypes == 1u << dtype)
			return inc_usage("size %llu is not a multiple of %zu (%s)",
					 (unsigned long long)opts->sizes[i], unit,
					 inccl_dtype_name(dtype));
	return 0;
}

static const struct inc_program program = {
	.name = "inccl-perf",
	.man_section = 1,
	.brief = "time collectives, and check them",
	.about = "Times a COLLECTIVE over a range of sizes: allreduce (the default), reduce, "
		 "broadcast, barrier, reducescatter or allgather. Every rank of the job runs it "
		 "with the same options; rank 0 prints the table (of each part, its first rank). "
		 "The size is that of the whole "
		 "vector; where ranks have a block of it each, it is cut down to a multiple of "
		 "theirs, and the count is a block's.",
	.groups = {{options, 0}, {job_options, offsetof(struct perf_opts, job)}},
	.notes = "algbw is bytes of the vector * 8 / time. busbw is algbw times the part that each "
		 "of N ranks would have to move without the network's help. That part is "
		 "2 (N - 1) / N of the vector for allreduce, (N - 1) / N for reducescatter and "
		 "allgather, and all of it for reduce and broadcast. Both are in Gbit/s (10^9).",
	.exits = "0 ok, 1 failure or a wrong element, 2 wrong command line.",
	.check = check,
};

int perf_parse(struct perf_opts *opts, int argc, char **argv)
{
	memset(opts, 0, sizeof(*opts));
	job_init(&opts->job);
	return inc_opt_parse(&program, argc, argv, opts, NULL);
}
