/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/socket.h"
#include "hostlib/connect/socket_priv.h"

#define POST_BATCH 32 /* most transfers in one ibv_post_send() */

/* ---- posting -------------------------------------------------------------------------------- */

int connect_socket_post_receive(struct inc_connect_socket *socket, uint32_t buffer)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)connect_receive_buffer(socket, buffer),
		.length = socket->settings.buf_size,
		.lkey = socket->mr->lkey,
	};
	struct ibv_recv_wr wr =
				   {
					   .wr_id = CONNECT_RECEIVE | buffer,
					   .sg_list = &sge,
					   .num_sge = 1,
				   },
			   *bad;
	const int ret = ibv_post_recv(socket->qp.ibv, &wr, &bad);

	return ret ? connect_socket_fail(socket, ret, "post a receive: %s", strerror(ret)) : 0;
}

int connect_socket_post_receives(struct inc_connect_socket *socket, struct inc_err *err)
{
	const uint32_t n = connect_recv_wr(&socket->settings);
	uint32_t i;

	for (i = 0; i < n; i++)
		if (connect_socket_post_receive(socket, i))
			return inc_err_set(err, -socket->error, "%s", socket->why.msg);
	return 0;
}

/* Gives a work request its number, and decides whether it asks for a completion (signalled).
 * connect_flow_postable() must allow the request. */
static void number_request(struct inc_connect_socket *socket, struct ibv_send_wr *wr,
			   enum connect_wr_kind kind, uint32_t bytes, bool ask)
{
	bool signalled;

	wr->wr_id = connect_flow_post(&socket->flow, kind, bytes, ask, &signalled);
	wr->send_flags = signalled ? IBV_SEND_SIGNALED : 0;
}

/* Posts a chain of work requests that have their numbers. */
static int post(struct inc_connect_socket *socket, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	const int ret = ibv_post_send(socket->qp.ibv, wr, &bad);

	return ret ? connect_socket_fail(socket, ret, "post a request: %s", strerror(ret)) : 0;
}

int connect_socket_post_control(struct inc_connect_socket *socket, enum connect_wr_kind kind,
				uint32_t immediate)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(immediate),
	};

	number_request(socket, &wr, kind, 0, kind != CONNECT_WR_ACK);
	return post(socket, &wr);
}

int connect_socket_post_ack_if_due(struct inc_connect_socket *socket)
{
	const uint32_t n = connect_flow_ack_due(&socket->flow);

	if (!n)
		return 0;
	return connect_socket_post_control(socket, CONNECT_WR_ACK,
					   connect_immediate(CONNECT_IMM_ACK, n));
}

/* Posts an RDMA WRITE of no bytes, for which the send queue must have room. Its completion proves
 * that the peer's device has received all earlier requests. It uses none of the peer's receives. */
static int post_empty_write(struct inc_connect_socket *socket)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	number_request(socket, &wr, CONNECT_WR_WRITE, 0, true);
	return post(socket, &wr);
}

int connect_socket_probe(struct inc_connect_socket *socket, struct inc_err *err)
{
	if (connect_socket_post_control(socket, CONNECT_WR_PROBE,
					connect_immediate(CONNECT_IMM_PROBE, 0)))
		return inc_err_set(err, -socket->error, "%s", socket->why.msg);
	return 0;
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Returns why the socket's owner may not send: the socket's error, or -ESHUTDOWN after its own
 * close. 0: the owner may send. */
static int cannot_send(const struct inc_connect_socket *socket)
{
	return socket->error ? socket->error : socket->flow.close ? -ESHUTDOWN : 0;
}

int inc_connect_socket_send(struct inc_connect_socket *socket, const void *data, size_t size)
{
	const struct inc_connect_settings *s = &socket->settings;
	uint8_t *buffer;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	int ret = cannot_send(socket);

	if (ret)
		return ret;
	if (!size || size > s->buf_size)
		return -EMSGSIZE;
	if (!connect_flow_postable(&socket->flow, CONNECT_WR_MESSAGE))
		return -EAGAIN;
	/* this send buffer is free, because the send queue has room, so its last message has
	 * completed */
	buffer = socket->memory + socket->flow.sent % s->send_buf_cnt * s->buf_size;
	memcpy(buffer, data, size);
	sge = (struct ibv_sge){(uintptr_t)buffer, size, socket->mr->lkey};
	number_request(socket, &wr, CONNECT_WR_MESSAGE, size, false);
	ret = post(socket, &wr);
	if (ret)
		return ret;
	socket->bytes_sent += size;
	connect_count(&connect_socket_figures(socket)->sent_bytes, size);
	return 0;
}

int inc_connect_socket_flush(struct inc_connect_socket *socket)
{
	struct connect_flow *flow = &socket->flow;

	if (connect_flow_ended(flow, flow->last_message))
		return socket->error;
	/* A WRITE asks for a completion after the last message, if no signalled request follows
	 * that. After the close nothing can be posted, but the close's own completion proves the
	 * same. */
	if (!socket->error && flow->last_message > flow->signalled &&
	    connect_flow_postable(flow, CONNECT_WR_WRITE))
		post_empty_write(socket);
	return socket->error ? socket->error : -EAGAIN;
}

static const struct connect_message *oldest(const struct inc_connect_socket *socket)
{
	return &socket->messages[socket->flow.released % socket->settings.send_buf_cnt];
}

int inc_connect_socket_receive(struct inc_connect_socket *socket, const void **data, size_t *size)
{
	if (!connect_flow_held(&socket->flow))
		return socket->error ? socket->error : -EAGAIN;
	*data = connect_receive_buffer(socket, oldest(socket)->buffer);
	*size = oldest(socket)->bytes;
	return 0;
}

int inc_connect_socket_release(struct inc_connect_socket *socket)
{
	if (!connect_flow_held(&socket->flow))
		return -EINVAL;
	/* The buffer must be posted before an ACK gives it back, because the peer may use it at
	 * once. */
	if (!socket->error)
		connect_socket_post_receive(socket, oldest(socket)->buffer);
	connect_flow_release(&socket->flow);
	if (!socket->error)
		connect_socket_post_ack_if_due(socket);
	return 0;
}

/* ---- transfers ------------------------------------------------------------------------------ */

static int check_transfers(const struct inc_connect_socket *socket,
			   const struct inc_connect_transfer *transfers, uint32_t n)
{
	const struct inc_connect_transfer *t;
	uint32_t key;

	if (!n || n > socket->settings.max_rdma_wr_per_post)
		return -EINVAL;
	for (t = transfers; t < transfers + n; t++) {
		if (!t->size || !connect_region_has(t->region, socket, t->local, t->size, &key))
			return -EINVAL;
		if (t->size > socket->max_transfer_bytes)
			return -EMSGSIZE;
	}
	return 0;
}

/* Posts n transfers, POST_BATCH at most. If `last` is set, these are the end of the caller's list,
 * so the last of them is signalled. */
static int post_transfers(struct inc_connect_socket *socket, enum connect_wr_kind kind,
			  const struct inc_connect_transfer *t, uint32_t n, bool last)
{
	struct ibv_send_wr wr[POST_BATCH];
	struct ibv_sge sge[POST_BATCH];
	uint32_t i;

	for (i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)t[i].local, .length = t[i].size};
		connect_region_has(t[i].region, socket, t[i].local, t[i].size, &sge[i].lkey);
		wr[i] = (struct ibv_send_wr){
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.opcode = kind == CONNECT_WR_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			.sg_list = &sge[i],
			.num_sge = 1,
			.wr.rdma = {t[i].remote_address, t[i].remote_key},
		};
		number_request(socket, &wr[i], kind, t[i].size, last && i + 1 == n);
	}
	return post(socket, wr);
}

int inc_connect_socket_transfer(struct inc_connect_socket *socket,
				enum inc_connect_direction direction,
				const struct inc_connect_transfer *transfers, uint32_t n,
				uint64_t *ticket)
{
	const enum connect_wr_kind kind =
		direction == INC_CONNECT_READ ? CONNECT_WR_READ : CONNECT_WR_WRITE;
	uint32_t at, now;
	int ret = cannot_send(socket) ?: check_transfers(socket, transfers, n);

	if (ret)
		return ret;
	if (connect_flow_postable(&socket->flow, kind) < n)
		return -EAGAIN;
	for (at = 0; at < n && !ret; at += now) {
		now = n - at < POST_BATCH ? n - at : POST_BATCH;
		ret = post_transfers(socket, kind, transfers + at, now, at + now == n);
	}
	*ticket = socket->flow.posted;
	return ret;
}

int inc_connect_socket_transferred(struct inc_connect_socket *socket, uint64_t ticket)
{
	if (connect_flow_ended(&socket->flow, ticket))
		return 0;
	return socket->error ? socket->error : -EAGAIN;
}

int inc_connect_socket_check(struct inc_connect_socket *socket)
{
	const int ret = cannot_send(socket);

	if (ret)
		return ret;
	if (!connect_flow_ended(&socket->flow, socket->check) ||
	    !connect_flow_postable(&socket->flow, CONNECT_WR_WRITE))
		return -EAGAIN;
	socket->check = socket->flow.posted + 1;
	return post_empty_write(socket);
}

int inc_connect_socket_close(struct inc_connect_socket *socket)
{
	connect_socket_step(socket, CONNECT_EVENT_CLOSE);
	if (socket->state == CONNECT_CLOSED)
		return 0;
	return socket->error ? socket->error : -EAGAIN;
}
