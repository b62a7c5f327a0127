/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks by which interface a packet has arrived. A UDP socket is bound to an address, and the
 * kernel delivers packets to that address from any interface. So a soft endpoint calls this on its
 * thread before it accepts a packet. RDMA devices receive packets of their own port only.
 *
 * SO_BINDTODEVICE is no alternative. With it the kernel would drop packets without a counter of
 * ours. A port that is deleted and created again would receive nothing. Results would leave by the
 * port even if the routes say otherwise.
 */
#ifndef INC_CHANNEL_INGRESS_H
#define INC_CHANNEL_INGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>
#include "lib/base/err.h"

struct inc_channel_ingress {
	char ifname[IF_NAMESIZE]; /* name of the port, as configured */
	/* The kernel's last answer: the indexes of the port and of its bridge, bond or team. The
	 * kernel is asked again after a second, and sooner if a packet has another index. 0: there
	 * is no answer yet, or no such interface. */
	unsigned int ifindex, master;
	/* time of the last question in inc_channel_ingress_ok(); 0: there was none */
	uint64_t asked_at_ns;
};

/* Asks the kernel for the interface at once, because another interface may have the port's name
 * later. Returns 0, also if there is no such interface, or -errno if the kernel cannot be asked. */
int inc_channel_ingress_init(struct inc_channel_ingress *in, const char *ifname,
			     struct inc_err *err);

/*
 * Whether a packet that arrived at an interface belongs to the port. It does if the interface is
 * the port itself. It also does if the interface is the bridge, bond or team of the port, because
 * the kernel does not show through which member the packet came. The same holds for the loopback
 * interface, because only processes of this machine send there.
 */
bool inc_channel_ingress_ok(struct inc_channel_ingress *in, unsigned int ifindex, uint64_t now_ns);

#endif
