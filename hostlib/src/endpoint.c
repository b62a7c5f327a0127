/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/numbers.h"
#include "lib/base/os.h"
#include "lib/proto/roce.h"
#include "hostlib/src/endpoint.h"

#define BUFFER_BYTES (4 << 20) /* size of a soft device's socket buffer in each direction */
/* After this time without a result the interface's MTU may be the cause. */
#define MTU_LOOK_NS INC_NSEC_PER_SEC
/* The MTU must be too small at so many looks in a row. A program that configures interfaces may set
 * another one for a moment. */
#define MTU_LOOKS 3

/* ---- reports of the channel ---- */

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	((struct inccl_endpoint *)ctx)->completed++;
}

static void on_sent(void *ctx)
{
	((struct inccl_endpoint *)ctx)->acknowledged++;
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	struct inccl_endpoint *ep = ctx;

	ep->failed = loss->error;
	ep->mismatch = loss->reason == INC_CHANNEL_ENDED;
	snprintf(ep->error, sizeof(ep->error), "%s", loss->text);
}

static const struct inc_channel_handler handler = {
	.message = on_message, .sent = on_sent, .lost = on_lost};

/* Passes a log line of the device to the caller's log function. ctx is the endpoint. */
static void log_of_device(void *ctx, enum inc_log_level level, const char *fmt, ...)
{
	const struct inccl_endpoint *ep = ctx;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ep->log(ep->log_ctx, "%s", text);
}

/* ---- life ---- */

static struct inc_channel_device_opts device_opts(const struct inccl_open_opts *opts,
						  struct inccl_endpoint *ep,
						  const struct inc_channel_verbs_settings *verbs)
{
	return (struct inc_channel_device_opts){
		.own_ip = opts->addr,
		.rto_min_ns = INCCL_RTO_MIN_NS,
		.rto_max_ns = INCCL_RTO_MAX_NS,
		.buffer_bytes = BUFFER_BYTES,
		.handler = &handler,
		.may_block = true,
		.verbs = verbs,
		.log = log_of_device,
		.log_ctx = ep,
	};
}

int inccl_endpoint_probe(const struct inccl_transport *transport,
			 const struct inccl_open_opts *opts, struct inc_err *why)
{
	struct inc_channel_verbs_settings settings;
	struct inc_channel_device_opts device = device_opts(opts, NULL, &settings);
	struct inc_channel_offer offer;
	int ret = inccl_verbs_settings(opts->options, &settings, why);

	return ret ?: transport->channel->probe(&device, &offer, why);
}

/* Chooses the window of a rank: that of the caller's options or the default, limited by what the
 * device can store. Returns the number of messages for which the channel must have room. A
 * collective may need single packets where others have longer messages, so that number counts
 * single packets. */
static unsigned int choose_window(const struct inccl_open_opts *opts,
				  const struct inc_channel_offer *offer, struct inccl_own *own)
{
	const unsigned int each = opts->message_packets, most = offer->max_messages;
	const unsigned int packets = inc_min(INCCL_DEFAULT_WINDOW, offer->receive_packets);
	unsigned int window = opts->window_messages;

	if (!window && packets < INCCL_DEFAULT_WINDOW)
		opts->log(opts->log_ctx,
			  "%s: the receive buffer holds %u packets (net.core.rmem_max)",
			  offer->device, packets);
	window = inc_min(window ?: packets / each ?: 1, most);
	own->window_messages = window;
	own->most_packets = offer->receive_packets == UINT32_MAX
				    ? window * each
				    : inc_min(offer->receive_packets, INCCL_MESSAGES_WINDOW);
	return window < most / each ? window * each : most;
}

static int choose_payload(struct inccl_endpoint *ep, const struct inccl_open_opts *opts,
			  const struct inc_channel_offer *offer, unsigned int *payload,
			  struct inc_err *err)
{
	ep->by_path = !offer->payload_bytes;
	if (ep->by_path)
		return inccl_path_payload(ep->ops->fd(ep->dev, NULL), opts, payload, err);
	*payload = inc_min(opts->payload ?: offer->payload_bytes, offer->payload_bytes);
	return 0;
}

static int open_channel(struct inccl_endpoint *ep, const struct inccl_open_opts *opts,
			const struct inc_channel_verbs_settings *verbs, struct inccl_own *own,
			struct inc_err *err)
{
	struct inc_channel_opts channel = {
		.own.psn = opts->start_psn,
		.pkey = INC_PKEY_DEFAULT,
		.mirrored = true,
		.verbs = verbs,
		.what = ep->ops->name,
		.ctx = ep,
	};
	struct inc_channel_offer offer;
	struct inc_channel_own numbers;
	int ret;

	ep->ops->offer(ep->dev, &offer);
	ret = choose_payload(ep, opts, &offer, &own->payload, err);
	if (ret)
		return ret;
	channel.payload = own->payload;
	channel.messages = choose_window(opts, &offer, own);
	ret = ep->ops->make(ep->dev, &channel, &ep->ch, &numbers, err);
	if (ret)
		return ret;
	own->end = numbers.end;
	own->pkey = numbers.pkey;
	own->udp_csum = offer.udp_csum;
	own->reorder = offer.reorder;
	memcpy(own->device, offer.device, sizeof(own->device));
	return 0;
}

int inccl_endpoint_open(const struct inccl_transport *transport, const struct inccl_open_opts *opts,
			struct inccl_endpoint **out, struct inccl_own *own, struct inc_err *err)
{
	struct inc_channel_verbs_settings settings;
	struct inccl_endpoint *ep = calloc(1, sizeof(*ep));
	struct inc_channel_device_opts device = device_opts(opts, ep, &settings);
	int ret;

	if (!ep)
		return inc_err_set(err, ENOMEM, "%s: %s", transport->channel->name,
				   strerror(ENOMEM));
	ep->transport = transport;
	ep->ops = transport->channel;
	ep->addr = opts->addr;
	ep->log = opts->log;
	ep->log_ctx = opts->log_ctx;
	ret = inccl_verbs_settings(opts->options, &settings, err);
	ret = ret ?: ep->ops->open(&device, &ep->dev, err);
	if (ret)
		goto fail;
	ret = open_channel(ep, opts, transport->kind == INCCL_TRANSPORT_SOFT ? &settings : NULL,
			   own, err);
	if (ret)
		goto fail;
	*out = ep;
	return 0;
fail:
	inccl_endpoint_close(ep);
	return ret;
}

void inccl_endpoint_close(struct inccl_endpoint *ep)
{
	if (ep->ch)
		ep->ops->shut(ep->ch, 0);
	if (ep->dev)
		ep->ops->close(ep->dev);
	free(ep);
}

void inccl_endpoint_abandon(struct inccl_endpoint *ep)
{
	ep->ops->abandon(ep->dev);
	free(ep);
}

/* Logs a warning if the kernel sends packets to the switch from another address than this end's. A
 * NIC would send from the interface that has its GID. */
static void check_source(const struct inccl_endpoint *ep, const struct inc_channel_peer *peer)
{
	char ours[INC_ADDR_TEXT], routed[INC_ADDR_TEXT];
	struct inc_addr source;

	if (!inc_os.udp.source(&peer->end.ip, &source) && !inc_addr_same(source, ep->addr))
		ep->log(ep->log_ctx, "%s: the route to %s leaves from %s, not from %s",
			ep->ops->name, peer->name, inc_addr_text(source, routed),
			inc_addr_text(ep->addr, ours));
}

int inccl_endpoint_connect(struct inccl_endpoint *ep, const struct inc_channel_peer *peer,
			   struct inc_err *err)
{
	int ret = 0;

	ep->payload = peer->payload;
	if (ep->by_path)
		ret = inccl_path_check(ep->ops->fd(ep->dev, NULL), ep->addr, peer->end.ip,
				       peer->payload, err);
	else
		check_source(ep, peer);
	return ret ?: ep->ops->connect(ep->ch, peer, err);
}

/* ---- memory ---- */

int inccl_endpoint_map(struct inccl_endpoint *ep, void *addr, size_t len, bool writable,
		       struct inc_channel_region *region)
{
	struct inc_err err;
	int ret = ep->ops->map(ep->dev, addr, len, writable ? INC_CHANNEL_WRITE : INC_CHANNEL_READ,
			       region, &err);

	if (ret)
		ep->log(ep->log_ctx, "%s: %s", ep->ops->name, err.msg);
	return ret;
}

void inccl_endpoint_unmap(struct inccl_endpoint *ep, struct inc_channel_region *region)
{
	ep->ops->unmap(ep->dev, region);
}

/* ---- the interface's MTU ---- */

/* Looks whether the interface has become too small for the messages under way. A veth drops what is
 * longer than its MTU. The endpoint fails if a contribution stays too long, because the kernel
 * would refuse to send it again. A result that is too long may nevertheless arrive at a NIC. */
static void look_at_mtu(struct inccl_endpoint *ep)
{
	const uint32_t sent = inc_min(ep->longest_sent, ep->payload);
	const uint32_t result = inc_min(ep->longest_result, ep->payload);
	char why[160];

	/* the advice is the MTU for a full payload, because later messages may be longer */
	if (inc_channel_mtu_too_small(ep->addr, sent, why, sizeof(why))) {
		if (++ep->small_looks < MTU_LOOKS)
			return;
		inc_channel_mtu_too_small(ep->addr, ep->payload, why, sizeof(why));
		ep->failed = EMSGSIZE;
		snprintf(ep->error, sizeof(ep->error), "contributions can no longer be sent: %s",
			 why);
		return;
	}
	ep->small_looks = 0;
	if (!ep->noted_mtu && inc_channel_mtu_too_small(ep->addr, result, why, sizeof(why))) {
		ep->noted_mtu = true;
		ep->log(ep->log_ctx, "results may be lost: %s", why);
	}
}

/* Looks at the interface's MTU if no result has arrived for MTU_LOOK_NS, and then at the same
 * interval. */
static void check_mtu(struct inccl_endpoint *ep)
{
	const bool waits = ep->posted != ep->completed;
	uint64_t now_ns;

	if (waits && ep->look_at_ns && ep->looked_completed == ep->completed) {
		now_ns = inc_now_ns();
		if (now_ns < ep->look_at_ns)
			return;
		look_at_mtu(ep);
		ep->look_at_ns = now_ns + MTU_LOOK_NS;
		return;
	}
	ep->looked_completed = ep->completed;
	ep->small_looks = 0;
	ep->look_at_ns = waits ? inc_now_ns() + MTU_LOOK_NS : 0;
}

/* ---- messages ---- */

uint64_t inccl_endpoint_under_way(const struct inccl_endpoint *ep)
{
	return ep->ops->under_way(ep->ch);
}

int inccl_endpoint_post(struct inccl_endpoint *ep, const struct inc_channel_exchange *x)
{
	int ret;

	if (ep->failed)
		return -ep->failed;
	ret = ep->ops->exchange(ep->ch, x);
	if (ret == -ENOTCONN) { /* progress() finds and stores why the channel has failed */
		ep->ops->progress(ep->dev);
		return ep->failed ? -ep->failed : ret;
	}
	if (ret)
		return ret;
	if (ep->posted++ == ep->completed)
		ep->longest_sent = ep->longest_result = 0;
	ep->longest_sent = inc_max(ep->longest_sent, x->send_len);
	ep->longest_result = inc_max(ep->longest_result, x->recv_len);
	return 0;
}

int inccl_endpoint_flush(struct inccl_endpoint *ep)
{
	if (!ep->failed)
		ep->ops->flush(ep->dev);
	return -ep->failed;
}

int inccl_endpoint_progress(struct inccl_endpoint *ep)
{
	bool more = false;

	if (!ep->failed)
		more = ep->ops->progress(ep->dev);
	return ep->failed ? -ep->failed : more;
}

int inccl_endpoint_arm(struct inccl_endpoint *ep, int *fd, short *events, uint64_t *deadline_ns)
{
	if (!ep->failed && ep->ops->arm(ep->dev) && !ep->failed)
		return 1;
	if (!ep->failed && ep->by_path)
		check_mtu(ep);
	if (ep->failed)
		return -ep->failed;
	*fd = ep->ops->fd(ep->dev, events);
	*deadline_ns = ep->ops->deadline_ns(ep->dev);
	if (ep->look_at_ns && ep->look_at_ns < *deadline_ns)
		*deadline_ns = ep->look_at_ns;
	return 0;
}

bool inccl_endpoint_kept(const struct inccl_endpoint *ep)
{
	/* if the result of a contribution has arrived, the peer must have the contribution */
	return ep->acknowledged == ep->posted || ep->completed == ep->posted;
}

bool inccl_endpoint_quiet(const struct inccl_endpoint *ep)
{
	return ep->failed || (ep->acknowledged == ep->posted && ep->completed == ep->posted &&
			      ep->ops->ack_at_ns(ep->ch) == UINT64_MAX);
}

void inccl_endpoint_stats(const struct inccl_endpoint *ep, struct inccl_transport_stats *out)
{
	struct inc_channel_device_figures dev;
	struct inc_channel_figures ch;

	ep->ops->figures(ep->ch, &ch);
	ep->ops->device_figures(ep->dev, &dev);
	*out = (struct inccl_transport_stats){
		.packets_sent = ch.tx_packets,
		.packets_resent = ch.retransmits,
		.results = ch.rx_packets,
		.duplicates = ch.duplicates,
		.reordered = ch.reordered,
		.bad_packets = dev.strangers + dev.wrong_port + dev.damaged,
		.acks_sent = ch.acks_sent,
		.acks_received = ch.acks_received,
		.naks_sent = ch.naks_sent,
		.naks_received = ch.naks_received,
		.rnrs_received = ch.rnrs_received,
		.timeouts = ch.timeouts,
		.send_calls = dev.send_calls,
		.recv_calls = dev.recv_calls,
		.congested = ch.congested,
	};
}
