/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An output file that appears whole or not at all, because it is written under a temporary name,
 * synced, and renamed. If the path is a symbolic link, the file it points to is replaced and the
 * link stays. A path that is no regular file (/dev/null, a FIFO) is never replaced but written to.
 */
#ifndef INC_OUTFILE_H
#define INC_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include "lib/base/err.h"

struct inc_outfile {
	FILE *f;
	char *path; /* path of the file, with links resolved; owned */
	/* path of the temporary file, owned; NULL: path is no regular file, so the file is written
	 * in place */
	char *temp;
	bool replaces;
	mode_t mode; /* mode and owner of the file that is replaced */
	uid_t uid;
	gid_t gid;
};

/* Whether a file can be written to this path, as far as that can be checked without changing
 * anything. */
int inc_outfile_check(const char *path, struct inc_err *err);
int inc_outfile_open(struct inc_outfile *out, const char *path, struct inc_err *err);
/* Ends the writing to out->f and renames the file to its place. If keep is false, or a write
 * failed, the old file stays. */
int inc_outfile_close(struct inc_outfile *out, bool keep, struct inc_err *err);

#endif
