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

/* Bytes alone are equal on all ranks of a Bcast, because their types may differ. */
static bool bcast_shape(const struct front_call *call, struct front_shape *shape)
{
	MPI_Count size;

	if (call->type == MPI_DATATYPE_NULL || PMPI_Type_size_x(call->type, &size) || size < 1)
		return false;
	*shape = (struct front_shape){.dtype = INCCL_UINT8, .op = INCCL_OR};
	shape->elements = shape->bytes = (size_t)call->count * size;
	/* MPI packs at most INT_MAX bytes at a time, and one element may have more */
	return shape->bytes <= INT_MAX;
}

/* Whether MPI's type has the size of its elements for libinccl. Compilers of Fortran have options
 * for larger integers and reals. */
static bool has_size(MPI_Datatype type, size_t bytes)
{
	int size;

	return !PMPI_Type_size(type, &size) && (size_t)size == bytes;
}

bool front_shape(const struct front_call *call, struct front_shape *shape)
{
	size_t t, o, parts;

	*shape = (struct front_shape){.dtype = INCCL_UINT8};
	if (call->kind == FRONT_BARRIER)
		return true;
	if (call->count < 1)
		return false;
	if (call->kind == FRONT_BCAST)
		return bcast_shape(call, shape);
	for (t = 0; t < LENGTH(types) && types[t].type != call->type; t++)
		;
	for (o = 0; o < LENGTH(operators) && operators[o].op != call->op; o++)
		;
	if (t == LENGTH(types) || o == LENGTH(operators) || !(types[t].operators & operators[o].of))
		return false;
	shape->dtype = types[t].dtype;
	shape->op = operators[o].inccl;
	parts = types[t].operators & COMPLEX ? 2 : 1;
	shape->elements = call->count * parts;
	shape->bytes = shape->elements * inccl_dtype_size(shape->dtype);
	/* a pair may have padding, which its size does not have */
	return types[t].operators & INDEXED ||
	       has_size(call->type, parts * inccl_dtype_size(shape->dtype));
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
