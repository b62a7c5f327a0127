/* SPDX-License-Identifier: BSD-2-Clause */
/* A service whose clients speak the protocol without the library, and TCP connections that are cut
 * at any byte. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

/* ---- protocol lines without the library ------------------------------------------------------ */

static int raw_open(void)
{
	const struct sockaddr_in service = loopback(inc_connect_service_port(sides.service));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&service, sizeof(service)), 0);
	return fd;
}

static void raw_send(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Receives until a line is complete or the service has closed. Returns what has come. */
static const char *raw_line(int fd)
{
	static char line[1000];
	size_t len = 0;
	ssize_t n = 1;

	while (n && len < sizeof(line) - 1 && !memchr(line, '\n', len)) {
		UNTIL((n = recv(fd, line + len, sizeof(line) - 1 - len, MSG_DONTWAIT)) >= 0 ||
		      errno != EAGAIN);
		assert_true(n >= 0 || errno == ECONNRESET);
		n = n < 0 ? 0 : n;
		len += n;
	}
	line[len] = '\0';
	return line;
}

/* The fields of a connect request. */
struct ask {
	int dev_off; /* offset that is added to the true number of the device */
	const char *name;
	unsigned int port;
	const char *config;
	const char *address; /* address of the client's GID */
};

/* A request that the service grants. */
static struct ask right_ask(void)
{
	return (struct ask){0, ends[SERVICE].device, 1, "", ends[CLIENT].address};
}

/* Sends a request on a new connection. */
static int raw_connect(struct ask ask)
{
	static struct inc_connect_devices devices;
	const int fd = raw_open();
	char line[1000];

	inc_connect_devices(sides.ctx[SERVICE], &devices);
	assert_int_equal(devices.n_devices, 1);
	snprintf(line, sizeof(line),
		 "{\"type\":\"connect\",\"version\":1,\"hostname\":\"nobody\",\"dev\":0,"
		 "\"dev_name\":\"%s\",\"port\":1,\"mtu\":4,\"qp_num\":77777,\"start_psn\":0,"
		 "\"gid\":\"::ffff:%s\",\"target_dev\":%d,\"target_devname\":\"%s\","
		 "\"target_port\":%u,\"config\":{%s}}\n",
		 ends[CLIENT].device, ask.address, devices.devices[0].dev + ask.dev_off, ask.name,
		 ask.port, ask.config);
	raw_send(fd, line);
	return fd;
}

static void refused(struct ask ask, const char *code, const char *word)
{
	const int fd = raw_connect(ask);
	const char *line = raw_line(fd);
	char want[32];

	close(fd);
	printf("# %s", line);
	snprintf(want, sizeof(want), "\"errno\":\"%s\"", code);
	if (!strstr(line, "\"type\":\"error\"") || !strstr(line, want) || !strstr(line, word))
		fail_msg("no %s with '%s': %s", code, word, line);
}

/* ---- devices that do not exist, and requests beyond their limits ---------------------------- */

void test_wrong_device(void **state)
{
	const struct ask right = right_ask();
	struct ask name = right, number = right, port = right;

	name.name = "rxe77";
	number.dev_off = 7;
	port.port = 2;
	sides_open(NULL);
	refused(name, "ENODEV", "rxe77");
	refused(number, "ENODEV", right.name);
	refused(port, "ENODEV", "2");
	assert_true(figure(SERVICE, "inc_connect_accept_failed_total") == 3);
	assert_int_equal(sides.n_accepted, 0);
	connect_and_close();
	sides_close();
}

/* Requests more than rxe supports, from a service and from this side's own device. Each error must
 * name the excessive field. */
void test_cannot_do(void **state)
{
	static const struct {
		const char *config, *word;
	} too_much[] = {
		{"\"max_sge\":200", "max_sge"},
		{"\"max_rd_atomic\":200", "max_rd_atomic"},
		{"\"max_rdma_wr\":65536", "max_rdma_wr"},
		{"\"buf_ack_batch\":33", "buf_ack_batch"},
		{"\"sl\":16", "sl"},
		{"\"pkey_index\":60000", "pkey_index"},
	};
	struct inc_connect_settings settings;
	const struct connect_sides_opts opts = {.setting = &settings};
	struct ask ask = right_ask();
	size_t i;

	test_settings(&settings);
	settings.max_sge = 200;
	sides_open(&opts);
	for (i = 0; i < sizeof(too_much) / sizeof(too_much[0]); i++) {
		ask.config = too_much[i].config;
		refused(ask, "EINVAL", too_much[i].word);
	}
	open_fails(sides.address, 0, -EINVAL, "max_sge");
	sides_close();
}

/* ---- silent clients ------------------------------------------------------------------------- */

#define SILENT 20

/* Some clients connect and send nothing, some send half a line, and one gets its queue pair but
 * does not use it. Other clients must be served meanwhile. At the end the silent clients must leave
 * no resources. */
void test_silent_client(void **state)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 3000};
	uint64_t since_ns;
	int fd[SILENT + 1], i;

	sides_open(&opts);
	since_ns = inc_now_ns();
	for (i = 0; i < SILENT; i++) {
		fd[i] = raw_open();
		if (i % 2)
			raw_send(fd[i], "{\"type\":\"query\",");
	}
	fd[SILENT] = raw_connect(right_ask());
	assert_non_null(strstr(raw_line(fd[SILENT]), "\"type\":\"connected\""));
	connect_and_close();
	UNTIL(figure(SERVICE, "inc_connect_accept_timeout_total") == 1);
	assert_true(figure(SERVICE, "inc_connect_accept_failed_total") == 1);
	assert_true(figure(SERVICE, "inc_connect_accepting") == 0);
	for (i = 0; i < SILENT + 1; i++) {
		while (*raw_line(fd[i]))
			;
		close(fd[i]);
	}
	printf("# all have been hung up on after %.1f s\n", (inc_now_ns() - since_ns) / 1e9);
	assert_int_equal(sides.n_accepted, 0);
	sides_close();
}

/* ---- peers that cannot be reached ----------------------------------------------------------- */

/* An address in the subnet of a side's port that no host has. */
static const char *unused_address(int side)
{
	const char *own = ends[side].address;
	static char address[32];

	snprintf(address, sizeof(address), "%.*s.99", (int)(strrchr(own, '.') - own), own);
	return address;
}

/* The kernel cannot resolve the client's address. The service's loop must answer others
 * meanwhile. */
static void service_seeks(void)
{
	const uint64_t since_ns = inc_now_ns();
	unsigned int answered = 0;
	struct ask ask = right_ask();
	const char *line;
	char byte;
	int fd;

	ask.address = unused_address(SERVICE);
	fd = raw_connect(ask);
	UNTIL(figure(SERVICE, "inc_connect_accepting") == 1);
	for (; recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0; answered++)
		query_address();
	assert_true(answered);
	line = raw_line(fd);
	printf("# %u queries in %.2f s, then %s", answered, (inc_now_ns() - since_ns) / 1e9, line);
	assert_non_null(strstr(line, "\"type\":\"error\""));
	assert_non_null(strstr(line, ask.address));
	close(fd);
}

/* Plays a service that claims to have an address, without the library. Returns when the client
 * resolves that address. The service's own loop must answer others meanwhile. */
static struct inc_connect_request *client_seeks(const char *address, int *fd)
{
	struct inc_connect_request *request;
	char line[1000];
	const int listener = loopback_listener(line);

	request = open_begin(line, 0, &opened);
	UNTIL((*fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	close(listener);
	assert_true(*raw_line(*fd));
	raw_send(*fd, "{\"type\":\"devices\",\"devices\":[{\"dev\":0,\"dev_name\":\"far\","
		      "\"ports\":[{\"port\":1,\"link_layer\":2,\"zones\":[]}]}]}\n");
	assert_true(*raw_line(*fd));
	snprintf(line, sizeof(line),
		 "{\"type\":\"connected\",\"hostname\":\"nowhere\",\"dev\":0,\"dev_name\":\"far\","
		 "\"port\":1,\"mtu\":4,\"qp_num\":77777,\"start_psn\":0,\"gid\":\"::ffff:%s\"}\n",
		 address);
	raw_send(*fd, line);
	query_address();
	return request;
}

/* The peer's address does not exist, so the kernel tries to resolve it for a second or more. The
 * loops of both sides must go on. No resource may be left, whichever event ends the attempt. */
void test_peer_is_nowhere(void **state)
{
	struct inc_connect_request *request;
	const char *address;
	struct resources all;
	uint64_t since_ns;
	int fd;

	resources_now(&all);
	sides_open(NULL);
	service_seeks();
	resources_returned(&sides.before);

	address = unused_address(CLIENT);
	client_seeks(address, &fd);
	assert_false(opened.done);
	UNTIL(opened.done);
	assert_true(opened.error);
	printf("# %s\n", opened.why);
	assert_non_null(strstr(opened.why, "nowhere far/1"));
	assert_non_null(strstr(opened.why, address));
	close(fd);
	resources_returned(&sides.before);

	request = client_seeks(address, &fd);
	inc_connect_cancel(request);
	close(fd);
	resources_returned(&sides.before);
	assert_false(opened.done);
	connect_and_close();

	client_seeks(address, &fd);
	assert_false(opened.done);
	since_ns = inc_now_ns();
	sides_free();
	printf("# the contexts' end took %.2f s\n", (inc_now_ns() - since_ns) / 1e9);
	assert_false(opened.done);
	close(fd);
	resources_returned(&all);
}

/* ---- lost answers --------------------------------------------------------------------------- */

static void nothing_was_accepted(void)
{
	relay_reset();
	UNTIL(figure(SERVICE, "inc_connect_accepting") == 0);
	assert_int_equal(sides.n_accepted, 0);
	assert_true(figure(SERVICE, "inc_connect_connections") == 0);
	assert_true(figure(CLIENT, "inc_connect_connecting") == 0);
	resources_returned(&sides.before);
}

/* The service makes the queue pair, but its answer never arrives. The client waits until a timeout,
 * cancels, or closes the connection. */
void test_lost_answer(void **state)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 2000};
	const size_t answer = relay_open(&opts);
	const struct linger reset = {1, 0};
	struct inc_connect_request *request;
	int fd;

	relay_reset();
	relay.limit[DOWN] = answer;
	open_fails(relay.address, 1000, -ETIMEDOUT, "");
	nothing_was_accepted();

	relay.limit[DOWN] = answer;
	request = open_begin(relay.address, 0, &opened);
	UNTIL(figure(SERVICE, "inc_connect_accepting") == 1);
	inc_connect_cancel(request);
	let_pass(100);
	assert_false(opened.done);
	nothing_was_accepted();

	fd = raw_connect(right_ask());
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(fd);
	UNTIL(figure(SERVICE, "inc_connect_accept_failed_total") == 3);
	nothing_was_accepted();
	sides_close();
}

/* Cuts the TCP connection after each byte of one direction. The shorter run cuts it after every
 * seventh byte. */
static void cut_everywhere(int way)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 3000, .quiet = true};
	size_t n, total, step = full ? 1 : 7, cuts = 0;

	relay_open(&opts);
	total = relay_passed(way);
	for (n = 0; n < total - 1; n += step, cuts++) {
		relay_reset();
		relay.limit[way] = n;
		relay.cut = true;
		open_address(relay.address, 0);
		if (!opened.error)
			fail_msg("connected, with %zu of %zu bytes", n, total);
	}
	printf("# %zu cuts in %zu bytes; the last: %s\n", cuts, total, opened.why);
	nothing_was_accepted();
	connect_and_close();
	sides_close();
}

void test_cut_requests(void **state)
{
	cut_everywhere(UP);
}

void test_cut_answers(void **state)
{
	cut_everywhere(DOWN);
}
