/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A topology file (docs/control.md, "Topology"), read and checked. inc-controller computes routes
 * on it, and inc-lab builds it. All names are resolved to indexes. The array links[] has every
 * link, even if the file has no entry for it.
 */
#ifndef INC_TOPOLOGY_H
#define INC_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/roce.h"

/* longest name of a host, switch or port, because interfaces have these names */
#define INC_TOPO_NAME_LEN 15
#define INC_TOPO_NAME_MAX (INC_TOPO_NAME_LEN + 1)

#define INC_TOPO_MAX_HOSTS    16384
#define INC_TOPO_MAX_SWITCHES 1024
#define INC_TOPO_MAX_BRIDGES  1024
#define INC_TOPO_MAX_PORTS    64    /* limit of the ports of a switch */
#define INC_TOPO_MAX_PEERS    1024  /* limit of the peers of one port */
#define INC_TOPO_DEF_RATE     10000 /* rate in Mbit/s of a link without a rate in the file */

/* The faults that a link causes in each direction. All zero: a plain cable. */
struct inc_topo_wire {
	double rate_mbit; /* rate of the link; 0: unlimited */
	double loss;      /* probabilities of faults, 0 to 1 */
	double duplicate;
	double corrupt;
	double reorder;
	uint64_t seed;
};

/* A NIC of a host. A host with several NICs has an entry for each, all with its name. */
struct inc_topo_host {
	char name[INC_TOPO_NAME_MAX];
	struct inc_addr ip;
	unsigned int of;   /* index of the host's first NIC, by which the host is known */
	unsigned int rail; /* number of the NIC in its host; NICs of one number are a rail */
	unsigned int next; /* index of the host's next NIC; 0: there is none */
	unsigned int sw;   /* index of the switch to which the host is attached */
	unsigned int port; /* index of that switch's port */
	/* link of the host's own cable, which leads to that port or to the bridge before it */
	unsigned int link;
};

/* A host or a switch that a port leads to. */
struct inc_topo_peer {
	bool to_switch;
	unsigned int index; /* index into switches (if to_switch is set) or hosts */
	/* if the peer is a switch: index of the peer's port that leads back to this switch */
	unsigned int port;
};

struct inc_topo_port {
	char name[INC_TOPO_NAME_MAX];
	struct inc_addr ip;
	/* the VLAN on whose device the port and its hosts have their addresses; 0: none */
	unsigned int vlan;
	/* the nodes to which the port leads: one, or several behind a bridge */
	struct inc_topo_peer *peers;
	unsigned int n_peers;
	/* index of the bridge to which the port's cable leads; -1: the cable leads to the peer
	 * itself */
	int bridge;
	unsigned int link; /* link of the port's own cable */
	/* the hosts of the port's subnet: index of the first one, and their number */
	unsigned int first_of_subnet, n_of_subnet;
	/* settings of the queue pairs at this port, with those of its switch and of the whole
	 * topology */
	struct inc_verbs_conf verbs;
	struct inc_addr subnet; /* first address and prefix length of the subnet, if there is one */
	unsigned int subnet_bits;
};

struct inc_topo_switch {
	char name[INC_TOPO_NAME_MAX];
	bool root;
	/* the file has a mode for the switch; otherwise the switch's own mode applies */
	bool has_mode;
	uint32_t mode;               /* enum inc_mode_of_switch, or INC_AUTO */
	struct inc_verbs_conf verbs; /* settings of queue pairs at ports that do not have them */
	struct inc_topo_port *ports; /* those of the file, then the draining ones */
	unsigned int n_ports, n_live_ports;
};

/* An ordinary Ethernet switch: it does not reduce, and all nodes on it are neighbours. */
struct inc_topo_bridge {
	char name[INC_TOPO_NAME_MAX];
};

enum inc_topo_kind {
	INC_TOPO_HOST,
	INC_TOPO_SWITCH,
	INC_TOPO_BRIDGE,
};

struct inc_topo_end {
	enum inc_topo_kind kind;
	unsigned int index; /* index into hosts, switches or bridges */
	unsigned int port;  /* index of the port, for a switch */
};

/* A cable. end[0] is a host or a switch's port, end[1] a switch's port or a bridge. Between two
 * switches, end[1] is the switch that comes first in the file. */
struct inc_topo_link {
	struct inc_topo_end end[2];
	unsigned int mtu; /* MTU of the IP packet, at both ends */
	double rate_mbit; /* rate that the cable can carry */
	bool has_wire;    /* the file describes a wire here, even if it adds no fault yet */
	struct inc_topo_wire wire;
};

/* A hash table from keys to numbers (topology_index.c). */
struct inc_topo_index {
	struct inc_topo_slot {
		uint32_t key;
		uint32_t value; /* number of the key, plus 1; 0: the entry is free */
	} * slots;
	size_t room, n;
};

struct inc_topology {
	char name[64];
	/* prefix length of every link's network, of IPv4 and of IPv6 */
	unsigned int prefix, prefix_ipv6;
	unsigned int mtu; /* MTU of links without an MTU in the file */
	double rate_mbit; /* rate of links without a rate; 0: the file has none */
	/* settings of queue pairs at ports that do not have them */
	struct inc_verbs_conf verbs;
	/* First the hosts that the file lists, then their further NICs, of which there are n_nics,
	 * then the hosts of the ports' subnets, and last the draining ones. The live ones are those
	 * of the file. n_hosts is the number of all these entries. */
	struct inc_topo_host *hosts;
	unsigned int n_hosts, n_listed_hosts, n_nics, n_live_hosts;
	struct inc_topo_switch *switches; /* those of the file, then the draining ones */
	unsigned int n_switches, n_live_switches;
	unsigned int n_leaves; /* number of switches with hosts */
	struct inc_topo_bridge *bridges;
	unsigned int n_bridges;
	struct inc_topo_link *links; /* those of the file, then those of what is draining */
	unsigned int n_links, n_live_links;
	/* hash tables that find the host, switch or bridge with a name or an address, but not a
	 * switch's port */
	struct inc_topo_index by_name, by_ip;
};

/* Returns the prefix length of a link's network that has this address. */
static inline unsigned int inc_topology_prefix(const struct inc_topology *topo, struct inc_addr ip)
{
	return inc_addr_is_ipv4(ip) ? topo->prefix : topo->prefix_ipv6;
}

/* Reads a file. Returns 0, or -errno with "file:line: field: text". */
int inc_topology_load(const char *path, struct inc_topology **topo, struct inc_err *err);
/* Does the same with a text in memory. name stands for the path in error messages. */
int inc_topology_parse(const char *name, const char *text, size_t len, struct inc_topology **topo,
		       struct inc_err *err);
void inc_topology_free(struct inc_topology *topo);
/* Writes what is doubtful in a topology, with the remedy, or "" if nothing is: two ports of a
 * switch in one network. Returns text. */
#define INC_TOPO_DOUBT_TEXT 256
const char *inc_topology_doubt(const struct inc_topology *topo, char text[INC_TOPO_DOUBT_TEXT]);
/* Whether a host or switch of a topology may have this name. */
bool inc_topology_is_name(const char *name);
/* Whether a port of a topology may have this name, in which a VLAN device has a dot. */
bool inc_topology_is_port_name(const char *name);

/* These find a node, or a port of a switch, by name or address, and return its index, or -1. Only
 * inc_topology_switch_by_name() also finds draining ones. */
int inc_topology_host_by_ip(const struct inc_topology *topo, struct inc_addr ip);
int inc_topology_host_by_name(const struct inc_topology *topo, const char *name);
/* Whether the file itself lists the host, or the host of this NIC. */
static inline bool inc_topology_is_listed(const struct inc_topology *topo, unsigned int host)
{
	return host < topo->n_listed_hosts + topo->n_nics;
}

/* Finds the NIC of this address among those of the host, which may drain. Returns its index, or -1.
 */
int inc_topology_nic_by_ip(const struct inc_topology *topo, unsigned int host, struct inc_addr ip);
/* Finds the NIC of this number of the host. Returns its index, or -1. */
int inc_topology_nic(const struct inc_topology *topo, unsigned int host, unsigned int rail);
int inc_topology_switch_by_name(const struct inc_topology *topo, const char *name);
int inc_topology_port_by_name(const struct inc_topo_switch *sw, const char *name);
/* Finds a draining host by its address. */
int inc_topology_draining_host(const struct inc_topology *topo, struct inc_addr ip);

/* ---- topology_merge.c: a file is read again while parts of the earlier one are in use ---- */

#define INC_TOPO_NOWHERE ((unsigned int)-1)

/*
 * The new indexes of the parts of a topology that is replaced. All arrays are by index in the old
 * topology. The caller first marks in the arrays of bool what is in use. inc_topology_merge() then
 * stores the new indexes, or INC_TOPO_NOWHERE for what the new topology lacks.
 */
struct inc_topo_map {
	bool *host_used, *switch_used, *port_used;
	unsigned int *hosts, *switches, *ports;
	/* the ports of switch s are at first_port[s] to first_port[s + 1] - 1 */
	unsigned int *first_port;
};

/* Allocates the arrays for this topology, in which nothing is in use yet. Returns 0 or -ENOMEM.
 * Even after an error inc_topo_map_free() is called. */
int inc_topo_map_init(struct inc_topo_map *map, const struct inc_topology *old);
void inc_topo_map_free(struct inc_topo_map *map);
static inline unsigned int *inc_topo_map_port(const struct inc_topo_map *map, unsigned int sw,
					      unsigned int port)
{
	return &map->ports[map->first_port[sw] + port];
}

/*
 * Replaces the topology `old` by the file's topology `topo`. Parts that are in use and that topo
 * lacks are appended to topo, where they drain. They keep their names and addresses, but no switch
 * leads to them, and no name or address finds them. A host stays the same if its name, address and
 * switch do; a port if its switch, name and address do; a switch if its name does. Returns 0 or
 * -ENOMEM, after which topo can only be freed.
 */
int inc_topology_merge(struct inc_topology *topo, const struct inc_topology *old,
		       struct inc_topo_map *map);
/* Copies a topology without what is draining. Returns NULL if there is no memory. */
struct inc_topology *inc_topology_copy(const struct inc_topology *topo);
/* Whether something in the topology drains. */
bool inc_topology_drains(const struct inc_topology *topo);

enum inc_topo_change { INC_TOPO_ADDED, INC_TOPO_REMOVED, INC_TOPO_CHANGED, INC_N_TOPO_CHANGES };
/* Calls fn once for each host, switch, port, subnet and link that differs between two files, with a
 * text such as "host h4 is added, 10.0.0.4 at s0". */
void inc_topology_compare(const struct inc_topology *old, const struct inc_topology *topo,
			  void (*fn)(void *arg, enum inc_topo_change change, const char *text),
			  void *arg);

#endif
