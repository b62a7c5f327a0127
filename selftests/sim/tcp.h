/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP streams between processes: bytes arrive in order, but late, in pieces or not at all. An end
 * of a stream is a pair of AF_UNIX sockets. The process reads and writes one of them by the
 * system's own calls. tcp.c has the other one, which is called the middle. It relays the bytes
 * between the middles of the two ends. tcp_begin() replaces the streams of inc_os (lib/base/os.h).
 * The seed decides how late bytes arrive, in which pieces, and how small a send buffer is.
 */
#ifndef SIM_TCP_H
#define SIM_TCP_H

#include <stdint.h>

struct process;

/* tcp_begin() starts a run without streams. tcp_end() frees all streams after the run. */
void tcp_begin(void);
void tcp_end(void);
/* Takes what processes have written or closed. Called each time that a process has run, or was
 * killed. */
void tcp_pump(void);
/* Delays all segments between this machine and others until the given time. */
void tcp_cut(uint32_t addr, uint64_t until_ns);
/* The machine disappears for good: no segment from it or to it arrives, and no peer receives a
 * reset. */
void tcp_vanish(uint32_t addr);
/* The peer of this end receives a reset when the process closes the end, as with SO_LINGER. */
void tcp_reset_at_close(int fd);

#endif
