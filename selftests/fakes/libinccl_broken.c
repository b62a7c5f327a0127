/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library for LD_PRELOAD. It spoils the results of every collective, so that test_check can find
 * out whether inccl-perf detects that, or makes one call fail. BROKEN selects how:
 *	zeros	every result is zero
 *	own	the result is this rank's contribution
 *	next	in results of 16 bits, each element from zero on becomes the next number
 *	wait:RANK:N	on this rank of MPI, the Nth operation for which inccl_wait() waits fails
 *			after it has ended, so the other ranks alone have its result. A fallback
 *			waits twice for a large collective: the second time for the barrier
 *	version	the library has another version
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/include/inccl_fallback.h"

/* The collective in progress. inccl-perf has only one at a time. */
static struct {
	void *recv;
	void *own; /* copy of this rank's contribution */
	size_t bytes;
} last;

static void *next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	if (!fn) {
		fprintf(stderr, "broken_library: no %s behind it\n", name);
		abort();
	}
	return fn;
}

static void remember(const void *send, void *recv, size_t bytes)
{
	free(last.own);
	last.recv = recv;
	last.bytes = bytes;
	last.own = malloc(bytes ? bytes : 1);
	if (!last.own)
		abort();
	if (bytes)
		memcpy(last.own, send, bytes);
}

static void spoil(void)
{
	const char *how = getenv("BROKEN");

	if (!last.bytes)
		return;
	if (how && !strcmp(how, "zeros"))
		memset(last.recv, 0, last.bytes);
	else if (how && !strcmp(how, "own"))
		memcpy(last.recv, last.own, last.bytes);
	else if (how && !strcmp(how, "next"))
		for (size_t i = 0; i < last.bytes / sizeof(uint16_t); i++)
			((uint16_t *)last.recv)[i]++;
}

int inccl_allreduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, enum inccl_op op,
		    const struct inccl_collective_opts *opts)
{
	int (*fn)(struct inccl_communicator *, const void *, void *, size_t, enum inccl_dtype,
		  enum inccl_op, const struct inccl_collective_opts *) = next(__func__);
	int ret;

	remember(send, recv, count * inccl_dtype_size(dtype));
	ret = fn(comm, send, recv, count, dtype, op, opts);
	if (!ret)
		spoil();
	return ret;
}

int inccl_allreduce_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, enum inccl_op op,
			  const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	int (*fn)(struct inccl_communicator *, const void *, void *, size_t, enum inccl_dtype,
		  enum inccl_op, const struct inccl_collective_opts *, struct inccl_request **) =
		next(__func__);

	remember(send, recv, count * inccl_dtype_size(dtype));
	return fn(comm, send, recv, count, dtype, op, opts, request);
}

/* A fallback starts its collectives inside the library, so this is where their results are found.
 */
int inccl_fallback_run(struct inccl_fallback *fallback, const struct inccl_fallback_call *call)
{
	int (*fn)(struct inccl_fallback *, const struct inccl_fallback_call *) = next(__func__);
	const bool is_written = call->collective != INCCL_BARRIER && call->recv &&
				(call->collective != INCCL_BROADCAST || call->send != call->recv);

	last.recv = call->recv;
	last.bytes = is_written ? call->count * inccl_dtype_size(call->dtype) : 0;
	return fn(fallback, call);
}

int inccl_wait(struct inccl_request *request, int timeout_ms)
{
	int (*fn)(struct inccl_request *, int) = next(__func__);
	const char *how = getenv("BROKEN"),
		   *rank = getenv("OMPI_COMM_WORLD_RANK") ?: getenv("PMI_RANK");
	int ret = fn(request, timeout_ms), failing_rank, n;
	static int ended;

	if (ret || !how || !rank || sscanf(how, "wait:%d:%d", &failing_rank, &n) != 2)
		return ret;
	if (atoi(rank) != failing_rank || ++ended != n) {
		last.bytes = 0; /* the result is this rank's, also if the barrier behind it fails */
		return 0;
	}
	if (last.bytes)
		memset(last.recv, 0x5a, last.bytes);
	return -ECONNRESET;
}

const char *inccl_version(void)
{
	const char *(*fn)(void) = next(__func__);
	const char *how = getenv("BROKEN");

	return how && !strcmp(how, "version") ? "0.0.1" : fn();
}
