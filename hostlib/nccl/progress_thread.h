/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread, one for each process. It lets comms progress while NCCL does not call,
 * serves their standby paths, control messages and timers, and reads the devices' asynchronous
 * events. It holds each comm from ha_progress_add() on, and it ends the comm.
 */
#ifndef HA_PROGRESS_THREAD_H
#define HA_PROGRESS_THREAD_H

#include "lib/base/err.h"

struct ha_comm;
struct ha_plugin;
struct ha_progress;

/* Starts the thread. Returns 0 or -errno. The plugin's devices must be open. */
int ha_progress_start(struct ha_progress **out, struct ha_plugin *plugin, struct inc_err *err);
/* Waits until each closed comm has ended, which the comms' timers bound. Returns how many comms
 * were not closed; these are left untouched. Other threads may still call ha_progress_wake().
 * progress may be NULL. */
unsigned int ha_progress_stop(struct ha_progress *progress);
/* Frees the object. Called after the thread and the workers have been stopped. progress may be
 * NULL. */
void ha_progress_free(struct ha_progress *progress);

/* Hands the comm to the progress thread until the comm has ended. May be called on any thread. */
void ha_progress_add(struct ha_progress *progress, struct ha_comm *comm);
/* Wakes the progress thread, because there is something to do. May be called on any thread. */
void ha_progress_wake(struct ha_progress *progress);
/* Wakes the progress thread whenever this descriptor is readable, until it is closed. May be called
 * on any thread. */
void ha_progress_watch(struct ha_progress *progress, int fd);

#endif
