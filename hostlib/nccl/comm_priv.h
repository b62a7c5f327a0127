/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private declarations of the files that implement a comm.
 *
 *	comm_life.c	creation, rounds, end, and the objects that all comms of a process share
 *	comm_connect.c	listen, connect, accept
 *	comm_paths.c	bring-up of paths
 *	comm_failover.c	actions of the state machine, completions, control messages
 *	comm_standby.c	heartbeats, ports, choice of rails
 *	comm_data.c	requests
 *	comm_region.c	memory
 *	comm_flush.c	flushes of GPU memory
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
#include "hostlib/nccl/metrics.h"
#include "hostlib/nccl/path.h"
#include "hostlib/nccl/threads.h"
#include "hostlib/nccl/receiver.h"
#include "hostlib/nccl/sender.h"
#include "hostlib/nccl/tcp.h"
#include "hostlib/nccl/control_msg.h"
#include "lib/base/err.h"

#define HA_OLD_PATHS 4u /* most fenced paths of a comm that drain at the same time */

struct ha_plugin {
	/* number of users of the plugin; the lock of comm_life.c protects it */
	unsigned int refs;
	ha_log_fn log;
	struct ha_config config;
	struct ha_devices devices;
	struct ha_caches *caches;
	struct ha_progress *progress;
	struct ha_metrics *metrics; /* NULL: no figures are kept */
	/* The two workers. The aimer connects queue pairs (RTR, RTS), which takes seconds if the
	 * peer does not answer. So each of its jobs has a thread of its own, and no job of any comm
	 * waits for that. */
	struct ha_worker *worker, *aimer;
	atomic_uint port_changes; /* number of times that the ports were read anew */
};

struct ha_request {
	struct ha_comm *comm;
	uint8_t place, buffers;
	struct ha_flush *flush; /* NULL: the request is a send or a receive */
};

/* A queue pair that is connected to itself, for flushes (comm_flush.c). */
struct ha_loop;

enum ha_flush_state { HA_FLUSH_FREE, HA_FLUSH_TAKEN, HA_FLUSH_ASKED, HA_FLUSH_BEGUN };

/* A flush, from iflush until test has reported its end. iflush fills in the first members without
 * the comm's lock, before it sets the state to ASKED. */
struct ha_flush {
	atomic_uint state; /* enum ha_flush_state */
	struct ha_request request;
	const struct ha_region *region;
	const void *address;
	uint64_t landed[HA_RAILS]; /* the comm's counts when the flush began */
	uint8_t rails;             /* bitmap of the rails for which the flush waits */
	/* The region that a READ under way on each rail reads, and the time when that was posted.
	 * NULL: none is under way. */
	const struct ha_region *reads[HA_RAILS];
	uint64_t posted_at_ns[HA_RAILS];
	/* time of the first READ on each rail that has failed; 0: none has */
	uint64_t failed_at_ns[HA_RAILS];
};

enum ha_stage {
	HA_STAGE_CONNECTING,
	HA_STAGE_HELLO,   /* the comm waits for message HELLO of its peer */
	HA_STAGE_BRINGUP, /* the comm waits for its first path, that of epoch 0 */
	HA_STAGE_UP,
	HA_STAGE_LOST, /* the comm never came up, for the reason in comm->error */
};

/* Heartbeat state of one control channel (the socket or the standby path). */
struct ha_beat {
	uint64_t pinged_at_ns;
	bool received; /* a control message has come on the channel since the last PING */
	unsigned int missed;
};

/* A memory region that NCCL has registered, with its state on each rail. The comm's lock protects
 * it; while busy is set, the worker fills in `region` without the lock. */
struct ha_comm_region {
	struct ha_region region; /* must be the first member, because NCCL gets its address */
	struct ha_comm_region *next;
	bool registered[HA_RAILS], refused[HA_RAILS];
	bool busy;
};

struct ha_comm {
	struct ha_comm *next; /* next comm in the list of the progress thread */
	pthread_mutex_t lock;
	pthread_cond_t idle_region; /* signalled when a region stops being busy */
	struct ha_plugin *plugin;
	struct ha_config config; /* the plugin's settings, with this comm's traffic class */
	const struct ha_device *device;
	struct ha_device_metrics *metrics; /* figures of the device, or NULL */
	enum ha_standby shown;             /* the state in which the figures have this comm */
	bool sends;
	/* true until NCCL, or the listener for a comm that NCCL does not have yet, closes the
	 * comm */
	bool open;
	unsigned int jobs; /* number of jobs of both workers for this comm that have not ended */

	enum ha_stage stage;
	uint64_t began_at_ns, closed_at_ns, ended_at_ns;
	int error; /* in stage LOST: -errno with which calls of NCCL fail */
	struct inc_err err;
	/* error of the last path that could not be brought up, for the log */
	struct inc_err path_err;
	uint64_t nonce;
	bool dual;
	char peer_name[64], what[160];

	struct ha_socket socket;
	/* whether any control channel to the peer is alive, as the state machine knows */
	bool channel;
	struct ha_beat socket_beat, standby_beat;
	bool peer_gone; /* the peer has sent CLOSE or ABORT */

	/* the part of the state machine below that senders and receivers share */
	struct ha_end *end;
	union {
		struct ha_sender sender;
		struct ha_receiver receiver;
	};
	struct ha_todo todo;
	/* ring of slots, which the receiver writes; NULL if this end is a receiver */
	struct ha_slot_wire *ring;

	struct ha_path *path; /* the path in use, that of path_epoch; NULL if that epoch has none */
	uint32_t path_epoch;
	struct ha_path *old[HA_OLD_PATHS];
	/* The path whose events are being handled. It must not be destroyed meanwhile, so
	 * polled_is_doomed is set instead. */
	struct ha_path *polled;
	/* the path `polled` must be destroyed as soon as its events are handled */
	bool polled_is_doomed;
	uint8_t rail; /* rail of the path in use, or of the last path */
	/* The next epoch's path, which the bring-up makes. While a worker makes or connects it,
	 * standby is NULL and `bringing` is the worker's job. */
	struct ha_bringup bringup;
	struct ha_path *standby;
	struct ha_comm_job *bringing;
	/* Bitmap of rails on which a worker connects a queue pair, wanted or dropped. Such a step
	 * may hang in the kernel, so there is one for each rail at most. */
	uint8_t entering;
	bool enter_waits;        /* the standby path waits for the end of such a step */
	struct ha_path_info own; /* address of this end of the standby path, for the message PATH */
	uint64_t standby_at_ns;
	unsigned int port_changes_seen;
	uint64_t ports_at_ns;
	bool rail_up[HA_RAILS];

	/* Flushes of a receiver. A rail has a loop while GPU memory is registered on it. */
	struct ha_loop *loop[HA_RAILS];
	/* Number of payloads in GPU memory that each rail's device has written, or may have written
	 * in part, and how many of them count as being there. A READ has shown that, or the rail
	 * was left SETTLED_NS ago. */
	uint64_t landed[HA_RAILS], in_memory[HA_RAILS];
	/* time when the rail's last path was fenced; 0: never */
	uint64_t left_at_ns[HA_RAILS];
	/* bitmap of rails whose loop a worker has to replace, and times of the last attempts */
	uint8_t renewing;
	uint64_t renewed_at_ns[HA_RAILS];
	/* Bitmaps of rails where something else than the port is wrong. `unreadable`: a READ has
	 * failed, and none has succeeded since. `loopless`: the last attempt at a new loop has
	 * failed. */
	uint8_t unreadable, loopless;
	struct ha_flush flush[HA_REQUESTS];
	atomic_uint flushes; /* number of flushes whose end test has not reported */

	struct ha_comm_region *regions;
	bool registering; /* a worker's job is registering regions of this comm */
	/* Payloads or descriptions that wait, in order, until the path's device has registered
	 * their regions. */
	uint16_t later[HA_SLOTS];
	unsigned int n_later;

	/* Number of quick recoveries in succession, for HA_NCCL_RTO_ADAPTIVE. */
	unsigned int quick_recoveries;
	/* time of the last wide round, which serves sockets, standby path and timers */
	uint64_t looked_at_ns;
	bool ended;
	struct ha_job end_job; /* job that frees the comm */
	unsigned int requests; /* number of requests for which NCCL has not seen the end by test */
	struct ha_request request[HA_REQUESTS];
};

/* Passes an event to the comm's state machine, which is a sender's or a receiver's. */
#define HA_MACHINE_EVENT(comm, event, ...)                                              \
	((comm)->sends ? ha_sender_##event(&(comm)->sender, __VA_ARGS__, &(comm)->todo) \
		       : ha_receiver_##event(&(comm)->receiver, __VA_ARGS__, &(comm)->todo))

/* Until ha_progress_add() only one thread uses a comm. From then on the caller of each function
 * below holds the comm's lock. The exceptions are ha_log_at(), ha_comm_new(), ha_comm_free(),
 * ha_comm_end(), ha_comm_abandon() and ha_comm_make_loop(). Callers read now_ns under the lock, so
 * that the time of a comm never goes back. */

/* comm_life.c */
void ha_log_at(struct ha_plugin *plugin, enum ha_log_level level, const char *file, int line,
	       const char *format, ...) __attribute__((format(printf, 5, 6)));
#define ha_log(plugin, level, ...) ha_log_at(plugin, level, __FILE__, __LINE__, __VA_ARGS__)
int ha_comm_new(struct ha_comm **out, struct ha_plugin *plugin, unsigned int dev, bool sends,
		struct inc_err *err);
/* Frees a comm that no thread, no job and not NCCL uses, because its start has failed or it has
 * ended (ha_comm_end()). */
void ha_comm_free(struct ha_comm *comm);
#define HA_ROUND_WORKED 0x1u
/* work of the comm is under way, for which timers of a millisecond matter */
#define HA_ROUND_BUSY    0x2u
#define HA_ROUND_OPEN    0x4u
#define HA_ROUND_CLOSING 0x8u /* NCCL has closed the comm, or it never came up */
/* nothing else uses the comm any more, so ha_comm_end() must be called */
#define HA_ROUND_OVER 0x10u
/* Lets the comm progress: handles up to budget completions of its path. If wide is set, it also
 * serves the socket, the standby path, ports and timers. */
unsigned int ha_comm_round(struct ha_comm *comm, unsigned int budget, bool wide, uint64_t now_ns);
/* Does a round of a comm inside a call of NCCL. It is a wide one if the last wide round was a
 * millisecond ago. */
void ha_comm_advance(struct ha_comm *comm, uint64_t now_ns);
/* Frees the comm on a worker's thread. The progress thread does not use the comm after this
 * call. */
void ha_comm_end(struct ha_comm *comm);

/* comm_connect.c */
void ha_comm_handshake(struct ha_comm *comm, uint64_t now_ns);
void ha_comm_hello(struct ha_comm *comm, const struct ha_control_msg *msg, uint64_t now_ns);
/* Sets comm->stage, which no other function does. Callers check the present stage first. */
void ha_comm_set_stage(struct ha_comm *comm, enum ha_stage stage);
/* Puts a comm into stage LOST: it never comes up, and each call returns this error. */
void ha_comm_lost(struct ha_comm *comm, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ha_comm_abandon(struct ha_comm *comm);

/* comm_paths.c */
void ha_comm_bringup(struct ha_comm *comm, unsigned int bits, uint64_t now_ns);
void ha_comm_destroy_path(struct ha_comm *comm, struct ha_path *path);
/* Handles that the end has entered an epoch. Its standby path becomes the path in use if it is of
 * that epoch, and is dropped otherwise. */
void ha_comm_take_standby(struct ha_comm *comm);
bool ha_comm_standby_ready(const struct ha_comm *comm);
/* A job on a worker for a comm. The comm counts the job until ha_comm_job_over(). */
struct ha_comm_job {
	struct ha_job job; /* must be first */
	struct ha_comm *comm;
	struct ha_path *path;
	struct ha_path_opts opts;
	struct ha_path_info peer;
	bool dropped; /* the job's result is not wanted any more; the comm's lock protects this */
};
/* Makes a job for a worker, and counts it. Returns NULL if there is no memory. */
struct ha_comm_job *ha_comm_job(struct ha_comm *comm, void (*run)(struct ha_job *job));
/* Ends a job: carries out the actions that its result has led to, and unlocks the comm. */
void ha_comm_job_over(struct ha_comm *comm, struct ha_comm_job *job);

/* comm_failover.c */
/* Carries out the actions that the state machine has put into comm->todo, until there are none. */
void ha_comm_do(struct ha_comm *comm, uint64_t now_ns);
/* These functions handle completions of a path, or messages of the socket, and return how many
 * there were. */
unsigned int ha_comm_poll(struct ha_comm *comm, unsigned int budget, uint64_t now_ns);
unsigned int ha_comm_poll_standby(struct ha_comm *comm, uint64_t now_ns);
unsigned int ha_comm_receive_on_socket(struct ha_comm *comm, uint64_t now_ns);
/* Sends a control message on the comm's socket. If that fails, the message counts as lost and is
 * repeated later. */
void ha_comm_send_on_socket(struct ha_comm *comm, const uint8_t bytes[HA_MSG_BYTES]);
/* Sends a control message on both channels: on the socket, and on the standby path or else the path
 * in use. */
void ha_comm_send(struct ha_comm *comm, const struct ha_control_msg *msg);
void ha_comm_post_later(struct ha_comm *comm, uint64_t now_ns);

/* comm_standby.c */
/* Serves a comm's heartbeats and port changes, and chooses the rail that stands by. */
void ha_comm_look_after(struct ha_comm *comm, uint64_t now_ns);

/* comm_region.c */
/* Whether this rail's device has registered the region. A NULL region counts as registered, because
 * its request has no bytes. */
bool ha_comm_is_registered(const struct ha_region *region, unsigned int rail);
/* Whether this rail's device has refused to register the region. The device is asked again when
 * another path on that rail stands by. */
bool ha_comm_refused(const struct ha_region *region, unsigned int rail);
/* Lets regions that this rail's device has refused be registered again. */
void ha_comm_forget_refusals(struct ha_comm *comm, unsigned int rail);
/* Lets a worker register all regions of a comm on all rails. */
void ha_comm_register_all(struct ha_comm *comm);
/* Frees a region of a comm. Only the caller uses it, so the comm's lock is not needed. */
void ha_comm_free_region(struct ha_comm *comm, struct ha_comm_region *region);

/* comm_flush.c */
/* Makes the loop of a receiver's rail, unless there is one or none is needed. Called without the
 * comm's lock, because it waits in the kernel. Returns 0 or -errno. */
int ha_comm_make_loop(struct ha_comm *comm, unsigned int rail, struct inc_err *err);
void ha_loop_free(struct ha_loop *loop);
/* Replaces the loops of comm->renewing. Called on a worker's thread with the comm's lock, which it
 * releases meanwhile. */
void ha_comm_renew(struct ha_comm *comm);
/* Lets the loop of a rail be replaced if the rail's port has another GID now. */
void ha_comm_look_at_loop(struct ha_comm *comm, unsigned int rail, const struct ha_place *place,
			  uint64_t now_ns);
/* Counts a payload that has landed on this path, before the receiver handles it. */
void ha_comm_note_landed(struct ha_comm *comm, const struct ha_path *path, uint32_t sequence);
/* Handles that a receiver's path was fenced: payloads of open receives may have been cut off on it,
 * so that a part of them is on its way to GPU memory. */
void ha_comm_note_left(struct ha_comm *comm, const struct ha_path *path, uint64_t now_ns);
/* Begins flushes, and handles completions of those under way. */
void ha_comm_flush_round(struct ha_comm *comm, uint64_t now_ns);
/* Whether a flush that is not over needs the region. */
bool ha_comm_flush_uses(const struct ha_comm *comm, const struct ha_region *region);
/* Sets *done if the flush is over, and frees its place then. Returns 0, or the comm's error. */
int ha_comm_test_flush(struct ha_comm *comm, struct ha_flush *flush, bool *done);

#endif
