/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds hosts, switches and ports by name and by address, with a hash table that has open
 * addressing. So reading a file with thousands of names takes linear time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/topology/topology_priv.h"

/* The hash of a key, by Fibonacci hashing, because the upper bits of the product depend on all bits
 * of the key. */
static size_t place(const struct inc_topo_index *x, uint32_t key)
{
	return (size_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (x->room - 1);
}

static void put(struct inc_topo_index *x, uint32_t key, uint32_t stored)
{
	size_t at = place(x, key);

	while (x->slots[at].value)
		at = (at + 1) & (x->room - 1);
	x->slots[at] = (struct inc_topo_slot){key, stored};
}

/* Doubles the table, so that at most half of it is in use. */
static int grow(struct inc_topo_index *x)
{
	struct inc_topo_index more = {.room = x->room ? x->room * 2 : 64};

	more.slots = calloc(more.room, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (size_t i = 0; i < x->room; i++) {
		if (x->slots[i].value)
			put(&more, x->slots[i].key, x->slots[i].value);
	}
	more.n = x->n;
	free(x->slots);
	*x = more;
	return 0;
}

static int add(struct inc_topo_index *x, uint32_t key, enum inc_topo_kind kind, unsigned int index)
{
	if (2 * (x->n + 1) > x->room && grow(x))
		return -ENOMEM;
	put(x, key, (index << 2 | kind) + 1);
	x->n++;
	return 0;
}

/* Finds the next entry of the hash table with this key. *at is 0 before the first call, and each
 * call advances it. */
static bool next(const struct inc_topo_index *x, uint32_t key, size_t *at, enum inc_topo_kind *kind,
		 unsigned int *index)
{
	const struct inc_topo_slot *slot;

	while (x->room) {
		slot = &x->slots[(place(x, key) + (*at)++) & (x->room - 1)];
		if (!slot->value)
			return false;
		if (slot->key != key)
			continue;
		*kind = (slot->value - 1) & 3;
		*index = (slot->value - 1) >> 2;
		return true;
	}
	return false;
}

static uint32_t hash(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return h;
}

static const char *name_of(const struct inc_topology *topo, enum inc_topo_kind kind,
			   unsigned int index)
{
	switch (kind) {
	case INC_TOPO_HOST:
		return topo->hosts[index].name;
	case INC_TOPO_SWITCH:
		return topo->switches[index].name;
	default:
		return topo->bridges[index].name;
	}
}

int inc_topology_add_name(struct inc_topology *topo, enum inc_topo_kind kind, unsigned int index)
{
	return add(&topo->by_name, hash(name_of(topo, kind, index)), kind, index);
}

/* The key of an address. Those of IPv4 addresses differ. */
static uint32_t key_of(struct inc_addr ip)
{
	if (inc_addr_is_ipv4(ip))
		return ip.word[3];
	return ((ip.word[0] * 16777619u ^ ip.word[1]) * 16777619u ^ ip.word[2]) * 16777619u ^
	       ip.word[3];
}

/* Whether a host, or a port of a switch, has the address. */
static bool has(const struct inc_topology *topo, enum inc_topo_kind kind, unsigned int index,
		struct inc_addr ip)
{
	const struct inc_topo_switch *sw;

	if (kind == INC_TOPO_HOST)
		return inc_addr_same(topo->hosts[index].ip, ip);
	sw = &topo->switches[index];
	for (unsigned int p = 0; p < sw->n_ports; p++)
		if (inc_addr_same(sw->ports[p].ip, ip))
			return true;
	return false;
}

int inc_topology_add_ip(struct inc_topology *topo, struct inc_addr ip, enum inc_topo_kind kind,
			unsigned int index)
{
	return add(&topo->by_ip, key_of(ip), kind, index);
}

bool inc_topology_find(const struct inc_topology *topo, const char *name, struct inc_topo_end *end)
{
	const uint32_t key = hash(name);
	size_t at = 0;

	*end = (struct inc_topo_end){0};
	while (next(&topo->by_name, key, &at, &end->kind, &end->index)) {
		if (strcmp(name_of(topo, end->kind, end->index), name) == 0)
			return true;
	}
	return false;
}

bool inc_topology_has_ip(const struct inc_topology *topo, struct inc_addr ip)
{
	enum inc_topo_kind kind;
	unsigned int index;
	size_t at = 0;

	while (next(&topo->by_ip, key_of(ip), &at, &kind, &index))
		if (has(topo, kind, index, ip))
			return true;
	return false;
}

int inc_topology_host_by_ip(const struct inc_topology *topo, struct inc_addr ip)
{
	enum inc_topo_kind kind;
	unsigned int index;
	size_t at = 0;

	while (next(&topo->by_ip, key_of(ip), &at, &kind, &index)) {
		if (kind == INC_TOPO_HOST && has(topo, kind, index, ip))
			return index;
	}
	return -1;
}

int inc_topology_host_by_name(const struct inc_topology *topo, const char *name)
{
	struct inc_topo_end end;

	return inc_topology_find(topo, name, &end) && end.kind == INC_TOPO_HOST ? (int)end.index
										: -1;
}

int inc_topology_nic(const struct inc_topology *topo, unsigned int host, unsigned int rail)
{
	unsigned int nic = topo->hosts[host].of;

	while (topo->hosts[nic].rail < rail && topo->hosts[nic].next)
		nic = topo->hosts[nic].next;
	return topo->hosts[nic].rail == rail ? (int)nic : -1;
}

int inc_topology_nic_by_ip(const struct inc_topology *topo, unsigned int host, struct inc_addr ip)
{
	unsigned int nic = topo->hosts[host].of;

	while (!inc_addr_same(topo->hosts[nic].ip, ip) && topo->hosts[nic].next)
		nic = topo->hosts[nic].next;
	return inc_addr_same(topo->hosts[nic].ip, ip) ? (int)nic : -1;
}

int inc_topology_switch_by_name(const struct inc_topology *topo, const char *name)
{
	struct inc_topo_end end;

	if (inc_topology_find(topo, name, &end) && end.kind == INC_TOPO_SWITCH)
		return end.index;
	for (unsigned int s = topo->n_live_switches; s < topo->n_switches; s++) {
		if (strcmp(topo->switches[s].name, name) == 0)
			return s;
	}
	return -1;
}

int inc_topology_draining_host(const struct inc_topology *topo, struct inc_addr ip)
{
	for (unsigned int h = topo->n_live_hosts; h < topo->n_hosts; h++) {
		if (inc_addr_same(topo->hosts[h].ip, ip))
			return h;
	}
	return -1;
}

int inc_topology_port_by_name(const struct inc_topo_switch *sw, const char *name)
{
	for (unsigned int p = 0; p < sw->n_ports; p++) {
		if (strcmp(sw->ports[p].name, name) == 0)
			return p;
	}
	return -1;
}
