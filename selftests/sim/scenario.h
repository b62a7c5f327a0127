/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scenario: what there is in a run, and which faults happen, as lines of text. A seed draws its
 * scenario (scenario_draw.c), or a file has it. Each kind of line has a format, which prints and
 * reads it. docs/simulation.md describes the language.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lib/base/err.h"

/*
 * _(KIND, format). In a format a word stands for itself, and the others are values. A number is
 * %N. A rate is %R, as a percentage. A time is %T. A mode of a switch is %M. A switch (s0) is %S, a
 * host (h0) is %H, and a port (s0.p1) is %p. A process is %P: a rank (j0r1), a switch's daemon (s0)
 * or the controller (ctl). A direction of a cable (h0>s0) is %C.
 */
#define SCENARIO_LINES(_)                                                        \
	_(SEED, "seed %N")                                                       \
	_(FAULTS, "faults until %T")                                             \
	_(KEYS, "keys")                                                          \
	_(FIGURES, "figures over HTTP")                                          \
	_(PATIENT, "patient controller")                                         \
	_(HOSTILE, "hostile peers %N")                                           \
	_(FORGER, "forger")                                                      \
	_(ROOT, "switch %S")                                                     \
	_(SWITCH, "switch %S below %S")                                          \
	_(MODE, "mode of %S is %M")                                              \
	_(NAMED, "topology names mode of %S")                                    \
	_(OWN_MODE, "daemon of %S has mode %M")                                  \
	_(THREADS, "daemon of %S has %N threads")                                \
	_(HIDES, "daemon of %S reports no MAC addresses")                        \
	_(DEVICES, "switch %S has RDMA devices")                                 \
	_(STRANGER, "stranger at %S")                                            \
	_(HOST, "host %H at %S")                                                 \
	_(DEVICE, "host %H has an RDMA device")                                  \
	_(JOB, "job %N ranks %N rounds %N calls %N communicators %N at once %N") \
	_(OPTIONS, "job %N payload %N window %N message packets %N timeout %T")  \
	_(CHANNELS, "job %N channels %N")                                        \
	_(ORDER, "job %N in network order")                                      \
	_(FALLBACK, "job %N falls back")                                         \
	_(DELAY, "cable %C delay %T jitter %T")                                  \
	_(LOSS, "cable %C loses %R in bursts of %N")                             \
	_(FAULTY, "cable %C repeats %R damages %R delays %R by %T")              \
	_(CABLE_CUT, "cable %C cut from %T to %T")                               \
	_(NO_XMIT, "port %p loses what XDP sends until %T")                      \
	_(DATABASE, "database kills %R")                                         \
	_(PACKET_KILL, "before packet %N kill %P")                               \
	_(PACKET_CUT, "before packet %N cut %S for %T")                          \
	_(PACKET_CABLE, "before packet %N cut cable %C for %T")                  \
	_(PAUSE, "at %T pause %P for %T")                                        \
	_(STOP, "at %T stop %P for %T")                                          \
	_(CUT_OFF, "at %T cut off %P for %T")                                    \
	_(KILL, "at %T kill %P")                                                 \
	_(HOST_OFF, "at %T switch off %H")                                       \
	_(MEMORY, "at %T fail allocation %N of %P")                              \
	_(BREAK, "at %T RDMA device at %p fails for %T")                         \
	_(END, "at %T end %S for %T")                                            \
	_(DELETE, "at %T delete %p for %T")                                      \
	_(AWAY, "at %T move away %p for %T")                                     \
	_(DOWN, "at %T take down %p for %T")                                     \
	_(DELETE_BESIDE, "when daemon is away, after %T delete %p for %T")       \
	_(AWAY_BESIDE, "when daemon is away, after %T move away %p for %T")      \
	_(DOWN_BESIDE, "when daemon is away, after %T take down %p for %T")      \
	_(HOST_MAC, "at %T new MAC address of %H")                               \
	_(PORT_MAC, "at %T new MAC address of %p")

enum scenario_kind {
#define _(KIND, format) SCENARIO_##KIND,
	SCENARIO_LINES(_)
#undef _
		SCENARIO_KINDS
};

#define SCENARIO_VALUES 8
#define SCENARIO_MOST   300

struct scenario_line {
	enum scenario_kind kind;
	unsigned int number; /* number of the line in its file; 0: it was drawn */
	uint64_t value[SCENARIO_VALUES];
};

struct scenario {
	const char *path; /* the file; NULL: the scenario was drawn */
	unsigned int n;
	struct scenario_line line[SCENARIO_MOST];
};

/* The values of %P, %p and %C are made of numbers. An end of a cable is the number of a switch, or
 * that of a host plus 16. */
#define SCENARIO_CONTROLLER      0
#define SCENARIO_SWITCH(n)       (0x100 | (n))
#define SCENARIO_RANK(job, n)    (0x200 | (job) << 4 | (n))
#define SCENARIO_PORT(sw, n)     ((sw) << 4 | (n))
#define SCENARIO_CABLE(from, to) ((from) << 8 | (to))
#define SCENARIO_HOST_END(n)     (16 + (n))

/* Adds a line with values of its format. */
void scenario_add_values(struct scenario *s, enum scenario_kind kind, const uint64_t *values,
			 unsigned int n);
#define scenario_add(s, kind, ...)                                             \
	scenario_add_values(s, kind, (const uint64_t[]){0, ##__VA_ARGS__} + 1, \
			    sizeof((const uint64_t[]){0, ##__VA_ARGS__}) / 8 - 1)

/* Does the line name a fault that happens before a certain packet? */
static inline bool scenario_is_at_packet(enum scenario_kind kind)
{
	return kind >= SCENARIO_PACKET_KILL && kind <= SCENARIO_PACKET_CABLE;
}

const char *scenario_format(enum scenario_kind kind);
/* Returns -EINVAL. The error names the file and the line. */
int scenario_error(const struct scenario *s, const struct scenario_line *l, struct inc_err *err,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void scenario_print(const struct scenario *s, FILE *f);
/* Reads a file. An error names the file, the line and the word. */
int scenario_read(struct scenario *s, const char *path, struct inc_err *err);
/* Draws the scenario of a seed. */
void scenario_draw(struct scenario *s, uint64_t seed);
/* scenario_devices.c: adds RDMA devices to the lines that were drawn. */
void scenario_draw_devices(struct scenario *s, uint64_t seed);

#endif
