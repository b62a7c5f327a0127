/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/loop.h"
#include "userspace/links.h"

#define PERIOD_MS 1000

struct list {
	struct inc_link *link;
	int n, room;
};

static uint32_t xdp_id_of(const struct nlattr *xdp)
{
	const struct nlattr *attr;
	uint32_t id = 0;

	mnl_attr_for_each_nested(attr, xdp) if (mnl_attr_get_type(attr) == IFLA_XDP_PROG_ID) id =
		mnl_attr_get_u32(attr);
	return id;
}

static int on_link(const struct nlmsghdr *nlh, void *data)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	struct list *list = data;
	struct inc_link *link, *more;
	const struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	if (list->n == list->room) {
		more = realloc(list->link, (2 * list->room + 16) * sizeof(*more));
		if (!more) {
			errno = ENOMEM;
			return MNL_CB_ERROR;
		}
		list->link = more;
		list->room = 2 * list->room + 16;
	}
	link = &list->link[list->n++];
	*link = (struct inc_link){.ifindex = info->ifi_index, .up = info->ifi_flags & IFF_UP};
	mnl_attr_for_each (attr, nlh, sizeof(*info)) {
		if (mnl_attr_get_type(attr) == IFLA_IFNAME)
			snprintf(link->name, sizeof(link->name), "%s", mnl_attr_get_str(attr));
		else if (mnl_attr_get_type(attr) == IFLA_XDP)
			link->xdp_id = xdp_id_of(attr);
		else if (mnl_attr_get_type(attr) == IFLA_MTU)
			link->mtu = mnl_attr_get_u32(attr);
		else if (mnl_attr_get_type(attr) == IFLA_CARRIER)
			link->no_carrier = !mnl_attr_get_u8(attr);
	}
	return MNL_CB_OK;
}

static int ask_for_all(struct mnl_socket *nl)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *info;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));
	info->ifi_family = AF_UNSPEC;
	return mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -errno : 0;
}

static int read_all(struct mnl_socket *nl, struct list *list)
{
	/* size of the buffer: the most that the kernel puts into one message of a dump */
	char buf[32768];
	int ret = MNL_CB_OK;
	ssize_t n;

	while (ret > MNL_CB_STOP) {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		ret = mnl_cb_run(buf, n, 1, mnl_socket_get_portid(nl), on_link, list);
	}
	return ret < 0 ? -errno : 0;
}

static int read_once(struct list *list)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int ret;

	if (!nl)
		return -errno;
	ret = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : ask_for_all(nl);
	ret = ret ?: read_all(nl, list);
	mnl_socket_close(nl);
	return ret;
}

/* Reads all interfaces. It repeats the read after -EINTR, because the list may lack interfaces that
 * changed while the kernel listed them. */
int inc_links_read(struct inc_link **out)
{
	struct list list = {};
	int ret = -EINTR, i;

	*out = NULL;
	for (i = 0; ret == -EINTR && i < INC_LINKS_TRIES; i++) {
		list.n = 0;
		ret = read_once(&list);
	}
	if (ret) {
		free(list.link);
		return ret;
	}
	*out = list.link;
	return list.n;
}

const struct inc_link *inc_link_at(const struct inc_link *list, int n, uint32_t ifindex)
{
	int i;

	for (i = 0; i < n; i++)
		if (list[i].ifindex == ifindex)
			return &list[i];
	return NULL;
}

const struct inc_link *inc_link_called(const struct inc_link *list, int n, const char *name)
{
	int i;

	for (i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

struct inc_links_watch {
	struct mnl_socket *nl;
	struct event *changed;
	struct inc_timer *gathered, *period;
	void (*fn)(void *arg);
	void *arg;
};

/* Called when the kernel reports changes. It reads and discards the messages, because the handler
 * then lists all interfaces. So lost messages do not matter. */
static void on_changed(evutil_socket_t fd, short what, void *arg)
{
	struct inc_links_watch *w = arg;
	char buf[MNL_SOCKET_BUFFER_SIZE];
	ssize_t n;

	do
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	while (n > 0 || (n < 0 && errno == ENOBUFS));
	if (!inc_timer_runs(w->gathered))
		inc_timer_arm(w->gathered, INC_LINKS_GATHER_MS);
}

static void on_gathered(void *arg)
{
	struct inc_links_watch *w = arg;

	w->fn(w->arg);
}

static void on_period(void *arg)
{
	struct inc_links_watch *w = arg;

	inc_timer_arm(w->period, PERIOD_MS);
	w->fn(w->arg);
}

int inc_links_watch_start(struct event_base *base, void (*fn)(void *arg), void *arg,
			  struct inc_links_watch **out, struct inc_err *err)
{
	struct inc_links_watch *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return inc_err_set(err, ENOMEM, "no memory to watch the interfaces");
	w->fn = fn;
	w->arg = arg;
	w->nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!w->nl ||
	    mnl_socket_bind(w->nl, RTMGRP_LINK | RTMGRP_IPV4_IFADDR, MNL_SOCKET_AUTOPID) < 0) {
		ret = inc_err_set(err, errno, "the interfaces cannot be watched: %s",
				  strerror(errno));
		goto fail;
	}
	w->changed = event_new(base, mnl_socket_get_fd(w->nl), EV_READ | EV_PERSIST, on_changed, w);
	w->gathered = inc_timer_new(base, on_gathered, w);
	w->period = inc_timer_new(base, on_period, w);
	if (!w->changed || !w->gathered || !w->period || event_add(w->changed, NULL) ||
	    inc_timer_arm(w->period, PERIOD_MS)) {
		ret = inc_err_set(err, ENOMEM, "no event to watch the interfaces");
		goto fail;
	}
	*out = w;
	return 0;

fail:
	inc_links_watch_stop(w);
	return ret;
}

void inc_links_watch_stop(struct inc_links_watch *w)
{
	if (!w)
		return;
	if (w->changed)
		event_free(w->changed);
	inc_timer_free(w->gathered);
	inc_timer_free(w->period);
	if (w->nl)
		mnl_socket_close(w->nl);
	free(w);
}
