/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <arpa/inet.h>
#include "selftests/hostlib/soft_endpoint.h"

static void no_log(void *ctx, const char *fmt, ...)
{
}

static struct inccl_endpoint *pair(struct rc_peer *p, const struct endpoint_form *form,
				   uint32_t host_psn, uint32_t own_psn)
{
	const struct inccl_open_opts open = {
		.addr = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
		.payload = form->payload,
		.message_packets = form->message_packets,
		.window_messages = form->messages ?: form->slots,
		.start_psn = host_psn,
		.log = no_log,
	};
	const struct inc_channel_peer remote = {
		.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
		.end.udp_port = rc_peer_open(p),
		.end.qpn = RC_PEER_QPN,
		.end.psn = own_psn,
		.payload = form->payload,
		.packets = form->slots,
		.by_message = form->messages,
		.messages = form->messages,
		.answers_probes = form->answers_probes,
		.reorder = form->reorder,
		.rto_min_ns = form->rto_min_ns,
		.name = "peer",
	};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err = {""};

	if (inccl_endpoint_open(&endpoint_soft, &open, &ep, &local, &err))
		fail_msg("open: %s", err.msg);
	assert_int_equal(local.payload, form->payload);
	assert_int_equal(local.end.psn, host_psn);
	rc_peer_connect(p, local.end.udp_port, local.end.qpn, host_psn, own_psn);
	if (inccl_endpoint_connect(ep, &remote, &err))
		fail_msg("connect: %s", err.msg);
	return ep;
}

struct inccl_endpoint *endpoint_pair(struct rc_peer *p, unsigned int payload, unsigned int slots,
				     uint32_t host_psn, uint32_t own_psn)
{
	const struct endpoint_form form = {
		.payload = payload, .slots = slots, .message_packets = 1};

	return pair(p, &form, host_psn, own_psn);
}

struct inccl_endpoint *endpoint_pair_of(struct rc_peer *p, const struct endpoint_form *form)
{
	return pair(p, form, 0, 0);
}

void endpoint_pair_close(struct rc_peer *p, struct inccl_endpoint *ep)
{
	inccl_endpoint_close(ep);
	rc_peer_close(p);
}

void endpoint_post_packets(struct inccl_endpoint *ep, const struct endpoint_vectors *v,
			   unsigned int first, unsigned int end, bool last)
{
	unsigned int i;

	for (i = first; i < end; i++) {
		struct inc_channel_exchange msg = {
			.send = v->send + i * v->payload,
			.recv = v->recv + i * v->payload,
			.send_len = v->payload,
			.recv_len = v->payload,
			.send_region = v->region,
			.recv_region = v->region,
			.has_imm = i == first,
			.last = last && i + 1 == end,
		};

		assert_int_equal(inccl_endpoint_post(ep, &msg), 0);
	}
}

void endpoint_serve(struct inccl_endpoint *ep)
{
	assert_true(inccl_endpoint_progress(ep) >= 0);
	assert_int_equal(inccl_endpoint_flush(ep), 0);
}

int mirror_setup(void **state, bool reorder)
{
	const struct endpoint_form form = {.payload = MIRROR_PAYLOAD,
					   .slots = MIRROR_SLOTS,
					   .message_packets = 1,
					   .answers_probes = true,
					   .reorder = reorder};
	struct mirror_fixture *w = calloc(1, sizeof(*w));

	*state = w;
	if (!w)
		return -1;
	w->ep = endpoint_pair_of(&w->peer, &form);
	w->tx = &endpoint_channel(w->ep)->tx;
	w->tx->rto.rto_ns = w->tx->rto.min_ns = INCCL_RTO_MAX_NS;
	return inccl_endpoint_map(w->ep, w->recv, sizeof(w->recv), true, &w->region);
}

int mirror_teardown(void **state)
{
	struct mirror_fixture *w = *state;

	endpoint_pair_close(&w->peer, w->ep);
	free(w);
	return 0;
}
