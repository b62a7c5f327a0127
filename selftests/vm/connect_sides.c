/* SPDX-License-Identifier: BSD-2-Clause */
/* A client and a service in one loop, their sockets, the messages between them, and the resources
 * that they use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "selftests/belongings.h"
#include "selftests/vm/connect_live.h"

#define TICK_US 10000

struct connect_sides sides;
struct held held[SIDES];
struct outcome opened, queried;

/* ---- contexts ------------------------------------------------------------------------------- */

void test_settings(struct inc_connect_settings *settings)
{
	inc_connect_settings_init(settings, sizeof(*settings));
	settings->timeout = 18; /* ACK timeout of 1.07 s */
	settings->retry_cnt = 3;
	settings->buf_size = FEW;
}

static void log_line(void *ctx, const char *line)
{
	printf("# %s: %s\n", (const char *)ctx, line);
}

static void on_accepted(void *arg, struct inc_connect_socket *socket, const char *peer)
{
	assert_true(sides.n_accepted < MAX_ACCEPTED);
	assert_non_null(peer);
	sides.accepted[sides.n_accepted++] = socket;
}

/* Opens a side's context with a file, whose default text allows only the side's own device. */
static void open_context(int side, const struct connect_sides_opts *opts,
			 const struct inc_connect_settings *settings)
{
	char path[] = "/tmp/connect-live-XXXXXX", why[300] = "";
	INC_CONNECT_OPTS(inc_connect_opts, o, .config = path, .settings = settings, .error = why,
			 .error_size = sizeof(why), .log = opts->quiet ? NULL : log_line,
			 .log_ctx = side == CLIENT ? "client" : "service");
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	if (opts->file[side])
		dprintf(fd, "%s", opts->file[side]);
	else
		dprintf(fd, "devices: [{device: %s}]\nfork_safe: true\n", ends[side].device);
	close(fd);
	if (inc_connect_create(sides.base, &o, &sides.ctx[side]))
		fail_msg("%s: %s", (char *)o.log_ctx, why);
	unlink(path);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
}

void sides_open(const struct connect_sides_opts *opts)
{
	static const struct connect_sides_opts none;
	const struct timeval tick = {0, TICK_US};
	struct inc_connect_settings preset;
	char why[300] = "";
	INC_CONNECT_OPTS(inc_connect_serve_opts, o, .listen = "127.0.0.1:0",
			 .accepted = on_accepted, .error = why, .error_size = sizeof(why));

	memset(&sides, 0, sizeof(sides));
	memset(&relay, 0, sizeof(relay));
	opts = opts ? opts : &none;
	test_settings(&preset);
	sides.base = event_base_new();
	sides.tick = event_new(sides.base, -1, EV_PERSIST, on_tick, NULL);
	assert_non_null(sides.tick);
	event_add(sides.tick, &tick);
	open_context(SERVICE, opts, NULL);
	open_context(CLIENT, opts, opts->setting ? opts->setting : &preset);
	o.accept_timeout_ms = opts->accept_timeout_ms;
	if (inc_connect_serve(sides.ctx[SERVICE], &o, &sides.service))
		fail_msg("serve: %s", why);
	snprintf(sides.address, sizeof(sides.address), "127.0.0.1:%u",
		 inc_connect_service_port(sides.service));
	resources_now(&sides.before);
}

void sides_close(void)
{
	resources_returned(&sides.before);
	sides_free();
}

void sides_free(void)
{
	unsigned int i;

	if (relay.listener)
		relay_close();
	for (i = 0; i < sides.n_accepted; i++)
		inc_connect_socket_destroy(sides.accepted[i]);
	inc_connect_service_close(sides.service);
	inc_connect_destroy(sides.ctx[CLIENT]);
	inc_connect_destroy(sides.ctx[SERVICE]);
	event_free(sides.tick);
	event_base_free(sides.base);
	memset(&sides, 0, sizeof(sides));
}

void turn(uint64_t deadline_at_ns, const char *what, int line)
{
	if (inc_now_ns() > deadline_at_ns)
		fail_msg("line %d: not within %d s: %s", line, DEADLINE_S, what);
	event_base_loop(sides.base, EVLOOP_ONCE);
}

void let_pass(unsigned int ms)
{
	uint64_t until_ns = inc_now_ns() + ms * INC_NSEC_PER_MSEC;

	UNTIL(inc_now_ns() >= until_ns);
}

/* ---- sockets -------------------------------------------------------------------------------- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct held *h = arg;
	int ret;

	while ((ret = inc_connect_socket_progress(h->socket)) > 0)
		;
	if (ret < 0) {
		h->error = ret;
		event_del(h->readable);
	}
}

void hold(struct held *h, struct inc_connect_socket *socket)
{
	*h = (struct held){.socket = socket};
	h->readable = event_new(sides.base, inc_connect_socket_fd(socket), EV_READ | EV_PERSIST,
				on_readable, h);
	assert_non_null(h->readable);
	event_add(h->readable, NULL);
	on_readable(-1, 0, h); /* the descriptor is armed only after progress() has returned 0 */
}

void let_go(struct held *h, unsigned int n)
{
	for (; n--; h++) {
		event_free(h->readable);
		inc_connect_socket_destroy(h->socket);
	}
}

void take(struct held *h)
{
	UNTIL(sides.n_accepted);
	hold(h, sides.accepted[0]);
	sides.n_accepted--;
	memmove(sides.accepted, sides.accepted + 1, sides.n_accepted * sizeof(sides.accepted[0]));
}

/* ---- requests ------------------------------------------------------------------------------- */

static void end_outcome(struct outcome *out, int error, const char *why)
{
	assert_false(out->done); /* a callback runs only once */
	out->done = true;
	out->error = error;
	snprintf(out->why, sizeof(out->why), "%s", why ? why : "");
	assert_int_equal(!error, !out->why[0]); /* a failure has an explanation */
	assert_null(strchr(out->why, '\n'));
}

static void on_opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		      const struct inc_connect_choice *choice)
{
	struct outcome *out = arg;

	assert_int_equal(!error, !!socket);
	end_outcome(out, error, why);
	out->choice = choice ? *choice : (struct inc_connect_choice){0};
	assert_true(out->choice.n_pairs <= MAX_PAIRS);
	if (out->choice.n_pairs)
		memcpy(out->pair, choice->pairs, choice->n_pairs * sizeof(out->pair[0]));
	if (socket)
		hold(&out->held, socket);
}

struct inc_connect_request *open_begin(const char *address, unsigned int timeout_ms,
				       struct outcome *out)
{
	struct inc_connect_request *request = NULL;
	char why[300] = "";
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = timeout_ms, .arg = out,
			 .error = why, .error_size = sizeof(why));

	*out = (struct outcome){0};
	if (inc_connect_open(sides.ctx[CLIENT], address, &opts, on_opened, &request))
		fail_msg("open %s: %s", address, why);
	assert_false(out->done); /* callbacks never run inside the call */
	return request;
}

void open_address(const char *address, unsigned int timeout_ms)
{
	open_begin(address, timeout_ms, &opened);
	UNTIL(opened.done);
}

void open_fails(const char *address, unsigned int timeout_ms, int error, const char *word)
{
	open_address(address, timeout_ms);
	assert_int_equal(opened.error, error);
	printf("# %s\n", opened.why);
	assert_non_null(strstr(opened.why, word));
}

static void on_queried(void *arg, int error, const char *why,
		       const struct inc_connect_devices *devices)
{
	end_outcome(&queried, error, why);
	assert_int_equal(error, 0);
	assert_true(devices->hostname[0]);
	queried.devices = devices->n_devices;
	queried.device = devices->devices[0];
}

void query_address(void)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts);
	struct inc_connect_request *request;

	queried = (struct outcome){0};
	assert_int_equal(
		inc_connect_query(sides.ctx[CLIENT], sides.address, &opts, on_queried, &request),
		0);
	UNTIL(queried.done);
}

void adopt(struct held *h, const struct outcome *outcome)
{
	if (outcome->error)
		fail_msg("open: %s", outcome->why);
	/* the new event must point to h, which outlives the outcome */
	event_free(outcome->held.readable);
	hold(h, outcome->held.socket);
}

void open_pair_at(const char *address, struct held pair[SIDES])
{
	open_address(address, 0);
	adopt(&pair[CLIENT], &opened);
	take(&pair[SERVICE]);
}

void open_pair(struct held pair[SIDES])
{
	open_pair_at(sides.address, pair);
}

void close_all(struct held *h, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		inc_connect_socket_close(h[i].socket);
	for (i = 0; i < n; i++)
		if (DONE(inc_connect_socket_close(h[i].socket)))
			fail_msg("close: %s", inc_connect_socket_error(h[i].socket));
	let_go(h, n);
}

uint64_t connect_and_close(void)
{
	uint64_t since_ns = inc_now_ns(), ns;
	struct held pair[SIDES];

	open_pair(pair);
	ns = inc_now_ns() - since_ns;
	exchange(pair);
	close_all(pair, SIDES);
	return ns;
}

/* ---- messages ------------------------------------------------------------------------------- */

void fill(uint8_t *p, size_t size, unsigned int seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		p[i] = rand_r(&seed) >> 8;
}

void send_message(struct held *from, const void *data, size_t size)
{
	if (DONE(inc_connect_socket_send(from->socket, data, size)))
		fail_msg("send: %s", inc_connect_socket_error(from->socket));
}

void expect_message(struct held *to, const void *data, size_t size)
{
	const void *got;
	size_t got_size;

	if (DONE(inc_connect_socket_receive(to->socket, &got, &got_size)))
		fail_msg("receive: %s", inc_connect_socket_error(to->socket));
	assert_int_equal(got_size, size);
	assert_memory_equal(got, data, size);
	assert_int_equal(inc_connect_socket_release(to->socket), 0);
}

void send_messages(struct held *from, unsigned int n, size_t size, unsigned int seed)
{
	uint8_t data[FEW];

	for (; n--; seed++) {
		fill(data, size, seed);
		send_message(from, data, size);
	}
}

void expect_messages(struct held *to, unsigned int n, size_t size, unsigned int seed)
{
	uint8_t data[FEW];

	for (; n--; seed++) {
		fill(data, size, seed);
		expect_message(to, data, size);
	}
}

void exchange(struct held pair[SIDES])
{
	int side;

	for (side = 0; side < SIDES; side++)
		send_messages(&pair[side], 1, 64, side);
	for (side = 0; side < SIDES; side++)
		expect_messages(&pair[!side], 1, 64, side);
}

/* ---- resources of connections, which a test compares before and after ------------------------ */

/* the first four as rdma(8) prints them */
static const char *const names[RESOURCES] = {"qp", "cq", "mr", "pd", "descriptors", "bytes pinned"};

/* Sums up "name number" over all devices. */
static void read_devices(struct resources *resources)
{
	FILE *f = popen("exec rdma resource show", "r");
	unsigned int i, found = 0;
	unsigned long number;
	char word[32];

	assert_non_null(f);
	for (i = QUEUE_PAIRS; i <= DOMAINS; i++)
		resources->of[i] = 0;
	while (fscanf(f, "%31s", word) == 1)
		for (i = QUEUE_PAIRS; i <= DOMAINS; i++)
			if (!strcmp(word, names[i]) && fscanf(f, "%lu", &number) == 1) {
				resources->of[i] += number;
				found++;
			}
	assert_int_equal(pclose(f), 0);
	assert_true(found);
}

static void read_process(struct resources *resources)
{
	FILE *f = fopen("/proc/self/status", "r");
	uint64_t kib = 0;
	char line[200];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %" SCNu64, &kib) == 1)
			break;
	fclose(f);
	resources->of[PINNED_BYTES] = kib << 10;
	resources->of[DESCRIPTORS] = open_descriptors();
}

void resources_now(struct resources *resources)
{
	read_devices(resources);
	read_process(resources);
}

/* Compares all resources. Those of the devices are read last, and only if the others match, because
 * that starts another program and is slow. */
static bool balanced(const struct resources *before, struct resources *now)
{
	*now = *before;
	read_process(now);
	if (memcmp(before, now, sizeof(*now)))
		return false;
	read_devices(now);
	return !memcmp(before, now, sizeof(*now));
}

void resources_returned(const struct resources *before)
{
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct resources now;
	int i;

	while (!balanced(before, &now)) {
		for (i = 0; i < RESOURCES && inc_now_ns() > deadline_at_ns; i++)
			if (now.of[i] != before->of[i])
				fail_msg("%s: %" PRIu64 " before, %" PRIu64 " now", names[i],
					 before->of[i], now.of[i]);
		if (sides.base)
			turn(UINT64_MAX, "", __LINE__);
	}
}

double figure(int side, const char *name)
{
	char *text = inc_connect_figures(sides.ctx[side]), *line, *rest;
	size_t len = strlen(name);
	bool there = false;
	double sum = 0;

	assert_non_null(text);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!strncmp(line, name, len) && strchr(" {", line[len])) {
			sum += atof(strrchr(line, ' '));
			there = true;
		}
	free(text);
	if (!there)
		fail_msg("no figure %s", name);
	return sum;
}
