/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of rc_judge. */
#ifndef RC_JUDGE_H
#define RC_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#define JUDGE_MAX_HOSTS         8
#define JUDGE_MAX_COMMUNICATORS 64

struct judge_opts {
	unsigned int communicator;
	unsigned int hosts;
	unsigned int payload;
	unsigned int message_packets;
	unsigned int window; /* window of a host, in messages */
	unsigned int slots;
	unsigned int collectives;
	uint64_t bytes;       /* bytes of each collective */
	int write;            /* use RDMA WRITE instead of SEND */
	uint32_t psn;         /* PSN of host 0's first contribution; host h adds 1000 h */
	uint32_t result_psn;  /* PSN of host 0's first result; host h adds 1000 h */
	unsigned int late_us; /* time between host 0's sends and its receives */
	unsigned int timeout; /* attributes of the queue pair, see ibv_modify_qp(3) */
	unsigned int retry_cnt;
	unsigned int min_rnr_timer;
	unsigned int limit_s;
};

/* Reads the options. Returns -1 to go on, or the program's exit code. */
int judge_parse(int argc, char **argv, struct judge_opts *opts);

#endif
