/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling before a sleep. A thread that waits for packets polls for a short time, because to wake
 * it costs as much as a small collective. It gives way to other threads between its polls, and
 * stops polling where polls are in vain, or where another thread needs the CPU for long.
 *
 * One thread at a time uses a struct inc_spin:
 *
 *	while (nothing has arrived)
 *		if (inc_spin_polls(&spin))
 *			inc_spin_give_way(&spin);
 *		else
 *			sleep();
 *	inc_spin_arrived(&spin);
 */
#ifndef INC_SPIN_H
#define INC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* Default of the longest time that a thread spends on polls before it sleeps. */
#define INC_SPIN_DEF_US 50
#define INC_SPIN_MAX_US 1000

struct inc_spin {
	uint64_t poll_ns; /* time limit for the polls of one wait; 0: no wait polls */
	/* The thread waits for threads of this machine, which mostly run while it gives way. So
	 * every wait polls, even if the last one did so in vain or gave the CPU away for long. */
	bool for_neighbours;
	uint64_t began_at_ns; /* time when this wait began to poll; 0: it has not polled yet */
	/* time since began_at_ns in which other threads used the CPU; it does not count against
	 * poll_ns */
	uint64_t given_ns;
	bool done;         /* this wait polls no more */
	unsigned int skip; /* number of the next waits that do not poll */
	/* number of waits that will not poll after the next wait that polls in vain */
	unsigned int skips;
	/* No wait polls before resume_at_ns, because another thread has used the CPU for long. The
	 * next such pause takes pause_ns. */
	uint64_t resume_at_ns, pause_ns;
};

/* Initializes the state of a thread's polling. poll_ns: time limit for the polls of one wait; 0: no
 * polls. */
void inc_spin_init(struct inc_spin *s, uint64_t poll_ns);
/* Whether the thread should poll once more, instead of going to sleep until something arrives. */
bool inc_spin_polls(struct inc_spin *s);
/* Gives way to other threads that can run on this CPU. */
void inc_spin_give_way(struct inc_spin *s);
/* Call this when something has arrived, which ends the present wait. */
void inc_spin_arrived(struct inc_spin *s);

#endif
