/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collectives that end without the switch if need be (inccl_fallback.h).
 *
 * fallback.c runs calls. recover.c waits for the switch, and finds out after a failure whether any
 * rank has the result. questions.c carries the ranks' questions and answers over TCP. Only the
 * thread of questions.c runs beside the caller.
 */
#ifndef INCCL_FALLBACK_PRIVATE_H
#define INCCL_FALLBACK_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"
#include "hostlib/include/inccl_fallback.h"
#include "lib/base/awake.h"
#include "lib/base/err.h"

/* bytes of a result that one answer carries at most */
#define INCCL_PEERS_CHUNK_BYTES 65536
/* Time limit of a question. Longer limits are on the clock of lib/base/awake.h, which must be read
 * several times a second. It is read between questions only, so a question takes less than half a
 * second. */
#define INCCL_PEERS_ASK_MS 400

enum inccl_ask {
	/* Has the rank the result of this collective? If it has not, it gives the collective up. */
	INCCL_ASK_RESULT = 1,
	INCCL_ASK_BYTES,  /* bytes of the result, from an offset on */
	INCCL_ASK_STATUS, /* how far is the rank? This changes nothing */
};

enum inccl_has {
	/* The rank has no result of the collective. After INCCL_ASK_RESULT it never gets one. */
	INCCL_HAS_NONE,
	INCCL_HAS_RESULT,
	/* The rank had the result, and cannot give it any more. Then another rank can. */
	INCCL_HAS_HAD,
};

/* Both structs go over the wire, in little-endian order. */
struct inccl_question {
	uint32_t magic;
	uint32_t ask;
	uint8_t token[16];
	uint64_t number; /* of the collective, counted from 1 */
	uint64_t offset, bytes;
};

struct inccl_answer {
	uint32_t magic;
	uint32_t has;   /* enum inccl_has */
	uint32_t lost;  /* 1: this rank has lost the switch */
	uint32_t bytes; /* bytes of the result that follow the answer */
	uint64_t begun; /* number of the collective that this rank has begun last */
	uint64_t ended; /* number of the collective whose result this rank has, and got last */
};

_Static_assert(sizeof(struct inccl_question) == 48, "the question on the wire");
_Static_assert(sizeof(struct inccl_answer) == 32, "the answer on the wire");

struct inccl_peers;

/* Gives the answer to a question, and up to INCCL_PEERS_CHUNK_BYTES of a result. */
typedef void inccl_answer_fn(void *arg, const struct inccl_question *question,
			     struct inccl_answer *answer, uint8_t *data);

/* Listens, exchanges the addresses of all ranks by opts->gather(), and asks the next rank whether
 * it can be reached. A thread of the peers calls fn. The errno of a rank that cannot take part is
 * in early, which is 0 otherwise. If one rank fails, all ranks do. */
int inccl_peers_open(const struct inccl_communicator *comm, const struct inccl_fallback_opts *opts,
		     int early, inccl_answer_fn *fn, void *arg, struct inccl_peers **out,
		     struct inc_err *err);
/* Stops answering. peers may be NULL. */
void inccl_peers_close(struct inccl_peers *peers);

/*
 * Asks a rank, and copies the bytes that the answer carries to data. timeout_ms:
 * INCCL_PEERS_ASK_MS at most. Returns 0; -ECONNRESET if the
 * rank's process does not exist any more; or -ETIMEDOUT, after which the caller may ask again.
 */
int inccl_peers_ask(struct inccl_peers *peers, int rank, const struct inccl_question *question,
		    struct inccl_answer *answer, void *data, unsigned int timeout_ms);

/* ---- fallback.c and recover.c ---- */

/* State of a collective on this rank. */
enum inccl_result_state {
	RESULT_RUNNING,
	/* This rank has the whole result, which other ranks may read at `data`. */
	RESULT_SHARED,
	/* This rank has what the collective gives it, which is of no use for another rank. */
	RESULT_OWN,
	/* The framework has repeated the collective, so a rank that asks must repeat it as well. */
	RESULT_REPEATED,
};

struct inccl_result {
	uint64_t number;
	enum inccl_result_state state;
	bool is_held;        /* data is not the caller's yet */
	const uint8_t *data; /* may be NULL if bytes are 0 */
	size_t bytes;
	uint8_t *room; /* of keep_bytes */
};

/* How another rank has answered the questions about one collective. */
struct inccl_asked {
	bool answered;
	bool had;       /* INCCL_HAS_HAD */
	bool was_short; /* it had a result, and gave less than was asked for */
	/* Why the rank will never give the result: -ECONNRESET, or -EPROTO for a defect of the
	 * program; 0: it may. Another rank may still give it. */
	int error;
	const char *what; /* has happened with the rank, if there is an error */
	/* time of the first question without an answer, on the clock `awake`; 0: none */
	uint64_t silent_at_ns;
};

struct inccl_fallback {
	pid_t maker;          /* process that created the object */
	pthread_mutex_t lock; /* protects begun to result, which the peers' thread reads */
	uint64_t begun;
	uint64_t ended;    /* number of the last collective with a result */
	uint64_t given_up; /* UINT64_MAX: none */
	bool lost;         /* this rank has lost the switch */
	struct inccl_result result[2];

	struct inccl_communicator *comm; /* NULL once the switch is lost */
	/* the properties that the check of a call reads, also after a loss */
	struct inccl_communicator *facts;
	struct inccl_fallback_opts opts;
	struct inccl_peers *peers;
	int rank, ranks;
	/* no rank will ever complete a collective on the switch again */
	bool settled;
	uint8_t *copy; /* of a contribution; of copy_bytes */
	size_t copy_bytes;
	char reason[600];
	char text[64];
	/* This rank has failed for ever, and the reason names the rank that is the cause. It
	 * changes under the lock. */
	bool has_failed;
	struct inccl_asked *asked; /* of each rank */
	/* the clock of the time limits, and of the times below */
	struct inc_awake awake;
	/* the look at the other ranks during a wait */
	int look_at;
	uint64_t look_again_at_ns, waiting_since_ns, all_begun_at_ns;
};

/* recover.c */
/* Gives the answer to another rank's question. arg is the fallback. */
inccl_answer_fn inccl_fallback_answer;
/* Ends the communicator, so that the other ranks fail as well. */
void inccl_fallback_lose(struct inccl_fallback *f, const char *reason);
/* The call in the terms of libinccl. */
struct inccl_call inccl_fallback_call_of(const struct inccl_fallback_call *c);
/* Runs a collective of so many bytes on the switch. The switch is lost if that fails. */
int inccl_fallback_by_switch(struct inccl_fallback *f, const struct inccl_fallback_call *c,
			     size_t bytes);
/*
 * Asks all other ranks for the result of a collective. first: the only rank that can have the whole
 * result, or -1. That rank is asked first, because a rank that is asked gives the collective up.
 * Returns 1 if one had the result, of which
 * `bytes` are at `to` then. Returns 0 if all have given the collective up. Otherwise this rank has
 * failed for ever, and the reason names the rank that is the cause. The error is -ECONNRESET if a
 * rank is gone, and none of the others has the result; or -EPROTO if a rank has a result of another
 * size, or has gone on without one.
 */
int inccl_fallback_ask_all(struct inccl_fallback *f, uint64_t number, int first, uint8_t *to,
			   size_t bytes);
/* Waits until all other ranks have the result of a collective, which they may fetch here. A rank
 * that is gone needs none. can_be_given_up: returns -ECANCELED if this rank gives the result up
 * meanwhile, or has done so. */
int inccl_fallback_wait_for_others(struct inccl_fallback *f, uint64_t number, bool can_be_given_up);

#endif
