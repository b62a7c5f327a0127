/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/net/netdev.h"

/* Looks for the name in the list of all interfaces. If an ioctl() named a missing interface, the
 * kernel would run modprobe for a driver of that name, which takes seconds on a busy machine. */
static bool is_there(const char *ifname)
{
	struct if_nameindex *list = if_nameindex();
	bool found = false;

	for (const struct if_nameindex *i = list; i && i->if_index && !found; i++)
		found = !strcmp(i->if_name, ifname);
	if (list)
		if_freenameindex(list);
	return found;
}

/* Reads an attribute of an interface. Returns 0, or -1 if there is no such interface. */
static int ask(unsigned long what, const char *ifname, struct ifreq *ifr)
{
	int fd, ret = -1;

	if (!is_there(ifname))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memset(ifr, 0, sizeof(*ifr));
	strncpy(ifr->ifr_name, ifname, sizeof(ifr->ifr_name) - 1);
	if (fd >= 0) {
		ret = ioctl(fd, what, ifr);
		close(fd);
	}
	return ret;
}

unsigned int inc_interface_mtu(const char *ifname)
{
	struct ifreq ifr;

	return ask(SIOCGIFMTU, ifname, &ifr) ? 0 : ifr.ifr_mtu;
}

int inc_interface_flags(const char *ifname, unsigned int *flags)
{
	struct ifreq ifr;
	int ret = ask(SIOCGIFFLAGS, ifname, &ifr);

	*flags = ret ? 0 : (unsigned short)ifr.ifr_flags;
	return ret;
}

/* Whether the attribute IFLA_XDP describes an attached program. */
static bool has_program(const struct rtattr *xdp)
{
	const struct rtattr *at = RTA_DATA(xdp);
	int left = RTA_PAYLOAD(xdp);

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == IFLA_XDP_ATTACHED && RTA_PAYLOAD(at))
			return *(const uint8_t *)RTA_DATA(at) != XDP_ATTACHED_NONE;
	return false;
}

static int read_place(const struct nlmsghdr *nlh, struct inc_interface_place *out)
{
	const struct ifinfomsg *info = NLMSG_DATA(nlh);
	const struct rtattr *at = IFLA_RTA(info);
	int left = IFLA_PAYLOAD(nlh);

	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(nlh))->error ?: -EPROTO;
	if (nlh->nlmsg_type != RTM_NEWLINK)
		return -EPROTO;
	*out = (struct inc_interface_place){.ifindex = info->ifi_index};
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == IFLA_MASTER && RTA_PAYLOAD(at) >= sizeof(out->master))
			memcpy(&out->master, RTA_DATA(at), sizeof(out->master));
		else if ((at->rta_type & NLA_TYPE_MASK) == IFLA_XDP)
			out->has_xdp = has_program(at);
	return 0;
}

/* Finds an interface by its index, or by its name if ifindex is 0. */
static int find(unsigned int ifindex, const char *ifname, struct inc_interface_place *out)
{
	struct {
		struct nlmsghdr nlh;
		struct ifinfomsg info;
		struct rtattr attr;
		char name[IFNAMSIZ];
	} question = {
		.nlh = {.nlmsg_len = sizeof(question),
			.nlmsg_type = RTM_GETLINK,
			.nlmsg_flags = NLM_F_REQUEST},
		.info = {.ifi_index = ifindex},
		.attr = {.rta_len = RTA_LENGTH(IFNAMSIZ), .rta_type = IFLA_IFNAME},
	};
	/* the answer has about 2 KiB, and 100 bytes more for each virtual function */
	char answer[32768] __attribute__((aligned(NLMSG_ALIGNTO)));
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), ret;
	ssize_t n;

	if (fd < 0)
		return -errno;
	strncpy(question.name, ifname, sizeof(question.name) - 1);
	n = send(fd, &question, sizeof(question), 0);
	n = n < 0 ? n : recv(fd, answer, sizeof(answer), 0);
	ret = n < 0 ? -errno : -EPROTO;
	if (n > 0 && NLMSG_OK((const struct nlmsghdr *)answer, n))
		ret = read_place((const struct nlmsghdr *)answer, out);
	close(fd);
	return ret;
}

int inc_interface_find(const char *ifname, struct inc_interface_place *out)
{
	return find(0, ifname, out);
}

int inc_interface_at(unsigned int ifindex, struct inc_interface_place *out)
{
	return ifindex ? find(ifindex, "", out) : -ENODEV;
}

int inc_interface_mac(unsigned int ifindex, uint8_t mac[6])
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;
	struct ifreq ifr = {};

	if (fd < 0)
		return -errno;
	if (!if_indextoname(ifindex, ifr.ifr_name) || ioctl(fd, SIOCGIFHWADDR, &ifr))
		ret = -errno;
	else if (ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		ret = -ENODEV;
	else
		memcpy(mac, ifr.ifr_hwaddr.sa_data, 6);
	close(fd);
	return ret;
}

int inc_interface_ask_driver(const char *ifname, void *question)
{
	struct ifreq ifr = {.ifr_data = question};
	struct inc_interface_place place;
	int fd, ret;

	if (inc_interface_find(ifname, &place))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	ret = ioctl(fd, SIOCETHTOOL, &ifr);
	close(fd);
	return ret;
}
