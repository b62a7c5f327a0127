/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/select.h"
#include "hostlib/connect/socket.h"
#include "hostlib/connect/socket_priv.h"
#include "lib/rdma/gid.h"
#include "lib/rdma/info.h"
#include "lib/rdma/region.h"

/* ---- creation ------------------------------------------------------------------------------- */

static int describe(struct inc_connect_socket *socket, const struct connect_socket_opts *opts,
		    struct inc_err *err)
{
	const struct inc_rdma_port_info *port = opts->port;
	const struct inc_rdma_gid *gid;
	struct connect_info *own = &socket->own;

	own->dev = opts->dev;
	own->port = port->number;
	own->mtu = inc_rdma_mtu_code(port->active_mtu_bytes);
	own->start_psn = opts->settings->start_psn;
	snprintf(own->hostname, sizeof(own->hostname), "%s", opts->hostname);
	snprintf(own->dev_name, sizeof(own->dev_name), "%s", opts->device->name);
	socket->mtu_bytes = port->active_mtu_bytes;
	socket->max_transfer_bytes = port->max_message_bytes;
	if (opts->settings->pkey_index >= port->pkeys)
		return inc_err_set(err, EINVAL, "%s/%u: pkey_index: %u, the port has %u",
				   own->dev_name, own->port, opts->settings->pkey_index,
				   port->pkeys);
	if (opts->settings->buf_size > port->max_message_bytes)
		return inc_err_set(err, EINVAL, "%s/%u: buf_size: %u, the port can do %u",
				   own->dev_name, own->port, opts->settings->buf_size,
				   port->max_message_bytes);
	if (port->link_layer == INC_RDMA_LINK_INFINIBAND) {
		own->has_lid = true;
		own->lid = port->lid;
		return 0;
	}
	gid = connect_gid_of(port);
	if (!gid)
		return inc_err_set(err, EADDRNOTAVAIL, "%s/%u: no RoCE v2 address", own->dev_name,
				   own->port);
	own->has_gid = true;
	inc_rdma_gid_print(gid->raw, own->gid);
	socket->gid_index = gid->index;
	return 0;
}

static int make_buffers(struct inc_connect_socket *socket, struct inc_err *err)
{
	const struct inc_connect_settings *s = &socket->settings;
	const size_t bytes = connect_buffer_bytes(s);
	uint8_t *memory;

	socket->messages = calloc(s->send_buf_cnt, sizeof(*socket->messages));
	if (!socket->messages || connect_flow_init(&socket->flow, s))
		return inc_err_set(err, ENOMEM, "%s: %s", socket->own.dev_name, strerror(ENOMEM));
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return inc_err_set(err, errno, "%s: %zu bytes of buffers: %s", socket->own.dev_name,
				   bytes, strerror(errno));
	socket->memory = memory;
	socket->memory_bytes = bytes;
	socket->mr = ibv_reg_mr(socket->device->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!socket->mr)
		return inc_rdma_region_error(err, socket->own.dev_name, bytes,
					     IBV_ACCESS_LOCAL_WRITE, -errno);
	connect_count(&connect_socket_figures(socket)->registered_bytes, bytes);
	return 0;
}

static int make_queues(struct inc_connect_socket *socket, struct inc_err *err)
{
	const struct inc_connect_settings *s = &socket->settings;
	struct inc_rdma_qp_opts opts = {
		.caps = connect_qp_caps(s),
		.port = socket->own.port,
		.pkey_index = s->pkey_index,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int ret;

	ret = inc_rdma_completions_open(&socket->completions, socket->device, connect_cq_entries(s),
					s->event_ack_batch, err);
	if (ret)
		return ret;
	opts.send_cq = opts.recv_cq = socket->completions.cq;
	ret = inc_rdma_qp_make(&socket->qp, socket->device, &opts, err);
	if (!ret)
		socket->own.qp_num = socket->qp.ibv->qp_num;
	return ret;
}

int connect_socket_make(const struct connect_socket_opts *opts, struct inc_connect_socket **out,
			struct inc_err *err)
{
	struct inc_connect_socket *socket;
	int ret;

	ret = connect_settings_fit(opts->settings, opts->device->name, &opts->device->limits, err);
	if (ret)
		return ret;
	socket = calloc(1, sizeof(*socket));
	if (!socket)
		return inc_err_set(err, ENOMEM, "%s: %s", opts->device->name, strerror(ENOMEM));
	socket->settings = *opts->settings;
	/* sz is set here, because settings from a peer's message do not have it */
	socket->settings.sz = sizeof(socket->settings);
	socket->device = inc_rdma_device_ref(opts->device);
	socket->counters = connect_counters_hold(opts->counters);
	socket->port_timer.limit_ms = CONNECT_PORT_DOWN_MS;
	socket->epoll_fd = socket->device_events.timer_fd = -1;
	pthread_mutex_init(&socket->device_events.lock, NULL);
	ret = describe(socket, opts, err);
	if (!ret)
		ret = make_buffers(socket, err);
	if (!ret)
		ret = make_queues(socket, err);
	if (!ret)
		ret = connect_socket_open_events(socket, err);
	if (ret) {
		inc_connect_socket_destroy(socket);
		return ret;
	}
	*out = socket;
	return 0;
}

void connect_socket_describe(const struct inc_connect_socket *socket, struct connect_info *info)
{
	*info = socket->own;
}

/* ---- connection ----------------------------------------------------------------------------- */

int connect_socket_aim(struct inc_connect_socket *socket, const struct connect_info *peer,
		       struct inc_err *err)
{
	const unsigned int mtu_bytes = inc_rdma_mtu_bytes(peer->mtu);
	const struct inc_connect_settings *s = &socket->settings;
	char name[INC_CONNECT_HOST_SIZE + INC_CONNECT_NAME_SIZE + 8];
	struct inc_rdma_peer to = {
		.name = name,
		.qpn = peer->qp_num,
		.psn = peer->start_psn,
		.min_rnr_timer = s->min_rnr_timer,
		.sl = s->sl,
		.link_layer = (enum inc_rdma_link_layer)connect_link_of(&socket->own),
		.lid = peer->lid,
		.own_gid_index = socket->gid_index,
		.hop_limit = INC_RDMA_HOPS_ANY,
		.traffic_class = s->traffic_class,
	};

	snprintf(name, sizeof(name), "%s %s/%u", peer->hostname, peer->dev_name, peer->port);
	if (connect_link_of(peer) != connect_link_of(&socket->own))
		return inc_err_set(err, EINVAL, "%s to %s: one is InfiniBand, the other Ethernet",
				   socket->qp.what, name);
	if (peer->has_gid && inc_rdma_gid_parse(peer->gid, to.gid))
		return inc_err_set(err, EINVAL, "%s to %s: '%s' is no address", socket->qp.what,
				   name, peer->gid);
	if (mtu_bytes < socket->mtu_bytes)
		socket->mtu_bytes = mtu_bytes;
	to.mtu_bytes = socket->mtu_bytes;
	socket->peer = *peer;
	return inc_rdma_qp_aim(&socket->qp, &to, &socket->rtr, err);
}

int connect_socket_enter_rtr(struct inc_connect_socket *socket)
{
	return inc_rdma_rtr_enter(&socket->rtr);
}

int connect_socket_entered_rtr(const struct inc_connect_socket *socket, int error,
			       struct inc_err *err)
{
	inc_rdma_qp_entered(&socket->qp, error, err);
	if (error && socket->peer.has_gid)
		inc_err_add(err, "the peer's address is %s", socket->peer.gid);
	return error;
}

int connect_socket_to_rts(struct inc_connect_socket *socket, struct inc_err *err)
{
	const struct inc_rdma_rts rts = {
		.psn = socket->own.start_psn,
		.timeout = socket->settings.timeout,
		.retry_cnt = socket->settings.retry_cnt,
		.rnr_retry = socket->settings.rnr_retry,
	};

	return inc_rdma_qp_to_rts(&socket->qp, &rts, err);
}

void connect_socket_hand_over(struct inc_connect_socket *socket, enum connect_state state,
			      uint64_t latency_ns)
{
	socket->state = CONNECT_READY;
	socket->handed_over = true;
	socket->latency_ns = latency_ns;
	socket->uncounted_messages = connect_flow_held(&socket->flow);
	connect_count(&connect_socket_figures(socket)->connections, 1);
	if (socket->error)
		connect_socket_step(socket, CONNECT_EVENT_FAILED);
	else if (state == CONNECT_CLOSED)
		connect_socket_step(socket, CONNECT_EVENT_PEER_CLOSED);
}

/* ---- for its owner -------------------------------------------------------------------------- */

int inc_connect_socket_fd(const struct inc_connect_socket *socket)
{
	return socket->epoll_fd;
}

const char *inc_connect_socket_error(const struct inc_connect_socket *socket)
{
	return socket->error ? socket->why.msg : NULL;
}

int inc_connect_socket_info(const struct inc_connect_socket *socket,
			    struct inc_connect_socket_info *out)
{
	const struct connect_flow *flow = &socket->flow;
	struct inc_connect_socket_info info = {
		.sz = out->sz,
		.local_port = socket->own.port,
		.remote_port = socket->peer.port,
		.link_layer = connect_link_of(&socket->own),
		.mtu_bytes = socket->mtu_bytes,
		.local_qpn = socket->own.qp_num,
		.remote_qpn = socket->peer.qp_num,
		.messages_sent = flow->sent,
		.messages_received = flow->received,
		.bytes_sent = socket->bytes_sent,
		.bytes_received = socket->bytes_received,
		.bytes_read = flow->bytes_read,
		.bytes_written = flow->bytes_written,
		.credits_sent = flow->acked,
		.credits_received = flow->given_back,
		.latency_ns = socket->latency_ns,
		.max_transfer_bytes = socket->max_transfer_bytes,
		.settings = &socket->settings,
	};

	if (info.sz < sizeof(info.sz))
		return -EINVAL;
	memcpy(info.peer, socket->peer.hostname, sizeof(info.peer));
	memcpy(info.local_name, socket->own.dev_name, sizeof(info.local_name));
	memcpy(info.remote_name, socket->peer.dev_name, sizeof(info.remote_name));
	memset(out, 0, info.sz);
	memcpy(out, &info, info.sz < sizeof(info) ? info.sz : sizeof(info));
	return 0;
}

void inc_connect_socket_destroy(struct inc_connect_socket *socket)
{
	if (!socket)
		return;
	connect_socket_close_events(socket);
	inc_rdma_qp_destroy(&socket->qp);
	inc_rdma_completions_close(&socket->completions);
	if (socket->mr) {
		connect_uncount(&connect_socket_figures(socket)->registered_bytes,
				socket->memory_bytes);
		ibv_dereg_mr(socket->mr);
	}
	if (socket->memory)
		munmap(socket->memory, socket->memory_bytes);
	if (socket->handed_over)
		connect_uncount(&connect_socket_figures(socket)->connections, 1);
	connect_flow_free(&socket->flow);
	free(socket->messages);
	inc_rdma_device_put(socket->device);
	connect_counters_release(socket->counters);
	free(socket);
}
