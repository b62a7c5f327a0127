/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the queue pairs of channels on RDMA devices, connects them to their peers, and ends
 * them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "lib/base/machine.h"
#include "lib/base/numbers.h"
#include "lib/base/thread.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "lib/rdma/gid.h"
#include "lib/channel/verbs_priv.h"

/* Capacity of a device's completion queue at first, in completions. The queue grows with the number
 * of channels. */
#define COMPLETIONS 256

/* Changes the state in which a channel's life is (enum verbs_life), which no other function
 * does. */
static void verbs_go(struct verbs_channel *ch, enum verbs_life to)
{
	static const char *const names[] = {"made", "entering", "connected", "broken"};
	static const uint32_t steps[] = {
		[VERBS_MADE] = INC_STEP(VERBS_ENTERING) | INC_STEP(VERBS_CONNECTED) |
			       INC_STEP(VERBS_BROKEN),
		[VERBS_ENTERING] = INC_STEP(VERBS_CONNECTED) | INC_STEP(VERBS_BROKEN),
		[VERBS_CONNECTED] = INC_STEP(VERBS_BROKEN),
		[VERBS_BROKEN] = 0,
	};
	static const struct inc_machine machine = {"channel", VERBS_BROKEN + 1, names, steps};

	ch->life = inc_machine_step(&machine, ch->what, ch->life, to);
	if (to == VERBS_BROKEN) {
		ch->report = true;
		verbs_device_of(ch)->reports++;
	}
}

/* ---- make ---- */

unsigned int inc_verbs_most_messages(const struct inc_rdma_device *device)
{
	unsigned int most = device->limits.max_qp_wr / 2;

	/* only half of a queue's length counts for mirrored channels, because a send keeps its slot
	 * beyond its result, until an acknowledgement */
	if (most > device->limits.max_cqe / 4)
		most = device->limits.max_cqe / 4;
	return most > VERBS_BATCH ? most - VERBS_BATCH : 0;
}

/* Reports why a channel cannot be made, with its name, its port and the device. */
static int refuse(const struct verbs_device *dev, const struct inc_channel_opts *opts, int code,
		  struct inc_err *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static int refuse(const struct verbs_device *dev, const struct inc_channel_opts *opts, int code,
		  struct inc_err *err, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return inc_err_set(err, code, "%s%s%s: %s/%u: %s", opts->what,
			   opts->ifname ? ", port " : "", opts->ifname ?: "", dev->device->name,
			   dev->port, text);
}

/* Checks the settings of a queue pair that not every device can have. */
static int check_settings(const struct verbs_device *dev, const struct inc_channel_opts *opts,
			  const struct inc_channel_verbs_settings *settings, struct inc_err *err)
{
	const struct inc_rdma_limits *limits = &dev->device->limits;
	const unsigned int most = inc_min(limits->max_qp_rd_atom, limits->max_qp_init_rd_atom);
	struct inc_err why;
	int ret = inc_rdma_rate_check(limits, settings->rate_limit, &why);

	if (ret)
		return refuse(dev, opts, -ret, err,
			      "rate_limit %d: %.150s; remove rate_limit, or set it to 0 here",
			      settings->rate_limit, why.msg);
	if (settings->max_rd_atomic > (int)most)
		return refuse(dev, opts, EINVAL, err, "max_rd_atomic %d: the device can do %u",
			      settings->max_rd_atomic, most);
	return 0;
}

static int check(const struct verbs_device *dev, const struct inc_channel_opts *opts,
		 struct inc_err *err)
{
	const struct inc_rdma_limits *limits = &dev->device->limits;

	if (!inc_rc_payload_ok(opts->payload) || opts->payload > dev->mtu_bytes)
		return inc_err_set(err, EINVAL, "%s: payload %u: %s, and %s/%u has an MTU of %u",
				   opts->what, opts->payload, INC_RC_PAYLOADS_TEXT,
				   dev->device->name, dev->port, dev->mtu_bytes);
	if (opts->max_message_bytes > INC_CHANNEL_VERBS_MAX_MESSAGE)
		return inc_err_set(err, EINVAL, "%s: messages of %u bytes: %u at most", opts->what,
				   opts->max_message_bytes, INC_CHANNEL_VERBS_MAX_MESSAGE);
	if (!opts->messages && opts->mirrored)
		return inc_err_set(err, EOPNOTSUPP, "%s: queues of %u and %u entries are too small",
				   dev->device->name, limits->max_qp_wr, limits->max_cqe);
	if (!opts->messages)
		return inc_err_set(err, EINVAL, "%s: no messages", opts->what);
	if (opts->own.qpn)
		return inc_err_set(err, EINVAL,
				   "%s: queue pair %u was asked for, but %s chooses numbers itself",
				   opts->what, opts->own.qpn, dev->device->name);
	return check_settings(dev, opts, opts->verbs ?: &dev->settings, err);
}

/* Finds the channel's partition in the port's table of P_Keys. */
static int find_pkey(const struct verbs_device *dev, const struct inc_rdma_port_info *port,
		     const struct inc_channel_opts *opts, struct verbs_channel *ch,
		     struct inc_err *err)
{
	const int index = ch->settings.pkey_index;
	unsigned int i = index < 0 ? 0 : index;

	while (index < 0 && i < port->pkeys && (port->pkey[i] ^ opts->pkey) & INC_PKEY_BITS)
		i++;
	ch->pkey_index = i;
	if (i < port->pkeys) {
		ch->pkey = index < 0 ? opts->pkey : port->pkey[i];
		return 0;
	}
	if (index < 0)
		return refuse(dev, opts, EINVAL, err, "the port is not in the partition 0x%04x",
			      opts->pkey);
	return refuse(dev, opts, EINVAL, err, "pkey_index %d: the port has %u P_Keys", index,
		      port->pkeys);
}

/* Checks the index of the GID that the channel's settings name. */
static int find_gid(const struct verbs_device *dev, const struct inc_rdma_port_info *port,
		    const struct inc_channel_opts *opts, struct verbs_channel *ch,
		    struct inc_err *err)
{
	struct inc_rdma_gid_wish wish = {.type = INC_RDMA_GID_ROCE_V2,
					 .index = ch->settings.gid_index};
	char text[INC_ADDR_TEXT];

	if (wish.index < 0 || wish.index == dev->gid_index)
		return 0;
	wish.raw = opts->own.ip.byte;
	if (!inc_rdma_gid_find(port, &wish))
		return refuse(
			dev, opts, EINVAL, err,
			"gid_index %d is no RoCE v2 GID of %s; remove gid_index, or set it to "
			"%u",
			wish.index, inc_addr_text(opts->own.ip, text), dev->gid_index);
	ch->gid_index = wish.index;
	return 0;
}

/* Finds the indexes of the channel's P_Key and GID. The device of a host has found both when it was
 * opened. */
static int find_indexes(const struct verbs_device *dev, const struct inc_channel_opts *opts,
			struct verbs_channel *ch, struct inc_err *err)
{
	const struct inc_rdma_port_info *port;
	const struct inc_rdma_list *list;
	int ret;

	ch->gid_index = dev->gid_index;
	ch->pkey_index = ch->settings.pkey_index;
	ch->pkey = dev->pkey;
	if (!dev->inventory)
		return 0;
	list = inc_rdma_inventory_get(dev->inventory);
	port = list->devices ? inc_rdma_port_find(&list->device[0], dev->port) : NULL;
	ret = port ? find_pkey(dev, port, opts, ch, err)
		   : refuse(dev, opts, ENODEV, err, "the device is gone");
	ret = ret ?: find_gid(dev, port, opts, ch, err);
	inc_rdma_list_put(list);
	return ret;
}

/* Makes room in the completion queue for one more channel. The queue is made with the first
 * channel, because not every device can enlarge it. */
static int reserve_completions(struct verbs_device *dev, unsigned int entries, struct inc_err *err)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int ret;

	if (dev->completions.cq)
		return inc_rdma_completions_grow(&dev->completions,
						 dev->reserved + dev->left_over + entries, err);
	ret = inc_rdma_completions_open(&dev->completions, dev->device,
					entries > COMPLETIONS ? entries : COMPLETIONS, VERBS_BATCH,
					err);
	if (ret)
		return ret;
	ev.data.fd = inc_rdma_completions_fd(&dev->completions);
	if (!epoll_ctl(dev->epoll_fd, EPOLL_CTL_ADD, ev.data.fd, &ev))
		return 0;
	ret = -errno;
	inc_rdma_completions_close(&dev->completions);
	return inc_err_set(err, -ret, "%s/%u: event descriptors: %s", dev->device->name, dev->port,
			   strerror(-ret));
}

/* Returns how many completions of the channel may be in the completion queue at the same time. */
static unsigned int completions_of(const struct verbs_channel *ch)
{
	return ch->n_sends + ch->n_receives;
}

static int make_qp(struct verbs_device *dev, struct verbs_channel *ch,
		   const struct inc_channel_opts *opts, struct inc_err *err)
{
	struct inc_rdma_qp_opts qp = {
		.caps = {.send_wr = ch->n_sends,
			 .recv_wr = ch->n_receives,
			 .send_sge = 1,
			 .recv_sge = 1,
			 .rd_atomic = ch->settings.max_rd_atomic,
			 .dest_rd_atomic = ch->settings.max_rd_atomic},
		.port = dev->port,
		.access = ch->mirrored ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0,
	};
	struct inc_err why;
	int ret = find_indexes(dev, opts, ch, err);

	if (ret)
		return ret;
	qp.pkey_index = ch->pkey_index;
	ret = reserve_completions(dev, completions_of(ch), &why);
	qp.send_cq = qp.recv_cq = dev->completions.cq;
	ret = ret ?: inc_rdma_qp_make(&ch->qp, dev->device, &qp, &why);
	if (ret)
		return inc_err_set(err, -ret, "%s: %.400s", opts->what, why.msg);
	dev->reserved += completions_of(ch);
	return 0;
}

void inc_verbs_release(struct verbs_channel *ch)
{
	free(ch->receives);
	free(ch->sends);
	free(ch);
}

static void on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct verbs_channel *ch =
		(struct verbs_channel *)((char *)self - offsetof(struct verbs_channel, events));

	if (event->kind == INC_RDMA_QP_FATAL)
		inc_verbs_lose(ch, event->by_peer ? INC_CHANNEL_INVALID : INC_CHANNEL_CUT, EIO,
			       "%s", event->text);
}

static struct verbs_channel *new_channel(struct verbs_device *dev,
					 const struct inc_channel_opts *opts)
{
	struct verbs_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ch.dev = &dev->dev;
	ch->ctx = opts->ctx;
	ch->payload = opts->payload;
	ch->max_message_bytes = opts->max_message_bytes;
	ch->settings = opts->verbs ? *opts->verbs : dev->settings;
	ch->mirrored = opts->mirrored;
	ch->memory = opts->memory ? opts->memory->lkey : 0;
	ch->n_receives = opts->messages;
	/* mirrored channels: a send keeps its slot until an acknowledgement that was requested for
	 * one of the next sends, so there are more slots than messages */
	ch->n_sends = opts->mirrored ? 2 * opts->messages + VERBS_BATCH : opts->messages;
	ch->psn = opts->own.psn & INC_PSN_MASK;
	ch->se = opts->se;
	ch->id = ++dev->last_id;
	snprintf(ch->what, sizeof(ch->what), "%s", opts->what);
	ch->receives = calloc(ch->n_receives, sizeof(*ch->receives));
	ch->sends = calloc(ch->n_sends, sizeof(*ch->sends));
	if (ch->receives && ch->sends)
		return ch;
	inc_verbs_release(ch);
	return NULL;
}

int inc_verbs_make(struct inc_channel_device *d, const struct inc_channel_opts *opts,
		   struct inc_channel **out, struct inc_channel_own *own, struct inc_err *err)
{
	struct verbs_device *dev = VERBS_DEV(d);
	struct verbs_channel *ch;
	int ret = check(dev, opts, err);

	if (ret)
		return ret;
	ch = new_channel(dev, opts);
	if (!ch)
		return inc_err_set(err, ENOMEM, "%s: %s", opts->what, strerror(ENOMEM));
	ret = make_qp(dev, ch, opts, err);
	if (ret) {
		inc_verbs_release(ch);
		return ret;
	}
	ch->events = (struct inc_rdma_subscriber){
		.on_event = on_event, .port = dev->port, .qp = ch->qp.ibv};
	inc_rdma_subscribe(dev->device, &ch->events);
	LIST_INSERT_HEAD(&dev->bucket[ch->id % VERBS_BUCKETS], ch, in_bucket);
	TAILQ_INSERT_TAIL(&dev->channels, ch, in_all);
	own->end = opts->own;
	own->end.qpn = ch->qp.ibv->qp_num;
	own->end.psn = ch->psn;
	own->end.udp_port = INC_ROCE_UDP_PORT;
	own->pkey = ch->pkey;
	own->pkey_index = ch->pkey_index;
	own->gid_index = ch->gid_index;
	*out = &ch->ch;
	return 0;
}

/* ---- connect ---- */

static void *enter(void *arg)
{
	struct verbs_entry *entry = arg;
	const int fd = entry->entered_fd;

	entry->error = inc_rdma_rtr_enter(&entry->rtr);
	atomic_store(&entry->over, true);
	inc_signal_fd(fd);
	return NULL;
}

static int to_rts(struct verbs_channel *ch, struct inc_err *why)
{
	const struct inc_channel_verbs_settings *settings = &ch->settings;
	const struct inc_rdma_rts rts = {
		.psn = ch->psn,
		.timeout = settings->timeout,
		.retry_cnt = settings->retry_cnt,
		.rnr_retry = settings->rnr_retry,
		.rate_limit = settings->rate_limit,
	};

	return inc_rdma_qp_to_rts(&ch->qp, &rts, why);
}

/* Brings the queue pair to RTS, and waits until the peer's Ethernet address is known. */
static int connect_now(struct verbs_channel *ch, const struct inc_rdma_peer *to,
		       struct inc_err *err)
{
	struct inc_err why;
	int ret = inc_rdma_qp_to_rtr(&ch->qp, to, &why);

	ret = ret ?: to_rts(ch, &why);
	if (ret)
		return inc_err_set(err, -ret, "verbs: %s", why.msg);
	verbs_go(ch, VERBS_CONNECTED);
	verbs_activate(ch);
	return 0;
}

/* Starts a thread that waits for the peer's Ethernet address. */
static int connect_later(struct verbs_channel *ch, const struct inc_rdma_peer *to,
			 struct inc_err *err)
{
	struct verbs_device *dev = verbs_device_of(ch);
	struct verbs_entry *entry = calloc(1, sizeof(*entry));
	int ret;

	if (!entry)
		return inc_err_set(err, ENOMEM, "%s: %s", ch->what, strerror(ENOMEM));
	ret = inc_rdma_qp_aim(&ch->qp, to, &entry->rtr, err);
	if (ret)
		goto fail;
	entry->ch = ch;
	entry->entered_fd = dev->entered_fd;
	ret = inc_thread_create(&entry->thread, enter, entry);
	if (ret) {
		inc_err_set(err, -ret, "%s: no thread for RTR: %s", ch->what, strerror(-ret));
		goto fail;
	}
	LIST_INSERT_HEAD(&dev->entries, entry, entry);
	ch->entry = entry;
	verbs_go(ch, VERBS_ENTERING);
	return 0;

fail:
	free(entry);
	return ret;
}

int inc_verbs_connect(struct inc_channel *c, const struct inc_channel_peer *peer,
		      struct inc_err *err)
{
	struct verbs_channel *ch = VERBS_CH(c);
	const struct verbs_device *dev = verbs_device_of(ch);
	const struct inc_channel_verbs_settings *settings = &ch->settings;
	struct inc_rdma_peer to = {
		.qpn = peer->end.qpn,
		.psn = peer->end.psn & INC_PSN_MASK,
		.mtu_bytes = peer->payload ?: ch->payload,
		.min_rnr_timer = settings->min_rnr_timer,
		.sl = settings->sl,
		.link_layer = INC_RDMA_LINK_ETHERNET,
		.own_gid_index = ch->gid_index,
		.hop_limit = settings->hop_limit,
		.flow_label = settings->flow_label,
		.traffic_class = settings->traffic_class,
	};

	if (ch->life != VERBS_MADE)
		return inc_err_set(err, EALREADY, "%s: has its peer", ch->what);
	if (peer->end.udp_port != INC_ROCE_UDP_PORT)
		return inc_err_set(err, EPROTO,
				   "%s: its peer receives on port %u, an RDMA device sends to %u",
				   ch->what, peer->end.udp_port, INC_ROCE_UDP_PORT);
	if (peer->name)
		snprintf(ch->what, sizeof(ch->what), "%s", peer->name);
	to.name = ch->what;
	ch->payload = to.mtu_bytes;
	memcpy(to.gid, peer->end.ip.byte, sizeof(to.gid));
	return dev->may_block ? connect_now(ch, &to, err) : connect_later(ch, &to, err);
}

/* Whether the error means that no machine has answered with the peer's Ethernet address. If so, a
 * channel breaks because of silence, and after any other error because of a cut. */
static bool is_silence(int error)
{
	return error == -ETIMEDOUT || error == -EHOSTUNREACH;
}

static void entered(struct verbs_channel *ch, int error)
{
	struct inc_err why;

	if (ch->life != VERBS_ENTERING)
		return;
	if (inc_rdma_qp_entered(&ch->qp, error, &why)) {
		inc_verbs_lose(ch, is_silence(error) ? INC_CHANNEL_SILENT : INC_CHANNEL_CUT, -error,
			       "%s", why.msg);
		return;
	}
	if (to_rts(ch, &why)) {
		inc_verbs_lose(ch, INC_CHANNEL_CUT, EIO, "%s", why.msg);
		return;
	}
	verbs_go(ch, VERBS_CONNECTED);
	verbs_activate(ch);
}

/* Waits until the thread that brings a queue pair to RTR has ended, and passes its result to the
 * channel, if that still exists. Frees the entry. */
static void end_entry(struct verbs_entry *entry)
{
	pthread_join(entry->thread, NULL);
	LIST_REMOVE(entry, entry);
	if (entry->ch) {
		entry->ch->entry = NULL;
		entered(entry->ch, entry->error);
	}
	inc_rdma_qp_destroy(&entry->qp);
	free(entry);
}

void inc_verbs_take_entries(struct verbs_device *dev)
{
	struct verbs_entry *entry, *next;

	inc_drain_fd(dev->entered_fd);
	for (entry = LIST_FIRST(&dev->entries); entry; entry = next) {
		next = LIST_NEXT(entry, entry);
		if (atomic_load(&entry->over))
			end_entry(entry);
	}
}

void inc_verbs_end_entries(struct verbs_device *dev)
{
	while (!LIST_EMPTY(&dev->entries))
		end_entry(LIST_FIRST(&dev->entries));
}

/* ---- end ---- */

void inc_verbs_lose(struct verbs_channel *ch, enum inc_channel_reason reason, int error,
		    const char *fmt, ...)
{
	const struct verbs_device *dev = verbs_device_of(ch);
	struct inc_channel_loss *loss = &ch->loss;
	char text[200];
	va_list ap;

	if (ch->life == VERBS_BROKEN)
		return;
	/* The queue pair goes to ERR, so that the device no longer uses the channel's buffers. A
	 * queue pair whose step to RTR is under way has no buffers, and belongs to the thread of
	 * that step. */
	if (ch->life == VERBS_CONNECTED)
		inc_rdma_qp_to_err(&ch->qp, NULL);
	verbs_go(ch, VERBS_BROKEN);
	loss->reason = reason;
	loss->error = error;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(loss->text, sizeof(loss->text), "verbs %.20s/%u: %s", dev->device->name, dev->port,
		 text);
}

void inc_verbs_lose_all(struct verbs_device *dev, int error, const char *text)
{
	struct verbs_channel *ch;

	TAILQ_FOREACH (ch, &dev->channels, in_all)
		inc_verbs_lose(ch, INC_CHANNEL_CUT, error, "%s", text);
}

/* Ends the channel without a message to the peer, because a device sends no NAK on request. */
void inc_verbs_shut(struct inc_channel *c, uint8_t syndrome)
{
	struct verbs_channel *ch = VERBS_CH(c);
	struct verbs_device *dev = verbs_device_of(ch);

	inc_rdma_unsubscribe(dev->device, &ch->events);
	if (ch->entry) {
		ch->entry->ch = NULL;
		ch->entry->qp = ch->qp;
	} else {
		inc_rdma_qp_destroy(&ch->qp);
	}
	/* drop the sends only after the queue pair was destroyed, because the device reads their
	 * messages until then */
	inc_verbs_drop_sends(ch);
	dev->reserved -= completions_of(ch);
	dev->left_over += completions_of(ch);
	dev->reports -= ch->report;
	if (ch->active)
		SLIST_REMOVE(&dev->active, ch, verbs_channel, next_active);
	LIST_REMOVE(ch, in_bucket);
	TAILQ_REMOVE(&dev->channels, ch, in_all);
	inc_verbs_release(ch);
}
