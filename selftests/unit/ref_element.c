// SPDX-License-Identifier: BSD-2-Clause
/* Arithmetic of the reference on elements: each element is read from its bytes, combined as a
 * number of 64 bits, and written back. */
#include <string.h>
#include "lib/proto/desc.h"
#include "ref_switch.h"

uint32_t ref_element_bytes(uint32_t desc)
{
	switch (INC_DESC_DTYPE(desc)) {
	case INC_DTYPE_INT64_INDEX:
	case INC_DTYPE_FLOAT64_INDEX:
		return 16;
	case INC_DTYPE_INT64:
	case INC_DTYPE_UINT64:
	case INC_DTYPE_INT32_INDEX:
	case INC_DTYPE_FLOAT32_INDEX:
	case INC_DTYPE_FLOAT64:
	case INC_DTYPE_FIXED64:
		return 8;
	case INC_DTYPE_INT32:
	case INC_DTYPE_UINT32:
	case INC_DTYPE_FLOAT32:
	case INC_DTYPE_FIXED:
		return 4;
	case INC_DTYPE_INT16:
	case INC_DTYPE_UINT16:
	case INC_DTYPE_FLOAT16:
	case INC_DTYPE_BFLOAT16:
		return 2;
	case INC_DTYPE_INT8:
	case INC_DTYPE_UINT8:
	case INC_DTYPE_AGREED:
		return 1;
	}
	return 0;
}

bool ref_desc_known(uint32_t desc)
{
	const uint32_t op = INC_DESC_OP(desc);

	/* an element of two numbers has two operators, but can be passed on in any case */
	if (ref_element_bytes(desc) == 16 && op != INC_OPERATOR_MIN && op != INC_OPERATOR_MAX &&
	    (INC_DESC_COLL(desc) == INC_COLL_ALLREDUCE || INC_DESC_COLL(desc) == INC_COLL_REDUCE ||
	     INC_DESC_COLL(desc) == INC_COLL_REDUCE_SCATTER))
		return false;
	return INC_DESC_COLL(desc) < INC_N_COLLECTIVES && op <= INC_OPERATOR_LXOR &&
	       ref_element_bytes(desc);
}

static uint64_t get(const uint8_t *p, uint32_t bytes, bool big)
{
	uint64_t v = 0;
	uint32_t i;

	for (i = 0; i < bytes; i++)
		v = v << 8 | p[big ? i : bytes - 1 - i];
	return v;
}

static void put(uint8_t *p, uint32_t bytes, bool big, uint64_t v)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		p[big ? bytes - 1 - i : i] = v >> 8 * i;
}

/* Is a less than b, as numbers of the descriptor's type? */
static bool is_less(uint32_t desc, uint64_t a, uint64_t b)
{
	switch (INC_DESC_DTYPE(desc)) {
	case INC_DTYPE_INT64:
	case INC_DTYPE_FLOAT64:
	case INC_DTYPE_FIXED64:
	case INC_DTYPE_INT32_INDEX:
	case INC_DTYPE_FLOAT32_INDEX:
	case INC_DTYPE_INT64_INDEX:
	case INC_DTYPE_FLOAT64_INDEX:
		return (int64_t)a < (int64_t)b;
	case INC_DTYPE_INT32:
	case INC_DTYPE_FLOAT32:
	case INC_DTYPE_FIXED:
		return (int32_t)a < (int32_t)b;
	case INC_DTYPE_INT16:
	case INC_DTYPE_FLOAT16:
	case INC_DTYPE_BFLOAT16:
		return (int16_t)a < (int16_t)b;
	case INC_DTYPE_INT8:
		return (int8_t)a < (int8_t)b;
	}
	return a < b;
}

static uint64_t operate(uint32_t desc, uint64_t a, uint64_t b)
{
	switch (INC_DESC_OP(desc)) {
	case INC_OPERATOR_SUM:
	case INC_OPERATOR_AVG:
		return a + b;
	case INC_OPERATOR_PROD:
		return a * b;
	case INC_OPERATOR_MIN:
		return is_less(desc, a, b) ? a : b;
	case INC_OPERATOR_MAX:
		return is_less(desc, a, b) ? b : a;
	case INC_OPERATOR_AND:
	case INC_OPERATOR_LAND:
		return a & b;
	case INC_OPERATOR_OR:
	case INC_OPERATOR_LOR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* Takes the element of `from` if its first number wins, or if its second one does and the first
 * ones are equal. */
static void operate_pair(uint32_t desc, bool big, uint8_t *into, const uint8_t *from)
{
	uint32_t at = memcmp(into, from, 8) ? 0 : 8;
	uint64_t a = get(into + at, 8, big), b = get(from + at, 8, big);

	if (operate(desc, a, b) == b)
		memcpy(into, from, 16);
}

void ref_operate(uint32_t desc, bool big, uint8_t *into, const uint8_t *from, uint32_t len)
{
	uint32_t bytes = ref_element_bytes(desc), i;

	for (i = 0; bytes == 16 && i < len; i += bytes)
		operate_pair(desc, big, into + i, from + i);
	if (bytes == 16)
		return;
	for (i = 0; i < len; i += bytes)
		put(into + i, bytes, big,
		    operate(desc, get(into + i, bytes, big), get(from + i, bytes, big)));
}
