/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts public values to names and names to values. */
#include <errno.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "lib/reduce/floats.h"
#include "hostlib/include/inccl.h"
#include "hostlib/src/internal.h"

/* Assertions that a value has the same number in inccl.h as in the descriptor on the wire. */
#define SAME_COLLECTIVE(NAME, ...) \
	_Static_assert((int)INCCL_##NAME == (int)INC_COLL_##NAME, "number of " #NAME);
#define SAME_OP(NAME, ...) \
	_Static_assert((int)INCCL_##NAME == (int)INC_OPERATOR_##NAME, "number of " #NAME);
#define SAME_DTYPE(NAME, ...) \
	_Static_assert((int)INCCL_##NAME == (int)INC_DTYPE_##NAME, "number of " #NAME);
INC_COLLECTIVES(SAME_COLLECTIVE)
INC_WIRE_OPERATORS(SAME_OP)
INC_DTYPES(SAME_DTYPE)
INC_FLOATS(SAME_DTYPE)
SAME_DTYPE(INT32_INDEX)
SAME_DTYPE(FLOAT32_INDEX)
SAME_DTYPE(INT64_INDEX)
SAME_DTYPE(FLOAT64_INDEX)
_Static_assert((int)INCCL_FLOAT64 == (int)INCCL_FLOAT32 + (int)INC_FLOAT64, "numbers of floats");

/* The types of inccl.h are the first ones on the wire. */
#define N_DTYPES ((unsigned int)INCCL_FLOAT64_INDEX + 1)
_Static_assert(N_DTYPES == INC_DTYPE_AGREED, "the next type is the library's own");

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define WORD(NAME, name, ...)        #name,
#define SIZE(NAME, name, bytes, ...) bytes,
static const char *const collectives[] = {INC_COLLECTIVES(WORD)};
static const char *const ops[] = {
	INC_WIRE_OPERATORS(WORD)[INCCL_MINLOC] = "minloc", [INCCL_MAXLOC] = "maxloc"};
static const char *const dtypes[] = {INC_WIRE_DTYPES(WORD)};
static const unsigned char dtype_sizes[] = {INC_WIRE_DTYPES(SIZE)};

static const char *name_of(const char *const *names, size_t n, unsigned int value)
{
	return value < n ? names[value] : NULL;
}

static int value_of(const char *const *names, size_t n, const char *name)
{
	size_t i;

	for (i = 0; name && i < n; i++)
		if (names[i] && !strcmp(names[i], name))
			return i;
	return -EINVAL;
}

size_t inccl_dtype_size(enum inccl_dtype dtype)
{
	return (unsigned int)dtype < N_DTYPES ? dtype_sizes[dtype] : 0;
}

const char *inccl_collective_name(enum inccl_collective collective)
{
	return name_of(collectives, ARRAY_SIZE(collectives), collective);
}

const char *inccl_op_name(enum inccl_op op)
{
	return name_of(ops, ARRAY_SIZE(ops), op);
}

const char *inccl_dtype_name(enum inccl_dtype dtype)
{
	return name_of(dtypes, N_DTYPES, dtype);
}

int inccl_collective_parse(const char *name, enum inccl_collective *collective)
{
	int v = value_of(collectives, ARRAY_SIZE(collectives), name);

	if (v < 0)
		return v;
	*collective = v;
	return 0;
}

int inccl_op_parse(const char *name, enum inccl_op *op)
{
	int v = value_of(ops, ARRAY_SIZE(ops), name);

	if (v < 0)
		return v;
	*op = v;
	return 0;
}

int inccl_dtype_parse(const char *name, enum inccl_dtype *dtype)
{
	int v = value_of(dtypes, N_DTYPES, name);

	if (v < 0)
		return v;
	*dtype = v;
	return 0;
}

const char *inccl_strerror(int err)
{
	const char *text;

	switch (err < 0 ? -err : err) {
	case 0:
		return "success";
	case EAGAIN:
		return "not finished yet, or no name server answers";
	case EOPNOTSUPP:
		return "not supported by this library, transport or switch";
	case ECONNRESET:
		return "a rank left the group, or the controller closed the connection";
	case EREMOTEIO:
		return "the switch refused a packet";
	case E2BIG:
		return "more than the switches, or an option's struct, can ever hold";
	case ENOSPC:
		return "a switch is full";
	case EDQUOT:
		return "the job has its share";
	case EPROTO:
		return "the other side does not speak the protocol";
	case ETIMEDOUT:
		return "no progress within the time limit";
	case ECHILD:
		return INCCL_INHERITED_TEXT;
	}
	text = strerrordesc_np(err < 0 ? -err : err);
	return text ? text : "unknown error";
}

#define STR2(x) #x
#define STR(x)  STR2(x)

const char *inccl_version(void)
{
	return STR(INCCL_VERSION_MAJOR) "." STR(INCCL_VERSION_MINOR) "." STR(INCCL_VERSION_PATCH);
}
