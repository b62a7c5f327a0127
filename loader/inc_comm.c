/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes planned communicators (inc_comm_plan.h) into the maps, starts them, and removes them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "lib/net/netdev.h"
#include "lib/proto/frame.h"
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"

#define NO_CHUNK (~0ull) /* chunk number in a row that has no chunk */

int inc_switch_map_set(const struct inc_switch *sw, const char *name, const void *key,
		       const void *value, uint64_t flags, struct inc_err *err)
{
	if (bpf_map_update_elem(inc_switch_map_fd(sw, name), key, value, flags))
		return inc_err_set(err, errno, "map %s cannot be written: %s", name,
				   strerror(errno));
	return 0;
}

/* Clears the state of a new communicator in the maps. Plain stores suffice, because no packet can
 * reach the communicator's rows before the look-up entries are written. */
static int clear_state(struct inc_switch *sw, const struct inc_comm_build *b, struct inc_err *err)
{
	uint32_t slots = 1u << b->cfg.log2_slots, n = inc_comm_conns(&b->cfg), i, conn;
	int cpus = libbpf_num_possible_cpus(), ret = 0;
	struct inc_copy *zero;

	memset(&sw->comm_state[b->comm], 0, sizeof(sw->comm_state[0]));
	memset(&sw->conn_state[b->cfg.conn_base], 0, n * sizeof(sw->conn_state[0]));
	memset(&sw->slots[b->cfg.sum_base], 0, slots * sizeof(sw->slots[0]));
	for (i = 0; i < slots; i++)
		sw->sums[b->cfg.sum_base + i].r = NO_CHUNK;
	for (i = 0; i < slots * n; i++)
		sw->kept[b->cfg.kept_base + i].r = NO_CHUNK;
	zero = calloc(cpus > 0 ? cpus : 1, sizeof(*zero));
	if (!zero)
		return inc_err_set(err, ENOMEM, "no memory");
	for (i = 0; !ret && i < n; i++) {
		conn = b->cfg.conn_base + i;
		sw->conn_state[conn].mac = b->peer[i];
		sw->conn_state[conn].traffic_class = b->conn[i].traffic_class;
		sw->conn_state[conn].tag =
			b->conn[i].tag & INC_TAG_VLAN_MASK ? INC_TAG_PRESENT | b->conn[i].tag : 0;
		ret = inc_switch_map_set(sw, INC_MAP_COPY, &conn, zero, BPF_ANY, err);
	}
	free(zero);
	return ret;
}

/* Returns how many rows of inc_comm_ports a communicator uses. A communicator without a parent does
 * not need the last one. */
static uint32_t ports_rows(const struct inc_comm_cfg *cfg)
{
	return cfg->flags & INC_COMM_F_UP ? INC_PORTS_ROWS : INC_PORTS_UP_BARE;
}

/*
 * Writes the communicator's rows of inc_comm_ports in one batch. Each write to a map of maps waits
 * until all running programs have ended, which takes longer than all other steps. Kernels since
 * 6.8 wait once for a batch.
 */
static int set_rows(const struct inc_switch *sw, const struct inc_comm_build *b,
		    const int fds[INC_PORTS_ROWS], struct inc_err *err)
{
	uint32_t rows[INC_PORTS_ROWS], n = ports_rows(&b->cfg), i;
	LIBBPF_OPTS(bpf_map_batch_opts, opts);

	for (i = 0; i < n; i++)
		rows[i] = b->comm * INC_PORTS_ROWS + i;
	if (bpf_map_update_batch(inc_switch_map_fd(sw, INC_MAP_COMM_PORTS), rows, fds, &n, &opts))
		return inc_err_set(err, errno, "map %s cannot be written: %s", INC_MAP_COMM_PORTS,
				   strerror(errno));
	return 0;
}

static int make_devmap(const struct inc_comm_build *b, uint32_t entries, struct inc_err *err)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "inc_comm_dev", sizeof(uint32_t),
				sizeof(struct bpf_devmap_val), entries, NULL);

	return fd < 0 ? inc_err_set(err, errno, "communicator %u: no devmap: %s",
				    b->cfg.communicator, strerror(errno))
		      : fd;
}

/* Fills `to` with the receivers in one of the communicator's rows of inc_comm_ports, with an entry
 * for each copy. Returns the number of entries. */
static uint32_t receivers_of(const struct inc_comm_build *b, enum inc_ports_row which,
			     const struct inc_conn_cfg *to[INC_MAX_CHILDREN + 1])
{
	const struct inc_conn_cfg *last = &b->conn[b->cfg.children - 1];
	uint32_t n = 0;

	if (which == INC_PORTS_UP_BARE) {
		to[0] = to[1] = &b->conn[b->cfg.children];
		return 2;
	}
	for (; n < b->cfg.children; n++)
		to[n] = &b->conn[n];
	if (which == INC_PORTS_DOWN_BARE)
		to[n++] = last;
	return n;
}

/* Makes the devmap for a row of inc_comm_ports. Returns the devmap's descriptor. */
static int make_row(struct inc_switch *sw, const struct inc_comm_build *b, enum inc_ports_row which,
		    struct inc_err *err)
{
	struct bpf_devmap_val val = {.bpf_prog.fd = inc_switch_prog_fd(sw, INC_PROG_EGRESS)};
	const struct inc_conn_cfg *to[INC_MAX_CHILDREN + 1];
	uint32_t n = receivers_of(b, which, to), i;
	int fd = make_devmap(b, n, err), ret;

	for (i = 0; fd >= 0 && i < n; i++) {
		val.ifindex = to[i]->ifindex;
		if (!bpf_map_update_elem(fd, &i, &val, BPF_ANY))
			continue;
		ret = inc_err_set(err, errno,
				  "communicator %u, rank %u: interface %u cannot receive "
				  "redirected frames: %s",
				  b->cfg.communicator, to[i]->rank, val.ifindex, strerror(errno));
		close(fd);
		return ret;
	}
	return fd;
}

int inc_comm_make_ports(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err)
{
	struct bpf_devmap_val parent = {.ifindex = b->conn[b->cfg.children].ifindex,
					.bpf_prog.fd = inc_switch_prog_fd(sw, INC_PROG_EGRESS)};
	int fds[INC_PORTS_ROWS], ret = 0;
	uint32_t n;

	for (n = 0; n < ports_rows(&b->cfg); n++) {
		fds[n] = make_row(sw, b, n, err);
		if (fds[n] < 0) {
			ret = fds[n];
			break;
		}
	}
	ret = ret ?: set_rows(sw, b, fds, err);
	b->ports = !ret;
	if (!ret && b->cfg.flags & INC_COMM_F_UP)
		ret = inc_switch_map_set(sw, INC_MAP_PARENT_PORT, &b->comm, &parent, BPF_ANY, err);
	while (n)
		close(fds[--n]);
	return ret;
}

/* Replaces the communicator's rows of inc_comm_ports by empty devmaps, so that no frame leaves by
 * them any more. */
static int empty_ports(struct inc_switch *sw, const struct inc_comm_build *b, struct inc_err *err)
{
	int none = make_devmap(b, 1, err), ret;

	if (none < 0)
		return none;
	ret = set_rows(sw, b, (const int[INC_PORTS_ROWS]){none, none, none}, err);
	close(none);
	return ret;
}

int inc_comm_write(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err)
{
	int ret = inc_switch_map_set(sw, INC_MAP_COMM_CFG, &b->comm, &b->cfg, BPF_ANY, err);
	uint32_t i, conn;

	for (i = 0; !ret && i < inc_comm_conns(&b->cfg); i++) {
		conn = b->cfg.conn_base + i;
		ret = inc_switch_map_set(sw, INC_MAP_CONN_CFG, &conn, &b->conn[i], BPF_ANY, err);
	}
	return ret;
}

static int make_config(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err)
{
	uint32_t i, row;
	int ret = 0;

	for (i = 0; !ret && i < b->cfg.root_rows; i++) {
		row = b->cfg.root_base + i;
		ret = inc_switch_map_set(sw, INC_MAP_ROOT_CHILD, &row, &b->roots[i], BPF_ANY, err);
	}
	return ret ?: inc_comm_write(sw, b, err);
}

int inc_comm_set_place(struct inc_switch *sw, uint32_t qpn, uint32_t old, uint32_t new,
		       struct inc_err *err)
{
	uint32_t place = inc_conn_place_of(qpn, inc_conn_places(sw->opts.max_connections));
	uint32_t now;

	if (bpf_map_lookup_elem(inc_switch_map_fd(sw, INC_MAP_CONN_PLACE), &place, &now))
		return inc_err_set(err, errno, "map %s cannot be read: %s", INC_MAP_CONN_PLACE,
				   strerror(errno));
	return now == old ? inc_switch_map_set(sw, INC_MAP_CONN_PLACE, &place, &new, BPF_ANY, err)
			  : 0;
}

/* Changes how many connections use an address of the switch, as inc_own_addr counts them. more: 1
 * or -1. */
static int count_own_addr(struct inc_switch *sw, __be32 addr, int32_t more, struct inc_err *err)
{
	int fd = inc_switch_map_fd(sw, INC_MAP_OWN_ADDR);
	uint32_t n = 0;

	if (bpf_map_lookup_elem(fd, &addr, &n) && errno != ENOENT)
		return inc_err_set(err, errno, "map %s cannot be read: %s", INC_MAP_OWN_ADDR,
				   strerror(errno));
	n += more;
	if (n)
		return inc_switch_map_set(sw, INC_MAP_OWN_ADDR, &addr, &n, BPF_ANY, err);
	bpf_map_delete_elem(fd, &addr);
	return 0;
}

static int make_lookups(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err)
{
	int ret;

	while (b->lookups < inc_comm_conns(&b->cfg)) {
		struct inc_conn_key key = inc_conn_key_of(&b->conn[b->lookups]);
		uint32_t conn = b->cfg.conn_base + b->lookups;

		ret = count_own_addr(sw, key.daddr, 1, err);
		if (ret)
			return ret;
		ret = inc_switch_map_set(sw, INC_MAP_CONN_LOOKUP, &key, &conn, BPF_NOEXIST, err);
		if (ret) {
			count_own_addr(sw, key.daddr, -1, NULL);
			return ret;
		}
		b->lookups++;
		ret = inc_comm_set_place(sw, key.dqpn, 0, conn + 1, err);
		if (ret)
			return ret;
	}
	return 0;
}

/* Deletes the look-up entries of the communicator's connections. Returns how many existed. */
static uint32_t delete_lookups(struct inc_switch *sw, struct inc_comm_build *b)
{
	uint32_t deleted = 0;

	while (b->lookups) {
		struct inc_conn_key key = inc_conn_key_of(&b->conn[--b->lookups]);

		inc_comm_set_place(sw, key.dqpn, b->cfg.conn_base + b->lookups + 1, 0, NULL);
		/* the entry is missing if the communicator was not started, and then its address
		 * was not counted either */
		if (bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_CONN_LOOKUP), &key))
			continue;
		deleted++;
		count_own_addr(sw, key.daddr, -1, NULL);
	}
	return deleted;
}

/* Cuts the communicator off from packets. First this deletes the look-up entries, so that no packet
 * finds the communicator. Then it replaces the devmaps that running programs may use. If that
 * fails, it makes the look-up entries again. */
static int take_away(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err)
{
	bool started = delete_lookups(sw, b);
	/* afterwards no program uses the communicator, because empty_ports() waits until all that
	 * run now have ended */
	int ret = b->ports ? empty_ports(sw, b, err) : 0;

	if (ret && started)
		make_lookups(sw, b, NULL);
	return ret;
}

/* Clears the communicator's rows of configuration, which no program uses any more. */
static void clear_config(struct inc_switch *sw, const struct inc_comm_build *b)
{
	static const struct inc_comm_cfg no_comm;
	static const struct inc_conn_cfg no_conn;
	uint32_t i, conn;

	if (b->cfg.flags & INC_COMM_F_UP)
		bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_PARENT_PORT), &b->comm);
	bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_COMM_CFG), &b->comm, &no_comm, BPF_ANY);
	for (i = 0; i < inc_comm_conns(&b->cfg); i++) {
		conn = b->cfg.conn_base + i;
		bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_CONN_CFG), &conn, &no_conn,
				    BPF_ANY);
	}
}

int inc_switch_add_comm(struct inc_switch *sw, const struct inc_comm_conf *conf,
			struct inc_err *err)
{
	struct inc_comm_build b = {};
	int ret;

	ret = inc_comm_plan(sw, conf, &b, err);
	if (ret)
		return ret;
	ret = clear_state(sw, &b, err);
	ret = ret ?: inc_comm_make_ports(sw, &b, err);
	ret = ret ?: make_config(sw, &b, err);
	if (ret) {
		take_away(sw, &b, NULL);
		clear_config(sw, &b);
		return ret;
	}
	inc_steer_place(sw, b.comm);
	sw->comm[b.comm] = b.cfg;
	memcpy(&sw->root[b.cfg.root_base], b.roots, b.cfg.root_rows * sizeof(b.roots[0]));
	memcpy(&sw->conn[b.cfg.conn_base], b.conn, inc_comm_conns(&b.cfg) * sizeof(b.conn[0]));
	return b.comm;
}

int inc_switch_start_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err)
{
	struct inc_comm_build b = {.comm = comm};
	int ret;

	if (!inc_switch_comm(sw, comm))
		return inc_err_set(err, ENOENT, "no communicator %u", comm);
	b.cfg = sw->comm[comm];
	memcpy(b.conn, &sw->conn[b.cfg.conn_base], inc_comm_conns(&b.cfg) * sizeof(b.conn[0]));
	ret = make_lookups(sw, &b, err);
	if (ret)
		delete_lookups(sw, &b);
	return ret;
}

int inc_switch_remove_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err)
{
	struct inc_comm_build b = {.comm = comm, .ports = true};
	int ret;

	if (!inc_switch_comm(sw, comm))
		return inc_err_set(err, ENOENT, "no communicator %u", comm);
	b.cfg = sw->comm[comm];
	b.lookups = inc_comm_conns(&b.cfg);
	memcpy(b.conn, &sw->conn[b.cfg.conn_base], inc_comm_conns(&b.cfg) * sizeof(b.conn[0]));
	ret = take_away(sw, &b, err);
	if (ret)
		return ret;
	inc_steer_forget(sw, comm);
	clear_config(sw, &b);
	memset(&sw->conn[b.cfg.conn_base], 0, inc_comm_conns(&b.cfg) * sizeof(b.conn[0]));
	memset(&sw->comm[comm], 0, sizeof(sw->comm[comm]));
	return 0;
}

/* Sets the MAC address from which a connection sends, in the map and in its copy. */
static void set_own_mac(struct inc_switch *sw, uint32_t conn, const uint8_t mac[6])
{
	struct inc_conn_cfg cfg = sw->conn[conn];

	memcpy(cfg.own_mac, mac, sizeof(cfg.own_mac));
	if (!inc_switch_map_set(sw, INC_MAP_CONN_CFG, &conn, &cfg, BPF_ANY, NULL))
		sw->conn[conn] = cfg;
}

/* Sets the source MAC address of all connections at the port that have no configured one of their
 * own. Returns how many connections have changed. */
static uint32_t follow_mac(struct inc_switch *sw, uint32_t ifindex, const uint8_t mac[6])
{
	uint32_t comm, i, conn, n = 0;

	for (comm = 0; comm < sw->opts.max_comms; comm++)
		for (i = 0; inc_switch_comm(sw, comm) && i < inc_comm_conns(&sw->comm[comm]); i++) {
			conn = sw->comm[comm].conn_base + i;
			if (sw->conn[conn].ifindex != ifindex ||
			    sw->conn[conn].flags & INC_CONN_F_OWN_MAC ||
			    !memcmp(sw->conn[conn].own_mac, mac, 6))
				continue;
			set_own_mac(sw, conn, mac);
			n++;
		}
	return n;
}

void inc_switch_follow_mac(struct inc_switch *sw, const struct inc_switch_port *port)
{
	uint8_t mac[6];
	uint32_t n;

	if (inc_interface_mac(port->own_ifindex, mac))
		return; /* the port's interface is gone */
	n = follow_mac(sw, port->ifindex, mac);
	if (n)
		inc_info("port %s: its MAC address has changed; %u connections send from the new "
			 "one",
			 port->name, n);
}

void inc_switch_follow_macs(struct inc_switch *sw)
{
	const struct inc_switch_port *port;
	size_t i;

	for (i = 0; (port = inc_switch_port_at(sw, i)); i++)
		inc_switch_follow_mac(sw, port);
}

const struct inc_comm_cfg *inc_switch_comm(const struct inc_switch *sw, uint32_t comm)
{
	if (comm >= sw->opts.max_comms || !(sw->comm[comm].flags & INC_COMM_F_VALID))
		return NULL;
	return &sw->comm[comm];
}

const struct inc_conn_cfg *inc_switch_conn(const struct inc_switch *sw, uint32_t conn)
{
	return conn < sw->opts.max_connections ? &sw->conn[conn] : NULL;
}

bool inc_switch_child_gets(const struct inc_switch *sw, uint32_t comm, uint32_t child,
			   uint32_t desc)
{
	const struct inc_comm_cfg *cfg = &sw->comm[comm];
	uint32_t root = INC_DESC_ROOT(desc), row;
	bool has_root =
		inc_root_row(cfg, root, &row) && *inc_root_place(&sw->root[row], root) == child + 1;

	return inc_ranks_get(desc, has_root, sw->conn[cfg->conn_base + child].ranks);
}

int inc_switch_find_comm(const struct inc_switch *sw, uint32_t communicator)
{
	uint32_t cm;

	for (cm = 0; cm < sw->opts.max_comms; cm++)
		if (sw->comm[cm].flags & INC_COMM_F_VALID &&
		    sw->comm[cm].communicator == communicator)
			return cm;
	return -ENOENT;
}
