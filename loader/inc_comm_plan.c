/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the configuration of a communicator, and chooses its connections and rows. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <net/if.h>
#include "lib/base/addr.h"
#include "lib/net/netdev.h"
#include "lib/proto/frame.h"
#include "lib/proto/roce.h"
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"

static const char *addr_text(__be32 addr, char text[INET_ADDRSTRLEN])
{
	struct in_addr in = {.s_addr = addr};

	return inet_ntop(AF_INET, &in, text, INET_ADDRSTRLEN);
}

struct inc_conn_key inc_conn_key_of(const struct inc_conn_cfg *c)
{
	return (struct inc_conn_key){.saddr = c->peer.ip, .daddr = c->own.ip, .dqpn = c->own.qpn};
}

static bool same_key(const struct inc_conn_cfg *a, const struct inc_conn_cfg *b)
{
	return a->peer.ip == b->peer.ip && a->own.ip == b->own.ip && a->own.qpn == b->own.qpn;
}

/* Returns the ifindex of an interface name, or 0. For a port of the switch, that is the interface
 * that had the name when the port was attached, or 0 if that interface is gone. */
static uint32_t ifindex_of(const struct inc_switch *sw, const char *ifname)
{
	const struct inc_switch_port *port = inc_switch_port_find(sw, ifname);
	char name[IF_NAMESIZE];

	if (!port)
		return if_nametoindex(ifname);
	return if_indextoname(port->ifindex, name) ? port->ifindex : 0;
}

/* Fills err with an error of one connection. The text names the connection. */
__attribute__((format(printf, 4, 5))) static int refuse(const struct inc_comm_conf *conf,
							const struct inc_conn_conf *c,
							struct inc_err *err, const char *fmt, ...)
{
	char where[64];
	va_list ap;

	if (c->up)
		snprintf(where, sizeof(where), "communicator %u, parent", conf->communicator);
	else
		snprintf(where, sizeof(where), "communicator %u, rank %u", conf->communicator,
			 c->rank);
	va_start(ap, fmt);
	inc_err_vset(err, EINVAL, where, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* Returns the ranks behind a child, from the configuration of its connection. A child without a set
 * of ranks is a host with one rank. */
static struct inc_ranks ranks_of(const struct inc_conn_conf *c)
{
	struct inc_ranks ranks = {};

	if (c->has_ranks)
		return c->ranks;
	inc_ranks_add(&ranks, c->rank);
	return ranks;
}

/* Checks that each rank is behind only one child. below has the ranks behind the children before
 * this one, and this child's ranks are added to it. */
static int check_ranks(const struct inc_comm_conf *conf, const struct inc_conn_conf *c,
		       struct inc_ranks *below, struct inc_err *err)
{
	const struct inc_ranks ranks = ranks_of(c);
	uint32_t rank = inc_ranks_next(&ranks, 0);

	if (c->up)
		return 0;
	if (c->rank >= INC_MAX_RANKS)
		return refuse(conf, c, err, "ranks must be at most %d", INC_MAX_RANKS - 1);
	if (rank != c->rank)
		return refuse(conf, c, err,
			      "the peer's rank is not the lowest of the ranks behind it");
	for (; rank < INC_MAX_RANKS; rank = inc_ranks_next(&ranks, rank + 1))
		if (inc_ranks_have(below, rank))
			return rank == c->rank
				       ? refuse(conf, c, err, "the rank is listed twice")
				       : refuse(conf, c, err,
						"rank %u, which is behind it, is listed twice",
						rank);
	inc_ranks_join(below, &ranks);
	return 0;
}

static int check_conn(const struct inc_comm_conf *conf, const struct inc_conn_conf *c,
		      struct inc_err *err)
{
	char ip[INC_ADDR_TEXT];

	if (!inc_addr_is_ipv4(c->own.ip) || !inc_addr_is_ipv4(c->peer.ip))
		return refuse(
			conf, c, err,
			"port %s: %s is an IPv6 address, and passthrough mode reduces IPv4 "
			"alone: use mode termination",
			c->port,
			inc_addr_text(inc_addr_is_ipv4(c->peer.ip) ? c->own.ip : c->peer.ip, ip));
	if (!inc_addr_is_host(c->peer.ip) || !inc_addr_is_host(c->own.ip))
		return refuse(conf, c, err, "addresses must be unicast");
	if (c->peer.qpn < INC_MIN_QPN || c->peer.qpn > INC_MAX_QPN || c->own.qpn < INC_MIN_QPN ||
	    c->own.qpn > INC_MAX_QPN)
		return refuse(conf, c, err, "queue pair numbers must be %u to %u, not %u and %u",
			      INC_MIN_QPN, INC_MAX_QPN, c->own.qpn, c->peer.qpn);
	if (c->peer.psn > INC_PSN_MASK || c->own.psn > INC_PSN_MASK)
		return refuse(conf, c, err, "PSNs must be at most %u, not %u and %u", INC_PSN_MASK,
			      c->peer.psn, c->own.psn);
	if (!(c->pkey & INC_PKEY_BITS))
		return refuse(conf, c, err, "P_Key 0x%04x is not a partition", c->pkey);
	if (!inc_mac_unicast(c->own_mac) || !inc_mac_unicast(c->peer_mac))
		return refuse(conf, c, err, "MAC addresses must be unicast");
	if (c->has_peer_mac && !inc_mac_given(c->peer_mac))
		return refuse(conf, c, err, "the MAC address that is fixed is not given");
	return 0;
}

static uint32_t count_up(const struct inc_comm_conf *conf)
{
	uint32_t n = 0, i;

	for (i = 0; i < conf->n_conns; i++)
		n += conf->conn[i].up;
	return n;
}

static int check_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	uint32_t ups = count_up(conf), children = conf->n_conns - ups, i;
	struct inc_ranks below = {};
	int ret;

	if (children < 1 || children > INC_MAX_CHILDREN)
		return inc_err_set(err, EINVAL, "communicator %u: %u children, must be 1 to %d",
				   conf->communicator, children, INC_MAX_CHILDREN);
	if (ups > !conf->root)
		return inc_err_set(err, EINVAL, "communicator %u: %u connections up, to %s",
				   conf->communicator, ups,
				   conf->root ? "a root" : "one parent at most");
	if (!inc_payload_ok(conf->payload))
		return inc_err_set(err, EINVAL,
				   "communicator %u: payload %u, must be " INC_PAYLOADS_TEXT,
				   conf->communicator, conf->payload);
	if (!inc_slots_ok(conf->slots))
		return inc_err_set(err, EINVAL,
				   "communicator %u: %u slots, must be " INC_SLOTS_TEXT,
				   conf->communicator, conf->slots);
	if (inc_switch_find_comm(sw, conf->communicator) >= 0)
		return inc_err_set(err, EEXIST, "communicator %u exists already",
				   conf->communicator);
	for (i = 0; i < conf->n_conns; i++) {
		ret = check_ranks(conf, &conf->conn[i], &below, err);
		ret = ret ?: check_conn(conf, &conf->conn[i], err);
		if (ret)
			return ret;
	}
	return 0;
}

/* Compares two connections for sorting: the parent comes last, and children of one port stand
 * together, by their ranks. */
static int by_port(const void *a, const void *b)
{
	const struct inc_conn_cfg *x = a, *y = b;

	if ((x->flags ^ y->flags) & INC_CONN_F_UP)
		return x->flags & INC_CONN_F_UP ? 1 : -1;
	if (x->ifindex != y->ifindex)
		return x->ifindex < y->ifindex ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int find_places(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct inc_comm_build *b, struct inc_err *err)
{
	const struct {
		enum inc_range what;
		uint32_t n;
		__u32 *base;
	} wants[] = {
		{INC_RANGE_CONN, conf->n_conns, &b->cfg.conn_base},
		{INC_RANGE_KEPT, conf->n_conns * conf->slots, &b->cfg.kept_base},
		{INC_RANGE_SUM, conf->slots, &b->cfg.sum_base},
		{INC_RANGE_ROOT, b->cfg.root_rows, &b->cfg.root_base},
	};
	const uint32_t places = sw->opts.max_comms;
	size_t i;

	for (b->comm = 0; b->comm < places; b->comm++)
		if (!(sw->comm[b->comm].flags & INC_COMM_F_VALID))
			break;
	if (b->comm == places)
		return inc_err_set(err, ENOSPC,
				   "communicator %u: all %u places for communicators are in use",
				   conf->communicator, places);
	for (i = 0; i < sizeof(wants) / sizeof(wants[0]); i++)
		if (inc_range_allocate(sw, wants[i].what, wants[i].n, wants[i].base))
			return inc_range_refuse(sw, conf->communicator, wants[i].what, wants[i].n,
						err);
	return 0;
}

static int check_keys(const struct inc_switch *sw, const struct inc_comm_build *b,
		      struct inc_err *err)
{
	const struct inc_comm_cfg *cm;
	uint32_t i, j, k;
	char text[INET_ADDRSTRLEN];

	for (i = 0; i < inc_comm_conns(&b->cfg); i++) {
		for (j = 0; j < i; j++)
			if (same_key(&b->conn[i], &b->conn[j]))
				goto taken;
		for (k = 0; k < sw->opts.max_comms; k++) {
			cm = &sw->comm[k];
			if (!(cm->flags & INC_COMM_F_VALID))
				continue;
			for (j = 0; j < inc_comm_conns(cm); j++)
				if (same_key(&b->conn[i], &sw->conn[cm->conn_base + j]))
					goto taken;
		}
	}
	return 0;

taken:
	return inc_err_set(err, EEXIST,
			   "communicator %u, rank %u: queue pair %u with peer %s is in use",
			   b->cfg.communicator, b->conn[i].rank, b->conn[i].own.qpn,
			   addr_text(b->conn[i].peer.ip, text));
}

static int plan_conn(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		     const struct inc_conn_conf *c, struct inc_conn_cfg *out, struct inc_err *err)
{
	const struct inc_switch_port *port = inc_switch_port_find(sw, c->port);
	int ret = 0;

	*out = (struct inc_conn_cfg){
		.rank = c->rank,
		.ifindex = ifindex_of(sw, c->port),
		.tag = (port ? port->vlan : 0) |
		       (c->verbs.has_sl ? c->verbs.sl << INC_TAG_PCP_SHIFT : 0),
		.own = inc_xdp_end_of(&c->own),
		.peer = inc_xdp_end_of(&c->peer),
		.pkey = c->pkey,
		.flags = (c->udp_csum ? INC_CONN_F_UDP_CSUM : 0) |
			 (c->has_peer_mac ? INC_CONN_F_FIXED_MAC : 0) |
			 (c->has_own_mac ? INC_CONN_F_OWN_MAC : 0) | (c->up ? INC_CONN_F_UP : 0) |
			 (inc_conn_to_switch(c) ? INC_CONN_F_SWITCH : 0) |
			 (c->verbs.has_traffic_class ? INC_CONN_F_CLASS : 0) |
			 (c->verbs.has_sl ? INC_CONN_F_PCP : 0),
		.traffic_class = c->verbs.has_traffic_class ? c->verbs.traffic_class : 0,
	};
	if (!out->ifindex) {
		refuse(conf, c, err, "port %s: its interface is gone", c->port);
		return -ENODEV;
	}
	if (!inc_mac_given(c->own_mac))
		ret = inc_interface_mac(port ? port->own_ifindex : out->ifindex, out->own_mac);
	else
		memcpy(out->own_mac, c->own_mac, 6);
	if (ret)
		return inc_err_set(err, -ret, "rank %u: interface %s has no Ethernet address: %s",
				   c->rank, c->port, strerror(-ret));
	return 0;
}

/* Returns the entry of the configuration to which a connection of the sorted plan belongs. */
static const struct inc_conn_conf *conf_of(const struct inc_comm_conf *conf,
					   const struct inc_conn_cfg *conn)
{
	const struct inc_conn_conf *c = conf->conn;

	while (c->up != !!(conn->flags & INC_CONN_F_UP) || c->rank != conn->rank)
		c++;
	return c;
}

/* Returns the MAC address of a connection's peer; zeros if the configuration has none. */
static union inc_mac plan_mac(const struct inc_conn_conf *c)
{
	union inc_mac mac = {};

	if (!inc_mac_given(c->peer_mac))
		return mac;
	memcpy(mac.addr, c->peer_mac, 6);
	mac.known = 1;
	return mac;
}

/* Stores in the plan that the ranks of a connection are behind this child. Returns their number. */
static uint32_t plan_ranks(struct inc_comm_build *b, const struct inc_conn_conf *c, uint32_t child)
{
	const struct inc_ranks ranks = ranks_of(c);
	uint32_t rank, n = 0;

	for (rank = inc_ranks_next(&ranks, 0); rank < INC_MAX_RANKS;
	     rank = inc_ranks_next(&ranks, rank + 1), n++) {
		uint32_t row = inc_root_row_of(rank);

		*inc_root_place(&b->roots[row], rank) = child + 1;
		b->cfg.root_rows = row + 1 > b->cfg.root_rows ? row + 1 : b->cfg.root_rows;
	}
	return n;
}

/* Fills in the values of a plan that depend on all connections, which are sorted. */
static void plan_children(const struct inc_comm_conf *conf, struct inc_comm_build *b)
{
	struct inc_conn_cfg *parent =
		b->cfg.flags & INC_COMM_F_UP ? &b->conn[b->cfg.children] : NULL;
	uint32_t i;

	for (i = 0; i < conf->n_conns; i++) {
		const struct inc_conn_conf *c = conf_of(conf, &b->conn[i]);

		b->conn[i].child = i;
		b->peer[i] = plan_mac(c);
		if (c->up)
			continue;
		b->conn[i].ranks = plan_ranks(b, c, i);
		if (parent)
			parent->ranks += b->conn[i].ranks;
		if (c->udp_csum)
			b->cfg.flags |= INC_COMM_F_UDP_CSUM;
	}
}

void inc_comm_plan_ports(struct inc_comm_build *b)
{
	uint32_t first, n, i;

	for (first = 0; first < b->cfg.children; first += n) {
		uint8_t *place = &b->cfg.port_child[inc_port_place_of(b->conn[first].ifindex)];

		for (n = 1; first + n < b->cfg.children &&
			    b->conn[first + n].ifindex == b->conn[first].ifindex;
		     n++)
			;
		for (i = first; i < first + n; i++) {
			b->conn[i].port_first = first;
			b->conn[i].port_children = n;
		}
		/* a place that is taken keeps the first child of another port of the
		 * communicator */
		if (!*place)
			*place = first + 1;
	}
}

int inc_comm_plan_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct inc_comm_build *b, struct inc_err *err)
{
	uint32_t i;
	int ret;

	b->cfg.flags = INC_COMM_F_VALID |
		       (conf->byte_order == INC_ORDER_NETWORK ? INC_COMM_F_NET_ORDER : 0) |
		       (count_up(conf) ? INC_COMM_F_UP : 0) |
		       (conf->reorder ? INC_COMM_F_REORDER : 0);
	b->cfg.children = conf->n_conns - count_up(conf);
	b->cfg.full_mask = (1ull << b->cfg.children) - 1;
	b->cfg.log2_slots = __builtin_ctz(conf->slots);
	b->cfg.payload = conf->payload;
	b->cfg.communicator = conf->communicator;
	for (i = 0; i < conf->n_conns; i++) {
		ret = plan_conn(sw, conf, &conf->conn[i], &b->conn[i], err);
		if (ret)
			return ret;
	}
	qsort(b->conn, conf->n_conns, sizeof(b->conn[0]), by_port);
	plan_children(conf, b);
	inc_comm_plan_ports(b);
	return 0;
}

int inc_comm_plan(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		  struct inc_comm_build *b, struct inc_err *err)
{
	uint32_t i;
	int ret = check_conf(sw, conf, err);

	ret = ret ?: inc_comm_plan_conf(sw, conf, b, err);
	ret = ret ?: find_places(sw, conf, b, err);
	for (i = 0; i < conf->n_conns; i++)
		b->conn[i].comm = b->comm;
	return ret ?: check_keys(sw, b, err);
}
