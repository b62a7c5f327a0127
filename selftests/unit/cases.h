/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single cases of the XDP program. Each prepares communicators of its own, runs packets and removes
 * the communicators. Returns 0, or -1 with the reason in u->why.
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

extern const struct unit_case cases_header[];   /* one packet with one fault */
extern const struct unit_case cases_protocol[]; /* order, windows, acknowledgements */
extern const struct unit_case cases_link[];     /* CPUs, MAC addresses, NAKs around a gap */
extern const struct unit_case cases_reduce[];   /* sums, copies, collectives, communicators */
extern const struct unit_case cases_types[];    /* operators, types, byte orders, pads */
extern const struct unit_case cases_tree[];     /* switches below the root */
/* bounds, carries, map entries that contradict each other */
extern const struct unit_case cases_edges[];

/* Runs all cases and reports each. how: the suffix of their names. */
void cases_run_all(struct unit *u, const char *how);

/* Runs a data packet of the child; cm may be NULL. */
int case_data(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t opcode,
	      uint32_t len, uint32_t desc, bool ackreq);
int case_ack(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn);
/* Adds a communicator with ordinary values. */
struct ref_comm *case_comm(struct unit *u, uint32_t children, uint32_t ports, uint32_t payload,
			   uint32_t slots);
/* Fails with a text if the last packet did not end on this counter. */
int case_expect(struct unit *u, enum inc_counter_id counter);

#define RUN(expr)                  \
	do {                       \
		if (expr)          \
			return -1; \
	} while (0)

#endif
