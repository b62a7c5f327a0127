/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The choice between the switch and MPI (hostlib/mpi/decide.c): which calls measure, what they
 * choose, and when they measure again. The source is included, and its clock, its collective and
 * the rest of the front end are replaced. MPI does not run. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>
#include <mpi.h>

static double now_s;       /* the clock of decide.c */
static double others_s[2]; /* the median of a slower rank, on each path */
static unsigned int agreed;

static double clock_s(void)
{
	return now_s;
}

/* The maximum over this rank and the slower one. */
static int agree(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		 MPI_Comm comm)
{
	double *typical_s = recv;

	assert_true(send == MPI_IN_PLACE && count == 2 && type == MPI_DOUBLE && op == MPI_MAX);
	for (int i = 0; i < count; i++)
		typical_s[i] = others_s[i] > typical_s[i] ? others_s[i] : typical_s[i];
	agreed++;
	return MPI_SUCCESS;
}

#define PMPI_Wtime     clock_s
#define PMPI_Allreduce agree
#include "hostlib/mpi/decide.c"

/* --- the rest of the front end --- */

bool front_on;
int front_fixed;
static struct front_team team;
static struct front_shape shape;
static enum front_reason reason;
static double takes_s[FRONT_PATHS]; /* how long a call takes on each path */
static unsigned int by[FRONT_PATHS], chosen[FRONT_PATHS];
static unsigned int counted[FRONT_REASONS];

struct front_team *front_team(const struct front_call *call)
{
	return &team;
}

enum front_reason front_shape(const struct front_call *call, struct front_shape *out)
{
	*out = shape;
	return reason;
}

unsigned int front_class(size_t bytes)
{
	return bytes > 1024;
}

void front_run(struct front_team *t, const struct front_call *call, const struct front_shape *s)
{
	by[FRONT_SWITCH]++;
	now_s += takes_s[FRONT_SWITCH];
}

static int pass(const struct front_call *call)
{
	by[FRONT_MPI]++;
	now_s += takes_s[FRONT_MPI];
	return MPI_SUCCESS;
}

void front_count(enum front_kind kind, enum front_path path, size_t bytes, double took_s)
{
}

void front_count_reason(enum front_kind kind, enum front_reason why)
{
	counted[why]++;
}

void front_count_choice(enum front_kind kind, unsigned int class, enum front_path path,
			const double typical_s[FRONT_PATHS])
{
	chosen[path]++;
}

/* --- tests --- */

static const struct front_call allreduce = {
	.kind = FRONT_ALLREDUCE, .send = &now_s, .recv = &takes_s, .count = 4, .pass = pass};

/* Begins anew, with a switch that takes so long beside MPI's 10 us. */
static void begin(double switch_s)
{
	team = (struct front_team){.use = FRONT_ON, .ranks = 4, .even = true};
	shape = (struct front_shape){
		.dtype = INCCL_INT32, .op = INCCL_SUM, .elements = 4, .bytes = 16, .count = 4};
	front_on = true;
	front_fixed = -1;
	reason = FRONT_NO_REASON;
	takes_s[FRONT_SWITCH] = switch_s;
	takes_s[FRONT_MPI] = 10e-6;
	memset(others_s, 0, sizeof(others_s));
	memset(by, 0, sizeof(by));
	memset(chosen, 0, sizeof(chosen));
	memset(counted, 0, sizeof(counted));
	agreed = 0;
}

static void call(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		assert_true(front_call(&allreduce) == MPI_SUCCESS);
}

static void faster_path(void **state)
{
	begin(5e-6);
	call(8);
	assert_true(by[FRONT_SWITCH] == 4 && by[FRONT_MPI] == 4 && agreed == 1);
	assert_true(chosen[FRONT_SWITCH] == 1 && chosen[FRONT_MPI] == 0);
	call(256);
	assert_true(by[FRONT_SWITCH] == 260 && by[FRONT_MPI] == 4 && agreed == 1);
	begin(20e-6);
	call(8 + 256);
	assert_true(by[FRONT_SWITCH] == 4 && by[FRONT_MPI] == 260);
	assert_true(chosen[FRONT_SWITCH] == 0 && chosen[FRONT_MPI] == 1);
}

/* The slowest rank counts, so that no rank waits for one that is slow by this path. */
static void slowest_rank(void **state)
{
	begin(5e-6);
	others_s[FRONT_SWITCH] = 11e-6;
	call(8);
	assert_true(chosen[FRONT_MPI] == 1);
	begin(20e-6);
	others_s[FRONT_MPI] = 22e-6;
	call(8);
	assert_true(chosen[FRONT_SWITCH] == 1);
}

/* The first call of each path is slow, because its buffers are new. It does not count. */
static void first_call(void **state)
{
	begin(1);
	call(1);
	takes_s[FRONT_SWITCH] = 5e-6;
	call(7);
	assert_true(chosen[FRONT_SWITCH] == 1);
}

/* A single slow call later, such as an interrupted one, does not count either, and neither does a
 * single lucky one. */
static void single_calls(void **state)
{
	for (unsigned int before = 2; before < 8; before += 2) {
		begin(5e-6);
		call(before);
		takes_s[FRONT_SWITCH] = 1;
		call(1);
		takes_s[FRONT_SWITCH] = 5e-6;
		call(7 - before);
		assert_true(chosen[FRONT_SWITCH] == 1);
		begin(20e-6);
		call(before);
		takes_s[FRONT_SWITCH] = 1e-6;
		call(1);
		takes_s[FRONT_SWITCH] = 20e-6;
		call(7 - before);
		assert_true(chosen[FRONT_MPI] == 1);
	}
}

/* Where both take about as long, MPI alone is the safe choice. */
static void small_gain(void **state)
{
	begin(9.6e-6);
	call(8);
	assert_true(chosen[FRONT_MPI] == 1);
	begin(9.4e-6);
	call(8);
	assert_true(chosen[FRONT_SWITCH] == 1);
}

/* The paths are measured again after 256 calls, then after 512, and what has changed is found. */
static void measured_again(void **state)
{
	begin(5e-6);
	call(8 + 256);
	takes_s[FRONT_SWITCH] = 20e-6;
	call(8);
	assert_true(agreed == 2 && chosen[FRONT_SWITCH] == 1 && chosen[FRONT_MPI] == 1);
	memset(by, 0, sizeof(by));
	call(512);
	assert_true(by[FRONT_SWITCH] == 0 && by[FRONT_MPI] == 512 && agreed == 2);
	call(8);
	assert_true(by[FRONT_SWITCH] == 4 && agreed == 3);
	memset(by, 0, sizeof(by));
	call(1024);
	assert_true(by[FRONT_SWITCH] == 0 && by[FRONT_MPI] == 1024 && agreed == 3);
}

static void longest_rest(void **state)
{
	begin(5e-6);
	call(8);
	team.choice[FRONT_ALLREDUCE][0].rest = 0;
	team.choice[FRONT_ALLREDUCE][0].next_rest = 1u << 20;
	call(8);
	assert_true(team.choice[FRONT_ALLREDUCE][0].rest == 1u << 20);
}

/* Each class of sizes has its own choice. */
static void classes(void **state)
{
	begin(5e-6);
	call(8);
	takes_s[FRONT_SWITCH] = 20e-6;
	shape.bytes = 4096;
	call(8);
	assert_true(chosen[FRONT_SWITCH] == 1 && chosen[FRONT_MPI] == 1);
	memset(by, 0, sizeof(by));
	shape.bytes = 16;
	call(3);
	shape.bytes = 4096;
	call(5);
	assert_true(by[FRONT_SWITCH] == 3 && by[FRONT_MPI] == 5);
}

/* INCCL_MPI_CHOICE chooses without a measurement. */
static void fixed(void **state)
{
	for (int path = 0; path < FRONT_PATHS; path++) {
		begin(5e-6);
		front_fixed = path;
		call(20);
		assert_true(by[path] == 20 && by[!path] == 0 && agreed == 0);
	}
}

/* A loss in the middle of a trial ends the measurement, because MPI serves all further calls. */
static void lost(void **state)
{
	begin(5e-6);
	call(5);
	team.use = FRONT_OFF;
	team.off = FRONT_LOST;
	call(10);
	assert_true(agreed == 0 && by[FRONT_SWITCH] == 3 && by[FRONT_MPI] == 12);
	assert_true(counted[FRONT_LOST] == 10);
}

static void refused(void **state)
{
	begin(5e-6);
	shape.dtype = INCCL_FLOAT32;
	shape.op = INCCL_PROD;
	call(9);
	assert_true(by[FRONT_MPI] == 9 && counted[FRONT_PRODUCT] == 9 && agreed == 0);
	team.native_floats = true;
	call(8);
	assert_true(by[FRONT_SWITCH] == 4 && agreed == 1);
	begin(5e-6);
	reason = FRONT_TYPE;
	call(9);
	assert_true(by[FRONT_MPI] == 9 && counted[FRONT_TYPE] == 9);
	begin(5e-6);
	front_on = false;
	call(9);
	assert_true(by[FRONT_MPI] == 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faster_path),    cmocka_unit_test(slowest_rank),
		cmocka_unit_test(first_call),     cmocka_unit_test(single_calls),
		cmocka_unit_test(measured_again), cmocka_unit_test(longest_rest),
		cmocka_unit_test(classes),        cmocka_unit_test(fixed),
		cmocka_unit_test(lost),           cmocka_unit_test(refused),
		cmocka_unit_test(small_gain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
