/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA devices of a switch: how they are found, opened, told of memory and closed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/proto/roce.h"
#include "lib/rdma/place.h"
#include "lib/rdma/region.h"
#include "userspace/term/verbs_priv.h"

/* Of the completion queue at first; it grows with channels. */
#define COMPLETIONS 256

/* ---- which device ---- */

static int find_place(const char *ifname, struct in_addr own_ip, struct inc_rdma_place *place,
		      struct inc_err *err)
{
	const struct inc_rdma_place_wish wish = {.device = "", .gid_index = -1};
	struct inc_err why;
	int ret = inc_rdma_place_find(&wish, own_ip.s_addr, place, &why);

	if (ret)
		return inc_err_set(err, -ret, "%s: %.400s", ifname, why.msg);
	if (place->mtu_bytes >= INC_MIN_PAYLOAD)
		return 0;
	inc_rdma_place_close(place);
	return inc_err_set(err, ENODEV, "%s: MTU %u is too small", ifname, place->mtu_bytes);
}

static uint32_t payload_of(unsigned int mtu_bytes)
{
	return mtu_bytes < INC_MAX_PAYLOAD ? mtu_bytes : INC_MAX_PAYLOAD;
}

static int verbs_probe(const char *ifname, struct in_addr own_ip, struct inc_term_offer *out,
		       struct inc_err *why)
{
	struct inc_rdma_place place;
	int ret = find_place(ifname, own_ip, &place, why);

	memset(out, 0, sizeof(*out));
	if (ret)
		return ret;
	snprintf(out->device, sizeof(out->device), "%.32s port %u, GID %u", place.device->name,
		 place.port, place.gid_index);
	out->payload_bytes = payload_of(place.mtu_bytes);
	out->max_message_bytes = place.max_message_bytes < VERBS_MAX_MESSAGE
					 ? place.max_message_bytes
					 : VERBS_MAX_MESSAGE;
	inc_rdma_place_close(&place);
	return 0;
}

/* ---- open and close ---- */

static void on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct verbs_device *dev =
		(struct verbs_device *)((char *)self - offsetof(struct verbs_device, events));

	switch (event->kind) {
	case INC_RDMA_PORT_UP:
		dev->port_down_at_ns = 0;
		break;
	case INC_RDMA_PORT_WENT_DOWN:
		if (!dev->port_down_at_ns)
			dev->port_down_at_ns = inc_now_ns();
		break;
	case INC_RDMA_CQ_FATAL:
	case INC_RDMA_DEVICE_FATAL:
	case INC_RDMA_DEVICE_GONE:
		inc_verbs_lose_all(dev, event->text);
		break;
	case INC_RDMA_QP_FATAL: /* its channel's */
		return;
	default:
		break;
	}
	inc_info("%s/%u: %s", dev->device->name, dev->port, event->text);
}

/* The device for itself, with an inventory that sees nothing else. */
static int open_device(struct verbs_device *dev, const struct inc_term_device_opts *opts,
		       struct inc_err *err)
{
	struct inc_rdma_filter_entry only = {};
	const struct inc_rdma_filter filter = {.entry = &only, .entries = 1};
	const struct inc_rdma_list *list;
	struct inc_rdma_place place;
	int ret = find_place(opts->ifname, opts->own_ip, &place, err);

	if (ret)
		return ret;
	dev->port = only.port = place.port;
	dev->gid_index = place.gid_index;
	dev->mtu_bytes = place.mtu_bytes;
	snprintf(only.device, sizeof(only.device), "%s", place.device->name);
	inc_rdma_place_close(&place);
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
	dev->events = (struct inc_rdma_subscriber){.on_event = on_event, .port = dev->port};
	inc_rdma_subscribe(dev->device, &dev->events);
	return inc_rdma_completions_open(&dev->completions, dev->device, COMPLETIONS, VERBS_BATCH,
					 err);
}

static int watch(struct verbs_device *dev)
{
	const int fds[] = {inc_rdma_completions_fd(&dev->completions),
			   inc_rdma_inventory_fd(dev->inventory), dev->entered_fd};
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.fd = fds[i]};

		if (fds[i] < 0 || epoll_ctl(dev->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev))
			return -errno;
	}
	return 0;
}

/* What may wait for steps to RTR. */
static void end(struct verbs_device *dev)
{
	inc_verbs_end_entries(dev);
	inc_rdma_completions_close(&dev->completions);
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

static void verbs_close(struct inc_term_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	pthread_t thread;

	/* peers' addresses are still looked for: nobody else is to wait for that */
	if (!LIST_EMPTY(&dev->entries) && !inc_thread_create(&thread, end_thread, dev))
		pthread_detach(thread);
	else
		end(dev);
}

static int verbs_open(const struct inc_term_device_opts *opts, struct inc_term_device **out,
		      struct inc_err *err)
{
	struct verbs_device *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return inc_err_set(err, ENOMEM, "%s: %s", opts->ifname, strerror(ENOMEM));
	dev->dev.ops = &inc_term_verbs;
	dev->handler = opts->handler;
	TAILQ_INIT(&dev->channels);
	dev->look_at_ns = inc_now_ns() + VERBS_LOOK_NS;
	dev->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	dev->entered_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = open_device(dev, opts, err);
	if (ret)
		goto fail;
	ret = watch(dev);
	if (ret) {
		inc_err_set(err, -ret, "%s: event descriptors: %s", opts->ifname, strerror(-ret));
		goto fail;
	}
	*out = &dev->dev;
	return 0;

fail:
	end(dev);
	return ret;
}

/* ---- memory ---- */

static int verbs_map(struct inc_term_device *d, void *memory, size_t bytes, struct inc_err *err)
{
	struct verbs_device *dev = VERBS_DEV(d);
	struct verbs_memory *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return inc_err_set(err, ENOMEM, "%s: %s", dev->device->name, strerror(ENOMEM));
	m->start = (uintptr_t)memory;
	m->end = m->start + bytes;
	m->mr = ibv_reg_mr(dev->device->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!m->mr) {
		ret = inc_rdma_region_error(err, dev->device->name, bytes, IBV_ACCESS_LOCAL_WRITE,
					    -errno);
		free(m);
		return ret;
	}
	LIST_INSERT_HEAD(&dev->memory, m, entry);
	return 0;
}

static void verbs_unmap(struct inc_term_device *d, void *memory)
{
	struct verbs_memory *m;

	LIST_FOREACH (m, &VERBS_DEV(d)->memory, entry)
		if (m->start == (uintptr_t)memory)
			break;
	if (!m)
		return;
	ibv_dereg_mr(m->mr);
	LIST_REMOVE(m, entry);
	free(m);
}

bool inc_verbs_key(const struct verbs_device *dev, const void *buffer, uint32_t length,
		   uint32_t *lkey)
{
	const uintptr_t start = (uintptr_t)buffer;
	const struct verbs_memory *m;

	LIST_FOREACH (m, &dev->memory, entry)
		if (start >= m->start && start + length <= m->end)
			break;
	if (m)
		*lkey = m->mr->lkey;
	return m;
}

/* ---- what it tells ---- */

static int verbs_fd(const struct inc_term_device *d)
{
	return VERBS_DEV(d)->epoll_fd;
}

/* The device counts, and does not say by queue pair. */
static void verbs_figures(const struct inc_term_channel *c, struct inc_term_channel_figures *out)
{
	*out = (struct inc_term_channel_figures){};
}

static void verbs_device_figures(const struct inc_term_device *d,
				 struct inc_term_device_figures *out)
{
	*out = (struct inc_term_device_figures){0};
}

const struct inc_term_endpoint_ops inc_term_verbs = {
	.probe = verbs_probe,
	.open = verbs_open,
	.close = verbs_close,
	.map = verbs_map,
	.unmap = verbs_unmap,
	.make = inc_verbs_make,
	.connect = inc_verbs_connect,
	.shut = inc_verbs_shut,
	.post = inc_verbs_post,
	.send = inc_verbs_send,
	.flush = inc_verbs_flush,
	.fd = verbs_fd,
	.deadline_ns = inc_verbs_deadline_ns,
	.progress = inc_verbs_progress,
	.figures = verbs_figures,
	.device_figures = verbs_device_figures,
};
