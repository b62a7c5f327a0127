/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private declarations of libinccl: its objects, and the functions that its files share.
 *
 * Locks: a thread that holds a group's lock may lock a communicator, never the other way round. The
 * control thread is the only reader of the connection to the controller; the group's lock
 * serialises its writers.
 */
#ifndef INCCL_INTERNAL_H
#define INCCL_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/include/inccl.h"
#include "lib/base/awake.h"
#include "lib/base/clock.h"
#include "lib/base/caller.h"
#include "lib/base/err.h"
#include "lib/base/spin.h"
#include "lib/channel/channel.h"
#include "lib/conf/messages.h"
#include "lib/net/hostport.h"
#include "lib/net/stream.h"
#include "lib/net/tls.h"
#include "lib/proto/rc_end.h"
#include "hostlib/src/endpoint.h"

#define CONNECT_TIMEOUT_MS   5000
#define CREATE_TIMEOUT_MS    70000
#define OPERATION_TIMEOUT_MS 30000
/* Time limit while the controller is lost, because no one then reports failed ranks. */
#define ORPHAN_TIMEOUT_MS 5000
/* After a mismatch of collectives, how long a rank waits for the controller's notice, which names
 * the ranks. */
#define NOTICE_GRACE_MS 500
/* How long destroying a communicator waits at most for the peer's ACKs. */
#define SETTLE_MS 200

/* Log of a group. Splits and duplicates of the group's communicators have groups, which use the
 * same log. */
struct inccl_log {
	/* log function of the caller; NULL: lines are dropped */
	void (*fn)(void *ctx, const char *line);
	void *ctx;
	unsigned int owners;
	pthread_mutex_t lock; /* the innermost of all locks; not held while fn runs */
	struct inccl_log_entry *first, **last;
	bool waiting; /* there are queued lines; threads also read this flag without the lock */
	bool delivering;
	bool ended; /* fn must not be called any more */
	pthread_cond_t delivered;
};

/* Answers of the controller that a caller can wait for. The member that control_wait.id names is
 * valid. */
union control_answer {
	struct inc_msg_joined joined;
	struct inc_msg_made made;
	struct inc_msg_number number; /* answer to ready (message start), and to D */
};

/* A caller that waits for one answer of the controller. It lies on the caller's stack, is in the
 * group's list meanwhile, and is filled under the group's lock. */
struct control_wait {
	enum inc_message_id id; /* message type of the answer */
	/* The communicator that the answer is about: */
	long long index;  /* index in the group; -1: the answer is about no communicator */
	long long number; /* the controller's number of the communicator; -1: not known, or none */
	/* The caller waits on even if the group fails (for the answer to D), until the connection
	 * is lost. */
	bool farewell;
	bool done;
	bool refused; /* the answer was an error, so the controller knows of the failure */
	int err;      /* 0, or -errno with the reason in text */
	char text[512];
	union control_answer answer;
	struct control_wait *next;
};

/* State of the connection to the controller. */
enum inccl_link {
	LINK_UP,
	LINK_LOST, /* the connection to the controller is lost; running communicators go on */
	/* A new connection is up, and RESUME has been sent but not answered yet. */
	LINK_RESUMING,
};

struct inccl_group {
	pid_t maker; /* process that created the group */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an answer has arrived, or the group has failed */
	char job[INC_CONTROL_NAME_LEN];
	int rank;
	int world_size;
	uint32_t addr;        /* own address in network order, as chosen by the controller */
	char controller[280]; /* name of the controller for error messages */
	uint32_t number;      /* the controller's number of the group */
	struct inccl_log *log;

	struct inc_stream stream;     /* connection to the controller; fd is -1 if it is closed */
	struct inc_tls *tls;          /* keys of TLS, owned by the group; NULL: no TLS */
	char host[256];               /* the controller's name as given by the caller */
	struct sockaddr_storage peer; /* IP address of the controller, to connect again */
	socklen_t peer_len;
	/* eventfd that wakes the control thread, because the group ends or a failure has to be
	 * reported. */
	int stop_fd;
	bool stopping; /* the group is being destroyed */
	pthread_t thread;
	bool has_thread;
	struct control_wait *waits;

	enum inccl_link link; /* set by inccl_control_set_link() only */
	/* number of times the connection was lost; an answer never comes over a later connection */
	unsigned int losses;
	int error; /* errno of a failed group, which stays failed after a lost connection */
	int failed_rank;
	char error_text[512];

	long long next_comm;
	uint32_t derived[2]; /* numbers of derived groups so far, for derive.c */
	struct inccl_communicator *comms;
};

struct inccl_request {
	struct inccl_communicator *comm;
	/* The caller's request is on channel 0. If the collective is cut into parts, this is the
	 * next part, which is on the next channel; else NULL. */
	struct inccl_request *part;
	unsigned int
		parts; /* number of parts, which share one window; 0: the collective is whole */
	/* list of all requests that the caller has not collected, in the order of their start */
	struct inccl_request *prev, *next;
	/* Buffers to send and to receive, block by block (coll/coll.h). */
	const uint8_t *send;
	uint8_t *recv;
	/* state of floats that are sent as integers (coll/fixed_point.c), else NULL */
	struct inccl_floats *floats;
	/* sizes of the buffers; 0: this rank gives nothing, or receives nothing */
	uint64_t send_bytes, recv_bytes;
	uint32_t blocks;
	uint64_t block_bytes;
	uint64_t send_step, recv_step; /* offset from one block to the next */
	size_t element_bytes;
	unsigned int divisor; /* divisor of the result, for AVG; 0: not divided */
	bool foreign;         /* the byte order on the wire is not the host's */
	uint32_t desc;        /* immediate of the first packet: the descriptor */
	/* Packets of a message at most. The first message of a block has one packet, which carries
	 * desc. */
	unsigned int message_packets;
	uint8_t mode;
	/* The request fails if nothing moves for timeout_ns, counted from begun_at_ns at the
	 * earliest, on the clock of the communicator's awake. */
	uint64_t timeout_ns, begun_at_ns;
	struct inc_channel_region send_map, recv_map; /* registrations of the caller's buffers */
	bool send_mapped, recv_mapped;
	const struct inc_channel_region *send_region, *recv_region; /* regions of send and recv */
	uint64_t block_messages;                                    /* messages of one block */
	uint64_t messages;                                          /* messages of the request */
	uint64_t posted;                                            /* messages that were posted */
	/* The request is done when the endpoint has completed this many messages. Valid once all
	 * are posted. */
	uint64_t end;
	bool done;
	int result;
};

/* Which thread serves the endpoint. */
enum inccl_driver {
	DRIVER_NONE,   /* no thread; the communicator's thread takes over after a while */
	DRIVER_WAITER, /* a caller that waits inside inccl_wait() */
	/* the communicator's thread: of channel 0 if no caller has called for a while, and of a
	 * further channel always */
	DRIVER_THREAD,
	DRIVER_LAST, /* the call that destroys the communicator */
};

/* State of the report by which this rank notifies the controller that its communicator has
 * failed. */
enum inccl_report {
	/* none is due: the communicator works, or the controller knows of the failure */
	REPORT_NONE,
	REPORT_DUE,  /* a report is due, because only this rank knows of the failure */
	REPORT_DONE, /* the report has been sent on the present connection */
};

/* Events that change enum inccl_report. */
enum inccl_report_event {
	REPORT_FAILED, /* the communicator has failed, and only this rank knows */
	REPORT_KNOWN,  /* the controller has reported the failure, or is about to */
	REPORT_SENT,   /* the report has been sent */
	REPORT_LOST,   /* the connection is lost, and the report may be lost with it */
};

/* Phase of a communicator's life. It changes under the group's lock. */
enum inccl_comm_phase {
	COMM_CREATING,
	COMM_RUNNING, /* the communicator's thread runs */
	COMM_LEAVING, /* being destroyed: message D has been sent, or the controller is lost */
};

/*
 * A channel, that is a connection to the switch with its thread. The caller's communicator is its
 * channel 0, which has the list of all channels. A collective that is large is cut into parts, of
 * which each channel gets one (channels.c).
 */
struct inccl_communicator {
	struct inccl_group *group;
	struct inccl_communicator *lead; /* of a further channel: channel 0; of channel 0: NULL */
	/* Of channel 0: all channels, itself included, and their number. They change under the
	 * locks of the group and of channel 0. */
	struct inccl_communicator *channel[INC_MAX_CHANNELS];
	unsigned int channels;
	unsigned int granted; /* of channel 0: number of channels that the controller has named */
	bool spread;          /* the channel has failed, and its thread has failed the others */
	struct inccl_communicator *next; /* protected by the group's lock */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* requests have finished, or the driver has left */

	struct inccl_endpoint *ep;
	struct inccl_bounce *bounce; /* bounce buffer; NULL until a message needs it */
	long long index;             /* index of the communicator in its group */
	long long number;            /* the controller's number; -1: not yet known */
	unsigned int payload, slots;
	unsigned int message_packets;     /* packets of a message at most */
	unsigned int window_messages;     /* window, in messages of that size */
	unsigned int messages;            /* messages under way at most, of any length */
	enum inc_tree_mode mode;          /* mode of the switches */
	bool native_floats;               /* the switches add floats as they are */
	enum inccl_byte_order byte_order; /* byte order of elements on the wire */
	uint64_t timeout_ns;
	/* options of the caller; the struct owns the text `verbs` */
	struct inccl_communicator_opts settings;
	bool owns_group; /* destroying the communicator destroys its group */
	char device[64];
	char peer[80];
	char tree[INC_CONTROL_TREE_LEN];
	/* Members that resume.c sends to a controller that has restarted: */
	char node[INC_CONTROL_SWITCH_LEN]; /* name of the switch to which this rank is connected */
	struct inc_rc_end own;             /* this end of the connection to the switch */

	struct inccl_request *first, *last; /* requests that the caller has not collected */
	struct inccl_request *head;         /* the oldest request that is not done */
	struct inccl_request *posting; /* the oldest request whose messages are not all posted */
	uint32_t seq;                  /* sequence number of the next collective */
	/* Each kind of collective is logged once. These bits are the kinds that describe() in
	 * collective.c has logged. */
	uint32_t described;
	bool noted_unused;
	/* Clock of the time limits. It excludes time in which this process stood still, because
	 * that is not the peer's silence. */
	struct inc_awake awake;
	/* time at which something last arrived or work began, on the clock of awake */
	uint64_t moved_at_ns;
	uint64_t moved_mark;
	struct inc_spin spin; /* the driver's polls before it sleeps */
	uint64_t spin_mark;   /* moved_mark at the driver's last look */

	int error; /* 0, or the errno with which the communicator has failed */
	int failed_rank;
	char error_text[600];
	int grace_error; /* errno of a failure that may be explained until grace_over_at_ns */
	uint64_t grace_over_at_ns;
	/* time at which the controller was lost, on the clock of awake; 0: not lost */
	uint64_t orphan_at_ns;
	enum inccl_report report;
	enum inccl_comm_phase phase;
	bool refused; /* the controller has refused to create the communicator, with a reason */
	/* message ready was sent and not refused, so the communicator may start on other ranks */
	bool is_ready;

	enum inccl_driver driver;
	unsigned int waiters;
	bool sleeping; /* a waiter that drives sleeps in poll() */
	/* Collectives that are started in a burst share sends. */
	uint64_t started_at_ns; /* time when a collective was last started */
	/* packets that are posted and wait for the next call, or for the alarm, to be sent */
	unsigned int unsent_packets;
	uint64_t activity; /* number of calls of the user, by which the thread notices them */
	int wake_fd;       /* eventfd that wakes the driver */
	int thread_fd;     /* eventfd that wakes only the thread */
	/* alarm (lib/base/os.h) that wakes the thread for work that the last call has left: ACKs of
	 * results that are due, or messages under way that no caller serves. A caller that calls
	 * again in time sets the timer anew, so the thread sleeps on. */
	int alarm_fd;
	uint64_t alarm_at_ns;   /* time at which the alarm expires; UINT64_MAX: not set */
	bool alarm_is_for_acks; /* the alarm is for ACKs, not for messages under way */
	uint64_t look_at_ns;    /* time at which the thread wakes without an alarm */
	pthread_t thread;
	bool stop;
};

/* Returns the byte order in the encoding of control messages. */
static inline enum inc_byte_order inccl_wire_order(const struct inccl_communicator *comm)
{
	return comm->byte_order == INCCL_ORDER_NETWORK ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
}

static inline uint64_t deadline_after_ms(unsigned int ms)
{
	return inc_now_ns() + ms * INC_NSEC_PER_MSEC;
}

/* A time limit for answers of peers or the controller. It counts only the time in which this
 * process ran, so that the process does not blame others for a time in which it stood still. */
struct inccl_limit {
	struct inc_awake awake;
	/* begin of the limit on the clock of awake; length of the limit */
	uint64_t began_at_ns, limit_ns;
};

static inline struct inccl_limit inccl_limit_ms(unsigned int ms)
{
	struct inccl_limit limit = {.limit_ns = ms * INC_NSEC_PER_MSEC};

	limit.began_at_ns = inc_awake_now_ns(&limit.awake);
	return limit;
}

/* Whether results correspond to messages but not to packets. In termination mode a message and its
 * result may have different numbers of packets (docs/protocol.md). */
static inline bool inccl_steps_are_messages(const struct inccl_communicator *comm)
{
	return comm->mode == INC_TREE_TERMINATION;
}

/*
 * Whether this process is a child, by fork(), of the process that created the group. It has copies
 * of the group's memory and descriptors, but not its threads. Any lock may have been held at the
 * fork, and connections, timers and eventfds are shared, so using them would disturb the parent.
 */
static inline bool inccl_is_inherited(const struct inccl_group *group)
{
	return group->maker != getpid();
}

#define INCCL_INHERITED_TEXT "the object belongs to the process from which this one was forked"

/* For public functions: disables cancellation of the thread, because it holds locks that others
 * need. inccl_wait() allows cancellation where it sleeps. */
#define INCCL_UNCANCELLED(state) \
	int state __attribute__((cleanup(inccl_cancel_restore), unused)) = inccl_cancel_hold()

/* util.c */
int inccl_cancel_hold(void);
void inccl_cancel_restore(const int *state);
int inccl_cond_init(pthread_cond_t *cond); /* uses CLOCK_MONOTONIC */
/* Waits for a signal or the deadline (UINT64_MAX: none). Returns 0 or ETIMEDOUT. */
int inccl_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* caller_log.c. A line may be logged under any lock. A thread that may have logged one delivers it
 * when it holds no lock. */
/* Makes a log with one owner, the caller. If fn is NULL, INCCL_DEBUG decides where lines go.
 * inccl_log_hold() adds an owner, and the last inccl_log_put() frees the log. */
int inccl_log_new(void (*fn)(void *ctx, const char *line), void *ctx, struct inccl_log **out);
struct inccl_log *inccl_log_hold(struct inccl_log *log);
void inccl_log_put(struct inccl_log *log);
/* Does the same as inccl_log_put() in a forked child: calls no callback and takes no lock. */
void inccl_log_abandon(struct inccl_log *log);
/* Ends the log. When the function returns, the caller's callback runs in no thread and is not
 * called again. Lines to stderr are still printed. */
void inccl_log_end(struct inccl_log *log);
void inccl_log_line(struct inccl_log *log, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void inccl_log_forward(void *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void inccl_log_deliver(struct inccl_log *log);

/* env.c. Resolves options and environment to the settings of a group. */
struct inccl_place {
	char job[INC_CONTROL_NAME_LEN];
	struct inc_hostport controller;
	int rank;
	int world_size;
	const char *address; /* own address as text; it belongs to the options or the environment */
	const char *interface;
	struct inc_tls_files tls;
};
int inccl_place_resolve(const struct inccl_group_opts *opts, struct inccl_place *place,
			struct inc_err *err);
int inccl_env_transport(enum inccl_transport_kind *kind, struct inc_err *err);
int inccl_env_start_psn(uint32_t *psn, struct inc_err *err);
int inccl_env_poll_ns(uint64_t *poll_ns, struct inc_err *err);
int inccl_env_channels(unsigned int *channels, struct inc_err *err);

/* control.c: the connection to the controller. */
/* Turns a connected socket into a stream to the controller, with TLS if the group has keys. The
 * stream is the caller's. stop_fd: see inc_stream_open(). Returns 0, or -errno with the reason in
 * err; the caller then still owns the socket. */
int inccl_control_open(const struct inccl_group *group, int fd, uint64_t deadline_ns, int stop_fd,
		       struct inc_stream *stream, struct inc_err *err);
int inccl_control_connect(struct inccl_group *group, const struct inccl_place *place,
			  unsigned int timeout_ms, struct inc_err *err);
/* Sets group->link, and is the only function that does so. Under the group's lock. */
void inccl_control_set_link(struct inccl_group *group, enum inccl_link to);
/* Connects a new group to the same controller as another group. */
int inccl_control_connect_beside(struct inccl_group *group, const struct inccl_group *other,
				 unsigned int timeout_ms, struct inc_err *err);
/* Start and stop the thread that reads the connection. */
int inccl_control_start(struct inccl_group *group);
void inccl_control_stop(struct inccl_group *group);
/* Called before inccl_control_stop() if the member leaves in order: sends BYE and waits shortly
 * until the controller has closed. If the socket were closed with unread data, TCP would reset it
 * and BYE could be lost. The controller would then fail the other ranks as if this one had died. */
void inccl_control_bye(struct inccl_group *group);
/* Sends a message. msg is the message's struct, or NULL if it has no fields. Called under the
 * group's lock. */
int inccl_control_send(struct inccl_group *group, enum inc_message_id id, const void *msg);
/* Sends a message and waits for the answer that wait describes. Returns 0 with wait->answer, or
 * -errno with the reason in err. Called under the group's lock. */
int inccl_control_call(struct inccl_group *group, enum inc_message_id id, const void *msg,
		       struct control_wait *wait, struct inccl_limit *limit, struct inc_err *err);

/* Sends the report of the communicator's failure to the controller if it is due (REPORT_DUE).
 * Called under the group's lock. */
void inccl_control_report(struct inccl_group *group, struct inccl_communicator *comm);
/* Reports that the creation of the group's communicator `index` has failed. number is the
 * controller's number of the communicator, or -1 if there is none yet. */
void inccl_control_report_creation(struct inccl_group *group, long long index, long long number,
				   int error, const char *text);

/* Reports that a group could not be derived from this one. msg: the request that was sent, or would
 * have been sent. */
void inccl_control_report_derive(struct inccl_group *group, const struct inc_msg_derive *msg,
				 int error, const char *text);

/* resume.c, on the control thread. Called when the connection is lost: connects again until that
 * succeeds (0) or the group ends (-ECANCELED). */
int inccl_control_resume(struct inccl_group *group);
/* Handle the controller's answer to RESUME, which is yes or an error. Called under the group's
 * lock. */
void inccl_control_resumed(struct inccl_group *group);
void inccl_control_not_resumed(struct inccl_group *group, int error, const char *why);

/* comm.c */
int inccl_comm_check_opts(struct inccl_communicator_opts *opts, struct inc_err *err);
/* Creates the channel with the group's index `index`. lead: channel 0, if this is a further one.
 * After an error the other ranks have been notified, and *agreed says whether none of them has this
 * channel for certain; agreed may be NULL. */
int inccl_channel_create(struct inccl_group *group, long long index,
			 const struct inccl_communicator_opts *opts,
			 struct inccl_communicator *lead, struct inccl_limit *limit,
			 struct inccl_communicator **comm, bool *agreed, struct inc_err *err);
/* Ends the work of a channel that is destroyed, and stops its thread, which the caller joins. */
void inccl_channel_halt(struct inccl_communicator *comm, uint64_t deadline_ns);
/* Destroys a channel whose thread has ended: leaves it at the controller and frees it. */
void inccl_channel_end(struct inccl_communicator *comm);
/* Frees a channel in a forked child. */
void inccl_channel_abandon(struct inccl_communicator *comm);
/* The controller reports that the communicator has failed. The first error counts. Locks the
 * communicator. */
void inccl_comm_fail(struct inccl_communicator *comm, int error, int rank, const char *text);
/* Returns "native" or "fixed": how floats that are reduced travel on the wire. */
const char *inccl_comm_floats(const struct inccl_communicator *comm);

/* channels.c */
/* Bytes of the smallest part into which a collective is cut. All ranks must use the same value. */
extern uint64_t inccl_channel_part_bytes;
/* Creates the group's communicator `index`, with checked options and all its channels. After an
 * error the other ranks have been notified. If a channel is missing, the caller's buffer for errors
 * has the reason. */
int inccl_comm_create(struct inccl_group *group, long long index,
		      const struct inccl_communicator_opts *opts, struct inccl_limit *limit,
		      struct inccl_communicator **comm, struct inc_err *err);
/* The channel may have failed: if so, the other channels of its communicator fail, too. Called
 * without a channel's lock, by a thread that keeps the communicator from being destroyed. */
void inccl_channels_spread(struct inccl_communicator *comm);

/* progress.c. The caller of these functions holds the communicator's lock. */
void inccl_comm_fail_locked(struct inccl_communicator *comm, int error, int rank, const char *text);
/* Handles an event for comm->report, and is the only function that changes it. */
void inccl_comm_report(struct inccl_communicator *comm, enum inccl_report_event event);
/* stall.c: the communicator fails if nothing has moved until its time limit. The second function
 * returns when the first one must be called next. */
void inccl_comm_check_stall(struct inccl_communicator *comm);
uint64_t inccl_comm_check_at_ns(const struct inccl_communicator *comm);
/* Receives results, posts and sends messages, and finishes requests. Never blocks. */
void inccl_comm_advance(struct inccl_communicator *comm);
/* Starts a new request: like inccl_comm_advance(), but sends first. If it is one of a burst and the
 * caller does not wait now, its packets may be sent by the next call. */
void inccl_comm_begin(struct inccl_communicator *comm, bool waits);
/* A call of the user ends. Sets the alarm, so that the thread serves in time the work that the call
 * has left. */
void inccl_comm_leave(struct inccl_communicator *comm);
/* Serves the endpoint until the request is done or the deadline has passed; returns whether it is
 * done. cancel_state is the caller's, which holds while the thread sleeps here. */
bool inccl_comm_drive(struct inccl_communicator *comm, struct inccl_request *req,
		      uint64_t deadline_ns, int cancel_state);
/* A call of the user begins. Wakes a thread that sleeps, because its timers may be out of date. */
void inccl_comm_enter(struct inccl_communicator *comm);
/* Called before a communicator is destroyed. Waits until the peer has acknowledged all that was
 * posted and has the ACKs of all results that a caller waited for, or until the deadline. Fails the
 * communicator with ECANCELED if other ranks still wait for data of this rank, which will not be
 * sent. */
void inccl_comm_settle(struct inccl_communicator *comm, uint64_t deadline_ns);
void *inccl_comm_thread(void *comm);

/* group.c */
int inccl_group_check_limits(const struct inccl_group_opts *opts, struct inc_err *err);
/* Makes a group without a connection. The group becomes an owner of the log if that succeeds. */
int inccl_group_new(const char *job, int rank, int world_size, struct inccl_log *log,
		    struct inccl_group **group);
void inccl_group_free(struct inccl_group *group);
/* Leaves a group that has no communicators, and frees it. Other owners of the log keep it. */
void inccl_group_leave(struct inccl_group *group);
/* Does the same as inccl_group_leave() in a forked child: sends nothing, and frees only the child's
 * own memory and descriptors. */
void inccl_group_abandon(struct inccl_group *group);
/* Sends G (join) with msg, which the caller has filled with the addresses and the derivation. Waits
 * until all ranks have joined. The answer has this rank's number and the size. */
int inccl_group_join(struct inccl_group *group, struct inc_msg_join *msg, struct inccl_limit *limit,
		     struct inc_err *err);
/* Fills the part of msg that G and RESUME have in common, except for the addresses. */
void inccl_group_introduce(const struct inccl_group *group, struct inc_msg_join *msg);

/* collective.c */
void inccl_request_release(struct inccl_request *req);
/* Frees a request, or one part of it, that is on no list. */
void inccl_request_free(struct inccl_request *req);

#endif
