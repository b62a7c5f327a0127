/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this directory share. All of it under `fake_lock`. */
#ifndef FAKE_RC_PRIV_H
#define FAKE_RC_PRIV_H

#include <pthread.h>
#include "selftests/fake_rc/fake_rc.h"

#define FAKE_MAX_OBJECTS  1024 /* of a kind */
#define FAKE_DEPTH        1024 /* of any queue */
#define FAKE_INLINE_BYTES 256

struct fake_dev {
	struct ibv_device ibv; /* first */
	bool by_hand;
	enum ibv_port_state state;
	unsigned int faults;
	unsigned int gid_index;
	union ibv_gid gid;
};

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t copy[FAKE_INLINE_BYTES]; /* of inline data */
};

struct fake_qp {
	struct ibv_qp ibv; /* first */
	struct fake_dev *dev;
	enum ibv_qp_state state;
	uint32_t peer_qpn;
	union ibv_gid own_gid, peer_gid;
	uint64_t patience_ns; /* after which it gives up; 0: never */
	struct ibv_qp_cap cap;
	/* request n: n % FAKE_DEPTH, from 1 */
	struct request sq[FAKE_DEPTH];
	uint64_t posted, executed, acknowledged, freed;
	uint64_t arrived;     /* of the peer's requests: this one and all before */
	uint64_t waits_at_ns; /* since when the oldest waits for its acknowledgement; 0: none */
	uint64_t tried;       /* generation of faults in which all were sent */
	struct ibv_recv_wr rq[FAKE_DEPTH];
	struct ibv_sge rq_sge[FAKE_DEPTH];
	uint64_t rq_posted, rq_taken;
};

extern pthread_mutex_t fake_lock;
extern struct fake_qp *fake_qps[FAKE_MAX_OBJECTS]; /* NULL: free */
extern unsigned int fake_n_qps;
extern uint64_t fake_generation; /* counts what may let a lost request through now */

/* Ends the program with the reason, unless it holds. */
void fake_must(bool holds, const char *reason);

/* objects.c */
uint32_t fake_number(void); /* of a queue pair or a key: none is given twice */
/* Objects of a kind, in a table of as many places as there have been at once. */
void fake_put(void *table, unsigned int *n, void *object);
void fake_take_out(void *table, unsigned int n, const void *object);
void fake_complete_send(struct fake_qp *qp, uint64_t number, enum ibv_wc_status status);
void fake_complete_receive(struct fake_qp *qp, const struct ibv_wc *wc);
bool fake_may_touch(const struct ibv_context *ctx, uint32_t key, uint64_t addr, uint32_t length,
		    int access);
bool fake_call_fails(void); /* as fake_fail_call() says; errno is set */
/* 0, or an errno, as fake_refuse() and fake_fail_call() say. */
int fake_refused(enum fake_call call);

/* queue_pairs.c */
void fake_flush(struct fake_qp *qp);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* wire.c */
void fake_stop(struct fake_qp *qp, enum ibv_wc_status status);
/* Sends what can be sent, and gives up what has waited too long: of one, of all. */
void fake_go_on(struct fake_qp *qp);
void fake_go_on_all(void);
void fake_forget_packets(void);

/* machine.c */
struct fake_dev *fake_dev_of(const struct ibv_context *ctx);
struct fake_dev *fake_dev_at(const union ibv_gid *gid); /* NULL: none has it */
void fake_set_ops(struct ibv_context *ctx);             /* objects.c */
uint32_t fake_number(void); /* of a queue pair or a key: none is given twice */
/* Objects of a kind, in a table of as many places as there have been at once. */
void fake_put(void *table, unsigned int *n, void *object);
void fake_take_out(void *table, unsigned int n, const void *object);

#endif
