/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators: validation, allocation of connection ids and rows, making them work, removal. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "lib/proto/roce.h"
#include "loader/inc_loader_priv.h"

#define NO_CHUNK (~0ull) /* in a row that holds nothing */

/* How far the making of a communicator has come; undone from the last to the first. */
struct build {
	struct inc_comm_cfg cfg;
	struct inc_conn_cfg conn[INC_MAX_CHILDREN];
	union inc_mac peer[INC_MAX_CHILDREN]; /* as far as it is known */
	uint32_t comm;                        /* the index that it gets */
	uint32_t lookups; /* entries of inc_conn_lookup made, with those of inc_conn_place */
	bool ports;       /* inc_comm_ports[comm] set */
};

static const char *addr_text(__be32 addr, char text[INET_ADDRSTRLEN])
{
	struct in_addr in = {.s_addr = addr};

	return inet_ntop(AF_INET, &in, text, INET_ADDRSTRLEN);
}

static struct inc_conn_key conn_key(const struct inc_conn_cfg *c)
{
	return (struct inc_conn_key){
		.saddr = c->peer_addr, .daddr = c->own_addr, .dqpn = c->own_qpn};
}

static bool same_key(const struct inc_conn_cfg *a, const struct inc_conn_cfg *b)
{
	return a->peer_addr == b->peer_addr && a->own_addr == b->own_addr &&
	       a->own_qpn == b->own_qpn;
}

static bool is_zero(const uint8_t mac[6])
{
	static const uint8_t zero[6];

	return !memcmp(mac, zero, 6);
}

/* A port is the interface that had the name when it was attached; 0: there is none any more. */
static uint32_t ifindex_of(const struct inc_switch *sw, const char *ifname)
{
	const struct inc_switch_port *port = inc_switch_port_find(sw, ifname);
	char name[IF_NAMESIZE];

	if (!port)
		return if_nametoindex(ifname);
	return if_indextoname(port->ifindex, name) ? port->ifindex : 0;
}

static int port_mac(uint32_t ifindex, uint8_t mac[6])
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

/* What is wrong with a connection, and which one it is. */
__attribute__((format(printf, 4, 5))) static int refuse(const struct inc_comm_conf *conf,
							const struct inc_conn_conf *c,
							struct inc_err *err, const char *fmt, ...)
{
	char where[64];
	va_list ap;

	snprintf(where, sizeof(where), "communicator %u, rank %u", conf->communicator, c->rank);
	va_start(ap, fmt);
	inc_err_vset(err, EINVAL, where, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int check_conn(const struct inc_switch *sw, const struct inc_comm_conf *conf, uint32_t i,
		      struct inc_err *err)
{
	const struct inc_conn_conf *c = &conf->conn[i];
	uint32_t j;

	for (j = 0; j < i; j++)
		if (conf->conn[j].rank == c->rank)
			return refuse(conf, c, err, "the rank stands twice");
	if (!ifindex_of(sw, c->port))
		return inc_err_set(err, ENODEV, "communicator %u, rank %u: no interface %s",
				   conf->communicator, c->rank, c->port);
	if (!inc_addr_unicast(ntohl(c->peer_ip.s_addr)) ||
	    !inc_addr_unicast(ntohl(c->own_ip.s_addr)))
		return refuse(conf, c, err, "addresses must be unicast");
	if (c->peer_qp < INC_MIN_QPN || c->peer_qp > INC_MAX_QPN || c->own_qp < INC_MIN_QPN ||
	    c->own_qp > INC_MAX_QPN)
		return refuse(conf, c, err, "queue pair numbers must be %u to %u, not %u and %u",
			      INC_MIN_QPN, INC_MAX_QPN, c->own_qp, c->peer_qp);
	if (c->peer_psn > INC_PSN_MASK || c->own_psn > INC_PSN_MASK)
		return refuse(conf, c, err, "PSNs must be at most %u, not %u and %u", INC_PSN_MASK,
			      c->peer_psn, c->own_psn);
	if (!(c->pkey & INC_PKEY_BITS))
		return refuse(conf, c, err, "P_Key 0x%04x is not a partition", c->pkey);
	if (c->own_mac[0] & 1 || c->peer_mac[0] & 1)
		return refuse(conf, c, err, "MAC addresses must be unicast");
	if (c->has_peer_mac && is_zero(c->peer_mac))
		return refuse(conf, c, err, "the MAC address that is fixed is not given");
	return 0;
}

static int check_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	uint32_t i;
	int ret;

	if (conf->n_conns < 1 || conf->n_conns > INC_MAX_CHILDREN)
		return inc_err_set(err, EINVAL, "communicator %u: %u children, must be 1 to %d",
				   conf->communicator, conf->n_conns, INC_MAX_CHILDREN);
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
		ret = check_conn(sw, conf, i, err);
		if (ret)
			return ret;
	}
	return 0;
}

static int by_port(const void *a, const void *b)
{
	const struct inc_conn_cfg *x = a, *y = b;

	if (x->ifindex != y->ifindex)
		return x->ifindex < y->ifindex ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int find_places(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct build *b, struct inc_err *err)
{
	const struct inc_switch_opts *o = &sw->opts;

	for (b->comm = 0; b->comm < o->max_comms; b->comm++)
		if (!(sw->comm[b->comm].flags & INC_COMM_F_VALID))
			break;
	if (b->comm == o->max_comms)
		return inc_err_set(err, ENOSPC, "communicator %u: all %u are in use",
				   conf->communicator, o->max_comms);
	if (inc_range_allocate(sw, INC_RANGE_CONN, conf->n_conns, o->max_connections,
			       &b->cfg.conn_base))
		return inc_err_set(err, ENOSPC,
				   "communicator %u: no %u connections in a row free of %u",
				   conf->communicator, conf->n_conns, o->max_connections);
	if (inc_range_allocate(sw, INC_RANGE_CONTRIB, conf->n_conns * conf->slots, o->max_rows,
			       &b->cfg.contrib_base))
		return inc_err_set(err, ENOSPC,
				   "communicator %u: no %u contribution rows (%u children, %u "
				   "slots) in a row free of %u",
				   conf->communicator, conf->n_conns * conf->slots, conf->n_conns,
				   conf->slots, o->max_rows);
	if (inc_range_allocate(sw, INC_RANGE_RESULT, conf->slots, sw->result_rows,
			       &b->cfg.result_base))
		return inc_err_set(err, ENOSPC,
				   "communicator %u: no %u result rows in a row free of %u",
				   conf->communicator, conf->slots, sw->result_rows);
	return 0;
}

static int check_keys(const struct inc_switch *sw, const struct build *b, struct inc_err *err)
{
	const struct inc_comm_cfg *cm;
	uint32_t i, j, k;
	char text[INET_ADDRSTRLEN];

	for (i = 0; i < b->cfg.children; i++) {
		for (j = 0; j < i; j++)
			if (same_key(&b->conn[i], &b->conn[j]))
				goto taken;
		for (k = 0; k < sw->opts.max_comms; k++) {
			cm = &sw->comm[k];
			if (!(cm->flags & INC_COMM_F_VALID))
				continue;
			for (j = 0; j < cm->children; j++)
				if (same_key(&b->conn[i], &sw->conn[cm->conn_base + j]))
					goto taken;
		}
	}
	return 0;

taken:
	return inc_err_set(err, EEXIST,
			   "communicator %u, rank %u: queue pair %u with peer %s is in use",
			   b->cfg.communicator, b->conn[i].rank, b->conn[i].own_qpn,
			   addr_text(b->conn[i].peer_addr, text));
}

static int plan_conn(const struct inc_switch *sw, const struct inc_conn_conf *c, uint32_t comm,
		     struct inc_conn_cfg *out, struct inc_err *err)
{
	int ret = 0;

	*out = (struct inc_conn_cfg){
		.comm = comm,
		.rank = c->rank,
		.ifindex = ifindex_of(sw, c->port),
		.peer_addr = c->peer_ip.s_addr,
		.own_addr = c->own_ip.s_addr,
		.peer_qpn = c->peer_qp,
		.own_qpn = c->own_qp,
		.peer_port = c->peer_port,
		.own_port = c->own_port,
		.pkey = c->pkey,
		.flags = (c->udp_csum ? INC_CONN_F_UDP_CSUM : 0) |
			 (c->has_peer_mac ? INC_CONN_F_FIXED_MAC : 0),
		.rx_start_psn = c->peer_psn,
		.tx_start_psn = c->own_psn,
	};
	if (is_zero(c->own_mac))
		ret = port_mac(out->ifindex, out->own_mac);
	else
		memcpy(out->own_mac, c->own_mac, 6);
	if (ret)
		return inc_err_set(err, -ret, "rank %u: interface %s has no Ethernet address: %s",
				   c->rank, c->port, strerror(-ret));
	return 0;
}

/* Where the peer with this rank is, as far as the caller knows. */
static void plan_mac(const struct inc_comm_conf *conf, uint32_t rank, union inc_mac *out)
{
	uint32_t i;

	out->word = 0;
	for (i = 0; i < conf->n_conns; i++) {
		if (conf->conn[i].rank != rank || is_zero(conf->conn[i].peer_mac))
			continue;
		memcpy(out->addr, conf->conn[i].peer_mac, 6);
		out->known = 1;
	}
}

/* Who shares a port with whom, and where each port's children begin. They are sorted by port. */
static void plan_ports(struct build *b)
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
		if (!*place) /* else another port has it */
			*place = first + 1;
	}
}

static int plan(const struct inc_switch *sw, const struct inc_comm_conf *conf, struct build *b,
		struct inc_err *err)
{
	uint32_t i;
	int ret;

	b->cfg.flags = INC_COMM_F_VALID |
		       (conf->byte_order == INC_ORDER_NETWORK ? INC_COMM_F_NET_ORDER : 0);
	b->cfg.children = conf->n_conns;
	b->cfg.full_mask = (1ull << conf->n_conns) - 1;
	b->cfg.log2_slots = __builtin_ctz(conf->slots);
	b->cfg.payload = conf->payload;
	b->cfg.communicator = conf->communicator;
	ret = find_places(sw, conf, b, err);
	if (ret)
		return ret;
	for (i = 0; i < conf->n_conns; i++) {
		ret = plan_conn(sw, &conf->conn[i], b->comm, &b->conn[i], err);
		if (ret)
			return ret;
	}
	qsort(b->conn, conf->n_conns, sizeof(b->conn[0]), by_port);
	for (i = 0; i < conf->n_conns; i++) {
		b->conn[i].child = i;
		plan_mac(conf, b->conn[i].rank, &b->peer[i]);
	}
	plan_ports(b);
	return check_keys(sw, b, err);
}

static int update(const struct inc_switch *sw, const char *map, const void *key, const void *value,
		  uint64_t flags, struct inc_err *err)
{
	if (bpf_map_update_elem(inc_switch_map_fd(sw, map), key, value, flags))
		return inc_err_set(err, errno, "map %s cannot be written: %s", map,
				   strerror(errno));
	return 0;
}

/* Nobody knows the rows yet: plain stores will do, the look-up entries come after them. */
static int clear_state(struct inc_switch *sw, const struct build *b, struct inc_err *err)
{
	uint32_t slots = 1u << b->cfg.log2_slots, i, conn;
	int cpus = libbpf_num_possible_cpus(), ret = 0;
	struct inc_copy *zero;

	memset(&sw->comm_state[b->comm], 0, sizeof(sw->comm_state[0]));
	memset(&sw->conn_state[b->cfg.conn_base], 0, b->cfg.children * sizeof(sw->conn_state[0]));
	memset(&sw->slots[b->cfg.result_base], 0, slots * sizeof(sw->slots[0]));
	for (i = 0; i < slots; i++)
		sw->results[b->cfg.result_base + i].r = NO_CHUNK;
	for (i = 0; i < slots * b->cfg.children; i++)
		sw->contribs[b->cfg.contrib_base + i].r = NO_CHUNK;
	zero = calloc(cpus > 0 ? cpus : 1, sizeof(*zero));
	if (!zero)
		return inc_err_set(err, ENOMEM, "no memory");
	for (i = 0; !ret && i < b->cfg.children; i++) {
		conn = b->cfg.conn_base + i;
		sw->conn_state[conn].mac = b->peer[i];
		ret = update(sw, INC_MAP_COPY, &conn, zero, BPF_ANY, err);
	}
	free(zero);
	return ret;
}

static int make_ports(struct inc_switch *sw, struct build *b, struct inc_err *err)
{
	int egress = inc_switch_prog_fd(sw, INC_PROG_EGRESS), fd, ret = 0;
	uint32_t i;

	fd = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "inc_comm_dev", sizeof(uint32_t),
			    sizeof(struct bpf_devmap_val), b->cfg.children, NULL);
	if (fd < 0)
		return inc_err_set(err, errno, "communicator %u: no devmap: %s",
				   b->cfg.communicator, strerror(errno));
	for (i = 0; i < b->cfg.children; i++) {
		struct bpf_devmap_val val = {.ifindex = b->conn[i].ifindex};

		val.bpf_prog.fd = egress;
		if (bpf_map_update_elem(fd, &i, &val, BPF_ANY)) {
			ret = inc_err_set(err, errno,
					  "communicator %u, rank %u: interface %u cannot receive "
					  "redirected frames: %s",
					  b->cfg.communicator, b->conn[i].rank, val.ifindex,
					  strerror(errno));
			goto out;
		}
	}
	ret = update(sw, INC_MAP_COMM_PORTS, &b->comm, &fd, BPF_ANY, err);
	b->ports = !ret;
out:
	close(fd);
	return ret;
}

static int make_config(struct inc_switch *sw, struct build *b, struct inc_err *err)
{
	uint32_t i, conn;
	int ret;

	ret = update(sw, INC_MAP_COMM_CFG, &b->comm, &b->cfg, BPF_ANY, err);
	for (i = 0; !ret && i < b->cfg.children; i++) {
		conn = b->cfg.conn_base + i;
		ret = update(sw, INC_MAP_CONN_CFG, &conn, &b->conn[i], BPF_ANY, err);
	}
	return ret;
}

/* The place of a queue pair number goes from old to new. One that holds something else is another
 * connection's and stays so: the look-up alone finds this one then. */
static int set_place(struct inc_switch *sw, uint32_t qpn, uint32_t old, uint32_t new,
		     struct inc_err *err)
{
	uint32_t place = inc_conn_place_of(qpn), now;

	if (bpf_map_lookup_elem(inc_switch_map_fd(sw, INC_MAP_CONN_PLACE), &place, &now))
		return inc_err_set(err, errno, "map %s cannot be read: %s", INC_MAP_CONN_PLACE,
				   strerror(errno));
	return now == old ? update(sw, INC_MAP_CONN_PLACE, &place, &new, BPF_ANY, err) : 0;
}

static int make_lookups(struct inc_switch *sw, struct build *b, struct inc_err *err)
{
	int ret;

	while (b->lookups < b->cfg.children) {
		struct inc_conn_key key = conn_key(&b->conn[b->lookups]);
		uint32_t conn = b->cfg.conn_base + b->lookups;

		ret = update(sw, INC_MAP_CONN_LOOKUP, &key, &conn, BPF_NOEXIST, err);
		if (ret)
			return ret;
		b->lookups++;
		ret = set_place(sw, key.dqpn, 0, conn + 1, err);
		if (ret)
			return ret;
	}
	return 0;
}

static void delete_lookups(struct inc_switch *sw, struct build *b)
{
	while (b->lookups) {
		struct inc_conn_key key = conn_key(&b->conn[--b->lookups]);

		set_place(sw, key.dqpn, b->cfg.conn_base + b->lookups + 1, 0, NULL);
		bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_CONN_LOOKUP), &key);
	}
}

/* Look-ups first, so that no packet finds the communicator; then what packets under way may use. */
static int undo(struct inc_switch *sw, struct build *b, struct inc_err *err)
{
	static const struct inc_comm_cfg no_comm;
	static const struct inc_conn_cfg no_conn;
	uint32_t i, conn;
	int ret = 0;

	delete_lookups(sw, b);
	/* writing to a map of maps waits until all programs that run now have ended */
	if (b->ports && bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_COMM_PORTS), &b->comm))
		ret = inc_err_set(err, errno, "map %s: communicator %u cannot be deleted: %s",
				  INC_MAP_COMM_PORTS, b->comm, strerror(errno));
	bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_COMM_CFG), &b->comm, &no_comm, BPF_ANY);
	for (i = 0; i < b->cfg.children; i++) {
		conn = b->cfg.conn_base + i;
		bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_CONN_CFG), &conn, &no_conn,
				    BPF_ANY);
	}
	return ret;
}

int inc_switch_add_comm(struct inc_switch *sw, const struct inc_comm_conf *conf,
			struct inc_err *err)
{
	struct build b = {};
	int ret;

	ret = check_conf(sw, conf, err);
	ret = ret ?: plan(sw, conf, &b, err);
	if (ret)
		return ret;
	ret = clear_state(sw, &b, err);
	ret = ret ?: make_ports(sw, &b, err);
	ret = ret ?: make_config(sw, &b, err);
	if (ret) {
		undo(sw, &b, NULL);
		return ret;
	}
	sw->comm[b.comm] = b.cfg;
	memcpy(&sw->conn[b.cfg.conn_base], b.conn, b.cfg.children * sizeof(b.conn[0]));
	return b.comm;
}

int inc_switch_start_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err)
{
	struct build b = {.comm = comm};
	int ret;

	if (!inc_switch_comm(sw, comm))
		return inc_err_set(err, ENOENT, "no communicator %u", comm);
	b.cfg = sw->comm[comm];
	memcpy(b.conn, &sw->conn[b.cfg.conn_base], b.cfg.children * sizeof(b.conn[0]));
	ret = make_lookups(sw, &b, err);
	if (ret)
		delete_lookups(sw, &b);
	return ret;
}

int inc_switch_remove_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err)
{
	struct build b = {.comm = comm, .ports = true};
	int ret;

	if (!inc_switch_comm(sw, comm))
		return inc_err_set(err, ENOENT, "no communicator %u", comm);
	b.cfg = sw->comm[comm];
	b.lookups = b.cfg.children;
	memcpy(b.conn, &sw->conn[b.cfg.conn_base], b.cfg.children * sizeof(b.conn[0]));
	ret = undo(sw, &b, err);
	if (ret)
		return ret;
	memset(&sw->conn[b.cfg.conn_base], 0, b.cfg.children * sizeof(b.conn[0]));
	memset(&sw->comm[comm], 0, sizeof(sw->comm[comm]));
	return 0;
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

int inc_switch_find_comm(const struct inc_switch *sw, uint32_t communicator)
{
	uint32_t cm;

	for (cm = 0; cm < sw->opts.max_comms; cm++)
		if (sw->comm[cm].flags & INC_COMM_F_VALID &&
		    sw->comm[cm].communicator == communicator)
			return cm;
	return -ENOENT;
}
