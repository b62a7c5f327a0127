/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One neighbour table for the kernels of all machines, which is possible because no two ports share
 * an address. It replaces userspace/neighbour.c.
 */
#ifndef SIM_NEIGHBOUR_H
#define SIM_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

/* Called before a run. */
void neighbour_begin(void);
/* Adds the MAC address of an IP address (network order). known: the kernel has that MAC address
 * from the beginning. */
void neighbour_add(uint32_t addr, const uint8_t mac[6], bool known);
/* The IP address gets another MAC address, which is announced on the link. The announcement may be
 * lost. A kernel without an entry for the neighbour ignores it. */
void neighbour_moves(uint32_t addr, const uint8_t mac[6]);

#endif
