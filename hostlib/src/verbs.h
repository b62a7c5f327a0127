/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs transport: one RC queue pair of a RoCEv2 device per communicator.
 *	verbs_config.c	its settings		verbs_region.c	registered memory
 *	verbs.c		life of the queue pair	verbs_data.c	messages and completions
 */
#ifndef INCCL_VERBS_H
#define INCCL_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/async.h"
#include "lib/rdma/cache.h"
#include "lib/rdma/completion.h"
#include "lib/rdma/place.h"
#include "lib/rdma/qp.h"
#include "hostlib/src/transport.h"
#include "hostlib/src/verbs_region.h"

/*
 * Settings, from INCCL_VERBS ("key=value,key=value"), then from the communicator's options,
 * which win. Attribute names and units are those of ibv_modify_qp(3).
 */
struct verbs_config {
	char device[64];   /* "": the one that has the address */
	int port;          /* 0: any */
	int gid_index;     /* -1: found by address */
	int timeout;       /* ACK timeout is 4.096 us * 2^timeout */
	int retry_cnt;     /* 7 is for ever on some devices (rxe) */
	int rnr_retry;     /* 7 is for ever on every device: refused */
	int min_rnr_timer; /* code of the delay that our RNR NAKs ask for */
	int sl;            /* 802.1p priority on a VLAN */
	int traffic_class; /* TOS byte: DSCP * 4 + ECN */
	int hop_limit;     /* TTL */
	int flow_label;    /* 0: the device's choice; UDP source port of some devices */
	int pkey_index;
	int port_down_ms; /* a port that stays down so long fails the connection */
	int cache_mib;    /* registrations kept for reuse; 0: none */
};

int verbs_config_read(const char *options, struct verbs_config *config, struct inc_err *err);

#define VERBS_BATCH 32 /* work requests per doorbell, completions per poll */

/* Of one message under way. */
struct verbs_slot {
	struct inc_rdma_mr *send_mr;            /* held until the send is complete */
	const struct inccl_region *recv_region; /* until the result is there */
	uint32_t recv_len;
	unsigned int packets;
	uint32_t imm;
	bool has_imm;
};

struct verbs_endpoint {
	struct inccl_endpoint base; /* first */
	struct verbs_config config;
	struct inc_rdma_place place;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct inc_rdma_subscriber events;
	int epoll_fd; /* completions and asynchronous events */
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;
	uint32_t addr;
	uint32_t start_psn;
	unsigned int payload;
	unsigned int depth; /* messages under way at most: a window of single packets */
	uint64_t under_way; /* packets */

	struct verbs_slot *slot; /* of message m: m & slot_mask */
	uint64_t slot_mask;
	uint64_t send_depth; /* sends the queue takes */
	uint64_t sends_done; /* sends complete: all before this message */
	uint64_t signal_due; /* ask for a completion at this message at the latest */
	uint32_t desc;       /* immediate of the collective in progress */

	/* Posted by the communicator, not yet given to the device. */
	unsigned int batch;
	struct ibv_send_wr send_wr[VERBS_BATCH];
	struct ibv_sge send_sge[VERBS_BATCH];
	struct ibv_recv_wr recv_wr[VERBS_BATCH];
	struct ibv_sge recv_sge[VERBS_BATCH];

	unsigned int idle_polls;
	uint64_t port_down_at_ns; /* 0: it is up */
	int failed;               /* -errno, with base.error filled */
	struct inc_rdma_cache cache;
};

static inline struct verbs_endpoint *verbs_ep(struct inccl_endpoint *base)
{
	return (struct verbs_endpoint *)base;
}

/* verbs_data.c: what the device says of its port and its queue pair. */
void verbs_on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event);
int verbs_fail(struct verbs_endpoint *ep, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* verbs_data.c */
uint64_t verbs_under_way(const struct inccl_endpoint *base);
int verbs_post(struct inccl_endpoint *base, const struct inccl_message *msg);
int verbs_flush(struct inccl_endpoint *base);
int verbs_progress(struct inccl_endpoint *base);
int verbs_arm(struct inccl_endpoint *base, int *fd, short *events, uint64_t *deadline_ns);
bool verbs_kept(const struct inccl_endpoint *base);
bool verbs_quiet(struct inccl_endpoint *base);
uint64_t verbs_moved(const struct inccl_endpoint *base);
void verbs_describe(struct inccl_endpoint *base, char *buf, size_t size);

#endif
