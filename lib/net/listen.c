/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/os.h"
#include "lib/net/listen.h"

#define PAUSE_US 100000
#define QUIET_S  60

void inc_listener_refused(const char *why)
{
	/* time when this warning was last logged; static, because the shortage concerns the whole
	 * process */
	static uint64_t told_at_ns;
	static unsigned int more; /* number of warnings that were not logged since then */
	const uint64_t now_ns = inc_now_ns();

	if (told_at_ns && now_ns - told_at_ns < QUIET_S * INC_NSEC_PER_SEC) {
		more++;
		return;
	}
	if (more)
		inc_warn("connections wait or are refused: %s (%u more since the last such line)",
			 why, more);
	else
		inc_warn("connections wait or are refused: %s", why);
	told_at_ns = now_ns;
	more = 0;
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
	evconnlistener_enable(arg);
}

static void on_error(struct evconnlistener *l, void *arg)
{
	static const struct timeval pause = {.tv_usec = PAUSE_US};

	inc_listener_refused(strerror(EVUTIL_SOCKET_ERROR()));
	evconnlistener_disable(l);
	if (event_base_once(evconnlistener_get_base(l), -1, EV_TIMEOUT, on_rested, l, &pause))
		evconnlistener_enable(l);
}

int inc_listener_guard(struct evconnlistener *l)
{
	evconnlistener_set_error_cb(l, on_error);
	/* evconnlistener_new*() does not report that enabling failed, so this enables the listener
	 * again and checks the result */
	return evconnlistener_enable(l) ? -ENOMEM : 0;
}

int inc_listener_open(struct event_base *base, const struct sockaddr *at, socklen_t len,
		      int backlog, evconnlistener_cb fn, void *arg, struct evconnlistener **out)
{
	const int fd = inc_os.stream.listen(at, len, backlog);
	int ret;

	if (fd < 0)
		return fd;
	/* a backlog of 0 means that fd listens already */
	*out = evconnlistener_new(base, fn, arg, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0,
				  fd);
	if (!*out) {
		close(fd);
		return -ENOMEM;
	}
	ret = inc_listener_guard(*out);
	if (!ret)
		return 0;
	evconnlistener_free(*out);
	*out = NULL;
	return ret;
}
