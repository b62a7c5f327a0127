/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>
#include "hostlib/connect/select.h"
#include "hostlib/connect/socket.h"
#include "lib/base/thread.h"
#include "lib/rdma/mtu.h"
#include "selftests/connect/fake_devices.h"

struct fake_sockets fake_sockets;

/* MESSAGE, PROBED, PEER_CLOSED: each once, in this order. */
static const enum connect_event order[] = {CONNECT_EVENT_MESSAGE, CONNECT_EVENT_PROBED,
					   CONNECT_EVENT_PEER_CLOSED};
#define N_ORDER (sizeof(order) / sizeof(order[0]))

struct inc_connect_socket {
	LIST_ENTRY(inc_connect_socket) entry;
	int fd;
	uint32_t qpn, peer_qpn;
	struct connect_info info;
	bool can_receive, has_buffers, can_send, over;
	bool has[N_ORDER];
	int error;
};

static LIST_HEAD(, inc_connect_socket) sockets = LIST_HEAD_INITIALIZER(sockets);
static uint32_t last_qpn = 16;

void fake_sockets_reset(void)
{
	memset(&fake_sockets, 0, sizeof(fake_sockets));
}

static int may(enum fake_call call, struct inc_err *err)
{
	if (!fake_sockets.fail_in[call] || --fake_sockets.fail_in[call])
		return 0;
	return inc_err_set(err, fake_sockets.error, "call %d: %s", call,
			   strerror(fake_sockets.error));
}

int connect_socket_make(const struct connect_socket_opts *opts, struct inc_connect_socket **out,
			struct inc_err *err)
{
	struct inc_connect_socket *s;
	int ret = may(FAKE_MAKE, err);

	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	s->qpn = ++last_qpn;
	strcpy(s->info.hostname, opts->hostname);
	s->info.dev = opts->dev;
	strcpy(s->info.dev_name, "fake");
	s->info.port = opts->port->number;
	s->info.mtu = inc_rdma_mtu_code(opts->port->active_mtu_bytes);
	s->info.qp_num = s->qpn;
	s->info.has_gid = true;
	inc_rdma_gid_print(connect_gid_of(opts->port)->raw, s->info.gid);
	LIST_INSERT_HEAD(&sockets, s, entry);
	fake_sockets.alive++;
	*out = s;
	return 0;
}

void connect_socket_describe(const struct inc_connect_socket *socket, struct connect_info *info)
{
	*info = socket->info;
}

int connect_socket_to_rtr(struct inc_connect_socket *socket, const struct connect_info *peer,
			  struct inc_err *err)
{
	socket->peer_qpn = peer->qp_num;
	socket->can_receive = true;
	return may(FAKE_TO_RTR, err);
}

int connect_socket_post_receives(struct inc_connect_socket *socket, struct inc_err *err)
{
	socket->has_buffers = true;
	return may(FAKE_POST_RECEIVES, err);
}

int connect_socket_to_rts(struct inc_connect_socket *socket, struct inc_err *err)
{
	socket->can_send = true;
	return may(FAKE_TO_RTS, err);
}

static void put(struct inc_connect_socket *socket, enum connect_event event)
{
	size_t i;

	for (i = 0; i < N_ORDER; i++)
		socket->has[i] |= order[i] == event;
	inc_signal_fd(socket->fd);
}

static struct inc_connect_socket *peer_of(const struct inc_connect_socket *socket)
{
	struct inc_connect_socket *s;

	LIST_FOREACH (s, &sockets, entry)
		if (s->qpn == socket->peer_qpn && s->can_receive && s->has_buffers && !s->over)
			return s;
	return NULL;
}

int connect_socket_probe(struct inc_connect_socket *socket, struct inc_err *err)
{
	struct inc_connect_socket *peer = peer_of(socket);
	int ret = may(FAKE_PROBE, err);

	if (ret || fake_sockets.lose_probe)
		return ret;
	if (!socket->can_send || !peer) {
		socket->error = -EIO;
		inc_signal_fd(socket->fd);
		return 0;
	}
	put(peer, CONNECT_EVENT_MESSAGE);
	if (!fake_sockets.lose_completion)
		put(socket, CONNECT_EVENT_PROBED);
	return 0;
}

int connect_socket_event(struct inc_connect_socket *socket, enum connect_event *event,
			 struct inc_err *err)
{
	size_t i;

	inc_drain_fd(socket->fd);
	if (socket->error)
		return inc_err_set(err, -socket->error, "fake: %s", strerror(-socket->error));
	for (i = 0; i < N_ORDER; i++)
		if (socket->has[i]) {
			socket->has[i] = false;
			*event = order[i];
			inc_signal_fd(socket->fd); /* there may be more */
			return 1;
		}
	return 0;
}

void connect_socket_hand_over(struct inc_connect_socket *socket, enum connect_state state,
			      uint64_t latency_ns)
{
	fake_sockets.handed[state == CONNECT_CLOSED]++;
}

void connect_socket_stop(struct inc_connect_socket *socket)
{
	socket->over = true;
}

int inc_connect_socket_fd(const struct inc_connect_socket *socket)
{
	return socket->fd;
}

void inc_connect_socket_destroy(struct inc_connect_socket *socket)
{
	if (!socket)
		return;
	LIST_REMOVE(socket, entry);
	close(socket->fd);
	free(socket);
	fake_sockets.alive--;
}

void fake_socket_close(struct inc_connect_socket *socket)
{
	struct inc_connect_socket *peer = peer_of(socket);

	if (peer)
		put(peer, CONNECT_EVENT_PEER_CLOSED);
}

void fake_sockets_break(void)
{
	struct inc_connect_socket *s;

	LIST_FOREACH (s, &sockets, entry) {
		s->error = -fake_sockets.error;
		inc_signal_fd(s->fd);
	}
}
