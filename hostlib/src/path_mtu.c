/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds how long the packets of soft channels may be: as long as the interface and the configured
 * routes allow. ICMP is not considered, because anyone can forge it, and the socket ignores it as
 * well. Called while an endpoint is opened and connected.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "hostlib/src/endpoint.h"
#include "lib/base/fd.h"
#include "lib/net/netdev.h"
#include "lib/roce/wire.h"

/* Size of the buffer for the kernel's answers about routes. An answer has as many routes as the
 * buffer has room for, and no route is longer (netlink(7)). The buffer is on the caller's stack,
 * which may be small. */
#define ANSWER_BYTES 8192

struct route {
	int ifindex;
	unsigned int mtu; /* MTU of the route; 0: the route has none of its own */
};

typedef void (*route_fn)(const struct route *route, void *ctx);

static unsigned char family_of(struct inc_addr addr)
{
	return inc_addr_is_ipv4(addr) ? AF_INET : AF_INET6;
}

static const struct rtattr *find_attr(const struct rtattr *at, int left, unsigned short type)
{
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == type)
			return at;
	return NULL;
}

static int attr_int(const struct rtattr *at)
{
	int value = 0;

	if (at && RTA_PAYLOAD(at) >= sizeof(value))
		memcpy(&value, RTA_DATA(at), sizeof(value));
	return value;
}

/* Calls fn for a route of the kernel's answer: once for each interface by which its packets may
 * leave. */
static void take_route(const struct nlmsghdr *nlh, route_fn fn, void *ctx)
{
	const struct rtmsg *rtm = NLMSG_DATA(nlh);
	const struct rtattr *first = RTM_RTA(rtm), *metrics, *paths;
	int len = RTM_PAYLOAD(nlh), left;
	const struct rtnexthop *hop;
	struct route route = {0};

	/* a CLONED route is ignored, because the kernel has learned it for a destination, mostly by
	 * ICMP */
	if (nlh->nlmsg_type != RTM_NEWROUTE || rtm->rtm_flags & RTM_F_CLONED)
		return;
	metrics = find_attr(first, len, RTA_METRICS);
	if (metrics)
		route.mtu = attr_int(find_attr(RTA_DATA(metrics), RTA_PAYLOAD(metrics), RTAX_MTU));
	paths = find_attr(first, len, RTA_MULTIPATH);
	if (!paths) {
		route.ifindex = attr_int(find_attr(first, len, RTA_OIF));
		fn(&route, ctx);
		return;
	}
	left = RTA_PAYLOAD(paths);
	for (hop = RTA_DATA(paths); left >= (int)sizeof(*hop) && RTNH_OK(hop, left);
	     left -= RTNH_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop)) {
		route.ifindex = hop->rtnh_ifindex;
		fn(&route, ctx);
	}
}

/* Reads an answer of the kernel with routes. Returns 1 if more routes follow, 0 if these were all,
 * or -errno. */
static int take_answer(const char *buf, int left, route_fn fn, void *ctx)
{
	const struct nlmsghdr *nlh;
	int error;

	for (nlh = (const void *)buf; NLMSG_OK(nlh, left); nlh = NLMSG_NEXT(nlh, left)) {
		if (nlh->nlmsg_type == NLMSG_DONE)
			return 0;
		if (nlh->nlmsg_type == NLMSG_ERROR) {
			memcpy(&error, NLMSG_DATA(nlh), sizeof(error));
			return error;
		}
		take_route(nlh, fn, ctx);
	}
	return 1;
}

static int ask_routes(struct nlmsghdr *question, route_fn fn, void *ctx)
{
	char buf[ANSWER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	int fd, ret;
	ssize_t n;

	fd = inc_fd_high(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
	if (fd < 0)
		return -errno;
	ret = send(fd, question, question->nlmsg_len, 0) < 0 ? -errno : 1;
	while (ret == 1) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0)
			ret = errno == EINTR ? 1 : -errno;
		else
			ret = take_answer(buf, n, fn, ctx);
	}
	close(fd);
	return ret;
}

/* Stores the smallest MTU of all routes that leave by one interface. */
static void smallest(const struct route *route, void *ctx)
{
	struct route *found = ctx;

	if (route->mtu && route->ifindex == found->ifindex &&
	    (!found->mtu || route->mtu < found->mtu))
		found->mtu = route->mtu;
}

static void keep(const struct route *route, void *ctx)
{
	*(struct route *)ctx = *route;
}

/* Asks the kernel for all routes of the family of the address. */
static int interface_routes(struct inc_addr addr, struct route *found)
{
	struct {
		struct nlmsghdr nlh;
		struct rtmsg rtm;
	} question = {
		.nlh = {.nlmsg_len = sizeof(question),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.rtm = {.rtm_family = family_of(addr)},
	};

	return ask_routes(&question.nlh, smallest, found);
}

/* Asks the kernel for the configured route to an address, without what the kernel has learned about
 * that address. */
static int route_to(struct inc_addr saddr, struct inc_addr daddr, struct route *found)
{
	const size_t len = inc_addr_is_ipv4(daddr) ? 4 : 16;
	struct {
		struct nlmsghdr nlh;
		struct rtmsg rtm;
		uint8_t attrs[2 * RTA_SPACE(sizeof(daddr))];
	} question = {
		.nlh = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) + 2 * RTA_SPACE(len),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.rtm = {.rtm_family = family_of(daddr),
			.rtm_dst_len = 8 * len,
			.rtm_src_len = 8 * len,
			.rtm_flags = RTM_F_FIB_MATCH},
	};
	const struct rtattr dst = {.rta_len = RTA_LENGTH(len), .rta_type = RTA_DST};
	const struct rtattr src = {.rta_len = RTA_LENGTH(len), .rta_type = RTA_SRC};
	uint8_t *at = question.attrs;

	/* an IPv4 address is the end of the mapped one */
	memcpy(at, &dst, sizeof(dst));
	memcpy(at + sizeof(dst), daddr.byte + sizeof(daddr) - len, len);
	at += RTA_SPACE(len);
	memcpy(at, &src, sizeof(src));
	memcpy(at + sizeof(src), saddr.byte + sizeof(saddr) - len, len);
	return ask_routes(&question.nlh, keep, found);
}

/* Finds the interface that has the address. Returns its MTU and its name. */
static int interface_mtu(int fd, struct inc_addr addr, int *mtu, char name[IFNAMSIZ],
			 struct inc_err *err)
{
	struct ifreq ifr = {0};
	char text[INC_ADDR_TEXT];
	const int ret = inc_interface_with(addr, name);

	if (ret == -EADDRNOTAVAIL)
		return inc_err_set(err, EADDRNOTAVAIL, "no interface has the address %s",
				   inc_addr_text(addr, text));
	if (ret)
		return inc_err_set(err, -ret, "interfaces: %s", strerror(-ret));
	memcpy(ifr.ifr_name, name, IFNAMSIZ);
	if (ioctl(fd, SIOCGIFMTU, &ifr))
		return inc_err_set(err, errno, "%s: MTU: %s", name, strerror(errno));
	*mtu = ifr.ifr_mtu;
	return 0;
}

int inccl_path_payload(int fd, const struct inccl_open_opts *opts, unsigned int *payload,
		       struct inc_err *err)
{
	const unsigned int overhead = inc_roce_overhead(opts->addr);
	struct route route = {0};
	char name[IFNAMSIZ];
	unsigned int p, by_route;
	int mtu = 0, ret;

	ret = interface_mtu(fd, opts->addr, &mtu, name, err);
	if (ret)
		return ret;
	p = inc_roce_payload(mtu, overhead);
	if (!p)
		return inc_err_set(err, EMSGSIZE, "%s: MTU %d is too small for a payload of %d",
				   name, mtu, INC_MIN_PAYLOAD);
	if (opts->payload > p)
		return inc_err_set(err, EMSGSIZE,
				   "%s: MTU %d is too small for a payload of %u, %u is the largest",
				   name, mtu, opts->payload, p);
	*payload = opts->payload ?: p;
	if (opts->payload)
		return 0;
	/* The switch's address is not known yet, because it is in the controller's answer to this
	 * offer. So the offer is the payload that every route out of this interface carries. */
	route.ifindex = if_nametoindex(name);
	ret = interface_routes(opts->addr, &route);
	if (ret)
		opts->log(opts->log_ctx, "soft: routes: %s; taking them to carry what %s does",
			  strerror(-ret), name);
	by_route = inc_roce_payload(route.mtu, overhead);
	if (ret || !by_route || by_route >= p)
		return 0;
	opts->log(opts->log_ctx, "soft: a route out of %s has MTU %u: payload %u", name, route.mtu,
		  by_route);
	*payload = by_route;
	return 0;
}

int inccl_path_check(int fd, struct inc_addr saddr, struct inc_addr daddr, unsigned int payload,
		     struct inc_err *err)
{
	const unsigned int overhead = inc_roce_overhead(daddr);
	char text[INC_ADDR_TEXT], name[IFNAMSIZ];
	struct route route = {0};
	struct ifreq ifr = {0};
	unsigned int mtu;

	/* a missing route is no error: it may be added later, and without it sends fail visibly */
	if (route_to(saddr, daddr, &route))
		return 0;
	mtu = route.mtu;
	if (if_indextoname(route.ifindex, name)) {
		memcpy(ifr.ifr_name, name, IFNAMSIZ);
		if (!ioctl(fd, SIOCGIFMTU, &ifr) && (!mtu || (int)mtu > ifr.ifr_mtu))
			mtu = ifr.ifr_mtu;
	}
	if (!mtu || payload + overhead <= mtu)
		return 0;
	inc_addr_text(daddr, text);
	return inc_err_set(err, EMSGSIZE,
			   "route to %s: MTU %u is too small for a payload of %u, %u is the "
			   "largest",
			   text, mtu, payload, inc_roce_payload(mtu, overhead));
}
