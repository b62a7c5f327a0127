/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include "lib/proto/roce.h"
#include "userspace/neighbour.h"

/* States of an entry in the kernel's neighbour table whose address is the neighbour's, or was until
 * lately. */
#define USABLE (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

/* States of an entry in the kernel's neighbour table that the neighbour has not confirmed for some
 * time. */
#define DOUBTFUL (NUD_STALE | NUD_DELAY | NUD_PROBE)

struct answer {
	uint8_t mac[6];
	int found;
	uint16_t nud; /* state of the neighbour's entry, NUD_*; 0: there is no entry */
};

static int on_neighbour(const struct nlmsghdr *nlh, void *data)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);
	struct answer *a = data;
	struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWNEIGH)
		return MNL_CB_STOP;
	a->nud = nd->ndm_state;
	if (!(nd->ndm_state & USABLE))
		return MNL_CB_STOP;
	mnl_attr_for_each (attr, nlh, sizeof(*nd)) {
		if (mnl_attr_get_type(attr) != NDA_LLADDR || mnl_attr_get_payload_len(attr) != 6)
			continue;
		memcpy(a->mac, mnl_attr_get_payload(attr), 6);
		a->found = inc_mac_unicast(a->mac);
	}
	return MNL_CB_STOP;
}

/* Sends the netlink request in buf, and passes the kernel's answer to fn. */
static int talk(struct mnl_socket *nl, char buf[MNL_SOCKET_BUFFER_SIZE], mnl_cb_t fn, void *data)
{
	const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
	ssize_t n;

	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	n = mnl_socket_recvfrom(nl, buf, MNL_SOCKET_BUFFER_SIZE);
	if (n < 0)
		return -errno;
	if (mnl_cb_run(buf, n, 1, mnl_socket_get_portid(nl), fn, data) < 0)
		return -errno;
	return 0;
}

static int on_route(const struct nlmsghdr *nlh, void *data)
{
	struct in_addr *hop = data;
	struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_STOP;
	mnl_attr_for_each (attr, nlh, sizeof(struct rtmsg))
		if (mnl_attr_get_type(attr) == RTA_GATEWAY &&
		    mnl_attr_get_payload_len(attr) == sizeof(*hop))
			memcpy(hop, mnl_attr_get_payload(attr), sizeof(*hop));
	return MNL_CB_STOP;
}

/* Returns the next hop to addr by the interface, which is a router, or addr itself. If the kernel
 * has no route, it is addr as well. */
static struct in_addr next_hop(struct mnl_socket *nl, uint32_t ifindex, struct in_addr addr)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct in_addr hop = addr;
	struct rtmsg *rtm;

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = 1;
	rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	rtm->rtm_family = AF_INET;
	rtm->rtm_dst_len = 32;
	mnl_attr_put(nlh, RTA_DST, sizeof(addr), &addr);
	mnl_attr_put_u32(nlh, RTA_OIF, ifindex);
	return talk(nl, buf, on_route, &hop) ? addr : hop;
}

/* Sends a netlink request (RTM_*) about one entry of the neighbour table, and reads the answer. */
static int ask(struct mnl_socket *nl, uint16_t type, uint32_t ifindex, struct in_addr addr,
	       struct answer *a)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ndmsg *nd;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | (type == RTM_GETNEIGH ? 0 : NLM_F_ACK);
	nlh->nlmsg_seq = 1;
	nd = mnl_nlmsg_put_extra_header(nlh, sizeof(*nd));
	nd->ndm_family = AF_INET;
	nd->ndm_ifindex = ifindex;
	mnl_attr_put(nlh, NDA_DST, sizeof(addr), &addr);
	return talk(nl, buf, on_neighbour, a);
}

/* Reads the kernel's entry for addr. If forget is set and the entry is in a doubtful state, deletes
 * it. Returns -ENOENT if there is no entry. */
static int look_up(uint32_t ifindex, struct in_addr addr, bool forget, struct answer *a)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int ret;

	*a = (struct answer){.found = 0};
	if (!nl)
		return -errno;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		ret = -errno;
		goto out;
	}
	addr = next_hop(nl, ifindex, addr);
	ret = ask(nl, RTM_GETNEIGH, ifindex, addr, a);
	if (!ret && forget && a->nud & DOUBTFUL)
		ret = ask(nl, RTM_DELNEIGH, ifindex, addr, a);
out:
	mnl_socket_close(nl);
	return ret;
}

int inc_neighbour_forget(uint32_t ifindex, struct in_addr addr)
{
	struct answer a;
	int ret = look_up(ifindex, addr, true, &a);

	return ret == -ENOENT ? 0 : ret;
}

int inc_neighbour_mac(uint32_t ifindex, struct in_addr addr, uint8_t mac[6])
{
	struct answer a;
	int ret = look_up(ifindex, addr, false, &a);

	if (ret)
		return ret;
	if (!a.found)
		return -ENOENT;
	memcpy(mac, a.mac, 6);
	return 0;
}

enum inc_neighbour_answer inc_neighbour_answer(uint32_t ifindex, struct in_addr addr)
{
	struct answer a;

	if (look_up(ifindex, addr, false, &a) || !a.nud)
		return INC_NEIGHBOUR_UNKNOWN;
	if (a.nud & USABLE)
		return INC_NEIGHBOUR_KNOWN;
	return a.nud & NUD_FAILED ? INC_NEIGHBOUR_SILENT : INC_NEIGHBOUR_ASKED;
}

int inc_neighbour_provoke(uint32_t ifindex, struct in_addr addr)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr = addr, .sin_port = htons(IPPORT_DISCARD)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), ret = 0;
	char name[IF_NAMESIZE];

	if (fd < 0)
		return -errno;
	if (!if_indextoname(ifindex, name) ||
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, strlen(name)) ||
	    sendto(fd, "", 0, 0, (const struct sockaddr *)&to, sizeof(to)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}
