/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/spin.h"
#include "lib/proto/roce.h"
#include "userspace/term/devices.h"

#define EVENTS 64 /* limit of the events that one wait returns */

struct shared {
	struct inc_channel_device *dev;
	/* the device serves all ports with addresses of own_ip's family; false: only the port
	 * `ifname` at address own_ip */
	bool all;
	char ifname[IF_NAMESIZE];
	struct inc_addr own_ip;
	uint16_t udp_port; /* UDP port that the first user of the device requested; 0: any */
	uint32_t users;
	/* the device has more to do, as epoll or the last progress() reported, so the worker must
	 * not sleep */
	bool more;
	LIST_ENTRY(shared) entry;
};

struct inc_term_devices {
	struct inc_term_devices_opts opts;
	int epoll_fd;
	struct inc_spin spin;
	LIST_HEAD(, shared) list;
	/* sums of the counters of devices that are closed by now */
	struct inc_channel_device_figures closed;
};

static int watch(struct inc_term_devices *d, int fd, struct shared *s)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int inc_term_devices_new(const struct inc_term_devices_opts *opts, int wake_fd,
			 struct inc_term_devices **out, struct inc_err *err)
{
	struct inc_term_devices *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return inc_err_set(err, ENOMEM, "no memory for devices");
	d->opts = *opts;
	inc_spin_init(&d->spin, opts->poll_ns);
	LIST_INIT(&d->list);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ret = d->epoll_fd < 0 ? -errno : watch(d, wake_fd, NULL);
	if (ret) {
		inc_err_set(err, -ret, "epoll: %s", strerror(-ret));
		inc_term_devices_free(d);
		return ret;
	}
	*out = d;
	return 0;
}

void inc_term_devices_free(struct inc_term_devices *d)
{
	if (!d)
		return;
	if (d->epoll_fd >= 0)
		close(d->epoll_fd);
	free(d);
}

static struct shared *find(struct inc_term_devices *d, const struct inc_term_device_want *want)
{
	struct shared *s;

	LIST_FOREACH (s, &d->list, entry)
		if (s->dev->ops == want->ops &&
		    (s->all ? inc_addr_is_ipv4(s->own_ip) == inc_addr_is_ipv4(want->own_ip)
			    : !strcmp(s->ifname, want->ifname) &&
				      inc_addr_same(s->own_ip, want->own_ip)) &&
		    (!want->udp_port || s->udp_port == want->udp_port))
			return s;
	return NULL;
}

static const struct inc_channel_device *any_of(const struct inc_term_devices *d,
					       const struct inc_channel_ops *ops)
{
	const struct shared *s;

	LIST_FOREACH (s, &d->list, entry)
		if (s->dev->ops == ops)
			return s->dev;
	return NULL;
}

static int open_at(struct inc_term_devices *d, const struct inc_term_device_want *want,
		   uint16_t udp_port, struct shared *s, struct inc_err *err)
{
	const struct inc_channel_device_opts opts = {
		.ifname = s->all ? NULL : want->ifname,
		.own_ip = s->all ? inc_addr_any(want->own_ip) : want->own_ip,
		.udp_port = udp_port,
		.rto_min_ns = d->opts.rto_min_ns,
		.rto_max_ns = d->opts.rto_max_ns,
		.handler = d->opts.handler,
		.beside = any_of(d, want->ops),
	};

	s->udp_port = udp_port;
	return want->ops->open(&opts, &s->dev, err);
}

static int open_shared(struct inc_term_devices *d, const struct inc_term_device_want *want,
		       struct shared *s, struct inc_err *err)
{
	int ret;

	s->all = want->ops->serves_all_ports;
	ret = open_at(d, want, want->udp_port ?: INC_ROCE_UDP_PORT, s, err);
	/* RoCEv2's UDP port may be in use at all addresses, by another worker or a NIC's driver. If
	 * no particular port is required, take any other. A required port may still be free at this
	 * one address. */
	if (ret == -EADDRINUSE && !want->udp_port) {
		ret = open_at(d, want, 0, s, err);
	} else if (ret == -EADDRINUSE && s->all) {
		s->all = false;
		ret = open_at(d, want, want->udp_port, s, err);
	}
	if (ret)
		return ret;
	ret = watch(d, want->ops->fd(s->dev, NULL), s);
	if (ret) {
		inc_err_set(err, -ret, "port %s: epoll: %s", want->ifname, strerror(-ret));
		want->ops->close(s->dev);
	}
	return ret;
}

int inc_term_devices_get(struct inc_term_devices *d, const struct inc_term_device_want *want,
			 struct inc_channel_device **out, struct inc_err *err)
{
	struct shared *s = find(d, want);
	int ret;

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return inc_err_set(err, ENOMEM, "port %s: no memory", want->ifname);
		strncpy(s->ifname, want->ifname, sizeof(s->ifname) - 1);
		s->own_ip = want->own_ip;
		ret = open_shared(d, want, s, err);
		if (ret) {
			free(s);
			return ret;
		}
		LIST_INSERT_HEAD(&d->list, s, entry);
	}
	s->users++;
	*out = s->dev;
	return 0;
}

static void add_figures(struct inc_channel_device_figures *sum, const struct shared *s)
{
	struct inc_channel_device_figures f;

	s->dev->ops->device_figures(s->dev, &f);
	sum->strangers += f.strangers;
	sum->wrong_port += f.wrong_port;
	sum->damaged += f.damaged;
}

struct inc_channel_device_figures inc_term_devices_figures(const struct inc_term_devices *d)
{
	struct inc_channel_device_figures sum = d->closed;
	const struct shared *s;

	LIST_FOREACH (s, &d->list, entry)
		add_figures(&sum, s);
	return sum;
}

void inc_term_devices_put(struct inc_term_devices *d, struct inc_channel_device *dev)
{
	struct shared *s;

	LIST_FOREACH (s, &d->list, entry)
		if (s->dev == dev)
			break;
	if (!s || --s->users)
		return;
	add_figures(&d->closed, s);
	epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, dev->ops->fd(dev, NULL), NULL);
	dev->ops->close(dev);
	LIST_REMOVE(s, entry);
	free(s);
}

/* Returns how many milliseconds the worker may wait until a device's timer expires. The time is
 * rounded up, because a timer that is checked too early must be checked twice. */
static int wait_ms(struct inc_term_devices *d, uint64_t until_ns, uint64_t now_ns)
{
	struct shared *s;
	int ms;

	LIST_FOREACH (s, &d->list, entry) {
		uint64_t at_ns;

		s->more = s->more || s->dev->ops->arm(s->dev);
		at_ns = s->more ? 0 : s->dev->ops->deadline_ns(s->dev);

		if (at_ns < until_ns)
			until_ns = at_ns;
	}
	ms = inc_ms_until(until_ns, now_ns);
	return ms < 1000 ? ms : 1000;
}

static void progress(struct shared *s)
{
	s->more = s->dev->ops->progress(s->dev);
	s->dev->ops->flush(s->dev);
}

/* Waits for events of the devices, ms milliseconds at most. If polling may pay, this looks for
 * events once without sleeping and returns to the worker's loop, which calls it again. */
static int wait_for_events(struct inc_term_devices *d, struct epoll_event *events, int ms)
{
	int n;

	if (ms && inc_spin_polls(&d->spin)) {
		inc_spin_give_way(&d->spin);
		ms = 0;
	}
	n = inc_os.wait.epoll(d->epoll_fd, events, EVENTS, ms);
	if (n > 0)
		inc_spin_arrived(&d->spin);
	return n;
}

bool inc_term_devices_turn(struct inc_term_devices *d, uint64_t until_ns)
{
	const int ms = wait_ms(d, until_ns, inc_now_ns());
	struct epoll_event events[EVENTS];
	bool called = false;
	struct shared *s;
	uint64_t now_ns;
	int n, i;

	n = wait_for_events(d, events, ms);
	for (i = 0; i < n; i++)
		if (events[i].data.ptr)
			((struct shared *)events[i].data.ptr)->more = true;
		else
			called = true;
	now_ns = inc_now_ns();
	LIST_FOREACH (s, &d->list, entry)
		if (s->more || s->dev->ops->deadline_ns(s->dev) <= now_ns)
			progress(s);
	return called;
}

void inc_term_devices_flush(struct inc_term_devices *d)
{
	struct shared *s;

	LIST_FOREACH (s, &d->list, entry)
		s->dev->ops->flush(s->dev);
}
