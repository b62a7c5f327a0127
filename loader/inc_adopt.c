/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Takes over the communicators of a predecessor, a daemon of the same instance that has ended. The
 * maps describe all these communicators. A configuration is written before the look-ups that lead
 * packets to it, and cleared after them. So a communicator whose look-ups all exist is complete.
 * Any other was being made or removed when the daemon died. The daemon calls this once, when it
 * starts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/proto/frame.h"
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"

static int read_rows(const struct inc_switch *sw, const char *map, void *rows, size_t size,
		     uint32_t n, struct inc_err *err)
{
	int fd = inc_switch_map_fd(sw, map);
	uint32_t i;

	for (i = 0; i < n; i++)
		if (bpf_map_lookup_elem(fd, &i, (char *)rows + i * size))
			return inc_err_set(err, errno, "map %s cannot be read: %s", map,
					   strerror(errno));
	return 0;
}

static int read_maps(struct inc_switch *sw, struct inc_err *err)
{
	int ret = read_rows(sw, INC_MAP_COMM_CFG, sw->comm, sizeof(*sw->comm), sw->opts.max_comms,
			    err);

	ret = ret
		      ?: read_rows(sw, INC_MAP_CONN_CFG, sw->conn, sizeof(*sw->conn),
				   sw->opts.max_connections, err);
	return ret
		       ?: read_rows(sw, INC_MAP_ROOT_CHILD, sw->root, sizeof(*sw->root),
				    inc_switch_root_rows(sw->opts.max_comms), err);
}

/* Fills b with the plan of a communicator that is in the maps, as if this process had made the
 * communicator itself. */
static void build_of(const struct inc_switch *sw, uint32_t comm, struct inc_comm_build *b)
{
	*b = (struct inc_comm_build){.comm = comm, .cfg = sw->comm[comm]};
	memcpy(b->conn, &sw->conn[b->cfg.conn_base], inc_comm_conns(&b->cfg) * sizeof(b->conn[0]));
}

/* Whether this daemon has the port of a connection, in the connection's VLAN. */
static bool has_port(const struct inc_switch *sw, const struct inc_conn_cfg *conn)
{
	const struct inc_switch_port *port = inc_switch_port_on(sw, conn->ifindex);

	return port && port->vlan == (conn->tag & INC_TAG_VLAN_MASK);
}

/* Whether every connection of the communicator has a look-up entry and an existing port. */
static bool is_whole(const struct inc_switch *sw, const struct inc_comm_build *b)
{
	uint32_t i, conn;

	for (i = 0; i < inc_comm_conns(&b->cfg); i++) {
		struct inc_conn_key key = inc_conn_key_of(&b->conn[i]);

		if (bpf_map_lookup_elem(inc_switch_map_fd(sw, INC_MAP_CONN_LOOKUP), &key, &conn) ||
		    conn != b->cfg.conn_base + i || !has_port(sw, &b->conn[i]))
			return false;
	}
	return true;
}

/* Takes over a communicator, so that the communicator's results leave by this daemon's egress
 * program. */
static int take_comm(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err)
{
	int ret = inc_comm_make_ports(sw, b, err);
	uint32_t i;

	for (i = 0; !ret && i < inc_comm_conns(&b->cfg); i++)
		ret = inc_comm_set_place(sw, b->conn[i].own.qpn, 0, b->cfg.conn_base + i + 1, err);
	return ret;
}

static int by_addr(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(__be32));
}

/* Deletes those of the addresses from inc_own_addr that no connection uses any more. */
static void drop_addrs(struct inc_switch *sw, const __be32 *addr, uint32_t n)
{
	int fd = inc_switch_map_fd(sw, INC_MAP_OWN_ADDR);
	__be32 key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (!bsearch(&key, addr, n, sizeof(*addr), by_addr))
			bpf_map_delete_elem(fd, &key);
	}
}

/* Counts again how many connections use each address of the switch. The count in the map may be off
 * by one, because the predecessor may have died while it made a connection. */
static int count_addrs(struct inc_switch *sw, struct inc_err *err)
{
	__be32 *addr = calloc(sw->opts.max_connections, sizeof(*addr));
	uint32_t n = 0, cm, i, same;
	int ret = 0;

	if (!addr)
		return inc_err_set(err, ENOMEM, "no memory for %u addresses",
				   sw->opts.max_connections);
	for (cm = 0; cm < sw->opts.max_comms; cm++)
		for (i = 0; inc_switch_comm(sw, cm) && i < inc_comm_conns(&sw->comm[cm]); i++)
			addr[n++] = sw->conn[sw->comm[cm].conn_base + i].own.ip;
	qsort(addr, n, sizeof(*addr), by_addr);
	for (i = 0; !ret && i < n; i += same) {
		for (same = 1; i + same < n && addr[i + same] == addr[i]; same++)
			;
		ret = inc_switch_map_set(sw, INC_MAP_OWN_ADDR, &addr[i], &same, BPF_ANY, err);
	}
	if (!ret)
		drop_addrs(sw, addr, n);
	free(addr);
	return ret;
}

/* Takes over the communicator and returns 1, or removes the communicator if it is not complete. */
static int judge_comm(struct inc_switch *sw, uint32_t cm, struct inc_err *err)
{
	const uint32_t number = sw->comm[cm].communicator;
	struct inc_comm_build b;
	int ret;

	build_of(sw, cm, &b);
	if (is_whole(sw, &b)) {
		ret = take_comm(sw, &b, err);
		return ret ?: 1;
	}
	inc_warn("communicator %u was being made or removed, or has lost a port: it is removed",
		 number);
	return inc_switch_remove_comm(sw, cm, err);
}

int inc_switch_adopt(struct inc_switch *sw, struct inc_err *err)
{
	uint32_t cm;
	int ret, n = 0;

	if (!sw->adopted)
		return 0;
	ret = read_maps(sw, err);
	ret = ret ?: inc_adopt_moved_ports(sw, err);
	for (cm = 0; ret >= 0 && cm < sw->opts.max_comms; cm++) {
		ret = inc_switch_comm(sw, cm) ? judge_comm(sw, cm, err) : 0;
		n += ret > 0;
	}
	if (ret >= 0)
		ret = count_addrs(sw, err);
	if (ret < 0)
		return ret;
	inc_steer_adopt(sw);
	inc_forget_ports(sw);
	inc_switch_follow_macs(sw);
	sw->leaving = false;
	return n;
}

static void describe_ranks(const struct inc_switch *sw, const struct inc_comm_cfg *cfg,
			   uint32_t child, struct inc_ranks *out)
{
	uint32_t rank, row;

	for (rank = 0; inc_root_row(cfg, rank, &row); rank++)
		if (*inc_root_place(&sw->root[row], rank) == child + 1)
			inc_ranks_add(out, rank);
}

static void describe_conn(const struct inc_switch *sw, const struct inc_comm_cfg *cfg, uint32_t i,
			  struct inc_conn_conf *out)
{
	const struct inc_conn_cfg *c = &sw->conn[cfg->conn_base + i];
	const struct inc_switch_port *port = inc_switch_port_on(sw, c->ifindex);

	*out = (struct inc_conn_conf){
		.up = c->flags & INC_CONN_F_UP,
		.rank = c->rank,
		.has_ranks = !(c->flags & INC_CONN_F_UP) &&
			     (c->flags & INC_CONN_F_SWITCH || c->ranks > 1),
		.is_machine = !(c->flags & INC_CONN_F_SWITCH) && c->ranks > 1,
		.own = inc_rc_end_of(&c->own),
		.has_own_mac = c->flags & INC_CONN_F_OWN_MAC,
		.has_own_psn = true,
		.peer = inc_rc_end_of(&c->peer),
		.has_peer_mac = c->flags & INC_CONN_F_FIXED_MAC,
		.has_peer_psn = true,
		.pkey = c->pkey,
		.udp_csum = c->flags & INC_CONN_F_UDP_CSUM,
		.has_verbs = c->flags & (INC_CONN_F_CLASS | INC_CONN_F_PCP),
		.verbs = {.traffic_class = c->traffic_class,
			  .has_traffic_class = c->flags & INC_CONN_F_CLASS,
			  .sl = c->tag >> INC_TAG_PCP_SHIFT,
			  .has_sl = c->flags & INC_CONN_F_PCP},
	};
	if (out->has_own_mac)
		memcpy(out->own_mac, c->own_mac, sizeof(out->own_mac));
	if (out->has_peer_mac)
		memcpy(out->peer_mac, sw->conn_state[cfg->conn_base + i].mac.addr,
		       sizeof(out->peer_mac));
	out->has_machine = out->is_machine;
	if (out->has_ranks)
		describe_ranks(sw, cfg, i, &out->ranks);
	if (port)
		strcpy(out->port, port->name);
	else
		if_indextoname(c->ifindex, out->port);
}

void inc_switch_describe(const struct inc_switch *sw, uint32_t comm, struct inc_comm_conf *out)
{
	const struct inc_comm_cfg *cfg = &sw->comm[comm];
	uint32_t i;

	*out = (struct inc_comm_conf){
		.communicator = cfg->communicator,
		.has_mode = true,
		.mode = INC_PASSTHROUGH,
		.root = !(cfg->flags & INC_COMM_F_UP),
		.payload = cfg->payload,
		.slots = 1u << cfg->log2_slots,
		.byte_order =
			cfg->flags & INC_COMM_F_NET_ORDER ? INC_ORDER_NETWORK : INC_ORDER_LITTLE,
		.has_reorder = cfg->flags & INC_COMM_F_REORDER,
		.reorder = cfg->flags & INC_COMM_F_REORDER,
		.n_conns = inc_comm_conns(cfg),
	};
	for (i = 0; i < out->n_conns; i++)
		describe_conn(sw, cfg, i, &out->conn[i]);
}

bool inc_switch_comm_is(const struct inc_switch *sw, uint32_t comm,
			const struct inc_comm_conf *conf)
{
	const struct inc_comm_cfg *has = &sw->comm[comm];
	struct inc_comm_build b = {};
	uint32_t i;

	if (conf->mode != INC_PASSTHROUGH || conf->n_conns != inc_comm_conns(has) ||
	    inc_comm_plan_conf(sw, conf, &b, NULL))
		return false;
	b.cfg.conn_base = has->conn_base;
	b.cfg.kept_base = has->kept_base;
	b.cfg.sum_base = has->sum_base;
	b.cfg.root_base = has->root_base;
	if (memcmp(&b.cfg, has, sizeof(*has)) ||
	    memcmp(b.roots, &sw->root[has->root_base], has->root_rows * sizeof(b.roots[0])))
		return false;
	for (i = 0; i < inc_comm_conns(has); i++)
		b.conn[i].comm = comm;
	return !memcmp(b.conn, &sw->conn[has->conn_base], inc_comm_conns(has) * sizeof(b.conn[0]));
}
