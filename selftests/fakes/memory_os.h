/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replacements of functions of inc_os (lib/base/os.h). A test uses them on one thread.
 *
 * memory_os.c: time, random numbers and UDP sockets without a kernel. The clock stands still until
 * the test advances it, random numbers repeat in each run, and datagrams pass through memory.
 *
 * lossy_udp.c: a bad network in front of the kernel's UDP sockets. It splits datagrams that the
 * kernel has merged. It loses, repeats, delays and damages packets, as its seed decides. Packets
 * keep the IP IDs with which they were sent, so that a lost packet leaves a gap in the IDs, as on a
 * wire.
 */
#ifndef SELFTESTS_MEMORY_OS_H
#define SELFTESTS_MEMORY_OS_H

#include <stdint.h>

/* Replaces inc_os, and sets the clock and the random numbers to their start. No socket may be
 * open. */
void memory_os_begin(void);
void memory_os_pass_ns(uint64_t ns);

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
