/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include "lib/base/clock.h"
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

/* A loss is reported when it has lasted for so long, with so many timeouts, and the peer has sent
 * in so many windows. The back-off of the timer allows some more in this time. */
#define LOST_NS       (450 * INC_NSEC_PER_MSEC)
#define LOST_TIMEOUTS 3
#define LOST_HEARD    2
/* So many packets are sent again for each one that is sent for the first time, or acknowledged, if
 * nearly all are lost. */
#define RESENT_EACH 8
/* time between two reports of a connection's loss */
#define AGAIN_NS (10 * INC_NSEC_PER_SEC)
/* A window ends later if it has one timeout alone, because few collectives are called. */
#define LONG_WINDOW_NS (2 * INC_NSEC_PER_SEC)

static struct inc_delivery_seen difference(const struct inc_delivery_seen *now,
					   const struct inc_delivery_seen *before)
{
	return (struct inc_delivery_seen){
		.acknowledged = now->acknowledged - before->acknowledged,
		.clean = now->clean - before->clean,
		.fresh = now->fresh - before->fresh,
		.resent = now->resent - before->resent,
		.timeouts = now->timeouts - before->timeouts,
		.naks = now->naks - before->naks,
		.heard = now->heard - before->heard,
		.outstanding = now->outstanding,
	};
}

/* Whether nearly all packets of a window were sent again, mostly after timeouts. NAKs show that
 * some packets arrive, and after a single loss a NAK may cause a whole window to be sent again. */
static bool is_heavy(const struct inc_delivery_seen *n)
{
	return n->timeouts && n->timeouts >= n->naks && n->resent >= RESENT_EACH * n->fresh &&
	       n->resent >= RESENT_EACH * n->acknowledged;
}

bool inc_delivery_lost(struct inc_delivery *d, enum inc_loss loss, uint64_t now_ns)
{
	if (d->loss || (d->reported_at_ns && now_ns - d->reported_at_ns < AGAIN_NS))
		return false;
	d->loss = loss;
	d->reported_at_ns = now_ns;
	return true;
}

/* Handles a window in which the peer has acknowledged as usual. */
static bool take_good(struct inc_delivery *d, const struct inc_delivery_seen *n)
{
	const bool was_lost = d->loss != INC_LOSS_NONE;

	d->first_at_ns = 0;
	d->suspect = n->timeouts && 10 * n->clean <= n->acknowledged;
	if (2 * n->clean < n->acknowledged || 2 * n->resent > n->fresh + n->acknowledged)
		return false;
	d->loss = INC_LOSS_NONE;
	return was_lost;
}

/* Handles a window in which nothing was acknowledged, or nearly all was sent again. */
static bool take_bad(struct inc_delivery *d, const struct inc_delivery_seen *n,
		     const struct inc_delivery_seen *seen, uint64_t now_ns)
{
	struct inc_delivery_seen all;

	if (!d->first_at_ns) {
		d->first = d->since;
		d->first_at_ns = d->since_at_ns;
		d->heard = 0;
	}
	d->heard += n->heard > 0;
	all = difference(seen, &d->first);
	/* The timer doubles, so those in a row may have begun in a window that also had ACKs.
	 * Without them the next timeout would come a second later. */
	return now_ns - d->first_at_ns >= LOST_NS &&
	       (all.timeouts >= LOST_TIMEOUTS || seen->in_a_row >= LOST_TIMEOUTS) &&
	       d->heard >= LOST_HEARD && inc_delivery_lost(d, INC_LOSS_ALL, now_ns);
}

bool inc_delivery_look(struct inc_delivery *d, const struct inc_delivery_seen *seen,
		       uint64_t now_ns)
{
	const uint64_t age_ns = now_ns - d->since_at_ns;
	struct inc_delivery_seen n;
	bool changed = false;

	if (d->since_at_ns && age_ns < INC_DELIVERY_WINDOW_NS)
		return false;
	n = difference(seen, &d->since);
	if (d->since_at_ns && n.acknowledged && 10 * n.clean <= n.acknowledged && n.timeouts == 1 &&
	    age_ns < LONG_WINDOW_NS)
		return false;
	if (d->since_at_ns && n.acknowledged && !is_heavy(&n))
		changed = take_good(d, &n);
	else if (d->since_at_ns && (n.acknowledged || n.outstanding) && (!n.naks || is_heavy(&n)))
		changed = take_bad(d, &n, seen, now_ns);
	else
		d->first_at_ns = 0;
	d->since = *seen;
	d->since_at_ns = now_ns;
	return changed;
}

void inc_delivery_text(char *text, size_t size, const struct inc_delivery *d, const char *who,
		       struct inc_addr ip, uint64_t now_ns)
{
	const uint64_t timeouts = d->since.timeouts - d->first.timeouts;
	char name[INC_PEER_TEXT + INC_ADDR_TEXT + 3], peer[INC_ADDR_TEXT];

	snprintf(name, sizeof(name), "%s (%s)", who, inc_addr_text(ip, peer));
	if (d->loss == INC_LOSS_ONCE)
		snprintf(text, size, "%s receives what is sent to it only when that is sent again",
			 name);
	else if (d->loss == INC_LOSS_ALL)
		snprintf(
			text, size,
			"%s sends, but nearly nothing that is sent to it arrives (%llu timeouts in "
			"%llu ms)",
			name,
			(unsigned long long)(timeouts < d->since.in_a_row ? d->since.in_a_row
									  : timeouts),
			(unsigned long long)((now_ns - d->first_at_ns) / INC_NSEC_PER_MSEC));
	else
		snprintf(text, size, "what is sent to %s arrives again", name);
}
