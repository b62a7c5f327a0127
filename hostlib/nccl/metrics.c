/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "hostlib/nccl/metrics.h"
#include "lib/base/clock.h"
#include "lib/base/thread.h"

#define ROOM   "nccl"
#define ENDING ".tmp" /* the name under which a file is written; collectors read *.prom */
/* Files that were not written for so long are of processes that were killed. Each process writes at
 * least once a minute (HA_NCCL_METRICS_MS). */
#define STALE_S 600
/* most time for which the end of the process waits for a file that is being written */
#define EXIT_WAIT_NS INC_NSEC_PER_SEC

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
	struct ha_plugin *plugin;
	pthread_t thread;
	pid_t owner; /* the process; a child has another number and no such thread */
	char host[64], pid[16];
	char *path, *temp;
	size_t number_at;     /* place of the number of the process in path */
	pthread_mutex_t lock; /* protects stopping */
	pthread_cond_t wake;
	bool stopping;
	/* Only the thread uses these: -errno of the last write, and whether one has succeeded. */
	int error;
	bool written;
	struct ha_device_metrics device[]; /* of each device of the plugin */
};

static struct {
	struct ha_coll_figures figures;
	struct ha_coll_times times;
} coll;

/* Held while a file is written. It protects `current`, whose file the end of the process removes;
 * NULL: there is none. */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ha_metrics *_Atomic current;

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

/* Writes the text under the temporary name, and renames it. Returns 0 or -errno. Nothing is synced,
 * because the figures end with the process anyway. The mode of the new file follows the umask,
 * which a library must not touch. */
static int put(const struct ha_metrics *m, const char *text, size_t bytes)
{
	ssize_t n = 0;
	int fd, ret;

	unlink(m->temp); /* one of a process with the same number that was killed */
	fd = open(m->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	for (; bytes; text += n, bytes -= n) {
		n = write(fd, text, bytes);
		if (n <= 0)
			break;
	}
	ret = n < 0 ? -errno : bytes ? -EIO : 0;
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(m->temp, m->path))
		ret = -errno;
	if (ret)
		unlink(m->temp);
	return ret;
}

static const char *advice(int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return "make its directory";
	case EACCES:
	case EPERM:
	case EROFS:
	case EEXIST:
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
		       "HA_NCCL_METRICS: %s: %s, so the figures are missing: %s", m->path,
		       strerror(-ret), advice(-ret));
	else if (!ret && news)
		ha_log(m->plugin, HA_LOG_INFO, "HA_NCCL_METRICS: figures go to %s each %u ms",
		       m->path, m->plugin->config.metrics_ms);
	m->error = ret;
	m->written = m->written || !ret;
}

static void write_file(struct ha_metrics *m)
{
	size_t bytes = 0;
	char *text = NULL;
	int ret = print(m, &text, &bytes);
	bool exits;

	pthread_mutex_lock(&file_lock);
	exits = current != m; /* the process exits, so there must be no new file */
	if (!ret && !exits)
		ret = put(m, text, bytes);
	pthread_mutex_unlock(&file_lock);
	free(text);
	if (!exits)
		report(m, ret);
}

/* Whether a name is that of a file of another process: the text before its number, digits, and the
 * text behind it, perhaps with the ending of a temporary file. */
static bool is_of_process(const char *name, const char *before, size_t len, const char *behind)
{
	size_t digits;

	if (strncmp(name, before, len))
		return false;
	digits = strspn(name + len, "0123456789");
	name += len + digits;
	return digits && !strncmp(name, behind, strlen(behind)) &&
	       (!name[strlen(behind)] || !strcmp(name + strlen(behind), ENDING));
}

/* Removes what killed processes have left: files beside the own one, with another number in the
 * place of the own one, that were not written for STALE_S. */
static void sweep(const struct ha_metrics *m)
{
	const char *slash = strrchr(m->path, '/'), *number = m->path + m->number_at;
	const int64_t now_s = inc_wall_ns() / INC_NSEC_PER_SEC;
	struct dirent *entry;
	struct stat st;
	char *directory;
	DIR *list;

	if (number < slash) /* it is in the name of a directory */
		return;
	directory = strndup(m->path, slash - m->path + 1);
	list = directory ? opendir(directory) : NULL;
	while (list && (entry = readdir(list)))
		if (is_of_process(entry->d_name, slash + 1, number - slash - 1,
				  number + strlen(m->pid)) &&
		    !fstatat(dirfd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && now_s - (int64_t)st.st_mtim.tv_sec > STALE_S)
			unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
	free(directory);
}

/* Removes the file of a process that exits. NCCL up to 2.27 never closes the plugin. A child by
 * fork() may exit, too, but the file is its parent's. */
__attribute__((destructor)) static void remove_at_exit(void)
{
	const struct ha_metrics *m = current;
	struct timespec until;

	if (!m || m->owner != getpid())
		return;
	until = inc_timespec_of_ns(inc_wall_ns() + EXIT_WAIT_NS);
	if (pthread_mutex_timedlock(&file_lock, &until))
		return;
	if (current == m)
		unlink(m->path);
	current = NULL;
	pthread_mutex_unlock(&file_lock);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* Waits until the next file is due. Returns whether the thread has to stop. */
static bool wait_until_due(struct ha_metrics *m, uint64_t at_ns)
{
	const struct timespec until = inc_timespec_of_ns(at_ns);
	bool stopping;

	pthread_mutex_lock(&m->lock);
	while (!m->stopping && inc_now_ns() < at_ns)
		pthread_cond_timedwait(&m->wake, &m->lock, &until);
	stopping = m->stopping;
	pthread_mutex_unlock(&m->lock);
	return stopping;
}

static void *work(void *arg)
{
	struct ha_metrics *m = arg;

	sweep(m);
	do
		write_file(m);
	while (!wait_until_due(m, inc_now_ns() + m->plugin->config.metrics_ms * INC_NSEC_PER_MSEC));
	return NULL;
}

/* Puts the host and the number of the process into the name. The key was checked by
 * ha_config_read(). */
static int make_names(struct ha_metrics *m, const char *form)
{
	size_t bytes = 0;
	FILE *out = open_memstream(&m->path, &bytes);

	if (!out)
		return -ENOMEM;
	for (; *form; form++) {
		if (*form != '%') {
			fputc(*form, out);
			continue;
		}
		if (*++form == 'p' && !fflush(out))
			m->number_at = bytes;
		fputs(*form == 'h' ? m->host : *form == 'p' ? m->pid : "%", out);
	}
	if (fclose(out) || asprintf(&m->temp, "%s" ENDING, m->path) < 0)
		return -ENOMEM;
	return 0;
}

static void release(struct ha_metrics *m)
{
	pthread_cond_destroy(&m->wake);
	pthread_mutex_destroy(&m->lock);
	free(m->path);
	free(m->temp);
	free(m);
}

static void set_current(struct ha_metrics *m)
{
	pthread_mutex_lock(&file_lock);
	current = m;
	pthread_mutex_unlock(&file_lock);
}

static struct ha_metrics *make(struct ha_plugin *plugin)
{
	struct ha_metrics *m =
		calloc(1, sizeof(*m) + plugin->devices.n * sizeof(struct ha_device_metrics));
	pthread_condattr_t attr;

	if (!m)
		return NULL;
	m->plugin = plugin;
	m->owner = getpid();
	gethostname(m->host, sizeof(m->host) - 1);
	snprintf(m->pid, sizeof(m->pid), "%d", (int)m->owner);
	pthread_mutex_init(&m->lock, NULL);
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
	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->stopping = true;
	pthread_cond_signal(&m->wake);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	set_current(NULL);
	unlink(m->path);
	release(m);
}
