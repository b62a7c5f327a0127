/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/net/listen.h"
#include "lib/base/log.h"

#define PAUSE_US 100000
#define QUIET_S  10

static void listener_back(evutil_socket_t fd, short what, void *arg)
{
	evconnlistener_enable(arg);
}

void inc_listener_rest(struct evconnlistener *l)
{
	static const struct timeval pause = {.tv_usec = PAUSE_US};

	evconnlistener_disable(l);
	if (event_base_once(evconnlistener_get_base(l), -1, EV_TIMEOUT, listener_back, l, &pause))
		evconnlistener_enable(l);
}

static void on_error(struct evconnlistener *l, void *arg)
{
	static uint64_t told_ns; /* of the process: the shortage is */
	int code = EVUTIL_SOCKET_ERROR();
	uint64_t now_ns = inc_now_ns();

	if (!told_ns || now_ns - told_ns >= QUIET_S * INC_NSEC_PER_SEC) {
		told_ns = now_ns;
		inc_warn("accept: %s; connections wait", strerror(code));
	}
	inc_listener_rest(l);
}

void inc_listener_guard(struct evconnlistener *l)
{
	evconnlistener_set_error_cb(l, on_error);
}
