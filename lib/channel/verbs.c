/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA devices: finds, opens and closes them, registers memory with them, and handles their events.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/base/thread.h"
#include "lib/proto/roce.h"
#include "lib/rdma/place.h"
#include "lib/rdma/region.h"
#include "lib/channel/verbs_priv.h"

/* ---- which device ---- */

static const struct inc_channel_verbs_settings *
settings_of(const struct inc_channel_device_opts *opts)
{
	return opts->verbs ?: &inc_channel_verbs_of_switch;
}

static int find_place(const struct inc_channel_device_opts *opts, struct inc_rdma_place *place,
		      struct inc_err *err)
{
	const struct inc_channel_verbs_settings *settings = settings_of(opts);
	const struct inc_rdma_place_wish wish = {
		.device = settings->device,
		.port = settings->port,
		.gid_index = settings->gid_index,
		.pkey_index = settings->pkey_index < 0 ? 0 : settings->pkey_index,
	};
	char ip[INC_ADDR_TEXT];
	struct inc_err why;
	int ret;

	if (!inc_addr_is_ipv4(opts->own_ip))
		return inc_err_set(err, EAFNOSUPPORT,
				   "%s%s%s is an IPv6 address, and queue pairs use IPv4 addresses "
				   "alone",
				   opts->ifname ?: "", opts->ifname ? ": " : "",
				   inc_addr_text(opts->own_ip, ip));
	ret = inc_rdma_place_find(&wish, opts->own_ip.word[3], place, &why);
	if (ret)
		return inc_err_set(err, -ret, "%s%s%.400s", opts->ifname ?: "",
				   opts->ifname ? ": " : "", why.msg);
	if (place->mtu_bytes >= INC_MIN_PAYLOAD)
		return 0;
	inc_err_set(err, ENODEV, "%s: MTU %u is too small", opts->ifname ?: place->device->name,
		    place->mtu_bytes);
	inc_rdma_place_close(place);
	return -ENODEV;
}

static void describe(const struct inc_rdma_device *device, uint8_t port, uint8_t gid_index,
		     unsigned int mtu_bytes, uint32_t max_message_bytes,
		     struct inc_channel_offer *out)
{
	*out = (struct inc_channel_offer){
		.payload_bytes = mtu_bytes < INC_MAX_RC_PAYLOAD ? mtu_bytes : INC_MAX_RC_PAYLOAD,
		.max_message_bytes = max_message_bytes < INC_CHANNEL_VERBS_MAX_MESSAGE
					     ? max_message_bytes
					     : INC_CHANNEL_VERBS_MAX_MESSAGE,
		.max_messages = inc_verbs_most_messages(device),
		.receive_packets = UINT32_MAX,
	};
	snprintf(out->device, sizeof(out->device), "%.32s port %u, GID %u", device->name, port,
		 gid_index);
}

static int verbs_probe(const struct inc_channel_device_opts *opts, struct inc_channel_offer *out,
		       struct inc_err *why)
{
	struct inc_rdma_place place;
	int ret = find_place(opts, &place, why);

	memset(out, 0, sizeof(*out));
	if (ret)
		return ret;
	inc_err_set(why, 0, "%s/%u on %s: RoCE v2 GID %u, MTU %u, port active", place.device->name,
		    place.port, place.ifname[0] ? place.ifname : "?", place.gid_index,
		    place.mtu_bytes);
	describe(place.device, place.port, place.gid_index, place.mtu_bytes,
		 place.max_message_bytes, out);
	inc_rdma_place_close(&place);
	return 0;
}

static void verbs_offer(const struct inc_channel_device *d, struct inc_channel_offer *out)
{
	const struct verbs_device *dev = (const struct verbs_device *)d;

	describe(dev->device, dev->port, dev->gid_index, dev->mtu_bytes, dev->max_message_bytes,
		 out);
}

/* ---- open and close ---- */

static void on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct verbs_device *dev =
		(struct verbs_device *)((char *)self - offsetof(struct verbs_device, events));

	switch (event->kind) {
	case INC_RDMA_PORT_UP:
		inc_rdma_port_came_up(&dev->port_timer);
		break;
	case INC_RDMA_PORT_WENT_DOWN:
		inc_rdma_port_went_down(&dev->port_timer, inc_now_ns());
		break;
	case INC_RDMA_CQ_FATAL:
	case INC_RDMA_DEVICE_FATAL:
	case INC_RDMA_DEVICE_GONE:
		inc_verbs_lose_all(dev, EIO, event->text);
		break;
	case INC_RDMA_QP_FATAL: /* the channel of the failed queue pair handles this event */
		return;
	default:
		break;
	}
	dev->log(dev->log_ctx, INC_LOG_INFO, "verbs: %s/%u: %s", dev->device->name, dev->port,
		 event->text);
}

/* Opens a device a second time, in an inventory that has only this device, because only an
 * inventory notices that the hardware was removed. */
static int open_inventory(struct verbs_device *dev, const struct inc_channel_device_opts *opts,
			  const char *name, struct inc_err *err)
{
	struct inc_rdma_filter_entry only = {.port = dev->port};
	const struct inc_rdma_filter filter = {.entry = &only, .entries = 1};
	const struct inc_rdma_list *list;
	int ret;

	snprintf(only.device, sizeof(only.device), "%s", name);
	ret = inc_rdma_inventory_open(&filter, &dev->inventory, err);
	if (ret)
		return ret;
	list = inc_rdma_inventory_get(dev->inventory);
	if (list->devices)
		dev->device = inc_rdma_inventory_device(dev->inventory, list->device[0].index,
							only.device);
	inc_rdma_list_put(list);
	if (!dev->device)
		return inc_err_set(err, ENODEV, "%s: %s cannot be opened", opts->ifname,
				   only.device);
	dev->look_at_ns = inc_now_ns() + VERBS_LOOK_NS;
	return 0;
}

static int open_device(struct verbs_device *dev, const struct inc_channel_device_opts *opts,
		       struct inc_err *err)
{
	struct inc_rdma_place place;
	int ret = find_place(opts, &place, err);

	if (ret)
		return ret;
	dev->port = place.port;
	dev->gid_index = place.gid_index;
	dev->pkey = place.pkey;
	dev->mtu_bytes = place.mtu_bytes;
	dev->max_message_bytes = place.max_message_bytes;
	if (dev->may_block)
		dev->device = inc_rdma_device_ref(place.device);
	else
		ret = open_inventory(dev, opts, place.device->name, err);
	inc_rdma_place_close(&place);
	if (ret)
		return ret;
	dev->events = (struct inc_rdma_subscriber){.on_event = on_event, .port = dev->port};
	inc_rdma_subscribe(dev->device, &dev->events);
	ret = inc_rdma_regions_open(&dev->cache, dev->device->pd,
				    (size_t)dev->settings.cache_mib << 20);
	if (ret)
		dev->log(dev->log_ctx, INC_LOG_INFO,
			 "verbs: memory cannot be watched (userfaultfd, /proc/self/maps): %s; "
			 "buffers are registered for each operation",
			 strerror(-ret));
	return 0;
}

static int watch(struct verbs_device *dev)
{
	const int fds[] = {dev->inventory ? inc_rdma_inventory_fd(dev->inventory)
					  : dev->device->ctx->async_fd,
			   dev->entered_fd};
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.fd = fds[i]};

		if (fds[i] < 0 || epoll_ctl(dev->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev))
			return -errno;
	}
	return 0;
}

/* Frees a device. This may wait for steps to RTR of its queue pairs. */
static void end(struct verbs_device *dev)
{
	inc_verbs_end_entries(dev);
	inc_rdma_completions_close(&dev->completions);
	if (dev->cache.ops)
		inc_rdma_cache_close(&dev->cache);
	if (dev->device)
		inc_rdma_unsubscribe(dev->device, &dev->events);
	inc_rdma_device_put(dev->device);
	inc_rdma_inventory_close(dev->inventory);
	if (dev->entered_fd >= 0)
		close(dev->entered_fd);
	if (dev->epoll_fd >= 0)
		close(dev->epoll_fd);
	free(dev);
}

static void *end_thread(void *arg)
{
	end(arg);
	return NULL;
}

static void verbs_close(struct inc_channel_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	pthread_t thread;

	/* The device may still have steps to RTR under way, in which the kernel looks for Ethernet
	 * addresses of peers. A thread waits for their end, because the caller must not. */
	if (!LIST_EMPTY(&dev->entries) && !inc_thread_create(&thread, end_thread, dev))
		pthread_detach(thread);
	else
		end(dev);
}

/* Closes the device in a forked child. The queue pairs, the registrations and what libibverbs
 * stores of them belong to the parent, and every call to libibverbs would reach the parent's
 * device. */
static void verbs_abandon(struct inc_channel_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	struct verbs_channel *ch;

	while ((ch = TAILQ_FIRST(&dev->channels))) {
		TAILQ_REMOVE(&dev->channels, ch, in_all);
		inc_verbs_release(ch);
	}
	if (dev->completions.channel)
		close(inc_rdma_completions_fd(&dev->completions));
	close(dev->device->ctx->async_fd);
	close(dev->device->ctx->cmd_fd);
	close(dev->entered_fd);
	close(dev->epoll_fd);
	free(dev);
}

static int verbs_open(const struct inc_channel_device_opts *opts, struct inc_channel_device **out,
		      struct inc_err *err)
{
	const char *name = opts->ifname ?: "verbs";
	struct verbs_device *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return inc_err_set(err, ENOMEM, "%s: %s", name, strerror(ENOMEM));
	dev->dev.ops = &inc_channel_verbs;
	dev->handler = opts->handler;
	dev->log = opts->log ?: inc_channel_log;
	dev->log_ctx = opts->log_ctx;
	dev->settings = *settings_of(opts);
	dev->port_timer.limit_ms = dev->settings.port_down_ms;
	dev->may_block = opts->may_block;
	dev->look_at_ns = UINT64_MAX;
	TAILQ_INIT(&dev->channels);
	dev->epoll_fd = inc_fd_high(epoll_create1(EPOLL_CLOEXEC));
	dev->entered_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	ret = open_device(dev, opts, err);
	if (ret)
		goto fail;
	ret = watch(dev);
	if (ret) {
		inc_err_set(err, -ret, "%s: event descriptors: %s", name, strerror(-ret));
		goto fail;
	}
	*out = &dev->dev;
	return 0;

fail:
	end(dev);
	return ret;
}

/* ---- memory ---- */

static int verbs_map(struct inc_channel_device *d, void *addr, size_t len,
		     enum inc_channel_access rights, struct inc_channel_region *region,
		     struct inc_err *err)
{
	static const unsigned int accesses[] = {
		[INC_CHANNEL_READ] = 0,
		[INC_CHANNEL_RECEIVE] = IBV_ACCESS_LOCAL_WRITE,
		[INC_CHANNEL_WRITE] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	const unsigned int access = accesses[rights];
	struct verbs_device *dev = VERBS_DEV(d);
	struct inc_rdma_mr *mr;
	int ret;

	*region = (struct inc_channel_region){.addr = addr, .len = len};
	if (!len)
		return 0;
	ret = inc_rdma_cache_get(&dev->cache, addr, len, access, &mr);
	if (ret)
		return inc_rdma_region_error(err, dev->device->name, len, access, ret);
	region->lkey = mr->mr->lkey;
	region->rkey = mr->mr->rkey;
	region->va = (uintptr_t)addr;
	region->priv = mr;
	return 0;
}

static void verbs_unmap(struct inc_channel_device *d, struct inc_channel_region *region)
{
	struct verbs_device *dev = VERBS_DEV(d);

	if (!region->priv)
		return;
	inc_verbs_stop_writes(dev, region);
	inc_rdma_mr_put(&dev->cache, region->priv);
	region->priv = NULL;
}

/* ---- figures and states ---- */

static int verbs_fd(const struct inc_channel_device *d, short *events)
{
	if (events)
		*events = POLLIN;
	return ((const struct verbs_device *)d)->epoll_fd;
}

static uint64_t verbs_under_way(const struct inc_channel *c)
{
	return ((const struct verbs_channel *)c)->under_way;
}

/* Returns UINT64_MAX, which means that no ACK is held back, because the device acknowledges results
 * by itself. */
static uint64_t verbs_ack_at_ns(const struct inc_channel *c)
{
	return UINT64_MAX;
}

static void verbs_attend(struct inc_channel *c, bool attended)
{
}

static uint64_t verbs_moved(const struct inc_channel *c)
{
	const struct verbs_channel *ch = (const struct verbs_channel *)c;

	return ch->taken + ch->sent;
}

static void verbs_describe(const struct inc_channel *c, char *buf, size_t size)
{
	const struct verbs_channel *ch = (const struct verbs_channel *)c;

	snprintf(buf, size, "message %llu of %llu has no result, %llu sends are not acknowledged%s",
		 (unsigned long long)ch->taken, (unsigned long long)ch->posted,
		 (unsigned long long)(ch->queued - ch->sent),
		 inc_rdma_port_note(&verbs_device_of(ch)->port_timer));
}

/* Reports packets of mirrored channels as computed from the lengths of their messages, because the
 * device does not count packets by queue pair. */
static void verbs_figures(const struct inc_channel *c, struct inc_channel_figures *out)
{
	const struct verbs_channel *ch = (const struct verbs_channel *)c;

	*out = (struct inc_channel_figures){
		.tx_packets = ch->tx_packets,
		.rx_packets = ch->rx_packets,
		.acks_received = ch->acks,
	};
}

static void verbs_device_figures(const struct inc_channel_device *d,
				 struct inc_channel_device_figures *out)
{
	const struct verbs_device *dev = (const struct verbs_device *)d;

	*out = (struct inc_channel_device_figures){.send_calls = dev->send_calls,
						   .recv_calls = dev->recv_calls};
}

const struct inc_channel_ops inc_channel_verbs = {
	.name = "verbs",
	.probe = verbs_probe,
	.open = verbs_open,
	.offer = verbs_offer,
	.close = verbs_close,
	.abandon = verbs_abandon,
	.map = verbs_map,
	.unmap = verbs_unmap,
	.make = inc_verbs_make,
	.connect = inc_verbs_connect,
	.shut = inc_verbs_shut,
	.post = inc_verbs_post,
	.send = inc_verbs_send,
	.exchange = inc_verbs_exchange,
	.flush = inc_verbs_flush,
	.progress = inc_verbs_progress,
	.arm = inc_verbs_arm,
	.fd = verbs_fd,
	.deadline_ns = inc_verbs_deadline_ns,
	.under_way = verbs_under_way,
	.ack_at_ns = verbs_ack_at_ns,
	.attend = verbs_attend,
	.moved = verbs_moved,
	.describe = verbs_describe,
	.figures = verbs_figures,
	.device_figures = verbs_device_figures,
};
