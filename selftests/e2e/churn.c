/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * churn CYCLES LIVE [COLORS]: runs on every rank of a job and keeps LIVE communicators. With COLORS
 * these are split off a first one, and ranks that are equal modulo COLORS share them. Each cycle
 * runs a collective on all of them at once and checks it against sums that are computed without the
 * library. Then it replaces the oldest communicator. Neither the descriptors nor the memory of this
 * process may grow. Prints "N collectives". Exit code 0, or 1 with an error message.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "hostlib/include/inccl.h"
#include "selftests/belongings.h"

#define MAX_LIVE 16
#define SETTLED  20 /* number of cycles after which neither descriptors nor memory may grow */
/* Tolerances. The allocated bytes are exact, but buffers of other threads vary a little. Resident
 * memory varies by how much of its heap the allocator happens to use. */
#define MORE_BYTES 65536
#define MORE_KIB   4096
#define ELEMENTS   300 /* number of elements of a collective, which are two packets */

static struct inccl_group *group;
static struct inccl_communicator *comm[MAX_LIVE];
static int32_t data[MAX_LIVE][ELEMENTS];
/* the communicator from which the others are split off; NULL: they are not split off */
static struct inccl_communicator *whole;
static int rank, size, colors = 1;

static void fail(const char *what, int err)
{
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, inccl_strerror(err));
	exit(1);
}

static void make(uint32_t i)
{
	char error[512] = "";
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 4, .error = error, .error_size = sizeof(error));
	int err = whole ? inccl_communicator_split(whole, rank % colors, 0, &opts, &comm[i])
			: inccl_communicator_create(group, &opts, &comm[i]);

	if (err) {
		fprintf(stderr, "rank %d: %s\n", rank, error);
		fail("communicator", err);
	}
}

static uint32_t part(int of, uint32_t cycle, uint32_t i, uint32_t k)
{
	return (of + 1) * 2654435761u + cycle * 40503u + i * 69069u + k;
}

static void check(uint32_t cycle, uint32_t i)
{
	for (uint32_t k = 0; k < ELEMENTS; k++) {
		uint32_t want = 0;

		for (int r = rank % colors; r < size; r += colors)
			want += part(r, cycle, i, k);
		if ((uint32_t)data[i][k] != want) {
			fprintf(stderr,
				"rank %d: cycle %u communicator %u element %u is %u, not %u\n",
				rank, cycle, i, k, (uint32_t)data[i][k], want);
			exit(1);
		}
	}
}

static void exchange(uint32_t cycle, uint32_t live)
{
	struct inccl_request *request[MAX_LIVE];
	int err;

	for (uint32_t i = 0; i < live; i++) {
		for (uint32_t k = 0; k < ELEMENTS; k++)
			data[i][k] = part(rank, cycle, i, k);
		err = inccl_allreduce_start(comm[i], data[i], data[i], ELEMENTS, INCCL_INT32,
					    INCCL_SUM, NULL, &request[i]);
		if (err)
			fail("start", err);
	}
	for (uint32_t i = 0; i < live; i++) {
		err = inccl_wait(request[i], -1);
		if (err)
			fail("wait", err);
		check(cycle, i);
	}
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* Returns the bytes that the allocator has handed out. A sanitizer's allocator returns 0. */
static size_t allocated_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Checks that descriptors and memory have not grown since the first cycles. */
static void check_own(uint32_t cycle, uint32_t cycles)
{
	static long kib;
	static unsigned int fds;
	static size_t allocated;

	if (cycle == SETTLED) {
		fds = open_descriptors();
		kib = resident_kib();
		allocated = allocated_bytes();
	}
	if (cycle < SETTLED || cycle + 1 < cycles)
		return;
	if (open_descriptors() <= fds && resident_kib() <= kib + MORE_KIB &&
	    allocated_bytes() <= allocated + MORE_BYTES)
		return;
	fprintf(stderr,
		"rank %d: %u descriptors, %zu allocated bytes and %ld KiB of resident memory "
		"became %u, "
		"%zu and %ld\n",
		rank, fds, allocated, kib, open_descriptors(), allocated_bytes(), resident_kib());
	exit(1);
}

/* Creates the group, the communicator to split if there is one, and the first LIVE
 * communicators. */
static void begin(uint32_t live)
{
	int err = inccl_group_create(NULL, &group);

	if (err)
		fail("group", err);
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	if (colors > 1) {
		make(0);
		whole = comm[0];
	}
	for (uint32_t i = 0; i < live; i++)
		make(i);
}

int main(int argc, char **argv)
{
	uint32_t cycles = argc > 2 ? atoi(argv[1]) : 0, live = argc > 2 ? atoi(argv[2]) : 0;
	int err;

	colors = argc > 3 ? atoi(argv[3]) : 1;
	if (!cycles || !live || live > MAX_LIVE || colors < 1 || argc > 4) {
		fprintf(stderr, "usage: churn CYCLES LIVE [COLORS] (LIVE 1 to %d)\n", MAX_LIVE);
		return 2;
	}
	begin(live);
	for (uint32_t cycle = 0; cycle < cycles; cycle++) {
		exchange(cycle, live);
		check_own(cycle, cycles);
		err = inccl_communicator_destroy(comm[cycle % live]);
		if (err)
			fail("destroy", err);
		make(cycle % live);
	}
	printf("%u collectives\n", cycles * live);
	for (uint32_t i = 0; i < live; i++)
		inccl_communicator_destroy(comm[i]);
	inccl_communicator_destroy(whole);
	inccl_group_destroy(group);
	return 0;
}
