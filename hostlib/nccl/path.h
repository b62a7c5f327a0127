/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of one epoch of a comm, on one rail, with its completion queue, its receives, and
 * the small registered memory that messages, descriptions and probes are sent from. Thin:
 * libibverbs and lib/rdma, no protocol.
 *
 * Receives are posted for HA_SLOTS payloads and HA_MSGS_AHEAD messages, all with room for a
 * message; each that completes is posted again, so that neither finds none.
 *
 * Threads: one at a time (the comm's lock), but for what makes, enters and destroys, which waits in
 * the kernel and is done by a worker (worker.h) while nobody else touches the path.
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

#define HA_MSGS_AHEAD 16u                        /* messages under way on a standby at most */
#define HA_RECEIVES   (HA_SLOTS + HA_MSGS_AHEAD) /* posted */
#define HA_PROBES     8u                         /* under way at most */
#define HA_WRITES     (HA_SLOTS + HA_PROBES)     /* payloads, descriptions and probes likewise */

struct ha_path {
	uint32_t epoch, attempt;
	uint8_t rail;
	bool fenced, dead;              /* dead: HA_PATH_DEAD was told */
	struct inc_rdma_device *device; /* a reference */
	uint8_t port;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct ha_path_info own, peer;
	uint8_t own_gid_index;
	uint32_t max_message_bytes;
	char what[64];         /* the comm, for errors */
	unsigned int receives; /* posted and not complete */
	unsigned int msgs;     /* sent and not complete */
	unsigned int writes;   /* payloads, descriptions, probes: likewise */
	uint32_t free_msgs;    /* bit i: message i of the memory is not under way */
	/* Receives whose messages the caller may still read: posted again by the next poll. */
	unsigned int lent;
	uint16_t lent_receive[HA_RECEIVES];
	/* Descriptions for which the send queue had no room; the poll posts them. */
	unsigned int first_waiting, waiting;
	struct {
		uint64_t wr_id;
		struct ha_slot slot;
	} wait[HA_SLOTS];
	uint8_t *memory; /* receive messages, then messages to send, then descriptions */
	struct ibv_mr *mr;
	struct ibv_mr *ring_mr; /* a sender's ring, as this device knows it */
};

/* What a path tells: a completion. */
enum ha_path_event_kind {
	HA_PATH_LANDED,    /* a payload: sequence, bytes */
	HA_PATH_MSG,       /* a message: bytes of it, valid until the next poll */
	HA_PATH_COMPLETED, /* of the send queue: wr_id, ok; messages' own are not told */
	HA_PATH_DEAD, /* a receive or a message has failed, or the completion queue, or a message of
		       * another length has come: once, and not
		       * of a fenced path */
};

struct ha_path_event {
	enum ha_path_event_kind kind;
	uint64_t wr_id;
	bool ok, flushed; /* flushed: IBV_WC_WR_FLUSH_ERR */
	uint32_t sequence, bytes;
	const uint8_t *msg;
	const char *why; /* for the log: ibv_wc_status_str(), static; NULL where ok */
};

struct ha_path_opts {
	const struct ha_devices *devices;
	const struct ha_rail *rail;
	uint8_t rail_number;
	uint32_t epoch, attempt;
	void *ring;       /* a sender's: HA_SLOTS slots; NULL: a receiver */
	const char *what; /* the comm, for errors */
};

/* In INIT with its receives posted; own is filled. 0 or -errno. May take some ms in the kernel. */
int ha_path_make(struct ha_path **out, const struct ha_path_opts *opts, struct inc_err *err);
/* To RTR and RTS, aimed at the peer. Waits up to seconds. 0 or -errno. */
int ha_path_enter(struct ha_path *path, const struct ha_path_info *peer,
		  const struct ha_config *config, struct inc_err *err);
/* NULL is allowed. */
void ha_path_destroy(struct ha_path *path);

/* Up to max events, in the order of completion: how many. Posts receives again. Never blocks. */
unsigned int ha_path_poll(struct ha_path *path, struct ha_path_event *events, unsigned int max);
/* To ERR: nothing is placed any more in either direction; everything posted completes. 0 or -errno.
 */
int ha_path_fence(struct ha_path *path, struct inc_err *err);
/* Fenced, and nothing is posted any more: all completions have been polled. */
bool ha_path_drained(const struct ha_path *path);

/*
 * Each is signalled. 0, or -errno, after which nothing completes: -EAGAIN where HA_WRITES are under
 * way (never for as many payloads as a comm has requests), -EMSGSIZE of a payload that the device
 * cannot send as one message.
 */
int ha_path_write(struct ha_path *path, uint64_t wr_id, const void *buffer, uint32_t lkey,
		  uint32_t bytes, uint64_t address, uint32_t rkey, uint32_t immediate);
/* Where HA_WRITES are under way it waits for the next poll. */
int ha_path_describe(struct ha_path *path, uint64_t wr_id, const struct ha_slot *slot);
/* Writes 0 bytes, for which a device asks for neither an address nor a key. */
int ha_path_probe(struct ha_path *path, uint64_t wr_id);
/* -EAGAIN where HA_MSGS_AHEAD are under way. */
int ha_path_send(struct ha_path *path, const uint8_t msg[HA_MSG_BYTES]);

#endif
