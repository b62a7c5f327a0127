/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the switch's maps. These functions are apart from inc_loader.c, because the simulation and
 * a fuzzer link this file with maps of their own.
 */
#include <errno.h>
#include <string.h>
#include "loader/inc_loader_priv.h"

int inc_switch_map_set(const struct inc_switch *sw, const char *name, const void *key,
		       const void *value, uint64_t flags, struct inc_err *err)
{
	if (bpf_map_update_elem(inc_switch_map_fd(sw, name), key, value, flags))
		return inc_err_set(err, errno, "map %s cannot be written: %s", name,
				   strerror(errno));
	return 0;
}
