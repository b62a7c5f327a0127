/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which interfaces a port's packets come in by. A UDP socket is bound to an address, and the kernel
 * delivers what is sent to that address whatever interface it arrives at. So a soft endpoint asks
 * here, on its thread, before it believes a packet; RDMA devices see their own port's packets only.
 *
 * SO_BINDTODEVICE would not do: the kernel would drop without a counter of ours, a port that is
 * deleted and made again would stay deaf, and results would leave by the port even where the routes
 * say otherwise.
 */
#ifndef INC_TERM_INGRESS_H
#define INC_TERM_INGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>

struct inc_term_ingress {
	char ifname[IF_NAMESIZE]; /* as configured */
	/* As the kernel said last, which is asked again after a second, and sooner when a packet
	 * names another index; 0: has not said, or there is none. */
	unsigned int ifindex, master;
	uint64_t asked_at_ns; /* by inc_term_ingress_ok(); 0: no packet has come */
};

/* Asks the kernel for the interface at once, because another interface may have the name later. */
void inc_term_ingress_init(struct inc_term_ingress *in, const char *ifname);

/*
 * Whether a packet that arrived at an interface came in by the port. True for the port itself; for
 * the bridge, bond or team that the port belongs to, because the kernel does not show the member;
 * and for the loopback interface, because only this machine's own processes send there.
 */
bool inc_term_ingress_ok(struct inc_term_ingress *in, unsigned int ifindex, uint64_t now_ns);

#endif
