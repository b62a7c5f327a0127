/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three ranks with a test switch. Several threads of each rank start, test and wait for collectives
 * at once, as far as inccl.h allows that. Every result is checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/src/internal.h"
#include "selftests/fakes/switch.h"

#define RANKS   3
#define THREADS 3 /* number of threads of a rank */
#define CALLS   1500
#define MOST    300
#define FLIGHT  3 /* number of requests that a thread has in flight */
#define LIMIT_S 250

static struct fake_switch sw;
static unsigned int todo; /* number of threads that have not ended */
static bool cancels;      /* in this run some of the threads that wait are cancelled */
static pthread_mutex_t order[RANKS];
static unsigned int next_call[RANKS];

/* A collective, which its number k determines, and a thread's buffers for it. */
struct call {
	unsigned int k, rank;
	enum {
		SUM32,
		MAX8,
		FLOATS,
		SPECIAL,
		SCALED,
		REDUCED,
		CAST,
		SCATTERED,
		GATHERED,
		MET,
		KINDS
	} kind;
	size_t count;
	int root;
	bool in_place;
	struct inccl_request *req;
	uint32_t send[RANKS * MOST], recv[RANKS * MOST];
};

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x45d9f3bu;
	x = (x ^ x >> 16) * 0x45d9f3bu;
	return x ^ x >> 16;
}

static void wrong(const struct call *c, size_t i)
{
	fprintf(stderr, "rank %u, call %u of kind %d: element %zu of %zu is wrong: %x\n", c->rank,
		c->k, c->kind, i, c->count, c->recv[i]);
	abort();
}

static uint32_t given(const struct call *c, unsigned int rank, size_t i)
{
	return mix(c->k * 7919 + (uint32_t)i) % 1000 + rank;
}

static bool is_floats(const struct call *c)
{
	return c->kind == FLOATS || c->kind == SPECIAL || c->kind == SCALED;
}

static void make(struct call *c, unsigned int k, unsigned int rank)
{
	const uint32_t random = mix(k + 1);
	float *f = (float *)c->send;
	size_t i;

	c->k = k;
	c->rank = rank;
	c->kind = random % KINDS;
	c->count = random >> 8 & 3 ? 1 + (random >> 10) % MOST : random >> 12 & 1;
	c->root = random % RANKS;
	c->in_place = is_floats(c) || random >> 20 & 1;
	for (i = 0; i < c->count * (c->kind == SCATTERED ? RANKS : 1); i++)
		if (is_floats(c))
			f[i] = (float)given(c, rank, i);
		else if (c->kind == MAX8)
			((uint8_t *)c->send)[i] = given(c, rank, i) % 100;
		else
			c->send[i] = given(c, rank, i);
	if (c->kind == SPECIAL && rank == 1 && c->count)
		f[c->count / 2] = -INFINITY;
}

static int begin(struct call *c)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = c->k % 2 ? INCCL_MODE_WRITE : 0,
		   .float_exponent = c->kind == SCALED ? &(int){10} : NULL);
	struct inccl_communicator *comm = sw.rank[c->rank].comm;
	void *recv = c->in_place ? c->send : c->recv;

	switch (c->kind) {
	case SUM32:
		return inccl_allreduce_start(comm, c->send, recv, c->count, INCCL_INT32, INCCL_SUM,
					     &opts, &c->req);
	case MAX8:
		return inccl_allreduce_start(comm, c->send, recv, c->count, INCCL_UINT8, INCCL_MAX,
					     &opts, &c->req);
	case REDUCED:
		return inccl_reduce_start(comm, c->send, recv, c->count, INCCL_INT32, INCCL_SUM,
					  c->root, &opts, &c->req);
	case CAST:
		return inccl_broadcast_start(comm, c->send, recv, c->count, INCCL_INT32, c->root,
					     &opts, &c->req);
	case SCATTERED:
		if (c->in_place)
			recv = c->send + c->rank * c->count;
		return inccl_reduce_scatter_start(comm, c->send, recv, c->count, INCCL_INT32,
						  INCCL_SUM, &opts, &c->req);
	case GATHERED:
		return inccl_all_gather_start(comm, c->send, c->recv, c->count, INCCL_INT32, &opts,
					      &c->req);
	case MET:
		return inccl_barrier_start(comm, &opts, &c->req);
	default:
		return inccl_allreduce_start(comm, c->send, recv, c->count, INCCL_FLOAT32,
					     INCCL_SUM, &opts, &c->req);
	}
}

static void check(struct call *c)
{
	const uint32_t *got = c->in_place ? c->send : c->recv;
	size_t i, first = c->kind == SCATTERED ? c->rank * c->count : 0;
	float v, sum;

	if (c->kind == SCATTERED && c->in_place)
		got += first;
	if (c->kind == MET || (c->kind == REDUCED && (int)c->rank != c->root))
		return;
	if (c->kind == GATHERED) {
		for (i = 0; i < RANKS * c->count; i++)
			if (c->recv[i] != given(c, i / c->count, i % c->count))
				wrong(c, i);
		return;
	}
	for (i = 0; i < c->count; i++) {
		sum = RANKS * given(c, 0, first + i) + RANKS * (RANKS - 1) / 2;
		memcpy(&v, &got[i], sizeof(v));
		if (c->kind == MAX8) {
			unsigned int most = 0;

			for (unsigned int r = 0; r < RANKS; r++)
				if (given(c, r, i) % 100 > most)
					most = given(c, r, i) % 100;
			if (((const uint8_t *)got)[i] != most)
				wrong(c, i);
		} else if (c->kind == CAST) {
			if (got[i] != given(c, c->root, i))
				wrong(c, i);
		} else if (c->kind == SPECIAL && i == c->count / 2) {
			if (!(isinf(v) && v < 0))
				wrong(c, i);
		} else if (is_floats(c)) {
			if (v != sum)
				wrong(c, i);
		} else if (got[i] != (uint32_t)sum) {
			wrong(c, i);
		}
	}
}

static void *wait_long(void *req)
{
	return (void *)(intptr_t)inccl_wait(req, -1);
}

/* Waits for the request in another thread and cancels that thread, perhaps before the request is
 * done. */
static int wait_cancelled(struct inccl_request *req)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, wait_long, req))
		abort();
	usleep(mix((uint32_t)(uintptr_t)req) % 300);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	return result == PTHREAD_CANCELED ? -EAGAIN : (int)(intptr_t)result;
}

static void end(struct call *c, uint32_t *random)
{
	int ret = -EAGAIN;

	while (ret == -EAGAIN) {
		*random = mix(*random + 1);
		if (*random % 8 < 3)
			ret = inccl_test(c->req);
		else if (*random % 8 < 5)
			ret = inccl_wait(c->req, 0);
		else if (*random % 8 == 5)
			ret = inccl_wait(c->req, 1);
		else if (cancels)
			ret = wait_cancelled(c->req);
		else
			ret = inccl_wait(c->req, -1);
	}
	if (ret) {
		fprintf(stderr, "rank %u, call %u: %d: %s\n", c->rank, c->k, ret,
			inccl_communicator_error(sw.rank[c->rank].comm));
		abort();
	}
	check(c);
}

static void *caller(void *arg)
{
	const unsigned int rank = (uintptr_t)arg / THREADS;
	struct call *calls = calloc(FLIGHT, sizeof(*calls));
	uint32_t random = mix((uint32_t)(uintptr_t)arg + 1);
	unsigned int n, i, k = 0;
	bool backward;

	while (k < CALLS) {
		random = mix(random + 1);
		for (n = 0; n < 1 + random % FLIGHT && k < CALLS;) {
			pthread_mutex_lock(&order[rank]);
			k = next_call[rank]++;
			if (k < CALLS) {
				make(&calls[n], k, rank);
				if (begin(&calls[n++]))
					abort();
			}
			pthread_mutex_unlock(&order[rank]);
		}
		/* waits for the requests in forward or backward order */
		backward = random >> 8 & 1;
		for (i = 0; i < n; i++)
			end(&calls[backward ? n - 1 - i : i], &random);
	}
	free(calls);
	__atomic_sub_fetch(&todo, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void run(const struct fake_switch_conf *conf)
{
	pthread_t thread[RANKS * THREADS];

	fake_switch_up(&sw, conf);
	todo = RANKS * THREADS;
	for (unsigned int r = 0; r < RANKS; r++) {
		next_call[r] = 0;
		pthread_mutex_init(&order[r], NULL);
	}
	for (uintptr_t i = 0; i < RANKS * THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, caller, (void *)i), 0);
	while (__atomic_load_n(&todo, __ATOMIC_ACQUIRE)) {
		fake_switch_serve(&sw);
		usleep(20);
	}
	for (unsigned int i = 0; i < RANKS * THREADS; i++)
		pthread_join(thread[i], NULL);
	fake_switch_serve(&sw);
	fake_switch_down(&sw);
}

static void one_packet(void **state)
{
	run(&(struct fake_switch_conf){.ranks = RANKS, .window = 1, .message_packets = 1});
}

static void windows(void **state)
{
	run(&(struct fake_switch_conf){.ranks = RANKS, .window = 7, .message_packets = 3});
}

static void network(void **state)
{
	run(&(struct fake_switch_conf){.ranks = RANKS,
				       .window = 16,
				       .message_packets = 1,
				       .byte_order = INCCL_ORDER_NETWORK});
}

/* With no_wait set, a start and a test do not wait for the communicator's lock. Another thread may
 * have it for as long as that thread is without a CPU. */
static void no_wait(void **state)
{
	const int32_t send = 5;
	int32_t recv[RANKS] = {0};
	struct inccl_request *req[FAKE_SWITCH_RANKS] = {NULL};
	struct inccl_communicator *comm;

	fake_switch_up(
		&sw, &(struct fake_switch_conf){.ranks = RANKS, .window = 1, .message_packets = 1});
	comm = sw.rank[0].comm;
	comm->settings.no_wait = 1;
	pthread_mutex_lock(&comm->lock);
	assert_int_equal(inccl_allreduce_start(comm, &send, &recv[0], 1, INCCL_INT32, INCCL_SUM,
					       NULL, &req[0]),
			 -EAGAIN);
	assert_null(req[0]);
	pthread_mutex_unlock(&comm->lock);
	for (unsigned int r = 0; r < RANKS; r++)
		while (inccl_allreduce_start(sw.rank[r].comm, &send, &recv[r], 1, INCCL_INT32,
					     INCCL_SUM, NULL, &req[r]))
			assert_int_equal(r, 0);
	pthread_mutex_lock(&comm->lock);
	assert_int_equal(inccl_test(req[0]), -EAGAIN);
	pthread_mutex_unlock(&comm->lock);
	fake_switch_finish(&sw, req);
	for (unsigned int r = 0; r < RANKS; r++)
		assert_int_equal(recv[r], RANKS * send);
	fake_switch_down(&sw);
}

/* With silence_ms set, a rank whose switch answers nothing fails soon. A rank that waits for others
 * does not, because the switch acknowledges what it sends. */
static void silence(void **state)
{
	const int32_t send = 5;
	int32_t recv;
	struct inccl_request *req = NULL;
	struct inccl_communicator *comm;
	uint64_t began_at_ns;
	int ret;

	fake_switch_up(
		&sw, &(struct fake_switch_conf){.ranks = RANKS, .window = 1, .message_packets = 1});
	comm = sw.rank[0].comm;
	comm->settings.silence_ms = 200;
	comm->timeouts_mark = 1; /* the timer ran out while the communicator was idle */
	sw.rank[0].ended = -ETIMEDOUT;
	began_at_ns = inc_now_ns();
	assert_int_equal(
		inccl_allreduce_start(comm, &send, &recv, 1, INCCL_INT32, INCCL_SUM, NULL, &req),
		0);
	do
		ret = inccl_test(req);
	while (ret == -EAGAIN);
	assert_int_equal(ret, -ETIMEDOUT);
	assert_true(inc_now_ns() - began_at_ns >= 200 * INC_NSEC_PER_MSEC);
	assert_non_null(strstr(inccl_communicator_error(comm), "it has answered nothing for 200"));
	fake_switch_down(&sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_wait), cmocka_unit_test(silence), cmocka_unit_test(one_packet),
		cmocka_unit_test(windows), cmocka_unit_test(network),
	};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	cancels = true;
#endif
	alarm(LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
