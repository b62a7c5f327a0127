/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that appears whole or not at all: written beside its place, synced, renamed. Links
 * are followed, so what a link names is replaced and the link stays. What is no regular file
 * (/dev/null, a FIFO) is never replaced: it is written to.
 */
#ifndef INC_OUTFILE_H
#define INC_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include "lib/base/err.h"

struct inc_outfile {
	FILE *f;
	char *path; /* owned; links resolved */
	char *temp; /* owned; NULL: no regular file, written in place */
	bool replaces;
	mode_t mode; /* of the file that is replaced, and whose it is */
	uid_t uid;
	gid_t gid;
};

/* Whether a file can be put there, as far as can be told without touching anything. */
int inc_outfile_check(const char *path, struct inc_err *err);
int inc_outfile_open(struct inc_outfile *out, const char *path, struct inc_err *err);
/* Ends the writing to out->f and puts the file in its place; with keep false, or where
 * something written did not arrive, the old one stays. */
int inc_outfile_close(struct inc_outfile *out, bool keep, struct inc_err *err);

#endif
