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

struct sockaddr_in loopback(unsigned int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int loopback_listener(char *address)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	sprintf(address, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

/* A connection from the client, and the relay's connection to the service for it. */
struct pipe {
	/* from[UP] is the client's connection, from[DOWN] that to the service */
	struct bufferevent *from[2];
	bool over; /* both connections end once all relayed bytes are sent */
	struct pipe *next;
};

struct relay relay;

size_t relay_passed(int way)
{
	return evbuffer_get_length(relay.seen[way]);
}

static void pipe_free(struct pipe *p)
{
	struct pipe **at = &relay.pipes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	bufferevent_free(p->from[UP]);
	bufferevent_free(p->from[DOWN]);
	free(p);
}

/* Relays as many bytes as the limit allows. Returns false if the connection must be cut. */
static bool pass(struct pipe *p, int way)
{
	struct evbuffer *in = bufferevent_get_input(p->from[way]);
	size_t size = evbuffer_get_length(in), room = relay.limit[way] - relay_passed(way);

	size = size < room ? size : room;
	if (size)
		evbuffer_add(relay.seen[way], evbuffer_pullup(in, size), size);
	evbuffer_remove_buffer(in, bufferevent_get_output(p->from[!way]), size);
	return !(relay.cut && relay_passed(way) == relay.limit[way]);
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
	const struct sockaddr_in service = loopback(inc_connect_service_port(sides.service));
	struct pipe *p = calloc(1, sizeof(*p));
	int way;

	assert_non_null(p);
	p->next = relay.pipes;
	relay.pipes = p;
	p->from[UP] = bufferevent_socket_new(sides.base, fd, BEV_OPT_CLOSE_ON_FREE);
	p->from[DOWN] = bufferevent_socket_new(sides.base, -1, BEV_OPT_CLOSE_ON_FREE);
	for (way = 0; way < 2; way++) {
		bufferevent_setcb(p->from[way], on_bytes, on_written, on_over, p);
		bufferevent_enable(p->from[way], EV_READ | EV_WRITE);
	}
	assert_int_equal(bufferevent_socket_connect(p->from[DOWN], (struct sockaddr *)&service,
						    sizeof(service)),
			 0);
}

void relay_reset(void)
{
	int way;

	while (relay.pipes)
		pipe_free(relay.pipes);
	for (way = 0; way < 2; way++) {
		relay.limit[way] = SIZE_MAX;
		evbuffer_drain(relay.seen[way], relay_passed(way));
	}
	relay.cut = false;
}

void relay_release(void)
{
	struct pipe *p;

	relay.limit[UP] = relay.limit[DOWN] = SIZE_MAX;
	for (p = relay.pipes; p; p = p->next) {
		pass(p, UP);
		pass(p, DOWN);
	}
}

void relay_close(void)
{
	relay_reset();
	evbuffer_free(relay.seen[UP]);
	evbuffer_free(relay.seen[DOWN]);
	evconnlistener_free(relay.listener);
	relay.listener = NULL;
}

size_t relay_open(const struct connect_sides_opts *opts)
{
	static const char answer[] = "{\"type\":\"connected\"";
	struct held pair[SIDES];
	struct evbuffer_ptr at;

	sides_open(opts);
	relay.listener = evconnlistener_new(sides.base, on_client, NULL, LEV_OPT_CLOSE_ON_FREE, -1,
					    loopback_listener(relay.address));
	assert_non_null(relay.listener);
	relay.seen[UP] = evbuffer_new();
	relay.seen[DOWN] = evbuffer_new();
	relay_reset();
	resources_now(&sides.before);
	open_pair_at(relay.address, pair);
	close_all(pair, SIDES);
	at = evbuffer_search(relay.seen[DOWN], answer, strlen(answer), NULL);
	assert_true(at.pos >= 0);
	return at.pos;
}
