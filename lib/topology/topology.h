/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A topology file (docs/control.md, "Topology"), read and checked: inc-controller
 * computes routes on it, inc-lab builds it. Everything is resolved to indexes; every
 * link is in links[], whether the file says something about it or not.
 */
#ifndef INC_TOPOLOGY_H
#define INC_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/err.h"

#define INC_TOPO_NAME_LEN 15 /* of hosts, switches and ports: they name interfaces */
#define INC_TOPO_NAME_MAX (INC_TOPO_NAME_LEN + 1)

#define INC_TOPO_MAX_HOSTS    1024
#define INC_TOPO_MAX_SWITCHES 256
#define INC_TOPO_MAX_PORTS    64 /* of one switch */

/* What a link does to its frames, in each direction. All zero: a plain cable. */
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
	unsigned int sw;   /* the switch it is attached to, */
	unsigned int port; /* that switch's port, */
	unsigned int link; /* and the link between */
};

struct inc_topo_port {
	char name[INC_TOPO_NAME_MAX];
	struct in_addr ip;
	bool to_switch; /* peer: index into switches (true) or hosts (false) */
	unsigned int peer;
	unsigned int peer_port; /* of a switch: its port whose peer is this switch */
	unsigned int link;
};

struct inc_topo_switch {
	char name[INC_TOPO_NAME_MAX];
	bool root;
	struct inc_topo_port *ports;
	unsigned int n_ports;
};

/* End b is always a switch's port; end a is a host or, in a tree, a switch's port. */
struct inc_topo_link {
	bool a_is_switch;
	unsigned int a;      /* index into hosts or switches */
	unsigned int a_port; /* where a is a switch */
	unsigned int b;
	unsigned int b_port;
	unsigned int mtu; /* of the IP packet, at both ends */
	bool has_wire;    /* the file has a wire here, be it one without faults (yet) */
	struct inc_topo_wire wire;
};

struct inc_topology {
	char name[64];
	unsigned int prefix; /* length of every link's network */
	unsigned int mtu;    /* where a link says nothing */
	struct inc_topo_host *hosts;
	unsigned int n_hosts;
	struct inc_topo_switch *switches;
	unsigned int n_switches;
	struct inc_topo_link *links;
	unsigned int n_links;
};

/* 0 or -errno with "file:line: field: text". */
int inc_topology_load(const char *path, struct inc_topology **topo, struct inc_err *err);
/* The same from memory; name stands for the path. */
int inc_topology_parse(const char *name, const char *text, size_t len, struct inc_topology **topo,
		       struct inc_err *err);
void inc_topology_free(struct inc_topology *topo);

/* Index, or -1. */
int inc_topology_host_by_ip(const struct inc_topology *topo, struct in_addr ip);
int inc_topology_host_by_name(const struct inc_topology *topo, const char *name);
int inc_topology_switch_by_name(const struct inc_topology *topo, const char *name);

#endif
