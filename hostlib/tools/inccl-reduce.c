/* SPDX-License-Identifier: BSD-2-Clause */
/* AllReduce of files: each rank reads its own .npy, all write the same result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "hostlib/tools/job.h"
#include "hostlib/tools/npy.h"
#include "lib/inc_log.h"

static const char help[] =
	"usage: inccl-reduce [--op sum] [options] IN.npy OUT.npy\n"
	"Adds up an array over all ranks of a job: every rank gives its own IN.npy (int32, the\n"
	"same shape everywhere) and gets the result in its own OUT.npy, which appears only when\n"
	"it is complete.\n"
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
				inc_error("--op: '%s' is unknown", optarg);
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
		inc_error("want two files, IN.npy and OUT.npy (--help)");
		return 2;
	}
	opts->in = argv[optind];
	opts->out = argv[optind + 1];
	return job_check(&opts->job) ? 2 : -1;
}

/* FNV-1a of the shape: what the ranks compare. */
static uint32_t shape_hash(const struct npy *npy)
{
	uint32_t h = 2166136261u;
	unsigned int i, k;

	for (i = 0; i < npy->ndim; i++)
		for (k = 0; k < 8; k++)
			h = (h ^ (npy->shape[i] >> 8 * k & 0xff)) * 16777619u;
	return h ^ npy->ndim;
}

/* Every rank puts its shape in its own place of a vector of zeros; the sum shows all to all. */
static int compare_shapes(struct reduce_opts *opts, const struct npy *npy)
{
	int rank = inccl_group_rank(opts->job.group), ranks = inccl_group_size(opts->job.group), r;
	int32_t *all = calloc(ranks, 4 * sizeof(*all)), *own, *other;
	int err;

	if (!all)
		return -ENOMEM;
	own = all + 4 * rank;
	own[0] = npy->count;
	own[1] = npy->count >> 32;
	own[2] = shape_hash(npy);
	own[3] = opts->op + 1;
	err = inccl_allreduce_sendrecv(opts->job.comm, all, 4 * (size_t)ranks, all);
	if (err)
		job_report(&opts->job, "comparing the shapes", err);
	for (r = 0; r < ranks && !err; r++) {
		other = all + 4 * r;
		if (memcmp(own, other, 4 * sizeof(*all)) != 0) {
			inc_error("%s: %zu elements of this shape, but rank %d has %llu of its own",
				  opts->in, npy->count, r,
				  (unsigned long long)(uint32_t)other[1] << 32 |
					  (uint32_t)other[0]);
			err = -EINVAL;
		}
	}
	free(all);
	return err;
}

static int run(struct reduce_opts *opts, const struct npy *npy)
{
	INCCL_OPTS(inccl_collective_opts, c, .op = opts->op, .mode = opts->job.mode,
		   .send = npy->data, .recv = npy->data, .count = npy->count);
	struct inccl_request *req;
	struct timespec t0, t1;
	struct inc_err why;
	unsigned int i;
	double us;
	int err;

	err = compare_shapes(opts, npy);
	if (err)
		return err;
	clock_gettime(CLOCK_MONOTONIC, &t0);
	err = inccl_collective_start(opts->job.comm, &c, &req);
	if (!err)
		err = inccl_wait(req, -1);
	if (err) {
		job_report(&opts->job, opts->in, err);
		return err;
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);
	err = npy_save(opts->out, npy, npy->data, &why);
	if (err) {
		inc_error("%s", why.msg);
		return err;
	}
	if (inccl_group_rank(opts->job.group) || !opts->json)
		return 0;
	us = (t1.tv_sec - t0.tv_sec) * 1e6 + (t1.tv_nsec - t0.tv_nsec) / 1e3;
	printf("{\"ranks\":%d,\"shape\":[", inccl_group_size(opts->job.group));
	for (i = 0; i < npy->ndim; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)npy->shape[i]);
	printf("],\"bytes\":%zu,\"time_us\":%.1f}\n", npy->count * sizeof(int32_t), us);
	return 0;
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
