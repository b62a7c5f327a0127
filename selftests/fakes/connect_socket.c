/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>
#include "hostlib/connect/select.h"
#include "hostlib/connect/socket.h"
#include "lib/base/thread.h"
#include "lib/rdma/info.h"
#include "selftests/fakes/connect_socket.h"

struct fake_sockets fake_sockets;

/* Events that happen once each for a socket, in the order in which they are reported. */
static const enum connect_event order[] = {CONNECT_EVENT_MESSAGE, CONNECT_EVENT_PROBED,
					   CONNECT_EVENT_PEER_CLOSED};
#define N_ORDER (sizeof(order) / sizeof(order[0]))

struct inc_connect_socket {
	LIST_ENTRY(inc_connect_socket) entry;
	int fd;
	uint32_t qpn, peer_qpn;
	struct connect_info info;
	bool has_buffers, can_send, over;
	bool has[N_ORDER];
	int error;
	bool held; /* the socket's step to RTR waits for fake_sockets_rtr_go_on() */
	int rtr_error;
	atomic_int rtr; /* state of the socket's step to RTR, which has its own thread */
};

enum { NOT_AIMED, AIMED, ENTERING, ENTERED };

static LIST_HEAD(, inc_connect_socket) sockets = LIST_HEAD_INITIALIZER(sockets);
static uint32_t last_qpn = 16;

/* Steps to RTR that are held back. Tickets number them in the order of their arrival, and steps
 * with a ticket below rtr_may_go may continue. */
static pthread_mutex_t rtr_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rtr_go = PTHREAD_COND_INITIALIZER;
static unsigned int rtr_come, rtr_may_go;

void fake_sockets_reset(void)
{
	memset(&fake_sockets, 0, sizeof(fake_sockets));
	rtr_come = rtr_may_go = 0;
}

unsigned int fake_sockets_rtr_waiting(void)
{
	unsigned int n;

	pthread_mutex_lock(&rtr_lock);
	n = rtr_come > rtr_may_go ? rtr_come - rtr_may_go : 0;
	pthread_mutex_unlock(&rtr_lock);
	return n;
}

void fake_sockets_rtr_go_on(unsigned int n)
{
	pthread_mutex_lock(&rtr_lock);
	rtr_may_go += n;
	pthread_cond_broadcast(&rtr_go);
	pthread_mutex_unlock(&rtr_lock);
}

static void wait_for_go(void)
{
	unsigned int number;

	pthread_mutex_lock(&rtr_lock);
	number = rtr_come++;
	while (number >= rtr_may_go)
		pthread_cond_wait(&rtr_go, &rtr_lock);
	pthread_mutex_unlock(&rtr_lock);
}

static int may(enum fake_socket_call call, struct inc_err *err)
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
	int ret = may(FAKE_SOCKET_MAKE, err);

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

int connect_socket_aim(struct inc_connect_socket *socket, const struct connect_info *peer,
		       struct inc_err *err)
{
	assert_int_equal(socket->rtr, NOT_AIMED);
	socket->rtr = AIMED;
	socket->held = fake_sockets.hold_rtr;
	socket->peer_qpn = peer->qp_num;
	socket->rtr_error = may(FAKE_SOCKET_ENTER_RTR, NULL);
	return may(FAKE_SOCKET_AIM, err);
}

/* Makes the step to RTR, in the thread of that step. */
int connect_socket_enter_rtr(struct inc_connect_socket *socket)
{
	socket->rtr = ENTERING;
	if (socket->held)
		wait_for_go();
	socket->rtr = ENTERED;
	return socket->rtr_error;
}

int connect_socket_entered_rtr(const struct inc_connect_socket *socket, int error,
			       struct inc_err *err)
{
	assert_int_equal(socket->rtr, ENTERED);
	return error ? inc_err_set(err, -error, "RTR: %s", strerror(-error)) : 0;
}

int connect_socket_post_receives(struct inc_connect_socket *socket, struct inc_err *err)
{
	assert_int_equal(socket->rtr, ENTERED);
	socket->has_buffers = true;
	return may(FAKE_SOCKET_POST_RECEIVES, err);
}

int connect_socket_to_rts(struct inc_connect_socket *socket, struct inc_err *err)
{
	socket->can_send = true;
	return may(FAKE_SOCKET_TO_RTS, err);
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
		if (s->qpn == socket->peer_qpn && s->has_buffers && !s->over)
			return s;
	return NULL;
}

int connect_socket_probe(struct inc_connect_socket *socket, struct inc_err *err)
{
	struct inc_connect_socket *peer = peer_of(socket);
	int ret = may(FAKE_SOCKET_PROBE, err);

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
			inc_signal_fd(socket->fd); /* further events may be waiting */
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
	assert_int_not_equal(socket->rtr, ENTERING);
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
	/* while the step to RTR runs, a real device would still use the queue pair */
	assert_int_not_equal(socket->rtr, ENTERING);
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
