/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request with floats consists of several collectives on the wire. These tests check the order of
 * these collectives beside other requests, parameters that differ between ranks, and failures in
 * the middle of a request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"
#include "selftests/fakes/switch.h"

#define WAIT_MS 10000
#define COUNT   200

static struct fake_switch sw;
static float data[FAKE_SWITCH_RANKS][COUNT];
static char why[256];

/* Fills a rank's data with small integers, whose sums are exact. With `special`, one element is
 * infinite. */
static void fill(unsigned int rank, bool special)
{
	for (size_t i = 0; i < COUNT; i++)
		data[rank][i] = (float)(i + rank);
	if (special)
		data[rank][3] = INFINITY;
}

static float want(size_t i)
{
	const float ranks = sw.conf.ranks;

	return ranks * i + ranks * (ranks - 1) / 2;
}

static struct inccl_request *start(unsigned int rank, const struct inccl_collective_opts *opts)
{
	struct inccl_request *req = NULL;

	assert_int_equal(inccl_allreduce_start(sw.rank[rank].comm, data[rank], data[rank], COUNT,
					       INCCL_FLOAT32, INCCL_SUM, opts, &req),
			 0);
	return req;
}

static void check_sum(unsigned int rank, bool special)
{
	for (size_t i = 0; i < COUNT; i++)
		if (special && i == 3)
			assert_true(isinf(data[rank][i]));
		else
			assert_true(data[rank][i] == want(i));
}

/* Collects the successive descriptors of the packets that a rank has sent. */
static unsigned int descriptors(const struct fake_switch_rank *rank, uint32_t *descs)
{
	unsigned int n = 0;

	for (unsigned int k = 0; k < rank->traced; k++)
		if (!n || descs[n - 1] != rank->trace[k].desc)
			descs[n++] = rank->trace[k].desc;
	return n;
}

#define DESC(op, dtype, seq) \
	INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_##op, INC_DTYPE_##dtype, 0, seq)

/* Checks which collectives a sum makes on the wire. An empty sum has a sequence number, too. */
static void collectives_on_the_wire(void **state)
{
	static const uint32_t all[] = {DESC(MAX, AGREED, 0), DESC(SUM, FIXED, 0),
				       DESC(MAX, AGREED, 2), DESC(OR, AGREED, 2),
				       DESC(SUM, FIXED, 2),  DESC(MAX, AGREED, 3),
				       DESC(SUM, FIXED, 3)};
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	INCCL_OPTS(inccl_collective_opts, opts, .float_exponent = &(int){10});
	struct inccl_request *requests[4][FAKE_SWITCH_RANKS];
	uint32_t descs[FAKE_SWITCH_TRACE];

	fake_switch_up(&sw, &conf);
	for (unsigned int k = 0; k < 4; k++) {
		for (unsigned int r = 0; r < conf.ranks; r++) {
			fill(r, k == 2);
			if (k == 1)
				assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, NULL, NULL,
								       0, INCCL_FLOAT16, INCCL_SUM,
								       NULL, &requests[k][r]),
						 0);
			else
				requests[k][r] = start(r, k == 3 ? &opts : NULL);
		}
		fake_switch_finish(&sw, requests[k]);
	}
	assert_int_equal(descriptors(&sw.rank[1], descs), 7);
	assert_memory_equal(descs, all, sizeof(all));
	assert_true(fake_switch_logged(&sw, ", in fixed point of 29 bits, an exponent "
					    "for 64 elements agreed on first"));
	assert_true(fake_switch_logged(&sw, ", in units of 2^-19, in one pass"));
	fake_switch_down(&sw);
}

/* Different calls begin with different descriptors, so that a switch detects ranks that
 * disagree. */
static void different_calls_have_different_descriptors(void **state)
{
	static const struct {
		enum inccl_op op;
		enum inccl_dtype dtype;
	} calls[] = {
		{INCCL_MIN, INCCL_INT32},   {INCCL_MIN, INCCL_FLOAT32},  {INCCL_MIN, INCCL_INT16},
		{INCCL_MIN, INCCL_FLOAT16}, {INCCL_MIN, INCCL_BFLOAT16}, {INCCL_MAX, INCCL_UINT8},
		{INCCL_SUM, INCCL_FLOAT32}, {INCCL_SUM, INCCL_INT32},    {INCCL_AVG, INCCL_INT32},
		{INCCL_MIN, INCCL_INT64},   {INCCL_MIN, INCCL_FLOAT64},  {INCCL_SUM, INCCL_INT64},
	};
	const unsigned int n = sizeof(calls) / sizeof(calls[0]);
	uint32_t first[sizeof(calls) / sizeof(calls[0])];
	struct inccl_request *req;

	for (unsigned int k = 0; k < n; k++) {
		fake_switch_up(&sw, &(struct fake_switch_conf){
					    .ranks = 1, .window = 4, .message_packets = 1});
		assert_int_equal(inccl_allreduce_start(sw.rank[0].comm, data[0], data[0], COUNT,
						       calls[k].dtype, calls[k].op, NULL, &req),
				 0);
		fake_switch_finish(&sw, &req);
		first[k] = sw.rank[0].trace[0].desc;
		fake_switch_down(&sw);
		for (unsigned int i = 0; i < k; i++)
			assert_int_not_equal(first[i], first[k]);
	}
}

#define LONG (INCCL_FLOATS_PIECE + COUNT)

static float longs[2][LONG];

/* A vector that is longer than one agreement on exponents covers, with infinities after the first
 * piece. Rank 0 has sent all that it can before rank 1 begins. */
static void long_one(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 12, .message_packets = 4};
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	size_t i;

	fake_switch_up(&sw, &conf);
	for (unsigned int r = 0; r < 2; r++) {
		for (i = 0; i < LONG; i++)
			longs[r][i] = (float)(i % 1000 + r);
		longs[r][INCCL_FLOATS_PIECE + 5] = r ? -INFINITY : 7;
		longs[r][LONG - 1] = INFINITY;
	}
	for (unsigned int r = 0; r < 2; r++) {
		assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, longs[r], longs[r], LONG,
						       INCCL_FLOAT32, INCCL_SUM, NULL,
						       &requests[r]),
				 0);
		fake_switch_receive(&sw);
	}
	fake_switch_finish(&sw, requests);
	for (unsigned int r = 0; r < 2; r++) {
		assert_true(longs[r][INCCL_FLOATS_PIECE + 5] == -INFINITY);
		assert_true(longs[r][LONG - 1] == INFINITY);
		longs[r][INCCL_FLOATS_PIECE + 5] = 2 * ((INCCL_FLOATS_PIECE + 5) % 1000) + 1;
		longs[r][LONG - 1] = 2 * ((LONG - 1) % 1000) + 1;
		for (i = 0; i < LONG && longs[r][i] == 2 * (float)(i % 1000) + 1; i++)
			;
		assert_int_equal(i, LONG);
	}
	fake_switch_down(&sw);
}

#define MANY 8

static int32_t number[MANY][FAKE_SWITCH_RANKS];
static float sums[MANY][FAKE_SWITCH_RANKS][COUNT];

/* Starts request k of a sequence: integers, floats, floats with infinities, floats in one pass, MIN
 * of floats. */
static struct inccl_request *start_one(unsigned int k, unsigned int r)
{
	struct inccl_communicator *comm = sw.rank[r].comm;
	INCCL_OPTS(inccl_collective_opts, opts, .float_exponent = k % 4 == 3 ? &(int){10} : NULL);
	struct inccl_request *req = NULL;

	if (k % 2) {
		fill(r, k % 4 == 1);
		memcpy(sums[k][r], data[r], sizeof(data[r]));
		assert_int_equal(inccl_allreduce_start(comm, sums[k][r], sums[k][r], COUNT,
						       INCCL_FLOAT32, INCCL_SUM, &opts, &req),
				 0);
	} else if (k % 4) {
		sums[k][r][0] = (float)r - 1;
		assert_int_equal(inccl_allreduce_start(comm, sums[k][r], sums[k][r], 1,
						       INCCL_FLOAT32, INCCL_MIN, NULL, &req),
				 0);
	} else {
		number[k][r] = 7;
		assert_int_equal(inccl_allreduce_start(comm, &number[k][r], &number[k][r], 1,
						       INCCL_INT32, INCCL_SUM, NULL, &req),
				 0);
	}
	return req;
}

static void check_one(unsigned int k, unsigned int r)
{
	if (k % 2) {
		memcpy(data[r], sums[k][r], sizeof(data[r]));
		check_sum(r, k % 4 == 1);
	} else if (k % 4) {
		assert_true(sums[k][r][0] == -1);
	} else {
		assert_int_equal(number[k][r], 7 * sw.conf.ranks);
	}
}

/* Rank 0 starts all requests at once. Rank 1 starts one request after each progress, rank 2 each
 * request after the end of the one before. The packets on the wire must be the same, which
 * fakes/switch.c checks. */
static void started_at_different_times(void **state)
{
	struct fake_switch_conf conf = {.ranks = 3, .message_packets = 1};
	struct inccl_request *requests[FAKE_SWITCH_RANKS][MANY];
	unsigned int started[FAKE_SWITCH_RANKS], done[FAKE_SWITCH_RANKS], r, left;
	uint64_t end_ns = deadline_after_ms(WAIT_MS);
	int ret;

	for (conf.window = 1; conf.window <= 64; conf.window *= 8) {
		fake_switch_up(&sw, &conf);
		memset(started, 0, sizeof(started));
		memset(done, 0, sizeof(done));
		for (left = 3 * MANY; left;) {
			assert_true(inc_now_ns() < end_ns);
			while (started[0] < MANY)
				requests[0][started[0]] = start_one(started[0], 0), started[0]++;
			if (started[1] < MANY)
				requests[1][started[1]] = start_one(started[1], 1), started[1]++;
			if (started[2] < MANY && started[2] == done[2])
				requests[2][started[2]] = start_one(started[2], 2), started[2]++;
			fake_switch_serve(&sw);
			for (r = 0; r < 3; r++) {
				ret = done[r] < started[r] ? inccl_test(requests[r][done[r]])
							   : -EAGAIN;
				if (ret == -EAGAIN)
					continue;
				assert_int_equal(ret, 0);
				check_one(done[r]++, r);
				left--;
			}
		}
		fake_switch_down(&sw);
	}
}

/* No caller makes progress. The communicators' threads must start the next collectives of a request
 * themselves. */
static void driven_by_the_thread(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	uint64_t end_ns = deadline_after_ms(WAIT_MS);
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	bool busy = true;

	fake_switch_up(&sw, &conf);
	for (unsigned int r = 0; r < 2; r++) {
		fill(r, true);
		requests[r] = start(r, NULL);
	}
	while (busy) {
		assert_true(inc_now_ns() < end_ns);
		fake_switch_serve(&sw);
		poll(NULL, 0, 1);
		busy = false;
		for (unsigned int r = 0; r < 2; r++) {
			pthread_mutex_lock(&sw.rank[r].comm->lock);
			busy |= sw.rank[r].comm->head != NULL;
			pthread_mutex_unlock(&sw.rank[r].comm->lock);
		}
	}
	for (unsigned int r = 0; r < 2; r++) {
		assert_int_equal(inccl_wait(requests[r], 0), 0);
		check_sum(r, true);
	}
	fake_switch_down(&sw);
}

/* A channel whose exchange() rejects each message once with -EAGAIN. */
static struct inc_channel_ops reluctant;
static int (*real_exchange)(struct inc_channel *, const struct inc_channel_exchange *);
static bool asked;

static int exchange_at_second_asking(struct inc_channel *ch, const struct inc_channel_exchange *x)
{
	asked = !asked;
	return asked ? -EAGAIN : real_exchange(ch, x);
}

/* If a collective is in place, converting a message overwrites the floats. So the message must be
 * converted only once, although post() is called twice. */
static void converted_once(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 1, .window = 4, .message_packets = 1};
	struct inccl_communicator *comm;
	const struct inc_channel_ops *real;
	struct inccl_request *req;

	fake_switch_up(&sw, &conf);
	comm = sw.rank[0].comm;
	pthread_mutex_lock(&comm->lock);
	real = comm->ep->ops;
	reluctant = *real;
	real_exchange = real->exchange;
	reluctant.exchange = exchange_at_second_asking;
	comm->ep->ops = &reluctant;
	pthread_mutex_unlock(&comm->lock);
	fill(0, true);
	req = start(0, NULL);
	fake_switch_finish(&sw, &req);
	check_sum(0, true);
	pthread_mutex_lock(&comm->lock);
	comm->ep->ops = real;
	pthread_mutex_unlock(&comm->lock);
	fake_switch_down(&sw);
}

/* Serves all ranks until each rank's request has ended with this error. */
static void ends_with(struct inccl_request *const *requests, int error)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS);
	bool done[FAKE_SWITCH_RANKS] = {false};
	unsigned int left = sw.conf.ranks;
	int ret;

	while (left) {
		assert_true(inc_now_ns() < end_ns);
		fake_switch_serve(&sw);
		for (unsigned int r = 0; r < sw.conf.ranks; r++) {
			ret = done[r] ? -EAGAIN : inccl_test(requests[r]);
			if (ret == -EAGAIN)
				continue;
			assert_int_equal(ret, error);
			sw.rank[r].ended = error;
			done[r] = true;
			left--;
		}
	}
}

/* If ranks call with different parameters that change the meaning of the integers, all of them must
 * detect that, although their collectives on the wire are the same. */
static void different_parameters(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 3, .window = 4, .message_packets = 1};
	/* float_block of rank 1 and of the others, which make the same number of blocks */
	static const unsigned int blocks[][2] = {{65, 64},
						 {64, 64},
						 {64, 64},
						 {64, 64},
						 {200 + (1 << 8), 200},
						 {200 + (1 << 16), 200},
						 {200 + (1 << 24), 200}};
	struct inccl_request *requests[FAKE_SWITCH_RANKS];

	for (unsigned int what = 0; what < 7; what++) {
		fake_switch_up(&sw, &conf);
		memset(data, 0, sizeof(data));
		for (unsigned int r = 0; r < 3; r++) {
			INCCL_OPTS(inccl_collective_opts, opts, .float_block = blocks[what][r != 1],
				   .float_exponent = what == 1 ? &(int){3 + (r == 2)} : NULL);

			assert_int_equal(inccl_allreduce_start(
						 sw.rank[r].comm, data[r], data[r], 128,
						 what == 3 && !r ? INCCL_FLOAT16 : INCCL_FLOAT32,
						 what == 2 && r ? INCCL_AVG : INCCL_SUM, &opts,
						 &requests[r]),
					 0);
		}
		ends_with(requests, -EREMOTEIO);
		for (unsigned int r = 0; r < 3; r++)
			assert_non_null(strstr(inccl_communicator_error(sw.rank[r].comm),
					       "not every rank has called it with the same type, "
					       "operator, float_block and float_exponent"));
		fake_switch_down(&sw);
	}
}

/* A value at or above the bound that the caller has given is rejected. Nothing is sent or changed,
 * and the other ranks get a report. */
static void out_of_range(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	static const float bad[] = {8, -9, INFINITY, NAN};
	static const char *const sentences[] = {"element 199, 8, is not below 2^3",
						"element 199, -9, is not below 2^3",
						"element 199 is infinite", "element 199 is NaN"};
	INCCL_OPTS(inccl_collective_opts, opts, .float_exponent = &(int){3}, .error = why,
		   .error_size = sizeof(why));
	float before[COUNT];

	for (unsigned int i = 0; i < 4; i++) {
		fake_switch_up(&sw, &conf);
		memset(data, 0, sizeof(data));
		data[1][COUNT - 1] = bad[i];
		memcpy(before, data[1], sizeof(before));
		assert_int_equal(inccl_allreduce(sw.rank[1].comm, data[1], data[1], COUNT,
						 INCCL_FLOAT32, INCCL_AVG, &opts),
				 -ERANGE);
		assert_non_null(strstr(why, sentences[i]));
		assert_memory_equal(data[1], before, sizeof(before));
		assert_int_equal(inccl_communicator_failed_rank(sw.rank[1].comm), 1);
		assert_non_null(strstr(inccl_communicator_error(sw.rank[1].comm), sentences[i]));
		pthread_mutex_lock(&sw.rank[1].comm->lock);
		assert_int_not_equal(sw.rank[1].comm->report, REPORT_NONE);
		pthread_mutex_unlock(&sw.rank[1].comm->lock);
		fake_switch_silent(&sw);
		sw.rank[1].ended = -ERANGE;
		fake_switch_down(&sw);
	}
}

/* A value out of range deep in a long vector is rejected, too. The error names its index. */
static void out_of_range_far(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 1, .window = 4, .message_packets = 1};
	INCCL_OPTS(inccl_collective_opts, opts, .float_exponent = &(int){3}, .error = why,
		   .error_size = sizeof(why));
	static float values[5000] = {[3456] = 8};
	struct inccl_request *req;

	fake_switch_up(&sw, &conf);
	assert_int_equal(inccl_allreduce_start(sw.rank[0].comm, values, values, 5000, INCCL_FLOAT32,
					       INCCL_SUM, &opts, &req),
			 -ERANGE);
	assert_non_null(strstr(why, "element 3456, 8, is not below 2^3"));
	sw.rank[0].ended = -ERANGE;
	fake_switch_down(&sw);
}

/* Wrong calls are rejected as usual, and the communicator remains usable. */
static void refused(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	static const enum inccl_op ops[] = {INCCL_PROD, INCCL_AND, INCCL_OR, INCCL_XOR, INCCL_LAND};
	INCCL_OPTS(inccl_collective_opts, opts, .error = why, .error_size = sizeof(why));
	struct inccl_communicator *comm;

	fake_switch_up(&sw, &conf);
	comm = sw.rank[1].comm;
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		assert_int_equal(
			inccl_reduce(comm, data[1], NULL, 4, INCCL_BFLOAT16, ops[i], 0, &opts),
			-EOPNOTSUPP);
		assert_non_null(strstr(why, ops[i] == INCCL_PROD
						    ? "prod of bfloat16: floats go through"
						    : "of bfloat16: floats have sum, avg, min"));
	}
	opts.float_exponent = &(int){129};
	assert_int_equal(
		inccl_allreduce(comm, data[1], data[0], 4, INCCL_FLOAT32, INCCL_SUM, &opts),
		-EINVAL);
	assert_string_equal(why, "float_exponent 129: want -126 to 128");
	assert_null(inccl_communicator_error(comm));
	fake_switch_silent(&sw);
	fake_switch_down(&sw);
}

/* Serves the ranks until rank 0 has begun this number of collectives on the wire. */
static void serve_until(unsigned int collectives, struct inccl_request *const *requests)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS);
	uint32_t descs[FAKE_SWITCH_TRACE];
	unsigned int r;

	for (;;) {
		for (r = 0; r < sw.conf.ranks; r++)
			assert_int_equal(inccl_test(requests[r]), -EAGAIN);
		fake_switch_receive(&sw);
		if (descriptors(&sw.rank[0], descs) == collectives)
			return;
		assert_true(inc_now_ns() < end_ns);
		fake_switch_serve(&sw);
	}
}

/* The communicator fails in each of the three collectives of a request. That request and the one
 * after it must fail. */
static void fails_in_the_middle(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 1, .message_packets = 1};
	struct inccl_request *requests[FAKE_SWITCH_RANKS], *next[FAKE_SWITCH_RANKS];

	for (unsigned int phase = 1; phase <= 3; phase++) {
		fake_switch_up(&sw, &conf);
		for (unsigned int r = 0; r < 2; r++) {
			fill(r, true);
			requests[r] = start(r, NULL);
			next[r] = start_one(1, r);
		}
		serve_until(phase, requests);
		for (unsigned int r = 0; r < 2; r++) {
			inccl_comm_fail(sw.rank[r].comm, EIO, 1, "as the test wants it");
			assert_int_equal(inccl_wait(requests[r], -1), -EIO);
			assert_int_equal(inccl_wait(next[r], -1), -EIO);
			sw.rank[r].ended = -EIO;
		}
		fake_switch_down(&sw);
	}
}

/* The switch becomes silent in each of the three collectives of a request, which times out. */
static void times_out_in_the_middle(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 1, .window = 1, .message_packets = 1};
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = 200);
	struct inccl_request *req;

	for (unsigned int phase = 1; phase <= 3; phase++) {
		fake_switch_up(&sw, &conf);
		fill(0, true);
		req = start(0, &opts);
		serve_until(phase, &req);
		assert_int_equal(inccl_wait(req, WAIT_MS), -ETIMEDOUT);
		sw.rank[0].ended = -ETIMEDOUT;
		fake_switch_down(&sw);
	}
}

/* If a request has not posted its last collective, the other ranks cannot complete it without this
 * rank, so destroying the communicator is an error. The second and the third collective are posted
 * together. */
static void destroyed_in_the_middle(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 1, .window = 64, .message_packets = 1};
	struct inccl_request *req;

	for (unsigned int phase = 1; phase <= 3; phase += 2) {
		fake_switch_up(&sw, &conf);
		fill(0, true);
		req = start(0, NULL);
		serve_until(phase, &req);
		rc_peer_ack(&sw.rank[0].peer, INC_AETH_ACK,
			    sw.rank[0].peer.channel_psn + sw.rank[0].received - 1);
		assert_int_equal(inccl_communicator_destroy(sw.rank[0].comm), 0);
		sw.rank[0].comm = NULL;
		assert_int_equal(fake_switch_logged(&sw, "destroyed in the middle of a collective"),
				 phase < 3);
		fake_switch_down(&sw);
	}
}

/* If the caller changes a vector whose request is in flight, the request must fail instead of
 * returning a wrong sum. */
static void vector_changed_in_flight(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 1, .window = 4, .message_packets = 1};
	struct inccl_request *req;

	fake_switch_up(&sw, &conf);
	fill(0, false);
	req = start(0, NULL);
	data[0][5] = 1e6f;
	ends_with(&req, -ERANGE);
	assert_non_null(strstr(inccl_communicator_error(sw.rank[0].comm),
			       "element 5, 1e+06, is not below 2^6"));
	assert_int_equal(inccl_communicator_failed_rank(sw.rank[0].comm), 0);
	fake_switch_down(&sw);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_on_the_wire),
		cmocka_unit_test(different_calls_have_different_descriptors),
		cmocka_unit_test(long_one),
		cmocka_unit_test(started_at_different_times),
		cmocka_unit_test(driven_by_the_thread),
		cmocka_unit_test(converted_once),
		cmocka_unit_test(different_parameters),
		cmocka_unit_test(out_of_range_far),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(refused),
		cmocka_unit_test(fails_in_the_middle),
		cmocka_unit_test(times_out_in_the_middle),
		cmocka_unit_test(destroyed_in_the_middle),
		cmocka_unit_test(vector_changed_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
