// SPDX-License-Identifier: BSD-2-Clause
// COMPUTES: it waits for nothing
/*
 * The protocol of a slot between CPUs, in every order of their accesses (docs/orders.md). With
 * FULL=1 the bounds are wider. TIMEOUT: 1200
 *
 * Arguments: test_orders [SHAPE_MODEL [PREEMPTIONS]], where 0 preemptions mean no bound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "selftests/unit/report.h"
#include "harness_peers.h"

/* The steps of a CPU, in the notation of the shapes below (enum act). */
#define K(conn, r)            \
	{                     \
		KEEP, conn, r \
	}
#define W(conn, r)             \
	{                      \
		AWAIT, conn, r \
	}
#define D(conn, r)            \
	{                     \
		SEND, conn, r \
	}
#define A(conn, r)           \
	{                    \
		ACK, conn, r \
	}
#define T(conn)               \
	{                     \
		TICK, conn, 0 \
	}
#define S(cpus)                \
	{                      \
		SERVE, cpus, 0 \
	}
#define L(cpu)                \
	{                     \
		LEAVE, cpu, 0 \
	}
#define M(cpu)               \
	{                    \
		MOVE, cpu, 0 \
	}
/* A child's two chunks in one slot. With IN_TURN it sends the second chunk after the first one's
 * result, with AT_ONCE immediately. */
#define IN_TURN(conn)                              \
	{                                          \
		K(conn, 0), W(conn, 0), K(conn, 1) \
	}
#define AT_ONCE(conn)                  \
	{                              \
		K(conn, 0), K(conn, 1) \
	}
/* The results that the parent sends for two chunks. */
#define PARENT(conn)                                           \
	{                                                      \
		W(conn, 0), K(conn, 0), W(conn, 1), K(conn, 1) \
	}

static const struct shape shapes[] = {
	/* columns: name, children, slots, below the root, impatient, chunks, bounds, CPUs */
	{"two", 2, 1, false, false, 2, 0, 0, {IN_TURN(0), IN_TURN(1)}},
	{"three", 3, 1, false, false, 2, 0, 0, {IN_TURN(0), IN_TURN(1), IN_TURN(2)}},
	{"two_impatient", 2, 1, false, true, 2, 0, 0, {AT_ONCE(0), AT_ONCE(1)}},
	{"one_impatient_of_three",
	 3,
	 1,
	 false,
	 true,
	 2,
	 4,
	 0,
	 {AT_ONCE(0), IN_TURN(1), IN_TURN(2)}},
	{"three_impatient", 3, 1, false, true, 2, 3, 5, {AT_ONCE(0), AT_ONCE(1), AT_ONCE(2)}},
	{"two_slots", 2, 2, false, false, 2, 0, 0, {AT_ONCE(0), AT_ONCE(1)}},
	{"two_slots_of_three", 3, 2, false, false, 2, 0, 0, {AT_ONCE(0), AT_ONCE(1), AT_ONCE(2)}},
	{"two_slots_three_chunks",
	 2,
	 2,
	 false,
	 false,
	 3,
	 0,
	 0,
	 {{K(0, 0), K(0, 1), W(0, 0), K(0, 2)}, {K(1, 0), K(1, 1), W(1, 0), K(1, 2)}}},
	{"duplicate", 2, 1, false, false, 2, 0, 0, {IN_TURN(0), IN_TURN(1), {D(0, 0)}}},
	{"duplicate_of_three",
	 3,
	 1,
	 false,
	 false,
	 1,
	 0,
	 0,
	 {{K(0, 0)}, {K(1, 0)}, {K(2, 0)}, {D(0, 0)}}},
	{"duplicates", 2, 1, false, false, 1, 0, 0, {{K(0, 0)}, {K(1, 0)}, {D(0, 0)}, {D(1, 0)}}},
	{"duplicate_late",
	 2,
	 1,
	 false,
	 false,
	 2,
	 0,
	 0,
	 {IN_TURN(0), IN_TURN(1), {W(0, 0), D(0, 1)}}},
	{"ack", 2, 1, false, false, 2, 0, 0, {IN_TURN(0), IN_TURN(1), {W(0, 0), A(0, 0)}}},
	{"slow_path", 2, 1, false, false, 2, 4, 0, {IN_TURN(0), IN_TURN(1), {T(0)}}},
	{"slow_path_twice", 2, 1, false, false, 2, 3, 5, {IN_TURN(0), IN_TURN(1), {T(0), T(1)}}},
	{"slow_path_and_ack",
	 2,
	 1,
	 false,
	 false,
	 1,
	 0,
	 0,
	 {{K(0, 0)}, {K(1, 0), T(0)}, {W(0, 0), A(0, 0)}}},
	{"slow_path_impatient", 2, 1, false, true, 2, 4, 5, {AT_ONCE(0), AT_ONCE(1), {T(0)}}},
	{"below", 2, 1, true, false, 2, 0, 0, {IN_TURN(0), IN_TURN(1), PARENT(2)}},
	{"below_of_three",
	 3,
	 1,
	 true,
	 false,
	 2,
	 0,
	 0,
	 {IN_TURN(0), IN_TURN(1), IN_TURN(2), PARENT(3)}},
	{"below_impatient", 2, 1, true, true, 2, 4, 6, {AT_ONCE(0), AT_ONCE(1), PARENT(2)}},
	{"below_repeated",
	 2,
	 1,
	 true,
	 false,
	 1,
	 0,
	 0,
	 {{K(0, 0)}, {K(1, 0)}, {W(2, 0), K(2, 0)}, {W(2, 0), D(2, 0)}}},
	{"below_slow_path",
	 2,
	 1,
	 true,
	 false,
	 1,
	 0,
	 0,
	 {{K(0, 0)}, {K(1, 0)}, {W(2, 0), K(2, 0)}, {T(2), T(0)}}},
	{"below_slow_path_down",
	 2,
	 1,
	 true,
	 false,
	 2,
	 3,
	 4,
	 {IN_TURN(0), IN_TURN(1), PARENT(2), {T(0)}}},
	{"below_slow_path_up",
	 2,
	 1,
	 true,
	 false,
	 2,
	 3,
	 4,
	 {IN_TURN(0), IN_TURN(1), PARENT(2), {T(2)}}},
};

/* Shapes of a switch that keeps contributions ahead of a gap. */
static const struct shape ahead_shapes[] = {
	{"ahead", 2, 2, false, false, 2, 0, 0, {{K(0, 1), K(0, 0)}, {K(1, 0), K(1, 1)}}},
	{"ahead_of_both", 2, 2, false, false, 2, 0, 0, {{K(0, 1), K(0, 0)}, {K(1, 1), K(1, 0)}}},
	{"ahead_of_three",
	 3,
	 2,
	 false,
	 false,
	 2,
	 3,
	 0,
	 {{K(0, 1), K(0, 0)}, {K(1, 0), K(1, 1)}, {K(2, 1), K(2, 0)}}},
	{"ahead_and_again",
	 2,
	 2,
	 false,
	 false,
	 3,
	 3,
	 0,
	 {{K(0, 1), K(0, 0), W(0, 0), K(0, 2)},
	  {K(1, 0), K(1, 1), W(1, 0), K(1, 2)},
	  {D(0, 1), T(0)}}},
};

/* Shapes of a communicator that has a CPU. Its results must leave in order. */
static const struct {
	struct shape shape;
	uint32_t cpu_plus_1;
} steered_shapes[] = {
	{{"steered",
	  2,
	  2,
	  false,
	  false,
	  2,
	  3,
	  0,
	  {{K(0, 0), K(0, 1), L(2)}, {K(1, 0), K(1, 1), L(2)}, {S(2)}}},
	 3},
	/* the CPU of the communicator is that of a port */
	{{"steered_to_a_port",
	  2,
	  2,
	  false,
	  false,
	  2,
	  0,
	  0,
	  {{K(0, 0), K(0, 1), L(0), S(2)}, {K(1, 0), K(1, 1), L(0)}}},
	 1},
	{{"steered_below",
	  2,
	  2,
	  true,
	  false,
	  2,
	  2,
	  3,
	  {{K(0, 0), K(0, 1), L(3)},
	   {K(1, 0), K(1, 1), L(3)},
	   {W(2, 0), K(2, 0), W(2, 1), K(2, 1), L(3)},
	   {S(3)}}},
	 4},
	{{"moved",
	  2,
	  2,
	  false,
	  false,
	  2,
	  3,
	  4,
	  {{K(0, 0), K(0, 1), L(2), L(3)}, {K(1, 0), K(1, 1), L(2), L(3)}, {S(2)}, {S(2)}, {M(3)}}},
	 3},
};

/* Without a CPU of the communicator, some order must let a result overtake another one. */
static const struct shape unsteered_shape = {
	"unsteered", 2, 2, false, false, 2, 0, 0, {AT_ONCE(0), AT_ONCE(1)}};

static const struct {
	const char *name;
	struct search_options options;
	bool order_stores;
} models[] = {
	{"sc", {.model = SEARCH_SC}, true},
	{"x86", {.model = SEARCH_X86}, false},
	{"arm64", {.model = SEARCH_ARM64}, true},
};

static double now_s(void)
{
	return inc_now_ns() * 1e-9;
}

static void test(const struct shape *shape, struct conduct conduct, const char *name,
		 struct search_options options, bool order_stores)
{
	struct search_result result;
	double begin_s = now_s();

	if (search_shape(shape, &conduct, &options, order_stores, &result)) {
		report_fail(name, "order %llu: %s", (unsigned long long)result.runs, result.why);
		return;
	}
	report_ok(
		"%s (%llu orders%s, %llu left as known, %llu accesses, at most %u in one, %.1f s)",
		name, (unsigned long long)result.runs,
		result.bound_met ? " within the bound" : ", all there are",
		(unsigned long long)result.cut, (unsigned long long)result.accesses, result.longest,
		now_s() - begin_s);
}

static void test_shape(const struct shape *shape, struct conduct conduct, int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";
	bool full = getenv("FULL");

	for (unsigned int m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
		struct search_options options = models[m].options;
		char name[96];

		snprintf(name, sizeof(name), "%s_%s", shape->name, models[m].name);
		if (*only && strcmp(name, only))
			continue;
		options.preemptions = full ? shape->full_preemptions : shape->preemptions;
		if (argc > 2)
			options.preemptions = strtoul(argv[2], NULL, 0);
		options.bounded = options.preemptions;
		test(shape, conduct, name, options, models[m].order_stores);
	}
}

static void test_unsteered(void)
{
	const struct conduct conduct = {.ordered = true};
	struct search_result result;

	if (search_shape(&unsteered_shape, &conduct, &models[0].options, true, &result) &&
	    strstr(result.why, "overtakes"))
		report_ok("unsteered_sc (order %llu: %s)", (unsigned long long)result.runs,
			  result.why);
	else
		report_fail("unsteered_sc", "no result overtakes another one: %s", result.why);
}

int main(int argc, char **argv)
{
	unsigned int i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		test_shape(&shapes[i], (struct conduct){}, argc, argv);
	for (i = 0; i < sizeof(ahead_shapes) / sizeof(ahead_shapes[0]); i++)
		test_shape(&ahead_shapes[i], (struct conduct){.reorder = true}, argc, argv);
	for (i = 0; i < sizeof(steered_shapes) / sizeof(steered_shapes[0]); i++)
		test_shape(&steered_shapes[i].shape,
			   (struct conduct){.ordered = true,
					    .cpu_plus_1 = steered_shapes[i].cpu_plus_1},
			   argc, argv);
	if (argc < 2 || !strcmp(argv[1], "unsteered_sc"))
		test_unsteered();
	return report_exit();
}
