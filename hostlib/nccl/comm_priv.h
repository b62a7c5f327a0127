/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of a comm share: comm_life.c (its life and its rounds), comm_plugin.c (the
 * process), comm_connect.c (listen, connect, accept), comm_paths.c (bring-up), comm_failover.c
 * (what the machine wants done, completions, messages), comm_standby.c (heartbeats, ports, rails),
 * comm_data.c (requests), comm_region.c (memory).
 *
 * Who holds a comm: NCCL until it closes it (`open`), jobs of a worker (`jobs`), and the progress
 * thread, which ends it when the others have gone and the machine has nothing left to answer.
 */
#ifndef HA_COMM_PRIV_H
#define HA_COMM_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/bringup.h"
#include "hostlib/nccl/comm.h"
#include "hostlib/nccl/devices.h"
#include "hostlib/nccl/end.h"
#include "hostlib/nccl/keys.h"
#include "hostlib/nccl/memory.h"
#include "hostlib/nccl/path.h"
#include "hostlib/nccl/progress_thread.h"
#include "hostlib/nccl/receiver.h"
#include "hostlib/nccl/sender.h"
#include "hostlib/nccl/tcp.h"
#include "hostlib/nccl/control_msg.h"
#include "hostlib/nccl/worker.h"
#include "lib/base/err.h"

#define HA_OLD_PATHS 4u /* fenced ones that drain at the same time */

struct ha_plugin {
	unsigned int refs; /* under comm_plugin.c's lock */
	ha_log_fn log;
	struct ha_config config;
	struct ha_devices devices;
	struct ha_caches *caches;
	struct ha_progress *progress;
	/* Aiming at a peer that does not answer takes seconds, which nothing else waits for. */
	struct ha_worker *worker, *aimer;
	atomic_uint port_changes; /* refreshes of the inventory */
};

struct ha_request {
	struct ha_comm *comm;
	uint8_t place, buffers;
};

enum ha_stage {
	HA_STAGE_CONNECTING,
	HA_STAGE_HELLO,   /* waits for the peer's */
	HA_STAGE_BRINGUP, /* of epoch 0 */
	HA_STAGE_UP,
	HA_STAGE_LOST, /* never came up: comm->error */
};

/* Whether the peer is heard on a channel. */
struct ha_beat {
	uint64_t pinged_at_ns;
	bool received; /* since the last PING */
	unsigned int missed;
};

/* What a region of NCCL's is in the comm. Under the comm's lock, but for what the worker fills in
 * where busy is set. */
struct ha_known_region {
	struct ha_region region; /* first: it is what NCCL gets */
	struct ha_known_region *next;
	bool known[HA_RAILS], refused[HA_RAILS];
	bool busy;
};

struct ha_comm {
	struct ha_comm *next; /* the progress thread's */
	pthread_mutex_t lock;
	pthread_cond_t idle_region; /* one is not busy any more */
	struct ha_plugin *plugin;
	struct ha_config config; /* the plugin's, with the traffic class of this comm */
	const struct ha_device *device;
	bool sends;
	bool open;         /* NCCL, or its listener, has it */
	unsigned int jobs; /* under way, of either worker */

	enum ha_stage stage;
	uint64_t began_at_ns, closed_at_ns, ended_at_ns;
	int error; /* LOST */
	struct inc_err err;
	struct inc_err path_err; /* of the last bring-up that failed */
	uint64_t nonce;
	bool dual;
	char peer_name[64], what[160];

	struct ha_socket socket;
	bool channel; /* as the machine was told */
	struct ha_beat socket_beat, standby_beat;
	bool peer_gone; /* CLOSE or ABORT has come */

	struct ha_end *end; /* of the machine */
	union {
		struct ha_sender sender;
		struct ha_receiver receiver;
	};
	struct ha_todo todo;
	struct ha_slot_wire *ring; /* a sender's */

	struct ha_path *path; /* of path_epoch; NULL: it has none */
	uint32_t path_epoch;
	struct ha_path *old[HA_OLD_PATHS];
	struct ha_path
		*polled;       /* whose events are taken right now: it is not destroyed meanwhile */
	bool polled_is_doomed; /* it is to be destroyed when they are taken */
	uint8_t rail;          /* of the path that was used last */
	/* The next one: bringup's, READY or on its way. While a worker has it it is in `bringing`.
	 */
	struct ha_bringup bringup;
	struct ha_path *standby;
	struct ha_comm_job *bringing;
	struct ha_path_info own; /* of that one, for PATH */
	uint64_t standby_at_ns;
	unsigned int port_changes_seen;
	uint64_t ports_at_ns;
	bool rail_up[HA_RAILS];

	struct ha_known_region *regions;
	bool registering; /* a job for the regions is under way */
	/* Posts whose region is not known on the path's rail yet, in order. */
	uint16_t later[HA_SLOTS];
	unsigned int n_later;

	unsigned int quick_recoveries; /* in a row, for HA_NCCL_RTO_ADAPTIVE */
	uint64_t looked_at_ns;         /* at all that is not the path */
	bool ended;
	struct ha_job end_job; /* frees it */
	unsigned int requests; /* that NCCL has */
	struct ha_request request[HA_REQUESTS];
};

/* An event for the machine, whichever it is. */
#define HA_MACHINE_EVENT(comm, event, ...)                                              \
	((comm)->sends ? ha_sender_##event(&(comm)->sender, __VA_ARGS__, &(comm)->todo) \
		       : ha_receiver_##event(&(comm)->receiver, __VA_ARGS__, &(comm)->todo))

/* Until ha_progress_add() one thread has the comm; from then on each function below is called with
 * its lock, but for ha_log_at(), ha_comm_new(), ha_comm_free(), ha_comm_end() and
 * ha_comm_abandon(). now_ns is read under the lock, so that a comm's time never goes back. */

/* comm_plugin.c */
void ha_log_at(struct ha_plugin *plugin, enum ha_log_level level, const char *file, int line,
	       const char *format, ...) __attribute__((format(printf, 5, 6)));
#define ha_log(plugin, level, ...) ha_log_at(plugin, level, __FILE__, __LINE__, __VA_ARGS__)

/* comm_life.c */
int ha_comm_new(struct ha_comm **out, struct ha_plugin *plugin, unsigned int dev, bool sends,
		struct inc_err *err);
/* Nothing was started yet: at once. */
void ha_comm_free(struct ha_comm *comm);
#define HA_ROUND_WORKED  0x1u
#define HA_ROUND_BUSY    0x2u /* something is under way: timers of ms matter */
#define HA_ROUND_OPEN    0x4u
#define HA_ROUND_CLOSING 0x8u  /* NCCL has closed it, or it never came up */
#define HA_ROUND_OVER    0x10u /* nobody else has it: ha_comm_end() */
/* Makes it go on: up to budget completions of its path; wide: all the rest, too. */
unsigned int ha_comm_round(struct ha_comm *comm, unsigned int budget, bool wide, uint64_t now_ns);
/* The same for calls of NCCL's: wide where that was not done for a ms. */
void ha_comm_advance(struct ha_comm *comm, uint64_t now_ns);
/* The progress thread's last call. */
void ha_comm_end(struct ha_comm *comm);

/* comm_connect.c */
void ha_comm_handshake(struct ha_comm *comm, uint64_t now_ns);
void ha_comm_hello(struct ha_comm *comm, const struct ha_control_msg *msg, uint64_t now_ns);
/* The only place where comm->stage changes; its callers have looked at what it was. */
void ha_comm_set_stage(struct ha_comm *comm, enum ha_stage stage);
/* It never comes up. */
void ha_comm_lost(struct ha_comm *comm, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ha_comm_abandon(struct ha_comm *comm);

/* comm_paths.c */
void ha_comm_bringup(struct ha_comm *comm, unsigned int bits, uint64_t now_ns);
void ha_comm_destroy_path(struct ha_comm *comm, struct ha_path *path);
/* The standby is the path of this epoch now, or nobody's. */
void ha_comm_take_standby(struct ha_comm *comm);
bool ha_comm_standby_ready(const struct ha_comm *comm);
/* Runs on a worker, with the comm counted until it calls ha_comm_job_over(). */
struct ha_comm_job {
	struct ha_job job; /* first */
	struct ha_comm *comm;
	struct ha_path *path;
	struct ha_path_opts opts;
	struct ha_path_info peer;
	bool dropped; /* under the comm's lock: nobody wants what comes of it */
};
/* NULL: no memory. */
struct ha_comm_job *ha_comm_job(struct ha_comm *comm, void (*run)(struct ha_job *job));
/* Frees it, and does what the result has led to. */
void ha_comm_job_over(struct ha_comm *comm, struct ha_comm_job *job);

/* comm_failover.c */
/* Does what the machine wants done, until it wants nothing. */
void ha_comm_do(struct ha_comm *comm, uint64_t now_ns);
/* Completions: how many. */
unsigned int ha_comm_poll(struct ha_comm *comm, unsigned int budget, uint64_t now_ns);
unsigned int ha_comm_poll_standby(struct ha_comm *comm, uint64_t now_ns);
unsigned int ha_comm_receive_on_socket(struct ha_comm *comm, uint64_t now_ns);
/* Where it does not go out it is a lost message. */
void ha_comm_send_on_socket(struct ha_comm *comm, const uint8_t bytes[HA_MSG_BYTES]);
/* On both channels. */
void ha_comm_send(struct ha_comm *comm, const struct ha_control_msg *msg);
void ha_comm_post_later(struct ha_comm *comm, uint64_t now_ns);

/* comm_standby.c */
/* Heartbeats, ports, which rail stands by. */
void ha_comm_look_after(struct ha_comm *comm, uint64_t now_ns);

/* comm_region.c */
/* Whether memory of NCCL's can be used on this rail now; NULL is allowed, of no bytes. */
bool ha_comm_knows(const struct ha_region *region, unsigned int rail);
/* Whether this rail's device has refused it: it is asked again when that rail stands by anew. */
bool ha_comm_refused(const struct ha_region *region, unsigned int rail);
/* What this rail's device has refused may be asked of it again. */
void ha_comm_forget_refusals(struct ha_comm *comm, unsigned int rail);
/* Lets the worker make all regions known on all rails. */
void ha_comm_register_all(struct ha_comm *comm);
/* Nobody else knows it any more; without the lock, too. */
void ha_comm_free_region(struct ha_comm *comm, struct ha_known_region *region);

#endif
