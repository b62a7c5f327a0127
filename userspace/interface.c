/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "lib/base/log.h"
#include "lib/conf/messages.h"
#include "userspace/interface.h"

void inc_interface_warn_down(const char *ifname)
{
	unsigned int flags;

	if (inc_interface_flags(ifname, &flags))
		return;
	if (!(flags & IFF_UP))
		inc_warn("port %s is down: no host reaches it (ip link set dev %s up)", ifname,
			 ifname);
	else if (!(flags & IFF_RUNNING))
		inc_warn("port %s has no carrier: no host reaches it", ifname);
}

void inc_interface_driver(const char *ifname, char out[INC_INTERFACE_DRIVER])
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	char device[IF_NAMESIZE];
	const bool known =
		!inc_interface_device(ifname, device) && !inc_interface_ask_driver(device, &info);

	snprintf(out, INC_INTERFACE_DRIVER, "%s", known ? info.driver : "");
}

unsigned int inc_interface_speed_mbit(const char *ifname)
{
	struct ethtool_cmd link = {.cmd = ETHTOOL_GSET};
	const unsigned int speed =
		inc_interface_ask_driver(ifname, &link) ? 0 : ethtool_cmd_speed(&link);

	return speed == (unsigned int)SPEED_UNKNOWN ? 0 : speed;
}

static bool is_ipv4(const struct ifaddrs *a)
{
	return a->ifa_addr && a->ifa_addr->sa_family == AF_INET;
}

int inc_interface_addresses(struct inc_addr **out)
{
	struct ifaddrs *list, *a;
	int n = 0, ret;

	*out = NULL;
	if (getifaddrs(&list))
		return -errno;
	for (a = list; a; a = a->ifa_next)
		n++;
	*out = calloc(n + 1, sizeof(**out));
	for (a = list, n = 0; *out && a; a = a->ifa_next) {
		(*out)[n] = inc_addr_of_sockaddr(a->ifa_addr);
		n += inc_addr_given((*out)[n]);
	}
	ret = *out ? n : -ENOMEM;
	freeifaddrs(list);
	return ret;
}

struct inc_addr inc_interface_first_address(const char *ifname, const struct ifaddrs *addrs)
{
	struct inc_addr first = {}, ip;

	for (; addrs; addrs = addrs->ifa_next) {
		ip = inc_addr_of_sockaddr(addrs->ifa_addr);
		if (strcmp(addrs->ifa_name, ifname) != 0 || !inc_addr_given(ip))
			continue;
		if (inc_addr_is_ipv4(ip))
			return ip;
		if (!inc_addr_given(first) && inc_addr_is_host(ip))
			first = ip;
	}
	return first;
}

/* Lists the addresses of an interface that its peers may use. */
static json_t *list_addresses(const char *ifname, const struct ifaddrs *addrs)
{
	json_t *list = json_array();
	char text[INC_ADDR_TEXT];
	struct inc_addr ip;

	for (; addrs && json_array_size(list) < INC_MAX_ADDRS; addrs = addrs->ifa_next) {
		ip = inc_addr_of_sockaddr(addrs->ifa_addr);
		if (!strcmp(addrs->ifa_name, ifname) && inc_addr_is_host(ip))
			json_array_append_new(list, json_string(inc_addr_text(ip, text)));
	}
	return list;
}

json_t *inc_interface_json(const char *ifname, const struct ifaddrs *addrs)
{
	json_t *ips = list_addresses(ifname, addrs);
	const struct inc_addr own = inc_interface_first_address(ifname, addrs);
	char ip[INC_ADDR_TEXT] = "", mac[18] = "";
	uint8_t m[6] = {0};
	bool there = false;

	if (inc_addr_given(own))
		inc_addr_text(own, ip);
	for (; addrs; addrs = addrs->ifa_next) {
		if (strcmp(addrs->ifa_name, ifname))
			continue;
		there = true;
		if (addrs->ifa_addr && addrs->ifa_addr->sa_family == AF_PACKET)
			memcpy(m, ((const struct sockaddr_ll *)addrs->ifa_addr)->sll_addr,
			       sizeof(m));
	}
	if (there)
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3],
			 m[4], m[5]);
	return json_pack("{s:s, s:s, s:s, s:i, s:o}", "name", ifname, "ip", ip, "mac", mac, "mtu",
			 there ? (int)inc_interface_mtu(ifname) : 0, "ips", ips);
}

unsigned int inc_interface_prefix(const char *ifname, const struct ifaddrs *addrs)
{
	for (; addrs; addrs = addrs->ifa_next)
		if (!strcmp(addrs->ifa_name, ifname) && is_ipv4(addrs) && addrs->ifa_netmask)
			return __builtin_popcount(
				((const struct sockaddr_in *)addrs->ifa_netmask)->sin_addr.s_addr);
	return 0;
}

/* Reads the counters from /proc/thread-self, because /sys may show another network namespace than
 * this thread's. */
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
