/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A topology file (docs/control.md, "Topology"), read and checked. inc-controller computes routes
 * on it, and inc-lab builds it. All names are resolved to indexes. links[] has every link, even if
 * the file has no entry for it.
 */
#ifndef INC_TOPOLOGY_H
#define INC_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"

#define INC_TOPO_NAME_LEN                                                       \
	15 /* of hosts, switches and ports, because interfaces have these names \
	    */
#define INC_TOPO_NAME_MAX (INC_TOPO_NAME_LEN + 1)

#define INC_TOPO_MAX_HOSTS    16384
#define INC_TOPO_MAX_SWITCHES 1024
#define INC_TOPO_MAX_BRIDGES  1024
#define INC_TOPO_MAX_PORTS    64    /* of one switch */
#define INC_TOPO_MAX_PEERS    1024  /* of one port */
#define INC_TOPO_DEF_RATE     10000 /* Mbit/s, of a link without a rate in the file */

/* The faults that a link adds to its frames, in each direction. All zero: a plain cable. */
struct inc_topo_wire {
	double rate_mbit; /* 0: unlimited */
	double loss;      /* probabilities, 0 to 1 */
	double duplicate;
	double corrupt;
	double reorder;
	uint64_t seed;
};

struct inc_topo_host {
	char name[INC_TOPO_NAME_MAX];
	struct in_addr ip;
	unsigned int sw;   /* the switch to which the host is attached */
	unsigned int port; /* that switch's port */
	unsigned int link; /* the host's own cable, to that port or to the bridge before it */
};

/* A host or a switch that a port leads to. */
struct inc_topo_peer {
	bool to_switch;
	unsigned int index; /* into switches (true) or hosts (false) */
	unsigned int port;  /* of a peer that is a switch: the port that leads back to this
			     * switch */
};

struct inc_topo_port {
	char name[INC_TOPO_NAME_MAX];
	struct in_addr ip;
	struct inc_topo_peer *peers; /* one peer, or several behind a bridge */
	unsigned int n_peers;
	int bridge;        /* the bridge at the other end of the port's cable; -1: the peer is
			    * there */
	unsigned int link; /* the port's own cable */
};

struct inc_topo_switch {
	char name[INC_TOPO_NAME_MAX];
	bool root;
	bool has_mode; /* else the switch's own mode applies */
	enum inc_mode_of_switch mode;
	struct inc_topo_port *ports;
	unsigned int n_ports;
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
	unsigned int index; /* into hosts, switches or bridges */
	unsigned int port;  /* of a switch */
};

/* A cable. end[0] is a host or a switch's port, end[1] a switch's port or a bridge. Between two
 * switches, end[1] is the switch that comes first in the file. */
struct inc_topo_link {
	struct inc_topo_end end[2];
	unsigned int mtu; /* of the IP packet, at both ends */
	double rate_mbit; /* the rate that it can carry */
	bool has_wire;    /* the file has a wire here, even if the wire adds no fault (yet) */
	struct inc_topo_wire wire;
};

/* Hash table from keys to numbers (topology_index.c). */
struct inc_topo_index {
	struct inc_topo_slot {
		uint32_t key;
		uint32_t value; /* plus 1; 0: free */
	} * slots;
	size_t room, n;
};

struct inc_topology {
	char name[64];
	unsigned int prefix; /* length of every link's network */
	unsigned int mtu;    /* of links without an MTU in the file */
	double rate_mbit;    /* of links without a rate; 0: the file has none */
	struct inc_topo_host *hosts;
	unsigned int n_hosts;
	struct inc_topo_switch *switches;
	unsigned int n_switches;
	unsigned int n_leaves; /* switches with hosts */
	struct inc_topo_bridge *bridges;
	unsigned int n_bridges;
	struct inc_topo_link *links;
	unsigned int n_links;
	struct inc_topo_index by_name, by_ip; /* hosts, switches and bridges; the port of an end
					       * is not set */
};

/* Reads a file. 0, or -errno with "file:line: field: text". */
int inc_topology_load(const char *path, struct inc_topology **topo, struct inc_err *err);
/* Likewise, but parses text from memory; name stands for the path. */
int inc_topology_parse(const char *name, const char *text, size_t len, struct inc_topology **topo,
		       struct inc_err *err);
void inc_topology_free(struct inc_topology *topo);

/* Index, or -1. */
int inc_topology_host_by_ip(const struct inc_topology *topo, struct in_addr ip);
int inc_topology_host_by_name(const struct inc_topology *topo, const char *name);
int inc_topology_switch_by_name(const struct inc_topology *topo, const char *name);
int inc_topology_port_by_name(const struct inc_topo_switch *sw, const char *name);

#endif
