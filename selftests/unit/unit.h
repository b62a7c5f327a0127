/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program under test beside its reference: the loader's switch, unattached, in a
 * network namespace of its own, run packet by packet (BPF_PROG_TEST_RUN), and everything
 * that a packet may touch compared with ref_switch.
 */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <stdbool.h>
#include <stdint.h>
#include "loader/inc_loader.h"
#include "loader/inc_raw.h"
#include "ref_switch.h"
#include "report.h"

#define UNIT_PORTS 4

struct ring_buffer;
struct inc_xdp_test;

/* Somebody who looks on at each program's run: before it, when maps are what it will find, and
 * after it. 0, or -1 with u->why. */
struct unit_watch {
	int (*before)(void *arg);
	/* out: what was left of the frame in; md: as it was given, NULL for the egress leaf */
	int (*after)(void *arg, const struct frame *in, const struct xdp_md *md, uint32_t ifindex,
		     uint32_t verdict, const struct frame *out);
	void *arg;
};

struct unit {
	struct inc_switch *sw;
	struct ref_switch ref;
	uint32_t port[UNIT_PORTS]; /* ifindex of p0.. in the namespace */
	int prog_fd;
	int counter_fd;
	int cpus;
	uint64_t *counter_buf; /* [INC_CTR_MAX * cpus] */
	struct ring_buffer *ring;
	struct inc_xdp_test *egress; /* the egress leaf as a plain XDP program */
	uint64_t copies;             /* compared */
	bool order_stores;           /* as on a CPU that reorders stores; set before unit_start() */
	const struct unit_watch *watch; /* NULL: nobody */
	bool hold_events;               /* leave them in the ring, where they get lost */
	int events;
	struct inc_event event[8]; /* of the last packet */
	struct frame out_frame;    /* what the program left of the last packet */
	struct ref_out want;       /* what the reference made of it */
	uint64_t packets;
	char why[1024]; /* of the last failure */
};

/*
 * A new namespace with UNIT_PORTS veth pairs (p0-h0, ...), the process on one CPU, the switch
 * loaded. 0, or -1 with the line of the test called name already printed: not ok, or skip
 * where this process may not.
 */
int unit_start(struct unit *u, const char *name, uint32_t rows, bool generic);
void unit_stop(struct unit *u);

/* Adds the communicator to switch and reference, returns its reference or NULL (why). */
struct ref_comm *unit_add_comm(struct unit *u, const struct inc_comm_conf *spec);
int unit_remove_comm(struct unit *u, struct ref_comm *cm);
/* The state of a communicator through whose first r chunks everybody has passed. */
void unit_reset(struct unit *u, struct ref_comm *cm, uint64_t r);
/* The child is inside a message (enum inc_open_message) of the collective desc. */
void unit_prime(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t open, uint32_t desc);

/* Runs the frame through both and compares, copies of a result included. 0, or -1 with the
 * difference in why. */
int unit_run(struct unit *u, const struct frame *f, uint32_t ifindex);
/* Runs it through the program alone: its verdict, and u->out_frame. */
int unit_run_program(struct unit *u, const struct frame *f, const struct xdp_md *md,
		     uint32_t *verdict);
/* Entries of inc_conn_place. */
uint32_t unit_conn_places(const struct unit *u);
/* What stands in the event ring, into event and events. */
int unit_take_events(struct unit *u);
/* After a failure: the reference takes over the counters, so that the next test starts even. */
void unit_forgive(struct unit *u);
/* Compares every communicator's whole state. */
int unit_compare_all(struct unit *u);
/* A communicator with ordinary values: addresses by communicator and child, children shared out
 * over ports 0..ports-1 in blocks. */
void unit_spec(const struct unit *u, struct inc_comm_conf *spec, uint32_t communicator,
	       uint32_t children, uint32_t ports, uint32_t payload, uint32_t slots);

/* Adds a parent behind the children, at this port. */
void unit_spec_parent(const struct unit *u, struct inc_comm_conf *spec, uint32_t port);

/* Data packet r of a child, or of the parent (child cfg.children). kind: INC_OPEN_SEND or
 * INC_OPEN_WRITE. Bytes depend on (communicator, child, r) alone, so a repeat is the same packet.
 */
struct unit_packet {
	uint64_t r;
	uint8_t opcode;
	uint32_t len;
	uint32_t desc;
	bool ackreq;
	bool solicited;
};
void unit_data_spec(const struct ref_comm *cm, uint32_t child, const struct unit_packet *p,
		    struct frame_spec *spec, uint8_t payload[INC_MAX_PAYLOAD]);
void unit_data(const struct ref_comm *cm, uint32_t child, const struct unit_packet *p,
	       struct frame *f);
void unit_ack_spec(const struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn,
		   struct frame_spec *spec);
void unit_ack(const struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn,
	      struct frame *f);

#endif
