// SPDX-License-Identifier: BSD-2-Clause
/* Finds the types, operators and sizes of libinccl for a call of MPI. Ranks of one call must find
 * the same, so nothing here depends on addresses or on the state of a rank. */
#include <limits.h>
#include "hostlib/mpi/front.h"

/* The operators that MPI defines for a class of types. */
enum {
	ARITHMETIC = 1 << 0, /* SUM, PROD, MIN, MAX */
	BITWISE = 1 << 1,
	LOGICAL = 1 << 2,
	INDEXED = 1 << 3, /* MINLOC, MAXLOC */
	COMPLEX = 1 << 4, /* SUM, of two floats */
	C_INTEGER = ARITHMETIC | BITWISE | LOGICAL,
	INTEGER = ARITHMETIC | BITWISE,
};

#define SIGNED(type)   (sizeof(type) == 8 ? INCCL_INT64 : INCCL_INT32)
#define UNSIGNED(type) (sizeof(type) == 8 ? INCCL_UINT64 : INCCL_UINT32)

static const struct {
	MPI_Datatype type;
	enum inccl_dtype dtype;
	int operators;
} types[] = {
	{MPI_DOUBLE, INCCL_FLOAT64, ARITHMETIC},
	{MPI_FLOAT, INCCL_FLOAT32, ARITHMETIC},
	{MPI_INT, INCCL_INT32, C_INTEGER},
	{MPI_LONG, SIGNED(long), C_INTEGER},
	{MPI_UNSIGNED, INCCL_UINT32, C_INTEGER},
	{MPI_UNSIGNED_LONG, UNSIGNED(long), C_INTEGER},
	{MPI_LONG_LONG, INCCL_INT64, C_INTEGER},
	{MPI_UNSIGNED_LONG_LONG, INCCL_UINT64, C_INTEGER},
	{MPI_INT32_T, INCCL_INT32, C_INTEGER},
	{MPI_UINT32_T, INCCL_UINT32, C_INTEGER},
	{MPI_INT64_T, INCCL_INT64, C_INTEGER},
	{MPI_UINT64_T, INCCL_UINT64, C_INTEGER},
	{MPI_SHORT, INCCL_INT16, C_INTEGER},
	{MPI_UNSIGNED_SHORT, INCCL_UINT16, C_INTEGER},
	{MPI_INT16_T, INCCL_INT16, C_INTEGER},
	{MPI_UINT16_T, INCCL_UINT16, C_INTEGER},
	{MPI_SIGNED_CHAR, INCCL_INT8, C_INTEGER},
	{MPI_UNSIGNED_CHAR, INCCL_UINT8, C_INTEGER},
	{MPI_INT8_T, INCCL_INT8, C_INTEGER},
	{MPI_UINT8_T, INCCL_UINT8, C_INTEGER},
	{MPI_AINT, SIGNED(MPI_Aint), INTEGER},
	{MPI_OFFSET, SIGNED(MPI_Offset), INTEGER},
	{MPI_COUNT, SIGNED(MPI_Count), INTEGER},
	{MPI_BYTE, INCCL_UINT8, BITWISE},
	{MPI_C_BOOL, INCCL_UINT8, LOGICAL},
	{MPI_C_FLOAT_COMPLEX, INCCL_FLOAT32, COMPLEX},
	{MPI_C_DOUBLE_COMPLEX, INCCL_FLOAT64, COMPLEX},
	{MPI_2INT, INCCL_INT32_INDEX, INDEXED},
	{MPI_FLOAT_INT, INCCL_FLOAT32_INDEX, INDEXED},
	{MPI_LONG_INT, sizeof(long) == 8 ? INCCL_INT64_INDEX : INCCL_INT32_INDEX, INDEXED},
	{MPI_DOUBLE_INT, INCCL_FLOAT64_INDEX, INDEXED},
	/* Fortran's */
	{MPI_DOUBLE_PRECISION, INCCL_FLOAT64, ARITHMETIC},
	{MPI_REAL, INCCL_FLOAT32, ARITHMETIC},
	{MPI_INTEGER, INCCL_INT32, INTEGER},
	{MPI_LOGICAL, INCCL_INT32, LOGICAL},
	{MPI_COMPLEX, INCCL_FLOAT32, COMPLEX},
	{MPI_DOUBLE_COMPLEX, INCCL_FLOAT64, COMPLEX},
	{MPI_REAL4, INCCL_FLOAT32, ARITHMETIC},
	{MPI_REAL8, INCCL_FLOAT64, ARITHMETIC},
	{MPI_INTEGER4, INCCL_INT32, INTEGER},
	{MPI_INTEGER8, INCCL_INT64, INTEGER},
	{MPI_2INTEGER, INCCL_INT32_INDEX, INDEXED},
};

static const struct {
	MPI_Op op;
	enum inccl_op inccl;
	int of; /* classes of types that have the operator */
} operators[] = {
	{MPI_SUM, INCCL_SUM, ARITHMETIC | COMPLEX},
	{MPI_MAX, INCCL_MAX, ARITHMETIC},
	{MPI_MIN, INCCL_MIN, ARITHMETIC},
	{MPI_PROD, INCCL_PROD, ARITHMETIC},
	{MPI_LAND, INCCL_LAND, LOGICAL},
	{MPI_LOR, INCCL_LOR, LOGICAL},
	{MPI_LXOR, INCCL_LXOR, LOGICAL},
	{MPI_BAND, INCCL_AND, BITWISE},
	{MPI_BOR, INCCL_OR, BITWISE},
	{MPI_BXOR, INCCL_XOR, BITWISE},
	{MPI_MINLOC, INCCL_MINLOC, INDEXED},
	{MPI_MAXLOC, INCCL_MAXLOC, INDEXED},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The table's types as MPI describes them, which is known since MPI_Init. */
static struct {
	int size;        /* bytes of an element without gaps */
	bool contiguous; /* an element has no gaps */
	bool reduces;    /* an element is as long as libinccl's */
} known[LENGTH(types)];

/* Returns the place of a type in the table, or LENGTH(types). */
static size_t find_type(MPI_Datatype type)
{
	size_t t;

	for (t = 0; t < LENGTH(types) && types[t].type != type; t++)
		;
	return t;
}

/* Whether elements of size bytes have no gaps. Extents do not show that of derived types, because a
 * transposed matrix has the same as the matrix. */
static bool has_no_gaps(MPI_Datatype type, MPI_Aint size)
{
	MPI_Aint lower, extent, true_lower, true_extent;
	int integers, addresses, inner, combiner;

	PMPI_Type_get_envelope(type, &integers, &addresses, &inner, &combiner);
	if (combiner != MPI_COMBINER_NAMED)
		return false;
	PMPI_Type_get_extent(type, &lower, &extent);
	PMPI_Type_get_true_extent(type, &true_lower, &true_extent);
	return !lower && !true_lower && extent == true_extent && extent == size;
}

void front_types_init(void)
{
	for (size_t t = 0; t < LENGTH(types); t++) {
		const size_t parts = types[t].operators & COMPLEX ? 2 : 1;
		const size_t bytes = parts * inccl_dtype_size(types[t].dtype);
		MPI_Aint lower, extent;

		/* MPI may lack a type of Fortran */
		if (types[t].type == MPI_DATATYPE_NULL)
			continue;
		PMPI_Type_size(types[t].type, &known[t].size);
		PMPI_Type_get_extent(types[t].type, &lower, &extent);
		known[t].contiguous = has_no_gaps(types[t].type, known[t].size);
		/* A pair may have padding, which its size does not have. Compilers of Fortran have
		 * options for larger integers and reals. */
		known[t].reduces = types[t].operators & INDEXED ? (size_t)extent == bytes
								: (size_t)known[t].size == bytes;
	}
}

bool front_is_contiguous(MPI_Datatype type)
{
	const size_t t = find_type(type);
	MPI_Count size;

	if (t < LENGTH(types))
		return known[t].contiguous;
	return !PMPI_Type_size_x(type, &size) && has_no_gaps(type, size);
}

/* Returns the bytes of an element, without gaps, or a number below 1 if the type has none. */
static MPI_Count size_of(MPI_Datatype type)
{
	const size_t t = find_type(type);
	MPI_Count size;

	if (t < LENGTH(types))
		return known[t].size;
	return type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) ? 0 : size;
}

/* Bytes alone are equal on all ranks of a Bcast or an Allgather, because their types may differ. */
static enum front_reason bytes_shape(const struct front_call *call, int blocks,
				     struct front_shape *shape)
{
	const MPI_Count size = size_of(call->type);

	if (call->count < 1 || size < 1)
		return FRONT_NOTHING;
	*shape = (struct front_shape){.dtype = INCCL_UINT8, .op = INCCL_OR};
	/* MPI packs at most INT_MAX bytes at a time, and one element may have more */
	if (size > INT_MAX ||
	    __builtin_mul_overflow((size_t)call->count * size, blocks, &shape->bytes) ||
	    shape->bytes > INT_MAX)
		return FRONT_LARGE;
	shape->elements = shape->count = shape->bytes;
	/* where the blocks differ from each other, MPI reports that */
	if (call->kind == FRONT_BCAST || call->send == MPI_IN_PLACE ||
	    call->send_count * size_of(call->send_type) == call->count * size)
		return FRONT_NO_REASON;
	return FRONT_BLOCKS;
}

/* Finds the number of elements of all blocks. MPI counts them by an int. */
static enum front_reason count_elements(const struct front_call *call, int ranks,
					struct front_shape *shape)
{
	int64_t sum = call->count;

	if (call->kind == FRONT_REDUCE_SCATTER_BLOCK)
		sum *= ranks;
	for (int i = 0; call->kind == FRONT_REDUCE_SCATTER && i < ranks; i++) {
		if (call->counts[i] < 0)
			return FRONT_ARGUMENTS;
		sum += call->counts[i];
	}
	if (sum < 1)
		return FRONT_NOTHING;
	shape->count = sum <= INT_MAX ? sum : 0;
	return shape->count ? FRONT_NO_REASON : FRONT_LARGE;
}

static enum front_reason reduction_shape(const struct front_call *call, int ranks,
					 struct front_shape *shape)
{
	const size_t t = find_type(call->type);
	enum front_reason reason;
	size_t o;

	for (o = 0; o < LENGTH(operators) && operators[o].op != call->op; o++)
		;
	if (t == LENGTH(types) || !known[t].reduces)
		return FRONT_TYPE;
	if (o == LENGTH(operators) || !(types[t].operators & operators[o].of))
		return FRONT_OPERATOR;
	shape->dtype = types[t].dtype;
	shape->op = operators[o].inccl;
	reason = count_elements(call, ranks, shape);
	shape->elements = (size_t)shape->count * (types[t].operators & COMPLEX ? 2 : 1);
	shape->bytes = shape->elements * inccl_dtype_size(shape->dtype);
	return reason;
}

enum front_reason front_shape(const struct front_call *call, struct front_shape *shape)
{
	int ranks = 1, inter = 0;

	*shape = (struct front_shape){.dtype = INCCL_UINT8};
	if (call->comm == MPI_COMM_NULL)
		return FRONT_ARGUMENTS;
	if (call->kind >= FRONT_REDUCE_SCATTER) {
		PMPI_Comm_test_inter(call->comm, &inter);
		PMPI_Comm_size(call->comm, &ranks);
	}
	if (inter)
		return FRONT_INTER;
	switch (call->kind) {
	case FRONT_BARRIER:
		return FRONT_NO_REASON;
	case FRONT_ALLGATHERV:
		for (int i = 1; i < ranks; i++)
			if (call->counts[i] != call->counts[0])
				return FRONT_BLOCKS;
		/* fall through */
	case FRONT_ALLGATHER:
	case FRONT_BCAST:
		return bytes_shape(call, ranks, shape);
	default:
		return reduction_shape(call, ranks, shape);
	}
}

void front_unsign_zeros(void *elements, size_t n, enum inccl_dtype dtype)
{
	struct {
		float value;
		int32_t index;
	} *singles = elements;
	struct {
		double value;
		int32_t index;
	} *doubles = elements;

	/* -0 + 0 is +0, and every other value stays as it is */
	if (dtype == INCCL_FLOAT32_INDEX)
		for (size_t i = 0; i < n; i++)
			singles[i].value += 0.0f;
	if (dtype == INCCL_FLOAT64_INDEX)
		for (size_t i = 0; i < n; i++)
			doubles[i].value += 0.0;
}
