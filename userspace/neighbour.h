/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and renews the MAC address of an IPv4 peer in the kernel's neighbour table. If the peer is
 * behind a router, this is the router's MAC address. */
#ifndef INC_NEIGHBOUR_H
#define INC_NEIGHBOUR_H

#include <stdint.h>
#include <netinet/in.h>

/*
 * Reads the MAC address that the kernel has for addr on the interface. Returns -ENOENT if it has
 * none, because the kernel has sent nothing to the neighbour or received no answer. Other errors
 * are netlink's. Waits for nothing but the kernel.
 */
int inc_neighbour_mac(uint32_t ifindex, struct in_addr addr, uint8_t mac[6]);

/* The state of an address in the kernel's neighbour table. */
enum inc_neighbour_answer {
	INC_NEIGHBOUR_UNKNOWN, /* the kernel has not asked, or it could not be asked */
	INC_NEIGHBOUR_ASKED,   /* the kernel has asked, and waits for the answer */
	INC_NEIGHBOUR_SILENT,  /* no neighbour has answered */
	INC_NEIGHBOUR_KNOWN,
};
enum inc_neighbour_answer inc_neighbour_answer(uint32_t ifindex, struct in_addr addr);

/*
 * Deletes the kernel's entry for addr on the interface, unless the neighbour has confirmed it
 * lately or it is permanent. The next packet to the neighbour then makes the kernel send an ARP
 * request. With the entry, the kernel would use an outdated address for seconds. Returns 0, or
 * netlink's error.
 */
int inc_neighbour_forget(uint32_t ifindex, struct in_addr addr);

/* Sends an empty datagram from the interface to addr, which makes the kernel send an ARP request if
 * it has no entry. Whether the datagram arrives does not matter. Returns 0 or -errno. */
int inc_neighbour_provoke(uint32_t ifindex, struct in_addr addr);

#endif
