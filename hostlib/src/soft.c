/* SPDX-License-Identifier: BSD-2-Clause */
/* The soft transport's life and its queue; soft_mtu.c says how long packets may be, soft_tx.c
 * sends, soft_rx.c receives. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"

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

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* As large as we are allowed; returns what it came to. */
static int grow_buffer(int fd, int force, int plain, int bytes)
{
	socklen_t len = sizeof(int);
	int got = 0;

	if (set_option(fd, SOL_SOCKET, force, bytes))
		set_option(fd, SOL_SOCKET, plain, bytes);
	getsockopt(fd, SOL_SOCKET, plain, &got, &len);
	return got;
}

static unsigned int choose_window(const struct inccl_open_opts *opts, int rcvbuf)
{
	unsigned int packets = INCCL_DEFAULT_WINDOW, fit = rcvbuf / SOFT_RECV_TRUESIZE;

	if (opts->window)
		return opts->window;
	if (packets > fit) {
		packets = fit;
		opts->log(opts->log_ctx,
			  "soft: a receive buffer of %d bytes holds %u packets (net.core.rmem_max)",
			  rcvbuf, fit);
	}
	return packets > opts->message_packets ? packets / opts->message_packets : 1;
}

static void soft_close(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	if (s->fd >= 0)
		close(s->fd);
	free(s->rx_buf);
	free(s->ring);
	free(s);
}

static int setup_socket(struct soft_endpoint *s, const struct inccl_open_opts *opts,
			struct inccl_local *local, struct inc_err *err)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = opts->addr};
	socklen_t len = sizeof(own);
	char text[INET_ADDRSTRLEN];
	int ret;

	inet_ntop(AF_INET, &opts->addr, text, sizeof(text));
	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return inc_err_set(err, errno, "UDP socket: %s", strerror(errno));
	if (bind(s->fd, (struct sockaddr *)&own, sizeof(own)) ||
	    getsockname(s->fd, (struct sockaddr *)&own, &len))
		return inc_err_set(err, errno, "UDP socket on %s: %s", text, strerror(errno));
	/* DF and no connect(): the kernel then sends IP ID 0, which the ICRC covers. PROBE sets DF
	 * as DO does, but does not let ICMP, which anybody can forge, say how much may be sent. */
	ret = set_option(s->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	if (ret)
		return inc_err_set(err, -ret, "IP_MTU_DISCOVER: %s", strerror(-ret));
	s->segment = !set_option(s->fd, IPPROTO_UDP, UDP_SEGMENT, 0);
	s->rcv_gro = !set_option(s->fd, IPPROTO_UDP, UDP_GRO, 1);
	grow_buffer(s->fd, SO_SNDBUFFORCE, SO_SNDBUF, 4 << 20);
	ret = soft_choose_payload(s->fd, opts, &local->payload, err);
	if (ret)
		return ret;
	local->window = choose_window(opts, grow_buffer(s->fd, SO_RCVBUFFORCE, SO_RCVBUF, 4 << 20));
	local->udp_port = ntohs(own.sin_port);
	local->udp_csum = s->rcv_gro;
	snprintf(local->device, sizeof(local->device), "%s:%u", text, local->udp_port);
	s->to_peer.saddr = s->from_peer.daddr = opts->addr;
	s->to_peer.sport = s->from_peer.dport = local->udp_port;
	s->to_peer.df = s->from_peer.df = true;
	return 0;
}

static int soft_open(const struct inccl_open_opts *opts, struct inccl_endpoint **out,
		     struct inccl_local *local, struct inc_err *err)
{
	struct soft_endpoint *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	s->ep.ops = &inccl_soft;
	s->fd = -1;
	ret = setup_socket(s, opts, local, err);
	if (ret)
		goto fail;
	s->rx_buf = malloc(SOFT_RECVS * SOFT_RECV_BYTES);
	if (!s->rx_buf) {
		ret = inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
		goto fail;
	}
	s->own_psn = opts->start_psn & INC_PSN_MASK;
	do {
		s->own_qpn = inccl_random24();
	} while (s->own_qpn < INC_MIN_QPN || s->own_qpn > INC_MAX_QPN);
	s->pkey = INC_PKEY_DEFAULT;
	s->next_rkey = inccl_random24();
	s->log = opts->log;
	s->log_ctx = opts->log_ctx;
	s->single_pause_ns = SOFT_SINGLE_PAUSE_NS;
	inc_rto_init(&s->rto, SOFT_RTO_FIRST_NS, SOFT_RTO_MIN_NS, SOFT_RTO_MAX_NS);
	s->rto_at_ns = UINT64_MAX;
	s->gap_r = UINT64_MAX;
	s->ep.tell_at_ns = UINT64_MAX;
	s->took_ns = SOFT_ACK_HOLD_NS;
	local->qpn = s->own_qpn;
	local->psn = s->own_psn;
	local->pkey = s->pkey;
	*out = &s->ep;
	return 0;
fail:
	soft_close(&s->ep);
	return ret;
}

static int soft_connect(struct inccl_endpoint *ep, const struct inccl_remote *remote,
			struct inc_err *err)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	unsigned int wire = remote->payload + SOFT_MAX_HEAD + INC_ICRC_LEN;
	int ret;

	s->ring = calloc(remote->slots, sizeof(*s->ring));
	if (!s->ring)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	s->slots = remote->slots;
	s->payload = remote->payload;
	s->peer.sin_family = AF_INET;
	s->peer.sin_addr.s_addr = remote->addr;
	s->peer.sin_port = htons(remote->udp_port);
	s->to_peer.daddr = s->from_peer.saddr = remote->addr;
	s->to_peer.dport = s->from_peer.sport = remote->udp_port;
	ret = soft_check_route(s, err);
	if (ret)
		return ret;
	s->peer_qpn = remote->qpn;
	s->peer_psn = remote->psn;
	s->hold = 2 * (SOFT_MAX_SEND_BYTES / wire);
	if (s->hold > 2 * SOFT_MAX_SEGMENTS)
		s->hold = 2 * SOFT_MAX_SEGMENTS;
	if (s->hold > s->slots / 4)
		s->hold = s->slots / 4;
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

	return s->tx_posted - s->rx_done;
}

static int soft_post(struct inccl_endpoint *ep, const struct inccl_message *msg)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint32_t len = msg->send_len > msg->recv_len ? msg->send_len : msg->recv_len;
	uint32_t packets = len ? (len + s->payload - 1) / s->payload : 1, i, offset;
	const struct inccl_region *region = msg->recv_region;

	if (s->tx_posted + packets - s->rx_done > s->slots)
		return -EAGAIN;
	for (i = 0; i < packets; i++) {
		struct soft_packet *p = soft_packet(s, s->tx_posted);

		offset = i * s->payload;
		p->send = (const uint8_t *)msg->send + offset;
		p->recv = (uint8_t *)msg->recv + offset;
		p->send_len = part(msg->send_len, offset, s->payload);
		p->recv_len = part(msg->recv_len, offset, s->payload);
		p->va = region ? region->va + ((uint8_t *)msg->recv - (uint8_t *)region->addr) : 0;
		p->rkey = region ? region->rkey : 0;
		p->dmalen = msg->recv_len;
		p->imm = msg->imm;
		p->opcode = opcode_of(msg, i == 0, i + 1 == packets);
		p->flags = i + 1 == packets ? SOFT_F_LAST | (msg->last ? SOFT_F_FLUSH : 0) : 0;
		s->tx_posted++;
	}
	s->ep.posted++;
	if (msg->last)
		s->tx_flush = s->tx_posted;
	return 0;
}

static int soft_progress(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint64_t now;
	int more;

	if (s->failed)
		return -s->failed;
	more = soft_receive(s);
	if (more < 0)
		return more;
	now = inc_now_ns();
	soft_timers(s, now);
	soft_answer(s, now);
	return more;
}

static int soft_arm(struct inccl_endpoint *ep, int *fd, short *events, uint64_t *deadline_ns)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint64_t at = s->rto_at_ns;

	if (s->failed)
		return -s->failed;
	if (s->rnr_over_at_ns && s->rnr_over_at_ns < at)
		at = s->rnr_over_at_ns;
	if (s->gap_r != UINT64_MAX && !s->gap_told && s->gap_at_ns + SOFT_GAP_NS < at)
		at = s->gap_at_ns + SOFT_GAP_NS;
	if (s->ep.tell_at_ns < at)
		at = s->ep.tell_at_ns;
	*fd = s->fd;
	*events = s->blocked ? POLLIN | POLLOUT : POLLIN;
	*deadline_ns = at;
	return 0;
}

static bool soft_kept_all(const struct inccl_endpoint *ep)
{
	const struct soft_endpoint *s = SOFT_EP(ep);

	return s->tx_acked == s->tx_posted;
}

static bool soft_quiet(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	return s->failed || (s->rx_done == s->tx_posted && s->rx_told == s->rx_done);
}

static uint64_t soft_moved(const struct inccl_endpoint *ep)
{
	const struct soft_endpoint *s = SOFT_EP(ep);

	return s->ep.stats.results + s->tx_acked;
}

static void soft_describe(struct inccl_endpoint *ep, char *buf, size_t size)
{
	struct soft_endpoint *s = SOFT_EP(ep);

	if (s->tx_acked < s->tx_high)
		snprintf(buf, size,
			 "contribution %llu is not acknowledged (%llu sent, %llu timeouts%s%s)",
			 (unsigned long long)s->tx_acked, (unsigned long long)s->tx_high,
			 (unsigned long long)s->ep.stats.timeouts, s->send_error ? ", " : "",
			 s->send_error ? strerrordesc_np(s->send_error) : "");
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
