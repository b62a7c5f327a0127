/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
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
#include "lib/base/printable.h"
#include "lib/net/netdev.h"

int inc_ifname_check(const char *text, struct inc_err *err)
{
	/* a name must be printable ASCII, because messages of the control plane allow no other
	 * bytes in names of interfaces, although the kernel does */
	if (inc_is_word(text) && strlen(text) < IF_NAMESIZE && !strchr(text, '/'))
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not an interface name of printable ASCII",
			   text);
}

int inc_interface_with(struct inc_addr addr, char name[IF_NAMESIZE])
{
	struct ifaddrs *list;
	const struct ifaddrs *a;

	if (getifaddrs(&list))
		return -errno;
	for (a = list; a; a = a->ifa_next)
		if (inc_addr_same(inc_addr_of_sockaddr(a->ifa_addr), addr))
			break;
	if (a)
		snprintf(name, IF_NAMESIZE, "%s", a->ifa_name);
	freeifaddrs(list);
	return a ? 0 : -EADDRNOTAVAIL;
}

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

/* Finds an attribute of at least `size` bytes in a nest. Returns its data, or NULL. */
static const void *find_attribute(const struct rtattr *nest, uint16_t type, size_t size)
{
	const struct rtattr *at = RTA_DATA(nest);
	int left = RTA_PAYLOAD(nest);

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if ((at->rta_type & NLA_TYPE_MASK) == type && RTA_PAYLOAD(at) >= size)
			return RTA_DATA(at);
	return NULL;
}

/* Reads the attribute IFLA_XDP, which describes the attached program. */
static void read_program(const struct rtattr *xdp, struct inc_interface_place *out)
{
	const uint8_t *attached = find_attribute(xdp, IFLA_XDP_ATTACHED, sizeof(*attached));
	const uint32_t *id = find_attribute(xdp, IFLA_XDP_PROG_ID, sizeof(*id));

	out->has_xdp = attached && *attached != XDP_ATTACHED_NONE;
	out->xdp_id = id ? *id : 0;
}

/* Reads the attribute IFLA_LINKINFO, if it describes a VLAN device. */
static void read_vlan(const struct rtattr *info, struct inc_interface_place *out)
{
	const char *kind = find_attribute(info, IFLA_INFO_KIND, sizeof("vlan"));
	const char *data = find_attribute(info, IFLA_INFO_DATA, 0);
	const struct rtattr *nest = data ? (const struct rtattr *)(data - RTA_LENGTH(0)) : NULL;
	const uint16_t *vlan, *protocol;

	if (!kind || strcmp(kind, "vlan") != 0 || !nest)
		return;
	vlan = find_attribute(nest, IFLA_VLAN_ID, sizeof(*vlan));
	protocol = find_attribute(nest, IFLA_VLAN_PROTOCOL, sizeof(*protocol));
	out->is_vlan = vlan;
	out->vlan = vlan ? *vlan : 0;
	out->service_tag = protocol && *protocol != htons(ETH_P_8021Q);
}

static int read_place(const struct nlmsghdr *nlh, struct inc_interface_place *out)
{
	const struct ifinfomsg *info = NLMSG_DATA(nlh);
	const struct rtattr *at = IFLA_RTA(info);
	int left = IFLA_PAYLOAD(nlh);
	unsigned int link = 0;
	bool is_away = false;

	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(nlh))->error ?: -EPROTO;
	if (nlh->nlmsg_type != RTM_NEWLINK)
		return -EPROTO;
	*out = (struct inc_interface_place){.ifindex = info->ifi_index};
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == IFLA_MASTER && RTA_PAYLOAD(at) >= sizeof(out->master))
			memcpy(&out->master, RTA_DATA(at), sizeof(out->master));
		else if (at->rta_type == IFLA_LINK && RTA_PAYLOAD(at) >= sizeof(link))
			memcpy(&link, RTA_DATA(at), sizeof(link));
		else if ((at->rta_type & NLA_TYPE_MASK) == IFLA_XDP)
			read_program(at, out);
		else if ((at->rta_type & NLA_TYPE_MASK) == IFLA_LINKINFO)
			read_vlan(at, out);
		else if (at->rta_type == IFLA_LINK_NETNSID)
			is_away = true; /* the link's index is that of another network namespace */
	/* the link of another kind is no interface below it, but the other end of a veth */
	out->below = out->is_vlan && !is_away ? link : 0;
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

int inc_interface_device(const char *ifname, char device[IF_NAMESIZE])
{
	struct inc_interface_place place;
	int ret = inc_interface_find(ifname, &place);

	if (ret)
		return ret;
	return if_indextoname(place.below ?: place.ifindex, device) ? 0 : -errno;
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

/* ---- LLDP ---- */

/* Types of TLVs. */
enum tlv {
	LLDP_END,
	LLDP_CHASSIS,
	LLDP_PORT,
	LLDP_TTL,
	LLDP_NAME = 5,
	LLDP_ADDRESS = 8,
};

/* Subtypes of what identifies a chassis or a port, as far as their values are no texts. */
#define LLDP_CHASSIS_MAC     4
#define LLDP_CHASSIS_ADDRESS 5
#define LLDP_CHASSIS_LOCAL   7
#define LLDP_PORT_MAC        3
#define LLDP_PORT_ADDRESS    4
#define LLDP_PORT_INTERFACE  5
#define LLDP_IPV4            1 /* the number of IPv4 among families of addresses */

static void take_text(const uint8_t *at, size_t len, char out[INC_LLDP_TEXT])
{
	size_t i;

	for (i = 0; i < len && i < INC_LLDP_TEXT - 1; i++)
		out[i] = at[i] < ' ' || at[i] > '~' ? '?' : (char)at[i];
	out[i] = '\0';
}

/* Reads the identity of a chassis or a port: its subtype and its value. Returns 0 or -EBADMSG. */
static int take_identity(const uint8_t *at, size_t len, uint8_t mac, uint8_t address,
			 char out[INC_LLDP_TEXT])
{
	if (len < 2)
		return -EBADMSG;
	if (at[0] == mac && len == 7)
		snprintf(out, INC_LLDP_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x", at[1], at[2], at[3],
			 at[4], at[5], at[6]);
	else if (at[0] == address && len == 6 && at[1] == LLDP_IPV4)
		inet_ntop(AF_INET, at + 2, out, INC_LLDP_TEXT);
	else
		take_text(at + 1, len - 1, out);
	return 0;
}

/* Reads one TLV behind the three that every frame begins with. Types that are not of interest and
 * addresses of other families are skipped. */
static void take_option(unsigned int type, const uint8_t *at, size_t len, struct inc_lldp *out)
{
	if (type == LLDP_NAME && !*out->name)
		take_text(at, len, out->name);
	/* an address has its length, with that of the family, then the family, then its bytes */
	if (type == LLDP_ADDRESS && !out->has_address && len >= 6 && at[0] == 5 &&
	    at[1] == LLDP_IPV4) {
		memcpy(&out->address, at + 2, sizeof(out->address));
		out->has_address = true;
	}
}

/* Reads one of the three TLVs that every frame begins with, in this order. Returns 0 or
 * -EBADMSG. */
static int take_mandatory(unsigned int type, const uint8_t *at, size_t len, struct inc_lldp *out)
{
	switch (type) {
	case LLDP_CHASSIS:
		return take_identity(at, len, LLDP_CHASSIS_MAC, LLDP_CHASSIS_ADDRESS, out->chassis);
	case LLDP_PORT:
		return take_identity(at, len, LLDP_PORT_MAC, LLDP_PORT_ADDRESS, out->port);
	case LLDP_TTL:
		if (len < 2)
			return -EBADMSG;
		out->ttl_s = at[0] << 8 | at[1];
		return 0;
	default:
		return -EBADMSG;
	}
}

int inc_lldp_parse(const uint8_t *at, size_t len, struct inc_lldp *out)
{
	unsigned int n, type = LLDP_END;
	size_t size;

	*out = (struct inc_lldp){.ttl_s = 0};
	for (n = 1; len >= 2; n++) {
		type = at[0] >> 1;
		size = (at[0] & 1) << 8 | at[1];
		at += 2;
		len -= 2;
		if (size > len)
			return -EBADMSG;
		if (n <= LLDP_TTL && (type != n || take_mandatory(type, at, size, out)))
			return -EBADMSG;
		if (n > LLDP_TTL && type == LLDP_END)
			return size ? -EBADMSG : 0;
		if (n > LLDP_TTL && type <= LLDP_TTL)
			return -EBADMSG; /* a frame has each of these once */
		if (n > LLDP_TTL)
			take_option(type, at, size, out);
		at += size;
		len -= size;
	}
	return -EBADMSG; /* without its end the frame was cut off */
}

/* Writes a TLV with a subtype, or without one if that is 0, and a text. Returns the place behind
 * it. */
static uint8_t *put_tlv(uint8_t *at, unsigned int type, uint8_t subtype, const char *text)
{
	const size_t len = strnlen(text, INC_LLDP_TEXT - 1), size = len + (subtype != 0);

	*at++ = type << 1 | size >> 8;
	*at++ = size & 0xff;
	if (subtype)
		*at++ = subtype;
	memcpy(at, text, len);
	return at + len;
}

size_t inc_lldp_write(uint8_t at[INC_LLDP_FRAME_BYTES], const uint8_t mac[6], const char *name,
		      const char *port, uint16_t ttl_s)
{
	/* the address that no bridge passes on, so the frame reaches the other end of the cable */
	static const uint8_t nearest[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};
	const uint8_t *begin = at;

	memset(at, 0, INC_LLDP_FRAME_BYTES);
	memcpy(at, nearest, 6);
	memcpy(at + 6, mac, 6);
	at[12] = INC_LLDP_ETHERTYPE >> 8;
	at[13] = INC_LLDP_ETHERTYPE & 0xff;
	at = put_tlv(at + 14, LLDP_CHASSIS, LLDP_CHASSIS_LOCAL, name);
	at = put_tlv(at, LLDP_PORT, LLDP_PORT_INTERFACE, port);
	*at++ = LLDP_TTL << 1;
	*at++ = 2;
	*at++ = ttl_s >> 8;
	*at++ = ttl_s & 0xff;
	at = put_tlv(at, LLDP_NAME, 0, name);
	at += 2; /* the end, which is two zeros */
	return at - begin < INC_LLDP_FRAME_MIN ? INC_LLDP_FRAME_MIN : at - begin;
}
