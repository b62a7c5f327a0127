/* SPDX-License-Identifier: BSD-2-Clause */
/* A client and a service in one loop, their sockets, and the messages between them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <event2/event.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

#define TICK_US 10000

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
	struct connect_sides *s = arg;

	assert_true(s->n_accepted < MAX_ACCEPTED);
	assert_non_null(peer);
	s->accepted[s->n_accepted++] = socket;
}

/* Writes the file of a side's context. The default text allows only the side's own device. */
static void write_file(int side, const char *text, char *path, size_t size)
{
	FILE *f;

	snprintf(path, size, "/tmp/connect-live-%d-%d.yaml", getpid(), side);
	f = fopen(path, "w");
	assert_non_null(f);
	if (text)
		fputs(text, f);
	else
		fprintf(f, "devices: [{device: %s}]\nfork_safe: true\n", ends[side].device);
	assert_int_equal(fclose(f), 0);
}

static void open_context(struct connect_sides *s, int side, const struct connect_sides_opts *opts,
			 const struct inc_connect_settings *settings)
{
	char path[64], why[300] = "";
	INC_CONNECT_OPTS(inc_connect_opts, o, .config = path, .settings = settings, .error = why,
			 .error_size = sizeof(why), .log = opts->quiet ? NULL : log_line,
			 .log_ctx = side == CLIENT ? "client" : "service");

	write_file(side, opts->file[side], path, sizeof(path));
	if (inc_connect_create(s->base, &o, &s->ctx[side]))
		fail_msg("%s: %s", (char *)o.log_ctx, why);
	unlink(path);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
}

void sides_open(struct connect_sides *s, const struct connect_sides_opts *opts)
{
	static const struct connect_sides_opts none;
	const struct timeval tick = {0, TICK_US};
	struct inc_connect_settings preset;
	char why[300] = "";
	INC_CONNECT_OPTS(inc_connect_serve_opts, o, .listen = "127.0.0.1:0",
			 .accepted = on_accepted, .arg = s, .error = why,
			 .error_size = sizeof(why));

	memset(s, 0, sizeof(*s));
	opts = opts ? opts : &none;
	test_settings(&preset);
	s->base = event_base_new();
	s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, NULL);
	assert_non_null(s->tick);
	event_add(s->tick, &tick);
	open_context(s, SERVICE, opts, NULL);
	open_context(s, CLIENT, opts, opts->setting ? opts->setting : &preset);
	o.accept_timeout_ms = opts->accept_timeout_ms;
	if (inc_connect_serve(s->ctx[SERVICE], &o, &s->service))
		fail_msg("serve: %s", why);
	snprintf(s->address, sizeof(s->address), "127.0.0.1:%u",
		 inc_connect_service_port(s->service));
}

void sides_close(struct connect_sides *s)
{
	unsigned int i;

	for (i = 0; i < s->n_accepted; i++)
		inc_connect_socket_destroy(s->accepted[i]);
	inc_connect_service_close(s->service);
	inc_connect_destroy(s->ctx[CLIENT]);
	inc_connect_destroy(s->ctx[SERVICE]);
	event_free(s->tick);
	event_base_free(s->base);
}

void turn(struct connect_sides *s, uint64_t deadline_at_ns, const char *what, int line)
{
	if (inc_now_ns() > deadline_at_ns)
		fail_msg("line %d: not within %d s: %s", line, DEADLINE_S, what);
	event_base_loop(s->base, EVLOOP_ONCE);
}

void let_pass(struct connect_sides *s, unsigned int ms)
{
	uint64_t until_ns = inc_now_ns() + ms * INC_NSEC_PER_MSEC;

	UNTIL(s, inc_now_ns() >= until_ns);
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

void hold(struct connect_sides *s, struct held *h, struct inc_connect_socket *socket)
{
	*h = (struct held){.socket = socket};
	h->readable = event_new(s->base, inc_connect_socket_fd(socket), EV_READ | EV_PERSIST,
				on_readable, h);
	assert_non_null(h->readable);
	event_add(h->readable, NULL);
	on_readable(-1, 0, h); /* the descriptor is armed only after progress() has returned 0 */
}

void let_go(struct held *h)
{
	if (!h->socket)
		return;
	event_free(h->readable);
	inc_connect_socket_destroy(h->socket);
	*h = (struct held){0};
}

void take(struct connect_sides *s, struct held *h)
{
	UNTIL(s, s->n_accepted);
	hold(s, h, s->accepted[0]);
	s->n_accepted--;
	memmove(s->accepted, s->accepted + 1, s->n_accepted * sizeof(s->accepted[0]));
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
	out->chosen = choice;
	if (choice) {
		assert_true(choice->n_pairs <= MAX_PAIRS);
		out->pairs = choice->n_pairs;
		if (choice->n_pairs)
			memcpy(out->pair, choice->pairs, choice->n_pairs * sizeof(out->pair[0]));
		out->zones_ignored = choice->zones_ignored;
		out->counter = choice->counter;
	}
	if (socket)
		hold(out->s, &out->held, socket);
}

struct inc_connect_request *open_begin(struct connect_sides *s, const char *address,
				       unsigned int timeout_ms, struct outcome *out)
{
	struct inc_connect_request *request = NULL;
	char why[300] = "";
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = timeout_ms, .arg = out,
			 .error = why, .error_size = sizeof(why));

	memset(out, 0, sizeof(*out));
	out->s = s;
	if (inc_connect_open(s->ctx[CLIENT], address, &opts, on_opened, &request))
		fail_msg("open %s: %s", address, why);
	assert_false(out->done); /* callbacks never run inside the call */
	return request;
}

void open_address(struct connect_sides *s, const char *address, unsigned int timeout_ms,
		  struct outcome *out)
{
	open_begin(s, address, timeout_ms, out);
	UNTIL(s, out->done);
}

static void on_queried(void *arg, int error, const char *why,
		       const struct inc_connect_devices *devices)
{
	struct outcome *out = arg;

	end_outcome(out, error, why);
	if (error)
		return;
	assert_true(devices->hostname[0]);
	out->devices = devices->n_devices;
	out->device = devices->devices[0];
}

void query_address(struct connect_sides *s, const char *address, struct outcome *out)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .arg = out);
	struct inc_connect_request *request;

	memset(out, 0, sizeof(*out));
	out->s = s;
	assert_int_equal(inc_connect_query(s->ctx[CLIENT], address, &opts, on_queried, &request),
			 0);
	UNTIL(s, out->done);
}

void open_adopt(struct connect_sides *s, struct outcome *out, struct held held[SIDES])
{
	/* the new event must point to held[CLIENT], which outlives the outcome */
	event_free(out->held.readable);
	hold(s, &held[CLIENT], out->held.socket);
	take(s, &held[SERVICE]);
}

void open_pair(struct connect_sides *s, struct held held[SIDES])
{
	struct outcome out;

	open_address(s, s->address, 0, &out);
	if (out.error)
		fail_msg("open: %s", out.why);
	open_adopt(s, &out, held);
}

void close_pair(struct connect_sides *s, struct held held[SIDES])
{
	int side, ret;

	for (side = 0; side < SIDES; side++)
		inc_connect_socket_close(held[side].socket);
	for (side = 0; side < SIDES; side++) {
		UNTIL(s, (ret = inc_connect_socket_close(held[side].socket)) != -EAGAIN);
		if (ret)
			fail_msg("close: %s", inc_connect_socket_error(held[side].socket));
	}
	for (side = 0; side < SIDES; side++)
		let_go(&held[side]);
}

/* ---- messages ------------------------------------------------------------------------------- */

void fill(uint8_t *p, size_t size, unsigned int seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		p[i] = rand_r(&seed) >> 8;
}

void send_message(struct connect_sides *s, struct held *from, const void *data, size_t size)
{
	int ret;

	UNTIL(s, (ret = inc_connect_socket_send(from->socket, data, size)) != -EAGAIN);
	if (ret)
		fail_msg("send: %s", inc_connect_socket_error(from->socket));
}

void expect_message(struct connect_sides *s, struct held *to, const void *data, size_t size)
{
	const void *got;
	size_t got_size;
	int ret;

	UNTIL(s, (ret = inc_connect_socket_receive(to->socket, &got, &got_size)) != -EAGAIN);
	if (ret)
		fail_msg("receive: %s", inc_connect_socket_error(to->socket));
	assert_int_equal(got_size, size);
	assert_memory_equal(got, data, size);
	assert_int_equal(inc_connect_socket_release(to->socket), 0);
}

void exchange(struct connect_sides *s, struct held held[SIDES])
{
	uint8_t data[SIDES][64];
	int side;

	for (side = 0; side < SIDES; side++) {
		fill(data[side], sizeof(data[side]), side);
		send_message(s, &held[side], data[side], sizeof(data[side]));
	}
	for (side = 0; side < SIDES; side++)
		expect_message(s, &held[!side], data[side], sizeof(data[side]));
}
