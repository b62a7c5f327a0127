/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels on RDMA devices: how a queue pair is made, meets its peer, and ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/machine.h"
#include "lib/base/thread.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "lib/rdma/gid.h"
#include "userspace/term/verbs_priv.h"

/* What the hosts' queue pairs have, for the same reasons (docs/verbs.md): 0.54 s per try, 3.8 s in
 * all, which no device lengthens to for ever. */
#define TIMEOUT   17
#define RETRY_CNT 6
/* A peer that has no receive posted is a slow one, which others wait for: for ever. */
#define RNR_RETRY 7
#define HOP_LIMIT 64

/* The only place where a channel's life changes. */
static void verbs_go(struct verbs_channel *ch, enum verbs_life to)
{
	static const char *const names[] = {"made", "entering", "connected", "broken"};
	static const uint32_t steps[] = {
		[VERBS_MADE] = INC_STEP(VERBS_ENTERING) | INC_STEP(VERBS_BROKEN),
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

static int check(const struct verbs_device *dev, const struct inc_term_channel_opts *opts,
		 struct inc_err *err)
{
	if (!inc_payload_ok(opts->payload) || opts->payload > dev->mtu_bytes)
		return inc_err_set(err, EINVAL, "%s: payload %u: %s, and %s/%u has an MTU of %u",
				   opts->what, opts->payload, INC_PAYLOADS_TEXT, dev->device->name,
				   dev->port, dev->mtu_bytes);
	if (opts->max_message_bytes > VERBS_MAX_MESSAGE)
		return inc_err_set(err, EINVAL, "%s: messages of %u bytes: %u at most", opts->what,
				   opts->max_message_bytes, VERBS_MAX_MESSAGE);
	if (!opts->messages)
		return inc_err_set(err, EINVAL, "%s: no messages", opts->what);
	if (opts->qpn)
		return inc_err_set(err, EINVAL,
				   "%s: queue pair %u was asked for, but %s chooses numbers itself",
				   opts->what, opts->qpn, dev->device->name);
	return 0;
}

/* Where the port's table has the partition. */
static int find_pkey(const struct verbs_device *dev, const struct inc_term_channel_opts *opts,
		     uint16_t *index, struct inc_err *err)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(dev->inventory);
	const struct inc_rdma_port_info *port =
		list->devices ? inc_rdma_port_find(&list->device[0], dev->port) : NULL;
	unsigned int i = 0, n = port ? port->pkeys : 0;

	while (i < n && (port->pkey[i] & INC_PKEY_BITS) != (opts->pkey & INC_PKEY_BITS))
		i++;
	*index = i;
	inc_rdma_list_put(list);
	return i < n ? 0
		     : inc_err_set(err, EINVAL, "%s: %s/%u is not in the partition 0x%04x",
				   opts->what, dev->device->name, dev->port, opts->pkey);
}

/* How many completions a channel may have in the completion queue: its sends' and its receives'. */
static unsigned int completions_of(uint32_t messages)
{
	return 2 * messages;
}

static int make_qp(struct verbs_device *dev, struct verbs_channel *ch,
		   const struct inc_term_channel_opts *opts, struct inc_err *err)
{
	const unsigned int completions = completions_of(opts->messages);
	struct inc_rdma_qp_opts qp = {
		.send_cq = dev->completions.cq,
		.recv_cq = dev->completions.cq,
		.caps = {.send_wr = opts->messages,
			 .recv_wr = opts->messages,
			 .send_sge = 1,
			 .recv_sge = 1,
			 .rd_atomic = 1,
			 .dest_rd_atomic = 1},
		.port = dev->port,
	};
	struct inc_err why;
	int ret = find_pkey(dev, opts, &qp.pkey_index, err);

	if (ret)
		return ret;
	ret = inc_rdma_completions_grow(&dev->completions,
					dev->reserved + dev->left_over + completions, &why);
	ret = ret ?: inc_rdma_qp_make(&ch->qp, dev->device, &qp, &why);
	if (ret)
		return inc_err_set(err, -ret, "%s: %.400s", opts->what, why.msg);
	dev->reserved += completions;
	return 0;
}

static void release(struct verbs_channel *ch)
{
	free(ch->buffers);
	free(ch->sends);
	free(ch);
}

static void on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct verbs_channel *ch =
		(struct verbs_channel *)((char *)self - offsetof(struct verbs_channel, events));

	if (event->kind == INC_RDMA_QP_FATAL)
		inc_verbs_lose(ch, event->by_peer ? INC_TERM_INVALID : INC_TERM_CUT, "%s: %s",
			       ch->qp.what, event->text);
}

static struct verbs_channel *new_channel(struct verbs_device *dev,
					 const struct inc_term_channel_opts *opts)
{
	struct verbs_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ch.dev = &dev->dev;
	ch->ctx = opts->ctx;
	ch->payload = opts->payload;
	ch->max_message_bytes = opts->max_message_bytes;
	ch->messages = opts->messages;
	ch->psn = opts->psn & INC_PSN_MASK;
	ch->se = opts->se;
	ch->id = ++dev->last_id;
	snprintf(ch->what, sizeof(ch->what), "%s", opts->what);
	ch->buffers = calloc(ch->messages, sizeof(*ch->buffers));
	ch->sends = calloc(ch->messages, sizeof(*ch->sends));
	if (ch->buffers && ch->sends)
		return ch;
	release(ch);
	return NULL;
}

int inc_verbs_make(struct inc_term_device *d, const struct inc_term_channel_opts *opts,
		   struct inc_term_channel **out, struct inc_term_numbers *own, struct inc_err *err)
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
		release(ch);
		return ret;
	}
	ch->events = (struct inc_rdma_subscriber){
		.on_event = on_event, .port = dev->port, .qp = ch->qp.ibv};
	inc_rdma_subscribe(dev->device, &ch->events);
	LIST_INSERT_HEAD(&dev->bucket[ch->id % VERBS_BUCKETS], ch, in_bucket);
	TAILQ_INSERT_TAIL(&dev->channels, ch, in_all);
	own->qpn = ch->qp.ibv->qp_num;
	own->psn = ch->psn;
	own->udp_port = INC_ROCE_UDP_PORT;
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

int inc_verbs_connect(struct inc_term_channel *c, const struct inc_term_peer_addr *peer,
		      struct inc_err *err)
{
	struct verbs_channel *ch = VERBS_CH(c);
	struct verbs_device *dev = verbs_device_of(ch);
	struct inc_rdma_peer to = {
		.name = ch->what,
		.qpn = peer->qpn,
		.psn = peer->psn & INC_PSN_MASK,
		.mtu_bytes = ch->payload,
		.min_rnr_timer = INC_TERM_RNR_TIMER,
		.link_layer = INC_RDMA_LINK_ETHERNET,
		.own_gid_index = dev->gid_index,
		.hop_limit = HOP_LIMIT,
	};
	struct verbs_entry *entry;
	int ret;

	if (ch->life != VERBS_MADE)
		return inc_err_set(err, EALREADY, "%s: has its peer", ch->what);
	if (peer->udp_port != INC_ROCE_UDP_PORT)
		return inc_err_set(err, EPROTO,
				   "%s: its peer receives on port %u, an RDMA device sends to %u",
				   ch->what, peer->udp_port, INC_ROCE_UDP_PORT);
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return inc_err_set(err, ENOMEM, "%s: %s", ch->what, strerror(ENOMEM));
	inc_rdma_gid_of_ipv4(peer->ip.s_addr, to.gid);
	ret = inc_rdma_qp_aim(&ch->qp, &to, &entry->rtr, err);
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

/* Nobody has told the peer's Ethernet address. */
static bool is_silence(int error)
{
	return error == -ETIMEDOUT || error == -EHOSTUNREACH;
}

static void entered(struct verbs_channel *ch, int error)
{
	const struct inc_rdma_rts rts = {
		.psn = ch->psn,
		.timeout = TIMEOUT,
		.retry_cnt = RETRY_CNT,
		.rnr_retry = RNR_RETRY,
	};
	struct inc_err why;

	if (ch->life != VERBS_ENTERING)
		return;
	if (inc_rdma_qp_entered(&ch->qp, error, &why)) {
		inc_verbs_lose(ch, is_silence(error) ? INC_TERM_SILENT : INC_TERM_CUT, "%s",
			       why.msg);
		return;
	}
	if (inc_rdma_qp_to_rts(&ch->qp, &rts, &why)) {
		inc_verbs_lose(ch, INC_TERM_CUT, "%s", why.msg);
		return;
	}
	verbs_go(ch, VERBS_CONNECTED);
	verbs_activate(ch);
}

/* Waits for its thread. */
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

void inc_verbs_lose(struct verbs_channel *ch, enum inc_term_reason reason, const char *fmt, ...)
{
	va_list ap;

	if (ch->life == VERBS_BROKEN)
		return;
	/* the device is to leave buffers alone; one that enters has none, and is the thread's */
	if (ch->life == VERBS_CONNECTED)
		inc_rdma_qp_to_err(&ch->qp, NULL);
	verbs_go(ch, VERBS_BROKEN);
	ch->reason = reason;
	va_start(ap, fmt);
	vsnprintf(ch->text, sizeof(ch->text), fmt, ap);
	va_end(ap);
}

void inc_verbs_lose_all(struct verbs_device *dev, const char *text)
{
	struct verbs_channel *ch;

	TAILQ_FOREACH (ch, &dev->channels, in_all)
		inc_verbs_lose(ch, INC_TERM_CUT, "%s/%u: %s", dev->device->name, dev->port, text);
}

/* The peer hears nothing: a device does not send what it is told to. */
void inc_verbs_shut(struct inc_term_channel *c, uint8_t syndrome)
{
	struct verbs_channel *ch = VERBS_CH(c);
	struct verbs_device *dev = verbs_device_of(ch);
	const unsigned int completions = completions_of(ch->messages);

	inc_rdma_unsubscribe(dev->device, &ch->events);
	if (ch->entry) {
		ch->entry->ch = NULL;
		ch->entry->qp = ch->qp;
	} else {
		inc_rdma_qp_destroy(&ch->qp);
	}
	dev->reserved -= completions;
	dev->left_over += completions;
	dev->reports -= ch->report;
	if (ch->active)
		SLIST_REMOVE(&dev->active, ch, verbs_channel, next_active);
	LIST_REMOVE(ch, in_bucket);
	TAILQ_REMOVE(&dev->channels, ch, in_all);
	release(ch);
}
