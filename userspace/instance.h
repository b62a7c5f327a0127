/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where an instance of the daemon has its files, and its lock: held while the daemon lives and let
 * go by the kernel however it dies.
 */
#ifndef INC_INSTANCE_H
#define INC_INSTANCE_H

#include "lib/base/err.h"

/* INC_RUN_DIR, or for who may not write there a directory of his own; made where it is not there.
 * NULL: there is none, and why. */
const char *inc_run_dir(struct inc_err *err);

/* The descriptor of the lock; -EBUSY where another daemon has it. */
int inc_instance_lock(const char *instance, struct inc_err *err);
void inc_instance_unlock(const char *instance, int fd);

#endif
