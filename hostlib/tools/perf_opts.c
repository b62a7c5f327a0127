/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/perf_opts.h"
#include "lib/base/opt.h"

static const char help[] =
	"usage: inccl-perf [COLLECTIVE] [options]\n"
	"Times a collective (allreduce or barrier) over a range of sizes. Every rank of the job\n"
	"runs it with the same options; rank 0 prints the table.\n"
	"\n"
	"  -b MIN -e MAX -f FACTOR  sizes in bytes, suffixes K, M, G (default 4 to 1M, 4 times)\n"
	"  --sizes A,B,...          these sizes instead\n"
	"  -n ITERS -w WARMUP       per size (default 20 and 5)\n"
	"  --dtype int32  --op sum\n"
	"  --in-place               the result replaces the data\n"
	"  --check                  verify every element of every iteration\n"
	"  --json                   rank 0 prints one object per line and size\n"
	"  --stats                  every rank ends with its transport's statistics on stderr\n"
	"  --help\n" JOB_HELP "\n"
	"algbw: bytes of the vector * 8 / time; busbw: algbw * 2 (N - 1) / N, what each of N "
	"ranks\n"
	"would have to send and receive without help from the network. Both in Gbit/s (10^9).\n"
	"Exit code: 0, 1 for an error or a wrong element, 2 for a wrong command line.\n";

static int parse_size(const char *text, const char **end, uint64_t *out)
{
	unsigned int shift = 0;
	char *e;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &e, 10);
	if (errno || e == text || *text == '-')
		return -EINVAL;
	if (*e == 'K' || *e == 'k')
		shift = 10;
	else if (*e == 'M' || *e == 'm')
		shift = 20;
	else if (*e == 'G' || *e == 'g')
		shift = 30;
	if (shift)
		e++;
	if (v > (1ull << 40) >> shift)
		return -ERANGE;
	*out = v << shift;
	*end = e;
	return 0;
}

static int add_size(struct perf_opts *opts, uint64_t size)
{
	if (opts->nsizes == PERF_MAX_SIZES) {
		inc_usage("more than %d sizes", PERF_MAX_SIZES);
		return -EINVAL;
	}
	opts->sizes[opts->nsizes++] = size;
	return 0;
}

static int one_size(const char *option, const char *text, uint64_t *out)
{
	const char *end;

	if (!parse_size(text, &end, out) && !*end)
		return 0;
	inc_usage("%s: '%s' is not a size (bytes, suffixes K, M, G)", option, text);
	return -EINVAL;
}

static int size_list(struct perf_opts *opts, const char *text)
{
	const char *at = text;
	uint64_t size;

	opts->nsizes = 0;
	for (;;) {
		if (parse_size(at, &at, &size) || (*at && *at != ',')) {
			inc_usage("--sizes: '%s' is not a list of sizes", text);
			return -EINVAL;
		}
		if (add_size(opts, size))
			return -EINVAL;
		if (!*at++)
			return 0;
	}
}

static int check_sizes(struct perf_opts *opts, uint64_t min, uint64_t max, long factor)
{
	size_t unit = inccl_dtype_size(opts->dtype);
	unsigned int i;
	uint64_t size;

	if (opts->collective == INCCL_BARRIER) {
		opts->nsizes = 1;
		opts->sizes[0] = 0;
		return 0;
	}
	if (!opts->nsizes) {
		if (min > max) {
			inc_usage("-b %llu is more than -e %llu", (unsigned long long)min,
				  (unsigned long long)max);
			return -EINVAL;
		}
		for (size = min; size <= max; size *= factor) {
			if (add_size(opts, size))
				return -EINVAL;
			if (!size)
				break;
		}
	}
	for (i = 0; i < opts->nsizes; i++)
		if (opts->sizes[i] % unit) {
			inc_usage("size %llu is not a multiple of %zu (%s)",
				  (unsigned long long)opts->sizes[i], unit,
				  inccl_dtype_name(opts->dtype));
			return -EINVAL;
		}
	return 0;
}

static int wrong_name(const char *what, const char *name)
{
	inc_usage("%s '%s' is unknown", what, name);
	return 2;
}

enum { OPT_SIZES = 1, OPT_DTYPE, OPT_OP, OPT_IN_PLACE, OPT_CHECK, OPT_JSON, OPT_STATS };

static const struct option options[] = {
	{"minbytes", required_argument, NULL, 'b'},
	{"maxbytes", required_argument, NULL, 'e'},
	{"stepfactor", required_argument, NULL, 'f'},
	{"iters", required_argument, NULL, 'n'},
	{"warmup", required_argument, NULL, 'w'},
	{"sizes", required_argument, NULL, OPT_SIZES},
	{"dtype", required_argument, NULL, OPT_DTYPE},
	{"op", required_argument, NULL, OPT_OP},
	{"in-place", no_argument, NULL, OPT_IN_PLACE},
	{"check", no_argument, NULL, OPT_CHECK},
	{"json", no_argument, NULL, OPT_JSON},
	{"stats", no_argument, NULL, OPT_STATS},
	{"help", no_argument, NULL, 'h'},
	JOB_LONG_OPTIONS,
	{NULL, 0, NULL, 0},
};

int perf_parse(struct perf_opts *opts, int argc, char **argv)
{
	uint64_t min = 4, max = 1 << 20;
	long factor = 4;
	int c, ret;

	memset(opts, 0, sizeof(*opts));
	job_init(&opts->job);
	opts->iters = 20;
	opts->warmup = 5;
	while ((c = getopt_long(argc, argv, "b:e:f:n:w:h", options, NULL)) != -1) {
		ret = 0;
		switch (c) {
		case 'b':
			ret = one_size("-b", optarg, &min);
			break;
		case 'e':
			ret = one_size("-e", optarg, &max);
			break;
		case 'f':
			ret = parse_long("-f", optarg, 2, 1 << 20, &factor);
			break;
		case 'n':
			ret = parse_long("-n", optarg, 1, 1000000000, &opts->iters);
			break;
		case 'w':
			ret = parse_long("-w", optarg, 0, 1000000000, &opts->warmup);
			break;
		case OPT_SIZES:
			ret = size_list(opts, optarg);
			break;
		case OPT_DTYPE:
			if (inccl_dtype_parse(optarg, &opts->dtype))
				return wrong_name("--dtype", optarg);
			break;
		case OPT_OP:
			if (inccl_op_parse(optarg, &opts->op))
				return wrong_name("--op", optarg);
			break;
		case OPT_IN_PLACE:
			opts->in_place = true;
			break;
		case OPT_CHECK:
			opts->check = true;
			break;
		case OPT_JSON:
			opts->json = true;
			break;
		case OPT_STATS:
			opts->stats = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			if (c < JOB_OPT_FIRST || job_option(&opts->job, c, optarg))
				return 2;
		}
		if (ret)
			return 2;
	}
	if (optind < argc &&
	    (inccl_collective_parse(argv[optind], &opts->collective) ||
	     (opts->collective != INCCL_ALLREDUCE && opts->collective != INCCL_BARRIER)))
		return wrong_name("collective", argv[optind]);
	if (optind + 1 < argc) {
		inc_usage("'%s': one collective at a time", argv[optind + 1]);
		return 2;
	}
	if (job_check(&opts->job) || check_sizes(opts, min, max, factor))
		return 2;
	return -1;
}
