/* SPDX-License-Identifier: BSD-2-Clause */
/* What rc_judge was asked for. */
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
	unsigned int window; /* messages */
	unsigned int slots;
	unsigned int collectives;
	uint64_t bytes;       /* of each collective */
	int write;            /* RDMA WRITE instead of SEND */
	uint32_t psn;         /* of the first contribution, host h adds 1000 h */
	uint32_t result_psn;  /* of the first result, host h adds 1000 h */
	unsigned int late_us; /* host 0 posts its receives so much after its sends */
	unsigned int timeout; /* QP attributes, as ibv_modify_qp(3) has them */
	unsigned int retry_cnt;
	unsigned int min_rnr_timer;
	unsigned int limit_s;
};

/* -1: go on, else the exit code. */
int judge_parse(int argc, char **argv, struct judge_opts *opts);

#endif
