/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread, one per process: makes the comms go on whose owner does not call, looks
 * after their standbys, messages and timers, and takes the devices' asynchronous events. It has a
 * reference to each comm from its beginning to its end, and is the one that ends it.
 */
#ifndef HA_PROGRESS_THREAD_H
#define HA_PROGRESS_THREAD_H

#include "lib/base/err.h"

struct ha_comm;
struct ha_plugin;
struct ha_progress;

/* 0 or -errno. The plugin's devices are open. */
int ha_progress_start(struct ha_progress **out, struct ha_plugin *plugin, struct inc_err *err);
/* Waits until each comm that is closed has ended: bounded, by their timers. Returns how many were
 * not closed; they are left as they are. Who wakes it may still do so. NULL is allowed. */
unsigned int ha_progress_stop(struct ha_progress *progress);
/* It is stopped, and so are the workers. NULL is allowed. */
void ha_progress_free(struct ha_progress *progress);

/* Any thread. The comm is the thread's until it has ended. */
void ha_progress_add(struct ha_progress *progress, struct ha_comm *comm);
/* Any thread: something is to be looked at. */
void ha_progress_wake(struct ha_progress *progress);
/* Any thread: wake whenever this descriptor is readable, until it is closed. */
void ha_progress_watch(struct ha_progress *progress, int fd);

#endif
