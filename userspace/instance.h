/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory for files of the daemon's instances, and the lock of an instance. The daemon holds
 * the lock while it runs, and the kernel releases it however the daemon ends.
 */
#ifndef INC_INSTANCE_H
#define INC_INSTANCE_H

#include "lib/base/err.h"

/* Returns INC_RUN_DIR or, for a user who may not write there, a directory of that user. Creates the
 * directory if it does not exist. Returns NULL, with the reason in err, if there is no such
 * directory. */
const char *inc_run_dir(struct inc_err *err);

/* Locks the instance. Returns the descriptor of the lock, or -EBUSY if another daemon holds it. */
int inc_instance_lock(const char *instance, struct inc_err *err);
void inc_instance_unlock(const char *instance, int fd);

#endif
