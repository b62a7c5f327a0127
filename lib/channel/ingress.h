/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks by which interface a packet has arrived. A UDP socket is bound to an address, and the
 * kernel delivers packets to that address from any interface. So a soft endpoint calls this on its
 * thread before it accepts a packet. RDMA devices receive packets of their own port only.
 *
 * SO_BINDTODEVICE is no alternative. The kernel would drop packets without a counter of ours. A
 * port that is deleted and created again would receive nothing. Results would leave by the port
 * even if the routes say otherwise.
 */
#ifndef INC_CHANNEL_INGRESS_H
#define INC_CHANNEL_INGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>

struct inc_channel_ingress {
	char ifname[IF_NAMESIZE]; /* as configured */
	/* The kernel's last answer. The kernel is asked again after a second, and sooner if a
	 * packet has another index. 0: no answer yet, or there is none. */
	unsigned int ifindex, master;
	uint64_t asked_at_ns; /* when inc_channel_ingress_ok() last asked; 0: it never has */
};

/* Asks the kernel for the interface at once, because another interface may have the name later. */
void inc_channel_ingress_init(struct inc_channel_ingress *in, const char *ifname);

/*
 * Whether a packet that arrived at an interface belongs to the port. True for the port itself. True
 * for the bridge, bond or team of the port as well, because the kernel does not show its member.
 * True also for the loopback interface, because only processes of this machine send there.
 */
bool inc_channel_ingress_ok(struct inc_channel_ingress *in, unsigned int ifindex, uint64_t now_ns);

#endif
