/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "hostlib/connect/rtr.h"
#include "lib/base/fd.h"
#include "lib/base/thread.h"

struct connect_rtr {
	struct inc_connect *ctx;
	LIST_ENTRY(connect_rtr) entry;
	struct inc_connect_socket *socket;
	uint64_t bytes;
	/* callback of the socket's owner; NULL: the owner has given the socket up */
	connect_rtr_done done;
	void *arg;
	pthread_t thread;
	/* Result of ibv_modify_qp(). The loop reads it after the end of the thread. */
	int error;
	int fd;              /* eventfd that the thread signals at its end */
	struct event *event; /* event of the loop that waits until fd is signalled */
};

static void *enter(void *arg)
{
	struct connect_rtr *rtr = arg;

	rtr->error = connect_socket_enter_rtr(rtr->socket);
	inc_signal_fd(rtr->fd);
	return NULL;
}

static void release(struct connect_rtr *rtr)
{
	if (rtr->event)
		event_free(rtr->event);
	if (rtr->fd >= 0)
		close(rtr->fd);
	free(rtr);
}

/* Waits for the thread of a move to RTR, and removes the move from the context. If the socket's
 * owner has given it up, destroys the socket. */
static void finish(struct connect_rtr *rtr)
{
	struct connect_rtrs *rtrs = &rtr->ctx->rtrs;

	pthread_join(rtr->thread, NULL);
	LIST_REMOVE(rtr, entry);
	if (rtr->done)
		return;
	rtrs->n_abandoned--;
	rtrs->abandoned_bytes -= rtr->bytes;
	inc_connect_socket_destroy(rtr->socket);
}

static void on_entered(evutil_socket_t fd, short what, void *arg)
{
	struct connect_rtr *rtr = arg;
	const connect_rtr_done done = rtr->done;
	void *owner = rtr->arg;
	struct inc_err err;
	int ret = 0;

	finish(rtr);
	if (done)
		ret = connect_socket_entered_rtr(rtr->socket, rtr->error, &err);
	release(rtr);
	if (done)
		done(owner, ret, ret ? err.msg : NULL);
}

static int begin(struct connect_rtr *rtr)
{
	rtr->fd = inc_fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (rtr->fd < 0)
		return -errno;
	rtr->event = event_new(rtr->ctx->base, rtr->fd, EV_READ, on_entered, rtr);
	if (!rtr->event || event_add(rtr->event, NULL))
		return -ENOMEM;
	return inc_thread_create_apart(&rtr->thread, enter, rtr);
}

int connect_rtr_start(struct inc_connect *ctx, struct inc_connect_socket *socket,
		      const struct connect_info *peer, uint64_t bytes, connect_rtr_done done,
		      void *arg, struct connect_rtr **out, struct inc_err *err)
{
	struct connect_rtr *rtr;
	int ret = connect_socket_aim(socket, peer, err);

	if (ret)
		return ret;
	rtr = calloc(1, sizeof(*rtr));
	if (!rtr)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	*rtr = (struct connect_rtr){
		.ctx = ctx, .socket = socket, .bytes = bytes, .done = done, .arg = arg, .fd = -1};
	ret = begin(rtr);
	if (ret) {
		release(rtr);
		return inc_err_set(err, -ret, "a thread for RTR: %s", strerror(-ret));
	}
	LIST_INSERT_HEAD(&ctx->rtrs.list, rtr, entry);
	*out = rtr;
	return 0;
}

void connect_rtr_stop(struct connect_rtr **rtr, struct inc_connect_socket **socket)
{
	if (!*rtr) {
		if (*socket)
			connect_socket_stop(*socket);
		return;
	}
	(*rtr)->done = NULL;
	(*rtr)->ctx->rtrs.n_abandoned++;
	(*rtr)->ctx->rtrs.abandoned_bytes += (*rtr)->bytes;
	*rtr = NULL;
	*socket = NULL;
}

void connect_rtr_stop_all(struct inc_connect *ctx)
{
	struct connect_rtr *rtr;

	while (!LIST_EMPTY(&ctx->rtrs.list)) {
		rtr = LIST_FIRST(&ctx->rtrs.list);
		finish(rtr);
		release(rtr);
	}
}
