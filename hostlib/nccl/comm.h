/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Comms (NCCL's connections): the functions behind plugin.c's tables, once for all versions of
 * NCCL's interface. A comm has one direction: connect makes a sender, accept makes a receiver.
 *
 * Only ha_register() and ha_deregister() block, because NCCL lets these calls wait. Workers
 * (threads.h) make all other system calls that wait. If another thread holds the lock of a comm,
 * the call returns "not yet". NCCL's own calls (test, isend, irecv) make the comm progress; the
 * progress thread (threads.h) does so while NCCL does not call, and also serves standby
 * paths, control messages and timers.
 *
 * Functions return 0 or -errno. A comm that fails logs that once, and each of its requests ends
 * with the comm's error. Any thread may call, and two threads may use one comm, because each comm
 * has a lock.
 */
#ifndef HA_COMM_H
#define HA_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/devices.h"
#include "hostlib/nccl/memory.h"
#include "hostlib/nccl/tcp.h"
#include "lib/base/err.h"

/* the state of the plugin, one for each process: config, devices, caches, threads */
struct ha_plugin;
struct ha_listener;
struct ha_comm;
struct ha_request;

/* Severity of a line that the plugin writes to NCCL's log. */
enum ha_log_level { HA_LOG_WARN, HA_LOG_INFO, HA_LOG_TRACE };
typedef void (*ha_log_fn)(enum ha_log_level level, const char *file, int line, const char *text);

/* Opens the plugin at the first call in a process; later calls only count a reference. */
int ha_plugin_open(struct ha_plugin **out, ha_log_fn log, struct inc_err *err);
/* Drops a reference to the plugin. The last call stops the threads. If comms are still open, it
 * logs that, and frees nothing that they use. */
void ha_plugin_close(struct ha_plugin *plugin);
const struct ha_devices *ha_plugin_devices(const struct ha_plugin *plugin);

int ha_listen(struct ha_plugin *plugin, unsigned int dev, struct ha_handle *handle,
	      struct ha_listener **out, struct inc_err *err);
void ha_listener_close(struct ha_listener *listener);
/* These functions connect or accept a comm. They return 0 and set *out to NULL while the connection
 * is not up yet; the caller then calls again with the same handle. traffic_class -1 stands for the
 * configured one. */
int ha_connect(struct ha_plugin *plugin, unsigned int dev, struct ha_handle *handle,
	       int traffic_class, struct ha_comm **out, struct inc_err *err);
int ha_accept(struct ha_listener *listener, struct ha_comm **out, struct inc_err *err);
/* Closes a comm, and returns at once. The progress thread goes on answering the peer, and then
 * frees the comm. */
void ha_comm_close(struct ha_comm *comm);

/* Registers memory with a comm. dmabuf_fd is -1 if NCCL has no descriptor for the memory. Returns
 * -EOPNOTSUPP for memory that the devices cannot reach. */
int ha_register(struct ha_comm *comm, void *address, size_t bytes, int type, int dmabuf_fd,
		uint64_t dmabuf_offset, struct ha_region **out, struct inc_err *err);
/* Ends a registration. If a request still uses the memory, it stays registered until the comm
 * ends. */
void ha_deregister(struct ha_comm *comm, struct ha_region *region);

/* These functions post a send or a receive. They return 0 and set *out to NULL if NCCL has to call
 * again: no request is free, no receive matches, or a failover is under way. */
int ha_isend(struct ha_comm *comm, void *data, size_t bytes, int tag, struct ha_region *region,
	     struct ha_request **out);
int ha_irecv(struct ha_comm *comm, unsigned int n, void **data, const size_t *bytes,
	     const int *tags, struct ha_region **regions, struct ha_request **out);
/* Begins a flush: when it is complete, the data of complete receives are in these buffers, and not
 * on their way there. Data in host memory need none: *out is NULL then. */
int ha_iflush(struct ha_comm *comm, unsigned int n, void **data, const int *bytes,
	      struct ha_region **regions, struct ha_request **out);
/* Sets *done if the request is complete. Then it also sets sizes, one for each of the request's
 * buffers, unless sizes is NULL. A request that is done no longer exists. */
int ha_test(struct ha_request *request, bool *done, int *sizes);

#endif
