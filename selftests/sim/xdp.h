/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch's data path, compiled natively from bpf/, with its maps. The programs and the loader's
 * unchanged code that fills the maps (loader/inc_comm.c and others) work on the same memory. The
 * functions here replace libbpf, the kernel's helpers and loader/inc_attach.c. There is one CPU;
 * selftests/orders searches the orders between CPUs.
 */
#ifndef SIM_XDP_H
#define SIM_XDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"

#define XDP_PORTS 10 /* at most 10 ports, so that a port's name has one digit */
/* Distance between two numbers of one interface. A port's interface has at first the number of the
 * port plus 1 plus this distance, because interface 1 is loopback. Each time that the interface is
 * made again, its number grows by the distance. */
#define XDP_NUMBERS 16

/* Functions that receive frames that leave by a port, frames for the slow path, and events. */
struct xdp_out {
	void (*frame)(void *arg, unsigned int port, const uint8_t *frame, size_t len);
	/* receives a frame for the slow path; returns false if no AF_XDP socket accepts it */
	bool (*slow_path)(void *arg, unsigned int port, const uint8_t *frame, size_t len);
	/* called when an event waits in the ring */
	void (*event)(void *arg);
	void *arg;
};

struct xdp;

/* Called once in a program, before anything else. */
void xdp_open(void);
struct xdp *xdp_new(uint32_t max_comms, uint32_t max_connections, uint32_t max_rows,
		    unsigned int ports, const struct xdp_out *out);
void xdp_free(struct xdp *xdp);
struct inc_switch *xdp_switch(struct xdp *xdp);
/* The first number that a port's interface has. */
uint32_t xdp_ifindex(unsigned int port);
/* The port whose interface has or had this number. */
static inline unsigned int xdp_place(uint32_t ifindex)
{
	return (ifindex - 1) % XDP_NUMBERS;
}
/* Deletes the interface: the kernel removes it from the maps, and its program is gone. */
void xdp_delete(struct xdp *xdp, unsigned int port);
/* Moves the interface to another namespace, so that the kernel removes it from the maps. */
void xdp_move(struct xdp *xdp, unsigned int port);
/* The interface returns with another number. After xdp_delete() it has no program, after xdp_move()
 * it still has one. */
void xdp_make(struct xdp *xdp, unsigned int port);
/* Removes the program from all interfaces. */
void xdp_detach(struct xdp *xdp);
/* Gives a new switch the interfaces of another switch. No program is attached to them. */
void xdp_inherit(struct xdp *xdp, const struct xdp *other);
/* The current number of a port's interface; 0: the port has no interface. */
uint32_t xdp_ifindex_now(const struct xdp *xdp, unsigned int port);
/* The id of the program on a port's interface; 0: there is no program. */
uint32_t xdp_program_id(const struct xdp *xdp, unsigned int port);
/* A frame arrives at a port. Returns false if the frame goes on to the kernel's sockets, because
 * there is no program, or the program passes it. */
bool xdp_receive(struct xdp *xdp, unsigned int port, const uint8_t *frame, size_t len);
uint64_t xdp_counter(const struct xdp *xdp, enum inc_counter_id id);
/* The number of entries in the maps by which packets find a communicator. */
uint32_t xdp_entries(const struct xdp *xdp);
/* Removes the next event from the ring of events; NULL: it is empty. */
const struct inc_event *xdp_take_event(struct xdp *xdp);
/* The switch whose ring has this descriptor. */
struct xdp *xdp_of_fd(int fd);

/*
 * watch.c: the rules for frames that leave a switch in passthrough mode. The switch acknowledges
 * what it has stored, a result or partial sum leaves when it is complete and is always the same,
 * and checksums and source address are right. A frame that breaks a rule fails the run.
 */

struct watch {
	const char *name;    /* name of the switch, for errors */
	unsigned int number; /* number of the switch in its tree */
	struct xdp *xdp;
};

/* Starts the checks for a new run, in which no frame was sent yet. */
void watch_begin(void);
/* Checks a frame that leaves the switch. */
void watch_frame(const struct watch *watch, unsigned int port, const uint8_t *frame, size_t len);

#endif
