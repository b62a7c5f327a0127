/* SPDX-License-Identifier: BSD-2-Clause */
/* AllReduce of files: each rank reads its own .npy file, and every rank writes the same result. */
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
#include "lib/base/outfile.h"

/* A wait for the result is interrupted after so long, to show that it still lasts. */
#define PROGRESS_MS 1000

struct reduce_opts {
	struct job job;
	enum inccl_op op;
	bool json;
	const char *in, *out;
};

static const struct inc_opt options[] = {
	{.name = "op",
	 .value = "OP",
	 .preset = "sum",
	 .help = "the operator",
	 INC_OPT_TAKE(struct reduce_opts, op, job_take_op)},
	{.name = "json",
	 .help = "rank 0 prints one object: ranks, shape, bytes, time_us",
	 INC_OPT_FLAG(struct reduce_opts, json)},
	{.value = "IN.npy", .required = true, INC_OPT_TEXT(struct reduce_opts, in, NULL)},
	{.value = "OUT.npy", .required = true, INC_OPT_TEXT(struct reduce_opts, out, NULL)},
	{},
};

static int check_job(void *settings)
{
	const struct reduce_opts *opts = settings;

	return job_check(&opts->job);
}

static const struct inc_program program = {
	.name = "inccl-reduce",
	.man_section = 1,
	.brief = "the AllReduce of .npy files",
	.about = "Adds up an array over all ranks of a job. Every rank gives its own IN.npy (the "
		 "same type and shape everywhere) and receives the result in its own OUT.npy. "
		 "OUT.npy appears only when it is complete. A link is followed; /dev/null or a "
		 "FIFO is "
		 "written to, not replaced. Elements are integers of 1 to 8 bytes, float16, "
		 "float32 or float64; floats have the operators sum, avg, min and max, and prod "
		 "where "
		 "switches add floats as they are.",
	.groups = {{options, 0}, {job_options, offsetof(struct reduce_opts, job)}},
	.check = check_job,
};

/* The description of a rank's file for the other ranks, as 32-bit numbers. In a vector with the
 * descriptions of all ranks, each number is written by one rank. */
struct file_description {
	int32_t op; /* the operator plus 1, because a rank that has sent nothing has 0 */
	int32_t dtype;
	int32_t ndim;
	int32_t shape[NPY_MAX_DIMS][2]; /* the low and the high 32 bits of each dimension's size */
};

static void print_shape(char *text, size_t size, const struct file_description *file)
{
	size_t len = snprintf(text, size, "(");
	int i;

	for (i = 0; i < file->ndim && i < NPY_MAX_DIMS && len < size; i++)
		len += snprintf(text + len, size - len, "%s%llu", i ? ", " : "",
				(unsigned long long)(uint32_t)file->shape[i][1] << 32 |
					(uint32_t)file->shape[i][0]);
	if (len < size)
		snprintf(text + len, size - len, file->ndim == 1 ? ",)" : ")");
}

static void report_difference(const struct reduce_opts *opts, const struct file_description *own,
			      const struct file_description *other, int rank)
{
	char mine[256], theirs[256];

	print_shape(mine, sizeof(mine), own);
	print_shape(theirs, sizeof(theirs), other);
	if (own->op != other->op)
		inc_error("%s: --op %s here, but rank %d has --op %s", opts->in,
			  inccl_op_name(own->op - 1), rank, inccl_op_name(other->op - 1));
	else if (own->dtype != other->dtype)
		inc_error("%s has elements of %s, but rank %d's file has %s", opts->in,
			  inccl_dtype_name(own->dtype), rank, inccl_dtype_name(other->dtype));
	else
		inc_error("%s has the shape %s, but rank %d's file has the shape %s", opts->in,
			  mine, rank, theirs);
}

/* Checks that the files of all ranks fit together. Each rank writes its description at its own
 * place in a vector of zeros, so the sum of the vectors gives every rank all descriptions. */
static int compare_files(struct reduce_opts *opts, const struct npy *npy)
{
	int rank = inccl_group_rank(opts->job.group), ranks = inccl_group_size(opts->job.group), r;
	const size_t words = sizeof(struct file_description) / sizeof(int32_t);
	struct file_description *all = calloc(ranks, sizeof(*all)), *own;
	unsigned int i;
	int err;

	if (!all)
		return -ENOMEM;
	own = all + rank;
	own->op = opts->op + 1;
	own->dtype = npy->dtype;
	own->ndim = npy->ndim;
	for (i = 0; i < npy->ndim; i++) {
		own->shape[i][0] = npy->shape[i];
		own->shape[i][1] = npy->shape[i] >> 32;
	}
	err = inccl_allreduce(opts->job.comm, all, all, ranks * words, INCCL_INT32, INCCL_SUM,
			      NULL);
	if (err)
		job_report(&opts->job, "comparing the files", err);
	for (r = 0; r < ranks && !err; r++) {
		if (memcmp(own, all + r, sizeof(*own)) != 0) {
			report_difference(opts, own, all + r, r);
			err = -EINVAL;
		}
	}
	free(all);
	return err;
}

/* Reduces the file's elements. A person at a terminal sees how long that takes. */
static int reduce(struct reduce_opts *opts, const struct npy *npy,
		  const struct inccl_collective_opts *how)
{
	const uint64_t start_ns = inc_now_ns();
	struct inccl_request *request;
	int err = inccl_allreduce_start(opts->job.comm, npy->data, npy->data, npy->count,
					npy->dtype, opts->op, how, &request);

	while (!err && (err = inccl_wait(request, PROGRESS_MS)) == -EAGAIN) {
		inc_log_progress(
			"reducing %zu bytes: %llu s so far", npy_bytes(npy),
			(unsigned long long)((inc_now_ns() - start_ns) / INC_NSEC_PER_SEC));
		err = 0;
	}
	inc_log_progress_end();
	return err;
}

static int run(struct reduce_opts *opts, const struct npy *npy)
{
	char refused[256] = "";
	INCCL_OPTS(inccl_collective_opts, how, .mode = opts->job.mode, .error = refused,
		   .error_size = sizeof(refused));
	uint64_t start_ns, end_ns;
	struct inc_err why;
	unsigned int i;
	double us;
	int err;

	err = compare_files(opts, npy);
	if (err)
		return err;
	start_ns = inc_now_ns();
	err = reduce(opts, npy, &how);
	if (err) {
		if (refused[0])
			inc_error("%s: %s", opts->in, refused);
		else
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
	printf("],\"bytes\":%zu,\"time_us\":%.1f}\n", npy_bytes(npy), us);
	return job_flush();
}

/* Checks that the elements' type has the operator; if not, the command line is wrong for this file.
 * Products of floats depend on the switches, so the library checks these. */
static int check_op(const struct reduce_opts *opts, const struct npy *npy)
{
	switch (opts->op) {
	case INCCL_SUM:
	case INCCL_AVG:
	case INCCL_MIN:
	case INCCL_MAX:
	case INCCL_PROD:
		return 0;
	case INCCL_AND:
	case INCCL_OR:
	case INCCL_LAND:
	case INCCL_LOR:
	case INCCL_LXOR:
	case INCCL_MINLOC:
	case INCCL_MAXLOC:
	case INCCL_XOR: /* no default, so that the compiler reports a new operator */
		break;
	}
	if (opts->op == INCCL_MINLOC || opts->op == INCCL_MAXLOC)
		return inc_usage("--op %s: a .npy file has no elements with an index",
				 inccl_op_name(opts->op));
	if (npy->dtype < INCCL_FLOAT32)
		return 0;
	return inc_usage("--op %s: %s has elements of %s, and floats have sum, avg, min, max and "
			 "prod",
			 inccl_op_name(opts->op), opts->in, inccl_dtype_name(npy->dtype));
}

int main(int argc, char **argv)
{
	struct reduce_opts opts = {};
	struct inc_err why;
	struct npy npy;
	int err, left;

	inc_log_init("inccl-reduce");
	job_init(&opts.job);
	err = inc_opt_parse(&program, argc, argv, &opts, NULL);
	if (err >= 0)
		return err;
	/* Writing to a FIFO without a reader must fail with EPIPE and not end the program. */
	signal(SIGPIPE, SIG_IGN);
	/* The files are checked and loaded before joining, so that a rank with a wrong file does
	 * not make the other ranks wait. */
	err = inc_outfile_check(opts.out, &why);
	if (!err)
		err = npy_load(opts.in, &npy, &why);
	if (err) {
		inc_error("%s", why.msg);
		return 1;
	}
	if (check_op(&opts, &npy)) {
		npy_free(&npy);
		return 2;
	}
	job_use(&opts.job, npy.dtype, opts.op, npy_bytes(&npy));
	err = job_start(&opts.job);
	if (!err) {
		err = run(&opts, &npy);
		left = job_end(&opts.job);
		err = err ? err : left;
	}
	npy_free(&npy);
	return err ? 1 : 0;
}
