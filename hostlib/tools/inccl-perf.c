/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the time of collectives, like nccl-tests. perf_coll.c has the collectives, and
 * perf_data.c their data. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include "lib/base/clock.h"
#include "hostlib/tools/perf_data.h"
#include "lib/base/log.h"

/* A constant that each rank adds to a sum over the ranks, beside its numbers. If its total is
 * wrong, the sum is wrong. */
#define MARK 0x2bad5

struct result {
	double time_us; /* time of an iteration in us, averaged over the ranks */
	uint64_t wrong; /* wrong elements of all ranks in all iterations; at least own_wrong */
	uint64_t own_wrong;
	/* The sums over the ranks have failed, so time_us and wrong are only those of this rank. */
	bool unsummed;
};

/* Sums 64-bit numbers over the ranks, by an AllReduce of their 16-bit pieces, which cannot
 * overflow. Returns -EBADMSG if the sum is wrong; values are unchanged then. */
static int sum_over_ranks(const struct job *job, uint32_t ranks, uint64_t values[2])
{
	uint32_t i, k;
	int32_t pieces[9] = {[8] = MARK};
	int err;

	for (i = 0; i < 8; i++)
		pieces[i] = values[i / 4] >> i % 4 * 16 & 0xffff;
	err = inccl_allreduce(job->comm, pieces, pieces, 9, INCCL_INT32, INCCL_SUM, NULL);
	if (err)
		return err;
	if ((uint32_t)pieces[8] != ranks * MARK)
		return -EBADMSG;
	for (i = 0; i < 2; i++)
		for (values[i] = 0, k = 0; k < 4; k++)
			values[i] += (uint64_t)(uint32_t)pieces[4 * i + k] << 16 * k;
	return 0;
}

/* Checks that all ranks have the same hash. The ranks compute the MAX of the hash and the MAX of
 * its inverse. Only if all hashes are equal, these two are each other's inverse. Returns 0,
 * -EBADMSG, or the error of the call. */
static int compare_ranks(const struct job *job, uint64_t hash)
{
	int32_t pieces[4] = {hash, hash >> 32, ~hash, ~hash >> 32};
	int err = inccl_allreduce(job->comm, pieces, pieces, 4, INCCL_INT32, INCCL_MAX, NULL);

	if (err)
		return err;
	return pieces[0] == ~pieces[2] && pieces[1] == ~pieces[3] ? 0 : -EBADMSG;
}

/* Starts several AllReduces, and then waits for all of them. Returns 0 or the first error. */
static int run_together(const struct perf_call *call, const struct inccl_collective_opts *how)
{
	struct inccl_request *requests[PERF_MAX_TOGETHER];
	unsigned int n, i;
	int err = 0, ended;

	for (n = 0; n < call->opts->together && !err; n++) {
		const struct perf_call c = perf_nth(call, n);

		err = inccl_allreduce_start(c.opts->job.comm, c.send, c.recv, c.count, c.dtype,
					    c.op, how, &requests[n]);
	}
	/* after an error the last one was not started, so it needs no wait */
	for (i = 0; i < n - !!err; i++) {
		ended = inccl_wait(requests[i], -1);
		err = err ?: ended;
	}
	return err;
}

/* Makes one call of the collective. how->error has the reason if the call is rejected. */
static int run_one(const struct perf_call *call, struct inccl_collective_opts *how)
{
	how->error[0] = 0;
	if (call->opts->together > 1)
		return run_together(call, how);
	return perf_collective(call->opts->collective)->run(call, how);
}

/* Fills the vectors of the collectives in iteration i. With --check each of them has different
 * data. */
static void fill_all(const struct perf_call *call, long i)
{
	const unsigned int together = call->opts->together;

	for (unsigned int n = 0; n < together; n++) {
		const struct perf_call c = perf_nth(call, n);

		if (call->opts->check)
			perf_fill(&c, i * together + n);
		else
			perf_fill_unchecked(&c);
	}
}

/* Returns the number of wrong elements of iteration i, and adds the results to the hash. */
static uint64_t verify_all(const struct perf_call *call, long i, uint64_t *hash)
{
	const unsigned int together = call->opts->together;
	uint64_t wrong = 0;

	for (unsigned int n = 0; n < together; n++) {
		const struct perf_call c = perf_nth(call, n);

		wrong += perf_verify(&c, i * together + n);
		*hash = perf_hash(&c, *hash);
	}
	return wrong;
}

/* Shows on a terminal how far rank 0 has come. */
static void show_progress(const struct perf_call *call, long i)
{
	const struct perf_opts *opts = call->opts;

	if (call->rank == 0)
		inc_log_progress("%s of %llu bytes: iteration %ld of %ld",
				 inccl_collective_name(opts->collective),
				 (unsigned long long)call->count * inccl_dtype_size(call->dtype), i,
				 opts->iters);
}

static int run_size(const struct perf_call *call, struct inccl_collective_opts *how,
		    struct result *result)
{
	const struct perf_opts *opts = call->opts;
	const bool alone = opts->check || opts->pause_ms; /* each iteration is timed alone */
	const struct timespec pause = inc_timespec_of_ns(opts->pause_ms * INC_NSEC_PER_MSEC);
	/* Results of floats are compared between ranks, too: they may differ although each is
	 * within the bound. */
	const bool compares = opts->collective == INCCL_ALLREDUCE && call->dtype >= INCCL_FLOAT32;
	struct inccl_communicator *comm = opts->job.comm;
	uint64_t sums[2] = {0}, begin = 0, hash = 0;
	long i;
	int err;

	if (!opts->check)
		fill_all(call, 0);
	for (i = -opts->warmup; i < opts->iters; i++) {
		show_progress(call, i);
		if (opts->check)
			fill_all(call, i);
		if (opts->pause_ms)
			nanosleep(&pause, NULL);
		if (alone || i <= 0) {
			/* The ranks wait for each other before the clock starts, so that the
			 * preparations of a late rank are not timed. */
			err = inccl_barrier(comm, NULL);
			if (err)
				return err;
			begin = inc_now_ns();
		}
		err = run_one(call, how);
		if (err)
			return err;
		if (alone && i >= 0)
			sums[0] += inc_now_ns() - begin;
		if (opts->check)
			sums[1] += verify_all(call, i, &hash);
	}
	if (!alone)
		sums[0] = inc_now_ns() - begin;
	if (opts->check && compares) {
		err = compare_ranks(&opts->job, hash);
		if (err && err != -EBADMSG)
			return err;
		sums[1] += err != 0;
	}
	result->own_wrong = sums[1];
	err = sum_over_ranks(&opts->job, call->ranks, sums);
	if (err && err != -EBADMSG)
		return err;
	result->unsummed = err;
	result->time_us = sums[0] / 1e3 / opts->iters / opts->together / (err ? 1 : call->ranks);
	/* the sum over the ranks is wrong if it is below this rank's own count, which counts
	 * then */
	result->wrong = sums[1] > result->own_wrong ? sums[1] : result->own_wrong;
	return 0;
}

static void print_header(const struct perf_opts *opts)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	inccl_communicator_info(opts->job.comm, &info);
	printf("# inccl-perf %s: %s, %d ranks, transport %s (%s), switch %s\n", inccl_version(),
	       inccl_collective_name(opts->collective), info.world_size, info.transport,
	       opts->job.mode == INCCL_MODE_WRITE ? "write" : "sendrecv", info.peer);
	if (opts->whole)
		printf("# part %u of %u, measured beside the others\n", opts->color, opts->split);
	printf("# tree %s, mode %s%s%s%s, floats %s\n", info.tree, info.mode,
	       *info.choice ? " (auto: " : "", info.choice, *info.choice ? ")" : "", info.floats);
	printf("# payload %u, window %u x %u packets, %u slots, %u channels, %ld iterations after "
	       "%ld%s%s\n",
	       info.payload, info.window, info.message_packets, info.slots, info.channels,
	       opts->iters, opts->warmup, opts->in_place ? ", in place" : "",
	       opts->check ? ", checked" : "");
	printf("#%11s %12s %13s %6s %5s %12s %10s %10s %8s\n", "bytes", "count", "type", "op",
	       "root", "time", "algbw", "busbw", "wrong");
	printf("#%11s %12s %13s %6s %5s %12s %10s %10s %8s\n", "", "(elements)", "", "", "", "(us)",
	       "(Gbit/s)", "(Gbit/s)", "");
	fflush(stdout);
}

struct perf_row {
	uint64_t bytes; /* size of the whole vector */
	double algbw, busbw;
	const char *op; /* name of the operator; NULL: the collective has no operator */
	int root;       /* root of the collective; -1: it has no root */
};

static void make_row(const struct perf_call *call, const struct result *result,
		     struct perf_row *row)
{
	const struct perf_opts *opts = call->opts;
	const struct perf_collective *c = perf_collective(opts->collective);

	row->bytes = (uint64_t)call->count * inccl_dtype_size(call->dtype) *
		     (c->blocks ? call->ranks : 1);
	row->algbw = row->bytes * 8 / result->time_us / 1e3;
	row->busbw = row->algbw * c->bus_factor(call->ranks);
	row->op = c->has_op ? inccl_op_name(call->op) : NULL;
	row->root = c->has_root ? (int)opts->root : -1;
}

static void print_row(const struct perf_call *call, const struct perf_row *row,
		      const struct result *result)
{
	const struct perf_opts *opts = call->opts;
	char root[16] = "-";

	if (row->root >= 0)
		snprintf(root, sizeof(root), "%d", row->root);
	printf("%12llu %12zu %13s %6s %5s %12.2f %10.3f %10.3f ", (unsigned long long)row->bytes,
	       call->count, inccl_dtype_name(call->dtype), row->op ?: "-", root, result->time_us,
	       row->algbw, row->busbw);
	if (opts->check)
		printf("%8llu\n", (unsigned long long)result->wrong);
	else
		printf("%8s\n", "-");
}

static void print_json(const struct perf_call *call, const struct perf_row *row,
		       const struct result *result)
{
	const struct perf_opts *opts = call->opts;
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	json_t *o;

	inccl_communicator_info(opts->job.comm, &info);
	o = json_pack("{s:s, s:s, s:s?, s:o, s:s, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:o}",
		      "collective", inccl_collective_name(opts->collective), "dtype",
		      inccl_dtype_name(call->dtype), "op", row->op, "root",
		      row->root >= 0 ? json_integer(row->root) : json_null(), "transport",
		      info.transport, "ranks", (int)call->ranks, "channels", (int)info.channels,
		      "bytes", (json_int_t)row->bytes, "count", (json_int_t)call->count, "iters",
		      (json_int_t)opts->iters, "time_us", result->time_us, "algbw_gbps", row->algbw,
		      "busbw_gbps", row->busbw, "wrong",
		      opts->check ? json_integer(result->wrong) : json_null());
	if (opts->whole)
		json_object_set_new(o, "color", json_integer(opts->color));
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(o);
}

static void print_result(const struct perf_call *call, const struct result *result)
{
	struct perf_row row;

	make_row(call, result, &row);
	inc_log_progress_end();
	if (call->opts->json)
		print_json(call, &row, result);
	else
		print_row(call, &row, result);
	fflush(stdout);
}

static void print_stats(const struct perf_opts *opts)
{
	struct inccl_communicator_info i = {.sz = sizeof(i)};
	json_t *o;

	inccl_communicator_info(opts->job.comm, &i);
	o = json_pack("{s:i}", "rank", i.rank);
#define _(name, unit, what) json_object_set_new(o, #name, json_integer(i.name));
	INCCL_STATISTICS(_)
#undef _
	json_dumpf(o, stderr, JSON_COMPACT);
	fputc('\n', stderr);
	json_decref(o);
}

/* Reports wrong elements. Returns true if there are any. */
static bool report_wrong(int rank, const struct result *total)
{
	if (total->unsummed)
		inc_error("a sum over the ranks is wrong: time and wrong elements are those of "
			  "rank %d alone",
			  rank);
	if (total->wrong && rank == 0)
		inc_error("%llu elements are wrong", (unsigned long long)total->wrong);
	else if (total->own_wrong)
		inc_error("%llu elements are wrong on rank %d",
			  (unsigned long long)total->own_wrong, rank);
	return total->wrong || total->unsummed;
}

static void report_failure(const struct perf_call *call, uint64_t bytes, int err, const char *why)
{
	char what[64];

	snprintf(what, sizeof(what), "%s of %llu bytes",
		 inccl_collective_name(call->opts->collective), (unsigned long long)bytes);
	if (why[0])
		inc_error("%s: %s", what, why);
	else
		job_report(&call->opts->job, what, err);
}

/* Returns the distance between the vectors of two calls that are started together. A guard follows
 * each vector, and each begins at a cache line. */
static uint64_t stride_of(uint64_t bytes)
{
	return (bytes + 2 * PERF_GUARD_BYTES - 1) / PERF_GUARD_BYTES * PERF_GUARD_BYTES;
}

/* Measures all sizes of the vector, for one type and one operator. */
static int run_sizes(struct perf_call *call, void *send, void *recv, struct result *total)
{
	const struct perf_opts *opts = call->opts;
	char why[256] = "";
	INCCL_OPTS(inccl_collective_opts, how, .mode = opts->job.mode, .error = why,
		   .error_size = sizeof(why), .float_block = opts->float_block);
	struct result result;

	for (unsigned int i = 0; i < opts->nsizes; i++) {
		int err;

		perf_place(call, opts->sizes[i] / inccl_dtype_size(call->dtype), send, recv);
		call->stride = stride_of(opts->sizes[i]);
		/* with --split, the communicators of all parts begin at the same time */
		err = opts->whole ? inccl_barrier(opts->whole, NULL) : 0;
		if (!err)
			err = run_size(call, &how, &result);
		/* A type without this operator is skipped. All ranks reject the call before they
		 * send anything. */
		if (err == -EOPNOTSUPP && perf_several(opts))
			return 0;
		if (err) {
			report_failure(call, opts->sizes[i], err, why);
			return err;
		}
		total->wrong += result.wrong;
		total->own_wrong += result.own_wrong;
		total->unsummed |= result.unsummed;
		if (call->rank == 0)
			print_result(call, &result);
	}
	return 0;
}

static int run_kinds(const struct perf_opts *opts, void *send, void *recv)
{
	/* a collective without an operator runs once */
	const uint32_t ops =
		perf_collective(opts->collective)->has_op ? opts->ops : opts->ops & -opts->ops;
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	struct perf_call call = {.opts = opts};
	struct result total = {0};
	int err = 0;

	inccl_communicator_info(opts->job.comm, &info);
	call.rank = info.rank;
	call.ranks = info.world_size;
	if (call.rank == 0 && !opts->json)
		print_header(opts);
	for (unsigned int d = 0; d < PERF_MAX_WORDS; d++)
		for (unsigned int o = 0; o < PERF_MAX_WORDS && !err; o++) {
			if (!perf_has(opts->dtypes, d) || !perf_has(ops, o))
				continue;
			call.dtype = d;
			call.op = o;
			err = run_sizes(&call, send, recv, &total);
		}
	if (opts->stats)
		print_stats(opts);
	return report_wrong(call.rank, &total) ? -EBADMSG : err;
}

/* Returns a buffer whose pages are all there. They are written once, because pages that were never
 * written would all be the kernel's zero page. One call populates them before, because a page fault
 * for each costs more time than a small job. Kernels before 5.14 do not know that call. */
static void *new_buffer(size_t bytes)
{
	void *buffer =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		return NULL;
	madvise(buffer, bytes, MADV_POPULATE_WRITE);
	memset(buffer, 1, bytes);
	return buffer;
}

static void free_buffer(void *buffer, size_t bytes)
{
	if (buffer)
		munmap(buffer, bytes);
}

static int run(const struct perf_opts *opts)
{
	uint64_t largest = 0;
	void *send, *recv;
	unsigned int i;
	int err;

	for (i = 0; i < opts->nsizes; i++)
		if (opts->sizes[i] > largest)
			largest = opts->sizes[i];
	largest = stride_of(largest) * opts->together;
	send = new_buffer(largest);
	recv = opts->in_place ? send : new_buffer(largest);
	if (send && recv) {
		err = run_kinds(opts, send, recv);
	} else {
		inc_error("buffers of %llu bytes: %s", (unsigned long long)largest,
			  strerror(ENOMEM));
		err = -ENOMEM;
	}
	if (recv != send)
		free_buffer(recv, largest);
	free_buffer(send, largest);
	return err;
}

static int split(struct perf_opts *opts)
{
	struct job *job = &opts->job;
	struct inccl_communicator *part;
	int err;

	opts->color = inccl_group_rank(job->group) % opts->split;
	err = inccl_communicator_split(job->comm, opts->color, 0, &job->comm_opts, &part);
	if (err) {
		inc_error("splitting the communicator: %s",
			  job->error[0] ? job->error : inccl_strerror(err));
		return err;
	}
	opts->whole = job->comm;
	job->comm = part;
	return 0;
}

static int unsplit(struct perf_opts *opts)
{
	int err = inccl_communicator_destroy(opts->job.comm);

	opts->job.comm = opts->whole;
	opts->whole = NULL;
	return err;
}

/* Names to the controller the largest vector, and of the types and operators those that decide its
 * choice: floats and the product. */
static void name_use(struct perf_opts *opts)
{
	const bool reduces = perf_collective(opts->collective)->has_op;
	enum inccl_dtype dtype = INCCL_INT32;
	uint64_t most = 0;

	for (unsigned int d = INCCL_FLOAT32; reduces && d < INCCL_INT32_INDEX; d++)
		if (perf_has(opts->dtypes, d))
			dtype = d;
	for (unsigned int i = 0; i < opts->nsizes; i++)
		most = opts->sizes[i] > most ? opts->sizes[i] : most;
	job_use(&opts->job, dtype,
		reduces && perf_has(opts->ops, INCCL_PROD) ? INCCL_PROD : INCCL_SUM, most);
}

int main(int argc, char **argv)
{
	struct perf_opts opts;
	int err, left;

	inc_log_init("inccl-perf");
	err = perf_parse(&opts, argc, argv);
	if (err >= 0)
		return err;
	name_use(&opts);
	if (job_start(&opts.job))
		return 1;
	err = opts.split ? split(&opts) : 0;
	if (!err)
		err = run(&opts);
	left = opts.whole ? unsplit(&opts) : 0;
	left = job_end(&opts.job) ?: left;
	return err || left || job_flush() ? 1 : 0;
}
