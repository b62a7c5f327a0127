/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "hostlib/nccl/metrics.h"
#include "lib/base/clock.h"
#include "lib/base/thread.h"

#define ROOM "nccl"
/* most time for which the end of the plugin, or of the process, waits for the disk */
#define END_WAIT_NS INC_NSEC_PER_SEC

/* Of the file itself, so that a rule can leave out what a killed process has left. */
#define FILE_FIGURES(_, T) \
	_(T, written_timestamp_seconds, "", GAUGE, "when the file was written, since 1970")
struct file_figures {
	FILE_FIGURES(INC_METRIC_FIELD, file_figures)
};

static const struct inc_metric comms_table[] = {HA_COMMS_FIGURES(INC_METRIC_ROW, ha_comms_figures)};
static const struct inc_metric cause_table[] = {HA_CAUSE_FIGURES(INC_METRIC_ROW, ha_cause_figures)};
static const struct inc_metric path_table[] = {HA_PATH_FIGURES(INC_METRIC_ROW, ha_path_figures)};
static const struct inc_metric device_table[] = {
	HA_DEVICE_FIGURES(INC_METRIC_ROW, ha_device_figures)};
static const struct inc_histogram_metric device_times[] = {
	HA_DEVICE_HISTOGRAMS(INC_HISTOGRAM_ROW, ha_device_times)};
static const struct inc_metric coll_table[] = {HA_COLL_FIGURES(INC_METRIC_ROW, ha_coll_figures)};
static const struct inc_histogram_metric coll_times[] = {
	HA_COLL_HISTOGRAMS(INC_HISTOGRAM_ROW, ha_coll_times)};
static const struct inc_metric file_table[] = {FILE_FIGURES(INC_METRIC_ROW, file_figures)};

struct ha_metrics {
	pthread_t thread;
	char host[64], pid[16];
	uint64_t period_ns;
	pthread_cond_t wake; /* of the thread, when stopping is set */
	/* The lock protects these. */
	struct ha_plugin *plugin; /* NULL: it was closed before the thread has ended */
	bool stopping, ended, abandoned;
	bool writing; /* the thread uses file, and may wait for the disk */
	/* Only the thread uses these: -errno of the last write, and whether one has succeeded. */
	int error;
	bool written;
	struct ha_metrics_file file;
	struct ha_device_metrics device[]; /* of each device of the plugin */
};

static struct {
	struct ha_coll_figures figures;
	struct ha_coll_times times;
} coll;

/* Never held while a thread waits for a disk. `changed`: the thread has written, or has ended. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* The lock protects these: the figures whose file the end of the process removes, or NULL, and
 * whether the process ends. */
static struct ha_metrics *current;
static bool exits;
/* The process with the thread. A child by fork() has another number, and must not take the lock. */
static _Atomic pid_t owner;

/* ---- counting, on any thread ---------------------------------------------------------------- */

struct ha_device_metrics *ha_metrics_device(struct ha_metrics *metrics, unsigned int dev)
{
	return metrics ? &metrics->device[dev] : NULL;
}

/* Adds a value to a histogram that the thread may read at the same time. */
static void observe(struct inc_histogram *histogram, uint64_t value_us)
{
	struct inc_histogram one = {0};
	unsigned int i;

	inc_histogram_observe(&one, &inc_histogram_times_us, value_us);
	for (i = 0; i <= inc_histogram_times_us.n; i++)
		if (one.counts[i])
			ha_metrics_add(&histogram->counts[i], one.counts[i]);
	ha_metrics_add(&histogram->sum, one.sum);
}

void ha_metrics_failover(struct ha_device_metrics *device, const struct ha_failover *failover,
			 uint64_t took_ns)
{
	if (!device)
		return;
	ha_metrics_add(&device->cause[failover->cause].failovers, 1);
	ha_metrics_add(&device->figures.replayed, failover->replayed);
	observe(&device->times.failover_us, took_ns / INC_NSEC_PER_USEC);
}

void ha_metrics_standby(struct ha_device_metrics *device, enum ha_standby *shown,
			enum ha_standby now)
{
	if (!device || *shown == now)
		return;
	if (now < HA_N_STANDBYS)
		ha_metrics_add(&device->comms[now].comms, 1);
	if (*shown < HA_N_STANDBYS)
		ha_metrics_add(&device->comms[*shown].comms, -1);
	*shown = now;
}

void ha_metrics_coll_comms(int more)
{
	ha_metrics_add(&coll.figures.collnet_comms, more);
}

void ha_metrics_coll_done(uint64_t bytes, uint64_t took_ns)
{
	ha_metrics_add(&coll.figures.collnet_bytes, bytes);
	observe(&coll.times.collnet_us, took_ns / INC_NSEC_PER_USEC);
}

void ha_metrics_coll_failed(void)
{
	ha_metrics_add(&coll.figures.collnet_errors, 1);
}

/* ---- the text ------------------------------------------------------------------------------- */

/* Copies numbers to which other threads add meanwhile. */
static void copy(void *to, const void *from, size_t bytes)
{
	const uint64_t *number = from;
	uint64_t *out = to;
	size_t i;

	for (i = 0; i < bytes / sizeof(*out); i++)
		out[i] = __atomic_load_n(&number[i], __ATOMIC_RELAXED);
}

/* The labels of a sample. The files of all processes of a host end up in one answer of the
 * collector, so each has the process. name: of one more label, or NULL. */
static json_t *labels_of(const struct ha_metrics *m, const char *device, const char *name,
			 const char *value)
{
	json_t *labels = json_pack("{s:s, s:s}", "host", m->host, "pid", m->pid);

	if (device)
		json_object_set_new(labels, "device", json_string(device));
	if (name)
		json_object_set_new(labels, name, json_string(value));
	return labels;
}

static void add_device(json_t *families, const struct ha_metrics *m, unsigned int dev)
{
	static const char *const standbys[] = {
#define TEXT(NAME, text) [HA_STANDBY_##NAME] = (text),
		HA_STANDBYS(TEXT)
#undef TEXT
	};
	const struct ha_device *device = &m->plugin->devices.device[dev];
	struct ha_device_metrics now;
	const char *path;
	unsigned int i;

	copy(&now, &m->device[dev], sizeof(now));
	for (i = 0; i < HA_N_STANDBYS; i++)
		inc_metric_sample(families, ROOM, INC_METRICS(comms_table), &now.comms[i],
				  labels_of(m, device->name, "standby", standbys[i]));
	for (i = 0; i < HA_N_CAUSES; i++)
		if (i != HA_CAUSE_NONE)
			inc_metric_sample(families, ROOM, INC_METRICS(cause_table), &now.cause[i],
					  labels_of(m, device->name, "cause", ha_cause_text(i)));
	for (i = 0; i < HA_RAILS; i++) {
		path = ha_rail_name(&device->rail[i]);
		if (path)
			inc_metric_sample(families, ROOM, INC_METRICS(path_table), &now.path[i],
					  labels_of(m, device->name, "path", path));
	}
	inc_metric_sample(families, ROOM, INC_METRICS(device_table), &now.figures,
			  labels_of(m, device->name, NULL, NULL));
	inc_histogram_sample(families, ROOM, INC_METRICS(device_times), &now.times,
			     labels_of(m, device->name, NULL, NULL));
}

/* Prints all figures into memory. The caller frees the text. Memory alone is used, because a child
 * of the process would write the buffer of a file a second time when it exits. */
static int print(const struct ha_metrics *m, char **text, size_t *bytes)
{
	const struct file_figures file = {.written_timestamp_seconds =
						  inc_wall_ns() / INC_NSEC_PER_SEC};
	FILE *out = open_memstream(text, bytes);
	json_t *families = json_array();
	struct ha_coll_figures figures;
	struct ha_coll_times times;
	unsigned int i;

	if (!out) {
		json_decref(families);
		return -ENOMEM;
	}
	for (i = 0; i < m->plugin->devices.n; i++)
		add_device(families, m, i);
	copy(&figures, &coll.figures, sizeof(figures));
	copy(&times, &coll.times, sizeof(times));
	inc_metric_sample(families, ROOM, INC_METRICS(coll_table), &figures,
			  labels_of(m, NULL, NULL, NULL));
	inc_histogram_sample(families, ROOM, INC_METRICS(coll_times), &times,
			     labels_of(m, NULL, NULL, NULL));
	inc_metric_sample(families, ROOM, INC_METRICS(file_table), &file,
			  labels_of(m, NULL, NULL, NULL));
	inc_metric_print(out, families);
	json_decref(families);
	return fclose(out) ? -ENOMEM : 0;
}

/* ---- the file ------------------------------------------------------------------------------- */

static const char *reason(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "another process with this number writes it";
	case EEXIST:
		return "there is a file that is not of figures, or of another user";
	default:
		return strerror(error);
	}
}

static const char *advice(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "name a directory for each container, or add %h where their host names "
		       "differ";
	case EEXIST:
		return "remove it, or name another file";
	case ENOENT:
	case ENOTDIR:
		return "make its directory";
	case EACCES:
	case EPERM:
	case EROFS:
		return "name a directory in which this user may write";
	case ENOSPC:
	case EDQUOT:
		return "free space there";
	default:
		return "name another file";
	}
}

/* Logs the first failure of several, and the first success. */
static void report(struct ha_metrics *m, int ret)
{
	const bool news = ret != m->error || !m->written;

	if (ret && ret != m->error)
		ha_log(m->plugin, HA_LOG_WARN,
		       "HA_NCCL_METRICS: %s: %s, so the figures are missing: %s", m->file.path,
		       reason(-ret), advice(-ret));
	else if (!ret && news)
		ha_log(m->plugin, HA_LOG_INFO, "HA_NCCL_METRICS: figures go to %s each %u ms",
		       m->file.path, m->plugin->config.metrics_ms);
	m->error = ret;
	m->written = m->written || !ret;
}

static void write_file(struct ha_metrics *m)
{
	size_t bytes = 0;
	char *text = NULL;
	bool writes;
	int ret = 0;

	pthread_mutex_lock(&lock);
	writes = !m->stopping && !exits;
	if (writes)
		ret = print(m, &text, &bytes);
	m->writing = writes;
	pthread_mutex_unlock(&lock);
	if (writes && !ret)
		ret = ha_metrics_file_put(&m->file, text, bytes);
	pthread_mutex_lock(&lock);
	m->writing = false;
	pthread_cond_broadcast(&changed);
	if (writes && !m->stopping && !exits)
		report(m, ret);
	pthread_mutex_unlock(&lock);
	free(text);
}

/* Removes the file of a process that exits. NCCL up to 2.27 never closes the plugin. A child by
 * fork() may exit, too, but the file is its parent's. */
__attribute__((destructor)) static void remove_at_exit(void)
{
	const struct timespec until = inc_timespec_of_ns(inc_wall_ns() + END_WAIT_NS);
	const struct ha_metrics *m;

	if (owner != getpid() || pthread_mutex_timedlock(&lock, &until))
		return;
	exits = true; /* so no thread makes a new file or frees m */
	m = current;
	while (m && m->writing && !pthread_cond_timedwait(&changed, &lock, &until))
		;
	if (m && !m->writing)
		ha_metrics_file_remove(&m->file);
	pthread_mutex_unlock(&lock);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* Waits until the next file is due. Returns whether the thread has to stop. */
static bool wait_until_due(struct ha_metrics *m, uint64_t at_ns)
{
	const struct timespec until = inc_timespec_of_ns(at_ns);
	bool stopping;

	pthread_mutex_lock(&lock);
	while (!m->stopping && inc_now_ns() < at_ns)
		pthread_cond_timedwait(&m->wake, &lock, &until);
	stopping = m->stopping;
	pthread_mutex_unlock(&lock);
	return stopping;
}

static void release(struct ha_metrics *m)
{
	if (m->file.fd >= 0)
		close(m->file.fd);
	pthread_cond_destroy(&m->wake);
	free(m->file.path);
	free(m);
}

/* All that may wait for a disk is in this thread. */
static void *work(void *arg)
{
	struct ha_metrics *m = arg;
	uint64_t sweep_at_ns = 0;
	bool frees;

	do {
		if (inc_now_ns() >= sweep_at_ns) {
			ha_metrics_file_sweep(&m->file);
			sweep_at_ns = inc_now_ns() + ha_metrics_disk.sweep_ns;
		}
		write_file(m);
	} while (!wait_until_due(m, inc_now_ns() + m->period_ns));
	ha_metrics_file_remove(&m->file);
	pthread_mutex_lock(&lock);
	m->ended = true;
	if (current == m && !exits)
		current = NULL;
	frees = m->abandoned && !exits;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (frees)
		release(m);
	return NULL;
}

/* Puts the host and the number of the process into the name. The key was checked by
 * ha_config_read(). */
static int make_names(struct ha_metrics *m, const char *form)
{
	size_t bytes = 0;
	FILE *out = open_memstream(&m->file.path, &bytes);

	if (!out)
		return -ENOMEM;
	for (; *form; form++) {
		if (*form != '%') {
			fputc(*form, out);
			continue;
		}
		if (*++form == 'p' && !fflush(out))
			m->file.number_at = bytes;
		fputs(*form == 'h' ? m->host : *form == 'p' ? m->pid : "%", out);
	}
	return fclose(out) ? -ENOMEM : 0;
}

static void set_current(struct ha_metrics *m)
{
	pthread_mutex_lock(&lock);
	current = m;
	owner = getpid();
	pthread_mutex_unlock(&lock);
}

static struct ha_metrics *make(struct ha_plugin *plugin)
{
	struct ha_metrics *m =
		calloc(1, sizeof(*m) + plugin->devices.n * sizeof(struct ha_device_metrics));
	pthread_condattr_t attr;

	if (!m)
		return NULL;
	m->plugin = plugin;
	m->period_ns = plugin->config.metrics_ms * INC_NSEC_PER_MSEC;
	m->file.fd = -1;
	gethostname(m->host, sizeof(m->host) - 1);
	snprintf(m->pid, sizeof(m->pid), "%d", (int)getpid());
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->wake, &attr);
	pthread_condattr_destroy(&attr);
	return m;
}

struct ha_metrics *ha_metrics_start(struct ha_plugin *plugin)
{
	struct ha_metrics *m;
	int ret;

	if (!plugin->config.metrics)
		return NULL;
	m = make(plugin);
	ret = m ? make_names(m, plugin->config.metrics) : -ENOMEM;
	if (!ret) {
		set_current(m);
		ret = inc_thread_create_apart(&m->thread, work, m);
	}
	if (!ret)
		return m;
	ha_log(plugin, HA_LOG_WARN, "HA_NCCL_METRICS: %s, so there are no figures", strerror(-ret));
	set_current(NULL);
	if (m)
		release(m);
	return NULL;
}

void ha_metrics_stop(struct ha_metrics *m)
{
	const struct timespec until = inc_timespec_of_ns(inc_wall_ns() + END_WAIT_NS);
	bool frees;

	if (!m)
		return;
	pthread_mutex_lock(&lock);
	m->stopping = true;
	pthread_cond_signal(&m->wake);
	while (!m->ended && !pthread_cond_timedwait(&changed, &lock, &until))
		;
	m->abandoned = !m->ended;
	if (m->abandoned) {
		ha_log(m->plugin, HA_LOG_WARN,
		       "HA_NCCL_METRICS: %s: its disk does not answer, so the file stays until it "
		       "does",
		       m->file.path);
		m->plugin = NULL;
		pthread_detach(m->thread);
		pthread_mutex_unlock(&lock);
		return;
	}
	frees = !exits;
	pthread_mutex_unlock(&lock);
	pthread_join(m->thread, NULL);
	if (frees)
		release(m);
}
