/* SPDX-License-Identifier: BSD-2-Clause */
/* AllReduce of files: each rank reads its own .npy, all write the same result. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/base/clock.h"
#include "hostlib/tools/job.h"
#include "hostlib/tools/npy.h"
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/base/outfile.h"

static const char help[] =
	"usage: inccl-reduce [--op sum] [options] IN.npy OUT.npy\n"
	"Adds up an array over all ranks of a job: every rank gives its own IN.npy (int32, the\n"
	"same shape everywhere) and gets the result in its own OUT.npy, which appears only when\n"
	"it is complete. A link is followed; /dev/null or a FIFO is written to, not replaced.\n"
	"\n"
	"  --op sum\n"
	"  --json   rank 0 prints one object: ranks, shape, bytes, time_us\n"
	"  --help\n" JOB_HELP "Exit code: 0, 1 for an error, 2 for a wrong command line.\n";

struct reduce_opts {
	struct job job;
	enum inccl_op op;
	bool json;
	const char *in, *out;
};

enum { OPT_OP = 1, OPT_JSON };

static const struct option options[] = {
	{"op", required_argument, NULL, OPT_OP},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	JOB_LONG_OPTIONS,
	{NULL, 0, NULL, 0},
};

static int parse(struct reduce_opts *opts, int argc, char **argv)
{
	int c;

	memset(opts, 0, sizeof(*opts));
	job_init(&opts->job);
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case OPT_OP:
			if (inccl_op_parse(optarg, &opts->op)) {
				inc_usage("--op: '%s' is unknown", optarg);
				return 2;
			}
			break;
		case OPT_JSON:
			opts->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			if (c < JOB_OPT_FIRST || job_option(&opts->job, c, optarg))
				return 2;
		}
	}
	if (argc - optind != 2) {
		inc_usage("two files are wanted, IN.npy and OUT.npy");
		return 2;
	}
	opts->in = argv[optind];
	opts->out = argv[optind + 1];
	return job_check(&opts->job) ? 2 : -1;
}

/* What a rank tells the others of its file: as 32-bit numbers, each once in a vector. */
struct card {
	int32_t op; /* plus 1: a rank that told nothing has 0 */
	int32_t ndim;
	int32_t shape[NPY_MAX_DIMS][2]; /* low half, high half */
};

static void print_shape(char *text, size_t size, const struct card *card)
{
	size_t len = snprintf(text, size, "(");
	int i;

	for (i = 0; i < card->ndim && i < NPY_MAX_DIMS && len < size; i++)
		len += snprintf(text + len, size - len, "%s%llu", i ? ", " : "",
				(unsigned long long)(uint32_t)card->shape[i][1] << 32 |
					(uint32_t)card->shape[i][0]);
	if (len < size)
		snprintf(text + len, size - len, card->ndim == 1 ? ",)" : ")");
}

static void report_difference(const struct reduce_opts *opts, const struct card *own,
			      const struct card *other, int rank)
{
	char mine[256], theirs[256];

	print_shape(mine, sizeof(mine), own);
	print_shape(theirs, sizeof(theirs), other);
	if (own->op != other->op)
		inc_error("%s: --op %s here, but rank %d has --op %s", opts->in,
			  inccl_op_name(own->op - 1), rank, inccl_op_name(other->op - 1));
	else
		inc_error("%s has the shape %s, but rank %d's file has the shape %s", opts->in,
			  mine, rank, theirs);
}

/* Every rank puts its card in its own place of a vector of zeros; the sum shows all to all. */
static int compare_shapes(struct reduce_opts *opts, const struct npy *npy)
{
	int rank = inccl_group_rank(opts->job.group), ranks = inccl_group_size(opts->job.group), r;
	const size_t words = sizeof(struct card) / sizeof(int32_t);
	struct card *all = calloc(ranks, sizeof(*all)), *own;
	unsigned int i;
	int err;

	if (!all)
		return -ENOMEM;
	own = all + rank;
	own->op = opts->op + 1;
	own->ndim = npy->ndim;
	for (i = 0; i < npy->ndim; i++) {
		own->shape[i][0] = npy->shape[i];
		own->shape[i][1] = npy->shape[i] >> 32;
	}
	err = inccl_allreduce(opts->job.comm, all, all, ranks * words, INCCL_INT32, INCCL_SUM,
			      NULL);
	if (err)
		job_report(&opts->job, "comparing the shapes", err);
	for (r = 0; r < ranks && !err; r++) {
		if (memcmp(own, all + r, sizeof(*own)) != 0) {
			report_difference(opts, own, all + r, r);
			err = -EINVAL;
		}
	}
	free(all);
	return err;
}

static int run(struct reduce_opts *opts, const struct npy *npy)
{
	INCCL_OPTS(inccl_collective_opts, how, .mode = opts->job.mode);
	uint64_t start_ns, end_ns;
	struct inc_err why;
	unsigned int i;
	double us;
	int err;

	err = compare_shapes(opts, npy);
	if (err)
		return err;
	start_ns = inc_now_ns();
	err = inccl_allreduce(opts->job.comm, npy->data, npy->data, npy->count, INCCL_INT32,
			      opts->op, &how);
	if (err) {
		job_report(&opts->job, opts->in, err);
		return err;
	}
	end_ns = inc_now_ns();
	err = npy_save(opts->out, npy, npy->data, &why);
	if (err) {
		inc_error("%s", why.msg);
		return err;
	}
	if (inccl_group_rank(opts->job.group) || !opts->json)
		return 0;
	us = (end_ns - start_ns) / 1e3;
	printf("{\"ranks\":%d,\"shape\":[", inccl_group_size(opts->job.group));
	for (i = 0; i < npy->ndim; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)npy->shape[i]);
	printf("],\"bytes\":%zu,\"time_us\":%.1f}\n", npy->count * sizeof(int32_t), us);
	return job_flush();
}

int main(int argc, char **argv)
{
	struct reduce_opts opts;
	struct inc_err why;
	struct npy npy;
	int err, left;

	inc_log_init("inccl-reduce");
	err = parse(&opts, argc, argv);
	if (err >= 0)
		return err;
	/* (a FIFO's reader that is gone is an error to report, not the end) */
	signal(SIGPIPE, SIG_IGN);
	/* before the others are made to wait and to work for nothing */
	err = inc_outfile_check(opts.out, &why);
	if (!err)
		err = npy_load(opts.in, &npy, &why);
	if (err) {
		inc_error("%s", why.msg);
		return 1;
	}
	err = job_start(&opts.job);
	if (!err) {
		err = run(&opts, &npy);
		left = job_end(&opts.job);
		err = err ? err : left;
	}
	npy_free(&npy);
	return err ? 1 : 0;
}
