// SPDX-License-Identifier: BSD-2-Clause
/* Functions of libbpf that the loader and the slow path call, and replacements of the loader's own
 * files that use the kernel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"
#include "xdp_priv.h"

/* Descriptors of maps: each switch has a range of numbers for its maps, and the numbers of device
 * maps follow after those of all switches. */
#define SWITCHES     16
#define FD_FIRST     (1 << 24)
#define FD_OF_SWITCH 64
#define FD_DEVMAPS   (FD_FIRST + SWITCHES * FD_OF_SWITCH)

static struct xdp *switches[SWITCHES];
/* List of all device maps. They are freed with the last switch: in the kernel, a switch's map of
 * maps holds a reference to them, whichever program has made them. */
static struct xdp_devmap *devmaps;
static int next_devmap = FD_DEVMAPS;
static const char *const names[] = {INC_MAP_CONN_LOOKUP, INC_MAP_CONN_PLACE, INC_MAP_CONN_CFG,
				    INC_MAP_OWN_ADDR,    INC_MAP_COMM_CFG,   INC_MAP_COMM_PORTS,
				    INC_MAP_PARENT_PORT, INC_MAP_ROOT_CHILD, INC_MAP_COPY,
				    INC_MAP_XSK,         INC_MAP_EVENT,      INC_MAP_PORT,
				    INC_MAP_ANSWER_PORT, INC_MAP_CPU};
enum {
	CONN_LOOKUP,
	CONN_PLACE,
	CONN_CFG,
	OWN_ADDR,
	COMM_CFG,
	COMM_PORTS,
	PARENT_PORT,
	ROOT_CHILD,
	COPY,
	XSK,
	EVENT,
	PORT,
	ANSWER_PORT,
	CPU, /* empty, because the simulated machine has one CPU */
	MAPS
};

_Static_assert(sizeof(names) / sizeof(names[0]) == MAPS, "a name for each map");

/* Allocates cleared memory for n elements, or ends the run. */
static void *array(size_t n, size_t size)
{
	void *at = calloc(n, size);

	sim_require(at, "no memory for a map");
	return at;
}

struct xdp *xdp_new(uint32_t max_comms, uint32_t max_connections, uint32_t max_rows,
		    unsigned int ports, const struct xdp_out *out)
{
	struct xdp *x = array(1, sizeof(*x));
	struct inc_switch *sw = &x->sw;
	unsigned int i;

	for (i = 0; i < SWITCHES && switches[i]; i++)
		;
	sim_require(i < SWITCHES && ports <= XDP_PORTS, "too many switches or ports");
	switches[i] = x;
	x->out = *out;
	x->ports = ports;
	x->tight = sim_chance(300);
	sw->opts = (struct inc_switch_opts){.sz = sizeof(sw->opts),
					    .max_comms = max_comms,
					    .max_connections = max_connections,
					    .max_rows = max_rows};
	sw->sum_rows = max_rows / 2;
	sw->comm = array(max_comms, sizeof(*sw->comm));
	sw->conn = array(max_connections, sizeof(*sw->conn));
	sw->root = array(inc_switch_root_rows(max_comms), sizeof(*sw->root));
	sw->conn_state = array(max_connections, sizeof(*sw->conn_state));
	sw->comm_state = array(max_comms, sizeof(*sw->comm_state));
	sw->slots = array(sw->sum_rows, sizeof(*sw->slots));
	sw->kept = array(max_rows, sizeof(*sw->kept));
	sw->sums = array(sw->sum_rows, sizeof(*sw->sums));
	sw->routes = array(max_comms, sizeof(*sw->routes));
	x->conn_cfg = array(max_connections, sizeof(*x->conn_cfg));
	x->comm_cfg = array(max_comms, sizeof(*x->comm_cfg));
	x->root = array(inc_switch_root_rows(max_comms), sizeof(*x->root));
	x->copy = array(max_connections, sizeof(*x->copy));
	x->lookup = array(max_connections, sizeof(*x->lookup));
	x->own_addr = array(max_connections, sizeof(*x->own_addr));
	x->place = array(inc_conn_places(max_connections), sizeof(*x->place));
	x->comm_ports = array(max_comms * INC_PORTS_ROWS, sizeof(*x->comm_ports));
	x->parent = array(max_comms, sizeof(*x->parent));
	for (i = 0; i < ports; i++) {
		struct inc_switch_port *port = &sw->slot[i].port;

		x->port[i].index = i;
		x->iface[i] = (struct xdp_iface){.ifindex = xdp_ifindex(i),
						 .left_ifindex = xdp_ifindex(i),
						 .program = true,
						 .answers = true};
		*port = (struct inc_switch_port){
			.ifindex = xdp_ifindex(i), .own_ifindex = xdp_ifindex(i), .index = i};
		port->name[0] = port->device[0] = 'p';
		port->name[1] = port->device[1] = '0' + i;
		sw->slot[i].used = port;
		sw->slot[i].prog_id = XDP_PROGRAM;
	}
	return x;
}

void xdp_free(struct xdp *x)
{
	void *const arrays[] = {x->sw.comm,       x->sw.conn,  x->sw.root, x->sw.conn_state,
				x->sw.comm_state, x->sw.slots, x->sw.kept, x->sw.sums,
				x->conn_cfg,      x->comm_cfg, x->root,    x->copy,
				x->lookup,        x->own_addr, x->place,   x->comm_ports,
				x->parent,        x->sw.routes};
	struct xdp_devmap *d;
	bool any = false;
	unsigned int i;

	for (i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		free(arrays[i]);
	for (i = 0; i < SWITCHES; i++) {
		if (switches[i] == x)
			switches[i] = NULL;
		any |= switches[i] != NULL;
	}
	while (!any && (d = devmaps)) {
		devmaps = d->next;
		free(d);
	}
	free(x);
}

struct inc_switch *xdp_switch(struct xdp *x)
{
	return &x->sw;
}

uint32_t xdp_ifindex(unsigned int port)
{
	return XDP_NUMBERS + port + 1;
}

uint64_t xdp_counter(const struct xdp *x, enum inc_counter_id id)
{
	return x->counter[id];
}

uint32_t xdp_entries(const struct xdp *x)
{
	return x->lookups + x->own_addrs;
}

const struct inc_event *xdp_take_event(struct xdp *x)
{
	return x->ring_got == x->ring_put ? NULL : &x->ring[x->ring_got++ % XDP_RING];
}

struct xdp *xdp_of_fd(int fd)
{
	return switches[(fd - FD_FIRST) / FD_OF_SWITCH];
}

/* --- maps whose keys are no indices --- */

struct inc_port *xdp_port_of(struct xdp *x, uint32_t ifindex)
{
	const struct xdp_iface *iface = xdp_iface_of(x, ifindex);

	return iface ? &x->port[iface - x->iface] : NULL;
}

/* --- interfaces --- */

struct xdp_iface *xdp_iface_of(struct xdp *x, uint32_t ifindex)
{
	struct xdp_iface *iface = &x->iface[xdp_place(ifindex)];

	return ifindex && xdp_place(ifindex) < x->ports && iface->ifindex == ifindex && !iface->gone
		       ? iface
		       : NULL;
}

static void leave_maps(struct xdp *x, uint32_t ifindex)
{
	struct xdp_devmap *d;
	uint32_t i, k;

	for (k = 0; k < x->sw.opts.max_comms * INC_PORTS_ROWS; k++) {
		d = x->comm_ports[k];
		for (i = 0; d && i < d->n; i++)
			if (d->ifindex[i] == ifindex)
				d->ifindex[i] = 0;
	}
	for (i = 0; i < x->sw.opts.max_comms; i++)
		if (x->parent[i].ifindex == ifindex)
			x->parent[i].ifindex = 0;
}

void xdp_delete(struct xdp *x, unsigned int port)
{
	struct xdp_iface *iface = &x->iface[port];

	leave_maps(x, iface->ifindex);
	*iface = (struct xdp_iface){.ifindex = iface->ifindex, .gone = true};
}

void xdp_move(struct xdp *x, unsigned int port)
{
	struct xdp_iface *iface = &x->iface[port];

	leave_maps(x, iface->ifindex);
	iface->gone = true;
	iface->answers = false;
}

void xdp_make(struct xdp *x, unsigned int port)
{
	x->iface[port].gone = false;
	x->iface[port].ifindex += XDP_NUMBERS;
}

void xdp_detach(struct xdp *x)
{
	unsigned int i;

	for (i = 0; i < x->ports; i++)
		x->iface[i] = (struct xdp_iface){.ifindex = x->iface[i].ifindex,
						 .gone = x->iface[i].gone};
}

void xdp_inherit(struct xdp *x, const struct xdp *other)
{
	memcpy(x->iface, other->iface, sizeof(x->iface));
	xdp_detach(x);
}

uint32_t xdp_ifindex_now(const struct xdp *x, unsigned int port)
{
	return port < x->ports && !x->iface[port].gone ? x->iface[port].ifindex : 0;
}

uint32_t xdp_program_id(const struct xdp *x, unsigned int port)
{
	return x->iface[port].program ? XDP_PROGRAM : 0;
}

static struct xdp_iface *iface_of(const struct inc_switch *sw, uint32_t ifindex)
{
	return xdp_iface_of((struct xdp *)sw, ifindex);
}

/* Replaces loader/inc_attach.c and inc_purge.c, for loader/inc_port.c. */
int inc_enter_port(struct inc_switch *sw, const struct inc_switch_port *port, struct inc_err *err)
{
	struct xdp_iface *iface = iface_of(sw, port->ifindex);

	if (!iface)
		return inc_err_set(err, ENODEV, "%s is gone", port->name);
	iface->answers = true;
	return 0;
}

void inc_forget_port(struct inc_switch *sw, uint32_t ifindex)
{
	struct xdp_iface *iface = iface_of(sw, ifindex);

	if (iface)
		iface->answers = false;
}

bool inc_carries(const struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id)
{
	return xdp_id && xdp_id == slot->prog_id;
}

/* Attaches the program to a port. A program that was moved with its interface shows which interface
 * number the connections still contain. */
int inc_attach_slot(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err)
{
	struct xdp_iface *iface = iface_of(sw, slot->port.ifindex);
	int ret = inc_enter_port(sw, &slot->port, err);

	if (!ret && iface->program && iface->left_ifindex != iface->ifindex)
		slot->left_ifindex = iface->left_ifindex;
	if (!ret) {
		iface->program = true;
		iface->left_ifindex = iface->ifindex;
	}
	slot->prog_id = ret ? 0 : XDP_PROGRAM;
	return ret;
}

const char *inc_attach_name(enum inc_attach attach)
{
	return "simulated";
}

void inc_drop_link(struct inc_switch *sw, struct inc_port_slot *slot)
{
}

uint32_t inc_purge_moved(uint32_t ifindex, uint32_t xdp_id, bool generic, uint32_t map_id)
{
	return 0;
}

void inc_dispatchers_purge(uint32_t map_id, const struct inc_switch *spare)
{
}

uint32_t inc_map_id(int fd)
{
	return fd;
}

static struct xdp_lookup *find_lookup(struct xdp *x, const struct inc_conn_key *key)
{
	uint32_t i;

	for (i = 0; i < x->lookups; i++)
		if (!memcmp(&x->lookup[i].key, key, sizeof(*key)))
			return &x->lookup[i];
	return NULL;
}

uint32_t *xdp_conn_of(struct xdp *x, const struct inc_conn_key *key)
{
	struct xdp_lookup *found = find_lookup(x, key);

	return found ? &found->conn : NULL;
}

uint32_t *xdp_own_addr(struct xdp *x, uint32_t addr)
{
	uint32_t i;

	for (i = 0; i < x->own_addrs; i++)
		if (x->own_addr[i].addr == addr)
			return &x->own_addr[i].count;
	return NULL;
}

static int put_lookup(struct xdp *x, const struct inc_conn_key *key, uint32_t conn, uint64_t flags)
{
	if (find_lookup(x, key) && flags == BPF_NOEXIST)
		return EEXIST;
	sim_require(!find_lookup(x, key), "a connection's look-up is written over");
	x->lookup[x->lookups++] = (struct xdp_lookup){.key = *key, .conn = conn};
	return 0;
}

static void put_addr(struct xdp *x, uint32_t addr, uint32_t count)
{
	uint32_t *now = xdp_own_addr(x, addr);

	if (now)
		*now = count;
	else
		x->own_addr[x->own_addrs++] = (struct xdp_addr){.addr = addr, .count = count};
}

/* --- libbpf --- */

static struct xdp_devmap *devmap(int fd)
{
	struct xdp_devmap *d = devmaps;

	while (d && d->fd != fd)
		d = d->next;
	return d;
}

int bpf_map_create(enum bpf_map_type type, const char *name, __u32 key_size, __u32 value_size,
		   __u32 entries, const struct bpf_map_create_opts *opts)
{
	struct xdp_devmap *d = array(1, sizeof(*d));

	sim_require(type == BPF_MAP_TYPE_DEVMAP, "a map of type %d is made", type);
	d->fd = next_devmap++;
	d->next = devmaps;
	devmaps = d;
	return d->fd;
}

static int update(struct xdp *x, int map, const void *key, const void *value, uint64_t flags)
{
	const uint32_t i = *(const uint32_t *)key;

	switch (map) {
	case CONN_LOOKUP:
		return put_lookup(x, key, *(const uint32_t *)value, flags);
	case OWN_ADDR:
		put_addr(x, i, *(const uint32_t *)value);
		return 0;
	case CONN_PLACE:
		x->place[i] = *(const uint32_t *)value;
		return 0;
	case CONN_CFG:
		memcpy(&x->conn_cfg[i], value, sizeof(x->conn_cfg[i]));
		return 0;
	case COMM_CFG:
		memcpy(&x->comm_cfg[i], value, sizeof(x->comm_cfg[i]));
		return 0;
	case PARENT_PORT:
		memcpy(&x->parent[i], value, sizeof(x->parent[i]));
		return 0;
	case ROOT_CHILD:
		memcpy(&x->root[i], value, sizeof(x->root[i]));
		return 0;
	case COPY:
		memcpy(&x->copy[i], value, sizeof(x->copy[i]));
		return 0;
	case XSK:
		x->xsk[i] = *(const int *)value;
		return 0;
	case PORT:
		if (!xdp_port_of(x, i))
			break;
		memcpy(xdp_port_of(x, i), value, sizeof(struct inc_port));
		return 0;
	}
	return ENOENT;
}

int bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags)
{
	struct xdp_devmap *d = devmap(fd);
	const uint32_t i = *(const uint32_t *)key;

	if (d) {
		d->ifindex[i] = ((const struct bpf_devmap_val *)value)->ifindex;
		d->n = i + 1 > d->n ? i + 1 : d->n;
		return 0;
	}
	errno = update(xdp_of_fd(fd), (fd - FD_FIRST) % FD_OF_SWITCH, key, value, flags);
	return errno ? -1 : 0;
}

int bpf_map_update_batch(int fd, const void *keys, const void *values, __u32 *count,
			 const struct bpf_map_batch_opts *opts)
{
	struct xdp *x = xdp_of_fd(fd);
	uint32_t i;

	for (i = 0; i < *count; i++)
		x->comm_ports[((const uint32_t *)keys)[i]] = devmap(((const int *)values)[i]);
	return 0;
}

int bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	const struct xdp_iface *iface;
	struct xdp *x = xdp_of_fd(fd);
	const void *found = NULL;
	size_t size = sizeof(uint32_t);

	switch ((fd - FD_FIRST) % FD_OF_SWITCH) {
	case COMM_CFG:
		found = &x->comm_cfg[*(const uint32_t *)key];
		size = sizeof(*x->comm_cfg);
		break;
	case CONN_CFG:
		found = &x->conn_cfg[*(const uint32_t *)key];
		size = sizeof(*x->conn_cfg);
		break;
	case ROOT_CHILD:
		found = &x->root[*(const uint32_t *)key];
		size = sizeof(*x->root);
		break;
	case CONN_LOOKUP:
		found = xdp_conn_of(x, key);
		break;
	case CONN_PLACE:
		found = &x->place[*(const uint32_t *)key];
		break;
	case OWN_ADDR:
		found = xdp_own_addr(x, *(const uint32_t *)key);
		break;
	case ANSWER_PORT:
		iface = xdp_iface_of(x, *(const uint32_t *)key);
		found = iface && iface->answers ? &iface->ifindex : NULL;
		break;
	}
	if (found) {
		memcpy(value, found, size);
		return 0;
	}
	errno = ENOENT;
	return -1;
}

/* Supports only the map of the switch's own addresses, which the product reads when it adopts a
 * switch. */
int bpf_map_get_next_key(int fd, const void *key, void *next)
{
	const struct xdp *x = xdp_of_fd(fd);
	uint32_t i = 0;

	sim_require((fd - FD_FIRST) % FD_OF_SWITCH == OWN_ADDR, "keys of a map are listed");
	while (key && i < x->own_addrs && x->own_addr[i].addr != *(const uint32_t *)key)
		i++;
	i += !!key;
	if (i >= x->own_addrs) {
		errno = ENOENT;
		return -1;
	}
	memcpy(next, &x->own_addr[i].addr, sizeof(uint32_t));
	return 0;
}

int bpf_map_delete_elem(int fd, const void *key)
{
	struct xdp *x = xdp_of_fd(fd);
	struct xdp_lookup *l;
	uint32_t *count;

	switch ((fd - FD_FIRST) % FD_OF_SWITCH) {
	case CONN_LOOKUP:
		l = find_lookup(x, key);
		if (!l)
			break;
		*l = x->lookup[--x->lookups];
		return 0;
	case OWN_ADDR:
		count = xdp_own_addr(x, *(const uint32_t *)key);
		if (!count)
			break;
		*(struct xdp_addr *)((uint8_t *)count - offsetof(struct xdp_addr, count)) =
			x->own_addr[--x->own_addrs];
		return 0;
	case PARENT_PORT:
		memset(&x->parent[*(const uint32_t *)key], 0, sizeof(*x->parent));
		return 0;
	}
	errno = ENOENT;
	return -1;
}

int libbpf_num_possible_cpus(void)
{
	return 1;
}

/* --- replacements of the loader's files that use the kernel --- */

int inc_switch_map_fd(const struct inc_switch *sw, const char *name)
{
	int i, m;

	for (i = 0; i < SWITCHES; i++)
		for (m = 0; switches[i] && &switches[i]->sw == sw && m < MAPS; m++)
			if (!strcmp(names[m], name))
				return FD_FIRST + i * FD_OF_SWITCH + m;
	sim_fail("there is no map %s", name);
}

int inc_switch_prog_fd(const struct inc_switch *sw, const char *name)
{
	return FD_FIRST - 1;
}

const struct inc_switch_opts *inc_switch_get_opts(const struct inc_switch *sw)
{
	return &sw->opts;
}

uint32_t inc_switch_sum_rows(uint32_t max_rows)
{
	return max_rows / 2;
}

char *__wrap_if_indextoname(unsigned int ifindex, char *name);
char *__wrap_if_indextoname(unsigned int ifindex, char *name)
{
	name[0] = 'p';
	name[1] = '0' + xdp_place(ifindex);
	name[2] = 0;
	return name;
}
