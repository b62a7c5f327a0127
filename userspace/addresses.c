/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/hostport.h"
#include "lib/net/lookup.h"
#include "lib/net/wait.h"
#include "userspace/addresses.h"

/* How long the daemon's start waits for the first look-up of the controller's name. Meanwhile the
 * daemon does nothing else. It does not even retransmit for communicators that it has taken
 * over. */
#define START_MS 1000

struct inc_addresses {
	struct event_base *base;
	const char *text; /* HOST[:PORT] of the controller, as the user gave it */
	struct inc_hostport at;
	struct addrinfo *list;     /* the addresses in use; NULL: none yet */
	struct addrinfo *fresh;    /* result of the last look-up, not in use yet; NULL: none */
	struct inc_lookup *lookup; /* the look-up under way; NULL: none */
	struct event *answer;      /* event of the look-up's descriptor */
	bool number;               /* the host is a numeric address */
	struct inc_err why;        /* why the last look-up failed; "": it did not fail */
};

static void free_list(struct addrinfo *list)
{
	if (list)
		freeaddrinfo(list);
}

/* Gets the answer of the look-up, if there is one, and stores its addresses as the fresh ones.
 * Returns 0, -errno with the reason in why, or -EINPROGRESS if there is no answer yet. */
static int take_answer(struct inc_addresses *a, struct inc_err *why)
{
	struct addrinfo *list;
	int ret = inc_lookup_end(a->lookup, &list, why);

	if (ret == -EINPROGRESS)
		return ret;
	a->lookup = NULL;
	if (!ret) {
		free_list(a->fresh);
		a->fresh = list;
		a->why.msg[0] = '\0';
	}
	return ret;
}

static void stop_waiting(struct inc_addresses *a)
{
	if (a->answer)
		event_free(a->answer);
	a->answer = NULL;
}

/* Stores why a look-up failed, and logs it if the reason is new. If there are no addresses at all,
 * nothing is logged here, because the client reports that it cannot connect. */
static void failed(struct inc_addresses *a, const struct inc_err *why)
{
	const bool again = !strcmp(a->why.msg, why->msg);

	a->why = *why;
	if (!a->list && !a->fresh)
		return;
	if (again)
		inc_debug("controller %s: look-up of the name: %s", a->text, why->msg);
	else
		inc_warn("controller %s: look-up of the name: %s; its last addresses stay", a->text,
			 why->msg);
}

static void on_answer(evutil_socket_t fd, short what, void *arg);

static void give_up(struct inc_addresses *a)
{
	stop_waiting(a);
	inc_lookup_cancel(a->lookup);
	a->lookup = NULL;
}

/* Waits for the answer on the event loop. If that fails, cancels the look-up and returns -errno
 * with the reason in why. */
static int watch(struct inc_addresses *a, struct inc_err *why)
{
	a->answer = event_new(a->base, inc_lookup_fd(a->lookup), EV_READ, on_answer, a);
	if (a->answer && !event_add(a->answer, NULL))
		return 0;
	give_up(a);
	return inc_err_set(why, ENOMEM, "%s", strerror(ENOMEM));
}

/* Frees the event first, because the end of the look-up closes the descriptor that the event
 * watches. */
static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct inc_addresses *a = arg;
	struct inc_err why;
	int ret;

	stop_waiting(a);
	ret = take_answer(a, &why);
	if (ret == -EINPROGRESS)
		ret = watch(a, &why);
	if (ret)
		failed(a, &why);
}

void inc_addresses_refresh(struct inc_addresses *a)
{
	struct inc_err why;
	int ret;

	if (a->number || a->lookup)
		return;
	ret = inc_lookup_start(&a->at, &a->lookup, &why);
	ret = ret ?: watch(a, &why);
	if (ret)
		failed(a, &why);
}

/* Makes the first look-up, when the daemon starts. Returns -errno if the name does not exist, and 0
 * if no name server has answered in time. */
static int look_up_first(struct inc_addresses *a, struct inc_err *why)
{
	int ret = inc_lookup_start(&a->at, &a->lookup, why);

	if (ret)
		return ret;
	inc_wait_for(inc_lookup_fd(a->lookup), POLLIN, -1,
		     inc_now_ns() + START_MS * INC_NSEC_PER_MSEC);
	ret = take_answer(a, why);
	if (ret == -EINPROGRESS) {
		inc_err_set(&a->why, ETIMEDOUT, "the look-up of the name has no answer yet");
		return watch(a, why);
	}
	if (ret != -EAGAIN)
		return ret;
	a->why = *why;
	return 0;
}

int inc_addresses_open(struct event_base *base, const char *text, struct inc_addresses **out,
		       struct inc_err *err)
{
	struct inc_addresses *a = calloc(1, sizeof(*a));
	struct inc_err why;
	int ret;

	if (!a)
		return inc_err_set(err, ENOMEM, "no memory for the controller's addresses");
	a->base = base;
	a->text = text;
	ret = inc_hostport_parse("controller", text, INC_PORT_SWITCHES, &a->at, err);
	if (ret)
		goto fail;
	ret = inc_lookup_number(&a->at, &a->list, &why);
	a->number = !ret;
	if (ret == -ENOENT)
		ret = look_up_first(a, &why);
	if (ret) {
		inc_err_set(err, -ret, "controller %s port %s: %s", a->at.host, a->at.port,
			    why.msg);
		goto fail;
	}
	*out = a;
	return 0;

fail:
	inc_addresses_close(a);
	return ret;
}

void inc_addresses_close(struct inc_addresses *a)
{
	if (!a)
		return;
	give_up(a);
	free_list(a->list);
	free_list(a->fresh);
	free(a);
}

const struct addrinfo *inc_addresses_take(struct inc_addresses *a, const char **why)
{
	if (a->fresh) {
		free_list(a->list);
		a->list = a->fresh;
		a->fresh = NULL;
	}
	*why = a->why.msg;
	return a->list;
}

const char *inc_addresses_host(const struct inc_addresses *a)
{
	return a->at.host;
}
