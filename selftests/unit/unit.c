// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <sys/wait.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "unit.h"

static int command(const char *cmd)
{
	int status = system(cmd);

	return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* Switches IPv6 off, because packets of neighbour discovery would count as received packets. If the
 * kernel has no IPv6, there is nothing to do. */
static void no_ipv6(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w");

	if (!f)
		return;
	fputs("1", f);
	fclose(f);
}

static int make_namespace(struct unit *u)
{
	char cmd[256], index[32] = "";
	cpu_set_t cpus;
	uint32_t i;
	int cpu;

	/* the namespace has no name, so that it and its veths end with this process */
	if (unshare(CLONE_NEWNET)) {
		snprintf(u->why, sizeof(u->why), "unshare(CLONE_NEWNET): %s", strerror(errno));
		return -errno;
	}
	no_ipv6();
	/* the process stays on one CPU, because the program counts the copies of a result per
	 * CPU */
	cpu = sched_getcpu();
	u->cpu = u->steer_to = cpu < 0 ? 0 : cpu;
	CPU_ZERO(&cpus);
	CPU_SET(u->cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		snprintf(u->why, sizeof(u->why), "sched_setaffinity: %s", strerror(errno));
		return -errno;
	}
	for (i = 0; i < UNIT_PORTS; i++) {
		/* the last port shares its entry in inc_comm_cfg.port_child with another port */
		if (i == UNIT_PORTS - 1)
			snprintf(index, sizeof(index), "index %u", u->port[1] + INC_PORT_PLACES);
		snprintf(cmd, sizeof(cmd),
			 "ip link add p%u %s mtu 2200 type veth peer name h%u mtu 2200 && "
			 "ip link set p%u up && ip link set h%u up",
			 i, index, i, i, i);
		if (command(cmd)) {
			snprintf(u->why, sizeof(u->why), "no veth pair: %s", cmd);
			return -EIO;
		}
		snprintf(cmd, sizeof(cmd), "p%u", i);
		u->port[i] = if_nametoindex(cmd);
		if (!u->port[i]) {
			snprintf(u->why, sizeof(u->why), "%s: %s", cmd, strerror(errno));
			return -errno;
		}
	}
	return 0;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct unit *u = ctx;

	if (size != sizeof(struct inc_event))
		return -EPROTO;
	if (u->events < (int)(sizeof(u->event) / sizeof(u->event[0])))
		u->event[u->events] = *(struct inc_event *)data;
	u->events++;
	return 0;
}

static int load(struct unit *u, uint32_t rows, bool generic)
{
	struct inc_switch_opts opts = {
		.sz = sizeof(opts),
		.max_comms = REF_MAX_COMMS,
		.max_connections = 1024,
		.max_rows = rows,
		.generic = generic,
		.order_stores = u->order_stores,
		.steer = u->steers,
	};
	struct inc_err err = {""};
	int ret;

	ret = inc_switch_open(&opts, &u->sw, &err);
	if (ret) {
		snprintf(u->why, sizeof(u->why), "%s", err.msg);
		return ret;
	}
	u->prog_fd = inc_switch_prog_fd(u->sw, "inc_switch");
	u->counter_fd = inc_switch_map_fd(u->sw, INC_MAP_COUNTER);
	u->cpus = libbpf_num_possible_cpus();
	if (u->prog_fd < 0 || u->counter_fd < 0 || u->cpus < 1) {
		snprintf(u->why, sizeof(u->why), "inc_switch, inc_counter or CPUs: not there");
		return -ENOENT;
	}
	u->counter_buf = calloc(INC_CTR_MAX * (size_t)u->cpus, sizeof(uint64_t));
	u->ring = ring_buffer__new(inc_switch_map_fd(u->sw, INC_MAP_EVENT), on_event, u, NULL);
	if (!u->counter_buf || !u->ring) {
		snprintf(u->why, sizeof(u->why), "event ring: %s", strerror(errno));
		return -ENOMEM;
	}
	return egress_open(u);
}

int unit_start(struct unit *u, const char *name, uint32_t rows, bool generic)
{
	const struct unit asked = {.order_stores = u->order_stores, .steers = u->steers};

	*u = asked;
	if (geteuid() != 0) {
		report_skip(name, "needs root");
		return -1;
	}
	u->ref.generic = generic;
	if (make_namespace(u) || load(u, rows, generic)) {
		report_fail(name, "%s", u->why);
		unit_stop(u);
		return -1;
	}
	return 0;
}

void unit_stop(struct unit *u)
{
	uint32_t i;

	egress_close(u);
	ring_buffer__free(u->ring);
	free(u->counter_buf);
	inc_switch_close(u->sw);
	for (i = 0; i < REF_MAX_COMMS; i++)
		ref_comm_remove(&u->ref, i);
	u->sw = NULL;
	u->ring = NULL;
	u->counter_buf = NULL;
}

/* Enters the ranks of each connection as the caller gave them. The parent's connection gets all
 * ranks. */
static void give_ranks(const struct inc_comm_conf *spec, struct ref_conn *conn)
{
	struct ref_conn *parent = &conn[spec->n_conns - 1];
	uint32_t i, k;

	for (i = 0; i < spec->n_conns; i++) {
		const struct inc_conn_conf *c = &spec->conn[i];

		for (k = 0; k < spec->n_conns && !c->up; k++) {
			if (conn[k].cfg.own.qpn != c->own.qpn ||
			    conn[k].cfg.own.ip != c->own.ip.word[3] ||
			    conn[k].cfg.peer.ip != c->peer.ip.word[3])
				continue;
			conn[k].ranks = c->ranks;
			if (!c->has_ranks)
				inc_ranks_add(&conn[k].ranks, c->rank);
			if (parent->cfg.flags & INC_CONN_F_UP)
				inc_ranks_join(&parent->ranks, &conn[k].ranks);
		}
	}
}

struct ref_comm *unit_add_comm(struct unit *u, const struct inc_comm_conf *spec)
{
	struct ref_conn conn[INC_MAX_CONNECTIONS] = {};
	const struct inc_comm_cfg *cfg;
	struct inc_err err = {""};
	struct ref_comm *cm;
	int index;
	uint32_t i, n;

	index = inc_switch_add_comm(u->sw, spec, &err);
	if (index < 0) {
		snprintf(u->why, sizeof(u->why), "add communicator %u: %s", spec->communicator,
			 err.msg);
		return NULL;
	}
	if (u->steers)
		inc_switch_routes(u->sw)[index].word = (u->steer_to + 1ull) << INC_ROUTE_CPU_SHIFT;
	cfg = inc_switch_comm(u->sw, index);
	if (index >= REF_MAX_COMMS || !cfg || inc_comm_conns(cfg) != spec->n_conns) {
		snprintf(u->why, sizeof(u->why), "communicator %d is not what was added", index);
		return NULL;
	}
	/* the loader has sorted the children by port, and the caller's values must follow that
	 * order */
	n = spec->n_conns;
	for (i = 0; i < n; i++) {
		const struct inc_conn_cfg *c = inc_switch_conn(u->sw, cfg->conn_base + i);

		if (!c || c->child != i || c->comm != (uint32_t)index) {
			snprintf(u->why, sizeof(u->why), "communicator %d: connection of child %u",
				 index, i);
			return NULL;
		}
		conn[i].cfg = *c;
		conn[i].state.mac = inc_switch_conn_state(u->sw)[cfg->conn_base + i].mac;
		conn[i].state.traffic_class = c->traffic_class;
		conn[i].state.tag = inc_switch_conn_state(u->sw)[cfg->conn_base + i].tag;
	}
	give_ranks(spec, conn);
	cm = ref_comm_add(&u->ref, index, cfg, conn);
	if (!cm) {
		snprintf(u->why, sizeof(u->why), "no memory for the reference");
		return NULL;
	}
	if (inc_switch_start_comm(u->sw, index, &err)) {
		snprintf(u->why, sizeof(u->why), "start communicator %u: %s", spec->communicator,
			 err.msg);
		return NULL;
	}
	return cm;
}

int unit_remove_comm(struct unit *u, struct ref_comm *cm)
{
	struct inc_err err = {""};
	int ret = inc_switch_remove_comm(u->sw, cm->index, &err);

	if (ret)
		snprintf(u->why, sizeof(u->why), "remove communicator %u: %s", cm->index, err.msg);
	ref_comm_remove(&u->ref, cm->index);
	return ret;
}

void unit_reset(struct unit *u, struct ref_comm *cm, uint64_t r)
{
	struct inc_conn_state *conn = inc_switch_conn_state(u->sw) + cm->cfg.conn_base;
	struct inc_comm_state *state = inc_switch_comm_state(u->sw) + cm->index;
	struct inc_slot *slot = inc_switch_slots(u->sw) + cm->cfg.sum_base;
	uint32_t i;

	for (i = 0; i < cm->cfg.children + cm->up; i++) {
		struct inc_conn_state *st = &cm->conn[i].state;

		*st = (struct inc_conn_state){.mac = st->mac,
					      .mac_hint = st->mac_hint,
					      .hint_psn = st->hint_psn,
					      .tag = st->tag,
					      .rx_tag = st->rx_tag,
					      .traffic_class = st->traffic_class,
					      .rx_tos = st->rx_tos};
		st->rx_next = st->tx_acked = st->ack_asked = st->ack_sent = r;
		conn[i] = *st;
	}
	/* the next chunk of slot s is the first one from r on whose number is s modulo the number
	 * of slots */
	for (i = 0; i < cm->slots; i++) {
		uint32_t generation = r / cm->slots + (i < r % cm->slots);

		cm->slot[i].word = slot[i].word = (uint64_t)generation << 32;
	}
	memset(&cm->state, 0, sizeof(cm->state));
	cm->state.tx_next = r;
	cm->state.up_next = cm->up ? r : 0;
	*state = cm->state;
}

void unit_prime(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t open, uint32_t desc)
{
	struct inc_conn_state *st = &cm->conn[child].state;

	st->open_message = open;
	st->desc = desc;
	st->desc_valid = 1;
	inc_switch_conn_state(u->sw)[cm->cfg.conn_base + child] = *st;
}

static int check(struct unit *u)
{
	const struct ref_out *want = &u->want;

	if (compare_counters(u) || compare_events(u))
		return -1;
	if (!want->comm)
		return 0;
	if (compare_comm(u, want->comm))
		return -1;
	if (want->stored && compare_contrib(u, want->comm, want->child, want->r))
		return -1;
	if (want->reduced && compare_result(u, want->comm, want->r))
		return -1;
	if (want->passed && compare_passed(u, want->comm, want->r))
		return -1;
	if ((want->stored || want->passed) &&
	    compare_slot(u, want->comm, want->r % want->comm->slots))
		return -1;
	return 0;
}

uint32_t unit_conn_places(const struct unit *u)
{
	return inc_conn_places(inc_switch_get_opts(u->sw)->max_connections);
}

int unit_take_events(struct unit *u)
{
	int ret;

	u->events = 0;
	ret = ring_buffer__consume(u->ring);
	if (ret >= 0)
		return 0;
	snprintf(u->why, sizeof(u->why), "event ring: %s", strerror(-ret));
	return -1;
}

int unit_run_program(struct unit *u, const struct frame *f, const struct xdp_md *md,
		     uint32_t *verdict)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f->data, .data_size_in = f->len,
		    .data_out = u->out_frame.data, .data_size_out = sizeof(u->out_frame.data),
		    .ctx_in = md, .ctx_size_in = sizeof(*md), .repeat = 1);

	u->why[0] = 0;
	u->packets++;
	if (u->watch && u->watch->before(u->watch->arg))
		return -1;
	if (bpf_prog_test_run_opts(u->prog_fd, &opts)) {
		snprintf(u->why, sizeof(u->why), "BPF_PROG_TEST_RUN of %u bytes: %s", f->len,
			 strerror(errno));
		return -1;
	}
	u->out_frame.len = opts.data_size_out;
	*verdict = opts.retval;
	if (!u->hold_events && unit_take_events(u))
		return -1;
	return u->watch ? u->watch->after(u->watch->arg, f, md, md->ingress_ifindex, *verdict,
					  &u->out_frame)
			: 0;
}

int unit_run(struct unit *u, const struct frame *f, uint32_t ifindex)
{
	const struct xdp_md md = {.data_end = f->len, .ingress_ifindex = ifindex};
	uint32_t verdict;

	if (unit_run_program(u, f, &md, &verdict))
		return -1;
	ref_input(&u->ref, f, ifindex, &u->want);
	if (compare_verdict(u, f, verdict) || check(u)) {
		frame_dump("in", f);
		return -1;
	}
	if (u->want.counter == INC_CTR_UP_PARTIAL)
		return egress_partial(u);
	return inc_counter_is(u->want.counter, 'M') ? egress_copies(u) : 0;
}

void unit_forgive(struct unit *u)
{
	compare_read_counters(u, u->ref.counter);
	ring_buffer__consume(u->ring);
}

int unit_compare_all(struct unit *u)
{
	uint32_t i, k;

	if (compare_counters(u))
		return -1;
	for (i = 0; i < REF_MAX_COMMS; i++) {
		const struct ref_comm *cm = u->ref.comm[i];

		if (!cm)
			continue;
		if (compare_comm(u, cm))
			return -1;
		for (k = 0; k < cm->slots; k++)
			if (compare_slot(u, cm, k))
				return -1;
	}
	return 0;
}

static void conn_spec(const struct unit *u, struct inc_comm_conf *spec, uint32_t i, uint32_t port)
{
	struct inc_conn_conf *c = &spec->conn[i];

	c->rank = i;
	if_indextoname(u->port[port], c->port);
	c->peer.ip = inc_addr_of_ipv4(htonl(0x0a4d0000 | port << 8 | (i + 1)));
	c->own.ip = inc_addr_of_ipv4(htonl(0x0a4d0000 | port << 8 | 254));
	c->peer.qpn = 0x200 + spec->communicator * 64 + i;
	c->own.qpn = 0x100000 + spec->communicator * 64 + i;
	c->peer.udp_port = 40000 + i;
	c->own.udp_port = INC_ROCE_UDP_PORT;
	c->pkey = INC_PKEY_DEFAULT;
	memcpy(c->own_mac, "\x02\x5c\0\0\0", 5);
	c->own_mac[5] = u->port[port];
	c->peer.psn = 1000 * i;
	c->own.psn = 77 + i;
}

void unit_spec(const struct unit *u, struct inc_comm_conf *spec, uint32_t communicator,
	       uint32_t children, uint32_t ports, uint32_t payload, uint32_t slots)
{
	uint32_t i;

	memset(spec, 0, sizeof(*spec));
	spec->communicator = communicator;
	spec->payload = payload;
	spec->slots = slots;
	spec->n_conns = children;
	for (i = 0; i < children; i++)
		conn_spec(u, spec, i, i * ports / children);
}

void unit_spec_parent(const struct unit *u, struct inc_comm_conf *spec, uint32_t port)
{
	conn_spec(u, spec, spec->n_conns, port);
	spec->conn[spec->n_conns].up = true;
	spec->conn[spec->n_conns++].rank = spec->conn[0].rank;
}
