/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single cases of the XDP program. Each case prepares its own communicators, runs packets and
 * removes the communicators. It returns 0, or -1 with the reason in u->why.
 */
#ifndef UNIT_CASES_H
#define UNIT_CASES_H

#include "lib/proto/desc.h"
#include "unit.h"

#define CASE_DESC INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 7)

typedef int case_fn(struct unit *u);

struct unit_case {
	const char *name;
	case_fn *run;
};

extern const struct unit_case cases_header[];   /* packets with exactly one fault */
extern const struct unit_case cases_protocol[]; /* order of packets, windows, acknowledgements */
extern const struct unit_case cases_link[];     /* several CPUs, MAC addresses, NAKs around a gap */
extern const struct unit_case cases_gap[];      /* contributions ahead of a gap */
extern const struct unit_case cases_reduce[]; /* sums, copies, collectives, several communicators */
extern const struct unit_case cases_types[];  /* operators, types, byte orders, pads */
extern const struct unit_case cases_tree[];   /* switches below the root of a tree */
/* bounds, carries, map entries that contradict each other */
extern const struct unit_case cases_edges[];
extern const struct unit_case cases_echo[];  /* echo requests */
extern const struct unit_case cases_tag[];   /* VLANs and priority tags */
extern const struct unit_case cases_marks[]; /* marks of congestion, and CNPs */

/* Run all cases, or those of a list, and report each. how: a suffix for the names of the cases. */
void cases_run_all(struct unit *u, const char *how);
void cases_run(struct unit *u, const struct unit_case *c, const char *how);

/* Runs a data packet of the child. */
int case_data(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t opcode,
	      uint32_t len, uint32_t desc, bool ackreq);
/* Runs a data packet of 16 bytes of the child, or of the parent, that has this TOS byte. */
int case_class(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t tos);
/* Sends an ACK that requests an ACK. */
int case_probe(struct unit *u, struct ref_comm *cm, uint32_t child, uint32_t psn);
int case_ack(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn);
/* Fills in an echo request to this address (network order). Each field that P-158 leaves free has
 * another value than a soft endpoint's. */
void case_echo(uint32_t to, struct frame_spec *s);
/* Adds a communicator with ordinary values. Returns NULL on failure. */
struct ref_comm *case_comm(struct unit *u, uint32_t children, uint32_t ports, uint32_t payload,
			   uint32_t slots);
/* Fails with an explanation if the last packet did not end on this counter. */
int case_expect(struct unit *u, enum inc_counter_id counter);

#define RUN(expr)                  \
	do {                       \
		if (expr)          \
			return -1; \
	} while (0)

#endif
