/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams between processes, as TCP has them: in order, late, whole or not at all. The linker puts
 * what is in tcp.c in the place of socket(), connect(), accept4(), send(), recv(), poll() and their
 * like, for the product and for libevent. Called from tasks; a process' address is its machine's.
 * How much of what is asked for a call gives, how late it is there and when a buffer is full come
 * from the seed.
 */
#ifndef SIM_TCP_H
#define SIM_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include "task.h"

/* Before a run: no stream is there. After it: what streams held is free. */
void tcp_begin(void);
void tcp_end(void);
/* Nothing gets through between this machine and others until then: it comes late. */
void tcp_cut(uint32_t addr, uint64_t until_ns);
/* The machine is gone for good: nothing of what it has, or is sent, arrives, and nobody is told. */
void tcp_vanish(uint32_t addr);
/* Streams of this machine's processes that are open. */
unsigned int tcp_open(uint32_t addr);

#endif
