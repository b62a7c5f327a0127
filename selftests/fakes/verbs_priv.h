/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files verbs_*.c share. The lock `fake_verbs_lock` protects all of these
 * data. */
#ifndef SELFTESTS_FAKES_VERBS_PRIV_H
#define SELFTESTS_FAKES_VERBS_PRIV_H

#include <pthread.h>
#include "selftests/fakes/verbs.h"

#define FAKE_VERBS_MAX_OBJECTS  1024 /* greatest number of objects of one kind */
#define FAKE_VERBS_DEPTH        1024 /* number of entries of any queue */
#define FAKE_VERBS_INLINE_BYTES 256

struct fake_verbs_dev {
	/* must be the first member, because pointers to it are cast to this struct */
	struct ibv_device ibv;
	bool by_hand;
	enum ibv_port_state state;
	unsigned int faults;
	unsigned int ports;
	unsigned int gid_index;
	union ibv_gid gid;
	uint16_t pkey; /* the P_Key at index 1 */
	/* writes to GPU memory that are still in the device, the oldest first */
	struct fake_verbs_late *first_late, *last_late;
	unsigned int lates;
};

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t copy[FAKE_VERBS_INLINE_BYTES]; /* copy of the request's inline data */
};

struct fake_verbs_qp {
	/* must be the first member, because pointers to it are cast to this struct */
	struct ibv_qp ibv;
	struct fake_verbs_dev *dev;
	enum ibv_qp_state state;
	uint32_t peer_qpn;
	uint16_t pkey_index;
	/* the attributes with which the queue pair went to each state, and their mask */
	struct ibv_qp_attr given[IBV_QPS_RTS + 1];
	int mask[IBV_QPS_RTS + 1];
	union ibv_gid own_gid, peer_gid;
	/* time after which an unacknowledged request fails the queue pair; 0: no limit */
	uint64_t patience_ns;
	struct ibv_qp_cap cap;
	/* the send queue: request n is at n % FAKE_VERBS_DEPTH, and the first request has the
	 * number 1 */
	struct request sq[FAKE_VERBS_DEPTH];
	uint64_t posted, executed, acknowledged, freed;
	uint64_t arrived; /* number of the last request of the peer that has arrived */
	/* time since which the oldest request has been waiting for its ACK; 0: none waits */
	uint64_t waits_at_ns;
	uint64_t tried; /* value of fake_verbs_generation when all requests were last sent */
	struct ibv_recv_wr rq[FAKE_VERBS_DEPTH];
	struct ibv_sge rq_sge[FAKE_VERBS_DEPTH];
	uint64_t rq_posted, rq_taken;
};

extern pthread_mutex_t fake_verbs_lock;
/* all queue pairs; NULL: a free entry */
extern struct fake_verbs_qp *fake_verbs_qps[FAKE_VERBS_MAX_OBJECTS];
extern unsigned int fake_verbs_n_qps;
/* number of changes so far after which a lost request may arrive */
extern uint64_t fake_verbs_generation;

/* Ends the program with the reason if the condition does not hold. */
void fake_verbs_must(bool holds, const char *reason);

/* functions of verbs_objects.c */
/* Returns a number for a queue pair or a key, which no other object has had. */
uint32_t fake_verbs_number(void);
/* Adds an object to the table of its kind, or removes it. n: number of entries that were ever in
 * use at once. */
void fake_verbs_put(void *table, unsigned int *n, void *object);
void fake_verbs_take_out(void *table, unsigned int n, const void *object);
void fake_verbs_complete_send(struct fake_verbs_qp *qp, uint64_t number, enum ibv_wc_status status);
void fake_verbs_complete_receive(struct fake_verbs_qp *qp, const struct ibv_wc *wc);
/* Returns the place of registered memory that a request may access in this way, or NULL if its
 * registration does not allow that. gpu: whether it is memory of a GPU; NULL: not asked. */
void *fake_verbs_touch(const struct ibv_context *ctx, uint32_t key, uint64_t addr, uint32_t length,
		       int access, bool *gpu);
bool fake_verbs_may_touch(const struct ibv_context *ctx, uint32_t key, uint64_t addr,
			  uint32_t length, int access);
/* Keeps a write to GPU memory in the device, until fake_verbs_flush_gpu() carries it out. */
void fake_verbs_write_gpu(struct fake_verbs_dev *dev, void *to, const void *from, uint32_t bytes);
void fake_verbs_flush_gpu(struct fake_verbs_dev *dev);
/* Does fake_verbs_fail_call() want this call to fail? If so, sets errno. */
bool fake_verbs_call_fails(void);
/* Returns 0, or the errno with which fake_verbs_refuse() or fake_verbs_fail_call() wants this call
 * to fail. */
int fake_verbs_refused(enum fake_verbs_call call);
void fake_verbs_set_ops(struct ibv_context *ctx);

/* functions of verbs_queue_pairs.c */
void fake_verbs_flush(struct fake_verbs_qp *qp);
int fake_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* functions of verbs_wire.c */
void fake_verbs_stop(struct fake_verbs_qp *qp, enum ibv_wc_status status);
/* Sends all requests that can be sent, and fails those that have waited too long: of one queue
 * pair, or of all. */
void fake_verbs_progress(struct fake_verbs_qp *qp);
void fake_verbs_progress_all(void);
void fake_verbs_forget_packets(void);

/* functions of verbs_devices.c */
struct fake_verbs_dev *fake_verbs_dev_of(const struct ibv_context *ctx);
/* Whether this entry of the GID table has the address of the device's port. */
bool fake_verbs_has_gid(const struct fake_verbs_dev *dev, unsigned int index);
/* Whether the devices can limit a queue pair to this rate. */
bool fake_verbs_limits_rate(uint32_t kbps);
/* Returns NULL if no device has this GID. */
struct fake_verbs_dev *fake_verbs_dev_at(const union ibv_gid *gid);
struct fake_verbs_dev *fake_verbs_dev_number(unsigned int device);

#endif
