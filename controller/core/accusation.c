/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What switches have said of ranks while it was not known whether those had left: all of it is
 * kept, for a switch tells each failure but once. Called by orphan.c, before a communicator is
 * claimed, and by comm_event.c, which judges.
 */
#include <stdlib.h>
#include "controller/core/core.h"

bool inc_accusation_add(struct inc_accusations *set, const struct inc_accusation *accused)
{
	struct inc_accusation *a;

	LIST_FOREACH (a, set, entry) {
		if (a->by == accused->by && a->rank == accused->rank)
			return true;
	}
	a = malloc(sizeof(*a));
	if (!a)
		return false;
	*a = *accused;
	LIST_INSERT_HEAD(set, a, entry);
	return true;
}

void inc_accusation_drop(struct inc_accusation *a)
{
	LIST_REMOVE(a, entry);
	free(a);
}

void inc_accusations_free(struct inc_accusations *set)
{
	while (!LIST_EMPTY(set))
		inc_accusation_drop(LIST_FIRST(set));
}
