/* SPDX-License-Identifier: BSD-2-Clause */
/* Examines a network interface: link, MTU, and what its driver can do (inspect.h). */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/check/inspect.h"
#include "lib/net/netdev.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "lib/roce/wire.h"

/* The family "netdev" of generic netlink (the kernel's header of it is newer than some systems). */
#define NETDEV_FAMILY       "netdev"
#define NETDEV_GET_DEVICE   1
#define NETDEV_IFINDEX      1
#define NETDEV_XDP_FEATURES 3

/* The largest payload that the library chooses by itself in passthrough mode. */
#define FULL_PAYLOAD 2048
/* With native XDP a frame must fit a page with its headroom. */
#define LARGE_MTU 3506

struct genl_question {
	struct nlmsghdr nlh;
	struct genlmsghdr genl;
	struct nlattr attr;
	char value[GENL_NAMSIZ];
};

/* Asks generic netlink, and copies one attribute of the answer into out. Returns 0 or -errno. */
static int ask_genl(int fd, struct genl_question *q, uint16_t type, uint8_t command, uint16_t want,
		    void *out, size_t size)
{
	char answer[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *nlh = (const struct nlmsghdr *)answer;
	const struct nlattr *at;
	ssize_t n, left;

	q->nlh = (struct nlmsghdr){.nlmsg_len =
					   NLMSG_LENGTH(GENL_HDRLEN) + NLMSG_ALIGN(q->attr.nla_len),
				   .nlmsg_type = type,
				   .nlmsg_flags = NLM_F_REQUEST};
	q->genl = (struct genlmsghdr){.cmd = command, .version = 1};
	if (send(fd, q, q->nlh.nlmsg_len, 0) < 0)
		return -errno;
	n = recv(fd, answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	if (!NLMSG_OK(nlh, n))
		return -EPROTO;
	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(nlh))->error ?: -EPROTO;
	at = (const struct nlattr *)((const char *)NLMSG_DATA(nlh) + GENL_HDRLEN);
	left = nlh->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN);
	while (left >= NLA_HDRLEN && at->nla_len >= NLA_HDRLEN && at->nla_len <= left) {
		if ((at->nla_type & NLA_TYPE_MASK) == want && at->nla_len >= NLA_HDRLEN + size) {
			memcpy(out, (const char *)at + NLA_HDRLEN, size);
			return 0;
		}
		left -= NLA_ALIGN(at->nla_len);
		at = (const struct nlattr *)((const char *)at + NLA_ALIGN(at->nla_len));
	}
	return -ENODATA;
}

/* Reads what XDP can do on an interface. Kernels before 6.3 do not report it. */
static int read_features(uint32_t ifindex, uint64_t *features)
{
	struct genl_question q = {.attr = {.nla_len = NLA_HDRLEN + sizeof(NETDEV_FAMILY),
					   .nla_type = CTRL_ATTR_FAMILY_NAME},
				  .value = NETDEV_FAMILY};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC), ret;
	uint16_t family = 0;

	if (fd < 0)
		return -errno;
	ret = ask_genl(fd, &q, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, &family,
		       sizeof(family));
	if (!ret) {
		q.attr = (struct nlattr){.nla_len = NLA_HDRLEN + sizeof(ifindex),
					 .nla_type = NETDEV_IFINDEX};
		memcpy(q.value, &ifindex, sizeof(ifindex));
		ret = ask_genl(fd, &q, family, NETDEV_GET_DEVICE, NETDEV_XDP_FEATURES, features,
			       sizeof(*features));
	}
	close(fd);
	return ret;
}

/* Reads the names of the driver's offloads. Returns NULL if the driver has none; the caller frees
 * the result. */
static struct ethtool_gstrings *read_names(const char *ifname)
{
	/* the struct, and the number of names behind it */
	uint64_t room[sizeof(struct ethtool_sset_info) / sizeof(uint64_t) + 1] = {};
	struct ethtool_sset_info *set = (struct ethtool_sset_info *)room;
	struct ethtool_gstrings *names;
	uint32_t n;

	set->cmd = ETHTOOL_GSSET_INFO;
	set->sset_mask = 1ull << ETH_SS_FEATURES;
	if (inc_interface_ask_driver(ifname, set) || !set->sset_mask)
		return NULL;
	n = set->data[0];
	names = calloc(1, sizeof(*names) + (size_t)n * ETH_GSTRING_LEN);
	if (!names)
		return NULL;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_FEATURES;
	names->len = n;
	if (!inc_interface_ask_driver(ifname, names) && names->len <= n)
		return names;
	free(names);
	return NULL;
}

static void read_offloads(const char *ifname, struct inc_adapter *out)
{
	struct ethtool_gstrings *names = read_names(ifname);
	const uint32_t n = names ? names->len : 0, blocks = (n + 31) / 32;
	struct ethtool_gfeatures *on = calloc(1, sizeof(*on) + blocks * sizeof(on->features[0]));
	const char *name;
	uint32_t i;

	if (on) {
		on->cmd = ETHTOOL_GFEATURES;
		on->size = blocks;
	}
	if (names && on && !inc_interface_ask_driver(ifname, on))
		for (i = 0; i < n; i++) {
			if (!(on->features[i / 32].active & 1u << i % 32))
				continue;
			name = (const char *)names->data + (size_t)i * ETH_GSTRING_LEN;
			out->gro |= !strncmp(name, "rx-gro", ETH_GSTRING_LEN);
			out->lro |= !strncmp(name, "rx-lro", ETH_GSTRING_LEN);
			out->hw_gro |= !strncmp(name, "rx-gro-hw", ETH_GSTRING_LEN);
			out->strips_vlan |= !strncmp(name, "rx-vlan-hw-parse", ETH_GSTRING_LEN);
		}
	free(on);
	free(names);
}

void inc_adapter_find_vlan(FILE *list, const char *ifname, char vlan[IF_NAMESIZE])
{
	char line[256], name[IF_NAMESIZE], parent[IF_NAMESIZE];

	while (list && fgets(line, sizeof(line), list))
		if (sscanf(line, "%15s | %*u | %15s", name, parent) == 2 && !strcmp(parent, ifname))
			memcpy(vlan, name, IF_NAMESIZE);
	if (list)
		fclose(list);
}

static void read_queues(const char *ifname, struct inc_adapter *out)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ethtool_rxnfc spread = {.cmd = ETHTOOL_GRXFH, .flow_type = UDP_V4_FLOW};

	out->queues = 1;
	if (!inc_interface_ask_driver(ifname, &channels))
		out->queues = channels.rx_count + channels.combined_count ?: 1;
	if (inc_interface_ask_driver(ifname, &spread))
		return;
	out->has_spread = true;
	out->spreads_by_ports = spread.data & (RXH_L4_B_0_1 | RXH_L4_B_2_3);
}

/* The interface that has the driver, whose settings ethtool(8) changes. */
static const char *device_of(const struct inc_adapter *a)
{
	return *a->device ? a->device : a->name;
}

/* Reads what belongs to the driver, from the interface itself or from that below a VLAN device. */
static void read_device(const struct inc_interface_place *place, struct inc_adapter *out)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	if (!inc_interface_ask_driver(out->device, &info))
		snprintf(out->driver, sizeof(out->driver), "%s", info.driver);
	out->has_program = place->has_xdp;
	out->has_features = !read_features(place->ifindex, &out->xdp_features);
	read_offloads(out->device, out);
	inc_adapter_find_vlan(fopen("/proc/thread-self/net/vlan/config", "re"), out->device,
			      out->vlan);
	read_queues(out->device, out);
}

int inc_adapter_read(const char *ifname, struct inc_adapter *out)
{
	struct ethtool_cmd link = {.cmd = ETHTOOL_GSET};
	struct inc_interface_place place, below;
	unsigned int flags;
	int ret = inc_interface_find(ifname, &place);

	*out = (struct inc_adapter){};
	snprintf(out->name, sizeof(out->name), "%s", ifname);
	snprintf(out->device, sizeof(out->device), "%s", ifname);
	if (ret)
		return ret;
	if (!inc_interface_ask_driver(ifname, &link) &&
	    ethtool_cmd_speed(&link) != (uint32_t)SPEED_UNKNOWN)
		out->speed_mbit = ethtool_cmd_speed(&link);
	inc_interface_flags(ifname, &flags);
	out->up = flags & IFF_UP;
	out->carrier = flags & IFF_RUNNING;
	out->mtu = inc_interface_mtu(ifname);
	if (place.below && !inc_interface_at(place.below, &below) &&
	    if_indextoname(place.below, out->device))
		place = below;
	read_device(&place, out);
	return 0;
}

const char *inc_adapter_fix_tags(const struct inc_adapter *a, char fix[INC_ADAPTER_FIX])
{
	if (!a->strips_vlan)
		return NULL;
	snprintf(fix, INC_ADAPTER_FIX, "ethtool -K %s rx-vlan-offload off", device_of(a));
	return fix;
}

static void judge_link(struct inc_findings *f, const char *where, const struct inc_adapter *a)
{
	static const char effect[] = "No communicator can use it.";

	if (!a->up)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "link", "it is down"), effect,
			     "ip link set dev %s up", a->name);
	else if (!a->carrier)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "link", "it has no carrier"),
			     effect, "connect its cable, and set the other end up");
	else if (a->speed_mbit)
		inc_find(f, INC_FINDING_OK, where, "link", "up, %g Gbit/s", a->speed_mbit / 1e3);
	else
		inc_find(f, INC_FINDING_OK, where, "link", "up, of unknown speed");
}

static void judge_mtu(struct inc_findings *f, const char *where, const struct inc_adapter *a,
		      enum inc_adapter_use use)
{
	const unsigned int payload = inc_roce_payload(a->mtu, INC_MAX_OVERHEAD);

	if (!payload)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "mtu",
				      "MTU %u is too small for the smallest packets", a->mtu),
			     "No communicator can use it.", "ip link set dev %s mtu %u", a->name,
			     FULL_PAYLOAD + INC_MAX_OVERHEAD);
	else if (payload < FULL_PAYLOAD)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "mtu",
				      "MTU %u limits payloads to %u bytes", a->mtu, payload),
			     "Long vectors take more packets than with payloads of 2048 bytes.",
			     "ip link set dev %s mtu %u, at both ends", a->name,
			     FULL_PAYLOAD + INC_MAX_OVERHEAD);
	else if (use == INC_ADAPTER_PASSTHROUGH && a->mtu > LARGE_MTU && !a->has_program)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "mtu",
				      "MTU %u is more than most drivers accept with native XDP",
				      a->mtu),
			     "inc-switchd may be unable to attach its program.",
			     "ip link set dev %s mtu %u, or start inc-switchd with --mode "
			     "termination",
			     a->name, FULL_PAYLOAD + INC_MAX_OVERHEAD);
	else
		inc_find(f, INC_FINDING_OK, where, "mtu", "MTU %u, for payloads of %u bytes",
			 a->mtu, payload);
}

bool inc_adapter_shows_xmit(const struct inc_adapter *a)
{
	return a->has_program || !strcmp(a->driver, "veth");
}

const char *inc_adapter_fix_xmit(const struct inc_adapter *a)
{
	const unsigned int needed = INC_XDP_BASIC | INC_XDP_REDIRECT;

	if (!a->has_features || (a->xdp_features & needed) != needed ||
	    (a->xdp_features & INC_XDP_XMIT) || !inc_adapter_shows_xmit(a))
		return NULL;
	if (strcmp(a->driver, "veth") != 0)
		return "start inc-switchd with --xdp generic or --mode termination";
	return "ethtool -K PEER gro off; ethtool -K PEER gro on, where PEER is the other end of "
	       "the veth";
}

static void judge_xdp(struct inc_findings *f, const char *where, const struct inc_adapter *a)
{
	if (!a->has_features)
		inc_find(f, INC_FINDING_SKIPPED, where, "xdp",
			 "this kernel does not report what driver %s can do (6.3 does); "
			 "inc-switchd reports it when it starts",
			 a->driver);
	else if (!(a->xdp_features & INC_XDP_BASIC))
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "xdp",
				      "driver '%s' has no native XDP", a->driver),
			     "inc-switchd cannot attach its program in the driver.",
			     "start inc-switchd with --xdp generic or --mode termination");
	else if (!(a->xdp_features & INC_XDP_REDIRECT))
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "xdp",
				      "driver %s cannot redirect packets", a->driver),
			     "The switch can send no result for packets of this port.",
			     "start inc-switchd with --xdp generic or --mode termination");
	else if (!(a->xdp_features & INC_XDP_XMIT) && !inc_adapter_shows_xmit(a))
		inc_find(f, INC_FINDING_SKIPPED, where, "xdp",
			 "driver %s has native XDP; whether it sends redirected packets shows "
			 "when inc-switchd has attached its program",
			 a->driver);
	else if (!(a->xdp_features & INC_XDP_XMIT))
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "xdp",
				      "driver %s sends no packets here that XDP redirects",
				      a->driver),
			     "Results are lost until they are retransmitted.", "%s",
			     inc_adapter_fix_xmit(a));
	else
		inc_find(f, INC_FINDING_OK, where, "xdp",
			 "driver %s has native XDP, and sends redirected packets", a->driver);
}

static void judge_queues(struct inc_findings *f, const char *where, const struct inc_adapter *a)
{
	if (a->queues > INC_PORT_QUEUES)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "queues",
				      "%u receive queues, of which the slow path serves %d",
				      a->queues, INC_PORT_QUEUES),
			     "NAKs that arrive on the other queues are dropped.",
			     "ethtool -L %s combined %d", device_of(a), INC_PORT_QUEUES);
	else if (a->queues > 1 && a->has_spread && !a->spreads_by_ports)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "queues",
				      "UDP packets are spread over %u queues by addresses alone",
				      a->queues),
			     "All connections of a host share one queue and one CPU.",
			     "ethtool -N %s rx-flow-hash udp4 sdfn", device_of(a));
	else
		inc_find(f, INC_FINDING_OK, where, "queues", "%u receive queue%s", a->queues,
			 a->queues == 1 ? "" : "s");
}

static void judge_offloads(struct inc_findings *f, const char *where, const struct inc_adapter *a)
{
	static const char effect[] = "Drivers refuse XDP with it, or give joined packets to it.";
	char fix[INC_ADAPTER_FIX];

	if (a->lro)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "offloads", "LRO is on"),
			     effect, "ethtool -K %s lro off", device_of(a));
	if (a->hw_gro)
		inc_find_fix(
			inc_find(f, INC_FINDING_PROBLEM, where, "offloads", "hardware GRO is on"),
			effect, "ethtool -K %s rx-gro-hw off", device_of(a));
	if (a->strips_vlan && strcmp(device_of(a), a->name) != 0)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "offloads",
				      "VLAN tags are removed before XDP (rx-vlan-offload of %s)",
				      device_of(a)),
			     "XDP finds no packet of the port's VLAN, so nothing is reduced.", "%s",
			     inc_adapter_fix_tags(a, fix));
	else if (a->strips_vlan && *a->vlan)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "offloads",
				      "VLAN tags are removed before XDP (rx-vlan-offload), and %s "
				      "is a VLAN device on it",
				      a->vlan),
			     "XDP takes packets with a tag for those of the port's own network.",
			     "%s", inc_adapter_fix_tags(a, fix));
	else if (!a->lro && !a->hw_gro)
		inc_find(f, INC_FINDING_OK, where, "offloads", "none joins packets");
}

/* A veth without GRO has no NAPI, and so drops what XDP redirects into it from its other end. */
static void judge_napi(struct inc_findings *f, const char *where, const struct inc_adapter *a,
		       enum inc_adapter_use use)
{
	/* nothing is redirected to a switch in termination mode, except by a switch below or above
	 * it */
	const enum inc_finding_level level =
		use == INC_ADAPTER_HOST ? INC_FINDING_PROBLEM : INC_FINDING_WARNING;

	if (strcmp(a->driver, "veth") != 0)
		return;
	if (a->gro)
		inc_find(f, INC_FINDING_OK, where, "napi", "GRO is on, as NAPI of a veth needs it");
	else
		inc_find_fix(
			inc_find(f, level, where, "napi", "GRO is off, so the veth has no NAPI"),
			"What XDP redirects into it from its other end is lost.",
			"ethtool -K %s gro on", device_of(a));
}

void inc_adapter_judge(struct inc_findings *f, const char *where, const struct inc_adapter *a,
		       enum inc_adapter_use use)
{
	judge_link(f, where, a);
	judge_mtu(f, where, a, use);
	if (use == INC_ADAPTER_PASSTHROUGH) {
		judge_xdp(f, where, a);
		judge_queues(f, where, a);
		judge_offloads(f, where, a);
	} else {
		judge_napi(f, where, a, use);
	}
}
