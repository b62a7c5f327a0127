/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the interfaces of ports, and repairs ports that change while the switch runs. An operator
 * may detach the program, move the interface to another namespace and back, or delete it and make
 * it again. The kernel then removes the interface from every devmap, ends the link that holds the
 * program, or gives the interface another number. The caller passes the interface's present
 * properties. These are compared with what the switch needs, and what is missing is restored. The
 * next check repeats a step that failed. The engine calls this on the daemon's one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/net/netdev.h"
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

const struct inc_switch_port *inc_switch_port_on(const struct inc_switch *sw, uint32_t ifindex)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sw->slot[i].used && sw->slot[i].port.ifindex == ifindex)
			return sw->slot[i].used;
	return NULL;
}

/* Rejects a port because its device has the program of another port. */
static int refuse_shared(const char *name, uint32_t ifindex, const struct inc_switch_port *other,
			 struct inc_err *err)
{
	char device[IF_NAMESIZE] = "";

	if_indextoname(ifindex, device);
	return inc_err_set(err, EEXIST,
			   "interface %s: the XDP program on %s belongs to port %s, and serves the "
			   "network of that port alone",
			   name, device, other->name);
}

/* Rejects an interface that is a port already, or whose device has the program of another port. */
static int check_free(const struct inc_switch *sw, const struct inc_switch_port *port,
		      struct inc_err *err)
{
	const struct inc_switch_port *other =
		inc_switch_port_find(sw, port->name) ?: inc_switch_port_on(sw, port->ifindex);

	if (!other)
		return 0;
	if (!strcmp(other->name, port->name))
		return inc_err_set(err, EEXIST, "interface %s is a port already", port->name);
	return refuse_shared(port->name, port->ifindex, other, err);
}

/* Finds the interface below the VLAN device of a port. Rejects devices whose frames the XDP program
 * cannot recognize. */
static int find_below(const char *name, const struct inc_interface_place *own,
		      struct inc_interface_place *below, struct inc_err *err)
{
	if (!own->below)
		return inc_err_set(err, ENODEV,
				   "interface %s: the interface below it is in another network "
				   "namespace",
				   name);
	if (inc_interface_at(own->below, below))
		return inc_err_set(err, ENODEV,
				   "interface %s: the interface below it cannot be read", name);
	if (below->is_vlan || own->service_tag)
		return inc_err_set(
			err, EOPNOTSUPP,
			"interface %s: frames with two VLAN tags (QinQ), or with the tag "
			"of IEEE 802.1ad, cannot be reduced here: a port needs a VLAN "
			"device of IEEE 802.1Q on a NIC",
			name);
	if (!own->vlan)
		return inc_err_set(err, EOPNOTSUPP,
				   "interface %s: VLAN 0 is no VLAN: the interface below it can be "
				   "the port",
				   name);
	return 0;
}

int inc_find_device(const struct inc_switch *sw, const char *ifname, struct inc_switch_port *port,
		    struct inc_err *err)
{
	struct inc_interface_place own = {}, below = {};
	int ret = inc_interface_find(ifname, &own);

	if (ret == -ENODEV)
		return inc_err_set(err, ENODEV, "interface %s does not exist here", ifname);
	if (ret)
		return inc_err_set(err, -ret, "interface %s cannot be read: %s", ifname,
				   strerror(-ret));
	ret = own.is_vlan ? find_below(ifname, &own, &below, err) : 0;
	if (ret)
		return ret;
	snprintf(port->name, sizeof(port->name), "%s", ifname);
	port->own_ifindex = own.ifindex;
	port->ifindex = own.is_vlan ? below.ifindex : own.ifindex;
	port->vlan = own.vlan;
	if (!if_indextoname(port->ifindex, port->device))
		return inc_err_set(err, errno, "interface %s cannot be read: %s", ifname,
				   strerror(errno));
	return check_free(sw, port, err);
}

/* Whether the kernel has removed the port's interface from the devmaps, as it does when the
 * interface is deleted or leaves the namespace. */
static bool has_left_maps(const struct inc_switch *sw, const struct inc_switch_port *port)
{
	struct bpf_devmap_val val;

	return bpf_map_lookup_elem(inc_switch_map_fd(sw, INC_MAP_ANSWER_PORT), &port->ifindex,
				   &val);
}

/* Fills b with the present plan of a communicator, if the communicator has a connection at the
 * port. Otherwise returns false. */
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

/* Gives the port's connections the present number of its interface, in the copies of the maps.
 * write_rows() then writes the maps and may fail, so the slot stays stale until write_rows() has
 * succeeded. */
static void move_conns(struct inc_switch *sw, struct inc_port_slot *slot)
{
	const uint32_t from = slot->left_ifindex;
	struct inc_comm_build b;
	uint32_t cm, i, n;

	slot->left_ifindex = 0;
	if (!from || from == slot->port.ifindex)
		return;
	slot->stale = true;
	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!build_at(sw, cm, from, &b))
			continue;
		n = inc_comm_conns(&b.cfg);
		for (i = 0; i < n; i++)
			if (b.conn[i].ifindex == from)
				b.conn[i].ifindex = slot->port.ifindex;
		memset(b.cfg.port_child, 0, sizeof(b.cfg.port_child));
		inc_comm_plan_ports(&b);
		sw->comm[cm] = b.cfg;
		memcpy(&sw->conn[b.cfg.conn_base], b.conn, n * sizeof(b.conn[0]));
	}
}

typedef int (*comm_fn)(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);

/* Calls fn for each communicator that has a connection at the port. */
static int for_comms(struct inc_switch *sw, const struct inc_port_slot *slot, comm_fn fn,
		     struct inc_err *err)
{
	struct inc_comm_build b;
	uint32_t cm;
	int ret = 0;

	for (cm = 0; !ret && cm < sw->opts.max_comms; cm++)
		if (build_at(sw, cm, slot->port.ifindex, &b))
			ret = fn(sw, &b, err);
	return ret;
}

/* Writes the port's connections with the new number of its interface to the maps. A packet that
 * arrives before that is dropped, because its port is wrong, and the host retransmits it. */
static int write_rows(struct inc_switch *sw, const struct inc_port_slot *slot, struct inc_err *err)
{
	return slot->stale ? for_comms(sw, slot, inc_comm_write, err) : 0;
}

/* Attaches the switch's XDP program again, to the port's present interface. */
static int attach_again(struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id,
			struct inc_err *err)
{
	const uint32_t map_id = inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT));
	struct inc_err why = {};
	int ret;

	inc_drop_link(sw, slot);
	slot->prog_id = 0;
	inc_purge_moved(slot->port.ifindex, xdp_id, slot->port.generic, map_id);
	/* mark the slot as free meanwhile, so that inc_dispatchers_purge() also removes the pins of
	 * this port's dispatcher, which is gone */
	slot->used = NULL;
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

int inc_adopt_moved_ports(struct inc_switch *sw, struct inc_err *err)
{
	int i, ret = 0;

	for (i = 0; !ret && i < INC_MAX_PORTS; i++) {
		struct inc_port_slot *slot = &sw->slot[i];

		if (!slot->used)
			continue;
		move_conns(sw, slot);
		ret = write_rows(sw, slot, err);
		if (!ret && slot->stale)
			ret = for_comms(sw, slot, inc_comm_make_ports, err);
		slot->stale &= ret != 0;
	}
	return ret;
}

/* Gives the port another interface, and removes what the port had on the old one. */
static void move_port(struct inc_switch *sw, struct inc_port_slot *slot, uint32_t ifindex)
{
	move_conns(sw, slot);
	slot->left_ifindex = slot->port.ifindex;
	inc_forget_port(sw, slot->port.ifindex);
	inc_drop_link(sw, slot);
	slot->port.ifindex = ifindex;
	slot->prog_id = 0;
}

/* Enters the port in the maps again, so that results of the port's communicators leave by it. */
static int return_to_maps(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err)
{
	int ret = inc_enter_port(sw, &slot->port, err);

	ret = ret ?: for_comms(sw, slot, inc_comm_make_ports, err);
	slot->stale = ret != 0;
	return ret;
}

/* Makes the program answer echo requests at the address that the port's interface has now. */
static int follow_ip(struct inc_switch *sw, struct inc_switch_port *port, uint32_t ip,
		     struct inc_err *err)
{
	const struct inc_port val = {.index = port->index, .vlan = port->vlan, .ip = ip};
	int ret;

	if (ip == port->ip)
		return 0;
	ret = inc_switch_map_set(sw, INC_MAP_PORT, &port->ifindex, &val, BPF_ANY, err);
	port->ip = ret ? port->ip : ip;
	return ret;
}

/* Finds the interface that has the port's program, and the program's number. For a VLAN device that
 * is the interface below. */
static int find_program(const struct inc_switch *sw, const struct inc_switch_port *port,
			const struct inc_port_seen *seen, uint32_t *ifindex, uint32_t *xdp_id,
			struct inc_err *err)
{
	const struct inc_switch_port *other;
	struct inc_interface_place own = {}, below = {};
	int ret;

	*ifindex = seen->ifindex;
	*xdp_id = seen->xdp_id;
	if (port->vlan) {
		if (inc_interface_at(seen->ifindex, &own) || own.vlan != port->vlan)
			return inc_err_set(err, ENODEV,
					   "port %s is not a device of VLAN %u any more",
					   seen->name, port->vlan);
		ret = find_below(seen->name, &own, &below, err);
		if (ret)
			return ret;
		*ifindex = below.ifindex;
		*xdp_id = below.xdp_id;
	}
	other = *ifindex != port->ifindex ? inc_switch_port_on(sw, *ifindex) : NULL;
	/* the other port may have lost its device, and this one has the same number */
	return other && !has_left_maps(sw, other) ? refuse_shared(seen->name, *ifindex, other, err)
						  : 0;
}

int inc_switch_check_port(struct inc_switch *sw, size_t n, const struct inc_port_seen *seen,
			  struct inc_err *err)
{
	struct inc_port_slot *slot = slot_at(sw, n);
	uint32_t ifindex, xdp_id;
	struct inc_switch_port *port;
	bool left, again = false;
	int ret;

	if (!slot)
		return inc_err_set(err, ENOENT, "%s is not a port", seen->name);
	port = &slot->port;
	ret = find_program(sw, port, seen, &ifindex, &xdp_id, err);
	if (ret)
		return ret;
	snprintf(port->name, sizeof(port->name), "%s", seen->name);
	port->own_ifindex = seen->ifindex;
	if_indextoname(ifindex, port->device);
	if (ifindex != port->ifindex)
		move_port(sw, slot, ifindex);
	move_conns(sw, slot);
	slot->stale |= has_left_maps(sw, port);
	ret = write_rows(sw, slot, err);
	if (ret)
		return ret;
	if (!inc_carries(sw, slot, xdp_id)) {
		ret = attach_again(sw, slot, xdp_id, err);
		if (ret)
			return ret;
		again = true;
		inc_warn("port %s: its XDP program was gone: attached again through %s", port->name,
			 inc_attach_name(port->attach));
	}
	left = slot->stale;
	ret = left ? return_to_maps(sw, slot, err) : 0;
	ret = ret ?: follow_ip(sw, port, seen->ip, err);
	return ret ?: left || again;
}
