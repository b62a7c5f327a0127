/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The promises of inccl.h about time limits, rejections and ends of communicators, if a peer
 * misbehaves. A real group and communicator run between a fake controller and a fake switch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/fixture_rank.h"

/* An RNR NAK that requests the longest possible wait, 655.36 ms. */
#define RNR_LONGEST INC_AETH_TYPE_RNR

static bool is_patient(struct inccl_communicator *comm)
{
	return endpoint_stats(comm->ep).rnrs_received;
}

/* Because of an RNR NAK, a posted collective was not sent, and then its rank destroys the
 * communicator. The other ranks cannot complete the collective, so they get a report. */
static void unsent_at_the_end(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, RNR_LONGEST, pkt.psn);
	rank_until(fx, is_patient);
	rank_start(fx, 1);
	assert_false(rc_peer_receive(&fx->peer, &pkt, 50));
	rank_destroy(fx, 0);
	assert_true(rank_reported(fx, "\"errno\":\"ECANCELED\""));
}

/* A contribution is lost on the wire, and then its rank destroys the communicator. Either the rank
 * retransmits the contribution, or the other ranks get a report. */
static void lost_at_the_end(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	rank_destroy(fx, 0);
	assert_true(rc_peer_receive(&fx->peer, &pkt, 0) ||
		    rank_reported(fx, "\"errno\":\"ECANCELED\""));
}

/* The report about an unfinished collective names the rank that destroyed its communicator. */
static void named_at_the_end(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	pthread_mutex_lock(&fx->comm->lock);
	inccl_comm_settle(fx->comm, 0);
	pthread_mutex_unlock(&fx->comm->lock);
	assert_int_equal(inccl_communicator_failed_rank(fx->comm), 0);
	assert_non_null(strstr(inccl_communicator_error(fx->comm), "destroyed in the middle"));
	rank_destroy(fx, -ECANCELED);
}

static void *settle(void *arg)
{
	struct inccl_communicator *comm = arg;

	pthread_mutex_lock(&comm->lock);
	inccl_comm_settle(comm, deadline_after_ms(WAIT_MS));
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

/* A rank that destroys its communicator retransmits lost packets while there is time, so that no
 * other rank fails. */
static void sent_again_at_the_end(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	pthread_t settler;

	pthread_mutex_lock(&fx->comm->lock);
	endpoint_channel(fx->comm->ep)->tx.rto.rto_ns = INCCL_RTO_MIN_NS;
	pthread_mutex_unlock(&fx->comm->lock);
	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	assert_int_equal(pthread_create(&settler, NULL, settle, fx->comm), 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
	pthread_join(settler, NULL);
	rank_destroy(fx, 0);
}

/* If the switch has acknowledged the contribution, no rank fails, although the result comes after
 * the communicator was destroyed. */
static void kept_at_the_end(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
	rank_destroy(fx, 0);
	assert_false(rank_reported(fx, "\"errno\""));
}

static bool in_grace(struct inccl_communicator *comm)
{
	return comm->grace_error;
}

/* Destroying a communicator that the switch has already ended returns the error of that end. */
static void ended_before(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_NAK_OPERATION, pkt.psn);
	rank_until(fx, in_grace);
	/* the wait for acknowledgements must not make the communicator fail a second time */
	pthread_mutex_lock(&fx->comm->lock);
	inccl_comm_settle(fx->comm, 0);
	assert_int_equal(fx->comm->error, 0);
	pthread_mutex_unlock(&fx->comm->lock);
	rank_destroy(fx, -EREMOTEIO);
}

/* A collective's own time limit also applies after a collective with a longer limit. */
static void own_time_limit_behind_another(void **state)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = 100);
	struct inccl_request *second;
	struct rank_fixture *fx = *state;

	rank_start(fx, 0);
	assert_int_equal(inccl_barrier_start(fx->comm, &opts, &second), 0);
	assert_int_equal(inccl_wait(second, 2000), -ETIMEDOUT);
}

/* The time limit begins when the collective starts, however long the previous one has waited. */
static void own_time_limit_from_its_start(void **state)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = WAIT_MS);
	struct inccl_request *second;
	struct rank_fixture *fx = *state;

	rank_start(fx, 0);
	pthread_mutex_lock(&fx->comm->lock);
	fx->comm->moved_at_ns -= 2 * WAIT_MS * INC_NSEC_PER_MSEC;
	pthread_mutex_unlock(&fx->comm->lock);
	assert_int_equal(inccl_barrier_start(fx->comm, &opts, &second), 0);
	assert_int_equal(inccl_test(second), -EAGAIN);
}

static bool acknowledged(struct inccl_communicator *comm)
{
	return endpoint_stats(comm->ep).acks_received;
}

/* An acknowledgement that the switch repeats is no progress, so the time limit expires
 * nevertheless. */
static void repetition_is_no_progress(void **state)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = 200);
	uint64_t end_ns = deadline_after_ms(2000);
	struct rank_fixture *fx = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;
	int ret;

	assert_int_equal(inccl_barrier_start(fx->comm, &opts, &req), 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
	rank_until(fx, acknowledged);
	do {
		rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
		ret = inccl_wait(req, 20);
	} while (ret == -EAGAIN && inc_now_ns() < end_ns);
	assert_int_equal(ret, -ETIMEDOUT);
}

static uint64_t looks(struct inccl_communicator *comm)
{
	uint64_t calls;

	pthread_mutex_lock(&comm->lock);
	calls = endpoint_stats(comm->ep).recv_calls;
	pthread_mutex_unlock(&comm->lock);
	return calls;
}

/* The switch sends an RNR NAK for a packet and then acknowledges that packet. The waiting thread
 * must sleep until the requested wait is over. */
static void no_busy_loop_after_an_rnr_nak(void **state)
{
	struct rank_fixture *fx = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;
	uint32_t first_psn;
	uint64_t before;

	rank_start(fx, 0);
	req = rank_start(fx, 1);
	rank_receive(fx, &pkt, 0);
	first_psn = pkt.psn;
	rank_receive(fx, &pkt, 1);
	pthread_mutex_lock(&fx->comm->lock);
	endpoint_channel(fx->comm->ep)->tx.rto.rto_ns = INCCL_RTO_MIN_NS;
	pthread_mutex_unlock(&fx->comm->lock);
	rc_peer_ack(&fx->peer, RNR_LONGEST, first_psn);
	rank_until(fx, is_patient);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, first_psn);
	rank_until(fx, acknowledged);
	before = looks(fx->comm);
	assert_int_equal(inccl_wait(req, 400), -EAGAIN);
	/* Timers have woken the thread, and on a busy machine more often. A busy loop would look
	 * 100,000 times. */
	assert_true(looks(fx->comm) - before < 1000);
}

/* Options that only a later library supports are rejected with an explanation, in all calls. */
static void unknown_options_are_explained(void **state)
{
	struct {
		struct inccl_collective_opts opts;
		int more;
	} newer = {.opts = {.sz = sizeof(newer)}, .more = 1};
	struct {
		struct inccl_group_opts opts;
		int more;
	} group = {.opts = {.sz = sizeof(group)}, .more = 1};
	struct {
		struct inccl_communicator_opts opts;
		int more;
	} comm = {.opts = {.sz = sizeof(comm)}, .more = 1};
	char why[256] = "", why_group[256] = "", why_comm[256] = "";
	struct inccl_communicator *no_comm;
	struct inccl_group *no_group;
	struct rank_fixture *fx = *state;

	newer.opts.error = why;
	newer.opts.error_size = sizeof(why);
	assert_int_equal(inccl_barrier(fx->comm, &newer.opts), -E2BIG);
	assert_string_not_equal(why, "");
	group.opts.error = why_group;
	group.opts.error_size = sizeof(why_group);
	assert_int_equal(inccl_group_create(&group.opts, &no_group), -E2BIG);
	assert_string_not_equal(why_group, "");
	comm.opts.error = why_comm;
	comm.opts.error_size = sizeof(why_comm);
	assert_int_equal(inccl_communicator_create(fx->group, &comm.opts, &no_comm), -E2BIG);
	assert_string_not_equal(why_comm, "");
	why_comm[0] = why_group[0] = 0;
	assert_int_equal(inccl_communicator_split(fx->comm, 0, 0, &comm.opts, &no_comm), -E2BIG);
	assert_string_not_equal(why_comm, "");
	assert_int_equal(inccl_group_shrink(fx->group, &group.opts, &no_group), -E2BIG);
	assert_string_not_equal(why_group, "");
}

/* Structs of callers that were compiled for an earlier library are shorter. The library neither
 * reads nor writes the bytes after their end. */
static void older_callers(void **state)
{
	struct inccl_collective_opts opts;
	struct inccl_communicator_info info;
	const size_t known = offsetof(struct inccl_communicator_info, device);
	const uint8_t *behind = (const uint8_t *)&info + known;
	struct rank_fixture *fx = *state;
	struct inccl_request *req;

	memset(&opts, 0xff, sizeof(opts));
	opts.sz = offsetof(struct inccl_collective_opts, mode);
	assert_int_equal(inccl_barrier_start(fx->comm, &opts, &req), 0);
	memset(&info, 0xff, sizeof(info));
	info.sz = known;
	assert_int_equal(inccl_communicator_info(fx->comm, &info), 0);
	assert_int_equal(info.sz, known);
	assert_int_equal(info.payload, 1024);
	assert_string_equal(info.transport, "soft");
	for (size_t i = 0; i < sizeof(info) - known; i++)
		assert_int_equal(behind[i], 0xff);
}

/* A window is a number of messages, but its limit is a number of packets. */
static void window_of_long_messages(void **state)
{
	char why[256] = "";
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .message_packets = 2, .window = INC_MAX_SLOTS / 2 + 1,
		   .create_timeout_ms = HASTY_MS, .error = why, .error_size = sizeof(why));
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;

	assert_int_equal(inccl_communicator_create(fx->group, &opts, &comm), -EINVAL);
	assert_non_null(strstr(why, "window 2049 of 2 packets: at most 4096 packets"));
}

static struct inc_channel_ops closed;

static int map_nothing(struct inc_channel_device *dev, void *addr, size_t len,
		       enum inc_channel_access access, struct inc_channel_region *region,
		       struct inc_err *err)
{
	return inc_err_set(err, EFAULT, "the test takes no memory");
}

/* If the device rejects the caller's memory, the error explains that. */
static void unregistered_memory_is_explained(void **state)
{
	char why[256] = "";
	INCCL_OPTS(inccl_collective_opts, opts, .error = why, .error_size = sizeof(why));
	const struct inc_channel_ops *real;
	struct rank_fixture *fx = *state;
	int ret;

	real = fx->comm->ep->ops;
	closed = *real;
	closed.map = map_nothing;
	pthread_mutex_lock(&fx->comm->lock);
	fx->comm->ep->ops = &closed;
	pthread_mutex_unlock(&fx->comm->lock);
	ret = inccl_allreduce(fx->comm, fx->data[0], fx->data[0], 4, INCCL_INT32, INCCL_SUM, &opts);
	pthread_mutex_lock(&fx->comm->lock);
	fx->comm->ep->ops = real;
	pthread_mutex_unlock(&fx->comm->lock);
	assert_int_equal(ret, -EFAULT);
	assert_string_not_equal(why, "");
}

/* If only the immediate of a result is wrong, the error names the immediate. */
static void wrong_immediate_is_reported(void **state)
{
	struct rank_fixture *fx = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;

	req = rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	pkt.imm++;
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), -EPROTO);
	assert_non_null(strstr(inccl_communicator_error(fx->comm), "immediate"));
}

static bool is_refused(struct inccl_communicator *comm)
{
	return endpoint_stats(comm->ep).bad_packets;
}

/* A result for a packet that still waits to be sent is rejected, because such a packet cannot have
 * a result. */
static void result_of_what_was_not_sent(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, RNR_LONGEST, pkt.psn);
	rank_until(fx, is_patient);
	rank_start(fx, 1);
	pkt.imm++;
	pkt.rkey++;
	rc_peer_mirror(&fx->peer, &pkt, 1, pkt.payload);
	rank_until(fx, is_refused);
	assert_null(inccl_communicator_error(fx->comm));
}

static bool both_acknowledged(struct inccl_communicator *comm)
{
	return waiter_sleeps(comm) && endpoint_stats(comm->ep).acks_received == 2;
}

/* If a thread calls inccl_test() while another one waits, the waiting thread makes the progress,
 * and is not woken. */
static void test_beside_a_waiter(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt[2];
	struct inccl_request *req;
	uint64_t before;
	struct waiter t;

	waiter_start(&t, rank_start(fx, 0));
	req = rank_start(fx, 1);
	for (unsigned int i = 0; i < 2; i++) {
		rank_receive(fx, &pkt[i], i);
		rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt[i].psn);
	}
	rank_until(fx, both_acknowledged);
	before = looks(fx->comm);
	assert_int_equal(inccl_test(req), -EAGAIN);
	assert_int_equal(looks(fx->comm), before);
	rc_peer_mirror(&fx->peer, &pkt[0], 0, fx->data[0]);
	rc_peer_mirror(&fx->peer, &pkt[1], 1, fx->data[1]);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, 0);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rank_setup, rank_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(unsent_at_the_end),
		CASE(lost_at_the_end),
		CASE(named_at_the_end),
		CASE(sent_again_at_the_end),
		CASE(kept_at_the_end),
		CASE(ended_before),
		CASE(own_time_limit_behind_another),
		CASE(own_time_limit_from_its_start),
		CASE(repetition_is_no_progress),
		CASE(no_busy_loop_after_an_rnr_nak),
		CASE(unknown_options_are_explained),
		CASE(older_callers),
		CASE(window_of_long_messages),
		CASE(unregistered_memory_is_explained),
		CASE(wrong_immediate_is_reported),
		CASE(result_of_what_was_not_sent),
		CASE(test_beside_a_waiter),
	};

	alarm(2 * LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
