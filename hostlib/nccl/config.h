/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings of the plugin: environment variables HA_NCCL_*, read once by init. config.c has the
 * table (name, unit, default, bounds, one line of help), from which docs/nccl.md's table is
 * checked. A value that is none is refused with the variable's name: init fails.
 */
#ifndef HA_CONFIG_H
#define HA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"

struct ha_config {
	uint32_t poll_batch; /* HA_NCCL_POLL_BATCH: completions a progress thread takes at once; 32
			      */
	uint32_t idle_spin_threshold; /* HA_NCCL_IDLE_SPIN_THRESHOLD: empty rounds before it sleeps;
					 1000 */
	uint32_t poll_standby_interval; /* HA_NCCL_POLL_STANDBY_INTERVAL: rounds between looks at
					   standbys; 100 */
	uint32_t test_max_poll; /* HA_NCCL_TEST_MAX_POLL: completions that test() takes; 32 */
	uint32_t rto_ms;        /* HA_NCCL_RTO_MS; 1000 */
	uint32_t heartbeat_ms;  /* HA_NCCL_HEARTBEAT_MS; 100 */
	uint8_t qp_timeout;     /* HA_NCCL_QP_TIMEOUT: 4.096 us * 2^n; 14 */
	uint8_t qp_retry_cnt;   /* HA_NCCL_QP_RETRY_CNT: 0 to 7; 7. On rxe 7 is for ever: 6 there */
	uint32_t expected_channels; /* HA_NCCL_EXPECTED_CHANNELS; 16 */
	uint32_t wr_per_conn;       /* HA_NCCL_WR_PER_CONN; 64 */
	uint32_t max_recvs;         /* HA_NCCL_MAX_RECVS: 1 to 8; 8 */
	bool enable_backup;         /* HA_NCCL_ENABLE_BACKUP; 1 */
	bool failback;              /* HA_NCCL_FAILBACK; 0 */
	bool rto_adaptive;          /* HA_NCCL_RTO_ADAPTIVE; 0 */
	const char *ib_hca;         /* NCCL_IB_HCA; NULL: all. Of the environment */
	const char *socket_ifname;  /* NCCL_SOCKET_IFNAME; NULL: any. Of the environment */
	int gid_index;              /* NCCL_IB_GID_INDEX; -1: found */
	uint8_t traffic_class, sl;  /* NCCL_IB_TC, NCCL_IB_SL; 0 */
};

/* 0, or -EINVAL: err names the variable, its value and what is allowed. */
int ha_config_read(struct ha_config *config, struct inc_err *err);

/* The time in which the device itself gives up: its timeout times its retries. Devices stretch it
 * up to fourfold. */
uint64_t ha_config_window_ns(const struct ha_config *config);

#endif
