/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "userspace/privileges.h"

/* The capabilities that the daemon keeps after its start. CAP_SYS_ADMIN must be the last one,
 * because it is kept only if ports are shared. */
static const cap_value_t kept[] = {CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};

#define N_KEPT (sizeof(kept) / sizeof(kept[0]))

static bool is_kept(cap_value_t cap, size_t n_kept)
{
	size_t i;

	for (i = 0; i < n_kept; i++)
		if (kept[i] == cap)
			return true;
	return false;
}

/* Removes all other capabilities from the bounding set. A process without CAP_SETPCAP cannot reduce
 * the set, which is no error. */
static int empty_bounding_set(size_t n_kept, struct inc_err *err)
{
	cap_value_t cap;

	for (cap = 0; CAP_IS_SUPPORTED(cap); cap++)
		if (!is_kept(cap, n_kept) && cap_get_bound(cap) == 1 && cap_drop_bound(cap) &&
		    errno != EPERM)
			return inc_err_set(err, errno, "drop capability %d: %s", cap,
					   strerror(errno));
	return 0;
}

/* Reduces this process's capabilities to those of kept[] that it has now. They are permitted and
 * effective but not inheritable. set: an empty set. */
static int keep(cap_t now, cap_t set, size_t n_kept)
{
	cap_flag_value_t has;
	size_t i;

	for (i = 0; i < n_kept; i++) {
		if (cap_get_flag(now, kept[i], CAP_PERMITTED, &has))
			return -errno;
		if (has == CAP_SET && (cap_set_flag(set, CAP_PERMITTED, 1, &kept[i], CAP_SET) ||
				       cap_set_flag(set, CAP_EFFECTIVE, 1, &kept[i], CAP_SET)))
			return -errno;
	}
	return cap_set_proc(set) ? -errno : 0;
}

static int shrink(size_t n_kept, struct inc_err *err)
{
	cap_t now = cap_get_proc(), set = cap_init();
	int ret = now && set ? keep(now, set, n_kept) : -errno;

	cap_free(now);
	cap_free(set);
	return ret ? inc_err_set(err, -ret, "give up capabilities: %s", strerror(-ret)) : 0;
}

int inc_privileges_drop(bool shares_ports, struct inc_err *err)
{
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	size_t n_kept = shares_ports ? N_KEPT : N_KEPT - 1;
	int ret;

	/* setrlimit() may fail without CAP_SYS_RESOURCE, which is no error here, because the call
	 * that later exceeds the old limit reports it */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return inc_err_set(err, errno, "no new privileges: %s", strerror(errno));
	ret = empty_bounding_set(n_kept, err);
	if (!ret && CAP_AMBIENT_SUPPORTED() && cap_reset_ambient())
		ret = inc_err_set(err, errno, "ambient capabilities: %s", strerror(errno));
	return ret ?: shrink(n_kept, err);
}
