/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fallback (inccl_fallback.h) whose switch ends each operation on each rank as the test says. For
 * two collectives of 2 and 3 ranks all such endings are tried, and for five of 4 ranks some, by a
 * seed that is printed. SEED=n repeats them. Every call must succeed with right contents on every
 * rank, and all ranks must make the same calls of the framework. Cases of their own are those in
 * which a fallback once failed. Each case is a process.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "selftests/fakes/fallback_ranks.h"

#define SMALL   5   /* elements; all ranks' together are kept */
#define LARGE   100 /* elements of a result that is not kept */
#define LIMIT_S 300
#define SAMPLES 300
#define SEEDS   12 /* orders in which a case with one set of endings runs */

static unsigned int jobs; /* number of jobs in this case */
static char text[100];    /* of a failure: size and kind of the calls */

/* ---- all endings ---- */

static const struct kind {
	const char *name;
	enum inccl_collective collective;
	bool from_last; /* the root is the last rank, not the first */
} kinds[] = {
	{"allreduce", INCCL_ALLREDUCE, false},      {"reduce to the first", INCCL_REDUCE, false},
	{"reduce to the last", INCCL_REDUCE, true}, {"broadcast", INCCL_BROADCAST, false},
	{"all-gather", INCCL_ALL_GATHER, false},    {"reduce-scatter", INCCL_REDUCE_SCATTER, false},
	{"barrier", INCCL_BARRIER, false},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct planned planned(const struct kind *kind, size_t count, int ranks)
{
	return (struct planned){
		.collective = kind->collective,
		.count = kind->collective == INCCL_BARRIER ? 0 : count,
		.root = kind->from_last ? ranks - 1 : 0,
		/* the contents of a broadcast and of others lie in place in every second job */
		.in_place = jobs % 2,
	};
}

/* All endings of two calls of each kind, of which the second is never empty. */
static void all_endings(size_t count, const char *size)
{
	for (int ranks = 2; ranks <= 3; ranks++) {
		for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
			if (kind->collective == INCCL_BARRIER && count != SMALL)
				continue;
			plan = (struct plan){.calls = 2,
					     .call = {planned(kind, count, ranks),
						      planned(kind, count ?: SMALL, ranks)}};
			snprintf(text, sizeof(text), "%d ranks, %s %s", ranks, size, kind->name);
			jobs = job_run_endings(ranks, text);
		}
	}
	printf("%u jobs\n", jobs);
}

static void no_elements(void)
{
	all_endings(0, "empty");
}

static void small_results(void)
{
	all_endings(SMALL, "small");
}

static void large_results(void)
{
	all_endings(LARGE, "large");
}

static void longer_jobs(void)
{
	static const size_t counts[] = {0, SMALL, SMALL, LARGE, LARGE};
	const uint32_t seed =
		getenv("SEED") ? strtoul(getenv("SEED"), NULL, 10) : (uint32_t)time(NULL);
	const int ranks = MOST_RANKS;
	unsigned int lots = seed;

	printf("SEED=%u\n", seed);
	for (unsigned int sample = 0; sample < SAMPLES; sample++) {
		plan = (struct plan){.calls = 5};
		for (unsigned int i = 0; i < plan.calls; i++) {
			plan.call[i] = planned(&kinds[rand_r(&lots) % KINDS],
					       counts[rand_r(&lots) % 5], ranks);
			for (int k = 0; k < 2 * ranks; k++)
				if (rand_r(&lots) % 8 == 0)
					plan.ending[2 * i + k / ranks][k % ranks] =
						rand_r(&lots) % (FAILS_AFTER + 1);
		}
		job_run_plan(ranks, seed + sample, text);
	}
}

/* ---- cases of their own ---- */

/* Runs calls of one kind, in many orders, with the plan's endings, which are gone then. */
static void in_many_orders(int ranks, unsigned int calls, const struct kind *kind, size_t count)
{
	plan.calls = calls;
	for (unsigned int i = 0; i < calls; i++)
		plan.call[i] = planned(kind, count, ranks);
	for (unsigned int seed = 1; seed <= SEEDS; seed++)
		job_run_plan(ranks, seed, text);
	plan = (struct plan){0};
}

/* Collectives without elements end before all ranks have begun them. They must not take the place
 * of a result that a slow rank still needs. */
static void empty_calls_behind_a_result(void)
{
	static const struct planned allreduce = {INCCL_ALLREDUCE, SMALL, 0, false, false};

	plan = (struct plan){.calls = 5, .call = {[0] = allreduce, [4] = allreduce}};
	plan.ending[0][0] = STALLS;
	for (unsigned int seed = 1; seed <= SEEDS; seed++)
		job_run_plan(2 + seed % 2, seed, text);
}

/* A rank fetches a large result and goes on, although another one has not begun that collective.
 * The slow rank's result is then only on the rank that has the large one. */
static void result_that_one_rank_has(void)
{
	plan = (struct plan){.calls = 3,
			     .call = {{INCCL_ALLREDUCE, SMALL, 0, false, false},
				      {INCCL_BROADCAST, LARGE, 2, false, false},
				      {INCCL_ALLREDUCE, SMALL, 0, false, false}}};
	plan.ending[0][1] = STALLS;
	plan.ending[2][0] = FAILS;
	for (unsigned int seed = 1; seed <= SEEDS; seed++)
		job_run_plan(3, seed, text);
}

/* The framework's Broadcast returns on the root, and its Reduce on the others, before other ranks
 * have called it. Such a rank is several calls ahead when a slow rank asks for the result of the
 * first call, or gives it up. */
static void one_sided_repetitions(void)
{
	for (unsigned int i = 0; i < 4 * KINDS; i++) {
		const bool has_first = i & 1, is_large = i & 2;

		plan.ending[0][2] = STALLS;
		for (int r = 0; r < 2; r++)
			plan.ending[has_first ? 2 : 0][r] = FAILS;
		in_many_orders(3, 5, &kinds[i / 4], is_large ? LARGE : SMALL);
	}
}

/* Only the root has the result of a large Reduce, so it must be asked first. Another rank that is
 * asked gives the collective up, although the root may have seen that rank's end of it before. */
static void large_reduce_with_a_root_that_has_it(void)
{
	static const enum ending of[][MOST_RANKS] = {{ARRIVES, FAILS, ARRIVES_LATE},
						     {ARRIVES_LATE, FAILS, ARRIVES},
						     {ARRIVES, STALLS, ARRIVES}};

	for (unsigned int i = 0; i < 6; i++) {
		memcpy(plan.ending[0], of[i / 2], sizeof(of[i / 2]));
		in_many_orders(3, 2, &kinds[1 + i % 2], LARGE);
	}
}

/* All others have left the switch with a large Reduce, but the root fails. */
static void large_reduce_with_a_root_that_fails(void)
{
	static const enum ending of_root[] = {STALLS, FAILS, FAILS_AFTER};

	for (unsigned int i = 0; i < 6; i++) {
		plan.ending[0][i % 2 ? 2 : 0] = of_root[i / 2];
		in_many_orders(3, 2, &kinds[1 + i % 2], LARGE);
	}
}

/* A result of several answers. */
static void result_of_many_answers(void)
{
	plan.ending[0][1] = FAILS;
	in_many_orders(3, 1, &kinds[0], INCCL_PEERS_CHUNK_BYTES / 2);
}

/* Offsets and sizes of a result have more than 32 bits. */
static void result_beyond_4_gib(void)
{
	const uint64_t bytes = (4ull << 30) + 4096;
	struct inccl_question question = {
		.ask = INCCL_ASK_BYTES, .number = 1, .offset = 4096, .bytes = 1000};
	struct inccl_answer answer = {0};
	static struct inccl_fallback f;
	uint8_t data[1000] = "";
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	job_check(at != MAP_FAILED);
	pthread_mutex_init(&f.lock, NULL);
	memset(at + bytes - 100, 0x5a, 100);
	f.result[1] = (struct inccl_result){1, RESULT_SHARED, true, at, bytes, NULL};
	f.given_up = UINT64_MAX;
	inccl_fallback_answer(&f, &question, &answer, data);
	job_check(answer.has == INCCL_HAS_RESULT && answer.bytes == 1000);
	question.offset = bytes - 100;
	inccl_fallback_answer(&f, &question, &answer, data);
	job_check(answer.has == INCCL_HAS_RESULT && answer.bytes == 100);
	job_check(data[0] == 0x5a && data[99] == 0x5a && !data[100]);
	munmap(at, bytes);
}

/* One rank alone cannot begin a collective. The switch is lost, and numbers do not shift. */
static void own_error_of_one_rank(void)
{
	for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++)
		for (unsigned int i = 0; i < 4; i++) {
			plan.ending[i][1] = FAILS;
			in_many_orders(2, 3, kind, i % 2 ? LARGE : SMALL);
		}
}

static void refused_calls(struct member *m)
{
	job_create(m);
	for (unsigned int i = 0; i < plan.calls; i++)
		job_check(job_call(m, i) == (plan.call[i].is_refused ? -EOPNOTSUPP : 0));
	job_check(!inccl_fallback_destroy(m->fallback));
}

/* All ranks refuse a call, which costs nothing, also if one or all have lost the switch before. */
static void refused_on_all_ranks(void)
{
	for (unsigned int i = 0; i < 6 * SEEDS; i++) {
		const int losers = (const int[]){0, 1, 3}[i / 2 % 3];

		plan = (struct plan){.calls = 4};
		for (unsigned int c = 0; c < plan.calls; c++)
			plan.call[c] = planned(&kinds[0], i % 2 ? LARGE : SMALL, 3);
		plan.call[1].is_refused = true;
		for (int r = 0; r < losers; r++)
			plan.ending[0][r] = FAILS;
		job_prepare(3, 1 + i / 6);
		job_run(refused_calls);
		job_check(losers || !job.member[0].losses);
	}
}

static enum { WRONG_ADDRESS, OTHER_SIZE, OTHER_END } wrong;

static void create_in_vain(struct member *m)
{
	const bool is_wrong = m->rank == 1;

	job.leave_early = is_wrong && wrong == OTHER_END;
	job_check(job_open(m, JOB_KEEP_BYTES << (is_wrong && wrong == OTHER_SIZE),
			   is_wrong && wrong == WRONG_ADDRESS ? "192.0.2.1" : "127.0.0.1") < 0);
	job_check(!m->fallback && strstr(m->error, "rank 1"));
}

/* A rank with other options, or with an address that it does not have, fails on all ranks. */
static void creation_in_vain(void)
{
	for (wrong = WRONG_ADDRESS; wrong <= OTHER_END; wrong++) {
		job_prepare(3, 1);
		job_run(create_in_vain);
	}
}

/* ---- answers of other ranks ---- */

static size_t other_bytes; /* of the result that rank 1 has */

static void have_another_size(struct member *m)
{
	static const uint32_t other[2 * SMALL] = {7};
	const bool is_longer = other_bytes > 4 * SMALL;
	struct inccl_fallback *f;

	job_create(m);
	f = m->fallback;
	if (m->rank) {
		pthread_mutex_lock(&f->lock);
		f->begun = f->ended = 1;
		f->result[1] = (struct inccl_result){.number = 1,
						     .state = RESULT_SHARED,
						     .is_held = true,
						     .data = (const uint8_t *)other,
						     .bytes = other_bytes,
						     .room = f->result[1].room};
		pthread_mutex_unlock(&f->lock);
		job_wait(m, job_other_has_ended);
		f->has_failed = true; /* so that it waits for no other rank */
	} else {
		job_pause_ms(m, 1);
		job_check(job_call(m, 0) == -EPROTO);
		job_check(strstr(inccl_fallback_reason(f),
				 is_longer ? "rank 1 has a longer" : "rank 1 has a shorter"));
		f->has_failed = true;
	}
	job_check(!inccl_fallback_destroy(f));
}

/* A rank has a result, but a shorter or a longer one than the other rank needs. That is a defect of
 * the program, such as calls of different sizes. The other rank must name it, and neither ask for
 * ever nor take a part of the result for all of it. */
static void result_of_another_size(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		other_bytes = i ? 8 * SMALL : 4;
		job_prepare_two(INCCL_ALLREDUCE, SMALL);
		plan.ending[0][0] = FAILS;
		job_run(have_another_size);
	}
}

/* Rank 0 has what the large Reduce gives it. Then the root dies, so rank 1 cannot know whether the
 * root had the result. */
static void fail_behind_others(struct member *m)
{
	job.timeout_ms = m->rank ? 6000 : 3000;
	job_create(m);
	job_check(job_call(m, 0) == (m->rank ? -ECONNRESET : 0));
	if (m->rank)
		job_wait(m, job_other_has_ended);
	job_check(!inccl_fallback_destroy(m->fallback));
}

/* A rank that has failed needs no result any more. Another rank that leaves must not wait for that
 * one until its process ends. */
static void rank_that_has_failed(void)
{
	plan = (struct plan){.calls = 1,
			     .call = {{INCCL_REDUCE, LARGE, 2, false, false}},
			     .ending = {{STALLS, STALLS, ARRIVES}, {ARRIVES, ARRIVES, DIES}}};
	job_prepare(3, 1);
	job.late_ns = 4 * INC_NSEC_PER_SEC;
	job_run(fail_behind_others);
}

static bool first_goes_on(struct member *m)
{
	return job.member[0].calls > 1;
}

static void fail_beside_a_dead_rank(struct member *m)
{
	job_create(m);
	job_check(!job_call(m, 0));
	if (m->rank) /* a rank that has failed waits for no other one */
		job_wait(m, first_goes_on);
	else
		job_check(!strstr(inccl_fallback_reason(m->fallback), "not known"));
	job_check(job_call(m, 1) == -ECONNRESET);
	job_check(m->rank || strstr(inccl_fallback_reason(m->fallback), "rank 1 is gone, so"));
	job_check(!inccl_fallback_destroy(m->fallback));
}

static uint32_t order;

static void dead_rank_before_the_result(void)
{
	plan = (struct plan){.calls = 2, .ending = {{STALLS, DIES, ARRIVES}}};
	plan.call[0] = plan.call[1] = planned(&kinds[0], order & 1 ? LARGE : SMALL, 3);
	job_prepare(3, order);
	job.leave_early = true;
	job_run(fail_beside_a_dead_rank);
}

/* Rank 0 asks a dead rank for the result first, and then rank 2, which has it. Rank 0 has not
 * failed meanwhile, so rank 2 waits until rank 0 has the result. */
static void dead_rank_is_asked_first(void)
{
	for (order = 1; order <= 2 * SEEDS; order++)
		job_check(!job_in_a_process(dead_rank_before_the_result, LIMIT_S));
}

/* ---- time ---- */

static void silent_for_a_while(struct member *m)
{
	job_create(m);
	for (unsigned int i = 0; i < 3 && m->rank == 1; i++) {
		job_be_silent(m, 20000);
		job_pause_ms(m, 2000);
	}
	job_check(!job_call(m, 0));
	job_check(!m->repeats);
	job_check(!inccl_fallback_destroy(m->fallback));
}

/* A rank comes a minute late, and answers now and then. It is not gone, because each silence is
 * shorter than the limit. The root of a large Broadcast waits for it with the result. */
static void silence_that_ends(void)
{
	job_prepare_two(INCCL_BROADCAST, LARGE);
	plan.ending[1][0] = FAILS;
	plan.ending[0][1] = FAILS;
	job_run(silent_for_a_while);
}

static void silent_for_ever(struct member *m)
{
	const uint64_t limit_ms = job.unreachable_ms ?: 30000;
	uint64_t at_ms;

	job_create(m);
	if (m->rank) {
		pthread_mutex_lock(&m->fallback->lock);
		job.has_silence = true;
		job_wait(m, job_other_has_ended);
		m->fallback->has_failed = true; /* so that the framework is not called */
		pthread_mutex_unlock(&m->fallback->lock);
	} else {
		job_pause_ms(m, 1);
		at_ms = job_now_ms();
		job_check(job_call(m, 0) == -ECONNRESET);
		job_check(strstr(inccl_fallback_reason(m->fallback), "rank 1 cannot be reached"));
		at_ms = job_now_ms() - at_ms;
		job_check(at_ms >= limit_ms && at_ms < limit_ms + 6000);
	}
	job_check(!inccl_fallback_destroy(m->fallback));
}

static void silence_without_end(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		job_prepare_two(INCCL_ALLREDUCE, SMALL);
		plan.ending[0][0] = FAILS;
		job.unreachable_ms = i * 60000;
		job_run(silent_for_ever);
	}
}

static unsigned int late_ms;

static void late_by_minutes(struct member *m)
{
	job_create(m);
	if (m->rank == 1)
		job_pause_ms(m, late_ms);
	for (unsigned int i = 0; i < plan.calls; i++)
		job_check(!job_call(m, i));
	job_check(m->losses == (late_ms > (job.timeout_ms ?: 600000)));
	job_check(m->repeats == m->losses * plan.calls);
	job_check(!inccl_fallback_destroy(m->fallback));
}

/* A rank that comes late does not cost the job the switch, but one that comes after timeout_ms
 * does. Then all ranks repeat the call. */
static void rank_that_is_late(void)
{
	plan = (struct plan){.calls = 2,
			     .call = {{INCCL_BROADCAST, LARGE, 0, false, false},
				      {INCCL_REDUCE, SMALL, 0, false, false}}};
	late_ms = 9 * 60 * 1000;
	job_prepare(3, 1);
	job.limit_ns = 700 * INC_NSEC_PER_SEC;
	job_run(late_by_minutes);
	for (int has_default = 0; has_default <= 1; has_default++) {
		job_prepare_two(INCCL_ALLREDUCE, SMALL);
		job.limit_ns = 700 * INC_NSEC_PER_SEC;
		job.timeout_ms = has_default ? 0 : 500;
		late_ms = has_default ? 11 * 60 * 1000 : late_ms;
		job_run(late_by_minutes);
	}
}

/* The ranks stand still for a minute while they wait for the switch, whose result comes within its
 * time without that minute. */
static void standstill_during_a_collective(void)
{
	job_prepare_two(INCCL_ALLREDUCE, SMALL);
	plan.ending[0][0] = plan.ending[0][1] = ARRIVES_LATE;
	job.late_ns = 6 * INC_NSEC_PER_SEC;
	job.stand_at_ns = job.began_at_ns + 3 * INC_NSEC_PER_SEC;
	job.stand_ns = 60 * INC_NSEC_PER_SEC;
	job_run(job_all_calls);
	job_check(!job.stand_at_ns && !job.member[0].losses && !job.member[1].losses);
}

static void silent_while_all_stand_still(struct member *m)
{
	job_create(m);
	if (m->rank)
		job_be_silent(m, 5000);
	else
		job_pause_ms(m, 1);
	job_check(!job_call(m, 0));
	job_check(!inccl_fallback_destroy(m->fallback));
}

/* The ranks stand still for a minute while one waits for an answer. That is not the silence of the
 * other one. */
static void standstill_during_a_question(void)
{
	job_prepare_two(INCCL_ALLREDUCE, SMALL);
	plan.ending[0][0] = FAILS;
	job.stand_at_ns = job.began_at_ns + 3 * INC_NSEC_PER_SEC;
	job.stand_ns = 60 * INC_NSEC_PER_SEC;
	job_run(silent_while_all_stand_still);
}

/* ---- a child ---- */

static int child_pipe[2];
static pid_t child;

static void die_with_a_child(struct member *m)
{
	uint64_t at_ms;

	job_create(m);
	if (m->rank) {
		job_check(!pipe(child_pipe));
		child = fork();
		job_check(child >= 0);
		if (!child) {
			close(child_pipe[1]);
			job_be_a_child(m, child_pipe[0]);
		}
		m->fallback->has_failed = true; /* so that the framework is not called */
	} else {
		job_wait(m, job_other_has_ended);
		at_ms = job_now_ms();
		job_check(job_call(m, 0) == -ECONNRESET);
		job_check(strstr(inccl_fallback_reason(m->fallback), "rank 1 is gone"));
		job_check(job_now_ms() - at_ms < 5000);
	}
	job_check(!inccl_fallback_destroy(m->fallback));
}

/* A rank is dead, and a child of it lives. The child must not keep its parent's port. */
static void child_of_a_dead_rank(void)
{
	int status;

	job_prepare_two(INCCL_ALLREDUCE, SMALL);
	plan.ending[0][0] = FAILS;
	job_run(die_with_a_child);
	close(child_pipe[1]);
	job_check(waitpid(child, &status, 0) == child && !status);
	close(child_pipe[0]);
}

static void in_a_process(void **state)
{
	assert_int_equal(job_in_a_process((void (*)(void)) * state, LIMIT_S), 0);
}

#define CASE(f)                                         \
	{                                               \
#f, in_a_process, NULL, NULL, (void *)f \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(no_elements),
		CASE(small_results),
		CASE(large_results),
		CASE(longer_jobs),
		CASE(empty_calls_behind_a_result),
		CASE(result_that_one_rank_has),
		CASE(one_sided_repetitions),
		CASE(large_reduce_with_a_root_that_has_it),
		CASE(large_reduce_with_a_root_that_fails),
		CASE(result_of_many_answers),
		CASE(result_beyond_4_gib),
		CASE(own_error_of_one_rank),
		CASE(refused_on_all_ranks),
		CASE(creation_in_vain),
		CASE(result_of_another_size),
		CASE(rank_that_has_failed),
		CASE(dead_rank_is_asked_first),
		CASE(silence_that_ends),
		CASE(silence_without_end),
		CASE(rank_that_is_late),
		CASE(standstill_during_a_collective),
		CASE(standstill_during_a_question),
		CASE(child_of_a_dead_rank),
	};

	/* thousands of threads would each map memory of their own, and fault its pages in */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
