/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place that chooses an engine, and what follows from any engine's functions. */
#include <errno.h>
#include "userspace/engine.h"
#include "userspace/xdp/xdp_engine.h"

int inc_engine_open(const struct inc_engine_opts *opts, struct inc_engine **out,
		    struct inc_err *err)
{
	return inc_engine_xdp.open(opts, out, err);
}

int inc_engine_find(const struct inc_engine *e, uint32_t communicator, struct inc_engine_comm *comm)
{
	struct inc_engine_comm here;
	struct inc_engine_usage usage;
	uint32_t place;

	e->ops->usage(e, &usage);
	for (place = 0; place < usage.communicators_limit; place++) {
		if (!e->ops->comm(e, place, &here) || here.communicator != communicator)
			continue;
		if (comm)
			*comm = here;
		return place;
	}
	return -ENOENT;
}
