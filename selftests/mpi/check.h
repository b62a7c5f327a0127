/* SPDX-License-Identifier: BSD-2-Clause */
/* The types, data and judgements that the parts of the MPI program `check` share. */
#ifndef INC_SELFTESTS_MPI_CHECK_H
#define INC_SELFTESTS_MPI_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>

#define MAX_COUNT 70001
#define MAX_BYTES (MAX_COUNT * 16)

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum kind {
	INTEGER, /* of C */
	NUMBER,  /* an integer without logical operators */
	BITS,
	LOGICAL,
	FLOAT,
	DOUBLE,
	COMPLEX_FLOAT,
	COMPLEX_DOUBLE,
	PAIR_INT,
	PAIR_FLOAT,
	PAIR_DOUBLE,
	PAIR_LONG,
};

struct type {
	const char *name;
	MPI_Datatype type;
	enum kind kind;
	int size; /* bytes of an element in memory */
};

struct op {
	const char *name;
	MPI_Op op;
	unsigned int kinds; /* bits of the kinds that have it */
};

extern int rank, ranks; /* of MPI_COMM_WORLD */
extern bool every;      /* make every combination, instead of one of each type and operator */
extern unsigned long calls, wrong;
extern uint8_t *input, *own, *expected; /* MAX_BYTES each */

/* Writes numbers that depend on rank, element and call. small: sums of them stay in range */
void fill(uint8_t *to, const struct type *t, int count, const struct op *o);
/* Checks own against expected: bit by bit, or within the bound of a sum of floats. */
void judge(const char *what, const struct type *t, const struct op *o, int count);
void complain(const char *what, const struct type *t, const char *op, int count, int i);

int rank_in(MPI_Comm comm);
/* Returns a communicator with the same ranks, on which a call by its PMPI name is MPI's own. Open
 * MPI's component serves such calls, too, where the environment has CHECK_COMPONENT. So this is a
 * new communicator then, because the component leaves the first calls of each to MPI. */
MPI_Comm mpi_alone(MPI_Comm comm);

/* The types and operators of reductions. The first types have every combination, and the others
 * only one of each operator. */
#define COMMON_TYPES 14
extern const struct type types[];
extern const struct op ops[];
extern const size_t n_types, n_ops;

/* check_blocks.c: these types and operators, collectives of vectors that consist of a block for
 * each rank, and nonblocking ones */
void check_reduce_scatters(MPI_Comm comm, const struct type *t, const struct op *o, int each);
void check_allgathers(MPI_Comm comm);
/* Rank 0 alone sends from the buffer into which it receives. The standard forbids that, but Open
 * MPI accepts it in these calls. The other ranks must not wait for rank 0. */
void check_equal_buffers(MPI_Comm comm);
void check_nonblocking(MPI_Comm comm);
/* Calls that the library gives to MPI as they are: those with operators and types of the program,
 * long double, intercommunicators, persistent and neighbourhood collectives. Also addresses from
 * MPI_BOTTOM, and a communicator that only its own ranks make. */
void check_others(void);
void check_huge(void);

#endif
