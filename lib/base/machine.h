/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State machines: a table has the steps that each state allows, and every step is checked against
 * it and logged. An object's state is assigned from inc_machine_step() alone, in the one function
 * of its machine that also does what every entry into a state needs.
 */
#ifndef INC_MACHINE_H
#define INC_MACHINE_H

#include <stdint.h>

/* The bit of a state in inc_machine.steps: a step to this state is allowed. */
#define INC_STEP(state) (1u << (state))

struct inc_machine {
	const char *what; /* name of the objects that have this machine, such as "communicator" */
	unsigned int n;   /* number of states, 32 at most */
	const char *const *name;
	const uint32_t *steps; /* for each state: a bit for each state that may follow it */
};

/*
 * Checks and logs a step, and returns the new state, to. A step that the table does not allow is an
 * error of the program. It is logged as an error and made all the same, because the caller has
 * acted on it already. who: the object's name, for the log.
 */
unsigned int inc_machine_step(const struct inc_machine *m, const char *who, unsigned int from,
			      unsigned int to);

#endif
