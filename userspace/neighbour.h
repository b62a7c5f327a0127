/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The neighbours at the switch's ports, as the kernel's neighbour table and LLDP frames show them.
 * The MAC address of a peer is read from that table, and renewed there. If the peer is behind
 * a router, it is the router's MAC address. The daemon calls all functions on its only thread.
 */
#ifndef INC_NEIGHBOUR_H
#define INC_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <netinet/in.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"

struct event_base;

/*
 * Reads the MAC address that the kernel has for addr on the interface. Returns -ENOENT if it has
 * none, because the kernel has sent nothing to the neighbour or received no answer. Other errors
 * are netlink's. Waits for nothing but the kernel.
 */
int inc_neighbour_mac(uint32_t ifindex, struct inc_addr addr, uint8_t mac[6]);

/* The state of an address in the kernel's neighbour table. */
enum inc_neighbour_answer {
	INC_NEIGHBOUR_UNKNOWN, /* the kernel has not asked, or it could not be asked */
	INC_NEIGHBOUR_ASKED,   /* the kernel has asked, and waits for the answer */
	INC_NEIGHBOUR_SILENT,  /* no neighbour has answered */
	INC_NEIGHBOUR_KNOWN,
};
enum inc_neighbour_answer inc_neighbour_answer(uint32_t ifindex, struct inc_addr addr);

/*
 * Deletes the kernel's entry for addr on the interface, unless the neighbour has confirmed it
 * lately or it is permanent. The next packet to the neighbour then makes the kernel send an ARP
 * request, or for IPv6 a neighbour solicitation. With the entry, the kernel would use an outdated
 * address for seconds. Returns 0, or netlink's error.
 */
int inc_neighbour_forget(uint32_t ifindex, struct inc_addr addr);

/* Sends an empty datagram from the interface to addr, which makes the kernel ask for its MAC
 * address if it has no entry. Whether the datagram arrives does not matter. Returns 0 or -errno. */
int inc_neighbour_provoke(uint32_t ifindex, struct inc_addr addr);

/* An entry of the kernel's neighbour table. */
struct inc_neighbour {
	uint32_t ifindex;
	struct in_addr ip;
	uint8_t mac[6];
	bool stale; /* the neighbour has not confirmed the entry for some time */
};

/* Most entries that an answer about neighbours has, because its line has a limit. */
#define INC_NEIGHBOURS_SHOWN 6000

/* Reads the IPv4 entries of all interfaces that have a MAC address into *out, which the caller
 * frees. Returns their number, or -errno. */
int inc_neighbour_list(struct inc_neighbour **out);
/* Returns the entries of an interface as a JSON list, *room at most, which is reduced by their
 * number. */
json_t *inc_neighbour_json(const struct inc_neighbour *list, int n, uint32_t ifindex,
			   unsigned int *room);

/* ---- LLDP ---- */

struct inc_lldp_watch;

/* Begins to receive LLDP frames on the event loop. Returns 0, or -errno with the reason, for
 * example because the daemon has no CAP_NET_RAW. */
int inc_lldp_watch_start(struct event_base *base, struct inc_lldp_watch **out, struct inc_err *err);
/* w may be NULL. */
void inc_lldp_watch_stop(struct inc_lldp_watch *w);
/* Receives frames also at this interface. Does nothing if it has been called for it. */
void inc_lldp_watch_port(struct inc_lldp_watch *w, uint32_t ifindex);
/* Sends a frame from the interface, which introduces a port of a switch to the other end of the
 * cable. Errors are ignored, because the frame is only a help. */
void inc_lldp_introduce(const struct inc_lldp_watch *w, uint32_t ifindex, const char *name,
			const char *port);
/* Returns the valid frames of an interface as a JSON list. w may be NULL. */
json_t *inc_lldp_json(const struct inc_lldp_watch *w, uint32_t ifindex);

#endif
