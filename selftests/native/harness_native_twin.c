// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "loader/inc_loader_priv.h"
#include "selftests/unit/unit.h"
#include "harness_native_twin.h"

static int differ(struct native_twin *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int differ(struct native_twin *t, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	n = snprintf(t->u->why, sizeof(t->u->why),
		     "packet %llu: ", (unsigned long long)t->u->packets);
	va_start(ap, fmt);
	vsnprintf(t->u->why + n, sizeof(t->u->why) - n, fmt, ap);
	va_end(ap);
	return -1;
}

/* Reads an array map of the switch into an array. */
static int take_array(struct native_twin *t, const char *name, void *to, size_t size, uint32_t n)
{
	int fd = inc_switch_map_fd(t->u->sw, name);
	uint32_t *keys = calloc(n, sizeof(*keys)), count = n, batch, i;
	uint8_t *values = calloc(n, size);
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	int ret = keys && values ? 0 : -ENOMEM;

	if (!ret && bpf_map_lookup_batch(fd, NULL, &batch, keys, values, &count, &opts) &&
	    errno != ENOENT)
		ret = -errno;
	for (i = 0; !ret && i < count; i++)
		memcpy((uint8_t *)to + keys[i] * size, values + i * size, size);
	free(keys);
	free(values);
	return ret ? differ(t, "map %s: %s", name, strerror(-ret)) : 0;
}

/* Calls fn for all entries of a hash map or of a device map. */
static int each_entry(struct native_twin *t, int fd,
		      void (*fn)(struct native_twin *t, const void *key, const void *value))
{
	uint8_t key[2][sizeof(struct inc_conn_key)], value[64];
	void *before = NULL;
	int i = 0;

	while (!bpf_map_get_next_key(fd, before, key[i])) {
		if (!bpf_map_lookup_elem(fd, key[i], value))
			fn(t, key[i], value);
		before = key[i];
		i ^= 1;
	}
	return errno == ENOENT ? 0 : differ(t, "a map cannot be read: %s", strerror(errno));
}

static void add_lookup(struct native_twin *t, const void *key, const void *value)
{
	struct native_lookup *l = &t->maps.lookup[t->maps.lookups++];

	memcpy(&l->key, key, sizeof(l->key));
	memcpy(&l->conn, value, sizeof(l->conn));
}

static void add_addr(struct native_twin *t, const void *key, const void *value)
{
	struct native_addr *a = &t->maps.own_addr[t->maps.own_addrs++];

	memcpy(&a->addr, key, sizeof(a->addr));
	memcpy(&a->count, value, sizeof(a->count));
}

static int take_hashes(struct native_twin *t)
{
	t->maps.lookups = t->maps.own_addrs = 0;
	return each_entry(t, inc_switch_map_fd(t->u->sw, INC_MAP_CONN_LOOKUP), add_lookup) ||
			       each_entry(t, inc_switch_map_fd(t->u->sw, INC_MAP_OWN_ADDR),
					  add_addr)
		       ? -1
		       : 0;
}

/* Reads the device map in a row of inc_comm_ports. */
static int take_ports(struct native_twin *t, uint32_t row, struct native_ports *out)
{
	int outer = inc_switch_map_fd(t->u->sw, INC_MAP_COMM_PORTS), fd, ret = 0;
	struct bpf_devmap_val value;
	uint32_t id;

	out->n = 0;
	if (bpf_map_lookup_elem(outer, &row, &id))
		return errno == ENOENT ? 0 : differ(t, "inc_comm_ports: %s", strerror(errno));
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return differ(t, "a map of ports: %s", strerror(errno));
	while (out->n <= INC_MAX_CHILDREN && !bpf_map_lookup_elem(fd, &out->n, &value))
		out->ifindex[out->n++] = value.ifindex;
	close(fd);
	return ret;
}

static int take_comm(struct native_twin *t, uint32_t comm)
{
	const int parents = inc_switch_map_fd(t->u->sw, INC_MAP_PARENT_PORT);
	struct bpf_devmap_val parent;
	uint32_t way;

	t->maps.parent[comm] = bpf_map_lookup_elem(parents, &comm, &parent) ? 0 : parent.ifindex;
	for (way = 0; way < INC_PORTS_ROWS; way++)
		if (take_ports(t, comm * INC_PORTS_ROWS + way,
			       &t->maps.ports[comm * INC_PORTS_ROWS + way]))
			return -1;
	return 0;
}

/* Reads the data that the egress program has stored for this CPU. The process stays on that CPU. */
static int take_copies(struct native_twin *t, const struct inc_comm_cfg *cfg)
{
	const int fd = inc_switch_map_fd(t->u->sw, INC_MAP_COPY);
	struct inc_copy *each = calloc(t->u->cpus, sizeof(*each));
	uint32_t conn = cfg->conn_base;
	int ret = each ? 0 : -ENOMEM;

	for (; !ret && conn < cfg->conn_base + inc_comm_conns(cfg); conn++) {
		ret = bpf_map_lookup_elem(fd, &conn, each);
		t->maps.copy[conn] = each[sched_getcpu()];
	}
	free(each);
	return ret ? differ(t, "map %s: %s", INC_MAP_COPY, strerror(errno)) : 0;
}

static void take_state(struct native_twin *t, const struct inc_comm_cfg *cfg, uint32_t comm)
{
	const struct inc_switch *sw = t->u->sw;
	const size_t conns = inc_comm_conns(cfg), slots = 1u << cfg->log2_slots;
	struct native_maps *m = &t->maps;

	m->comm_state[comm] = sw->comm_state[comm];
	memcpy(m->conn_state + cfg->conn_base, sw->conn_state + cfg->conn_base,
	       conns * sizeof(*m->conn_state));
	memcpy(m->slots + cfg->sum_base, sw->slots + cfg->sum_base, slots * sizeof(*m->slots));
	memcpy(m->sums + cfg->sum_base, sw->sums + cfg->sum_base, slots * sizeof(*m->sums));
	memcpy(m->kept + cfg->kept_base, sw->kept + cfg->kept_base,
	       conns * slots * sizeof(*m->kept));
}

static int follow_state(struct native_twin *t, const struct ref_comm *cm)
{
	take_state(t, &cm->cfg, cm->index);
	return take_comm(t, cm->index) || take_copies(t, &cm->cfg) ? -1 : 0;
}

int native_twin_follow(struct native_twin *t, const struct ref_comm *cm)
{
	struct native_maps *m = &t->maps;
	const struct inc_switch *sw = t->u->sw;
	struct native_constants constants = {
		.places = m->places,
		.check_icrc = true,
		.generic = t->u->ref.generic,
		.order_stores = INC_ORDER_STORES || t->u->order_stores,
	};

	native_set(&constants);
	inc_copies_shared = *inc_switch_copies_shared(t->u->sw);
	memcpy(m->conn_cfg, sw->conn, m->max_connections * sizeof(*m->conn_cfg));
	memcpy(m->comm_cfg, sw->comm, m->max_comms * sizeof(*m->comm_cfg));
	memcpy(m->root, sw->root, m->root_rows * sizeof(*m->root));
	if (take_hashes(t) ||
	    take_array(t, INC_MAP_CONN_PLACE, m->place, sizeof(*m->place), m->places))
		return -1;
	return cm ? follow_state(t, cm) : 0;
}

static int make_maps(struct native_maps *m, const struct inc_switch *sw)
{
	m->max_comms = sw->opts.max_comms;
	m->max_connections = sw->opts.max_connections;
	m->max_rows = sw->opts.max_rows;
	m->sum_rows = sw->sum_rows;
	m->places = inc_conn_places(m->max_connections);
	m->root_rows = inc_switch_root_rows(m->max_comms);
#define MAKE(field, n) ((field) = calloc(n, sizeof(*(field))))
	return MAKE(m->place, m->places) && MAKE(m->conn_cfg, m->max_connections) &&
			       MAKE(m->conn_state, m->max_connections) &&
			       MAKE(m->copy, m->max_connections) &&
			       MAKE(m->comm_cfg, m->max_comms) &&
			       MAKE(m->comm_state, m->max_comms) && MAKE(m->parent, m->max_comms) &&
			       MAKE(m->ports, m->max_comms * INC_PORTS_ROWS) &&
			       MAKE(m->root, m->root_rows) && MAKE(m->slots, m->sum_rows) &&
			       MAKE(m->sums, m->sum_rows) && MAKE(m->kept, m->max_rows) &&
			       MAKE(m->lookup, m->max_connections) &&
			       MAKE(m->own_addr, m->max_connections)
		       ? 0
		       : -ENOMEM;
#undef MAKE
}

int native_twin_open(struct native_twin *t, struct unit *u)
{
	uint32_t i;
	int ret;

	memset(t, 0, sizeof(*t));
	t->u = u;
	ret = make_maps(&t->maps, u->sw);
	if (ret)
		return differ(t, "%s", strerror(-ret));
	/* no program is attached to a port, so inc_port is empty, and answers go back by XDP_TX */
	for (i = 0; i < UNIT_PORTS; i++)
		t->maps.port[i].ifindex = 0;
	if (compare_read_counters(u, t->maps.counter))
		return -1;
	return native_twin_follow(t, NULL);
}

void native_twin_close(struct native_twin *t)
{
	struct native_maps *m = &t->maps;

	free(m->place);
	free(m->conn_cfg);
	free(m->conn_state);
	free(m->copy);
	free(m->comm_cfg);
	free(m->comm_state);
	free(m->parent);
	free(m->ports);
	free(m->root);
	free(m->slots);
	free(m->sums);
	free(m->kept);
	free(m->lookup);
	free(m->own_addr);
	t->u->watch = NULL;
}

static int same_bytes(struct native_twin *t, const char *what, uint32_t number, const void *native,
		      const void *kernel, size_t size)
{
	const uint8_t *n = native, *k = kernel;
	size_t i;

	if (!memcmp(n, k, size))
		return 0;
	for (i = 0; n[i] == k[i]; i++)
		;
	return differ(t, "%s %u: byte %zu is %02x natively, %02x in the kernel", what, number, i,
		      n[i], k[i]);
}

/* Compares the states of connections without the times of CNPs. */
static int compare_conns(struct native_twin *t, const struct inc_comm_cfg *cfg)
{
	const struct inc_switch *sw = t->u->sw;
	uint32_t i;

	for (i = cfg->conn_base; i < cfg->conn_base + inc_comm_conns(cfg); i++) {
		struct inc_conn_state native = t->maps.conn_state[i];

		native.cnp_at = sw->conn_state[i].cnp_at;
		if (same_bytes(t, "connection", i, &native, &sw->conn_state[i], sizeof(native)))
			return -1;
	}
	return 0;
}

static int compare_state(struct native_twin *t, const struct inc_comm_cfg *cfg, uint32_t comm)
{
	const struct inc_switch *sw = t->u->sw;
	const struct native_maps *m = &t->maps;

	return same_bytes(t, "state of communicator", comm, &m->comm_state[comm],
			  &sw->comm_state[comm], sizeof(*m->comm_state)) ||
			       compare_conns(t, cfg) ||
			       same_bytes(t, "slots of communicator", comm,
					  m->slots + cfg->sum_base, sw->slots + cfg->sum_base,
					  sizeof(*m->slots) << cfg->log2_slots)
		       ? -1
		       : 0;
}

int native_twin_compare(struct native_twin *t, const struct ref_comm *cm)
{
	const struct inc_switch *sw = t->u->sw;
	const struct inc_comm_cfg *cfg = &cm->cfg;
	const uint32_t slots = 1u << cfg->log2_slots;

	return compare_state(t, cfg, cm->index) ||
			       same_bytes(t, "sums of communicator", cm->index,
					  t->maps.sums + cfg->sum_base, sw->sums + cfg->sum_base,
					  slots * sizeof(*sw->sums)) ||
			       same_bytes(t, "contributions of communicator", cm->index,
					  t->maps.kept + cfg->kept_base, sw->kept + cfg->kept_base,
					  inc_comm_conns(cfg) * slots * sizeof(*sw->kept))
		       ? -1
		       : 0;
}

int native_twin_compare_counters(struct native_twin *t)
{
	uint64_t kernel[INC_CTR_MAX];
	uint32_t id;

	if (compare_read_counters(t->u, kernel))
		return -1;
	for (id = 0; id < INC_CTR_MAX; id++)
		if (t->maps.counter[id] != kernel[id])
			return differ(t, "counter %s is %llu natively, %llu in the kernel",
				      inc_counter_info[id].name,
				      (unsigned long long)t->maps.counter[id],
				      (unsigned long long)kernel[id]);
	return 0;
}

static int compare_run(struct native_twin *t, const char *what, const struct native_out *native,
		       uint32_t verdict, const struct frame *kernel)
{
	if ((uint32_t)native->verdict != verdict)
		return differ(t, "%s: %s natively, %s in the kernel", what,
			      unit_verdict_name(native->verdict), unit_verdict_name(verdict));
	if (native->len != kernel->len)
		return differ(t, "%s: %u bytes natively, %u in the kernel", what, native->len,
			      kernel->len);
	return same_bytes(t, what, 0, native->frame, kernel->data, kernel->len);
}

static int same_events(struct native_twin *t)
{
	const struct unit *u = t->u;
	uint32_t i;

	if ((uint32_t)u->events != t->maps.events)
		return differ(t, "%u events natively, %d in the kernel", t->maps.events, u->events);
	for (i = 0; i < t->maps.events; i++) {
		struct inc_event kernel = u->event[i];

		kernel.time_ns = t->maps.event[i].time_ns;
		if (same_bytes(t, "event", i, &t->maps.event[i], &kernel, sizeof(kernel)))
			return -1;
	}
	return 0;
}

/* Compares one copy that leaves by a port. */
static int run_copy(struct native_twin *t, uint32_t ifindex)
{
	struct native_out native;
	struct frame kernel;
	uint32_t verdict;

	native_egress(&t->maps, ifindex, t->u->out_frame.data, t->u->out_frame.len, &native);
	if (egress_run(t->u, ifindex, &kernel, &verdict))
		return differ(t, "BPF_PROG_TEST_RUN of a copy: %s", strerror(errno));
	t->copies++;
	return compare_run(t, "copy", &native, verdict, &kernel);
}

static int run_copies(struct native_twin *t, const struct native_out *out)
{
	uint32_t i;

	if (out->to == NATIVE_PARENT)
		return run_copy(t, out->ifindex);
	for (i = 0; out->to == NATIVE_PORTS_OF_COMM && i < out->ports->n; i++)
		if (run_copy(t, out->ports->ifindex[i]))
			return -1;
	return 0;
}

int native_twin_run(struct native_twin *t, const struct frame *f, uint32_t ifindex,
		    const struct ref_comm *cm)
{
	struct unit *u = t->u;
	struct xdp_md md = {.data_end = f->len, .ingress_ifindex = ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f->data, .data_size_in = f->len,
		    .data_out = u->out_frame.data, .data_size_out = sizeof(u->out_frame.data),
		    .ctx_in = &md, .ctx_size_in = sizeof(md), .repeat = 1);
	struct native_out native;

	u->packets++;
	if (bpf_prog_test_run_opts(u->prog_fd, &opts))
		return differ(t, "BPF_PROG_TEST_RUN: %s", strerror(errno));
	u->out_frame.len = opts.data_size_out;
	if (unit_take_events(u))
		return -1;
	native_switch(&t->maps, ifindex, f->data, f->len, &native);
	if (compare_run(t, "frame", &native, opts.retval, &u->out_frame) || same_events(t) ||
	    (cm && compare_state(t, &cm->cfg, cm->index)))
		return -1;
	return native.verdict == XDP_REDIRECT ? run_copies(t, &native) : 0;
}

/* --- running beside the cases of unit/ --- */

#define WATCHED 150 /* number of first packets of a communicator that are compared */
#define SELDOM  128 /* one in so many later packets is compared */

static void add_port(struct native_twin *t, const void *key, const void *value)
{
	uint32_t i;

	for (i = 0; t->maps.port[i].ifindex; i++)
		;
	memcpy(&t->maps.port[i].ifindex, key, sizeof(uint32_t));
	memcpy(&t->maps.port[i].value, value, sizeof(t->maps.port[i].value));
}

static bool skips(struct native_twin *t)
{
	uint32_t newest = 0, i;

	for (i = 0; i < REF_MAX_COMMS; i++)
		if (t->u->ref.comm[i] && t->u->ref.comm[i]->cfg.communicator > newest)
			newest = t->u->ref.comm[i]->cfg.communicator;
	if (newest != t->communicator)
		t->watched = 0;
	t->communicator = newest;
	return t->watched++ > WATCHED && t->watched % SELDOM;
}

static int take_all(void *arg)
{
	struct native_twin *t = arg;
	struct native_maps *m = &t->maps;
	uint32_t i;

	t->skips = skips(t);
	if (t->skips)
		return 0;
	if (native_twin_follow(t, NULL) || compare_read_counters(t->u, m->counter) ||
	    take_array(t, INC_MAP_CONN_CFG, m->conn_cfg, sizeof(*m->conn_cfg),
		       m->max_connections) ||
	    take_array(t, INC_MAP_COMM_CFG, m->comm_cfg, sizeof(*m->comm_cfg), m->max_comms) ||
	    take_array(t, INC_MAP_ROOT_CHILD, m->root, sizeof(*m->root), m->root_rows))
		return -1;
	memset(m->port, 0, sizeof(m->port));
	if (each_entry(t, inc_switch_map_fd(t->u->sw, INC_MAP_PORT), add_port))
		return -1;
	for (i = 0; i < REF_MAX_COMMS; i++)
		if (t->u->ref.comm[i] && follow_state(t, t->u->ref.comm[i]))
			return -1;
	return 0;
}

/* Finds out whether the kernel's ring had room for this packet's event. Only the kernel's counters
 * show that, after the run. */
static int find_ring_full(struct native_twin *t)
{
	uint64_t kernel[INC_CTR_MAX];

	if (compare_read_counters(t->u, kernel))
		return -1;
	t->maps.ring_full = kernel[INC_CTR_X_EVENT_LOST] > t->maps.counter[INC_CTR_X_EVENT_LOST];
	return 0;
}

static int run_beside(void *arg, const struct frame *in, const struct xdp_md *md, uint32_t ifindex,
		      uint32_t verdict, const struct frame *out)
{
	struct native_twin *t = arg;
	struct native_out native;
	uint32_t i;

	if (t->skips)
		return 0;
	if (!md) {
		t->copies++;
		native_egress(&t->maps, ifindex, in->data, in->len, &native);
		return compare_run(t, "copy", &native, verdict, out);
	}
	/* the kernel's verdict shows whether this row of inc_xsk has a socket, because the map
	 * cannot be read */
	t->maps.xsk = verdict == XDP_REDIRECT;
	if (find_ring_full(t))
		return -1;
	t->maps.rx_queue = md->rx_queue_index;
	native_switch(&t->maps, ifindex, in->data, in->len, &native);
	if (compare_run(t, "frame", &native, verdict, out) ||
	    (!t->u->hold_events && same_events(t)) || native_twin_compare_counters(t))
		return -1;
	for (i = 0; i < REF_MAX_COMMS; i++)
		if (t->u->ref.comm[i] && native_twin_compare(t, t->u->ref.comm[i]))
			return -1;
	return 0;
}

void native_twin_watch(struct native_twin *t)
{
	t->watch = (struct unit_watch){.before = take_all, .after = run_beside, .arg = t};
	t->u->watch = &t->watch;
}
