// SPDX-License-Identifier: BSD-2-Clause
/* The neighbour table (network.h). */
#include <errno.h>
#include <string.h>
#include "network.h"
#include "sim.h"
#include "userspace/neighbour.h"

#define NEIGHBOURS                 32
#define ASK_MIN_NS                 10000
#define ASK_MAX_NS                 INC_NSEC_PER_MSEC
#define LOST_PERMILLE              200
#define ANNOUNCEMENT_LOST_PERMILLE 500

static struct neighbour {
	uint32_t addr;
	uint8_t mac[6];  /* MAC address of the neighbour */
	uint8_t held[6]; /* MAC address in the kernel's table, if `known` */
	bool known;
} neighbours[NEIGHBOURS];
static unsigned int n_neighbours;

void neighbour_begin(void)
{
	n_neighbours = 0;
}

void neighbour_add(uint32_t addr, const uint8_t mac[6], bool known)
{
	struct neighbour *n = &neighbours[n_neighbours++];

	sim_require(n_neighbours <= NEIGHBOURS, "too many neighbours");
	*n = (struct neighbour){.addr = addr, .known = known};
	memcpy(n->mac, mac, sizeof(n->mac));
	memcpy(n->held, mac, sizeof(n->held));
}

static struct neighbour *find(uint32_t addr)
{
	unsigned int i;

	for (i = 0; i < n_neighbours; i++)
		if (neighbours[i].addr == addr)
			return &neighbours[i];
	return NULL;
}

static void learn(void *neighbour, uint64_t unused)
{
	struct neighbour *n = neighbour;

	n->known = true;
	memcpy(n->held, n->mac, sizeof(n->held));
}

static void hear(void *neighbour, uint64_t unused)
{
	if (((struct neighbour *)neighbour)->known)
		learn(neighbour, 0);
}

void neighbour_moves(uint32_t addr, const uint8_t mac[6])
{
	struct neighbour *n = find(addr);

	sim_require(n, "the address that moves was not added");
	memcpy(n->mac, mac, sizeof(n->mac));
	if (!sim_fault(ANNOUNCEMENT_LOST_PERMILLE))
		sim_after(sim_between(ASK_MIN_NS, ASK_MAX_NS), hear, n, 0);
}

int inc_neighbour_mac(uint32_t ifindex, struct inc_addr addr, uint8_t mac[6])
{
	const struct neighbour *n = find(inc_addr_in(addr).s_addr);

	if (!n || !n->known)
		return -ENOENT;
	memcpy(mac, n->held, sizeof(n->held));
	return 0;
}

int inc_neighbour_forget(uint32_t ifindex, struct inc_addr addr)
{
	struct neighbour *n = find(inc_addr_in(addr).s_addr);

	if (n)
		n->known = false;
	return 0;
}

enum inc_neighbour_answer inc_neighbour_answer(uint32_t ifindex, struct inc_addr addr)
{
	return INC_NEIGHBOUR_KNOWN;
}

/* The kernel resolves the address on the link. The request or the answer may be lost. */
int inc_neighbour_provoke(uint32_t ifindex, struct inc_addr addr)
{
	struct neighbour *n = find(inc_addr_in(addr).s_addr);

	sim_require(n, "a kernel resolves an address that was not added");
	if (!sim_fault(LOST_PERMILLE))
		sim_after(sim_between(ASK_MIN_NS, ASK_MAX_NS), learn, n, 0);
	return 0;
}

/* A simulated switch is not asked for its neighbours, and there are no LLDP frames. */
int inc_neighbour_list(struct inc_neighbour **out)
{
	*out = NULL;
	return 0;
}

json_t *inc_neighbour_json(const struct inc_neighbour *list, int n, uint32_t ifindex,
			   unsigned int *room)
{
	return json_array();
}

int inc_lldp_watch_start(struct event_base *base, struct inc_lldp_watch **out, struct inc_err *err)
{
	return inc_err_set(err, EPERM, "LLDP frames are not received: %s", strerror(EPERM));
}

void inc_lldp_watch_stop(struct inc_lldp_watch *w)
{
}

void inc_lldp_watch_port(struct inc_lldp_watch *w, uint32_t ifindex)
{
}

void inc_lldp_introduce(const struct inc_lldp_watch *w, uint32_t ifindex, const char *name,
			const char *port)
{
}

json_t *inc_lldp_json(const struct inc_lldp_watch *w, uint32_t ifindex)
{
	return json_array();
}
