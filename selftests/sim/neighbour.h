/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernels' neighbour tables, all in one: no two ports have an address in common. It takes the
 * place of userspace/xdp/neighbour.c; a daemon that makes its kernel ask the link (userspace/xdp/
 * whereabouts.c) does so through the socket calls of tree_kernel.c.
 */
#ifndef SIM_NEIGHBOUR_H
#define SIM_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

/* Before a run. */
void neighbour_begin(void);
/* Who has the address (network order), and whether the kernel knows it from the beginning. */
void neighbour_add(uint32_t addr, const uint8_t mac[6], bool known);
/* Who has the address has another MAC address from now on, and announces it; the announcement may
 * be lost, and a kernel that knows nothing of the neighbour does not take it. */
void neighbour_moves(uint32_t addr, const uint8_t mac[6]);
/* The kernel asks the link, and hears the answer, unless one of the two is lost. */
void neighbour_ask(uint32_t addr);

#endif
