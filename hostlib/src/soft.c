/* SPDX-License-Identifier: BSD-2-Clause */
/* The soft transport's life and its queue; soft_mtu.c says how long packets may be, soft_tx.c
 * sends, soft_rx.c receives. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "hostlib/src/soft.h"

/* Of the socket, each way, where we are allowed. */
#define SOFT_BUFFER_BYTES (4 << 20)

int soft_fail(struct soft_endpoint *s, int error, const char *fmt, ...)
{
	va_list ap;

	if (!s->failed) {
		s->failed = error;
		va_start(ap, fmt);
		vsnprintf(s->ep.error, sizeof(s->ep.error), fmt, ap);
		va_end(ap);
	}
	return -s->failed;
}

static int soft_probe(const struct inccl_open_opts *opts, struct inc_err *why)
{
	inc_err_set(why, 1, "needs no device");
	return 0;
}

static void choose_window(const struct inccl_open_opts *opts, int rcvbuf, struct inccl_own *own)
{
	unsigned int packets = INCCL_DEFAULT_WINDOW, fit = rcvbuf / SOFT_RECV_TRUESIZE;

	own->most_packets = fit < INCCL_MESSAGES_WINDOW ? fit : INCCL_MESSAGES_WINDOW;
	if (opts->window_messages) {
		own->window_messages = opts->window_messages;
		return;
	}
	if (packets > fit) {
		packets = fit;
		opts->log(opts->log_ctx,
			  "soft: a receive buffer of %d bytes holds %u packets (net.core.rmem_max)",
			  rcvbuf, fit);
	}
	own->window_messages =
		packets > opts->message_packets ? packets / opts->message_packets : 1;
}

static void soft_close(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	inc_udp_close(&s->udp);
	inc_udp_inbox_free(&s->inbox);
	inc_ip_ids_free(&s->ids);
	free(s->tx.ring);
	free(s->results);
	free(s);
}

static int setup_socket(struct soft_endpoint *s, const struct inccl_open_opts *opts,
			struct inccl_own *own, struct inc_err *err)
{
	struct in_addr addr = {opts->addr};
	char text[INET_ADDRSTRLEN];
	int ret;

	ret = inc_udp_open(&s->udp, addr, 0, SOFT_BUFFER_BYTES, err);
	if (!ret)
		ret = soft_choose_payload(s->udp.fd, opts, &own->payload, err);
	if (ret)
		return ret;
	inet_ntop(AF_INET, &addr, text, sizeof(text));
	choose_window(opts, s->udp.rcvbuf, own);
	own->udp_port = s->udp.port;
	own->udp_csum = s->udp.gro;
	snprintf(own->device, sizeof(own->device), "%s:%u", text, own->udp_port);
	s->tx.to.path.saddr = s->from_peer.daddr = opts->addr;
	s->tx.to.path.sport = s->from_peer.dport = own->udp_port;
	s->tx.to.path.df = s->from_peer.df = true;
	return 0;
}

static int soft_open(const struct inccl_open_opts *opts, struct inccl_endpoint **out,
		     struct inccl_own *own, struct inc_err *err)
{
	struct soft_endpoint *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	s->ep.ops = &inccl_soft;
	s->udp.fd = -1;
	ret = setup_socket(s, opts, own, err);
	if (ret)
		goto fail;
	ret = inc_udp_inbox_init(&s->inbox);
	if (!ret)
		ret = inc_ip_ids_init(&s->ids, false);
	if (ret) {
		inc_err_set(err, -ret, "%s", strerror(-ret));
		goto fail;
	}
	ret = inc_random_qpn(INC_MIN_QPN, &s->own_qpn, err);
	ret = ret ?: inc_random24(&s->next_rkey, err);
	if (ret)
		goto fail;
	s->tx.start_psn = opts->start_psn & INC_PSN_MASK;
	s->tx.to.pkey = INC_PKEY_DEFAULT;
	s->tx.log = opts->log;
	s->tx.log_ctx = opts->log_ctx;
	inc_requester_init(&s->tx, SOFT_RTO_MIN_NS, SOFT_RTO_MAX_NS);
	s->gap_r = UINT64_MAX;
	s->ep.tell_at_ns = UINT64_MAX;
	s->took_ns = INC_ACK_HOLD_NS;
	own->qpn = s->own_qpn;
	own->psn = s->tx.start_psn;
	own->pkey = s->tx.to.pkey;
	*out = &s->ep;
	return 0;
fail:
	soft_close(&s->ep);
	return ret;
}

static int soft_connect(struct inccl_endpoint *ep, const struct inccl_peer *peer,
			struct inc_err *err)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	unsigned int wire = peer->payload + INC_MAX_HEAD_LEN + INC_ICRC_LEN;
	struct inc_tx_peer *to = &s->tx.to;
	int ret;

	s->tx.ring = calloc(peer->slots, sizeof(*s->tx.ring));
	s->results = calloc(peer->slots, sizeof(*s->results));
	if (!s->tx.ring || !s->results)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	s->tx.slots = peer->slots;
	s->payload = peer->payload;
	to->addr.sin_family = AF_INET;
	to->addr.sin_addr.s_addr = peer->addr;
	to->addr.sin_port = htons(peer->udp_port);
	to->path.daddr = s->from_peer.saddr = peer->addr;
	to->path.dport = s->from_peer.sport = peer->udp_port;
	inc_icrc_usual_init(&to->usual, &to->path, s->payload);
	inc_ip_ids_expect(&s->ids, &s->from_peer, s->payload);
	ret = soft_check_route(s, err);
	if (ret)
		return ret;
	to->qpn = peer->qpn;
	s->peer_psn = peer->psn;
	s->by_message = peer->by_message;
	/* A termination switch holds a result's memory until we acknowledge it, and has memory for
	 * `messages` of them: acknowledge every quarter. In passthrough mode slots bound packets,
	 * and INC_ACK_EVERY is enough. */
	s->ack_every = peer->by_message ? peer->messages / 4 ?: 1 : UINT32_MAX;
	s->hold_packets = 2 * inc_segments_most(wire);
	if (s->hold_packets > s->tx.slots / 4)
		s->hold_packets = s->tx.slots / 4;
	return 0;
}

/* The soft endpoint reaches the caller's memory as it is; an R_Key of its own tells the
 * requests apart, and an address in a RETH is an offset in the buffer. */
static int soft_map(struct inccl_endpoint *ep, void *addr, size_t len, bool writable,
		    struct inccl_region *region)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	region->addr = addr;
	region->len = len;
	region->va = 0;
	region->rkey = s->next_rkey++;
	region->lkey = 0;
	region->priv = NULL;
	return 0;
}

static void soft_unmap(struct inccl_endpoint *ep, struct inccl_region *region)
{
}

_Static_assert(INC_OP_SEND_FIRST == 0 &&
		       INC_OP_WRITE_ONLY_IMM == INC_OP_WRITE_FIRST + INC_OP_SEND_ONLY_IMM,
	       "the opcodes of WRITE stand in the order of SEND's");

static uint8_t opcode_of(const struct inccl_message *msg, bool first, bool last)
{
	/* what is added to an opcode of SEND */
	uint8_t base = msg->mode == INCCL_MODE_WRITE ? INC_OP_WRITE_FIRST : INC_OP_SEND_FIRST;

	if (first && last)
		return base + (msg->has_imm ? INC_OP_SEND_ONLY_IMM : INC_OP_SEND_ONLY);
	if (first)
		return base;
	if (!last)
		return base + INC_OP_SEND_MIDDLE;
	return base + (msg->has_imm ? INC_OP_SEND_LAST_IMM : INC_OP_SEND_LAST);
}

static uint32_t part(uint32_t len, uint32_t offset, uint32_t payload)
{
	uint32_t left = len > offset ? len - offset : 0;

	return left < payload ? left : payload;
}

static uint64_t soft_under_way(const struct inccl_endpoint *ep)
{
	const struct soft_endpoint *s = SOFT_EP(ep);

	const uint64_t sent = s->tx.posted - s->tx_done, results = s->rx_posted - s->rx_done;

	return sent > results ? sent : results;
}

static uint32_t packets_of(const struct soft_endpoint *s, uint32_t len)
{
	return len ? (len + s->payload - 1) / s->payload : 1;
}

static void describe_sends(struct soft_endpoint *s, const struct inccl_message *msg, uint32_t n)
{
	const struct inccl_region *region = msg->recv_region;
	uint32_t i, offset;

	for (i = 0; i < n; i++) {
		struct inc_tx_packet *p = inc_requester_packet(&s->tx, s->tx.posted++);

		offset = i * s->payload;
		p->payload = (const uint8_t *)msg->send + offset;
		p->len = part(msg->send_len, offset, s->payload);
		p->va = region ? region->va + ((uint8_t *)msg->recv - (uint8_t *)region->addr) : 0;
		p->rkey = region ? region->rkey : 0;
		p->dmalen = msg->recv_len;
		p->imm = msg->imm;
		p->opcode = opcode_of(msg, i == 0, i + 1 == n);
		p->flags = i + 1 == n && msg->last ? INC_TX_ASK : 0;
	}
}

/* Of a message whose packets are described, from number first on. */
static void describe_results(struct soft_endpoint *s, const struct inccl_message *msg, uint32_t n,
			     uint64_t first)
{
	uint32_t i, offset;

	for (i = 0; i < n; i++) {
		struct soft_result *result = soft_result(s, s->rx_posted++);
		bool last = i + 1 == n;

		offset = i * s->payload;
		result->recv = (uint8_t *)msg->recv + offset;
		result->recv_len = part(msg->recv_len, offset, s->payload);
		result->kept = s->by_message ? s->tx.posted : first + i + 1;
		result->imm = msg->imm;
		result->opcode = opcode_of(msg, i == 0, last);
		result->flags = last ? SOFT_F_LAST | (msg->last ? SOFT_F_FLUSH : 0) : 0;
	}
}

static int soft_post(struct inccl_endpoint *ep, const struct inccl_message *msg)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint32_t sends = packets_of(s, msg->send_len), results = packets_of(s, msg->recv_len);
	const uint64_t first = s->tx.posted;

	/* nothing, in a message of one packet, is a packet, too */
	if (!s->by_message)
		sends = results = sends > results ? sends : results;
	if (s->tx.posted + sends - s->tx_done > s->tx.slots ||
	    s->rx_posted + results - s->rx_done > s->tx.slots)
		return -EAGAIN;
	describe_sends(s, msg, sends);
	describe_results(s, msg, results, first);
	s->ep.posted++;
	if (msg->last)
		s->tx_flush = s->tx.posted;
	return 0;
}

void soft_count(struct soft_endpoint *s)
{
	struct inccl_transport_stats *stats = &s->ep.stats;
	const struct inc_requester_figures *f = &s->tx.figures;

	stats->packets_sent = f->sent;
	stats->packets_resent = f->resent;
	stats->acks_received = f->acks;
	stats->naks_received = f->naks;
	stats->rnrs_received = f->rnrs;
	stats->timeouts = f->timeouts;
	stats->send_calls = s->udp.send_calls;
	stats->recv_calls = s->udp.recv_calls;
}

static int soft_progress(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint64_t now;
	int more;

	if (s->failed)
		return -s->failed;
	more = soft_receive(s);
	now = inc_now_ns();
	if (more >= 0) {
		inc_requester_timers(&s->tx, now);
		soft_answer(s, now);
	}
	soft_count(s);
	return more;
}

static int soft_arm(struct inccl_endpoint *ep, int *fd, short *events, uint64_t *deadline_ns)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint64_t at = inc_requester_deadline_ns(&s->tx);

	if (s->failed)
		return -s->failed;
	if (s->gap_r != UINT64_MAX && !s->gap_told && s->gap_at_ns + SOFT_GAP_NS < at)
		at = s->gap_at_ns + SOFT_GAP_NS;
	if (s->ep.tell_at_ns < at)
		at = s->ep.tell_at_ns;
	*fd = s->udp.fd;
	*events = s->udp.blocked ? POLLIN | POLLOUT : POLLIN;
	*deadline_ns = at;
	return 0;
}

static bool soft_kept_all(const struct inccl_endpoint *ep)
{
	const struct soft_endpoint *s = SOFT_EP(ep);

	return s->tx.acked == s->tx.posted;
}

static bool soft_quiet(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	return s->failed || (s->rx_done == s->rx_posted && s->rx_told == s->rx_done);
}

static uint64_t soft_moved(const struct inccl_endpoint *ep)
{
	const struct soft_endpoint *s = SOFT_EP(ep);

	return s->ep.stats.results + s->tx.acked;
}

static void soft_describe(struct inccl_endpoint *ep, char *buf, size_t size)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	if (s->tx.acked < s->tx.high)
		snprintf(buf, size,
			 "contribution %llu is not acknowledged (%llu sent, %llu timeouts%s%s)",
			 (unsigned long long)s->tx.acked, (unsigned long long)s->tx.high,
			 (unsigned long long)s->tx.figures.timeouts, s->udp.send_error ? ", " : "",
			 s->udp.send_error ? strerrordesc_np(s->udp.send_error) : "");
	else
		snprintf(buf, size,
			 "contributions are kept, result %llu is missing (other ranks are late, "
			 "or it was lost)",
			 (unsigned long long)s->rx_done);
}

const struct inccl_transport inccl_soft = {
	.name = "soft",
	.kind = INCCL_TRANSPORT_SOFT,
	.probe = soft_probe,
	.open = soft_open,
	.connect = soft_connect,
	.close = soft_close,
	.abandon = soft_close,
	.map = soft_map,
	.unmap = soft_unmap,
	.under_way = soft_under_way,
	.post = soft_post,
	.flush = soft_flush,
	.progress = soft_progress,
	.arm = soft_arm,
	.kept = soft_kept_all,
	.quiet = soft_quiet,
	.moved = soft_moved,
	.describe = soft_describe,
};
