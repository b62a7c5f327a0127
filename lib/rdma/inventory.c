/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/rdma/device_priv.h"
#include "lib/rdma/inventory.h"

/* A device of this machine, or a free place for one. Its position in the inventory's table is the
 * device's index. */
struct slot {
	char name[INC_RDMA_NAME_SIZE]; /* name of the device; "": the slot is free */
	/* the device as libibverbs lists it, which stays the same while `device` is open */
	struct ibv_device *ibv;
	struct inc_rdma_device *device; /* the open device; NULL: it could not be opened */
	struct inc_rdma_fault fault;
	struct inc_rdma_subscriber subscriber;
	struct inc_rdma_inventory *inventory;
	bool seen; /* the current refresh has found the device */
};

struct counted_list {
	struct inc_rdma_list list; /* the public list, which must be the first member */
	atomic_uint refs;
};

struct inc_rdma_inventory {
	struct inc_rdma_filter filter;
	int epoll_fd;
	/* an event has reported a change, so the list is out of date until the next refresh */
	bool stale;
	/* protects `list`, and the device of each slot, because threads other than the refreshing
	 * one read them */
	pthread_mutex_t lock;
	struct counted_list *list;
	struct slot slot[INC_RDMA_MAX_DEVICES];
};

void inc_rdma_list_put(const struct inc_rdma_list *list)
{
	struct counted_list *counted = (struct counted_list *)list;
	unsigned int i;

	if (atomic_fetch_sub(&counted->refs, 1) != 1)
		return;
	for (i = 0; i < list->devices; i++)
		inc_rdma_describe_free(&list->device[i]);
	free((void *)list->device);
	free(counted);
}

static void on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct slot *slot = (struct slot *)((char *)self - offsetof(struct slot, subscriber));

	if (!event->qp && !event->cq)
		slot->inventory->stale = true;
}

/* Releases a device that is gone, and frees its slot. Users of the device keep their references,
 * but the inventory returns the device no more. */
static void lose(struct inc_rdma_inventory *inventory, struct slot *slot)
{
	const struct inc_rdma_event gone = {.kind = INC_RDMA_DEVICE_GONE, .text = "device is gone"};
	struct inc_rdma_device *device = slot->device;

	pthread_mutex_lock(&inventory->lock);
	slot->device = NULL;
	slot->name[0] = '\0';
	pthread_mutex_unlock(&inventory->lock);
	if (!device)
		return;
	inc_rdma_unsubscribe(device, &slot->subscriber);
	/* remove the descriptor from epoll, because close() does not while other users of the
	 * device keep it open */
	epoll_ctl(inventory->epoll_fd, EPOLL_CTL_DEL, device->ctx->async_fd, NULL);
	inc_rdma_tell(device, &gone);
	inc_rdma_device_put(device);
}

static void try_to_open(struct inc_rdma_inventory *inventory, struct slot *slot)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = slot};
	struct inc_rdma_device *device = inc_rdma_device_open(slot->ibv, &slot->fault);

	if (!device)
		return;
	if (epoll_ctl(inventory->epoll_fd, EPOLL_CTL_ADD, device->ctx->async_fd, &ev)) {
		slot->fault = (struct inc_rdma_fault){-errno, "events"};
		inc_rdma_device_put(device);
		return;
	}
	slot->inventory = inventory;
	slot->subscriber = (struct inc_rdma_subscriber){.on_event = on_event};
	inc_rdma_subscribe(device, &slot->subscriber);
	pthread_mutex_lock(&inventory->lock);
	slot->device = device;
	pthread_mutex_unlock(&inventory->lock);
}

/* Returns the slot of a device that was there before, else a free slot, or NULL if all are in use.
 * libibverbs keeps the struct ibv_device of an open device allocated. So a new device with the same
 * name has another address. */
static struct slot *slot_of(struct inc_rdma_inventory *inventory, struct ibv_device *ibv)
{
	struct slot *slot = inventory->slot, *end = slot + INC_RDMA_MAX_DEVICES, *free_slot = NULL;

	for (; slot < end; slot++) {
		if (slot->name[0] && !strcmp(slot->name, ibv_get_device_name(ibv)) &&
		    (!slot->device || slot->ibv == ibv))
			return slot;
		if (!slot->name[0] && !free_slot)
			free_slot = slot;
	}
	return free_slot;
}

/* Updates the inventory's slots to the devices in the list of libibverbs. Returns how many devices
 * do not pass the filter. */
static unsigned int match_slots(struct inc_rdma_inventory *inventory, struct ibv_device **list,
				int n)
{
	unsigned int passed_over = 0;
	struct slot *slot;
	int pass, i;

	for (i = 0; i < INC_RDMA_MAX_DEVICES; i++)
		inventory->slot[i].seen = false;
	/* the first pass is for devices that have a slot, so that slots of gone devices are free
	 * for new ones in the second */
	for (pass = 0; pass < 2; pass++) {
		passed_over = 0;
		for (i = 0; i < n; i++) {
			if (!inc_rdma_filter_passes(&inventory->filter,
						    ibv_get_device_name(list[i]), 0)) {
				passed_over++;
				continue;
			}
			slot = slot_of(inventory, list[i]);
			if (!slot || (!pass && !slot->name[0]))
				continue;
			slot->seen = true;
			slot->ibv = list[i];
			/* do not write the name of an open device again, because other threads read
			 * it */
			if (!slot->name[0])
				snprintf(slot->name, sizeof(slot->name), "%s",
					 ibv_get_device_name(list[i]));
		}
		for (i = 0; !pass && i < INC_RDMA_MAX_DEVICES; i++)
			if (inventory->slot[i].name[0] && !inventory->slot[i].seen)
				lose(inventory, &inventory->slot[i]);
	}
	return passed_over;
}

static int describe_slots(struct inc_rdma_inventory *inventory, struct counted_list *counted)
{
	struct inc_rdma_device_info *device, *info;
	struct ifaddrs *own = NULL;
	struct slot *slot;
	unsigned int i;
	int ret = 0;

	device = calloc(INC_RDMA_MAX_DEVICES, sizeof(*device));
	if (!device)
		return -ENOMEM;
	counted->list.device = device;
	if (getifaddrs(&own))
		return -errno;
	for (i = 0; i < INC_RDMA_MAX_DEVICES && !ret; i++) {
		slot = &inventory->slot[i];
		if (!slot->name[0])
			continue;
		if (!slot->device)
			try_to_open(inventory, slot);
		info = &device[counted->list.devices++];
		info->index = i;
		strcpy(info->name, slot->name);
		info->guid = be64toh(ibv_get_device_guid(slot->ibv));
		if (slot->device)
			ret = inc_rdma_describe(slot->device, &inventory->filter, own, info);
		else
			info->fault = slot->fault;
	}
	freeifaddrs(own);
	return ret;
}

static bool same_list(const struct inc_rdma_list *a, const struct inc_rdma_list *b)
{
	unsigned int i;

	if (a->devices != b->devices || a->passed_over != b->passed_over)
		return false;
	for (i = 0; i < a->devices; i++)
		if (!inc_rdma_describe_same(&a->device[i], &b->device[i]))
			return false;
	return true;
}

/* Makes a new list the current one, and takes over the caller's reference to it. Returns 1 if the
 * list differs from the one before. */
static int publish(struct inc_rdma_inventory *inventory, struct counted_list *counted)
{
	struct counted_list *old = counted;
	int changed = !inventory->list || !same_list(&inventory->list->list, &counted->list);

	if (changed) {
		pthread_mutex_lock(&inventory->lock);
		old = inventory->list;
		inventory->list = counted;
		pthread_mutex_unlock(&inventory->lock);
	}
	if (old)
		inc_rdma_list_put(&old->list);
	return changed;
}

int inc_rdma_inventory_refresh(struct inc_rdma_inventory *inventory, struct inc_err *err)
{
	struct counted_list *counted = calloc(1, sizeof(*counted));
	struct ibv_device **list;
	int n = 0, ret;

	if (!counted)
		return inc_err_set(err, ENOMEM, "RDMA devices: %s", strerror(ENOMEM));
	atomic_init(&counted->refs, 1);
	inventory->stale = false;
	errno = 0;
	list = ibv_get_device_list(&n);
	/* these errors mean that the kernel has no RDMA, and so no devices */
	ret = list || errno == ENOSYS || errno == ENOENT ? 0 : -(errno ?: ENOMEM);
	if (!ret) {
		counted->list.passed_over = match_slots(inventory, list, list ? n : 0);
		ret = describe_slots(inventory, counted);
	}
	if (list)
		ibv_free_device_list(list);
	if (ret) {
		inc_rdma_list_put(&counted->list);
		return inc_err_set(err, -ret, "RDMA devices: %s", strerror(-ret));
	}
	return publish(inventory, counted);
}

const struct inc_rdma_list *inc_rdma_inventory_get(struct inc_rdma_inventory *inventory)
{
	struct counted_list *list;

	pthread_mutex_lock(&inventory->lock);
	list = inventory->list;
	atomic_fetch_add(&list->refs, 1);
	pthread_mutex_unlock(&inventory->lock);
	return &list->list;
}

struct inc_rdma_device *inc_rdma_inventory_device(struct inc_rdma_inventory *inventory,
						  uint8_t index, const char *name)
{
	const struct slot *slot = &inventory->slot[index];
	struct inc_rdma_device *device = NULL;

	pthread_mutex_lock(&inventory->lock);
	if (slot->device && !strcmp(slot->name, name))
		device = inc_rdma_device_ref(slot->device);
	pthread_mutex_unlock(&inventory->lock);
	return device;
}

int inc_rdma_inventory_fd(const struct inc_rdma_inventory *inventory)
{
	return inventory->epoll_fd;
}

int inc_rdma_inventory_take(struct inc_rdma_inventory *inventory)
{
	struct epoll_event ready[16];
	struct inc_rdma_device *device;
	int i, n;

	while ((n = epoll_wait(inventory->epoll_fd, ready, 16, 0)) > 0)
		for (i = 0; i < n; i++) {
			device = ((struct slot *)ready[i].data.ptr)->device;
			if (inc_rdma_device_take(device) >= 0)
				continue;
			/* stop waiting for the device, whose descriptor would stay readable for
			 * ever; the next refresh finds the reason */
			epoll_ctl(inventory->epoll_fd, EPOLL_CTL_DEL, device->ctx->async_fd, NULL);
			inventory->stale = true;
		}
	return inventory->stale;
}

void inc_rdma_inventory_close(struct inc_rdma_inventory *inventory)
{
	unsigned int i;

	if (!inventory)
		return;
	for (i = 0; i < INC_RDMA_MAX_DEVICES; i++)
		if (inventory->slot[i].device) {
			inc_rdma_unsubscribe(inventory->slot[i].device,
					     &inventory->slot[i].subscriber);
			inc_rdma_device_put(inventory->slot[i].device);
		}
	if (inventory->list)
		inc_rdma_list_put(&inventory->list->list);
	if (inventory->epoll_fd >= 0)
		close(inventory->epoll_fd);
	pthread_mutex_destroy(&inventory->lock);
	free((void *)inventory->filter.entry);
	free(inventory);
}

static int copy_filter(struct inc_rdma_filter *to, const struct inc_rdma_filter *from)
{
	struct inc_rdma_filter_entry *entry;

	if (!from || !from->entries)
		return 0;
	entry = calloc(from->entries, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	memcpy(entry, from->entry, from->entries * sizeof(*entry));
	*to = (struct inc_rdma_filter){entry, from->entries};
	return 0;
}

int inc_rdma_inventory_open(const struct inc_rdma_filter *filter, struct inc_rdma_inventory **out,
			    struct inc_err *err)
{
	struct inc_rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	int ret;

	if (!inventory)
		return inc_err_set(err, ENOMEM, "RDMA devices: %s", strerror(ENOMEM));
	pthread_mutex_init(&inventory->lock, NULL);
	inventory->epoll_fd = inc_fd_high(epoll_create1(EPOLL_CLOEXEC));
	ret = inventory->epoll_fd < 0 ? -errno : copy_filter(&inventory->filter, filter);
	if (ret)
		inc_err_set(err, -ret, "RDMA devices: %s", strerror(-ret));
	else
		ret = inc_rdma_inventory_refresh(inventory, err);
	if (ret < 0) {
		inc_rdma_inventory_close(inventory);
		return ret;
	}
	*out = inventory;
	return 0;
}
