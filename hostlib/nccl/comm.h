/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Comms: what plugin.c's tables of functions call, once for all versions of NCCL's interface. A
 * comm has one direction: connect makes its sender, accept its receiver.
 *
 * Nothing here blocks but ha_register() and ha_deregister(), whose call NCCL lets wait: what else
 * takes a kernel call that waits is done by workers (worker.h), and a comm whose lock somebody
 * holds says "not yet". Progress is made by NCCL's own calls (test, isend, irecv) and, where those
 * do not come, by the progress thread (progress_thread.h), which also looks after standbys,
 * messages and timers.
 *
 * Functions return 0 or -errno; a comm that has failed says so in its log line once, and each of
 * its requests ends with the comm's error. Threads: any; two threads in one comm is what the lock
 * is for.
 */
#ifndef HA_COMM_H
#define HA_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/devices.h"
#include "hostlib/nccl/handle.h"
#include "hostlib/nccl/memory.h"
#include "lib/base/err.h"

struct ha_plugin; /* the process: config, devices, caches, threads */
struct ha_listener;
struct ha_comm;
struct ha_request;

/* Severity of a line for NCCL's log function. */
enum ha_log_level { HA_LOG_WARN, HA_LOG_INFO, HA_LOG_TRACE };
typedef void (*ha_log_fn)(enum ha_log_level level, const char *file, int line, const char *text);

/* The first init of the process; later ones count references. */
int ha_plugin_open(struct ha_plugin **out, ha_log_fn log, struct inc_err *err);
/* The last one's end stops the threads; where comms are open it says so, and leaves them all they
 * use.
 */
void ha_plugin_close(struct ha_plugin *plugin);
const struct ha_devices *ha_plugin_devices(const struct ha_plugin *plugin);

int ha_listen(struct ha_plugin *plugin, unsigned int dev, struct ha_handle *handle,
	      struct ha_listener **out, struct inc_err *err);
void ha_listener_close(struct ha_listener *listener);
/* 0 with *out NULL: not yet, call again with the same handle. traffic_class -1: the config's. */
int ha_connect(struct ha_plugin *plugin, unsigned int dev, struct ha_handle *handle,
	       int traffic_class, struct ha_comm **out, struct inc_err *err);
int ha_accept(struct ha_listener *listener, struct ha_comm **out, struct inc_err *err);
/* Returns at once; what is left to be answered is the progress thread's. */
void ha_comm_close(struct ha_comm *comm);

/* dmabuf_fd -1: none. -EOPNOTSUPP: a kind of memory that the devices cannot do. */
int ha_register(struct ha_comm *comm, void *address, size_t bytes, int type, int dmabuf_fd,
		uint64_t dmabuf_offset, struct ha_region **out, struct inc_err *err);
/* Memory that a request uses stays registered until the comm has ended. */
void ha_deregister(struct ha_comm *comm, struct ha_region *region);

/* 0 with *out NULL: no room, no matching receive, or a failover is under way: later. */
int ha_isend(struct ha_comm *comm, void *data, size_t bytes, int tag, struct ha_region *region,
	     struct ha_request **out);
int ha_irecv(struct ha_comm *comm, unsigned int n, void **data, const size_t *bytes,
	     const int *tags, struct ha_region **regions, struct ha_request **out);
/* 0 with *out NULL: nothing to wait for (host memory). */
int ha_iflush(struct ha_comm *comm, unsigned int n, void **data, const int *bytes,
	      struct ha_region **regions, struct ha_request **out);
/* *done, and then sizes (as many as the request has buffers; may be NULL); the request is gone. */
int ha_test(struct ha_request *request, bool *done, int *sizes);

#endif
