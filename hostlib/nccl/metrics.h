/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plugin's figures, as Prometheus text in a file that a collector on the host reads, such as
 * node_exporter's for text files. HA_NCCL_METRICS names the file. Without it no thread of this
 * runs, and comms count nothing.
 *
 * The threads of NCCL and of the plugin only add to numbers, and never wait. One thread of the
 * plugin writes the file under another name and renames it, so that a reader never sees a part. A
 * failure is one line of the log. The file is removed when the plugin is closed or the process
 * exits, so that a collector shows no process that has ended. Children by fork() have no such
 * thread and leave the file alone. No file is replaced or removed unless it begins as files of
 * figures do, belongs to the same user, and has no other process that writes it.
 */
#ifndef HA_METRICS_H
#define HA_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "hostlib/nccl/control_msg.h"
#include "hostlib/nccl/end.h"
#include "lib/metric/histogram.h"
#include "lib/metric/metric.h"

/* The states of a comm's standby path, and the value of the label "standby". */
#define HA_STANDBYS(_)                                                                    \
	_(READY, "ready")     /* the comm can fail over */                                \
	_(MISSING, "missing") /* both ends have a second rail, but no path is up on it */ \
	_(NONE, "none")       /* the comm has a single path */

enum ha_standby {
#define HA_STANDBY_(NAME, text) HA_STANDBY_##NAME,
	HA_STANDBYS(HA_STANDBY_)
#undef HA_STANDBY_
		HA_N_STANDBYS /* the comm is not up, so it is not counted */
};

#define HA_ONE_CAUSE_(NAME, number, text) +1
enum { HA_N_CAUSES = HA_CAUSES(HA_ONE_CAUSE_) };
#undef HA_ONE_CAUSE_

/* With the labels "device" and "standby". */
#define HA_COMMS_FIGURES(_, T) \
	_(T, comms, "", GAUGE, "comms that are up, by the state of their standby path")
struct ha_comms_figures {
	HA_COMMS_FIGURES(INC_METRIC_FIELD, ha_comms_figures)
};

/* With the labels "device" and "cause". */
#define HA_CAUSE_FIGURES(_, T) _(T, failovers, "", COUNTER, "failovers of comms, by cause")
struct ha_cause_figures {
	HA_CAUSE_FIGURES(INC_METRIC_FIELD, ha_cause_figures)
};

/* With the labels "device" and "path". */
#define HA_PATH_FIGURES(_, T)                                                               \
	_(T, sent_bytes, "", COUNTER, "payload sent by this path, also what is sent again") \
	_(T, received_bytes, "", COUNTER, "payload received by this path")
struct ha_path_figures {
	HA_PATH_FIGURES(INC_METRIC_FIELD, ha_path_figures)
};

/* With the label "device". */
#define HA_DEVICE_FIGURES(_, T)                                            \
	_(T, replayed, "", COUNTER,                                        \
	  "payloads sent again and receives described again by failovers") \
	_(T, failed_comms, "", COUNTER, "comms that have ended with an error")
struct ha_device_figures {
	HA_DEVICE_FIGURES(INC_METRIC_FIELD, ha_device_figures)
};
#define HA_DEVICE_HISTOGRAMS(_, T)                                \
	_(T, failover_us, "microseconds", inc_histogram_times_us, \
	  "time of a failover until data may flow again")
struct ha_device_times {
	HA_DEVICE_HISTOGRAMS(INC_HISTOGRAM_FIELD, ha_device_times)
};

/* Of the process. CollNet's comms do not belong to one device alone. */
#define HA_COLL_FIGURES(_, T)                                                          \
	_(T, collnet_comms, "", GAUGE, "comms of CollNet that are connected")          \
	_(T, collnet_bytes, "", COUNTER, "data of CollNet calls that have ended well") \
	_(T, collnet_errors, "", COUNTER, "CollNet calls that have ended with an error")
struct ha_coll_figures {
	HA_COLL_FIGURES(INC_METRIC_FIELD, ha_coll_figures)
};
#define HA_COLL_HISTOGRAMS(_, T)                                 \
	_(T, collnet_us, "microseconds", inc_histogram_times_us, \
	  "time of CollNet calls, from their start until NCCL has noticed their end")
struct ha_coll_times {
	HA_COLL_HISTOGRAMS(INC_HISTOGRAM_FIELD, ha_coll_times)
};

/* The numbers of a device. All members are uint64_t, because the thread that writes the file
 * copies them one by one. */
struct ha_device_metrics {
	struct ha_comms_figures comms[HA_N_STANDBYS];
	struct ha_cause_figures cause[HA_N_CAUSES];
	struct ha_path_figures path[HA_RAILS];
	struct ha_device_figures figures;
	struct ha_device_times times;
};

/* A test replaces members by assignment, before it opens the plugin. */
struct ha_metrics_disk {
	int (*rename)(const char *from, const char *to);
	uint64_t sweep_ns; /* from one search for files of killed processes to the next */
};
extern struct ha_metrics_disk ha_metrics_disk;

/* metrics_file.c: the file. These functions may wait for the disk. */

/* The descriptor of what this process has written stays open with a lock. So another process with
 * the same number, in another container, knows that the file has an owner. */
struct ha_metrics_file {
	char *path;
	size_t number_at; /* place of the number of the process in path */
	int fd;           /* -1: nothing is written yet */
	dev_t device;
	ino_t inode;
};

/* Writes the text under a name that no other process uses, and renames the file. Returns 0,
 * -EEXIST if the place has a file that is not of figures, or of another user, -EADDRINUSE if
 * another process writes it, or -errno. */
int ha_metrics_file_put(struct ha_metrics_file *file, const char *text, size_t bytes);
/* Removes the file if this process has written it. */
void ha_metrics_file_remove(const struct ha_metrics_file *file);
/* Removes what killed processes of this user have left: files of figures beside the own one, with
 * another number in the place of the own one, that were not written for ten minutes. */
void ha_metrics_file_sweep(const struct ha_metrics_file *file);

struct ha_metrics;
struct ha_plugin;

/* Begins to write the file, after plugin->devices is open. Returns NULL if there is nothing to
 * write, or no thread, which is logged. */
struct ha_metrics *ha_metrics_start(struct ha_plugin *plugin);
/* Ends the thread, which removes the file. metrics may be NULL. If the disk does not answer for a
 * second, the thread goes on alone, removes the file when the disk answers, and frees metrics. It
 * uses the plugin no more. */
void ha_metrics_stop(struct ha_metrics *metrics);

/* Returns where comms of this device count, or NULL if metrics is NULL. */
struct ha_device_metrics *ha_metrics_device(struct ha_metrics *metrics, unsigned int dev);

/* Adds to a number that the thread reads. */
static inline void ha_metrics_add(uint64_t *number, uint64_t more)
{
	__atomic_fetch_add(number, more, __ATOMIC_RELAXED);
}

/* Counts a failover that has taken so long. */
void ha_metrics_failover(struct ha_device_metrics *device, const struct ha_failover *failover,
			 uint64_t took_ns);
/* Counts a comm whose standby path has another state, which becomes *shown. */
void ha_metrics_standby(struct ha_device_metrics *device, enum ha_standby *shown,
			enum ha_standby now);

/* The figures of CollNet are those of the process, and they are counted in any case, because a
 * collective comm knows no plugin. */
void ha_metrics_coll_comms(int more);
void ha_metrics_coll_done(uint64_t bytes, uint64_t took_ns);
void ha_metrics_coll_failed(void);

#endif
