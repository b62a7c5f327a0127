/* SPDX-License-Identifier: BSD-2-Clause */
/* Where on the link an IPv4 neighbour is: the kernel's neighbour table. */
#ifndef INC_NEIGHBOUR_H
#define INC_NEIGHBOUR_H

#include <stdint.h>
#include <netinet/in.h>

/*
 * The MAC address that the kernel holds for addr on the interface. -ENOENT where it holds none
 * (the neighbour has not been spoken to, does not answer, or is behind a router); other errors
 * are netlink's. Does not wait for anything but the kernel.
 */
int inc_neighbour_mac(uint32_t ifindex, struct in_addr addr, uint8_t mac[6]);

#endif
