/* SPDX-License-Identifier: BSD-2-Clause */
/* A service whose clients speak the protocol without the library, and TCP connections that are cut
 * at any byte. */
#include <arpa/inet.h>
#include <errno.h>
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

static int raw_open(struct connect_sides *s)
{
	struct sockaddr_in service = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	service.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	service.sin_port = htons(inc_connect_service_port(s->service));
	assert_int_equal(connect(fd, (struct sockaddr *)&service, sizeof(service)), 0);
	return fd;
}

static void raw_send(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Receives until a line is complete or the service has closed. Returns the length. */
static size_t raw_line(struct connect_sides *s, int fd, char *line, size_t size)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n && len < size - 1 && !memchr(line, '\n', len)) {
		UNTIL(s, (n = recv(fd, line + len, size - 1 - len, MSG_DONTWAIT)) >= 0 ||
				 errno != EAGAIN);
		assert_true(n >= 0 || errno == ECONNRESET);
		n = n < 0 ? 0 : n;
		len += n;
	}
	line[len] = '\0';
	return len;
}

/* The fields of a connect request. */
struct ask {
	int dev_off; /* offset that is added to the true number of the device */
	const char *name;
	unsigned int port;
	const char *config;
	const char *address; /* address of the client's GID; NULL: the client's own */
};

static void raw_connect(struct connect_sides *s, int fd, const struct ask *ask)
{
	struct inc_connect_devices *devices = malloc(sizeof(*devices));
	char line[1000];

	assert_non_null(devices);
	inc_connect_devices(s->ctx[SERVICE], devices);
	assert_int_equal(devices->n_devices, 1);
	snprintf(line, sizeof(line),
		 "{\"type\":\"connect\",\"version\":1,\"hostname\":\"nobody\",\"dev\":0,"
		 "\"dev_name\":\"%s\",\"port\":1,\"mtu\":4,\"qp_num\":77777,\"start_psn\":0,"
		 "\"gid\":\"::ffff:%s\",\"target_dev\":%d,\"target_devname\":\"%s\","
		 "\"target_port\":%u,\"config\":{%s}}\n",
		 ends[CLIENT].device, ask->address ? ask->address : ends[CLIENT].address,
		 devices->devices[0].dev + ask->dev_off, ask->name, ask->port, ask->config);
	free(devices);
	raw_send(fd, line);
}

/* Gets the service's answer to the request, on a new connection. */
static void answer_to(struct connect_sides *s, const struct ask *ask, char *line, size_t size)
{
	int fd = raw_open(s);

	raw_connect(s, fd, ask);
	assert_true(raw_line(s, fd, line, size));
	close(fd);
}

static void refused(struct connect_sides *s, const struct ask *ask, const char *code,
		    const char *word)
{
	char line[1000], want[32];

	answer_to(s, ask, line, sizeof(line));
	printf("# %s", line);
	snprintf(want, sizeof(want), "\"errno\":\"%s\"", code);
	if (!strstr(line, "\"type\":\"error\"") || !strstr(line, want) || !strstr(line, word))
		fail_msg("no %s with '%s': %s", code, word, line);
}

/* ---- devices that do not exist, and requests beyond their limits ---------------------------- */

void test_wrong_device(void **state)
{
	struct ask ask = {0, "rxe77", 1, "", NULL};
	struct held held[SIDES];
	struct resources before;
	struct connect_sides s;

	sides_open(&s, NULL);
	resources_now(&before);
	refused(&s, &ask, "ENODEV", "rxe77");
	ask.name = ends[SERVICE].device;
	ask.dev_off = 7;
	refused(&s, &ask, "ENODEV", ends[SERVICE].device);
	ask.dev_off = 0;
	ask.port = 2;
	refused(&s, &ask, "ENODEV", "2");
	resources_returned(&s, &before);
	assert_true(figure(&s, SERVICE, "inc_connect_accept_failed_total") == 3);
	assert_int_equal(s.n_accepted, 0);
	open_pair(&s, held);
	close_pair(&s, held);
	sides_close(&s);
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
	struct connect_sides_opts opts = {.setting = &settings};
	struct outcome out;
	struct resources before;
	struct connect_sides s;
	size_t i;

	test_settings(&settings);
	settings.max_sge = 200;
	sides_open(&s, &opts);
	resources_now(&before);
	for (i = 0; i < sizeof(too_much) / sizeof(too_much[0]); i++)
		refused(&s, &(struct ask){0, ends[SERVICE].device, 1, too_much[i].config, NULL},
			"EINVAL", too_much[i].word);
	open_address(&s, s.address, 0, &out);
	assert_int_equal(out.error, -EINVAL);
	assert_non_null(strstr(out.why, "max_sge"));
	printf("# %s\n", out.why);
	resources_returned(&s, &before);
	sides_close(&s);
}

/* ---- silent clients ------------------------------------------------------------------------- */

#define SILENT 20

/* Some clients connect and send nothing, some send half a line, and one gets its queue pair but
 * does not use it. Other clients must be served meanwhile. At the end the silent clients must leave
 * no resources. */
void test_silent_client(void **state)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 3000};
	const struct ask ask = {0, ends[SERVICE].device, 1, "", NULL};
	struct held held[SIDES];
	struct resources before;
	uint64_t since_ns;
	struct connect_sides s;
	char line[1000];
	int fd[SILENT + 1], i;

	sides_open(&s, &opts);
	resources_now(&before);
	since_ns = inc_now_ns();
	for (i = 0; i < SILENT; i++) {
		fd[i] = raw_open(&s);
		if (i % 2)
			raw_send(fd[i], "{\"type\":\"query\",");
	}
	fd[SILENT] = raw_open(&s);
	raw_connect(&s, fd[SILENT], &ask);
	assert_true(raw_line(&s, fd[SILENT], line, sizeof(line)));
	assert_non_null(strstr(line, "\"type\":\"connected\""));
	open_pair(&s, held);
	exchange(&s, held);
	close_pair(&s, held);
	UNTIL(&s, figure(&s, SERVICE, "inc_connect_accept_timeout_total") == 1);
	assert_true(figure(&s, SERVICE, "inc_connect_accept_failed_total") == 1);
	assert_true(figure(&s, SERVICE, "inc_connect_accepting") == 0);
	for (i = 0; i < SILENT + 1; i++) {
		while (raw_line(&s, fd[i], line, sizeof(line)))
			;
		close(fd[i]);
	}
	printf("# all have been hung up on after %.1f s\n", (inc_now_ns() - since_ns) / 1e9);
	assert_int_equal(s.n_accepted, 0);
	resources_returned(&s, &before);
	sides_close(&s);
}

/* ---- peers that cannot be reached ----------------------------------------------------------- */

/* Writes an address in the subnet of a side's port that no host has. */
static void unused_address(int side, char *address, size_t size)
{
	const char *own = ends[side].address;

	snprintf(address, size, "%.*s.99", (int)(strrchr(own, '.') - own), own);
}

/* The kernel cannot resolve the client's address. The service's loop must answer others
 * meanwhile. */
static void service_seeks(struct connect_sides *s)
{
	char address[32], line[1000];
	const struct ask ask = {0, ends[SERVICE].device, 1, "", address};
	unsigned int answered = 0;
	const int fd = raw_open(s);
	struct outcome out;
	uint64_t since_ns;

	unused_address(SERVICE, address, sizeof(address));
	since_ns = inc_now_ns();
	raw_connect(s, fd, &ask);
	UNTIL(s, figure(s, SERVICE, "inc_connect_accepting") == 1);
	while (recv(fd, line, 1, MSG_DONTWAIT | MSG_PEEK) < 0) {
		query_address(s, s->address, &out);
		assert_int_equal(out.error, 0);
		answered++;
	}
	assert_true(answered);
	assert_true(raw_line(s, fd, line, sizeof(line)));
	printf("# %u queries in %.2f s, then %s", answered, (inc_now_ns() - since_ns) / 1e9, line);
	assert_non_null(strstr(line, "\"type\":\"error\""));
	assert_non_null(strstr(line, address));
	close(fd);
}

/* Plays a service that claims to have an address, without the library. Returns when the client
 * resolves that address. */
static struct inc_connect_request *client_seeks(struct connect_sides *s, const char *address,
						int *fd, struct outcome *out)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct inc_connect_request *request;
	socklen_t len = sizeof(at);
	char line[1000];

	assert_true(listener >= 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	snprintf(line, sizeof(line), "127.0.0.1:%u", ntohs(at.sin_port));
	request = open_begin(s, line, 0, out);
	UNTIL(s, (*fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	close(listener);
	assert_true(raw_line(s, *fd, line, sizeof(line)));
	raw_send(*fd, "{\"type\":\"devices\",\"devices\":[{\"dev\":0,\"dev_name\":\"far\","
		      "\"ports\":[{\"port\":1,\"link_layer\":2,\"zones\":[]}]}]}\n");
	assert_true(raw_line(s, *fd, line, sizeof(line)));
	snprintf(line, sizeof(line),
		 "{\"type\":\"connected\",\"hostname\":\"nowhere\",\"dev\":0,\"dev_name\":\"far\","
		 "\"port\":1,\"mtu\":4,\"qp_num\":77777,\"start_psn\":0,\"gid\":\"::ffff:%s\"}\n",
		 address);
	raw_send(*fd, line);
	return request;
}

/* The peer's address does not exist, so the kernel tries to resolve it for a second or more. The
 * loops of both sides must go on. No resource may be left, whichever event ends the attempt. */
void test_peer_is_nowhere(void **state)
{
	struct inc_connect_request *request;
	struct held held[SIDES];
	struct outcome out, asked;
	struct resources before, all;
	uint64_t since_ns;
	char address[32];
	struct connect_sides s;
	int fd;

	resources_now(&all);
	sides_open(&s, NULL);
	resources_now(&before);
	service_seeks(&s);
	resources_returned(&s, &before);

	unused_address(CLIENT, address, sizeof(address));
	client_seeks(&s, address, &fd, &out);
	query_address(&s, s.address, &asked);
	assert_int_equal(asked.error, 0);
	assert_false(out.done);
	UNTIL(&s, out.done);
	assert_true(out.error);
	printf("# %s\n", out.why);
	assert_non_null(strstr(out.why, "nowhere far/1"));
	assert_non_null(strstr(out.why, address));
	close(fd);
	resources_returned(&s, &before);

	request = client_seeks(&s, address, &fd, &out);
	query_address(&s, s.address, &asked);
	inc_connect_cancel(request);
	close(fd);
	resources_returned(&s, &before);
	assert_false(out.done);
	open_pair(&s, held);
	close_pair(&s, held);

	client_seeks(&s, address, &fd, &out);
	query_address(&s, s.address, &asked);
	assert_false(out.done);
	since_ns = inc_now_ns();
	sides_close(&s);
	printf("# the contexts' end took %.2f s\n", (inc_now_ns() - since_ns) / 1e9);
	assert_false(out.done);
	close(fd);
	resources_returned(NULL, &all);
}

/* ---- lost answers --------------------------------------------------------------------------- */

static void nothing_was_accepted(struct connect_sides *s, const struct resources *before)
{
	UNTIL(s, figure(s, SERVICE, "inc_connect_accepting") == 0);
	assert_int_equal(s->n_accepted, 0);
	assert_true(figure(s, SERVICE, "inc_connect_connections") == 0);
	assert_true(figure(s, CLIENT, "inc_connect_connecting") == 0);
	resources_returned(s, before);
}

/* The service makes the queue pair, but its answer never arrives. The client waits until a timeout,
 * cancels, or closes the connection. */
void test_lost_answer(void **state)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 2000};
	const struct ask ask = {0, ends[SERVICE].device, 1, "", NULL};
	const struct linger reset = {1, 0};
	struct inc_connect_request *request;
	struct outcome out;
	struct resources before;
	struct connect_sides s;
	struct relay r;
	size_t answer;
	int fd;

	sides_open(&s, &opts);
	relay_open(&r, &s);
	resources_now(&before);
	answer = relay_learn(&r);
	relay_reset(&r);

	r.limit[DOWN] = answer;
	open_address(&s, r.address, 1000, &out);
	assert_int_equal(out.error, -ETIMEDOUT);
	printf("# %s\n", out.why);
	relay_reset(&r);
	nothing_was_accepted(&s, &before);

	r.limit[DOWN] = answer;
	request = open_begin(&s, r.address, 0, &out);
	UNTIL(&s, figure(&s, SERVICE, "inc_connect_accepting") == 1);
	inc_connect_cancel(request);
	let_pass(&s, 100);
	assert_false(out.done);
	relay_reset(&r);
	nothing_was_accepted(&s, &before);

	fd = raw_open(&s);
	raw_connect(&s, fd, &ask);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(fd);
	UNTIL(&s, figure(&s, SERVICE, "inc_connect_accept_failed_total") == 3);
	nothing_was_accepted(&s, &before);
	relay_close(&r);
	sides_close(&s);
}

/* Cuts the TCP connection after each byte of one direction. The shorter run cuts it after every
 * seventh byte. */
static void cut_everywhere(int way)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 3000, .quiet = true};
	struct held held[SIDES];
	struct outcome out;
	struct resources before;
	struct connect_sides s;
	struct relay r;
	size_t n, total, step = full ? 1 : 7, cuts = 0;

	sides_open(&s, &opts);
	relay_open(&r, &s);
	resources_now(&before);
	relay_learn(&r);
	total = r.passed[way];
	for (n = 0; n < total - 1; n += step, cuts++) {
		relay_reset(&r);
		r.limit[way] = n;
		r.cut = true;
		open_address(&s, r.address, 0, &out);
		if (!out.error)
			fail_msg("connected, with %zu of %zu bytes", n, total);
	}
	printf("# %zu cuts in %zu bytes; the last: %s\n", cuts, total, out.why);
	relay_reset(&r);
	nothing_was_accepted(&s, &before);
	relay_close(&r);
	open_pair(&s, held);
	close_pair(&s, held);
	sides_close(&s);
}

void test_cut_requests(void **state)
{
	cut_everywhere(UP);
}

void test_cut_answers(void **state)
{
	cut_everywhere(DOWN);
}
