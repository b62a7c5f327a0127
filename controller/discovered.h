/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A topology that is made of what switches see of each other and of hosts, for discover.c, on its
 * only thread. Two ports are on one cable, or on one bridge, if one of them has the other in its
 * neighbour table or has received its LLDP frame. Such ports form a segment. All other neighbours
 * are hosts.
 */
#ifndef INC_DISCOVERED_H
#define INC_DISCOVERED_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "lib/topology/topology.h"

#define INC_FOUND_NONE ((unsigned int)-1)

/* The place of a port in the topology. */
enum inc_found_shape {
	INC_FOUND_OUT,    /* it is left out */
	INC_FOUND_CABLE,  /* it has one peer */
	INC_FOUND_BRIDGE, /* it has several listed peers behind a bridge */
	INC_FOUND_SUBNET, /* it has a subnet of hosts, which are not listed */
};

struct inc_found_port {
	unsigned int sw; /* index of its switch */
	struct inc_msg_place said;
	const json_t *neighbours, *introduced;
	unsigned int segment; /* the same number for all ports of a segment */
	unsigned int next;    /* the next port of the segment; the ports of a segment form a ring */
	enum inc_found_shape shape;
	char why[160];                  /* why the port is left out */
	char bridge[INC_TOPO_NAME_MAX]; /* name of its bridge; "": none */
};

struct inc_found_host {
	char name[INC_TOPO_NAME_MAX];
	struct in_addr ip;
	uint8_t mac[6];
	unsigned int port;           /* index of the port at which it was seen */
	bool stale;                  /* it did not confirm its address lately */
	bool named;                  /* LLDP has the name; otherwise it is made of the address */
	char chassis[INC_LLDP_LINE]; /* chassis that LLDP has for it; "": none */
	bool listed;                 /* the file lists the host */
};

struct inc_found_switch {
	const char *name;
	unsigned int part;  /* the same number for all switches that reach each other */
	unsigned int depth; /* most hops from here to a switch with hosts */
	unsigned int hosts; /* number of its hosts */
	bool root;
	bool out; /* it is left out, because nothing connects it with the others */
};

struct inc_found {
	struct inc_found_switch *switches;
	struct inc_found_port *ports;
	struct inc_found_host *hosts;
	unsigned int n_switches, n_ports, n_hosts, room_hosts;
	unsigned int n_bridges; /* number of the next bridge's name */
	json_t *notes;          /* texts, which become comments at the top of the file */
};

/* discovered.c */
/* Finds the segments and hosts in the switches' answers, {switch: data}, which must outlive f.
 * Returns 0 or -errno. The caller calls inc_found_free() in any case. */
int inc_found_read(struct inc_found *f, const json_t *answers);
void inc_found_free(struct inc_found *f);
void inc_found_note(struct inc_found *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Returns an address as text, which is valid until the next call. */
const char *inc_found_ip(struct in_addr ip);
static inline const char *inc_found_switch_of(const struct inc_found *f,
					      const struct inc_found_port *port)
{
	return f->switches[port->sw].name;
}

/* discovered_file.c */
/* Makes a topology file of the answers, as a JSON value. An object may have a comment, which is its
 * member INC_FOUND_NOTE. An object that is nothing else stands for what is left out. notes:
 * comments about the whole. Returns 0, or -errno with the reason, for example because no host was
 * seen. */
#define INC_FOUND_NOTE "#"
int inc_discovered_topology(const json_t *answers, json_t **topology, json_t **notes,
			    struct inc_err *err);

#endif
