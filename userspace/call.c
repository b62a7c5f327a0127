/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include "lib/proto/desc.h"
#include "userspace/call.h"

const char *inc_child_name(char buf[INC_PEER_TEXT], bool is_switch, uint32_t rank)
{
	snprintf(buf, INC_PEER_TEXT, is_switch ? "the switch of rank %u" : "rank %u", rank);
	return buf;
}

#define WORD(NAME, name, ...) #name,
static const char *const collectives[] = {INC_COLLECTIVES(WORD)};
static const char *const operators[] = {INC_OPERATORS(WORD)[INC_OPERATOR_AVG] = "avg"};
static const char *const dtypes[] = {INC_WIRE_DTYPES(WORD)};

/* Engines refuse descriptors with others, but a row may be read while it is written. */
#define NAME_OF(names, value) \
	((value) < sizeof(names) / sizeof(*(names)) ? (names)[value] : "unknown")

/* An operator that computes nothing is left out, and the type of a barrier's no elements. */
static int describe(char *text, size_t size, const struct inc_call *call)
{
	const uint32_t desc = call->desc;
	char elements[48] = "";

	if (inc_all_give(desc))
		snprintf(elements, sizeof(elements), "%s of %s, ",
			 NAME_OF(operators, INC_DESC_OP(desc)),
			 NAME_OF(dtypes, INC_DESC_DTYPE(desc)));
	else if (INC_DESC_COLL(desc) != INC_COLL_BARRIER)
		snprintf(elements, sizeof(elements), "%s, ", NAME_OF(dtypes, INC_DESC_DTYPE(desc)));
	return snprintf(text, size, "%s called %s (%sroot %u, sequence %u) with %u bytes",
			call->who, NAME_OF(collectives, INC_DESC_COLL(desc)), elements,
			INC_DESC_ROOT(desc), INC_DESC_SEQ(desc), call->bytes);
}

void inc_call_text(char *text, size_t size, const struct inc_call *call,
		   const struct inc_call *other)
{
	int n = describe(text, size, call);

	if (!other || n < 0 || (size_t)n >= size)
		return;
	n += snprintf(text + n, size - n, ", but ");
	if ((size_t)n < size)
		describe(text + n, size - n, other);
}
