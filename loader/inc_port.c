/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that change while the switch runs. An operator detaches the program, moves the interface to
 * another namespace and back, or deletes it and makes it again. The kernel then takes the interface
 * out of every devmap, ends what holds the program, or gives the interface another number. What the
 * caller sees of the kernel is compared with what the switch needs, and what is missing is made
 * again. Called by the engine, on the daemon's one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/log.h"
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"

const struct inc_switch_port *inc_switch_port_at(const struct inc_switch *sw, size_t n)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sw->slot[i].used && n-- == 0)
			return sw->slot[i].used;
	return NULL;
}

const struct inc_switch_port *inc_switch_port_find(const struct inc_switch *sw, const char *ifname)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sw->slot[i].used && !strcmp(sw->slot[i].port.name, ifname))
			return sw->slot[i].used;
	return NULL;
}

/* Whether the kernel has taken the interface out of the devmaps. */
static bool has_left_maps(const struct inc_switch *sw, const struct inc_switch_port *port)
{
	struct bpf_devmap_val val;

	return bpf_map_lookup_elem(inc_switch_map_fd(sw, INC_MAP_ANSWER_PORT), &port->ifindex,
				   &val);
}

/* The communicator as the maps have it; false where none of its connections is at the port. */
static bool build_at(const struct inc_switch *sw, uint32_t comm, uint32_t ifindex,
		     struct inc_comm_build *b)
{
	bool found = false;
	uint32_t i;

	if (!inc_switch_comm(sw, comm))
		return false;
	*b = (struct inc_comm_build){.comm = comm, .cfg = sw->comm[comm]};
	memcpy(b->conn, &sw->conn[b->cfg.conn_base], inc_comm_conns(&b->cfg) * sizeof(b->conn[0]));
	for (i = 0; i < inc_comm_conns(&b->cfg); i++)
		found |= b->conn[i].ifindex == ifindex;
	return found;
}

/* The rows of connections whose port has another number now. A packet that comes meanwhile is
 * dropped as one from a wrong port, and its host retransmits it. */
static int move_conns(struct inc_switch *sw, struct inc_comm_build *b, uint32_t from, uint32_t to,
		      struct inc_err *err)
{
	uint32_t n = inc_comm_conns(&b->cfg), i, conn;

	for (i = 0; i < n; i++) {
		if (b->conn[i].ifindex == from)
			b->conn[i].ifindex = to;
	}
	memset(b->cfg.port_child, 0, sizeof(b->cfg.port_child));
	inc_comm_plan_ports(b);
	sw->comm[b->comm] = b->cfg;
	memcpy(&sw->conn[b->cfg.conn_base], b->conn, n * sizeof(b->conn[0]));
	if (bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_COMM_CFG), &b->comm, &b->cfg,
				BPF_ANY))
		return inc_err_set(err, errno, "map %s cannot be written: %s", INC_MAP_COMM_CFG,
				   strerror(errno));
	for (i = 0; i < n; i++) {
		conn = b->cfg.conn_base + i;
		if (bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_CONN_CFG), &conn, &b->conn[i],
					BPF_ANY))
			return inc_err_set(err, errno, "map %s cannot be written: %s",
					   INC_MAP_CONN_CFG, strerror(errno));
	}
	return 0;
}

/* Results of all communicators at the port leave by it again. from: its former number. */
static int renew_comms(struct inc_switch *sw, const struct inc_port_slot *slot, uint32_t from,
		       struct inc_err *err)
{
	struct inc_comm_build b;
	uint32_t cm;
	int ret = 0;

	for (cm = 0; !ret && cm < sw->opts.max_comms; cm++) {
		if (!build_at(sw, cm, from, &b))
			continue;
		if (from != slot->port.ifindex)
			ret = move_conns(sw, &b, from, slot->port.ifindex, err);
		ret = ret ?: inc_comm_make_ports(sw, &b, err);
	}
	return ret;
}

/* The program once more, on the interface that the port is now. */
static int attach_again(struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id,
			struct inc_err *err)
{
	const uint32_t map_id = inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT));
	struct inc_err why = {};
	int ret;

	inc_drop_link(sw, slot);
	slot->prog_id = 0;
	inc_purge_moved(slot->port.ifindex, xdp_id, slot->port.generic, map_id);
	slot->used = NULL; /* so that pins of a dispatcher that is gone from here go */
	inc_dispatchers_purge(map_id, sw);
	slot->used = &slot->port;
	ret = inc_attach_slot(sw, slot, &why);
	return ret ? inc_err_set(
			     err, -ret,
			     "port %s: its XDP program is gone and cannot be attached again: %s",
			     slot->port.name, why.msg)
		   : 0;
}

static struct inc_port_slot *slot_at(struct inc_switch *sw, size_t n)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sw->slot[i].used && n-- == 0)
			return &sw->slot[i];
	return NULL;
}

/* Moves the communicators that are still at the number that the port had before. Where it fails the
 * next look tries again. */
static int follow_port(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err)
{
	int ret = 0;

	if (slot->left_ifindex && slot->left_ifindex != slot->port.ifindex)
		ret = renew_comms(sw, slot, slot->left_ifindex, err);
	if (!ret)
		slot->left_ifindex = 0;
	return ret;
}

/* The port is another interface from now on, and so it is for its communicators. */
static int move_port(struct inc_switch *sw, struct inc_port_slot *slot, uint32_t ifindex,
		     struct inc_err *err)
{
	slot->left_ifindex = slot->port.ifindex;
	inc_forget_port(sw, slot->port.ifindex);
	inc_drop_link(sw, slot);
	slot->port.ifindex = ifindex;
	slot->prog_id = 0;
	return follow_port(sw, slot, err);
}

int inc_adopt_moved_ports(struct inc_switch *sw, struct inc_err *err)
{
	int i, ret = 0;

	for (i = 0; !ret && i < INC_MAX_PORTS; i++) {
		struct inc_port_slot *slot = &sw->slot[i];

		if (slot->used)
			ret = follow_port(sw, slot, err);
	}
	return ret;
}

/* The interface was away from the namespace and is back, with its program. */
static int return_to_maps(struct inc_switch *sw, const struct inc_port_slot *slot,
			  struct inc_err *err)
{
	const uint32_t ifindex = slot->port.ifindex;
	int ret = inc_enter_port(sw, &slot->port, err);

	ret = ret ?: renew_comms(sw, slot, ifindex, err);
	if (ret) /* so that the next look finds that there is something to do */
		bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_ANSWER_PORT), &ifindex);
	return ret;
}

int inc_switch_check_port(struct inc_switch *sw, size_t n, const struct inc_port_seen *seen,
			  struct inc_err *err)
{
	struct inc_port_slot *slot = slot_at(sw, n);
	struct inc_switch_port *port;
	bool left, again = false;
	int ret = 0;

	if (!slot)
		return inc_err_set(err, ENOENT, "%s is not a port", seen->name);
	port = &slot->port;
	snprintf(port->name, sizeof(port->name), "%s", seen->name);
	ret = seen->ifindex != port->ifindex ? move_port(sw, slot, seen->ifindex, err)
					     : follow_port(sw, slot, err);
	if (ret)
		return ret;
	left = has_left_maps(sw, port);
	if (!inc_carries(sw, slot, seen->xdp_id)) {
		ret = attach_again(sw, slot, seen->xdp_id, err);
		if (ret)
			return ret;
		again = true;
		inc_warn("port %s: its XDP program was gone: attached again through %s", port->name,
			 inc_attach_name(port->attach));
	}
	ret = left ? return_to_maps(sw, slot, err) : 0;
	return ret ?: left || again;
}
