/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program under test beside its reference. The loader's switch is attached to no port, and runs
 * in its own network namespace, packet by packet (BPF_PROG_TEST_RUN). Everything that a packet may
 * change is compared with ref_switch.
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

/* Functions that are called before and after each run of a program. before() is called when the
 * maps have the contents that the program will find. Both return 0, or -1 with the reason in
 * u->why. */
struct unit_watch {
	int (*before)(void *arg);
	/* out: the frame `in` after the run; md: the context of the run, NULL for the egress
	 * program */
	int (*after)(void *arg, const struct frame *in, const struct xdp_md *md, uint32_t ifindex,
		     uint32_t verdict, const struct frame *out);
	void *arg;
};

struct unit {
	struct inc_switch *sw;
	struct ref_switch ref;
	uint32_t port[UNIT_PORTS]; /* ifindex of p0, p1, ... in the test's namespace */
	int prog_fd;
	int counter_fd;
	int cpus;
	uint64_t *counter_buf; /* buffer of INC_CTR_MAX * cpus entries */
	struct ring_buffer *ring;
	struct inc_xdp_test *egress; /* the egress program as a plain XDP program */
	uint64_t copies;             /* number of copies that were compared */
	/* load the variant for CPUs that reorder stores; set before unit_start() */
	bool order_stores;
	/* load the programs with steering; set before unit_start() */
	bool steers;
	int cpu;                        /* the CPU of this process */
	int steer_to;                   /* with steering: the CPU of communicators that are added */
	const struct unit_watch *watch; /* functions to call at each run; may be NULL */
	bool hold_events; /* do not read the event ring, which then loses further events */
	int events;
	struct inc_event event[8]; /* events of the last packet */
	struct frame out_frame;    /* the last packet's frame after its run */
	struct ref_out want;       /* the reference's result for the last packet */
	uint64_t packets;
	char why[1024]; /* reason of the last failure */
};

/*
 * Makes a namespace with UNIT_PORTS veth pairs (p0-h0, ...), binds the process to one CPU and loads
 * the switch. Returns 0. On error it returns -1 and has printed the result of the test `name`: not
 * ok, or skip if the process lacks the permission.
 */
int unit_start(struct unit *u, const char *name, uint32_t rows, bool generic);
void unit_stop(struct unit *u);

/* Adds the communicator to the switch and the reference. Returns the reference's communicator, or
 * NULL with the reason in u->why. */
struct ref_comm *unit_add_comm(struct unit *u, const struct inc_comm_conf *spec);
int unit_remove_comm(struct unit *u, struct ref_comm *cm);
/* Sets a communicator's state as if all its peers had sent and received the first r chunks. */
void unit_reset(struct unit *u, struct ref_comm *cm, uint64_t r);
/* Sets the child's state to one inside a message (enum inc_open_message) of the collective desc. */
void unit_prime(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t open, uint32_t desc);

/* Runs the frame through program and reference, and compares the results, including the copies of a
 * result. Returns 0, or -1 with the difference in u->why. */
int unit_run(struct unit *u, const struct frame *f, uint32_t ifindex);
/* Runs the frame through the program only. Stores the program's verdict, and its frame in
 * u->out_frame. */
int unit_run_program(struct unit *u, const struct frame *f, const struct xdp_md *md,
		     uint32_t *verdict);
/* The number of entries of inc_conn_place. */
uint32_t unit_conn_places(const struct unit *u);
/* Reads the event ring into u->event and u->events. */
int unit_take_events(struct unit *u);
/* Called after a failure: copies the counters into the reference, so that the next test starts
 * without a difference. */
void unit_forgive(struct unit *u);
/* Compares the whole state of every communicator. */
int unit_compare_all(struct unit *u);
/* Fills in a communicator with ordinary values. Addresses derive from communicator and child.
 * Children are spread over ports 0..ports-1 in blocks. */
void unit_spec(const struct unit *u, struct inc_comm_conf *spec, uint32_t communicator,
	       uint32_t children, uint32_t ports, uint32_t payload, uint32_t slots);

/* Adds a parent to the communicator after its children, at this port. */
void unit_spec_parent(const struct unit *u, struct inc_comm_conf *spec, uint32_t port);

/* Data packet r of a child, or of the parent (child cfg.children). kind: INC_OPEN_SEND or
 * INC_OPEN_WRITE. The payload depends only on communicator, child and r, so a repetition is the
 * same packet. */
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

/*
 * compare.c: comparisons of the switch's maps with the reference. Each returns 0, or -1 with the
 * first difference in u->why.
 */

const char *unit_verdict_name(uint32_t verdict);

int compare_verdict(struct unit *u, const struct frame *in, uint32_t verdict);
int compare_read_counters(struct unit *u, uint64_t value[INC_CTR_MAX]);
int compare_counters(struct unit *u);
int compare_events(struct unit *u);
/* compares the communicator and all its connections */
int compare_comm(struct unit *u, const struct ref_comm *cm);
int compare_slot(struct unit *u, const struct ref_comm *cm, uint32_t slot);
int compare_contrib(struct unit *u, const struct ref_comm *cm, uint32_t child, uint64_t r);
/* compares a row of the parent's results */
int compare_passed(struct unit *u, const struct ref_comm *cm, uint64_t r);
int compare_result(struct unit *u, const struct ref_comm *cm, uint64_t r);
int compare_frame(struct unit *u, const char *what, const struct frame *have,
		  const struct frame *want);

/*
 * egress.c: runs the egress program. BPF_PROG_TEST_RUN refuses devmap programs, so a plain XDP
 * program around the same code runs here, on the switch's own maps.
 */

int egress_open(struct unit *u); /* returns 0, or -errno with the reason in u->why */
void egress_close(struct unit *u);
/* Makes one copy of u->out_frame for a port. Returns 0 or -errno. */
int egress_run(struct unit *u, uint32_t ifindex, struct frame *copy, uint32_t *verdict);
/* Makes the copies of u->out_frame, port by port as the devmap does, and compares each with the
 * reference. Returns 0, or -1 with the difference in why. */
int egress_copies(struct unit *u);
/* Makes the frame to the parent of u->out_frame, and compares it with the reference. */
int egress_partial(struct unit *u);

#endif
