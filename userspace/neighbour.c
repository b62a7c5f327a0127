/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/event.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sys/socket.h>
#include "lib/base/clock.h"
#include "lib/conf/messages.h"
#include "lib/net/loop.h"
#include "lib/net/netdev.h"
#include "lib/proto/roce.h"
#include "userspace/neighbour.h"

_Static_assert(INC_LLDP_TEXT == INC_LLDP_LINE, "a message has room for the texts of a frame");

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

/* The bytes of an address in a netlink message, and their number. */
static const void *bytes_of(const struct inc_addr *addr, size_t *len)
{
	*len = inc_addr_is_ipv4(*addr) ? sizeof(struct in_addr) : sizeof(struct in6_addr);
	return addr->byte + sizeof(*addr) - *len;
}

static int family_of(struct inc_addr addr)
{
	return inc_addr_is_ipv4(addr) ? AF_INET : AF_INET6;
}

static int on_route(const struct nlmsghdr *nlh, void *data)
{
	struct inc_addr *hop = data;
	struct nlattr *attr;
	size_t len;

	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_STOP;
	bytes_of(hop, &len);
	mnl_attr_for_each (attr, nlh, sizeof(struct rtmsg))
		if (mnl_attr_get_type(attr) == RTA_GATEWAY && mnl_attr_get_payload_len(attr) == len)
			memcpy(hop->byte + sizeof(*hop) - len, mnl_attr_get_payload(attr), len);
	return MNL_CB_STOP;
}

/* Returns the next hop to addr by the interface, which is a router, or addr itself. If the kernel
 * has no route, it is addr as well. */
static struct inc_addr next_hop(struct mnl_socket *nl, uint32_t ifindex, struct inc_addr addr)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct inc_addr hop = addr;
	struct rtmsg *rtm;
	size_t len;
	const void *bytes = bytes_of(&addr, &len);

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = 1;
	rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	rtm->rtm_family = family_of(addr);
	rtm->rtm_dst_len = 8 * len;
	mnl_attr_put(nlh, RTA_DST, len, bytes);
	mnl_attr_put_u32(nlh, RTA_OIF, ifindex);
	return talk(nl, buf, on_route, &hop) ? addr : hop;
}

/* Sends a netlink request (RTM_*) about one entry of the neighbour table, and reads the answer. */
static int ask(struct mnl_socket *nl, uint16_t type, uint32_t ifindex, struct inc_addr addr,
	       struct answer *a)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ndmsg *nd;
	size_t len;
	const void *bytes = bytes_of(&addr, &len);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | (type == RTM_GETNEIGH ? 0 : NLM_F_ACK);
	nlh->nlmsg_seq = 1;
	nd = mnl_nlmsg_put_extra_header(nlh, sizeof(*nd));
	nd->ndm_family = family_of(addr);
	nd->ndm_ifindex = ifindex;
	mnl_attr_put(nlh, NDA_DST, len, bytes);
	return talk(nl, buf, on_neighbour, a);
}

/* Reads the kernel's entry for addr. If forget is set and the entry is in a doubtful state, deletes
 * it. Returns -ENOENT if there is no entry. */
static int look_up(uint32_t ifindex, struct inc_addr addr, bool forget, struct answer *a)
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

int inc_neighbour_forget(uint32_t ifindex, struct inc_addr addr)
{
	struct answer a;
	int ret = look_up(ifindex, addr, true, &a);

	return ret == -ENOENT ? 0 : ret;
}

int inc_neighbour_mac(uint32_t ifindex, struct inc_addr addr, uint8_t mac[6])
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

enum inc_neighbour_answer inc_neighbour_answer(uint32_t ifindex, struct inc_addr addr)
{
	struct answer a;

	if (look_up(ifindex, addr, false, &a) || !a.nud)
		return INC_NEIGHBOUR_UNKNOWN;
	if (a.nud & USABLE)
		return INC_NEIGHBOUR_KNOWN;
	return a.nud & NUD_FAILED ? INC_NEIGHBOUR_SILENT : INC_NEIGHBOUR_ASKED;
}

int inc_neighbour_provoke(uint32_t ifindex, struct inc_addr addr)
{
	union inc_sockaddr to;
	const socklen_t len = inc_addr_to_sockaddr(addr, IPPORT_DISCARD, &to);
	int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), ret = 0;
	char name[IF_NAMESIZE];

	if (fd < 0)
		return -errno;
	if (!if_indextoname(ifindex, name) ||
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, strlen(name)) ||
	    sendto(fd, "", 0, 0, &to.any, len) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* ---- the whole table ---- */

#define LIST_TRIES 3     /* attempts to read a table that changes meanwhile */
#define LIST_MOST  65536 /* entries, so that a table that others fill needs a limited memory */

struct entries {
	struct inc_neighbour *at;
	int n, room;
};

static int make_room(struct entries *list)
{
	const int room = 2 * list->room + 64;
	struct inc_neighbour *more = realloc(list->at, room * sizeof(*more));

	if (!more)
		return -ENOMEM;
	list->at = more;
	list->room = room;
	return 0;
}

static int on_entry(const struct nlmsghdr *nlh, void *data)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);
	struct inc_neighbour entry = {.ifindex = nd->ndm_ifindex,
				      .stale = nd->ndm_state & DOUBTFUL};
	const struct nlattr *attr;
	struct entries *list = data;
	unsigned int found = 0;

	if (nlh->nlmsg_type != RTM_NEWNEIGH || !(nd->ndm_state & USABLE) || list->n >= LIST_MOST)
		return MNL_CB_OK;
	mnl_attr_for_each (attr, nlh, sizeof(*nd)) {
		const unsigned int type = mnl_attr_get_type(attr);
		const unsigned int len = mnl_attr_get_payload_len(attr);

		if (type == NDA_DST && len == sizeof(entry.ip))
			memcpy(&entry.ip, mnl_attr_get_payload(attr), len);
		else if (type == NDA_LLADDR && len == sizeof(entry.mac))
			memcpy(entry.mac, mnl_attr_get_payload(attr), len);
		else
			continue;
		found++;
	}
	if (found < 2 || !inc_mac_given(entry.mac) || !inc_mac_unicast(entry.mac) ||
	    !inc_addr_unicast(ntohl(entry.ip.s_addr)))
		return MNL_CB_OK;
	if (list->n == list->room && make_room(list)) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	list->at[list->n++] = entry;
	return MNL_CB_OK;
}

static int read_table(struct mnl_socket *nl, struct entries *list)
{
	/* size of the buffer: the most that the kernel puts into one message of a dump */
	char buf[32768];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	int ret = MNL_CB_OK;
	struct ndmsg *nd;
	ssize_t n;

	nlh->nlmsg_type = RTM_GETNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	nd = mnl_nlmsg_put_extra_header(nlh, sizeof(*nd));
	nd->ndm_family = AF_INET;
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	while (ret > MNL_CB_STOP) {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		ret = mnl_cb_run(buf, n, 1, mnl_socket_get_portid(nl), on_entry, list);
	}
	return ret < 0 ? -errno : 0;
}

int inc_neighbour_list(struct inc_neighbour **out)
{
	struct entries list = {};
	int ret = -EINTR;

	for (int i = 0; ret == -EINTR && i < LIST_TRIES; i++) {
		struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

		list.n = 0;
		if (!nl) {
			ret = -errno;
			break;
		}
		ret = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno
								     : read_table(nl, &list);
		mnl_socket_close(nl);
	}
	*out = list.at;
	if (!ret)
		return list.n;
	free(list.at);
	*out = NULL;
	return ret;
}

json_t *inc_neighbour_json(const struct inc_neighbour *list, int n, uint32_t ifindex,
			   unsigned int *room)
{
	json_t *found = json_array();

	for (int i = 0; i < n && *room; i++) {
		struct inc_msg_neighbour entry = {.ip = list[i].ip, .stale = list[i].stale};

		if (list[i].ifindex != ifindex)
			continue;
		memcpy(entry.mac, list[i].mac, sizeof(entry.mac));
		json_array_append_new(
			found, inc_schema_print(&inc_neighbour_schema, INC_MESSAGE_ONLY, &entry));
		--*room;
	}
	return found;
}

/* ---- LLDP ---- */

/* Senders that are remembered at one port. A stranger who invents more displaces those at its own
 * port alone. */
#define SENDERS 8
/* After so many frames the daemon reads no more for a time, so that a flood of frames costs little.
 * The kernel drops what does not fit into the socket. */
#define FRAMES   32
#define PAUSE_MS 100
#define TTL_S    120 /* how long the switch's own introduction is valid */

struct sender {
	uint8_t mac[6];
	uint64_t at_ns, ends_at_ns; /* when it was received, and when it is no longer valid */
	struct inc_lldp said;
};

struct listener {
	uint32_t ifindex;
	struct sender senders[SENDERS];
};

struct inc_lldp_watch {
	int fd;
	struct event *readable;
	struct inc_timer *pause;
	unsigned int next; /* the listener that a new interface gets */
	struct listener at[INC_MAX_PORTS];
};

static struct listener *listener_of(struct inc_lldp_watch *w, uint32_t ifindex)
{
	for (unsigned int i = 0; i < INC_MAX_PORTS; i++)
		if (w->at[i].ifindex == ifindex)
			return &w->at[i];
	return NULL;
}

/* Finds the place of a sender at a port: its own one, or the one whose frame is the oldest. */
static struct sender *place_of(struct listener *l, const uint8_t mac[6])
{
	struct sender *oldest = &l->senders[0];

	for (unsigned int i = 0; i < SENDERS; i++) {
		if (!memcmp(l->senders[i].mac, mac, sizeof(l->senders[i].mac)))
			return &l->senders[i];
		if (l->senders[i].at_ns < oldest->at_ns)
			oldest = &l->senders[i];
	}
	return oldest;
}

static void take_frame(struct inc_lldp_watch *w, const struct sockaddr_ll *from,
		       const uint8_t *frame, size_t len)
{
	struct listener *l = listener_of(w, from->sll_ifindex);
	const uint8_t *mac = frame + 6; /* behind the receiver's address */
	struct sender *sender;
	struct inc_lldp said;

	if (!l || from->sll_pkttype == PACKET_OUTGOING || len < 14 || !inc_mac_unicast(mac) ||
	    !inc_mac_given(mac) || inc_lldp_parse(frame + 14, len - 14, &said))
		return;
	sender = place_of(l, mac);
	*sender = (struct sender){.at_ns = inc_now_ns(), .said = said};
	sender->ends_at_ns = sender->at_ns + said.ttl_s * INC_NSEC_PER_SEC;
	memcpy(sender->mac, mac, sizeof(sender->mac));
}

static void on_frames(evutil_socket_t fd, short what, void *arg)
{
	struct inc_lldp_watch *w = arg;
	uint8_t frame[2048];

	for (unsigned int i = 0; i < FRAMES; i++) {
		struct sockaddr_ll from = {0};
		socklen_t from_len = sizeof(from);
		ssize_t n =
			recvfrom(fd, frame, sizeof(frame), 0, (struct sockaddr *)&from, &from_len);

		if (n < 0)
			break;
		take_frame(w, &from, frame, n);
	}
	inc_timer_arm(w->pause, PAUSE_MS);
}

static void on_pause_over(void *arg)
{
	const struct inc_lldp_watch *w = arg;

	event_add(w->readable, NULL);
}

int inc_lldp_watch_start(struct event_base *base, struct inc_lldp_watch **out, struct inc_err *err)
{
	const struct sockaddr_ll at = {.sll_family = AF_PACKET,
				       .sll_protocol = htons(INC_LLDP_ETHERTYPE)};
	struct inc_lldp_watch *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return inc_err_set(err, ENOMEM, "LLDP frames are not received: no memory");
	/* protocol 0 receives nothing, so no frame comes before bind() names LLDP */
	w->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (w->fd < 0 || bind(w->fd, (const struct sockaddr *)&at, sizeof(at))) {
		ret = inc_err_set(err, errno, "LLDP frames are not received: %s", strerror(errno));
		goto fail;
	}
	w->pause = inc_timer_new(base, on_pause_over, w);
	w->readable = event_new(base, w->fd, EV_READ, on_frames, w);
	if (!w->pause || !w->readable || event_add(w->readable, NULL)) {
		ret = inc_err_set(err, ENOMEM, "LLDP frames are not received: no memory");
		goto fail;
	}
	*out = w;
	return 0;

fail:
	inc_lldp_watch_stop(w);
	return ret;
}

void inc_lldp_watch_stop(struct inc_lldp_watch *w)
{
	if (!w)
		return;
	inc_timer_free(w->pause);
	if (w->readable)
		event_free(w->readable);
	if (w->fd >= 0)
		close(w->fd);
	free(w);
}

void inc_lldp_watch_port(struct inc_lldp_watch *w, uint32_t ifindex)
{
	struct packet_mreq group = {
		.mr_ifindex = ifindex, .mr_type = PACKET_MR_MULTICAST, .mr_alen = 6};
	uint8_t frame[INC_LLDP_FRAME_BYTES];
	struct listener *l;

	if (!w || !ifindex || listener_of(w, ifindex))
		return;
	l = &w->at[w->next++ % INC_MAX_PORTS];
	*l = (struct listener){.ifindex = ifindex};
	/* the group's address is the one to which frames are sent */
	inc_lldp_write(frame, group.mr_address, "", "", 0);
	memcpy(group.mr_address, frame, group.mr_alen);
	/* a NIC that is promiscuous or has no filter receives the frames without this, too */
	setsockopt(w->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &group, sizeof(group));
}

void inc_lldp_introduce(const struct inc_lldp_watch *w, uint32_t ifindex, const char *name,
			const char *port)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(INC_LLDP_ETHERTYPE),
				 .sll_ifindex = ifindex,
				 .sll_halen = 6};
	uint8_t frame[INC_LLDP_FRAME_BYTES], mac[6];
	size_t len;

	if (!w || inc_interface_mac(ifindex, mac))
		return;
	len = inc_lldp_write(frame, mac, name, port, TTL_S);
	memcpy(to.sll_addr, frame, to.sll_halen);
	sendto(w->fd, frame, len, 0, (const struct sockaddr *)&to, sizeof(to));
}

json_t *inc_lldp_json(const struct inc_lldp_watch *w, uint32_t ifindex)
{
	const uint64_t now_ns = inc_now_ns();
	json_t *found = json_array();

	for (unsigned int i = 0; w && i < INC_MAX_PORTS; i++) {
		for (unsigned int k = 0; w->at[i].ifindex == ifindex && k < SENDERS; k++) {
			const struct sender *sender = &w->at[i].senders[k];
			struct inc_msg_introduced entry = {.has_address = sender->said.has_address,
							   .address = sender->said.address};

			if (sender->ends_at_ns <= now_ns)
				continue;
			memcpy(entry.mac, sender->mac, sizeof(entry.mac));
			strcpy(entry.chassis, sender->said.chassis);
			strcpy(entry.port, sender->said.port);
			strcpy(entry.name, sender->said.name);
			json_array_append_new(found, inc_schema_print(&inc_introduced_schema,
								      INC_MESSAGE_ONLY, &entry));
		}
	}
	return found;
}
