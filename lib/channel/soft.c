/* SPDX-License-Identifier: BSD-2-Clause */
/* Soft devices and channels: how they are made, connected and ended. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/machine.h"
#include "lib/base/numbers.h"
#include "lib/base/random.h"
#include "lib/conf/comm_conf.h"
#include "lib/net/netdev.h"
#include "lib/channel/soft_priv.h"

/* Changes the state in which a channel's life is (enum soft_life), which no other function does. */
static void soft_go(struct soft_channel *ch, enum soft_life to)
{
	static const char *const names[] = {"made", "connected", "broken", "ended"};
	static const uint32_t steps[] = {
		[SOFT_MADE] = INC_STEP(SOFT_CONNECTED) | INC_STEP(SOFT_ENDED),
		[SOFT_CONNECTED] = INC_STEP(SOFT_BROKEN) | INC_STEP(SOFT_ENDED),
		[SOFT_BROKEN] = INC_STEP(SOFT_ENDED),
		[SOFT_ENDED] = 0,
	};
	static const struct inc_machine machine = {"channel", SOFT_ENDED + 1, names, steps};

	ch->life = inc_machine_step(&machine, ch->what, ch->life, to);
	if (to == SOFT_BROKEN)
		ch->report = true;
}

/* A soft device reports no limit for packets, because a host's path decides how large they may be.
 * hostlib/src/path_mtu.c finds that size. */
static int soft_probe(const struct inc_channel_device_opts *opts, struct inc_channel_offer *out,
		      struct inc_err *why)
{
	unsigned int mtu;

	memset(out, 0, sizeof(*out));
	inc_addr_text(opts->own_ip, out->device);
	out->max_message_bytes = INC_MAX_MESSAGE_BYTES;
	out->max_messages = out->receive_packets = UINT32_MAX;
	inc_err_set(why, 0, "needs no device");
	if (!opts->ifname)
		return 0;
	mtu = inc_interface_mtu(opts->ifname);
	if (!mtu)
		return inc_err_set(why, ENODEV, "%s: no MTU to be read", opts->ifname);
	out->payload_bytes = inc_roce_payload(mtu, inc_roce_overhead(opts->own_ip));
	if (!out->payload_bytes)
		return inc_err_set(why, ENODEV, "%s: MTU %u is too small for a payload of %d",
				   opts->ifname, mtu, INC_MIN_PAYLOAD);
	return 0;
}

static struct soft_inbox *use_inbox(const struct inc_channel_device *beside)
{
	struct soft_inbox *inbox = beside ? SOFT_DEV(beside)->inbox : calloc(1, sizeof(*inbox));

	if (inbox && !inbox->users && inc_udp_inbox_init(&inbox->in)) {
		free(inbox);
		return NULL;
	}
	if (inbox)
		inbox->users++;
	return inbox;
}

static void leave_inbox(struct soft_inbox *inbox)
{
	if (--inbox->users)
		return;
	inc_udp_inbox_free(&inbox->in);
	free(inbox);
}

static int soft_open(const struct inc_channel_device_opts *opts, struct inc_channel_device **out,
		     struct inc_err *err)
{
	struct soft_device *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return inc_err_set(err, ENOMEM, "soft device: %s", strerror(ENOMEM));
	ret = inc_udp_open(&dev->udp, opts->own_ip, opts->udp_port,
			   opts->buffer_bytes ?: SOFT_BUFFER_BYTES, err);
	if (!ret) {
		dev->inbox = use_inbox(opts->beside);
		if (!dev->inbox)
			ret = inc_err_set(err, ENOMEM, "soft device: %s", strerror(ENOMEM));
	}
	if (ret) {
		inc_udp_close(&dev->udp);
		free(dev);
		return ret;
	}
	dev->dev.ops = &inc_channel_soft;
	dev->handler = opts->handler;
	dev->log = opts->log ?: inc_channel_log;
	dev->log_ctx = opts->log_ctx;
	dev->rto_min_ns = opts->rto_min_ns;
	dev->rto_max_ns = opts->rto_max_ns;
	dev->own_ip = opts->own_ip;
	dev->buffer_bytes = dev->granted_bytes = opts->buffer_bytes ?: SOFT_BUFFER_BYTES;
	TAILQ_INIT(&dev->channels);
	TAILQ_INIT(&dev->ended);
	TAILQ_INIT(&dev->gone);
	dev->due_at_ns = UINT64_MAX;
	*out = &dev->dev;
	return 0;
}

static void soft_offer(const struct inc_channel_device *d, struct inc_channel_offer *out)
{
	const struct soft_device *dev = (const struct soft_device *)d;
	const bool ipv4 = inc_addr_is_ipv4(dev->own_ip);
	char ip[INC_ADDR_TEXT];

	*out = (struct inc_channel_offer){
		.max_message_bytes = INC_MAX_MESSAGE_BYTES,
		.max_messages = UINT32_MAX,
		.receive_packets = dev->udp.rcvbuf / SOFT_RECV_TRUESIZE,
		.udp_csum = dev->udp.gro,
		.reorder = true,
	};
	snprintf(out->device, sizeof(out->device), ipv4 ? "%s:%u" : "[%s]:%u",
		 inc_addr_text(dev->own_ip, ip), dev->udp.port);
}

static void soft_close(struct inc_channel_device *d)
{
	struct soft_device *dev = SOFT_DEV(d);
	struct soft_channel *ch;
	unsigned int i;

	while ((ch = TAILQ_FIRST(&dev->ended)))
		inc_soft_forget(ch);
	inc_udp_close(&dev->udp);
	leave_inbox(dev->inbox);
	for (i = 0; i < sizeof(dev->jump) / sizeof(*dev->jump); i++)
		free(dev->jump[i]);
	free(dev);
}

static void soft_abandon(struct inc_channel_device *d)
{
	struct soft_device *dev = SOFT_DEV(d);
	struct soft_channel *ch;

	while ((ch = TAILQ_FIRST(&dev->channels)))
		inc_soft_forget(ch);
	soft_close(d);
}

/* Makes a region of memory. A soft device registers nothing, because the kernel accesses any memory
 * of the process. It numbers R_Keys itself to tell regions apart, and an address in a RETH is an
 * offset in the region. */
static int soft_map(struct inc_channel_device *d, void *addr, size_t len,
		    enum inc_channel_access access, struct inc_channel_region *region,
		    struct inc_err *err)
{
	*region = (struct inc_channel_region){
		.addr = addr, .len = len, .rkey = SOFT_DEV(d)->next_rkey++};
	return 0;
}

static void soft_unmap(struct inc_channel_device *d, struct inc_channel_region *region)
{
}

struct soft_channel *inc_soft_find(struct soft_device *dev, uint32_t qpn, struct inc_addr own_ip)
{
	struct soft_channel *ch;

	LIST_FOREACH (ch, &dev->bucket[qpn % SOFT_BUCKETS], in_bucket)
		if (ch->own_qpn == qpn && inc_addr_same(ch->own_ip, own_ip))
			return ch;
	return NULL;
}

/* Returns the queue pair number that was asked for, or any number that no channel at the address
 * has. */
static int choose_qpn(struct soft_device *dev, struct inc_addr own_ip, uint32_t wanted,
		      uint32_t *qpn, struct inc_err *err)
{
	struct soft_channel *ch;
	int ret;

	*qpn = wanted;
	while (!*qpn) {
		ret = inc_random_qpn(INC_MIN_QPN, qpn, err);
		if (ret)
			return ret;
		if (inc_soft_find(dev, *qpn, own_ip))
			*qpn = 0;
	}
	if (*qpn < INC_MIN_QPN || *qpn > INC_MAX_QPN)
		return inc_err_set(err, EINVAL, "queue pair %u: numbers go from %u to %u", *qpn,
				   INC_MIN_QPN, INC_MAX_QPN);
	ch = inc_soft_find(dev, *qpn, own_ip);
	if (ch && ch->life != SOFT_ENDED)
		return inc_err_set(err, EADDRINUSE, "queue pair %u is taken (%s)", *qpn, ch->what);
	if (ch)
		inc_soft_forget(ch);
	return 0;
}

static int use_jump(struct soft_device *dev, struct soft_channel *ch)
{
	struct inc_crc32_jump **jump = &dev->jump[__builtin_ctz(ch->payload / INC_MIN_PAYLOAD)];

	if (!*jump) {
		*jump = malloc(sizeof(**jump));
		if (!*jump)
			return -ENOMEM;
		inc_crc32_jump_init(*jump, ch->payload);
	}
	ch->tx.to.jump = *jump;
	return 0;
}

static int allocate(struct soft_device *dev, struct soft_channel *ch)
{
	const uint64_t of_one = (ch->max_message_bytes + ch->payload - 1) / ch->payload ?: 1;
	const uint64_t packets = of_one * ch->messages;

	ch->tx.slots = inc_pow2_up(packets < SOFT_MAX_RING ? packets : SOFT_MAX_RING);
	ch->tx.ring = calloc(ch->tx.slots, sizeof(*ch->tx.ring));
	ch->sends = calloc(ch->messages, sizeof(*ch->sends));
	ch->buffers = calloc(ch->messages, sizeof(*ch->buffers));
	if (!ch->tx.ring || !ch->sends || !ch->buffers)
		return -ENOMEM;
	return use_jump(dev, ch);
}

/* Frees the memory that an ended channel does not need any more. */
static void free_rings(struct soft_channel *ch)
{
	free(ch->tx.ring);
	free(ch->sends);
	free(ch->buffers);
	inc_soft_mirror_free(ch);
	ch->tx.ring = NULL;
	ch->sends = NULL;
	ch->buffers = NULL;
}

static void release(struct soft_channel *ch)
{
	free_rings(ch);
	inc_soft_leave_port(ch);
	inc_ip_ids_free(&ch->ids);
	free(ch);
}

static void log_of_channel(void *ctx, const char *fmt, ...)
{
	const struct soft_channel *ch = ctx;
	const struct soft_device *dev = soft_device_of(ch);
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dev->log(dev->log_ctx, INC_LOG_WARN, "%s: %s", ch->what, text);
}

static int check(const struct inc_channel_opts *opts, struct inc_err *err)
{
	if (!inc_rc_payload_ok(opts->payload))
		return inc_err_set(err, EINVAL, "%s: payload %u: %s", opts->what, opts->payload,
				   INC_RC_PAYLOADS_TEXT);
	if (opts->max_message_bytes > INC_MAX_MESSAGE_BYTES)
		return inc_err_set(err, EINVAL, "%s: messages of %u bytes: %u at most", opts->what,
				   opts->max_message_bytes, INC_MAX_MESSAGE_BYTES);
	if (!opts->messages)
		return inc_err_set(err, EINVAL, "%s: no messages", opts->what);
	if (opts->verbs && opts->verbs->sl > INC_MAX_SOFT_SL)
		return inc_err_set(err, EINVAL, "%s: sl %d: %d at most", opts->what,
				   opts->verbs->sl, INC_MAX_SOFT_SL);
	return 0;
}

static int soft_make(struct inc_channel_device *d, const struct inc_channel_opts *opts,
		     struct inc_channel **out, struct inc_channel_own *own, struct inc_err *err)
{
	struct soft_device *dev = SOFT_DEV(d);
	struct soft_channel *ch;
	int ret = check(opts, err);

	if (ret)
		return ret;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return inc_err_set(err, ENOMEM, "%s: %s", opts->what, strerror(ENOMEM));
	ch->ch.dev = d;
	ret = inc_soft_place(ch, opts, err);
	ret = ret ?: choose_qpn(dev, ch->own_ip, opts->own.qpn, &ch->own_qpn, err);
	if (!ret && opts->mirrored)
		ret = inc_random24(&dev->next_rkey, err);
	if (ret)
		goto fail;
	ch->ctx = opts->ctx;
	ch->payload = opts->payload;
	ch->max_message_bytes = opts->max_message_bytes;
	ch->messages = opts->messages;
	ch->ack_at_ns = ch->closing_at_ns = UINT64_MAX;
	snprintf(ch->what, sizeof(ch->what), "%s", opts->what);
	ch->tx.start_psn = opts->own.psn & INC_PSN_MASK;
	ch->tx.to.pkey = opts->pkey;
	ch->tx.to.se = opts->se;
	ch->tx.to.tos = opts->verbs ? opts->verbs->traffic_class : 0;
	ch->tx.to.priority = opts->verbs ? opts->verbs->sl : 0;
	ch->peer_se = opts->peer_se;
	ch->class_seen = opts->class_seen;
	ch->tx.log = log_of_channel;
	ch->tx.log_ctx = ch;
	inc_requester_init(&ch->tx, dev->rto_min_ns, dev->rto_max_ns);
	ret = opts->mirrored ? inc_soft_mirror_new(ch) : allocate(dev, ch);
	if (ret) {
		inc_err_set(err, -ret, "%s: %s", opts->what, strerror(-ret));
		goto fail;
	}
	LIST_INSERT_HEAD(&dev->bucket[ch->own_qpn % SOFT_BUCKETS], ch, in_bucket);
	TAILQ_INSERT_TAIL(&dev->channels, ch, in_all);
	dev->n_mirrored += opts->mirrored;
	own->end = opts->own;
	own->end.qpn = ch->own_qpn;
	own->end.psn = ch->tx.start_psn;
	own->end.udp_port = dev->udp.port;
	own->pkey = opts->pkey;
	*out = &ch->ch;
	return 0;
fail:
	release(ch);
	return ret;
}

static int soft_connect(struct inc_channel *c, const struct inc_channel_peer *peer,
			struct inc_err *err)
{
	struct soft_channel *ch = SOFT_CH(c);
	struct inc_tx_peer *to = &ch->tx.to;
	int ret;

	if (ch->life != SOFT_MADE)
		return inc_err_set(err, EALREADY, "%s: has its peer", ch->what);
	if (inc_addr_is_ipv4(ch->own_ip) != inc_addr_is_ipv4(peer->end.ip))
		return inc_err_set(err, EAFNOSUPPORT,
				   "%s: this end has an %s address, and the peer an %s address",
				   ch->what, inc_addr_family(ch->own_ip),
				   inc_addr_family(peer->end.ip));
	inc_soft_set_paths(ch, &peer->end);
	ret = inc_ip_ids_init(&ch->ids, &ch->from_peer, peer->any_ip_id);
	if (!ret && ch->mirror)
		ret = inc_soft_mirror_connect(ch, peer);
	if (ret)
		return inc_err_set(err, -ret, "%s: %s", ch->what, strerror(-ret));
	to->qpn = peer->end.qpn;
	inc_icrc_usual_init(&to->usual, &to->path, ch->payload);
	inc_ip_ids_expect(&ch->ids, &ch->from_peer, ch->payload);
	ch->peer_psn = peer->end.psn & INC_PSN_MASK;
	ch->ack_behind = !peer->results_acknowledge;
	/* A peer that is an RDMA device sends no further packets until it has an ACK, so it gets
	 * ACKs more often. If the peer counts by messages, it is a switch, whose devices are at the
	 * UDP port of RoCEv2. A switch at another port is no device, so it gets fewer ACKs. */
	ch->ack_every = peer->results_acknowledge || (peer->by_message &&
						      peer->end.udp_port != INC_ROCE_UDP_PORT)
				? SOFT_ACK_MOST
				: INC_ACK_EVERY;
	ch->to_switch = peer->is_switch;
	soft_go(ch, SOFT_CONNECTED);
	soft_activate(ch);
	return 0;
}

static int soft_post(struct inc_channel *c, void *buffer)
{
	struct soft_channel *ch = SOFT_CH(c);

	if (ch->n_posted + !!ch->filling == ch->messages)
		return -ENOBUFS;
	ch->buffers[ch->n_posted++] = buffer;
	return 0;
}

void inc_soft_lose(struct soft_channel *ch, enum inc_channel_reason reason, int error,
		   const char *fmt, ...)
{
	va_list ap;

	if (ch->life != SOFT_CONNECTED)
		return;
	soft_go(ch, SOFT_BROKEN);
	ch->loss.reason = reason;
	ch->loss.error = error;
	va_start(ap, fmt);
	vsnprintf(ch->loss.text, sizeof(ch->loss.text), fmt, ap);
	va_end(ap);
	soft_due(soft_device_of(ch), 0);
}

static void take_out(struct soft_channel *ch)
{
	struct soft_device *dev = soft_device_of(ch);

	if (ch->life == SOFT_ENDED) {
		TAILQ_REMOVE(&dev->ended, ch, in_all);
		dev->n_ended--;
	} else {
		TAILQ_REMOVE(&dev->channels, ch, in_all);
		dev->n_mirrored -= !!ch->mirror;
	}
	if (ch->active)
		SLIST_REMOVE(&dev->active, ch, soft_channel, next_active);
	ch->active = false;
}

void inc_soft_forget(struct soft_channel *ch)
{
	struct soft_device *dev = soft_device_of(ch);

	take_out(ch);
	LIST_REMOVE(ch, in_bucket);
	if (ch->life != SOFT_ENDED)
		soft_go(ch, SOFT_ENDED);
	if (dev->in_progress)
		TAILQ_INSERT_TAIL(&dev->gone, ch, in_all);
	else
		release(ch);
}

void inc_soft_free_gone(struct soft_device *dev)
{
	struct soft_channel *ch;

	while ((ch = TAILQ_FIRST(&dev->gone))) {
		TAILQ_REMOVE(&dev->gone, ch, in_all);
		release(ch);
	}
}

static void begin_closing(struct soft_channel *ch, uint8_t syndrome)
{
	struct soft_device *dev = soft_device_of(ch);
	uint64_t now_ns = inc_now_ns();

	take_out(ch);
	free_rings(ch);
	soft_go(ch, SOFT_ENDED);
	TAILQ_INSERT_TAIL(&dev->ended, ch, in_all);
	dev->n_ended++;
	ch->syndrome = syndrome;
	ch->closing_naks = ch->to_switch ? SOFT_SWITCH_CLOSING_NAKS : SOFT_CLOSING_NAKS;
	ch->closing_wait_ns = SOFT_CLOSING_NS;
	ch->closing_at_ns = now_ns + ch->closing_wait_ns;
	inc_soft_closing_nak(ch, inc_soft_kept(ch), now_ns);
	soft_due(dev, ch->closing_at_ns);
	if (dev->n_ended > SOFT_MAX_ENDED)
		inc_soft_forget(TAILQ_FIRST(&dev->ended));
}

static void soft_shut(struct inc_channel *c, uint8_t syndrome)
{
	struct soft_channel *ch = SOFT_CH(c);

	inc_soft_drop_sends(ch);
	if (syndrome && ch->life != SOFT_MADE)
		begin_closing(ch, syndrome);
	else
		inc_soft_forget(ch);
}

static bool soft_arm(struct inc_channel_device *dev)
{
	return false;
}

static int soft_fd(const struct inc_channel_device *d, short *events)
{
	const struct inc_udp *udp = &((const struct soft_device *)d)->udp;

	if (events)
		*events = udp->blocked ? POLLIN | POLLOUT : POLLIN;
	return udp->fd;
}

/* Returns when the next timer of the device's channels expires. A host calls this before each
 * sleep. For its channels, which are mirrored, the time is exact, because a wake-up for a timer
 * that was set anew meanwhile costs as much as a collective. For other channels the time may be too
 * early. */
static uint64_t soft_deadline_ns(const struct inc_channel_device *d)
{
	const struct soft_device *dev = (const struct soft_device *)d;
	const struct soft_channel *ch;
	uint64_t at_ns = UINT64_MAX, ch_at_ns;

	if (!dev->n_mirrored || dev->n_ended || !dev->due_at_ns)
		return dev->due_at_ns;
	TAILQ_FOREACH (ch, &dev->channels, in_all) {
		if (!ch->mirror)
			return dev->due_at_ns;
		ch_at_ns = ch->life == SOFT_CONNECTED ? soft_deadline_of(ch) : UINT64_MAX;
		if (ch_at_ns < at_ns)
			at_ns = ch_at_ns;
	}
	return at_ns;
}

static void soft_set_class(struct inc_channel *c, uint8_t traffic_class)
{
	SOFT_CH(c)->tx.to.tos = traffic_class;
}

static void soft_figures(const struct inc_channel *c, struct inc_channel_figures *out)
{
	const struct soft_channel *ch = SOFT_CH(c);
	const struct inc_requester_figures *tx = &ch->tx.figures;

	*out = (struct inc_channel_figures){
		.rx_packets = ch->rx_packets,
		.duplicates = ch->duplicates,
		.reordered = ch->mirror ? ch->mirror->reordered : 0,
		.naks_sent = ch->naks_sent,
		.naks_received = tx->naks,
		.rnrs_sent = ch->rnrs_sent,
		.rnrs_received = tx->rnrs,
		.tx_packets = tx->sent,
		.retransmits = tx->resent,
		.acks_sent = ch->acks_sent,
		.acks_received = tx->acks,
		.timeouts = tx->timeouts,
		.timeouts_in_a_row = ch->tx.rto.backoff,
		.srtt_ns = ch->tx.rto.srtt_ns,
		.cnps_sent = ch->cnps_sent,
		.congested = tx->congested,
	};
}

static void soft_device_figures(const struct inc_channel_device *d,
				struct inc_channel_device_figures *out)
{
	const struct soft_device *dev = SOFT_DEV(d);

	*out = (struct inc_channel_device_figures){
		.strangers = dev->strangers,
		.wrong_port = dev->wrong_port,
		.damaged = dev->damaged,
		.send_calls = dev->udp.send_calls,
		.recv_calls = dev->udp.recv_calls,
	};
}

const struct inc_channel_ops inc_channel_soft = {
	.name = "soft",
	.serves_all_ports = true,
	.probe = soft_probe,
	.open = soft_open,
	.offer = soft_offer,
	.close = soft_close,
	.abandon = soft_abandon,
	.map = soft_map,
	.unmap = soft_unmap,
	.make = soft_make,
	.connect = soft_connect,
	.shut = soft_shut,
	.post = soft_post,
	.send = inc_soft_send,
	.exchange = inc_soft_exchange,
	.shown = inc_soft_shown,
	.flush = inc_soft_flush,
	.progress = inc_soft_progress,
	.arm = soft_arm,
	.fd = soft_fd,
	.deadline_ns = soft_deadline_ns,
	.under_way = inc_soft_mirror_under_way,
	.ack_at_ns = inc_soft_mirror_ack_at_ns,
	.attend = inc_soft_mirror_attend,
	.moved = inc_soft_mirror_moved,
	.describe = inc_soft_mirror_describe,
	.set_class = soft_set_class,
	.figures = soft_figures,
	.device_figures = soft_device_figures,
};
