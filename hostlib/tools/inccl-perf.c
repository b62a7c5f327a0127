/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times collectives, in the manner of nccl-tests. With --check the data of each iteration
 * depends on rank, position and iteration, so that a stale, misplaced or doubled
 * chunk cannot pass for a right one; a guard behind the buffers catches overruns.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/base/clock.h"
#include "hostlib/tools/perf_opts.h"
#include "lib/base/log.h"

#define GUARD_ELEMENTS 16
#define GUARD          0x5a5a1234

/* What every rank adds to a sum over the ranks beside its numbers, so that a sum that is wrong
 * shows itself. */
#define MARK 0x2bad5

struct result {
	double time_us; /* per iteration, mean over ranks */
	uint64_t wrong; /* over all ranks and iterations, at least own_wrong */
	uint64_t own_wrong;
	bool unsummed; /* the sums over the ranks are wrong: time_us and wrong are this rank's */
};

static uint32_t value(uint32_t rank, uint32_t i, uint32_t iter)
{
	uint32_t x = i * 2654435761u + rank * 0x9e3779b9u + iter * 0x85ebca6bu;

	return x ^ x >> 15;
}

static void fill(const struct perf_opts *opts, int32_t *send, int32_t *recv, size_t count,
		 uint32_t rank, uint32_t iter)
{
	size_t i;

	for (i = 0; i < count; i++)
		send[i] = value(rank, i, iter);
	if (send != recv)
		for (i = 0; i < count; i++)
			recv[i] = ~value(rank, i, iter);
	for (i = 0; i < GUARD_ELEMENTS; i++)
		recv[count + i] = GUARD;
}

static uint64_t verify(const int32_t *recv, size_t count, uint32_t ranks, uint32_t iter)
{
	uint64_t wrong = 0;
	uint32_t r, sum;
	size_t i;

	for (i = 0; i < count; i++) {
		sum = 0;
		for (r = 0; r < ranks; r++)
			sum += value(r, i, iter);
		wrong += (uint32_t)recv[i] != sum;
	}
	for (i = 0; i < GUARD_ELEMENTS; i++)
		wrong += recv[count + i] != GUARD;
	return wrong;
}

/* 64-bit numbers summed over the ranks by the collective under test itself, in pieces of 16 bits
 * that cannot overflow. -EBADMSG where that is broken: the numbers are then as they were. */
static int sum_over_ranks(const struct job *job, uint64_t values[2])
{
	uint32_t ranks = inccl_group_size(job->group), i, k;
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

static int run_one(const struct perf_opts *opts, const int32_t *send, int32_t *recv, size_t count)
{
	INCCL_OPTS(inccl_collective_opts, how, .mode = opts->job.mode);

	if (opts->collective == INCCL_BARRIER)
		return inccl_barrier(opts->job.comm, &how);
	return inccl_allreduce(opts->job.comm, send, recv, count, opts->dtype, opts->op, &how);
}

static int run_size(const struct perf_opts *opts, uint64_t bytes, int32_t *send, int32_t *recv,
		    struct result *result)
{
	struct inccl_communicator *comm = opts->job.comm;
	int rank = inccl_group_rank(opts->job.group), ranks = inccl_group_size(opts->job.group);
	size_t count = bytes / inccl_dtype_size(opts->dtype);
	uint64_t sums[2] = {0}, begin = 0;
	long i;
	int err;

	for (i = -opts->warmup; i < opts->iters; i++) {
		if (opts->check)
			fill(opts, send, recv, count, rank, i);
		if (opts->check || i <= 0) {
			/* a late rank's preparations are not the network's time */
			err = inccl_barrier(comm, NULL);
			if (err)
				return err;
			begin = inc_now_ns();
		}
		err = run_one(opts, send, recv, count);
		if (err)
			return err;
		if (opts->check) {
			if (i >= 0)
				sums[0] += inc_now_ns() - begin;
			sums[1] += verify(recv, count, ranks, i);
		}
	}
	if (!opts->check)
		sums[0] = inc_now_ns() - begin;
	result->own_wrong = sums[1];
	err = sum_over_ranks(&opts->job, sums);
	if (err && err != -EBADMSG)
		return err;
	result->unsummed = err;
	result->time_us = sums[0] / 1e3 / opts->iters / (err ? 1 : ranks);
	/* a sum that hides what this rank has seen itself is not believed */
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
	printf("# payload %u, window %u x %u packets, %u slots, %ld iterations after %ld%s%s\n",
	       info.payload, info.window, info.message_packets, info.slots, opts->iters,
	       opts->warmup, opts->in_place ? ", in place" : "", opts->check ? ", checked" : "");
	printf("#%11s %12s %8s %6s %12s %10s %10s %8s\n", "bytes", "count", "type", "op", "time",
	       "algbw", "busbw", "wrong");
	printf("#%11s %12s %8s %6s %12s %10s %10s %8s\n", "", "(elements)", "", "", "(us)",
	       "(Gbit/s)", "(Gbit/s)", "");
	fflush(stdout);
}

static void print_result(const struct perf_opts *opts, uint64_t bytes, const struct result *result)
{
	int ranks = inccl_group_size(opts->job.group);
	double algbw = bytes * 8 / result->time_us / 1e3;
	double busbw = algbw * 2 * (ranks - 1) / ranks;
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	size_t count = bytes / inccl_dtype_size(opts->dtype);
	json_t *o;

	if (!opts->json) {
		printf("%12llu %12zu %8s %6s %12.2f %10.3f %10.3f ", (unsigned long long)bytes,
		       count, inccl_dtype_name(opts->dtype), inccl_op_name(opts->op),
		       result->time_us, algbw, busbw);
		if (opts->check)
			printf("%8llu\n", (unsigned long long)result->wrong);
		else
			printf("%8s\n", "-");
		fflush(stdout);
		return;
	}
	inccl_communicator_info(opts->job.comm, &info);
	o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:o}", "collective",
		      inccl_collective_name(opts->collective), "dtype",
		      inccl_dtype_name(opts->dtype), "op", inccl_op_name(opts->op), "transport",
		      info.transport, "ranks", ranks, "bytes", (json_int_t)bytes, "count",
		      (json_int_t)count, "iters", (json_int_t)opts->iters, "time_us",
		      result->time_us, "algbw_gbps", algbw, "busbw_gbps", busbw, "wrong",
		      opts->check ? json_integer(result->wrong) : json_null());
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	fflush(stdout);
	json_decref(o);
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

/* True where anything was. */
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

static int run(struct perf_opts *opts)
{
	int rank = inccl_group_rank(opts->job.group), err = 0;
	int32_t *send, *recv;
	struct result result, total = {0};
	uint64_t largest = 0;
	unsigned int i;

	for (i = 0; i < opts->nsizes; i++)
		if (opts->sizes[i] > largest)
			largest = opts->sizes[i];
	largest += GUARD_ELEMENTS * sizeof(int32_t);
	/* not only zero pages, which the kernel would share */
	send = malloc(largest);
	recv = opts->in_place ? send : malloc(largest);
	if (!send || !recv) {
		inc_error("buffers of %llu bytes: %s", (unsigned long long)largest,
			  strerror(ENOMEM));
		err = -ENOMEM;
		goto out;
	}
	memset(send, 1, largest);
	memset(recv, 1, largest);
	if (rank == 0 && !opts->json)
		print_header(opts);
	for (i = 0; i < opts->nsizes; i++) {
		err = run_size(opts, opts->sizes[i], send, recv, &result);
		if (err) {
			char what[64];

			snprintf(what, sizeof(what), "%s of %llu bytes",
				 inccl_collective_name(opts->collective),
				 (unsigned long long)opts->sizes[i]);
			job_report(&opts->job, what, err);
			break;
		}
		total.wrong += result.wrong;
		total.own_wrong += result.own_wrong;
		total.unsummed |= result.unsummed;
		if (rank == 0)
			print_result(opts, opts->sizes[i], &result);
	}
	if (opts->stats)
		print_stats(opts);
	if (report_wrong(rank, &total))
		err = -EBADMSG;
out:
	if (recv != send)
		free(recv);
	free(send);
	return err;
}

int main(int argc, char **argv)
{
	struct perf_opts opts;
	int err, left;

	inc_log_init("inccl-perf");
	err = perf_parse(&opts, argc, argv);
	if (err >= 0)
		return err;
	if (job_start(&opts.job))
		return 1;
	err = run(&opts);
	left = job_end(&opts.job);
	return err || left || job_flush() ? 1 : 0;
}
