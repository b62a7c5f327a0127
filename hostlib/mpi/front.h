/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The front end for MPI: collectives of MPI programs go through the switch where that is possible
 * and faster. docs/mpi.md has the design.
 *
 * The symbols that replace those of MPI, for C and for Fortran, are in preload.c. component.c has
 * the functions that Open MPI calls in place of its own, so that no library need be preloaded. A
 * call's path is chosen in decide.c, and run.c runs a collective by the switch. Communicators are
 * known to team.c, and types to types.c. All of them call MPI by its PMPI names. Any thread of the
 * program may be the caller, but on one communicator MPI allows one call at a time.
 */
#ifndef INC_HOSTLIB_MPI_FRONT_H
#define INC_HOSTLIB_MPI_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>
#include "hostlib/include/inccl.h"
#include "hostlib/include/inccl_fallback.h"

/* Results of up to so many bytes are kept for leaders that lack them. Vectors of blocks that are no
 * larger are reduced as a whole. */
#define FRONT_KEEP_BYTES ((size_t)64 << 10)
#define FRONT_TEXT_BYTES 320 /* room for a reason */
#define FRONT_CLASSES    48  /* classes of sizes: powers of two */
#define FRONT_COUNTED    3   /* calls of a trial that count, on each path */

/* bytes that a call of MPI moves at once, because MPI counts them by an int */
#define FRONT_PIECE_BYTES ((size_t)1 << 30)

enum front_kind {
	FRONT_ALLREDUCE,
	FRONT_REDUCE,
	FRONT_BCAST,
	FRONT_BARRIER,
	/* from here on: the vector consists of a block for each rank */
	FRONT_REDUCE_SCATTER,
	FRONT_REDUCE_SCATTER_BLOCK,
	FRONT_ALLGATHER,
	FRONT_ALLGATHERV,
	FRONT_KINDS,
	/* from here on: the switch serves none of them, and they are only counted */
	FRONT_IALLREDUCE = FRONT_KINDS,
	FRONT_IREDUCE,
	FRONT_IBCAST,
	FRONT_IBARRIER,
	FRONT_COUNTED_KINDS
};
extern const char *const front_kind_names[FRONT_COUNTED_KINDS];

/* Why MPI serves a call, and no measurement has chosen it. */
enum front_reason {
	FRONT_NO_REASON, /* the switch can serve the call */
	FRONT_NONBLOCKING,
	FRONT_TYPE,
	FRONT_OPERATOR,
	FRONT_PRODUCT,
	FRONT_NOTHING,
	FRONT_LARGE,
	FRONT_BLOCKS,
	FRONT_UNEVEN,
	FRONT_ARGUMENTS,
	/* from here on: of the communicator, and not of the call */
	FRONT_FIRST,
	FRONT_INTER,
	FRONT_ONE_RANK,
	FRONT_FOREIGN,
	FRONT_ONE_HOST,
	FRONT_NO_GROUP,
	FRONT_LOST,
	FRONT_REASONS
};

enum front_path { FRONT_SWITCH, FRONT_MPI, FRONT_PATHS };

struct front_team;

/* A call as the program has made it. Members that the collective lacks are 0. */
struct front_call {
	enum front_kind kind;
	const void *send;
	void *recv;        /* the buffer of a Bcast */
	int count;         /* of a block, where all ranks have one of this size */
	MPI_Datatype type; /* of recv, and of send except in an Allgather */
	MPI_Op op;
	int root;
	MPI_Comm comm;
	const int *counts; /* elements of each rank's block; they are equal in an Allgatherv */
	const int *displs; /* extents from recv to each rank's block */
	int send_count;    /* of an Allgather */
	MPI_Datatype send_type;
	/* runs the call without the switch, and returns what MPI returns */
	int (*pass)(const struct front_call *call);
	void *module;             /* for pass */
	struct front_team **team; /* that of comm, or NULL: an attribute of comm points to it */
};

/* The whole vector of a call, of all blocks, in the terms of libinccl. All ranks of a call find the
 * same. */
struct front_shape {
	enum inccl_dtype dtype;
	enum inccl_op op;
	size_t elements; /* number of elements of dtype */
	size_t bytes;
	int count; /* number of elements of MPI's type */
};

/* A collective of the leaders, with blocks of equal size. */
struct front_exchange {
	enum front_kind kind;
	struct front_shape shape;
	MPI_Datatype type;
	MPI_Op op;
	const void *in; /* contribution */
	void *out;      /* where the result is written; NULL: this leader needs none */
	int root;       /* node that gives or gets; 0 for collectives without one */
};

/* Measurements of one class of sizes, by which its path is chosen. */
struct front_choice {
	uint32_t trial;     /* calls of the trial that runs */
	uint32_t rest;      /* calls until the next trial begins; 0: a trial runs */
	uint32_t next_rest; /* the rest after the trial that runs */
	enum front_path path;
	double took_s[FRONT_PATHS][FRONT_COUNTED]; /* the calls of the trial that count */
};

enum front_use { FRONT_NEW, FRONT_ON, FRONT_OFF };

/* The front end's knowledge of a communicator. The ranks of one machine are a node. The first of
 * them is the node's leader, and the leaders are the members of the group of libinccl. */
struct front_team {
	struct front_team *next;
	enum front_use use;
	enum front_reason off; /* why its use is FRONT_OFF */
	unsigned int calls;    /* calls before the team is made, which MPI served */
	bool closed;
	bool native_floats; /* the switches add floats as they are */
	int rank, ranks;
	MPI_Comm node; /* ranks of this machine; MPI_COMM_NULL: this one alone */
	int node_rank, node_ranks;
	MPI_Comm leaders; /* MPI_COMM_NULL on ranks that are not leaders */
	int nodes;        /* number of nodes */
	int *node_of;     /* node and place in it of each rank; owned */
	int *parts;       /* counts and offsets of the parts of the node's ranks; owned */
	bool even;        /* all nodes have the same number of ranks */
	bool sorted;      /* and the ranks of a node follow each other */
	char job[32];     /* name of the group of the leaders */
	struct inccl_group *group;
	struct inccl_communicator *comm;
	/* owns the communicator; NULL on ranks that are not leaders */
	struct inccl_fallback *fallback;
	const struct front_exchange *exchange; /* the present collective of the leaders */
	bool repeated; /* all leaders have repeated it by MPI, so the switch is lost */
	char reason[FRONT_TEXT_BYTES]; /* why this leader has lost the switch */
	uint8_t *room[2];              /* contribution, and result; owned */
	size_t room_bytes[2];
	char name[MPI_MAX_OBJECT_NAME];
	struct front_choice choice[FRONT_KINDS][FRONT_CLASSES];
};

/* team.c */
/* Whether collectives may go through the switch. It is set in MPI_Init and the same on all
 * ranks. */
extern bool front_on;
/* The path of all calls (INCCL_MPI_CHOICE), or -1 if measurements choose. */
extern int front_fixed;
/* Agrees with all ranks whether collectives may go through the switch. */
void front_init(void);
/* Describes the settings that must be equal on all ranks. */
void front_describe(char text[FRONT_TEXT_BYTES]);
/* Reads INCCL_MPI_CHOICE. On failure @why gets the reason. */
void front_read_choice(char why[FRONT_TEXT_BYTES]);
/* Begins to serve calls, after all ranks have agreed. frees: front_forget() is not called. A team
 * is freed when MPI deletes the attributes of its communicator, on all ranks. */
void front_begin(bool frees);
/* All ranks call it, and one of them prints why MPI runs alone. That rank ends the program if this
 * is an error (INCCL_MPI_REQUIRE). */
void front_alone(bool prints, const char *name, const char *why);
void front_finalize(void);
/* Returns what is known of a call's communicator. */
struct front_team *front_team(const struct front_call *call);
/* Makes the group of the team, together with all ranks of the communicator. Its use is FRONT_ON
 * or FRONT_OFF then. */
void front_attach(struct front_team *team, MPI_Comm comm);
/* Frees what belongs to a communicator. All its ranks do so. */
void front_forget(MPI_Comm comm);
/* Ends this leader's communicator and leaves its group. If the team has a fallback, all leaders do
 * so together. */
void front_leave(struct front_team *team);
/* All leaders call it after MPI has repeated a collective. The switch is not used any more, and
 * rank 0 prints the reason of the first leader that has one. */
void front_lost(struct front_team *team);

/* Ends the program, because MPI or memory has failed under the front end. */
_Noreturn void front_die(const char *what);

/* types.c */
/* Asks MPI for the sizes of its types, in MPI_Init. */
void front_types_init(void);
/* Whether the elements of a type lie one behind the other from the buffer's address on. */
bool front_is_contiguous(MPI_Datatype type);
/* Finds the terms of libinccl for a call, or the reason why the switch cannot serve it. */
enum front_reason front_shape(const struct front_call *call, struct front_shape *shape);
/* Makes +0 of the values that are -0, because MPI takes both for equal. */
void front_unsign_zeros(void *elements, size_t n, enum inccl_dtype dtype);

/* run.c */
/* Runs a call by the switch, together with all ranks of the team. */
void front_run(struct front_team *team, const struct front_call *call,
	       const struct front_shape *shape);
/* Lets MPI move messages of this process. */
void front_progress(MPI_Comm comm);
/* Adds the fallback to this leader's communicator, together with all leaders. Returns 0, or an
 * error with a reason. */
int front_fallback(struct front_team *team, char why[FRONT_TEXT_BYTES]);

/* decide.c */
/* Runs a call, by the switch or by MPI. Returns what MPI returns. */
int front_call(const struct front_call *call);
/* Counts a nonblocking collective, which MPI runs. */
void front_nonblocking(enum front_kind kind);

/* report.c */
void front_count(enum front_kind kind, enum front_path path, size_t bytes, double took_s);
/* Counts a call that MPI serves for a reason. */
void front_count_reason(enum front_kind kind, enum front_reason reason);
/* Notes the path that all ranks have chosen for a class of sizes, and the times that they compared.
 */
void front_count_choice(enum front_kind kind, unsigned int class, enum front_path path,
			const double typical_s[FRONT_PATHS]);
void front_report(void);
unsigned int front_class(size_t bytes);

#endif
