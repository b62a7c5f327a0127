/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch's data path, compiled natively from bpf/, with its maps. The programs and the loader's
 * code that fills the maps (loader/inc_comm.c and others, as they are) work on the same memory:
 * what stands here takes the place of libbpf's calls, of the kernel's helpers and of
 * loader/inc_attach.c. One CPU; orders between CPUs are selftests/orders' affair.
 */
#ifndef SIM_XDP_H
#define SIM_XDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"

#define XDP_PORTS 10 /* a digit tells them apart */
/* A port's interface has the port's place plus 1 as its number. Each time that it is made again,
 * its number grows by this. */
#define XDP_NUMBERS 16

/* What leaves by a port, and what goes to the slow path from there. */
struct xdp_out {
	void (*frame)(void *arg, unsigned int port, const uint8_t *frame, size_t len);
	/* false: nobody is there to take it */
	bool (*slow_path)(void *arg, unsigned int port, const uint8_t *frame, size_t len);
	/* an event waits in the ring */
	void (*event)(void *arg);
	void *arg;
};

struct xdp;

/* Once in a program, before all else. */
void xdp_open(void);
struct xdp *xdp_new(uint32_t max_comms, uint32_t max_connections, uint32_t max_rows,
		    unsigned int ports, const struct xdp_out *out);
void xdp_free(struct xdp *xdp);
struct inc_switch *xdp_switch(struct xdp *xdp);
/* The number that a port's interface begins with. */
uint32_t xdp_ifindex(unsigned int port);
/* The port whose interface has this number, or had it. */
static inline unsigned int xdp_place(uint32_t ifindex)
{
	return (ifindex - 1) % XDP_NUMBERS;
}
/* The interface is deleted: the kernel takes it out of the maps, and its program is gone. */
void xdp_delete(struct xdp *xdp, unsigned int port);
/* The interface is moved to another namespace: the kernel takes it out of the maps. */
void xdp_move(struct xdp *xdp, unsigned int port);
/* The interface is there again, with another number. If it was deleted, it has no program. If it
 * was moved, it has its program. */
void xdp_make(struct xdp *xdp, unsigned int port);
/* A switch with the interfaces of another one, on which no program runs. */
void xdp_inherit(struct xdp *xdp, const struct xdp *other);
/* The number that it has now; 0: there is none. */
uint32_t xdp_ifindex_now(const struct xdp *xdp, unsigned int port);
/* The id of its program; 0: none. */
uint32_t xdp_program_id(const struct xdp *xdp, unsigned int port);
/* A frame comes in at a port. */
void xdp_receive(struct xdp *xdp, unsigned int port, const uint8_t *frame, size_t len);
uint64_t xdp_counter(const struct xdp *xdp, enum inc_counter_id id);
/* Entries of the look-ups by which packets find a communicator. */
uint32_t xdp_entries(const struct xdp *xdp);
/* The ring of events: the next one, which is taken out; NULL: it is empty. */
const struct inc_event *xdp_take_event(struct xdp *xdp);
/* Whose ring has the descriptor. */
struct xdp *xdp_of_fd(int fd);

#endif
