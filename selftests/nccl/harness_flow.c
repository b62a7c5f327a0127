/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hostlib/nccl/abi.h"
#include "lib/base/clock.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

#define LOG_LINES 4096u
#define LOG_SHOWN 40u

struct ha_plugin *flow_plugin;

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char *log_line[LOG_LINES];
static unsigned int log_lines;

/* ---- the plugin of this process ------------------------------------------------------------- */

static void keep_line(enum ha_log_level level, const char *file, int line, const char *text)
{
	pthread_mutex_lock(&log_lock);
	if (log_lines < LOG_LINES)
		log_line[log_lines++] = strdup(text);
	if (getenv("FLOW_LOG"))
		fprintf(stderr, "# %.3f %s\n", inc_now_ns() / 1e9, text);
	pthread_mutex_unlock(&log_lock);
}

unsigned int flow_logged(const char *text)
{
	unsigned int i, n = 0;

	pthread_mutex_lock(&log_lock);
	for (i = 0; i < log_lines; i++)
		n += strstr(log_line[i], text) != NULL;
	pthread_mutex_unlock(&log_lock);
	return n;
}

/* Prints the plugin's log, to help to explain a failed test. */
static void show_log(void)
{
	unsigned int i;

	pthread_mutex_lock(&log_lock);
	for (i = log_lines > LOG_SHOWN ? log_lines - LOG_SHOWN : 0; i < log_lines; i++)
		print_message("# %s\n", log_line[i]);
	pthread_mutex_unlock(&log_lock);
}

static void set_number(const char *name, unsigned int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

/* Gives each end its own two rails, because both ends are on one machine here and might share a
 * device otherwise. */
static void pair_rails(void)
{
	const struct ha_devices *devices = ha_plugin_devices(flow_plugin);
	unsigned int i;

	assert_int_equal(devices->n, 4);
	for (i = 0; i < 4; i++) {
		assert_string_equal(devices->device[i].rail[0].device->name,
				    ((const char *[]){"fake0", "fake1", "fake2", "fake3"})[i]);
		/* exchanges rails between devices, so that the number of references to each device
		 * stays the same */
		if (devices->device[i].rail[1].device)
			devices->device[i].rail[1] = devices->device[i ^ 1].rail[0];
	}
}

int flow_open(void **state)
{
	const bool soft = getenv("HA_NCCL_TRANSPORT");
	struct inc_err err;

	fake_verbs_machine(4);
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	/* the ends of a path over UDP share a busy machine, so such a path is dead after 3.2 s */
	set_number("HA_NCCL_RTO_MS", soft ? 8 * FLOW_RTO_MS : FLOW_RTO_MS);
	set_number("HA_NCCL_HEARTBEAT_MS", FLOW_HEARTBEAT_MS);
	/* 12: ACK timeout of 17 ms, up to 7 times: 117 ms */
	set_number("HA_NCCL_QP_TIMEOUT", soft ? 17 : 12);
	set_number("HA_NCCL_QP_RETRY_CNT", 6);
	if (ha_plugin_open(&flow_plugin, keep_line, &err))
		fail_msg("%s", err.msg);
	if (!soft)
		pair_rails();
	return 0;
}

int flow_close(void **state)
{
	ha_plugin_close(flow_plugin);
	while (log_lines)
		free(log_line[--log_lines]);
	assert_int_equal(fake_verbs_objects(), 0);
	return 0;
}

bool flow_is_late(uint64_t began_at_ns)
{
	return inc_now_ns() - began_at_ns > FLOW_PATIENCE_S * INC_NSEC_PER_SEC;
}

/* ---- a comm --------------------------------------------------------------------------------- */

#define BUFFER_BYTES (FLOW_DEPTH * (size_t)FLOW_MAX_BYTES)

/* Makes and registers the buffers of an end. As NCCL does, it closes the descriptor of GPU memory
 * at once. */
static struct ha_region *make_buffers(struct ha_comm *comm, bool gpu, struct flow_buffers *buffers)
{
	const int fd = gpu ? memfd_create("gpu", MFD_CLOEXEC) : -1;
	struct ha_region *region;
	struct inc_err err;

	buffers->memory = buffers->at = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(buffers->at, MAP_FAILED);
	if (gpu) {
		assert_int_equal(ftruncate(fd, BUFFER_BYTES), 0);
		assert_int_equal(mprotect(buffers->at, BUFFER_BYTES, PROT_NONE), 0);
		buffers->memory =
			mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(buffers->memory, MAP_FAILED);
	}
	if (ha_register(comm, buffers->at, BUFFER_BYTES, gpu ? HA_NCCL_PTR_CUDA : HA_NCCL_PTR_HOST,
			fd, 0, &region, &err))
		fail_msg("%s", err.msg);
	if (gpu)
		close(fd);
	return region;
}

static void free_buffers(struct flow_buffers *buffers)
{
	if (buffers->memory != buffers->at)
		munmap(buffers->memory, BUFFER_BYTES);
	if (buffers->at)
		munmap(buffers->at, BUFFER_BYTES);
}

bool flow_try_to_connect(struct flow *flow)
{
	const uint64_t began_at_ns = inc_now_ns();
	/* The handle of the current listener. NCCL's handles are char arrays at any alignment,
	 * hence the odd address. */
	static char handle[1 + HA_NCCL_HANDLE_BYTES];
	char carried[1 + HA_NCCL_HANDLE_BYTES];
	const unsigned int receiver = ha_plugin_devices(flow_plugin)->n > 1 ? 2 : 0;
	struct inc_err err;

	if (!flow->listener && ha_listen(flow_plugin, receiver, (struct ha_handle *)(handle + 1),
					 &flow->listener, &err))
		fail_msg("%s", err.msg);
	memcpy(carried, handle, sizeof(carried));
	while (!flow->send || !flow->receive) {
		if (!flow->send && ha_connect(flow_plugin, 0, (struct ha_handle *)(carried + 1), -1,
					      &flow->send, &err))
			return false;
		if (!flow->receive && ha_accept(flow->listener, &flow->receive, &err))
			return false;
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
	flow->out_region = make_buffers(flow->send, flow->gpu, &flow->out);
	flow->in_region = make_buffers(flow->receive, flow->gpu, &flow->in);
	return true;
}

void flow_connect(struct flow *flow)
{
	assert_true(flow_try_to_connect(flow));
}

void flow_disconnect(struct flow *flow)
{
	if (flow->out_region)
		ha_deregister(flow->send, flow->out_region);
	if (flow->in_region)
		ha_deregister(flow->receive, flow->in_region);
	if (flow->send)
		ha_comm_close(flow->send);
	if (flow->receive)
		ha_comm_close(flow->receive);
	free_buffers(&flow->out);
	free_buffers(&flow->in);
	if (flow->listener)
		ha_listener_close(flow->listener);
	*flow = (struct flow){0};
}

static uint32_t bytes_of(uint32_t number)
{
	return 8 + number * 37 % (FLOW_MAX_BYTES - 8);
}

/* Fills message `number`: its number, followed by bytes that differ from those of other
 * messages. */
static void write_message(uint8_t *at, uint32_t number)
{
	uint32_t i;

	memcpy(at, &number, sizeof(number));
	for (i = sizeof(number); i < bytes_of(number); i++)
		at[i] = number * 7 + i;
}

static void check_message(const uint8_t *at, uint32_t number, int bytes)
{
	uint32_t i, read;

	memcpy(&read, at, sizeof(read));
	assert_int_equal(read, number);
	assert_int_equal(bytes, bytes_of(number));
	for (i = sizeof(read); i < bytes_of(number); i++)
		if (at[i] != (uint8_t)(number * 7 + i))
			fail_msg("message %u, byte %u", number, i);
}

static void note_error(struct flow *flow, int *first, int error)
{
	flow->failed++;
	if (!*first)
		*first = error;
}

static size_t place_of(uint32_t number)
{
	return number % FLOW_DEPTH * (size_t)FLOW_MAX_BYTES;
}

/* Begins the flush of a complete receive. Returns whether the receive has to wait for it. */
static bool flush(struct flow *flow, struct flow_message *message)
{
	void *at = flow->in.at + place_of(message->number);

	message->flushing = true;
	assert_int_equal(ha_iflush(flow->receive, 1, &at, &message->bytes, &flow->in_region,
				   &message->request),
			 0);
	flow->n_flushes += message->request != NULL;
	return message->request;
}

/* Returns whether the receive is over, with *error. */
static bool test_receive(struct flow *flow, struct flow_message *message, int *error)
{
	bool done = false;

	if (message->request) {
		*error = ha_test(message->request, &done,
				 message->flushing ? NULL : &message->bytes);
		if (!done)
			return false;
		message->request = NULL;
	}
	if (*error || !flow->gpu || message->flushing)
		return true;
	return !flow->hold_flushes && !flush(flow, message);
}

static void step_receives(struct flow *flow)
{
	struct flow_message *message;
	int ret;

	while (flow->received < flow->asked) {
		message = &flow->receiving[flow->received % FLOW_DEPTH];
		ret = 0;
		if (!test_receive(flow, message, &ret))
			break;
		if (ret)
			note_error(flow, &flow->receive_error, ret);
		else
			check_message(flow->in.memory + place_of(message->number), message->number,
				      message->bytes);
		flow->received++;
	}
	while (!flow->quiet && !flow->receive_error && flow->asked - flow->received < FLOW_DEPTH) {
		const uint32_t number = flow->asked;
		void *at = flow->in.at + place_of(number);
		const size_t room = FLOW_MAX_BYTES;
		const int tag = number % FLOW_TAGS;

		message = &flow->receiving[number % FLOW_DEPTH];
		memset(flow->in.memory + place_of(number), 0xee, sizeof(number));
		ret = ha_irecv(flow->receive, 1, &at, &room, &tag, &flow->in_region,
			       &message->request);
		if (ret)
			flow->receive_error = ret;
		if (!message->request)
			break;
		message->flushing = false;
		message->number = flow->asked++;
	}
}

static void step_sends(struct flow *flow)
{
	struct flow_message *message;
	bool done;
	int ret, bytes;

	while (flow->acknowledged < flow->sent) {
		message = &flow->sending[flow->acknowledged % FLOW_DEPTH];
		ret = ha_test(message->request, &done, &bytes);
		if (!done)
			break;
		if (ret)
			note_error(flow, &flow->send_error, ret);
		else
			assert_int_equal(bytes, bytes_of(message->number));
		flow->acknowledged++;
	}
	/* a quiet flow makes no further sends */
	while (!flow->send_error && flow->sent - flow->acknowledged < FLOW_DEPTH &&
	       (!flow->quiet || flow->sent < flow->asked)) {
		const uint32_t number = flow->sent;

		message = &flow->sending[number % FLOW_DEPTH];
		write_message(flow->out.memory + place_of(number), number);
		ret = ha_isend(flow->send, flow->out.at + place_of(number), bytes_of(number),
			       number % FLOW_TAGS, flow->out_region, &message->request);
		if (ret)
			flow->send_error = ret;
		if (!message->request)
			break;
		message->number = flow->sent++;
	}
}

/* Lets the plugin's threads run, with which this thread may share the processors. After a step in
 * vain it sleeps for a moment, because the thread would otherwise use a whole CPU while it waits.
 */
static void give_way(bool in_vain)
{
	if (in_vain)
		usleep(FLOW_POLL_US);
	else
		sched_yield();
}

void flow_step(struct flow *flow)
{
	const uint32_t before = flow->sent + flow->acknowledged + flow->asked + flow->received;

	step_receives(flow);
	step_sends(flow);
	give_way(flow->sent + flow->acknowledged + flow->asked + flow->received == before);
}

static void must_go_on(const struct flow *flow, const char *what, uint64_t began_at_ns)
{
	if (flow->send_error || flow->receive_error)
		fail_msg("send: %s, receive: %s", strerror(-flow->send_error),
			 strerror(-flow->receive_error));
	if (flow_is_late(began_at_ns)) {
		show_log();
		fail_msg("%s: %u sent, %u acknowledged, %u asked for, %u received", what,
			 flow->sent, flow->acknowledged, flow->asked, flow->received);
	}
}

void flow_receive(struct flow *flow, unsigned int n)
{
	const uint64_t began_at_ns = inc_now_ns();
	const uint32_t until = flow->received + n;

	while ((int32_t)(flow->received - until) < 0) {
		flow_step(flow);
		must_go_on(flow, "more messages", began_at_ns);
	}
}

void flow_finish(struct flow *flow)
{
	const uint64_t began_at_ns = inc_now_ns();

	flow->quiet = true;
	while (flow->received != flow->asked || flow->acknowledged != flow->asked) {
		flow_step(flow);
		must_go_on(flow, "the last messages", began_at_ns);
	}
	flow->quiet = false;
}

void flow_until_landed(struct flow *flow)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (flow->acknowledged != flow->asked) {
		flow_step(flow);
		must_go_on(flow, "the last acknowledgements", began_at_ns);
	}
}

void flow_until_logged(struct flow *flow, const char *text, unsigned int n)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (flow_logged(text) < n) {
		flow_step(flow);
		must_go_on(flow, text, began_at_ns);
	}
}

void flow_until_standby(struct flow *flow, unsigned int rail, unsigned int epoch)
{
	char text[64];

	snprintf(text, sizeof(text), "fake%u stands by for epoch %u", FLOW_SENDER(rail), epoch);
	flow_until_logged(flow, text, 1);
}

void flow_until_failover(struct flow *flow, unsigned int epoch)
{
	char text[64];

	snprintf(text, sizeof(text), "epoch %u, ", epoch);
	flow_until_logged(flow, text, 2);
	assert_int_equal(flow_logged(text), 2);
}

void flow_until_failed(struct flow *flow)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (!flow->send_error || !flow->receive_error || flow->received != flow->asked ||
	       flow->acknowledged != flow->sent) {
		flow_step(flow);
		assert_true(inc_now_ns() - began_at_ns < 5ull * FLOW_RTO_MS * INC_NSEC_PER_MSEC);
	}
	assert_true(flow->failed > 0);
	assert_true(flow->send_error < 0 && flow->receive_error < 0);
}
