/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include "userspace/xdp/links.h"

struct inc_links {
	struct mnl_socket *nl;
	struct event *readable;
	void (*fn)(void *arg);
	void *arg;
};

/* What a message says is not read, because some may have been lost (ENOBUFS): fn looks itself. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	const struct inc_links *links = arg;
	char buf[256];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
	links->fn(links->arg);
}

int inc_links_open(struct event_base *base, void (*fn)(void *arg), void *arg,
		   struct inc_links **out, struct inc_err *err)
{
	struct inc_links *links = calloc(1, sizeof(*links));
	int ret;

	if (!links)
		return inc_err_set(err, ENOMEM, "no memory to watch interfaces");
	links->fn = fn;
	links->arg = arg;
	links->nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!links->nl || mnl_socket_bind(links->nl, RTMGRP_LINK, MNL_SOCKET_AUTOPID) < 0) {
		ret = inc_err_set(err, errno, "interfaces cannot be watched: %s", strerror(errno));
		goto fail;
	}
	links->readable = event_new(base, mnl_socket_get_fd(links->nl), EV_READ | EV_PERSIST,
				    on_readable, links);
	if (!links->readable || event_add(links->readable, NULL)) {
		ret = inc_err_set(err, ENOMEM, "no memory to watch interfaces");
		goto fail;
	}
	*out = links;
	return 0;

fail:
	inc_links_close(links);
	return ret;
}

void inc_links_close(struct inc_links *links)
{
	if (!links)
		return;
	if (links->readable)
		event_free(links->readable);
	if (links->nl)
		mnl_socket_close(links->nl);
	free(links);
}
