/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path: the queue pair of one epoch of a comm on one rail, with its completion queue, its posted
 * receives, and the small registered buffer from which control messages, descriptions and probes
 * are sent. A thin layer over libibverbs and lib/rdma, without any protocol.
 *
 * Receives are posted for HA_SLOTS payloads and HA_MSGS_AHEAD control messages, each with room for
 * a control message. A receive that has completed is posted again, so that the peer always finds
 * one. With HA_NCCL_TRANSPORT=soft a path has a UDP socket instead of all that (path_soft.c).
 *
 * Only one thread at a time uses a path (under the comm's lock). ha_path_make(), ha_path_enter()
 * and ha_path_destroy() wait in the kernel, so a worker (threads.h) calls them while no other
 * thread uses the path.
 */
#ifndef HA_PATH_H
#define HA_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/devices.h"
#include "hostlib/nccl/control_msg.h"
#include "lib/base/err.h"
#include "lib/rdma/completion.h"
#include "lib/rdma/qp.h"

#define HA_MSGS_AHEAD 16u                        /* most control messages under way */
#define HA_RECEIVES   (HA_SLOTS + HA_MSGS_AHEAD) /* receives that are posted */
#define HA_PROBES     8u                         /* most probes under way */
/* most writes that may be under way on a path: payloads, descriptions, probes */
#define HA_WRITES (HA_SLOTS + HA_PROBES)

struct ha_path {
	uint32_t epoch, attempt;
	uint8_t rail;
	/* fenced: the queue pair is in ERR; dead: HA_PATH_DEAD was reported */
	bool fenced, dead;
	char name[INC_RDMA_NAME_SIZE]; /* name of the device or interface */
	/* the part of a path over UDP; NULL: the path has a queue pair */
	struct ha_soft *soft;
	int watcher; /* epoll descriptor that has ha_path_fd(); 0: none */
	/* RDMA device of the queue pair, with a counted reference */
	struct inc_rdma_device *device;
	uint8_t port;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct ha_path_info own, peer;
	uint8_t own_gid_index;
	uint32_t max_message_bytes;
	char what[64]; /* name of the comm for texts of errors */
	/* number of posted receives that have not completed, or of a path over UDP the messages
	 * that were received and not polled */
	unsigned int receives;
	/* number of control messages that were sent and have not completed */
	unsigned int msgs;
	/* number of payloads, descriptions and probes that were posted and have not completed */
	unsigned int writes;
	/* bitmap of send buffers for control messages: bit i is set if buffer i is free */
	uint32_t free_msgs;
	/* Receives with control messages that the caller may still read. The next poll posts them
	 * again. */
	unsigned int lent;
	uint16_t lent_receive[HA_RECEIVES];
	/* Descriptions for which the send queue had no room. The next poll posts them. */
	unsigned int first_waiting, waiting;
	struct {
		uint64_t wr_id;
		struct ha_slot slot;
	} wait[HA_SLOTS];
	uint8_t *memory; /* buffers of receives, of control messages to send, and of descriptions */
	struct ibv_mr *mr;
	struct ibv_mr *ring_mr; /* registration of the sender's ring with this device */
};

/* Kinds of events that ha_path_poll() reports. */
enum ha_path_event_kind {
	HA_PATH_LANDED, /* a payload has arrived, of which the event has sequence and bytes */
	/* a control message has arrived; the event's msg is valid until the next poll */
	HA_PATH_MSG,
	/* A payload, description or probe has completed, of which the event has wr_id and ok. */
	HA_PATH_COMPLETED,
	/* The path is dead: a receive, a control message or the completion queue has failed, or a
	 * message of a wrong length has arrived. It is reported once, and not for a fenced path. */
	HA_PATH_DEAD,
};

struct ha_path_event {
	enum ha_path_event_kind kind;
	uint64_t wr_id;
	bool ok, flushed; /* flushed: the status is IBV_WC_WR_FLUSH_ERR */
	uint32_t sequence, bytes;
	const uint8_t *msg;
	const char *why; /* reason of a failure for the log, a static text; NULL if there is none */
};

struct ha_path_opts {
	const struct ha_devices *devices;
	const struct ha_rail *rail;
	uint8_t rail_number;
	uint32_t epoch, attempt;
	void *ring;       /* the sender's ring of HA_SLOTS slots; NULL if this end is a receiver */
	const char *what; /* name of the comm for texts of errors */
};

/* Makes a path: its queue pair in state INIT with all receives posted, and this end's address in
 * `own`. Returns 0 or -errno. May take some milliseconds in the kernel. */
int ha_path_make(struct ha_path **out, const struct ha_path_opts *opts, struct inc_err *err);
/* Connects a path: moves its queue pair to RTR and RTS with the peer's address. May wait for
 * seconds. Returns 0 or -errno. */
int ha_path_enter(struct ha_path *path, const struct ha_path_info *peer,
		  const struct ha_config *config, struct inc_err *err);
/* Destroys a path's queue pair and frees the path, which may be NULL. */
void ha_path_destroy(struct ha_path *path);
/* Returns a descriptor that is readable while something has come on the path, or -1. Fencing the
 * path closes it. */
int ha_path_fd(const struct ha_path *path);

/* Polls up to max events of a path in the order of completion, and returns how many there are.
 * Posts completed receives again. Never blocks. */
unsigned int ha_path_poll(struct ha_path *path, struct ha_path_event *events, unsigned int max);
/* Fences a path: moves its queue pair to ERR. Then it transfers no data in either direction, and
 * everything that is posted completes. Returns 0 or -errno. */
int ha_path_fence(struct ha_path *path, struct inc_err *err);
/* Whether the path is fenced and the completions of everything that was posted have been polled. */
bool ha_path_drained(const struct ha_path *path);

/*
 * Each function below posts a work request that asks for a completion. It returns 0, or -errno,
 * after which nothing completes. The error is -EAGAIN if HA_WRITES are under way; payloads alone
 * never reach that, because a comm has fewer requests. It is -EMSGSIZE if the device cannot send a
 * payload as one message.
 */
int ha_path_write(struct ha_path *path, uint64_t wr_id, const void *buffer, uint32_t lkey,
		  uint32_t bytes, uint64_t address, uint32_t rkey, uint32_t immediate);
/* Posts the description of a slot. If HA_WRITES are under way, the description waits for the next
 * poll. */
int ha_path_describe(struct ha_path *path, uint64_t wr_id, const struct ha_slot *slot);
/* Posts a probe, which is a WRITE of 0 bytes, because a device needs neither address nor key for
 * that. */
int ha_path_probe(struct ha_path *path, uint64_t wr_id);
/* Sends a control message on the path. Returns -EAGAIN if HA_MSGS_AHEAD are under way. */
int ha_path_send(struct ha_path *path, const uint8_t msg[HA_MSG_BYTES]);

/* path_soft.c: what the functions of the same names do for a path whose member `soft` is not NULL,
 * or which gets that member. ha_soft_destroy() leaves the rest of the path to its caller. */
int ha_soft_make(struct ha_path *path, const struct ha_path_opts *opts,
		 const struct ha_place *place, struct inc_err *err);
int ha_soft_enter(struct ha_path *path, const struct ha_path_info *peer,
		  const struct ha_config *config, struct inc_err *err);
void ha_soft_destroy(struct ha_path *path);
int ha_soft_fd(const struct ha_path *path);
unsigned int ha_soft_poll(struct ha_path *path, struct ha_path_event *events, unsigned int max);
int ha_soft_fence(struct ha_path *path);
int ha_soft_write(struct ha_path *path, uint64_t wr_id, const void *buffer, uint32_t bytes,
		  uint32_t immediate);
int ha_soft_describe(struct ha_path *path, uint64_t wr_id, const struct ha_slot *slot);
int ha_soft_probe(struct ha_path *path, uint64_t wr_id);
int ha_soft_send(struct ha_path *path, const uint8_t msg[HA_MSG_BYTES]);

#endif
