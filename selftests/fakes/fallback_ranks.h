/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All that a fallback (inccl_fallback.h) has around it: the collectives of the switch, those of the
 * framework, and time. Ranks are threads that take turns, so a seed repeats the order of all that
 * happens. Time passes only while all ranks wait. They ask each other over real TCP. A test says
 * how each operation on the switch ends on each rank. The framework ends the test if ranks differ
 * in their calls, and if no rank can go on.
 */
#ifndef FAKE_FALLBACK_RANKS_H
#define FAKE_FALLBACK_RANKS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/fallback/fallback.h"

#define JOB_KEEP_BYTES 256
#define MOST_RANKS     4
#define MOST_CALLS     6
/* A call has two operations on the switch at most: the collective, and the barrier behind it. */
#define OPERATIONS (2 * MOST_CALLS)
/* Calls of the framework: those above, and those that create and destroy the fallback. */
#define FRAMES (MOST_CALLS + 4)

/* How an operation ends on a rank. */
enum ending {
	ARRIVES,      /* the result arrives as soon as the ranks that it needs have begun */
	STALLS,       /* nothing ever arrives */
	FAILS,        /* the start or the wait returns an error, at once or after a while */
	ARRIVES_LATE, /* the result arrives, but after the rank has been asked, or after late_ns */
	FAILS_AFTER,  /* the result is written, and the wait returns an error */
	DIES,         /* the rank's process ends after late_ns */
};

/* Whether the rank loses the switch by this ending. */
static inline bool is_failure(enum ending ending)
{
	return ending != ARRIVES && ending != ARRIVES_LATE;
}

/* A collective of all ranks, on the switch or in the framework. */
struct round {
	struct inccl_fallback_call call;
	unsigned int begun; /* a bit for each rank */
	uint8_t *part[MOST_RANKS];
};

struct member {
	int rank;
	struct inccl_fallback *fallback;
	struct inccl_group group;
	struct inccl_communicator comm;
	unsigned int repeats; /* calls of repeat() */
	unsigned int losses;  /* calls of lost() */
	char error[200];

	/* of the fakes */
	bool (*ready)(struct member *m); /* when the rank can go on; NULL: at until_ns */
	uint64_t until_ns;
	bool has_ended;
	unsigned int calls, operations, frames;
	struct round *frame;   /* the framework's call in which the rank waits */
	struct round *pending; /* the operation on the switch */
	enum ending ending;
	unsigned int variant; /* of the ending */
	/* time at which the pending operation began, and its time limit */
	uint64_t begun_at_ns, limit_ns;
	void *recv; /* where its result goes */
	const char *comm_error;
	bool comm_ended;
};

extern struct job {
	int ranks;
	uint32_t seed;    /* of the order in which ranks take turns */
	const char *text; /* of a failure: the job */
	/* A wait for an answer takes no real time, because a rank is silent now. */
	bool has_silence;
	/* the least length of a pause, so that a long wait takes few questions */
	uint64_t pause_ns;
	uint64_t late_ns, limit_ns;
	/* All ranks stand still for so long at this time; 0: never. */
	uint64_t stand_at_ns, stand_ns;
	/* of the fallback that a rank creates next */
	unsigned int unreachable_ms, timeout_ms;
	bool leave_early;

	/* of the fakes */
	unsigned int serial; /* number of the job */
	uint32_t lots;
	uint64_t began_at_ns;
	struct member member[MOST_RANKS];
	struct round on_switch[OPERATIONS], in_framework[FRAMES];
} job;

/* The calls that the ranks make, and how their operations on the switch end. */
extern struct plan {
	unsigned int calls;
	struct planned {
		enum inccl_collective collective;
		size_t count;
		int root;
		bool in_place;
		bool is_refused; /* floats have no such operator */
	} call[MOST_CALLS];
	enum ending ending[OPERATIONS][MOST_RANKS];
} plan;

/* Prepares a job. The plan stays as it is. */
void job_prepare(int ranks, uint32_t seed);
/* Prepares a job of 2 ranks, and a plan with one call. */
void job_prepare_two(enum inccl_collective collective, size_t count);
/* Runs a function on each rank. Checks that all ranks have made the same calls of the framework. */
void job_run(void (*rank_main)(struct member *m));
/* Prepares and runs the plan. No rank may lose the switch without a reason. */
void job_run_plan(int ranks, uint32_t seed, const char *text);
/* Runs the plan with all endings that its operations can have, except DIES. Returns the number of
 * jobs that this has taken in all. */
unsigned int job_run_endings(int ranks, const char *text);
/* Checks that the jobs have left no descriptor and no thread. A test calls it at its end. */
void job_check_left(void);
/* Runs jobs in a process of their own, because one that fails cannot go on, and neither can one
 * with a rank that DIES. Returns the process's status, which is 0 if all is right. */
int job_in_a_process(void (*run)(void), unsigned int limit_s);
/* Ends the process with a line, and with what the ranks did. */
void job_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define job_check(condition) \
	((condition) ? (void)0 : job_fail("%s:%d: %s", __FILE__, __LINE__, #condition))

/* ---- calls of a rank ---- */

/* Creates the fallback, and returns its error or ends the test. */
int job_open(struct member *m, size_t keep_bytes, const char *address);
void job_create(struct member *m);
/* Makes a call of the plan. Checks the contents, and that the fallback keeps no more than it may.
 * Returns the call's error. */
int job_call(struct member *m, unsigned int number);
/* Makes all calls, of which none may fail, from the creation to the end. */
void job_all_calls(struct member *m);
/* Is a child of the rank, which may call nothing, until the pipe's other end is closed. */
void job_be_a_child(struct member *m, int fd) __attribute__((noreturn));
/* Lets no question be answered for so long. */
void job_be_silent(struct member *m, unsigned int ms);
/* Waits for so long, or until a condition holds. */
void job_pause_ms(struct member *m, unsigned int ms);
void job_wait(struct member *m, bool (*ready)(struct member *m));
/* Whether the other one of two ranks has ended. */
bool job_other_has_ended(struct member *m);
uint64_t job_now_ms(void);

/* ---- between the fakes ---- */

extern _Atomic uint64_t job_now_ns;
/* The rank of this thread. NULL: the thread takes no turns, because it answers questions. */
extern __thread struct member *me;

/* Lets any rank go on. This one can go on once it is ready, or at until_ns. */
void job_pass_turn(bool (*ready)(struct member *m), uint64_t until_ns);
/* Ends the process of this thread's rank: its connections are closed, and it does nothing more. The
 * thread never returns, so the job must be the last one of the test's process. */
_Noreturn void job_die(void);
/* Draws a number below another one. */
uint32_t job_draw(uint32_t below);

/* The functions of struct inccl_fallback_opts, whose context is the rank. */
int job_gather(void *context, const void *mine, void *all, size_t bytes);
int job_repeat(void *context, const struct inccl_fallback_call *call);
void job_progress(void *context);
void job_lost(void *context, const char *reason);

#endif
