/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad network in front of the kernel's UDP sockets, as a function of inc_os (lib/base/os.h). The
 * network splits datagrams that the kernel has merged. It loses, repeats, delays and damages
 * packets, as its seed decides. Packets keep the IP IDs with which they were sent, so that a lost
 * packet leaves a gap in the IDs, as on a wire. A test uses it on one thread.
 */
#ifndef SELFTESTS_LOSSY_UDP_H
#define SELFTESTS_LOSSY_UDP_H

#include <stdint.h>

/* Faults of received packets: chances in 1,000 for each packet. */
struct lossy_faults {
	unsigned int lose, repeat, delay, damage;
	unsigned int part; /* chance that the packets of a datagram arrive as separate datagrams */
};

/* Replaces the receive function of inc_os, or sets other faults. Packets that are delayed now are
 * lost. */
void lossy_set(const struct lossy_faults *faults, uint64_t seed);
/* How many packets this network has lost, repeated, delayed or damaged since lossy_set(). */
uint64_t lossy_done(void);

#endif
