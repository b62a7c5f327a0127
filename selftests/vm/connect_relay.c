/* SPDX-License-Identifier: BSD-2-Clause */
/* A TCP relay between client and service. It can hold back bytes or cut the connection. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

/* A connection from the client, and the relay's connection to the service for it. */
struct pipe {
	struct relay *relay;
	/* from[UP] is the client's connection, from[DOWN] that to the service */
	struct bufferevent *from[2];
	bool over; /* both connections end once all relayed bytes are sent */
	struct pipe *next;
};

static void pipe_free(struct pipe *p)
{
	struct pipe **at = &p->relay->pipes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	bufferevent_free(p->from[UP]);
	bufferevent_free(p->from[DOWN]);
	free(p);
}

static void remember(struct relay *r, int way, const void *data, size_t size)
{
	r->seen[way] = realloc(r->seen[way], r->passed[way] + size + 1);
	assert_non_null(r->seen[way]);
	memcpy(r->seen[way] + r->passed[way], data, size);
	r->passed[way] += size;
	r->seen[way][r->passed[way]] = '\0';
}

/* Relays as many bytes as the limit allows. Returns false if the connection must be cut. */
static bool pass(struct pipe *p, int way)
{
	struct evbuffer *in = bufferevent_get_input(p->from[way]);
	struct relay *r = p->relay;
	size_t size = evbuffer_get_length(in), room = r->limit[way] - r->passed[way];

	size = size < room ? size : room;
	if (size) {
		remember(r, way, evbuffer_pullup(in, size), size);
		bufferevent_write(p->from[!way], r->seen[way] + r->passed[way] - size, size);
		evbuffer_drain(in, size);
	}
	return !(r->cut && r->passed[way] == r->limit[way]);
}

/* Closes both connections after everything relayed before has been sent. */
static void hang_up(struct pipe *p)
{
	p->over = true;
	if (!evbuffer_get_length(bufferevent_get_output(p->from[UP])) &&
	    !evbuffer_get_length(bufferevent_get_output(p->from[DOWN])))
		pipe_free(p);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct pipe *p = arg;

	if (p->over)
		hang_up(p);
}

static void on_bytes(struct bufferevent *bev, void *arg)
{
	struct pipe *p = arg;
	int way = bev == p->from[UP] ? UP : DOWN;

	if (!p->over && !pass(p, way))
		hang_up(p);
}

static void on_over(struct bufferevent *bev, short what, void *arg)
{
	if (what & BEV_EVENT_ERROR)
		pipe_free(arg);
	else if (what & BEV_EVENT_EOF)
		hang_up(arg);
}

static void on_client(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa,
		      int len, void *arg)
{
	struct sockaddr_in service = {.sin_family = AF_INET};
	struct relay *r = arg;
	struct pipe *p = calloc(1, sizeof(*p));
	int way;

	assert_non_null(p);
	service.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	service.sin_port = htons(inc_connect_service_port(r->s->service));
	p->relay = r;
	p->next = r->pipes;
	r->pipes = p;
	p->from[UP] = bufferevent_socket_new(r->s->base, fd, BEV_OPT_CLOSE_ON_FREE);
	p->from[DOWN] = bufferevent_socket_new(r->s->base, -1, BEV_OPT_CLOSE_ON_FREE);
	for (way = 0; way < 2; way++) {
		bufferevent_setcb(p->from[way], on_bytes, on_written, on_over, p);
		bufferevent_enable(p->from[way], EV_READ | EV_WRITE);
	}
	assert_int_equal(bufferevent_socket_connect(p->from[DOWN], (struct sockaddr *)&service,
						    sizeof(service)),
			 0);
}

void relay_open(struct relay *r, struct connect_sides *s)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	socklen_t len = sizeof(any);

	memset(r, 0, sizeof(*r));
	r->s = s;
	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r->listener = evconnlistener_new_bind(s->base, on_client, r,
					      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, -1,
					      (struct sockaddr *)&any, sizeof(any));
	assert_non_null(r->listener);
	assert_int_equal(
		getsockname(evconnlistener_get_fd(r->listener), (struct sockaddr *)&any, &len), 0);
	snprintf(r->address, sizeof(r->address), "127.0.0.1:%u", ntohs(any.sin_port));
	relay_reset(r);
}

void relay_reset(struct relay *r)
{
	int way;

	while (r->pipes)
		pipe_free(r->pipes);
	for (way = 0; way < 2; way++) {
		r->limit[way] = SIZE_MAX;
		r->passed[way] = 0;
		free(r->seen[way]);
		r->seen[way] = NULL;
	}
	r->cut = false;
}

void relay_release(struct relay *r)
{
	struct pipe *p;

	r->limit[UP] = r->limit[DOWN] = SIZE_MAX;
	for (p = r->pipes; p; p = p->next) {
		pass(p, UP);
		pass(p, DOWN);
	}
}

void relay_close(struct relay *r)
{
	relay_reset(r);
	evconnlistener_free(r->listener);
}

size_t relay_learn(struct relay *r)
{
	struct held held[SIDES];
	struct outcome out;
	const char *answer;

	open_address(r->s, r->address, 0, &out);
	if (out.error)
		fail_msg("through the relay: %s", out.why);
	open_adopt(r->s, &out, held);
	close_pair(r->s, held);
	answer = strstr(r->seen[DOWN], "{\"type\":\"connected\"");
	assert_non_null(answer);
	return answer - r->seen[DOWN];
}
