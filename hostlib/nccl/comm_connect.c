/* SPDX-License-Identifier: BSD-2-Clause */
/* listen, connect and accept: a TCP socket, HELLO in both directions, and the path of epoch 0. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/conf/comm_conf.h"

/* The most accepted sockets that have not sent a HELLO. Their number and their time are limited,
 * because strangers can open them. */
#define PENDING 64u
/* Time in which an accepted socket must send HELLO. The shorter time holds if PENDING sockets
 * wait. */
#define HELLO_NS   (5 * INC_NSEC_PER_SEC)
#define CROWDED_NS (500 * INC_NSEC_PER_MSEC)
/* Limit of the attempts to bring up a comm's first path. Attempts are at least HA_BRINGUP_RETRY_MS
 * apart. */
#define FIRST_PATH_TRIES 50u

struct ha_listener {
	struct ha_plugin *plugin;
	unsigned int dev;
	int fd;
	uint64_t nonce;
	struct ha_comm *pending[PENDING];
};

/* ---- the handshake -------------------------------------------------------------------------- */

void ha_comm_set_stage(struct ha_comm *comm, enum ha_stage stage)
{
	comm->stage = stage;
}

void ha_comm_lost(struct ha_comm *comm, int error, const char *format, ...)
{
	va_list ap;

	if (comm->stage == HA_STAGE_LOST)
		return;
	va_start(ap, format);
	comm->error = inc_err_vset(&comm->err, error, comm->what, format, ap);
	va_end(ap);
	/* before HELLO, the other end of an accepted socket may be a stranger */
	if (comm->metrics && error != ECANCELED && (comm->sends || comm->stage == HA_STAGE_BRINGUP))
		ha_metrics_add(&comm->metrics->figures.failed_comms, 1);
	ha_comm_set_stage(comm, HA_STAGE_LOST);
	if (comm->bringing)
		comm->bringing->dropped = true;
	comm->bringing = NULL;
	comm->enter_waits = false;
	if (comm->socket.fd >= 0)
		ha_socket_close(&comm->socket);
	comm->socket.fd = -1;
}

void ha_comm_abandon(struct ha_comm *comm)
{
	struct ha_progress *progress = comm->plugin->progress;

	pthread_mutex_lock(&comm->lock);
	comm->open = false;
	comm->closed_at_ns = inc_now_ns();
	if (comm->stage == HA_STAGE_UP) {
		HA_MACHINE_EVENT(comm, close, comm->closed_at_ns);
		ha_comm_do(comm, comm->closed_at_ns);
	} else {
		ha_comm_lost(comm, ECANCELED, "closed before it was up");
	}
	pthread_mutex_unlock(&comm->lock);
	ha_progress_wake(progress);
}

static void send_hello(struct ha_comm *comm)
{
	struct ha_control_msg msg = {.type = HA_MSG_HELLO, .nonce = comm->nonce};
	char host[48] = "?";

	gethostname(host, sizeof(host) - 1);
	msg.hello.dual = comm->dual;
	snprintf(msg.hello.name, sizeof(msg.hello.name), "%s pid %d", host, (int)getpid());
	ha_comm_send(comm, &msg);
}

/* Checks the first message on a new socket. It must be a HELLO with this comm's nonce, because
 * otherwise another process has opened the socket. */
void ha_comm_hello(struct ha_comm *comm, const struct ha_control_msg *msg, uint64_t now_ns)
{
	if (comm->stage != HA_STAGE_HELLO)
		return;
	if (msg->type != HA_MSG_HELLO || msg->nonce != comm->nonce) {
		ha_comm_lost(comm, EPROTO, "the first message is no HELLO of this comm");
		return;
	}
	snprintf(comm->peer_name, sizeof(comm->peer_name), "%.63s", msg->hello.name);
	snprintf(comm->what, sizeof(comm->what), "%s %s %.60s", comm->device->name,
		 comm->sends ? "to" : "from", comm->peer_name);
	comm->dual = comm->dual && msg->hello.dual;
	if (!comm->sends)
		send_hello(comm);
	ha_comm_set_stage(comm, HA_STAGE_BRINGUP);
	ha_bringup_init(&comm->bringup, comm->sends, comm->dual ? HA_RAILS : 1);
	ha_comm_bringup(comm, ha_bringup_want(&comm->bringup, 0, 0, now_ns), now_ns);
}

static void connect_socket(struct ha_comm *comm)
{
	struct inc_err err;
	const int ret = ha_socket_connected(&comm->socket, &err);

	if (ret < 0) {
		ha_comm_lost(comm, -ret, "%s", err.msg);
		return;
	}
	if (!ret)
		return;
	ha_comm_set_stage(comm, HA_STAGE_HELLO);
	comm->socket.watcher = ha_progress_watch(comm->plugin->progress, comm->socket.fd);
	send_hello(comm);
}

void ha_comm_handshake(struct ha_comm *comm, uint64_t now_ns)
{
	if (comm->stage == HA_STAGE_CONNECTING)
		connect_socket(comm);
	if (comm->stage == HA_STAGE_HELLO || comm->stage == HA_STAGE_BRINGUP)
		ha_comm_receive_on_socket(comm, now_ns);
	/* a comm that loses its socket now has failed, because the two ends cannot agree on a
	 * path */
	if ((comm->stage == HA_STAGE_HELLO || comm->stage == HA_STAGE_BRINGUP) &&
	    comm->socket.fd < 0)
		ha_comm_lost(comm, ECONNRESET, "the peer has closed the socket");
	if (comm->stage != HA_STAGE_BRINGUP)
		return;
	if (comm->bringup.failures >= FIRST_PATH_TRIES) {
		ha_comm_lost(comm, ENETUNREACH, "no path comes up: %s",
			     comm->path_err.msg[0] ? comm->path_err.msg : "the peer has no path");
		return;
	}
	ha_comm_bringup(comm, ha_bringup_tick(&comm->bringup, now_ns), now_ns);
}

/* ---- connect -------------------------------------------------------------------------------- */

static int begin_connect(struct ha_plugin *plugin, unsigned int dev, const struct ha_handle *handle,
			 int traffic_class, struct ha_comm **out, struct inc_err *err)
{
	union ha_address address;
	struct ha_comm *comm;
	unsigned int flags;
	uint64_t nonce;
	int ret = ha_handle_read(handle, &address, &flags, &nonce, err);

	if (!ret && traffic_class >= 0 && ha_config_is_soft(&plugin->config) &&
	    !inc_traffic_class_good(traffic_class))
		ret = inc_err_set(err, EINVAL,
				  "connect: NCCL's communicator has traffic class %d: want %s",
				  traffic_class, INC_TRAFFIC_CLASS_TEXT);
	if (!ret)
		ret = ha_comm_new(&comm, plugin, dev, true, err);
	if (ret)
		return ret;
	comm->nonce = nonce;
	comm->dual = comm->dual && flags & HA_HANDLE_DUAL;
	if (traffic_class >= 0)
		comm->config.traffic_class = traffic_class;
	snprintf(comm->what, sizeof(comm->what), "%s: connect", comm->device->name);
	ret = ha_socket_connect(&comm->socket, &address, err);
	if (ret) {
		ha_comm_free(comm);
		return ret;
	}
	ha_progress_add(plugin->progress, comm);
	*out = comm;
	return 0;
}

/* Checks how far the handshake of a comm is. Returns 1 if the comm is up, and 0 if it is not up
 * yet, or if another thread has its lock. After -errno the comm belongs to the progress thread. */
static int look_at_handshake(struct ha_comm *comm, struct inc_err *err)
{
	int ret;

	if (pthread_mutex_trylock(&comm->lock))
		return 0;
	if (comm->stage < HA_STAGE_UP)
		ha_comm_handshake(comm, inc_now_ns());
	ret = comm->stage == HA_STAGE_UP ? 1 : comm->stage == HA_STAGE_LOST ? comm->error : 0;
	if (ret < 0 && err)
		*err = comm->err;
	pthread_mutex_unlock(&comm->lock);
	if (ret < 0)
		ha_comm_abandon(comm);
	return ret;
}

int ha_connect(struct ha_plugin *plugin, unsigned int dev, struct ha_handle *handle,
	       int traffic_class, struct ha_comm **out, struct inc_err *err)
{
	struct ha_comm *comm = (struct ha_comm *)(uintptr_t)handle->comm;
	int ret;

	*out = NULL;
	if (!comm) {
		ret = begin_connect(plugin, dev, handle, traffic_class, &comm, err);
		if (ret)
			return ret;
		handle->comm = (uintptr_t)comm;
	}
	ret = look_at_handshake(comm, err);
	if (ret)
		handle->comm = 0;
	if (ret > 0)
		*out = comm;
	return ret < 0 ? ret : 0;
}

/* ---- listen and accept ---------------------------------------------------------------------- */

int ha_listen(struct ha_plugin *plugin, unsigned int dev, struct ha_handle *handle,
	      struct ha_listener **out, struct inc_err *err)
{
	struct ha_listener *listener;
	union ha_address address;
	bool dual;
	int ret;

	if (dev >= plugin->devices.n)
		return inc_err_set(err, EINVAL, "device %u: there are %u", dev, plugin->devices.n);
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return inc_err_set(err, ENOMEM, "listen: %s", strerror(ENOMEM));
	ret = inc_random_bytes(&listener->nonce, sizeof(listener->nonce), err);
	if (ret) {
		free(listener);
		return ret;
	}
	listener->plugin = plugin;
	listener->dev = dev;
	listener->fd = ha_socket_listen(plugin->config.socket_ifname, &address, err);
	if (listener->fd < 0) {
		ret = listener->fd;
		free(listener);
		return ret;
	}
	dual = plugin->config.enable_backup && ha_rail_name(&plugin->devices.device[dev].rail[1]);
	ha_handle_make(handle, &address, dual ? HA_HANDLE_DUAL : 0, listener->nonce);
	*out = listener;
	return 0;
}

void ha_listener_close(struct ha_listener *listener)
{
	unsigned int i;

	for (i = 0; i < PENDING; i++)
		if (listener->pending[i])
			ha_comm_abandon(listener->pending[i]);
	close(listener->fd);
	free(listener);
}

/* Accepts a socket, and makes a comm for it. Returns 1 if the comm waits for the socket's HELLO, 0
 * if no connection is waiting, or -errno. */
static int take_socket(struct ha_listener *listener, struct ha_comm **place, struct inc_err *err)
{
	struct ha_comm *comm;
	int ret = ha_comm_new(&comm, listener->plugin, listener->dev, false, err);

	if (ret)
		return ret;
	ret = ha_socket_accept(listener->fd, &comm->socket, err);
	if (ret <= 0) {
		comm->socket.fd = -1;
		ha_comm_free(comm);
		return ret;
	}
	comm->nonce = listener->nonce;
	ha_comm_set_stage(comm, HA_STAGE_HELLO);
	snprintf(comm->what, sizeof(comm->what), "%s: accept", comm->device->name);
	comm->socket.watcher = ha_progress_watch(listener->plugin->progress, comm->socket.fd);
	ha_progress_add(listener->plugin->progress, comm);
	*place = comm;
	return 1;
}

static bool has_expired(struct ha_comm *comm, uint64_t most_ns)
{
	bool expired = false;

	if (!pthread_mutex_trylock(&comm->lock)) {
		expired = comm->stage == HA_STAGE_HELLO &&
			  inc_now_ns() - comm->began_at_ns >= most_ns;
		pthread_mutex_unlock(&comm->lock);
	}
	return expired;
}

int ha_accept(struct ha_listener *listener, struct ha_comm **out, struct inc_err *err)
{
	struct ha_comm *comm;
	uint64_t most_ns;
	unsigned int i;
	int ret;

	*out = NULL;
	for (i = 0, ret = 1; i < PENDING && ret > 0; i++)
		if (!listener->pending[i])
			ret = take_socket(listener, &listener->pending[i], err);
	if (ret < 0)
		return ret;
	/* ret is 1 if every place of a pending socket is in use */
	most_ns = ret ? CROWDED_NS : HELLO_NS;
	for (i = 0; i < PENDING && !*out; i++) {
		comm = listener->pending[i];
		if (!comm)
			continue;
		/* accept ignores a connection that has failed, or that was no peer of this
		 * listener */
		ret = look_at_handshake(comm, NULL);
		if (!ret && has_expired(comm, most_ns)) {
			ha_comm_abandon(comm);
			ret = -ETIMEDOUT;
		}
		if (ret)
			listener->pending[i] = NULL;
		if (ret > 0)
			*out = comm;
	}
	return 0;
}
