/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "userspace/interface.h"

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

/* Reads an attribute of an existing interface. Returns 0 or -1. */
static int ask(unsigned long what, const char *ifname, struct ifreq *ifr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = -1;

	memset(ifr, 0, sizeof(*ifr));
	strncpy(ifr->ifr_name, ifname, sizeof(ifr->ifr_name) - 1);
	if (fd >= 0) {
		ret = ioctl(fd, what, ifr);
		close(fd);
	}
	return ret;
}

static unsigned int mtu_of(const char *ifname)
{
	struct ifreq ifr;

	return ask(SIOCGIFMTU, ifname, &ifr) ? 0 : ifr.ifr_mtu;
}

void inc_interface_warn_down(const char *ifname)
{
	struct ifreq ifr;

	if (!is_there(ifname) || ask(SIOCGIFFLAGS, ifname, &ifr))
		return;
	if (!(ifr.ifr_flags & IFF_UP))
		inc_warn("port %s is down: no host reaches it (ip link set dev %s up)", ifname,
			 ifname);
	else if (!(ifr.ifr_flags & IFF_RUNNING))
		inc_warn("port %s has no carrier: no host reaches it", ifname);
}

unsigned int inc_interface_mtu(const char *ifname)
{
	return is_there(ifname) ? mtu_of(ifname) : 0;
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

static bool is_ipv4(const struct ifaddrs *a)
{
	return a->ifa_addr && a->ifa_addr->sa_family == AF_INET;
}

static struct in_addr ipv4_of(const struct ifaddrs *a)
{
	return ((const struct sockaddr_in *)a->ifa_addr)->sin_addr;
}

bool inc_interface_has(struct in_addr ip)
{
	struct ifaddrs *list, *a;
	bool found = false;

	if (getifaddrs(&list))
		return true;
	for (a = list; a && !found; a = a->ifa_next)
		found = is_ipv4(a) && ipv4_of(a).s_addr == ip.s_addr;
	freeifaddrs(list);
	return found;
}

json_t *inc_interface_json(const char *ifname, const struct ifaddrs *addrs)
{
	char ip[INET_ADDRSTRLEN] = "", mac[18] = "";
	uint8_t m[6] = {0};
	struct in_addr own;
	bool there = false;

	for (; addrs; addrs = addrs->ifa_next) {
		if (strcmp(addrs->ifa_name, ifname))
			continue;
		there = true;
		if (is_ipv4(addrs) && !ip[0]) {
			own = ipv4_of(addrs);
			inet_ntop(AF_INET, &own, ip, sizeof(ip));
		} else if (addrs->ifa_addr && addrs->ifa_addr->sa_family == AF_PACKET) {
			memcpy(m, ((const struct sockaddr_ll *)addrs->ifa_addr)->sll_addr,
			       sizeof(m));
		}
	}
	if (there)
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3],
			 m[4], m[5]);
	return json_pack("{s:s, s:s, s:s, s:i}", "name", ifname, "ip", ip, "mac", mac, "mtu",
			 there ? (int)mtu_of(ifname) : 0);
}

/* Reads /proc/thread-self, because /sys may show another network namespace than this thread's. */
void inc_interface_read_stats(const char *ifname, struct inc_interface_stats *out)
{
	FILE *f = fopen("/proc/thread-self/net/dev", "r");
	size_t n = strlen(ifname);
	char line[512], *p;

	memset(out, 0, sizeof(*out));
	while (f && fgets(line, sizeof(line), f)) {
		p = line + strspn(line, " ");
		if (strncmp(p, ifname, n) || p[n] != ':')
			continue;
		sscanf(p + n + 1,
		       "%" SCNu64 " %" SCNu64 " %*u %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
		       &out->rx_bytes, &out->rx_packets, &out->tx_bytes, &out->tx_packets);
		break;
	}
	if (f)
		fclose(f);
}
