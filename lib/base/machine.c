/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/base/log.h"
#include "lib/base/machine.h"

unsigned int inc_machine_step(const struct inc_machine *m, const char *who, unsigned int from,
			      unsigned int to)
{
	if (from >= m->n || to >= m->n || !(m->steps[from] >> to & 1))
		inc_error("%s %s: from %s to %s is no step", m->what, who,
			  from < m->n ? m->name[from] : "?", to < m->n ? m->name[to] : "?");
	else
		inc_debug("%s %s: %s, then %s", m->what, who, m->name[from], m->name[to]);
	return to;
}
