/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation, rounds and end of a comm, and the objects that all comms of a process share. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"

#define RING_BYTES (HA_SLOTS * sizeof(struct ha_slot_wire))
#define CACHE_LINE 64
#define WIDE_NS    INC_NSEC_PER_MSEC
/* Number of RTOs after which a closed comm is freed even if its state machine has not ended. Each
 * limit of the machine itself is shorter. */
#define GIVE_UP_RTOS 6

int ha_comm_new(struct ha_comm **out, struct ha_plugin *plugin, unsigned int dev, bool sends,
		struct inc_err *err)
{
	struct ha_comm *comm;
	void *ring = NULL;

	if (dev >= plugin->devices.n)
		return inc_err_set(err, EINVAL, "device %u: there are %u", dev, plugin->devices.n);
	comm = calloc(1, sizeof(*comm));
	if (!comm || (sends && posix_memalign(&ring, CACHE_LINE, RING_BYTES))) {
		free(comm);
		return inc_err_set(err, ENOMEM, "comm: %s", strerror(ENOMEM));
	}
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->idle_region, NULL);
	comm->plugin = plugin;
	comm->config = plugin->config;
	comm->device = &plugin->devices.device[dev];
	comm->metrics = ha_metrics_device(plugin->metrics, dev);
	comm->shown = HA_N_STANDBYS;
	comm->sends = sends;
	comm->open = true;
	comm->end = sends ? &comm->sender.end : &comm->receiver.end;
	comm->socket.fd = -1;
	comm->began_at_ns = inc_now_ns();
	comm->dual = comm->config.enable_backup && ha_rail_name(&comm->device->rail[1]);
	memset(comm->rail_up, true, sizeof(comm->rail_up));
	/* the ring is cleared, because a slot of zeros counts as never written: each written slot
	 * has at least 1 slot in its group */
	comm->ring = ring ? memset(ring, 0, RING_BYTES) : NULL;
	*out = comm;
	return 0;
}

void ha_comm_free(struct ha_comm *comm)
{
	struct ha_comm_region *region;
	unsigned int i;

	ha_metrics_standby(comm->metrics, &comm->shown, HA_N_STANDBYS);
	ha_path_destroy(comm->path);
	ha_path_destroy(comm->standby);
	for (i = 0; i < HA_OLD_PATHS; i++)
		ha_path_destroy(comm->old[i]);
	for (i = 0; i < HA_RAILS; i++)
		ha_loop_free(comm->loop[i]);
	while ((region = comm->regions)) {
		comm->regions = region->next;
		ha_comm_free_region(comm, region);
	}
	if (comm->socket.fd >= 0)
		ha_socket_close(&comm->socket);
	pthread_cond_destroy(&comm->idle_region);
	pthread_mutex_destroy(&comm->lock);
	free(comm->ring);
	free(comm);
}

/* ---- end ------------------------------------------------------------------------------------- */

static void run_end(struct ha_job *job)
{
	ha_comm_free((struct ha_comm *)((char *)job - offsetof(struct ha_comm, end_job)));
}

void ha_comm_end(struct ha_comm *comm)
{
	comm->end_job.run = run_end;
	ha_worker_do(comm->plugin->worker, &comm->end_job);
}

/* Whether this end's control messages have all left the socket's queue and the queue pairs. */
static bool msgs_are_out(const struct ha_comm *comm)
{
	return (comm->socket.fd < 0 || !comm->socket.out_bytes) &&
	       (!comm->standby || !comm->standby->msgs) && (!comm->path || !comm->path->msgs);
}

/*
 * Whether a closed comm can be freed. A receiver has to answer OPEN until its sender has ended,
 * because the receiver's last acknowledgement may be lost. A sender has nothing to answer, and only
 * waits until its last messages are sent.
 */
static bool is_over(const struct ha_comm *comm, uint64_t now_ns)
{
	uint64_t rto_ns, over_at_ns;

	if (comm->open || comm->jobs || comm->registering)
		return false;
	if (comm->stage != HA_STAGE_UP)
		return true;
	rto_ns = comm->end->times.rto_ns;
	if (!comm->ended)
		return now_ns - comm->closed_at_ns >= GIVE_UP_RTOS * rto_ns;
	over_at_ns =
		comm->ended_at_ns > comm->closed_at_ns ? comm->ended_at_ns : comm->closed_at_ns;
	if (now_ns >= over_at_ns + HA_LINGER_RTOS * rto_ns)
		return true;
	if (comm->sends)
		return msgs_are_out(comm);
	return comm->peer_gone || comm->socket.fd < 0;
}

void ha_comm_close(struct ha_comm *comm)
{
	struct ha_progress *progress = comm->plugin->progress;
	uint64_t now_ns;

	pthread_mutex_lock(&comm->lock);
	now_ns = inc_now_ns();
	comm->open = false;
	comm->closed_at_ns = now_ns;
	HA_MACHINE_EVENT(comm, close, now_ns);
	ha_comm_do(comm, now_ns);
	pthread_mutex_unlock(&comm->lock);
	ha_progress_wake(progress);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static bool is_draining(const struct ha_comm *comm)
{
	unsigned int i;

	for (i = 0; i < HA_OLD_PATHS && !comm->old[i]; i++)
		;
	return i < HA_OLD_PATHS;
}

/* Whether something of the comm is under way that needs timers of a millisecond. A receive that
 * only waits for the peer needs none. */
static bool is_busy(const struct ha_comm *comm)
{
	return is_draining(comm) || comm->stage != HA_STAGE_UP || !comm->open ||
	       comm->end->state != HA_FLOWING || (comm->sends && comm->requests) || comm->n_later ||
	       atomic_load(&comm->flushes);
}

static unsigned int look_wide(struct ha_comm *comm, uint64_t now_ns)
{
	unsigned int worked = ha_comm_poll_standby(comm, now_ns);

	worked += ha_comm_receive_on_socket(comm, now_ns);
	ha_comm_look_after(comm, now_ns);
	HA_MACHINE_EVENT(comm, tick, now_ns);
	ha_comm_do(comm, now_ns);
	comm->looked_at_ns = now_ns;
	return worked;
}

static enum ha_standby standby_of(const struct ha_comm *comm)
{
	if (comm->stage != HA_STAGE_UP || comm->ended || !comm->open)
		return HA_N_STANDBYS;
	if (!comm->dual)
		return HA_STANDBY_NONE;
	return ha_comm_standby_ready(comm) ? HA_STANDBY_READY : HA_STANDBY_MISSING;
}

unsigned int ha_comm_round(struct ha_comm *comm, unsigned int budget, bool wide, uint64_t now_ns)
{
	unsigned int worked = 0;

	if (comm->stage == HA_STAGE_UP) {
		worked = ha_comm_poll(comm, budget, now_ns);
		if (comm->sends) {
			ha_sender_look(&comm->sender, now_ns, &comm->todo);
			ha_comm_do(comm, now_ns);
		} else {
			ha_comm_flush_round(comm, now_ns);
		}
		if (wide || comm->end->state != HA_FLOWING)
			worked += look_wide(comm, now_ns);
	} else if (comm->stage != HA_STAGE_LOST) {
		ha_comm_handshake(comm, now_ns);
	}
	ha_metrics_standby(comm->metrics, &comm->shown, standby_of(comm));
	return (worked ? HA_ROUND_WORKED : 0) | (is_busy(comm) ? HA_ROUND_BUSY : 0) |
	       (comm->open ? HA_ROUND_OPEN : HA_ROUND_CLOSING) |
	       (is_over(comm, now_ns) ? HA_ROUND_OVER : 0);
}

void ha_comm_advance(struct ha_comm *comm, uint64_t now_ns)
{
	const bool wide = now_ns >= comm->looked_at_ns + WIDE_NS;

	ha_comm_round(comm, comm->config.test_max_poll, wide, now_ns);
}

/* ---- the plugin ------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ha_plugin *only; /* the plugin of this process, which the lock protects */

void ha_log_at(struct ha_plugin *plugin, enum ha_log_level level, const char *file, int line,
	       const char *format, ...)
{
	char text[768];
	va_list ap;

	if (!plugin->log)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	plugin->log(level, file, line, text);
}

static int open_parts(struct ha_plugin *plugin, struct inc_err *err)
{
	struct inc_err why = {""};
	int ret = ha_config_read(&plugin->config, err);

	if (!ret)
		ret = ha_devices_open(&plugin->devices, &plugin->config, err);
	if (ret)
		return ret;
	ret = ha_config_is_soft(&plugin->config) ? 0 : ha_memory_try(&plugin->devices, &why);
	/* a process without CUDA is usual, and a GPU without free memory is not */
	if (ret)
		ha_log(plugin, ret == -ENOMEM ? HA_LOG_WARN : HA_LOG_INFO, "no GPU memory: %s",
		       why.msg);
	ret = ha_caches_open(&plugin->caches, err);
	if (!ret)
		plugin->metrics = ha_metrics_start(plugin);
	if (!ret)
		ret = ha_worker_start(&plugin->worker, plugin, false, err);
	if (!ret)
		ret = ha_worker_start(&plugin->aimer, plugin, true, err);
	if (!ret)
		ret = ha_progress_start(&plugin->progress, plugin, err);
	return ret;
}

/* Closes the plugin unless comms are open. Returns how many comms are open. The order matters: a
 * job of the aimer queues destruction on the worker, and each job's end wakes the progress
 * thread. */
static unsigned int close_parts(struct ha_plugin *plugin)
{
	const unsigned int open = ha_progress_stop(plugin->progress);

	if (open)
		return open;
	ha_worker_stop(plugin->aimer);
	ha_worker_stop(plugin->worker);
	ha_progress_free(plugin->progress);
	ha_metrics_stop(plugin->metrics);
	ha_caches_close(plugin->caches);
	if (plugin->devices.config)
		ha_devices_close(&plugin->devices);
	free(plugin);
	return 0;
}

int ha_plugin_open(struct ha_plugin **out, ha_log_fn log, struct inc_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (!only) {
		only = calloc(1, sizeof(*only));
		if (only) {
			only->log = log;
			ret = open_parts(only, err);
		} else {
			ret = inc_err_set(err, ENOMEM, "plugin: %s", strerror(ENOMEM));
		}
		if (ret && only) {
			close_parts(only);
			only = NULL;
		}
	}
	if (!ret) {
		only->refs++;
		*out = only;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

void ha_plugin_close(struct ha_plugin *plugin)
{
	unsigned int open;

	pthread_mutex_lock(&lock);
	if (!--plugin->refs) {
		only = NULL;
		open = close_parts(plugin);
		/* the open comms still use the plugin, so it is not freed */
		if (open)
			ha_log(plugin, HA_LOG_WARN, "the last user has gone with %u comms open",
			       open);
	}
	pthread_mutex_unlock(&lock);
}

const struct ha_devices *ha_plugin_devices(const struct ha_plugin *plugin)
{
	return &plugin->devices;
}
