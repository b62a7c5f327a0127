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
static const char *const operators[] = {INC_WIRE_OPERATORS(WORD)};
static const char *const dtypes[] = {INC_WIRE_DTYPES(WORD)};

/* The name of a value of a descriptor, or "unknown". Engines refuse descriptors with unknown
 * values, but the slow path may read a row while the data path writes it. */
#define NAME_OF(names, value) \
	((value) < sizeof(names) / sizeof(*(names)) ? (names)[value] : "unknown")

/* Describes one call. Leaves out the operator if the collective does not reduce, and the type if
 * the call is a barrier, because these have no meaning there. */
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

/* Returns the earlier of two sequence numbers of collectives. The numbers wrap around, but the two
 * are less than half of their range apart, unless a rank has called so many collectives without
 * elements. */
static uint32_t earlier(uint32_t a, uint32_t b)
{
	return ((b - a) & INC_DESC_SEQ_MASK) <= INC_DESC_SEQ_MASK / 2 ? a : b;
}

/* Appends the properties in which two calls differ. If the sequence numbers differ, one rank has
 * gone on to its next collective, so the sizes of the earlier collective were different. If the
 * collectives differ, the other properties cannot be compared. */
static void compare(char *text, size_t size, const struct inc_call *a, const struct inc_call *b)
{
	const uint32_t one = INC_DESC_SEQ(a->desc), other = INC_DESC_SEQ(b->desc);
	const struct {
		const char *name;
		bool differs;
	} what[] = {
		{"collective", INC_DESC_COLL(a->desc) != INC_DESC_COLL(b->desc)},
		{"operator", INC_DESC_OP(a->desc) != INC_DESC_OP(b->desc)},
		{"type", INC_DESC_DTYPE(a->desc) != INC_DESC_DTYPE(b->desc)},
		{"root", INC_DESC_ROOT(a->desc) != INC_DESC_ROOT(b->desc)},
		{"size", a->bytes != b->bytes},
	};
	const char *between = "; different: ";
	size_t i, n = 0;

	if (one != other) {
		snprintf(text, size, "%ssize of sequence %u", between, earlier(one, other));
		return;
	}
	for (i = 0; i < sizeof(what) / sizeof(*what) && n < size; i++) {
		if (!what[i].differs)
			continue;
		n += snprintf(text + n, size - n, "%s%s", between, what[i].name);
		between = ", ";
		if (!i)
			break;
	}
}

void inc_call_text(char *text, size_t size, const struct inc_call *call,
		   const struct inc_call *other)
{
	int n = describe(text, size, call);

	if (!other || n < 0 || (size_t)n >= size)
		return;
	n += snprintf(text + n, size - n, ", but ");
	if ((size_t)n < size)
		n += describe(text + n, size - n, other);
	if ((size_t)n < size)
		compare(text + n, size - n, call, other);
}
