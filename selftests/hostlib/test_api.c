/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors of the public interface: wrong arguments, and controllers that violate the protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/fakes/controller.h"

static int create(struct fake_controller *f, const char *const *answers, bool hang_up,
		  struct inccl_group **group, char error[256])
{
	return fake_controller_create(f, answers, hang_up, group, error, NULL, NULL);
}

/* Creates a group. The controller's answer must make the creation fail. */
static int refused(const char *answer, bool hang_up, char error[256])
{
	const char *const answers[] = {answer, NULL};
	struct inccl_group *group = (void *)1;
	struct fake_controller f;
	int ret = create(&f, answers, hang_up, &group, error);

	fake_controller_stop(&f);
	assert_null(group);
	assert_true(error[0]);
	return ret;
}

static void bad_arguments(void **state)
{
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char error[256];
	INCCL_OPTS(inccl_group_opts, opts, .controller = "127.0.0.1:1", .error = error,
		   .error_size = sizeof(error));
	struct {
		struct inccl_group_opts opts;
		char more[16];
	} newer = {.opts = {.sz = sizeof(newer), .world_size = 1, .rank = 1}};

	assert_int_equal(inccl_group_create(NULL, NULL), -EINVAL);
	assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
	assert_non_null(strstr(error, "INCCL_RANK"));
	opts.world_size = 2;
	opts.rank = 2;
	assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
	assert_non_null(strstr(error, "rank 2 of 2"));
	opts.rank = 0;
	opts.job = "two words";
	assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
	opts.job = NULL;
	opts.controller = "127.0.0.1:http";
	assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
	opts.controller = NULL;
	assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
	assert_non_null(strstr(error, "INCCL_CONTROLLER"));
	opts.sz = 3;
	assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
	/* the struct of a newer caller is longer, which is valid if the fields unknown to the
	 * library are zero */
	assert_int_equal(inccl_group_create(&newer.opts, &group), -EINVAL);
	newer.more[15] = 1;
	assert_int_equal(inccl_group_create(&newer.opts, &group), -E2BIG);

	assert_int_equal(inccl_communicator_create(NULL, NULL, &comm), -EINVAL);
	assert_int_equal(inccl_allreduce_sendrecv(NULL, NULL, 0, NULL), -EINVAL);
	assert_int_equal(inccl_barrier(NULL, NULL), -EINVAL);
	assert_int_equal(inccl_test(NULL), -EINVAL);
	assert_int_equal(inccl_wait(NULL, 0), -EINVAL);
	assert_int_equal(inccl_group_destroy(NULL), 0);
	assert_int_equal(inccl_communicator_destroy(NULL), 0);
}

/* A log that counts the lines about the wait that the fake controller reports. */
static void count_waiting(void *ctx, const char *line)
{
	*(unsigned int *)ctx +=
		!strcmp(line, "waiting: job t has waited 5 s for rank 1 (h1, 10.77.1.1)");
}

/* The library logs for which ranks it waits, and ignores messages that only a newer controller
 * has. */
static void reports_of_the_controller_are_logged(void **state)
{
	static const char *const answers[] = {
		"{\"type\":\"absent\",\"message\":\"job t has waited 5 s for rank 1 (h1, "
		"10.77.1.1)\"}\n{\"type\":\"news\",\"message\":\"none\"}\n" JOINED,
		NULL};
	struct inccl_group *group;
	struct fake_controller f;
	unsigned int lines = 0;
	char error[256];

	assert_int_equal(
		fake_controller_create(&f, answers, false, &group, error, count_waiting, &lines),
		0);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
	assert_int_equal(lines, 1);
}

static void no_controller(void **state)
{
	struct inccl_group *group;
	char error[256];
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .controller = "127.0.0.1:1",
		   .connect_timeout_ms = 300, .error = error, .error_size = sizeof(error));
	double begin = now_s();

	assert_int_equal(inccl_group_create(&opts, &group), -ECONNREFUSED);
	assert_non_null(strstr(error, "127.0.0.1:1"));
	assert_true(now_s() - begin < 3);
}

static void misbehaving_controllers(void **state)
{
	char error[256];

	assert_int_equal(refused(NULL, false, error), -ETIMEDOUT);
	assert_int_equal(refused("GET / HTTP/1.1\n", false, error), -EPROTO);
	assert_int_equal(refused("[1,2,3]\n", false, error), -EPROTO);
	assert_int_equal(refused("{\"type\":7}\n", false, error), -EPROTO);
	assert_int_equal(refused("{\"type\":\"G\"}\n", false, error), -EPROTO);
	assert_int_equal(refused("{\"type\":\"G\",\"group\":1,\"addr\":\"1.2.3\"}\n", false, error),
			 -EPROTO);
	assert_int_equal(refused("{\"type\":\"new\"}\n", true, error), -ECONNRESET);
	assert_int_equal(refused("{\"type\":\"error\",\"errno\":\"EEXIST\","
				 "\"message\":\"rank 0 is taken\"}\n",
				 false, error),
			 -EEXIST);
	assert_string_equal(error, "rank 0 is taken");
	assert_int_equal(refused("{\"type\":\"error\",\"errno\":\"EWHAT\"}\n", false, error),
			 -EREMOTEIO);
	assert_int_equal(refused("{\"type\":\"failed\",\"group\":1,\"rank\":3,\"errno\":"
				 "\"ECONNRESET\",\"message\":\"rank 3 left\"}\n",
				 false, error),
			 -ECONNRESET);
	assert_string_equal(error, "rank 3 left");
	/* a failure message is a failure, even if some of its fields are invalid */
	assert_int_equal(refused("{\"type\":\"failed\",\"group\":\"x\",\"rank\":-7,\"errno\":[],"
				 "\"communicator\":{},\"message\":\"so it is\"}\n",
				 false, error),
			 -EREMOTEIO);
	assert_string_equal(error, "so it is");
	assert_int_equal(
		refused("{\"type\":\"error\",\"seq\":\"x\",\"comm\":-1,\"errno\":\"EEXIST\","
			"\"message\":\"so it is, too\"}\n",
			false, error),
		-EEXIST);
	assert_string_equal(error, "so it is, too");
	assert_int_equal(
		refused("{\"type\":\"failed\",\"errno\":\"EIO\",\"message\":7}\n", false, error),
		-EIO);
	assert_string_equal(error, strerror(EIO));
}

static void endless_line(void **state)
{
	char *text = malloc(200001), error[256];

	assert_non_null(text);
	memset(text, 'x', 200000);
	text[200000] = 0;
	assert_int_equal(refused(text, false, error), -EPROTO);
	free(text);
}

static int create_comm(const char *const *answers, struct fake_controller *f,
		       struct inccl_group **group, struct inccl_communicator **comm,
		       char error[256], unsigned int create_timeout_ms)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .create_timeout_ms = create_timeout_ms,
		   .timeout_ms = 300, .error = error, .error_size = 256);

	assert_int_equal(create(f, answers, false, group, error), 0);
	return inccl_communicator_create(*group, &opts, comm);
}

static void bad_connections(void **state)
{
	static const struct {
		const char *answer;
		int want;
		const char *part;
	} cases[] = {
		{CONN("-1", "1024", "8"), -EPROTO, "peer_qp"},
		{CONN("1", "1024", "8"), -EPROTO, "peer_qp"},
		{CONN("16777215", "1024", "8"), -EPROTO, "peer_qp"},
		{CONN("16777216", "1024", "8"), -EPROTO, "peer_qp"},
		{CONN("5", "1000", "8"), -EPROTO, "payload"},
		{CONN("5", "2048", "8"), -EPROTO, "payload"},
		{CONN("5", "1024", "4"), -EPROTO, "slots"},
		{CONN("5", "1024", "12"), -EPROTO, "answer to 'C': slots: 12 is not"},
		{CONN("5", "1024", "8192"), -EPROTO, "slots"},
		{"{\"type\":\"C\",\"comm\":0,\"communicator\":12}\n", -EPROTO, "payload"},
		{"{\"type\":\"C\",\"comm\":1,\"communicator\":12}\n", -ETIMEDOUT, "'C'"},
		{"{\"type\":\"error\",\"comm\":0,\"errno\":\"ENOSPC\",\"message\":\"full\"}\n",
		 -ENOSPC, "full"},
		/* an error about another communicator does not answer this request */
		{"{\"type\":\"error\",\"communicator\":9,\"errno\":\"ENOSPC\","
		 "\"message\":\"full\"}\n",
		 -ETIMEDOUT, "'C'"},
	};
	struct inccl_communicator *comm;
	struct inccl_group *group;
	char error[256];
	struct fake_controller f;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const answers[] = {JOINED, cases[i].answer, NULL};

		if (create_comm(answers, &f, &group, &comm, error,
				cases[i].want == -ETIMEDOUT ? HASTY_MS : PATIENT_MS) !=
		    cases[i].want)
			fail_msg("case %zu: %s", i, error);
		assert_null(comm);
		assert_int_equal(inccl_group_destroy(group), 0);
		fake_controller_stop(&f);
		assert_non_null(strstr(f.received, "\"world_size\":1"));
		assert_non_null(strstr(f.received, "\"payload\":1024"));
		assert_non_null(strstr(f.received, "\"byte_order\":\"little\""));
		if (!strstr(error, cases[i].part))
			fail_msg("case %zu: no '%s' in %s", i, cases[i].part, error);
		/* the member reports to the controller each failure that the controller cannot
		 * detect, so that it can inform the other ranks */
		if (!strstr(f.received, "\"type\":\"failed\",\"comm\":0") !=
		    (cases[i].want == -ENOSPC))
			fail_msg("case %zu: received %s", i, f.received);
	}
}

/* If a member has several communicators, each starts only when its own number is announced. */
static void started_by_number(void **state)
{
	const char *const answers[] = {JOINED, CONN("5", "1024", "8"),
				       "{\"type\":\"start\",\"communicator\":13}\n"
				       "{\"type\":\"start\"}\n"
				       "{\"type\":\"start\",\"communicator\":\"12\"}\n",
				       NULL};
	struct inccl_communicator *comm;
	struct inccl_group *group;
	char error[256];
	struct fake_controller f;

	assert_int_equal(create_comm(answers, &f, &group, &comm, error, HASTY_MS), -ETIMEDOUT);
	assert_non_null(strstr(error, "'start'"));
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
}

static int begin_sum(struct inccl_communicator *comm, const void *send, void *recv,
		     const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	return inccl_allreduce_start(comm, send, recv, 4, INCCL_INT32, INCCL_SUM, opts, request);
}

/* A communicator whose switch does not exist: no socket answers at the switch's port. */
static void dead_switch(void **state)
{
	const char *const answers[] = {JOINED, CONN("5", "1024", "8"), STARTED, NULL};
	struct {
		struct inccl_collective_opts c;
		uint64_t more;
	} unknown = {{.sz = sizeof(unknown)}, 1}, mode = {{.sz = sizeof(mode.c), .mode = 9}, 0};
	struct inccl_communicator *comm;
	struct inccl_group *group;
	struct inccl_request *a, *b;
	int32_t data[4] = {1, 2, 3, 4};
	double begin = now_s();
	const char *told;
	char error[256];
	struct fake_controller f;

	assert_int_equal(create_comm(answers, &f, &group, &comm, error, PATIENT_MS), 0);
	assert_int_equal(inccl_group_destroy(group), -EBUSY);

	assert_int_equal(begin_sum(comm, NULL, NULL, NULL, &a), -EINVAL);
	assert_int_equal(begin_sum(comm, data, (char *)data + 2, NULL, &a), -EINVAL);
	assert_int_equal(begin_sum(comm, data, data + 1, NULL, &a), -EINVAL);
	assert_int_equal(inccl_allreduce(comm, data, data, 4, 99, INCCL_SUM, NULL), -EOPNOTSUPP);
	assert_int_equal(inccl_allreduce(comm, data, data, 4, INCCL_INT32, 99, NULL), -EOPNOTSUPP);
	assert_int_equal(begin_sum(comm, data, data, &mode.c, &a), -EOPNOTSUPP);
	assert_int_equal(begin_sum(comm, data, data, &unknown.c, &a), -E2BIG);
	unknown.c.sz = 1;
	assert_int_equal(begin_sum(comm, data, data, &unknown.c, &a), -EINVAL);
	assert_null(a);
	assert_int_equal(
		inccl_allreduce_start(comm, data, data, 4, INCCL_INT32, INCCL_SUM, NULL, NULL),
		-EINVAL);
	assert_int_equal(inccl_allreduce_write(comm, NULL, 0, NULL), 0);
	assert_int_equal(inccl_allreduce_sendrecv(comm, NULL, 0, NULL), 0);
	/* a longer struct of options is valid if the fields unknown to the library are zero */
	unknown.c.sz = sizeof(unknown);
	unknown.more = 0;
	assert_int_equal(inccl_allreduce(comm, NULL, NULL, 0, INCCL_INT32, INCCL_SUM, &unknown.c),
			 0);

	assert_int_equal(begin_sum(comm, data, data, NULL, &a), 0);
	assert_int_equal(inccl_barrier_start(comm, NULL, &b), 0);
	assert_int_equal(inccl_test(b), -EAGAIN);
	assert_int_equal(inccl_wait(b, 20), -EAGAIN);
	assert_null(inccl_communicator_error(comm));
	assert_int_equal(inccl_wait(a, -1), -ETIMEDOUT);
	assert_int_equal(inccl_test(b), -ETIMEDOUT);
	assert_non_null(strstr(inccl_communicator_error(comm), "s0 (127.0.0.1)"));
	assert_non_null(strstr(inccl_communicator_error(comm), "not acknowledged"));
	assert_int_equal(inccl_communicator_failed_rank(comm), -1);
	assert_int_equal(inccl_barrier(comm, NULL), -ETIMEDOUT);
	assert_true(now_s() - begin < 5);
	/* the request to destroy (D) is never answered, but the wait for it is limited */
	assert_int_equal(inccl_communicator_destroy(comm), -ETIMEDOUT);
	assert_true(now_s() - begin < 15);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
	/* the member reported the timeout before the request D, without a blame on this rank */
	told = strstr(f.received, "\"failed\",\"communicator\":12,\"errno\":\"ETIMEDOUT\"");
	assert_non_null(told);
	assert_null(strstr(told, "\"rank\""));
	assert_true(told < strstr(f.received, "\"type\":\"D\""));
}

/* The controller's failure notice comes directly after `start`. Calls that wait return the notice's
 * error, and the communicator has the rank of the notice. */
static void rank_lost(void **state)
{
	const char *const answers[] = {JOINED, CONN("5", "1024", "8"),
				       STARTED "{\"type\":\"failed\",\"group\":7,\"rank\":2,"
					       "\"errno\":\"ECONNRESET\",\"message\":\"rank 2 "
					       "left the group\"}\n",
				       NULL};
	struct inccl_communicator *comm;
	struct inccl_group *group;
	int32_t x = 1;
	char error[256];
	struct fake_controller f;
	int ret;

	ret = create_comm(answers, &f, &group, &comm, error, PATIENT_MS);
	if (!ret) {
		assert_int_equal(inccl_allreduce_sendrecv(comm, &x, 1, &x), -ECONNRESET);
		assert_string_equal(inccl_communicator_error(comm), "rank 2 left the group");
		assert_int_equal(inccl_communicator_failed_rank(comm), 2);
		assert_string_equal(inccl_group_error(group), "rank 2 left the group");
		assert_int_equal(inccl_communicator_destroy(comm), -ECONNRESET);
	} else {
		/* the failure notice may arrive before the communicator has started */
		assert_int_equal(ret, -ECONNRESET);
		assert_string_equal(error, "rank 2 left the group");
	}
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
}

/* If a rank's options could not be used by any rank, the rank reports that to the other ranks, too.
 * The next communicator gets the next number. */
static void unusable_options_are_reported(void **state)
{
	const char *const answers[] = {JOINED, NULL};
	INCCL_OPTS(inccl_communicator_opts, opts, .payload = 1000);
	struct inccl_communicator *comm;
	struct inccl_group *group;
	char error[256];
	struct fake_controller f;

	assert_int_equal(create(&f, answers, false, &group, error), 0);
	assert_int_equal(inccl_communicator_create(group, &opts, &comm), -EINVAL);
	opts.payload = 256;
	opts.transport = 99;
	assert_int_equal(inccl_communicator_create(group, &opts, &comm), -EINVAL);
	opts.transport = INCCL_TRANSPORT_SOFT;
	opts.byte_order = 9;
	assert_int_equal(inccl_communicator_create(group, &opts, &comm), -EINVAL);
	opts.byte_order = INCCL_ORDER_LITTLE;
	opts.transport = INCCL_TRANSPORT_AUTO;
	assert_int_equal(setenv("INCCL_TRANSPORT", "pigeons", 1), 0);
	assert_int_equal(inccl_communicator_create(group, &opts, &comm), -EINVAL);
	assert_int_equal(unsetenv("INCCL_TRANSPORT"), 0);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
	assert_non_null(strstr(f.received, "\"type\":\"failed\",\"comm\":0,\"errno\":\"EINVAL\","
					   "\"message\":\"payload 1000"));
	assert_non_null(strstr(f.received, "\"type\":\"failed\",\"comm\":1,\"errno\":\"EINVAL\","
					   "\"message\":\"transport 99"));
	assert_non_null(strstr(f.received, "\"type\":\"failed\",\"comm\":2,\"errno\":\"EINVAL\","
					   "\"message\":\"byte_order 9"));
	assert_non_null(strstr(f.received, "\"message\":\"INCCL_TRANSPORT: 'pigeons' is not one of "
					   "auto, verbs, soft\""));
	assert_non_null(strstr(f.received, "\"rank\":0}"));
}

static void wait_for_error(struct inccl_communicator *comm)
{
	double begin = now_s();

	while (!inccl_communicator_error(comm)) {
		struct timespec pause = {.tv_nsec = 5000000};

		assert_true(now_s() - begin < 10);
		nanosleep(&pause, NULL);
	}
}

/* A member that loses its controller reconnects and reports its running communicators. After that
 * it processes the controller's messages as before. */
static void controller_back(void **state)
{
	const char *const answers[] = {JOINED,
				       CONN("5", "1024", "8"),
				       STARTED,
				       HANG_UP,
				       "{\"type\":\"resumed\",\"group\":7}\n"
				       "{\"type\":\"failed\",\"group\":7,\"communicator\":12,"
				       "\"rank\":2,\"errno\":\"EREMOTEIO\",\"message\":\"no\"}\n",
				       NULL};
	const char *const unknown[] = {JOINED,
				       CONN("5", "1024", "8"),
				       STARTED,
				       HANG_UP,
				       "{\"type\":\"error\",\"errno\":\"ENETRESET\",\"message\":"
				       "\"switch s0 has none\"}\n",
				       NULL};
	const char *const *const both[] = {answers, unknown};
	const int want[] = {EREMOTEIO, ENETRESET};
	struct inccl_communicator *comm;
	struct inccl_group *group;
	char error[256];
	struct fake_controller f;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(create_comm(both[i], &f, &group, &comm, error, PATIENT_MS), 0);
		wait_for_error(comm);
		assert_int_equal(inccl_communicator_failed_rank(comm), i ? -1 : 2);
		assert_non_null(strstr(inccl_communicator_error(comm), i ? "s0 has none" : "no"));
		assert_non_null(inccl_group_error(group));
		assert_int_equal(inccl_communicator_destroy(comm), -want[i]);
		assert_int_equal(inccl_group_destroy(group), 0);
		fake_controller_stop(&f);
		assert_non_null(strstr(f.received,
				       "\"type\":\"resume\",\"version\":3,\"job\":\"t\","
				       "\"rank\":0,\"world_size\":1"));
		assert_non_null(strstr(f.received, "\"group\":7,"));
		assert_non_null(strstr(f.received,
				       "{\"communicator\":12,\"comm\":0,\"switch\":\"s0\","
				       "\"transport\":\"soft\","));
		/* the member does not report failures back to the controller that the controller
		 * itself reported */
		assert_null(strstr(f.received, "\"type\":\"failed\""));
	}
}

static void words(void **state)
{
	static const struct {
		const char *name;
		enum inccl_op op;
	} ops[] = {
		{"sum", INCCL_SUM},   {"min", INCCL_MIN},       {"max", INCCL_MAX},
		{"prod", INCCL_PROD}, {"and", INCCL_AND},       {"or", INCCL_OR},
		{"xor", INCCL_XOR},   {"land", INCCL_LAND},     {"lor", INCCL_LOR},
		{"lxor", INCCL_LXOR}, {"minloc", INCCL_MINLOC}, {"maxloc", INCCL_MAXLOC},
	};
	static const struct {
		const char *name;
		enum inccl_dtype type;
		size_t size;
	} types[] = {
		{"int32", INCCL_INT32, 4},
		{"uint32", INCCL_UINT32, 4},
		{"int64", INCCL_INT64, 8},
		{"uint64", INCCL_UINT64, 8},
		{"int16", INCCL_INT16, 2},
		{"uint16", INCCL_UINT16, 2},
		{"int8", INCCL_INT8, 1},
		{"uint8", INCCL_UINT8, 1},
		{"int32_index", INCCL_INT32_INDEX, 8},
		{"float32_index", INCCL_FLOAT32_INDEX, 8},
		{"int64_index", INCCL_INT64_INDEX, 16},
		{"float64_index", INCCL_FLOAT64_INDEX, 16},
	};
	enum inccl_collective c;
	enum inccl_dtype d;
	enum inccl_op o;
	size_t i;

	assert_int_equal(inccl_collective_parse("broadcast", &c), 0);
	assert_int_equal(c, INCCL_BROADCAST);
	assert_string_equal(inccl_collective_name(c), "broadcast");
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		assert_int_equal(inccl_op_parse(ops[i].name, &o), 0);
		assert_int_equal(o, ops[i].op);
		assert_string_equal(inccl_op_name(o), ops[i].name);
	}
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_int_equal(inccl_dtype_parse(types[i].name, &d), 0);
		assert_int_equal(d, types[i].type);
		assert_string_equal(inccl_dtype_name(d), types[i].name);
		assert_int_equal(inccl_dtype_size(d), types[i].size);
	}
	assert_int_equal(inccl_dtype_parse("int31", &d), -EINVAL);
	assert_int_equal(inccl_op_parse(NULL, &o), -EINVAL);
	assert_null(inccl_dtype_name(99));
	assert_int_equal(inccl_dtype_size(99), 0);
	assert_non_null(inccl_strerror(-ECONNRESET));
	assert_non_null(inccl_strerror(-12345));
	assert_string_equal(inccl_version(), "0.2.0");
}

/* A member that leaves no longer reads the controller's messages, but its last message must arrive.
 * If it closed the connection with unread data, TCP would reset the connection. The controller
 * would then report that the member is dead. */
static void last_message_arrives(void **state)
{
	static const char *const answers[] = {JOINED, NULL};
	static const char ping[] = "{\"type\":\"ping\"}\n";
	static char pings[1000 * (sizeof(ping) - 1) + 1];
	struct inccl_group *group;
	char error[256];
	struct fake_controller f;
	int i;

	for (i = 0; i < 1000; i++)
		memcpy(pings + i * (sizeof(ping) - 1), ping, sizeof(ping));
	for (i = 0; i < 20; i++) {
		assert_int_equal(create(&f, answers, false, &group, error), 0);
		fake_controller_send(&f, pings);
		assert_int_equal(inccl_group_destroy(group), 0);
		fake_controller_stop(&f);
		assert_false(f.was_reset);
	}
}

/* A controller that hangs does not prevent the member from leaving. */
static void a_hanging_controller_holds_up_no_member(void **state)
{
	struct inccl_group *group;
	struct fake_controller f;
	char error[256];
	double begin;

	assert_int_equal(create(&f, (const char *const[]){JOINED, NULL}, false, &group, error), 0);
	/* from now on the controller neither reads nor closes the connection */
	assert_int_equal(pthread_cancel(f.thread), 0);
	begin = now_s();
	assert_int_equal(inccl_group_destroy(group), 0);
	assert_true(now_s() - begin < PATIENT_MS / 1000.0);
	fake_controller_stop(&f);
}

int main(void)
{
	static const char *const unset[] = {"INCCL_CONTROLLER", "INCCL_JOB",
					    "INCCL_RANK",       "INCCL_WORLD_SIZE",
					    "INCCL_ADDR",       "INCCL_IFNAME",
					    "INCCL_TRANSPORT",  "INCCL_START_PSN",
					    "MASTER_ADDR",      "RANK",
					    "WORLD_SIZE",       "PMI_RANK",
					    "SLURM_PROCID",     "OMPI_COMM_WORLD_RANK"};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_arguments),
		cmocka_unit_test(reports_of_the_controller_are_logged),
		cmocka_unit_test(no_controller),
		cmocka_unit_test(misbehaving_controllers),
		cmocka_unit_test(endless_line),
		cmocka_unit_test(bad_connections),
		cmocka_unit_test(started_by_number),
		cmocka_unit_test(dead_switch),
		cmocka_unit_test(rank_lost),
		cmocka_unit_test(unusable_options_are_reported),
		cmocka_unit_test(controller_back),
		cmocka_unit_test(last_message_arrives),
		cmocka_unit_test(a_hanging_controller_holds_up_no_member),
		cmocka_unit_test(words),
	};
	size_t i;

	for (i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
		unsetenv(unset[i]);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
