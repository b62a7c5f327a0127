/* SPDX-License-Identifier: BSD-2-Clause */
/* Examines a file of keys (inspect.h): its format, mode and owner. */
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/check/inspect.h"

/* Whether the user is that of inc-controller.service, whose key file must belong to it. */
static bool is_of_service(uid_t user)
{
	const struct passwd *service = getpwnam("inc-controller");

	return service && service->pw_uid == user;
}

void inc_inspect_key(struct inc_findings *f, const char *path,
		     char identity[INC_TLS_IDENTITY_MAX + 1])
{
	struct inc_tls_keys keys = {};
	struct inc_err err;
	struct stat st;

	if (inc_tls_keys_read(path, &keys, &err)) {
		const bool mode = !stat(path, &st) && st.st_mode & 077;

		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, "key", "file", "%.250s", err.msg),
			     "Programs refuse this file.", "%s %s",
			     mode ? "chmod 600" : "correct or replace", path);
		return;
	}
	if (!stat(path, &st) && st.st_uid != geteuid() && st.st_uid != 0 &&
	    !is_of_service(st.st_uid))
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, "key", "owner",
				      "%s belongs to user %u", path, st.st_uid),
			     "That user can read and replace the secret.", "chown %u %s", geteuid(),
			     path);
	inc_find(f, INC_FINDING_OK, "key", "file", "%s has %zu key%s, the first for identity %s",
		 path, keys.n, keys.n == 1 ? "" : "s", keys.key[0].identity);
	snprintf(identity, INC_TLS_IDENTITY_MAX + 1, "%s", keys.key[0].identity);
	inc_tls_keys_free(&keys);
}
