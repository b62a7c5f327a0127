/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private declarations of the files that implement a comm.
 *
 *	comm_life.c	creation, rounds, end
 *	comm_plugin.c	the objects that all comms of a process share
 *	comm_connect.c	listen, connect, accept
 *	comm_paths.c	bring-up of paths
 *	comm_failover.c	actions of the state machine, completions, control messages
 *	comm_standby.c	heartbeats, ports, choice of rails
 *	comm_data.c	requests
 *	comm_region.c	memory
 *
 * Three parties hold a comm: NCCL until it closes the comm (`open`), jobs of a worker (`jobs`), and
 * the progress thread. The progress thread ends the comm when the other two have released it and
 * the state machine has nothing left to answer.
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

#define HA_OLD_PATHS 4u /* most fenced paths that drain at the same time */

struct ha_plugin {
	unsigned int refs; /* number of references, protected by the lock of comm_plugin.c */
	ha_log_fn log;
	struct ha_config config;
	struct ha_devices devices;
	struct ha_caches *caches;
	struct ha_progress *progress;
	/* To connect a queue pair (RTR, RTS) to a peer that does not answer takes seconds. No other
	 * job waits for that, because the aimer is a worker of its own. */
	struct ha_worker *worker, *aimer;
	atomic_uint port_changes; /* number of refreshes of the inventory */
};

struct ha_request {
	struct ha_comm *comm;
	uint8_t place, buffers;
};

enum ha_stage {
	HA_STAGE_CONNECTING,
	HA_STAGE_HELLO,   /* the comm waits for the peer's HELLO */
	HA_STAGE_BRINGUP, /* the comm waits for the path of epoch 0 */
	HA_STAGE_UP,
	HA_STAGE_LOST, /* the comm never came up; comm->error says why */
};

/* Heartbeat state of one control channel (the socket or the standby path). */
struct ha_beat {
	uint64_t pinged_at_ns;
	bool received; /* a control message has come since the last PING */
	unsigned int missed;
};

/* A memory region that NCCL has registered, with its state on each rail. The comm's lock protects
 * it; while busy is set, the worker fills in `region` without the lock. */
struct ha_comm_region {
	struct ha_region region; /* must be first, because NCCL gets its address */
	struct ha_comm_region *next;
	bool registered[HA_RAILS], refused[HA_RAILS];
	bool busy;
};

struct ha_comm {
	struct ha_comm *next; /* next comm in the list of the progress thread */
	pthread_mutex_t lock;
	pthread_cond_t idle_region; /* signalled when a region stops being busy */
	struct ha_plugin *plugin;
	struct ha_config config; /* the plugin's config, with this comm's traffic class */
	const struct ha_device *device;
	bool sends;
	bool open;         /* neither NCCL nor the listener of the comm has closed it */
	unsigned int jobs; /* jobs of either worker that are not over */

	enum ha_stage stage;
	uint64_t began_at_ns, closed_at_ns, ended_at_ns;
	int error; /* stage LOST: -errno with which calls fail */
	struct inc_err err;
	struct inc_err path_err; /* error of the last bring-up that failed, for the log */
	uint64_t nonce;
	bool dual;
	char peer_name[64], what[160];

	struct ha_socket socket;
	bool channel; /* whether a control channel is alive, as last reported to the machine */
	struct ha_beat socket_beat, standby_beat;
	bool peer_gone; /* the peer has sent CLOSE or ABORT */

	struct ha_end *end; /* common part of the machine below */
	union {
		struct ha_sender sender;
		struct ha_receiver receiver;
	};
	struct ha_todo todo;
	struct ha_slot_wire *ring; /* ring of slots; NULL for a receiver */

	struct ha_path *path; /* the path of path_epoch; NULL if this epoch has none */
	uint32_t path_epoch;
	struct ha_path *old[HA_OLD_PATHS];
	/* The path whose events are being handled. Until they are handled, it is not destroyed but
	 * marked as doomed. */
	struct ha_path *polled;
	bool polled_is_doomed; /* destroy `polled` when its events are handled */
	uint8_t rail;          /* rail of the path in use, or of the last one */
	/* The next path, which the bring-up makes. While a worker has it, standby is NULL and
	 * `bringing` is the worker's job. */
	struct ha_bringup bringup;
	struct ha_path *standby;
	struct ha_comm_job *bringing;
	struct ha_path_info own; /* this end of the standby path, for the PATH message */
	uint64_t standby_at_ns;
	unsigned int port_changes_seen;
	uint64_t ports_at_ns;
	bool rail_up[HA_RAILS];

	struct ha_comm_region *regions;
	bool registering; /* a job on a worker registers regions */
	/* Posts that wait, in order, until the path's device has registered their region. */
	uint16_t later[HA_SLOTS];
	unsigned int n_later;

	/* number of quick recoveries in succession, for HA_NCCL_RTO_ADAPTIVE */
	unsigned int quick_recoveries;
	/* time of the last full round, which serves sockets, standby path and timers */
	uint64_t looked_at_ns;
	bool ended;
	struct ha_job end_job; /* job that frees the comm */
	unsigned int requests; /* number of requests that NCCL has not tested to their end */
	struct ha_request request[HA_REQUESTS];
};

/* Passes an event to the comm's state machine, which is a sender's or a receiver's. */
#define HA_MACHINE_EVENT(comm, event, ...)                                              \
	((comm)->sends ? ha_sender_##event(&(comm)->sender, __VA_ARGS__, &(comm)->todo) \
		       : ha_receiver_##event(&(comm)->receiver, __VA_ARGS__, &(comm)->todo))

/* Until ha_progress_add() only one thread has the comm. From then on the caller of each function
 * below holds the comm's lock. The exceptions are ha_log_at(), ha_comm_new(), ha_comm_free(),
 * ha_comm_end() and ha_comm_abandon(). Callers read now_ns under the lock, so that the time of a
 * comm never goes back. */

/* comm_plugin.c */
void ha_log_at(struct ha_plugin *plugin, enum ha_log_level level, const char *file, int line,
	       const char *format, ...) __attribute__((format(printf, 5, 6)));
#define ha_log(plugin, level, ...) ha_log_at(plugin, level, __FILE__, __LINE__, __VA_ARGS__)

/* comm_life.c */
int ha_comm_new(struct ha_comm **out, struct ha_plugin *plugin, unsigned int dev, bool sends,
		struct inc_err *err);
/* Frees a comm that no other thread, no job and not NCCL uses: its start has failed, or it has
 * ended (ha_comm_end()). */
void ha_comm_free(struct ha_comm *comm);
#define HA_ROUND_WORKED  0x1u
#define HA_ROUND_BUSY    0x2u /* work is under way, so timers of a ms matter */
#define HA_ROUND_OPEN    0x4u
#define HA_ROUND_CLOSING 0x8u  /* NCCL has closed the comm, or it never came up */
#define HA_ROUND_OVER    0x10u /* no other party has the comm: call ha_comm_end() */
/* Lets the comm progress: handles up to budget completions of its path. If wide is set, it also
 * serves the socket, the standby path, ports and timers. */
unsigned int ha_comm_round(struct ha_comm *comm, unsigned int budget, bool wide, uint64_t now_ns);
/* Does a round in a call of NCCL, and a wide one if the last wide round was a ms ago. */
void ha_comm_advance(struct ha_comm *comm, uint64_t now_ns);
/* Frees the comm on a worker's thread. This is the last call of the progress thread for the
 * comm. */
void ha_comm_end(struct ha_comm *comm);

/* comm_connect.c */
void ha_comm_handshake(struct ha_comm *comm, uint64_t now_ns);
void ha_comm_hello(struct ha_comm *comm, const struct ha_control_msg *msg, uint64_t now_ns);
/* Sets comm->stage, and is the only function that does so. Callers check the present stage
 * first. */
void ha_comm_set_stage(struct ha_comm *comm, enum ha_stage stage);
/* Enters stage LOST: the comm never comes up, and each call returns this error. */
void ha_comm_lost(struct ha_comm *comm, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ha_comm_abandon(struct ha_comm *comm);

/* comm_paths.c */
void ha_comm_bringup(struct ha_comm *comm, unsigned int bits, uint64_t now_ns);
void ha_comm_destroy_path(struct ha_comm *comm, struct ha_path *path);
/* The end has entered an epoch: its standby path becomes the path in use if the standby is of that
 * epoch, and is dropped otherwise. */
void ha_comm_take_standby(struct ha_comm *comm);
bool ha_comm_standby_ready(const struct ha_comm *comm);
/* A job that runs on a worker. The comm counts it until the job calls ha_comm_job_over(). */
struct ha_comm_job {
	struct ha_job job; /* must be first */
	struct ha_comm *comm;
	struct ha_path *path;
	struct ha_path_opts opts;
	struct ha_path_info peer;
	bool dropped; /* the result is not wanted; protected by the comm's lock */
};
/* Makes a job for a worker. Returns NULL if there is no memory. */
struct ha_comm_job *ha_comm_job(struct ha_comm *comm, void (*run)(struct ha_job *job));
/* Ends the job and unlocks the comm, after the actions that the job's result has led to. */
void ha_comm_job_over(struct ha_comm *comm, struct ha_comm_job *job);

/* comm_failover.c */
/* Carries out the actions that the state machine has put into comm->todo, until there are none. */
void ha_comm_do(struct ha_comm *comm, uint64_t now_ns);
/* Handle completions of a path or messages of the socket, and return how many there were. */
unsigned int ha_comm_poll(struct ha_comm *comm, unsigned int budget, uint64_t now_ns);
unsigned int ha_comm_poll_standby(struct ha_comm *comm, uint64_t now_ns);
unsigned int ha_comm_receive_on_socket(struct ha_comm *comm, uint64_t now_ns);
/* Sends a control message on the socket. If that fails, the message counts as lost and is repeated
 * later. */
void ha_comm_send_on_socket(struct ha_comm *comm, const uint8_t bytes[HA_MSG_BYTES]);
/* Sends a control message on both channels: the socket, and the standby or the path in use. */
void ha_comm_send(struct ha_comm *comm, const struct ha_control_msg *msg);
void ha_comm_post_later(struct ha_comm *comm, uint64_t now_ns);

/* comm_standby.c */
/* Serves heartbeats, port changes, and the choice of the rail that stands by. */
void ha_comm_look_after(struct ha_comm *comm, uint64_t now_ns);

/* comm_region.c */
/* Whether this rail's device has registered the region. A request without bytes has the region
 * NULL, which always counts as registered. */
bool ha_comm_is_registered(const struct ha_region *region, unsigned int rail);
/* Whether this rail's device has refused to register the region. The device is asked again when a
 * path on that rail stands by anew. */
bool ha_comm_refused(const struct ha_region *region, unsigned int rail);
/* Lets regions that this rail's device has refused be registered again. */
void ha_comm_forget_refusals(struct ha_comm *comm, unsigned int rail);
/* Lets the worker register all regions on all rails. */
void ha_comm_register_all(struct ha_comm *comm);
/* Frees a region. The caller is the only one to use it, so the comm's lock is not needed. */
void ha_comm_free_region(struct ha_comm *comm, struct ha_comm_region *region);

#endif
