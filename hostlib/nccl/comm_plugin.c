/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects that all comms of a process share. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/comm_priv.h"

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
	int ret = ha_config_read(&plugin->config, err);

	if (!ret)
		ret = ha_devices_open(&plugin->devices, &plugin->config, err);
	if (ret)
		return ret;
	ret = ha_caches_open(&plugin->caches, err);
	if (!ret)
		ret = ha_worker_start(&plugin->worker, err);
	if (!ret)
		ret = ha_worker_start(&plugin->aimer, err);
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
