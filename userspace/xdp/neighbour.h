/* SPDX-License-Identifier: BSD-2-Clause */
/* Where on the link an IPv4 peer is: the kernel's neighbour table. Of a peer behind a router that
 * is where the router is. */
#ifndef INC_NEIGHBOUR_H
#define INC_NEIGHBOUR_H

#include <stdint.h>
#include <netinet/in.h>

/*
 * The MAC address that the kernel holds for addr on the interface. -ENOENT where it holds none
 * (the neighbour has not been spoken to, or does not answer); other errors are netlink's. Does not
 * wait for anything but the kernel.
 */
int inc_neighbour_mac(uint32_t ifindex, struct in_addr addr, uint8_t mac[6]);

/*
 * Makes the kernel forget what it holds for addr on the interface, unless it has heard from there
 * lately or has been told so: whoever speaks to the neighbour next makes it ask the link anew. By
 * itself it would go on for seconds with an address that is out of date. 0, or netlink's error.
 */
int inc_neighbour_forget(uint32_t ifindex, struct in_addr addr);

#endif
