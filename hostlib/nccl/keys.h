/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings of the plugin: environment variables, which init reads once. A variable that the program
 * changes later has no effect, or the two ends of a connection could differ. Each is defined only
 * in the table below, and a test compares docs/nccl.md with the table. If a value is invalid, init
 * fails with an error that names the variable.
 */
#ifndef HA_KEYS_H
#define HA_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/control_msg.h"
#include "lib/base/err.h"

/* Numeric settings of the plugin: type, member, variable, NCCL's own variable that counts where the
 * first one is not set, unit, default, minimum, maximum, description. A bool is 0 or 1. */
#define HA_NUMBERS(_)                                                                              \
	_(uint32_t, rto_ms, "HA_NCCL_RTO_MS", NULL, "ms", 1000, 10, 600000,                        \
	  "a send without progress for this long leaves its path; also the time that a switch "    \
	  "may take")                                                                              \
	_(uint32_t, heartbeat_ms, "HA_NCCL_HEARTBEAT_MS", NULL, "ms", 100, 1, 60000,               \
	  "between PINGs, and between repetitions of a control message that is not answered")      \
	_(uint8_t, qp_timeout, "HA_NCCL_QP_TIMEOUT", "NCCL_IB_TIMEOUT", "", 14, 1, 31,             \
	  "ACK timeout of a queue pair: 4.096 us * 2^n")                                           \
	_(uint8_t, qp_retry_cnt, "HA_NCCL_QP_RETRY_CNT", "NCCL_IB_RETRY_CNT", "", 7, 0, 7,         \
	  "timeouts until the device gives up; 7 is for ever on rxe")                              \
	_(bool, enable_backup, "HA_NCCL_ENABLE_BACKUP", NULL, "", 1, 0, 1,                         \
	  "each comm has a standby path where there is one")                                       \
	_(bool, failback, "HA_NCCL_FAILBACK", NULL, "", 0, 0, 1,                                   \
	  "go back to a repaired first path")                                                      \
	_(bool, rto_adaptive, "HA_NCCL_RTO_ADAPTIVE", NULL, "", 0, 0, 1,                           \
	  "three recoveries in a row that were quick make the RTO longer, by half")                \
	_(uint32_t, poll_batch, "HA_NCCL_POLL_BATCH", NULL, "completions", 32, 1, 4096,            \
	  "that the progress thread takes of a comm's path at once")                               \
	_(uint32_t, idle_spin_threshold, "HA_NCCL_IDLE_SPIN_THRESHOLD", NULL, "rounds", 1000, 0,   \
	  1000000000, "without work until the progress thread sleeps")                             \
	_(uint32_t, poll_standby_interval, "HA_NCCL_POLL_STANDBY_INTERVAL", NULL, "rounds", 100,   \
	  1, 1000000, "between looks at the standby")                                              \
	_(uint32_t, test_max_poll, "HA_NCCL_TEST_MAX_POLL", NULL, "completions", 32, 1, 4096,      \
	  "that one test() takes of the comm's path at most")                                      \
	_(uint32_t, expected_channels, "HA_NCCL_EXPECTED_CHANNELS", NULL, "", 16, 1, 1024,         \
	  "channels of the job; of the budget of comms")                                           \
	_(uint32_t, wr_per_conn, "HA_NCCL_WR_PER_CONN", NULL, "work requests", 64, 1, 65536,       \
	  "of a connection; of the budget of comms alone")                                         \
	_(uint32_t, max_recvs, "HA_NCCL_MAX_RECVS", NULL, "", HA_GROUP, 1, HA_GROUP,               \
	  "receives that NCCL may group in one; also of the budget of comms")                      \
	_(uint32_t, switch_timeout_ms, "HA_NCCL_SWITCH_TIMEOUT_MS", NULL, "ms", 2000, 100, 600000, \
	  "a CollNet call ends if its switch answers nothing for so long; not with verbs")         \
	_(bool, no_flush, "NCCL_GDR_FLUSH_DISABLE", NULL, "", 0, 0, 1,                             \
	  "iflush does nothing, so that GPU memory may be read before its data are there")         \
	_(uint32_t, metrics_ms, "HA_NCCL_METRICS_MS", NULL, "ms", 5000, 100, 60000,                \
	  "from one writing of the file of HA_NCCL_METRICS to the next")                           \
	_(int, gid_index, "NCCL_IB_GID_INDEX", NULL, "", -1, -1, 255,                              \
	  "place in the port's GID table; -1: found, RoCE v2 first")                               \
	_(uint8_t, traffic_class, "NCCL_IB_TC", NULL, "", 0, 0, 255,                               \
	  "traffic class of the packets")                                                          \
	_(uint8_t, sl, "NCCL_IB_SL", NULL, "", 0, 0, 15, "service level of the packets")           \
	_(uint16_t, pkey_index, "NCCL_IB_PKEY", NULL, "", 0, 0, 65535,                             \
	  "place of the partition key in the port's table")

/* Text settings of the plugin, in NCCL's syntax: member, variable, description. The member is NULL
 * if the variable is not set. */
#define HA_TEXTS(_)                                                                             \
	_(ib_hca, "NCCL_IB_HCA",                                                                \
	  "devices that may be used: prefixes, or names behind `=`, all but these behind `^`, " \
	  "each with `:port` or without")                                                       \
	_(socket_ifname, "NCCL_SOCKET_IFNAME",                                                  \
	  "interface of the TCP sockets, in the same form without ports")                       \
	_(transport, "HA_NCCL_TRANSPORT",                                                       \
	  "`verbs`, the default, or `soft`: UDP sockets of the interfaces that "                \
	  "NCCL_SOCKET_IFNAME allows, instead of RDMA devices")                                 \
	_(metrics, "HA_NCCL_METRICS",                                                           \
	  "file of the figures for Prometheus: an absolute path that ends in .prom, with %p, "  \
	  "the number of the process, and with %h, the host's name, where hosts share the "     \
	  "directory")

#define HA_VERBS_TEXT 160

struct ha_config {
#define HA_NUMBER_(type, member, name, instead, unit, def, least, most, text) type member;
#define HA_TEXT_(member, name, text)                                          const char *member;
	HA_NUMBERS(HA_NUMBER_)
	HA_TEXTS(HA_TEXT_)
#undef HA_NUMBER_
#undef HA_TEXT_
	/* The settings of queue pairs that the environment determines in the form of INCCL_VERBS,
	 * such as ",traffic_class=96,pkey_index=1". CollNet's queue pairs have them, too. Each
	 * begins with a comma. A traffic class that libinccl would reject is left out. */
	char verbs[HA_VERBS_TEXT];
};

/* A row of the tables of settings, for programs that print the settings. */
struct ha_setting {
	const char *name;
	const char
		*instead; /* NCCL's own variable, which counts where `name` is not set; or NULL */
	const char *unit; /* unit of a number, or "" if it has none; NULL: the setting is a text */
	int64_t def, least, most;
	const char *text;
};
/* The rows of both tables of settings. The last element has no name. */
extern const struct ha_setting ha_settings[];

/* Reads all settings from the environment. Returns 0, or -EINVAL and an error with the variable,
 * its value and the allowed range. An empty variable counts as not set. */
int ha_config_read(struct ha_config *config, struct inc_err *err);

/* The variable that determines a setting, and its text. Returns NULL if the setting has its
 * default. *text is not NULL then if NCCL's own variable has a value that the setting cannot have.
 * NCCL accepts more values, so this is no error. */
const char *ha_setting_source(const struct ha_setting *setting, const char **text);

/* Whether HA_NCCL_TRANSPORT is soft: the devices are network interfaces. */
bool ha_config_is_soft(const struct ha_config *config);

/* Returns the time after which a device itself reports that the peer does not answer: its timeout
 * times its retries. Real devices take up to four times as long. */
uint64_t ha_config_window_ns(const struct ha_config *config);

/* Whether some settings do not fit together, or do not fit an rxe device; why has the warnings. The
 * plugin works all the same. */
bool ha_config_doubts(const struct ha_config *config, bool rxe, struct inc_err *why);

#endif
