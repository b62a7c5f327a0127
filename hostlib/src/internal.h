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
#include "hostlib/src/rails.h"
#include "lib/proto/roce.h"

#define CONNECT_TIMEOUT_MS   5000
#define CONNECT_SEVERAL_MS   15000 /* with several controllers, of which one must lead first */
#define CREATE_TIMEOUT_MS    70000
#define OPERATION_TIMEOUT_MS 30000
/* A collective's time limit while the controller is lost: short, as no one reports failed ranks. */
#define ORPHAN_TIMEOUT_MS 5000
/* Time that a rank waits for the controller's notice after a mismatch of collectives, because the
 * notice names the ranks. */
#define NOTICE_GRACE_MS 500
#define SETTLE_MS       200 /* limit of the time that destroying a communicator waits for ACKs */

/* Log of a group. The groups of splits and duplicates of its communicators use the same log. */
struct inccl_log {
	void (*fn)(void *ctx, const char *line); /* the caller's; NULL: lines are dropped */
	void *ctx;
	unsigned int owners;
	pthread_mutex_t lock; /* The innermost of all locks. It is not held while fn runs. */
	struct inccl_log_entry *first, **last;
	struct inccl_device_line *device_line; /* the last line of a device, or NULL */
	bool waiting; /* lines are queued; threads also read this flag without the lock */
	bool delivering;
	bool ended; /* the caller's function must not be called any more */
	pthread_cond_t delivered;
};

/* The answers of the controller that a caller can wait for. control_wait.id tells which member is
 * valid. */
union control_answer {
	struct inc_msg_joined joined;
	struct inc_msg_made made;
	struct inc_msg_number number; /* answer to message ready, and to message D */
};

/* A caller that waits for an answer of the controller. The struct lies on the caller's stack, and
 * is in the group's list meanwhile. The control thread fills it under the group's lock. */
struct control_wait {
	enum inc_message_id id; /* message type of the answer */
	/* The two following fields tell which communicator the answer is about. */
	long long index;  /* index in the group; -1: the answer is about no communicator */
	long long number; /* the controller's number of the communicator; -1: unknown, or none */
	/* The caller waits for the answer to D, even after the group has failed. */
	bool farewell;
	bool done;
	bool refused; /* the controller has answered with an error, so it knows of the failure */
	int err;      /* 0, or -errno of the answer, with the reason in text */
	struct inc_addr own_ip; /* where the caller shall ask again after EAGAIN; zeros: nowhere */
	char text[512];
	union control_answer answer;
	struct control_wait *next;
};

/* State of the connection to the controller. */
enum inccl_link {
	LINK_UP,
	LINK_LOST, /* the connection to the controller is lost, but running communicators go on */
	/* a new connection is up, on which RESUME was sent but not answered yet */
	LINK_RESUMING,
};

struct inccl_group {
	pid_t maker; /* process that created the group */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* signalled when an answer has arrived, or the group has failed */
	char job[INC_CONTROL_NAME_LEN];
	int rank;
	int world_size;
	struct inc_addr addr; /* own address, which the controller has chosen */
	char controller[280]; /* name of the present controller, for texts of errors */
	struct inc_hostports controllers;
	unsigned int controller_at; /* number of the present one; it changes under the lock */
	struct inccl_rails rails;   /* the NICs of this host, if it has several */
	uint32_t number;            /* the number by which the controller knows the group */
	bool shares_memory; /* this rank is willing to share memory with ranks of its machine */
	/* this machine's ranks that share memory (hostlib/node); NULL: this rank shares none */
	struct inccl_node *node;
	struct inccl_log *log;

	/* connection to the controller; its fd is -1 if there is none */
	struct inc_stream stream;
	struct inc_tls *tls; /* TLS keys, which the group owns; NULL: no TLS */
	char host[256];      /* host name of the present controller, as the caller gave it */
	/* the controller's address, for a new connection after a loss */
	struct sockaddr_storage peer;
	socklen_t peer_len;
	/* eventfd that wakes the control thread, as the group ends or a failure must be reported */
	int stop_fd;
	bool stopping; /* the group is being destroyed */
	pthread_t thread;
	bool has_thread;
	struct control_wait *waits;

	enum inccl_link link; /* set by inccl_control_set_link() only */
	/* how often the connection was lost; an answer never arrives on a later connection */
	unsigned int losses;
	/* errno of a failed group, which stays failed even if the connection is made again */
	int error;
	int failed_rank;
	char error_text[512];

	long long next_comm;
	/* derivations from this group so far: [0] splits, duplicates and grows, [1] shrinks */
	uint32_t derived[2];
	struct inccl_communicator *comms;
};

struct inccl_request {
	struct inccl_communicator *comm;
	/* The next part of a collective that is cut for channels, on the next channel; NULL: there
	 * is none. The caller's request is the part on channel 0. */
	struct inccl_request *part;
	/* most parts of the collective on one NIC, which share a window; 0: it is not cut */
	unsigned int parts;
	/* The list of all requests whose results the caller has not collected, in the order of
	 * their start. */
	struct inccl_request *prev, *next;
	/* The caller's buffers, each a sequence of blocks (coll/coll.h). */
	const uint8_t *send;
	uint8_t *recv;
	/* state of a reduction of floats as integers (coll/fixed_point.c); else NULL */
	struct inccl_floats *floats;
	/* sizes of the caller's buffers; 0: this rank gives nothing, or receives nothing */
	uint64_t send_bytes, recv_bytes;
	uint32_t blocks;
	uint64_t block_bytes;
	/* distance in bytes from one block of the buffer to the next */
	uint64_t send_step, recv_step;
	size_t element_bytes;
	/* number by which the result is divided, for AVG; 0: it is not divided */
	unsigned int divisor;
	bool foreign; /* the byte order on the wire differs from this machine's */
	uint8_t form; /* form of the elements on the wire, enum inccl_form (coll/coll.h) */
	/* the collective's descriptor, which is the immediate of the first packet */
	uint32_t desc;
	/* Most packets of a message. The first message of a block has one packet, which carries
	 * desc. */
	unsigned int message_packets;
	uint8_t mode;
	/* The request fails if nothing moves for timeout_ns, counted from begun_at_ns at the
	 * earliest. Both use the clock of the communicator's `awake`. */
	uint64_t timeout_ns, begun_at_ns;
	struct inc_channel_region send_map, recv_map; /* registrations of the caller's buffers */
	bool send_mapped, recv_mapped;
	const struct inc_channel_region *send_region, *recv_region; /* regions of send and recv */
	uint64_t block_messages;                                    /* messages of one block */
	uint64_t messages;                                          /* messages of the request */
	uint64_t posted;                                            /* messages that were posted */
	/* Number of messages that the endpoint must have completed when the request is done. It is
	 * valid once all are posted. */
	uint64_t end;
	bool done;
	int result;
};

/* Which thread serves the endpoint. */
enum inccl_driver {
	/* no thread serves the endpoint; after a while the communicator's thread will */
	DRIVER_NONE,
	DRIVER_WAITER, /* a caller that waits in inccl_wait() serves the endpoint */
	/* The communicator's thread serves the endpoint. On channel 0 it does so if no caller has
	 * called for a while, and on a further channel always. */
	DRIVER_THREAD,
	DRIVER_LAST, /* the call that destroys the communicator serves the endpoint */
};

/* State of the report by which this rank notifies the controller that a communicator has failed. */
enum inccl_report {
	/* No report is due: the communicator works, or the controller knows of the failure. */
	REPORT_NONE,
	REPORT_DUE,  /* a report must be sent, because only this rank knows of the failure */
	REPORT_DONE, /* the report was sent on the present connection */
};

/* Events that change enum inccl_report. */
enum inccl_report_event {
	REPORT_FAILED, /* the communicator has failed, of which only this rank knows */
	REPORT_KNOWN,  /* the controller has reported the failure, or is about to report it */
	REPORT_SENT,   /* the report has been sent */
	/* the connection to the controller is lost, and perhaps the report with it */
	REPORT_LOST,
};

/* The phases of a communicator's life. They change under the group's lock. */
enum inccl_comm_phase {
	COMM_CREATING,
	COMM_RUNNING, /* the communicator's thread runs */
	COMM_LEAVING, /* being destroyed: message D was sent, or the controller is lost */
};

/*
 * A channel: a connection to the switch, with a thread. The caller's communicator is its channel 0,
 * which has the list of all channels. Each channel gets a part of a large collective (channels.c).
 */
struct inccl_communicator {
	struct inccl_group *group;
	/* channel 0, in a further channel; NULL in channel 0 itself */
	struct inccl_communicator *lead;
	/* In channel 0: all channels, itself included, and their number. They change under the
	 * locks of the group and of channel 0. */
	struct inccl_communicator *channel[INC_MAX_CHANNELS];
	unsigned int channels;
	unsigned int granted;     /* in channel 0: number of channels that the controller allows */
	struct inccl_lanes lanes; /* this channel's NIC, and in channel 0 those of all */
	bool spread; /* this channel has failed, and its thread has made the others fail */
	struct inccl_communicator *next; /* protected by the group's lock */
	bool is_listed;                  /* the communicator is in its group's list */
	/* name of the kind of the connection to the switch; NULL: this rank has none */
	const char *transport;
	pthread_mutex_t lock;
	/* signalled when requests have finished, or no thread serves the endpoint any more */
	pthread_cond_t changed;

	struct inccl_endpoint *ep;
	struct inccl_bounce *bounce; /* bounce buffer; NULL until a message needs it */
	long long index;             /* index of the communicator in its group */
	/* the controller's number of the communicator; -1: not known yet */
	long long number;
	unsigned int payload, slots;
	unsigned int message_packets; /* most packets of a message */
	/* the window of this rank in messages of message_packets packets */
	unsigned int window_messages;
	unsigned int messages;            /* most messages under way, however short they are */
	enum inc_tree_mode mode;          /* mode of the switches */
	bool native_floats;               /* the switches add floats as they are */
	enum inccl_byte_order byte_order; /* byte order of the elements on the wire */
	uint64_t timeout_ns;
	/* Options of the caller. The struct owns the texts `verbs` and `use` in them. */
	struct inccl_communicator_opts settings;
	bool owns_group; /* destroying this communicator also destroys its group */
	char device[64];
	char peer[80];
	char tree[INC_CONTROL_TREE_LEN];
	char choice[INC_CONTROL_CHOICE_LEN]; /* why the controller has chosen the mode, or "" */
	/* The controller's report that the modes of the switches cost speed; "": there is none, or
	 * it has been logged. slow_floats: it is about reductions of floats alone. */
	char slow[INC_CONTROL_SLOW_LEN];
	bool slow_floats;
	/* The following two members are what resume.c sends to a controller that has restarted. */
	char node[INC_CONTROL_SWITCH_LEN]; /* name of the switch of this rank */
	struct inc_rc_end own;             /* this end of the connection to the switch */

	/* all requests whose results the caller has not collected */
	struct inccl_request *first, *last;
	struct inccl_request *head; /* the oldest request that has not finished */
	/* the oldest request with messages that are not posted yet */
	struct inccl_request *posting;
	uint32_t seq; /* sequence number that the next collective gets */
	/* A set of bits: the kinds of collectives that describe() in collective.c has logged,
	 * because each kind is logged once. */
	uint32_t described;
	bool noted_unused;
	/* The clock of the time limits. It excludes time in which this process stood still, because
	 * the peer was not silent then. */
	struct inc_awake awake;
	/* Time at which something last arrived, or work began, on the clock `awake`. */
	uint64_t moved_at_ns, moved_mark;
	/* time on that clock of the peer's last sign of life, and its figures then (stall.c) */
	uint64_t heard_at_ns, answers_mark, timeouts_mark;
	/* The last result arrived when the endpoint had completed result_mark messages, at
	 * result_at_ns on the clock `awake`. Since then it has made wait_reports reports. In
	 * channel 0 any channel sets waited_at_ns atomically when it logs a wait. */
	uint64_t result_mark, result_at_ns, waited_at_ns;
	unsigned int wait_reports;
	/* how long the thread that serves the endpoint polls before it sleeps */
	struct inc_spin spin;
	uint64_t spin_mark; /* value of moved_mark when that thread last looked */

	/* a switch's report that may explain a time limit; "": there is none, or it is over */
	char notice[512];
	int error; /* 0, or a positive errno with which the communicator has failed */
	int failed_rank;
	char error_text[600];
	/* errno of a failure that the controller's notice may explain until grace_over_at_ns */
	int grace_error;
	uint64_t grace_over_at_ns;
	/* Time at which the controller was lost, on the clock `awake`; 0: it is not lost. */
	uint64_t orphan_at_ns;
	enum inccl_report report;
	enum inccl_comm_phase phase;
	bool refused; /* the controller has refused to make the communicator, with a reason */
	/* Message ready was sent and was not refused, so other ranks may start the communicator. */
	bool is_ready;

	enum inccl_driver driver;
	unsigned int waiters;
	bool sleeping; /* a caller that serves the endpoint sleeps in poll() */
	/* Collectives that are started quickly one after the other (a burst) share sends. */
	uint64_t started_at_ns; /* time when the last collective was started */
	/* Number of packets that are posted, but wait for the next call, or for the alarm, to be
	 * sent. */
	unsigned int unsent_packets;
	/* number of calls of the user; the thread compares it to notice new ones */
	uint64_t activity;
	int wake_fd;   /* eventfd that wakes the driver */
	int thread_fd; /* eventfd that wakes only the communicator's thread */
	/* Alarm (lib/base/os.h) that wakes the thread for work that the user's last call has left:
	 * ACKs of results that are due, or messages under way that no caller serves. A caller that
	 * calls again in time sets the alarm anew, so the thread sleeps on. */
	int alarm_fd;
	/* time at which the alarm wakes the thread; UINT64_MAX: it is not set */
	uint64_t alarm_at_ns;
	bool alarm_is_for_acks; /* the alarm is for ACKs, not for messages under way */
	uint64_t look_at_ns;    /* time at which the thread wakes up without an alarm */
	pthread_t thread;
	bool stop;
};

/* Returns the communicator's byte order, in the encoding of control messages. */
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
	/* when the limit begins, on the clock `awake`, and its length */
	uint64_t began_at_ns, limit_ns;
};

static inline struct inccl_limit inccl_limit_ms(unsigned int ms)
{
	struct inccl_limit limit = {.limit_ns = ms * INC_NSEC_PER_MSEC};

	limit.began_at_ns = inc_awake_now_ns(&limit.awake);
	return limit;
}

/* Whether a result corresponds to a message and not to a packet. In termination mode a message and
 * its result may have different numbers of packets (docs/protocol.md). */
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

/* Disables cancellation of the thread in a public function, because the function holds locks that
 * other threads need. inccl_wait() allows cancellation where it sleeps. */
#define INCCL_UNCANCELLED(state) \
	int state __attribute__((cleanup(inccl_cancel_restore), unused)) = inccl_cancel_hold()

/* util.c */
int inccl_cancel_hold(void);
void inccl_cancel_restore(const int *state);
int inccl_cond_init(pthread_cond_t *cond); /* uses CLOCK_MONOTONIC */
/* Waits for a condition, until the deadline (UINT64_MAX: no deadline). Returns 0 or ETIMEDOUT. */
int inccl_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* caller_log.c. A line may be logged under any lock. The thread that has logged it delivers it to
 * the caller when it holds no lock. */
/* Makes a log, which its caller owns. If fn is NULL, INCCL_DEBUG decides where lines go.
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
void inccl_log_forward(void *comm, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void inccl_log_deliver(struct inccl_log *log);

/* env.c. The settings of a group, as options and environment give them. */
struct inccl_place {
	char job[INC_CONTROL_NAME_LEN];
	struct inc_hostports controllers;
	int rank;
	int world_size;
	/* own address as text, which belongs to the options or to the environment */
	const char *address;
	const char *interface;
	struct inc_tls_files tls;
};
int inccl_place_resolve(const struct inccl_group_opts *opts, struct inccl_place *place,
			struct inc_err *err);
/* The word for the kind of transport; NULL: there is none. */
const char *inccl_env_transport(void);
int inccl_env_start_psn(uint32_t *psn, struct inc_err *err);
int inccl_env_poll_ns(uint64_t *poll_ns, struct inc_err *err);
int inccl_env_channels(unsigned int *channels, struct inc_err *err);
int inccl_env_node(bool *shares_memory, struct inc_err *err);
/* Parses the option `use`, or if it is NULL the variable. known: whether either is set. */
int inccl_use(const char *text, struct inc_msg_use *use, bool *known, struct inc_err *err);

/* control.c, and resume.c, which connects: the connection to the controller. */
int inccl_control_connect(struct inccl_group *group, const struct inccl_place *place,
			  unsigned int timeout_ms, struct inc_err *err);
/* Sets group->link, which no other function does. Called under the group's lock. */
void inccl_control_set_link(struct inccl_group *group, enum inccl_link to);
/* Connects a new group to the same controller as another group. */
int inccl_control_connect_beside(struct inccl_group *group, struct inccl_group *other,
				 unsigned int timeout_ms, struct inc_err *err);
/* These functions start and stop the thread that reads from the controller. */
int inccl_control_start(struct inccl_group *group);
void inccl_control_stop(struct inccl_group *group);
/* Takes leave of the controller: sends BYE, and waits shortly until the controller has closed.
 * Called before inccl_control_stop(). If the socket were closed with unread data, TCP would reset
 * it, and BYE could be lost. The controller would then fail the other ranks as if this one had
 * died. */
void inccl_control_bye(struct inccl_group *group);
/* Sends the controller a message. msg is the message's struct, or NULL if it has no fields. Called
 * under the group's lock. */
int inccl_control_send(struct inccl_group *group, enum inc_message_id id, const void *msg);
/* Sends the controller a message, and waits for the answer that `wait` describes. Returns 0 with
 * wait->answer, or -errno with the reason in err. Called under the group's lock. */
int inccl_control_call(struct inccl_group *group, enum inc_message_id id, const void *msg,
		       struct control_wait *wait, struct inccl_limit *limit, struct inc_err *err);

/* Reports the communicator's failure to the other ranks of this machine that share memory, and to
 * the controller, if that is due (REPORT_DUE). If the controller is lost, it receives the report
 * when it is back. Called under the group's lock. */
void inccl_control_report(struct inccl_group *group, struct inccl_communicator *comm);
/* Reports all failed communicators, after a signal of stop_fd. Returns false if the group ends.
 * Called on the control thread. */
bool inccl_control_report_all(struct inccl_group *group);
/* Reports to the controller that the group's communicator `index` could not be created. number is
 * the controller's number of the communicator, or -1 if there is none yet. */
void inccl_control_report_creation(struct inccl_group *group, long long index, long long number,
				   int error, const char *text);

/* Reports to the controller that no group could be derived from this one. msg is the request that
 * was sent, or that could not be sent. */
void inccl_control_report_derive(struct inccl_group *group, const struct inc_msg_derive *msg,
				 int error, const char *text);

/* resume.c. Connects to the controller again, because the connection was lost. Returns 0 when that
 * has succeeded, or -ECANCELED if the group ends. Called on the control thread. */
int inccl_control_resume(struct inccl_group *group);
/* These functions handle the controller's answer to RESUME, which is yes or an error. Called under
 * the group's lock. */
void inccl_control_resumed(struct inccl_group *group);
void inccl_control_not_resumed(struct inccl_group *group, int error, const char *why);

/* comm.c */
int inccl_comm_check_opts(struct inccl_communicator_opts *opts, struct inc_err *err);
/* Creates one channel of a communicator, which has this index in the group. lead is channel 0 if
 * this is a further channel. After an error the other ranks have been notified, and *agreed tells
 * whether none of them has this channel for certain; agreed may be NULL. */
int inccl_channel_create(struct inccl_group *group, long long index,
			 const struct inccl_communicator_opts *opts,
			 struct inccl_communicator *lead, struct inccl_limit *limit,
			 struct inccl_communicator **comm, bool *agreed, struct inc_err *err);
/* Ends the work of a channel that is being destroyed, and stops its thread, which the caller
 * joins. */
void inccl_channel_halt(struct inccl_communicator *comm, uint64_t deadline_ns);
/* Destroys a channel whose thread has ended: sends message D to the controller, and frees the
 * channel. */
void inccl_channel_end(struct inccl_communicator *comm);
/* Frees a channel in a forked child, without an effect on the parent's. */
void inccl_channel_abandon(struct inccl_communicator *comm);
/* Fails a communicator, because the controller has reported its failure. The first error counts.
 * Locks the communicator. */
void inccl_comm_fail(struct inccl_communicator *comm, int error, int rank, const char *text);
/* Returns how floats are sent when they are reduced: "native", as they are, or "fixed", as
 * integers. */
const char *inccl_comm_floats(const struct inccl_communicator *comm);

/* negotiate.c */
/* Adds the communicator to its group's list, unless it is there. Called under the group's lock.
 * Returns the error with which the group has failed, or 0. */
int inccl_comm_list(struct inccl_communicator *comm, struct inc_err *err);
/* Opens the connection to the switch that the controller allows, as comm->ep. */
int inccl_comm_join_network(struct inccl_communicator *comm, struct inccl_limit *limit,
			    struct inc_err *err);
/* Reports to the controller that the connection is ready, and waits until those of all others are.
 * Called under the group's lock. */
int inccl_comm_start(struct inccl_communicator *comm, struct inccl_limit *limit,
		     struct inc_err *err);

/* Logs once that the modes of the switches cost speed, if the controller has reported that. floats:
 * the caller reduces floats, so a report that is about these alone is logged. */
void inccl_comm_log_slow(struct inccl_communicator *comm, bool floats);

/* channels.c */
/* Least number of bytes of a part into which a collective is cut. All ranks must use the same
 * value. */
extern uint64_t inccl_channel_part_bytes;
/* Creates the group's communicator `index` with all its channels. The options are checked already.
 * After an error the other ranks have been notified. If a channel is missing, the caller's buffer
 * for errors has the reason. */
int inccl_comm_create(struct inccl_group *group, long long index,
		      const struct inccl_communicator_opts *opts, struct inccl_limit *limit,
		      struct inccl_communicator **comm, struct inc_err *err);
/* Fails all channels of a communicator if this one has failed. Called without a channel's lock, by
 * a thread that keeps the communicator from being destroyed. */
void inccl_channels_spread(struct inccl_communicator *comm);

/* progress.c. The caller of these functions holds the communicator's lock. */
void inccl_comm_fail_locked(struct inccl_communicator *comm, int error, int rank, const char *text);
/* Passes an event to comm->report, which no other function changes. */
void inccl_comm_report(struct inccl_communicator *comm, enum inccl_report_event event);
/* stall.c. The first function fails the communicator if nothing has moved until its time limit. The
 * second one returns when the first one must be called next. */
void inccl_comm_check_stall(struct inccl_communicator *comm);
uint64_t inccl_comm_check_at_ns(const struct inccl_communicator *comm);
/* stall.c. Stores a switch's notice for the error of a later time limit. Called with the group's
 * lock held. */
void inccl_comms_notice(struct inccl_group *group, const struct inc_msg_notice *notice);
/* Lets the communicator progress: receives results, posts and sends messages, and finishes
 * requests. Never blocks. */
void inccl_comm_advance(struct inccl_communicator *comm);
/* Starts a new request: does the same as inccl_comm_advance(), but sends first. If the request is
 * one of a burst and the caller does not wait now, the next call may send its packets. */
void inccl_comm_begin(struct inccl_communicator *comm, bool waits);
/* Ends a call of the user: sets the alarm, so that the thread does in time the work that the call
 * has left. */
void inccl_comm_leave(struct inccl_communicator *comm);
/* Serves the endpoint until the request is done or the deadline has passed. Returns whether it is
 * done. cancel_state is the caller's cancellation state, which holds while the thread sleeps
 * here. */
bool inccl_comm_drive(struct inccl_communicator *comm, struct inccl_request *req,
		      uint64_t deadline_ns, int cancel_state);
/* Begins a call of the user: wakes a thread that sleeps, because its timers may be out of date. */
void inccl_comm_enter(struct inccl_communicator *comm);
/* Waits before a communicator is destroyed, until the deadline at most. It waits until the peer has
 * acknowledged all that was posted, and has the ACKs of all results that a caller waited for. If
 * other ranks still wait for data of this rank, which will not be sent, the communicator fails with
 * ECANCELED. */
void inccl_comm_settle(struct inccl_communicator *comm, uint64_t deadline_ns);
void *inccl_comm_thread(void *comm);

/* group.c */
int inccl_group_check_limits(const struct inccl_group_opts *opts, struct inc_err *err);
/* Makes a group without a connection to the controller. On success the group is one more owner of
 * the log. */
int inccl_group_new(const char *job, int rank, int world_size, struct inccl_log *log,
		    struct inccl_group **group);
void inccl_group_free(struct inccl_group *group);
/* Leaves a group that has no communicators, and frees it. If its log has other owners, they keep
 * the log. */
void inccl_group_leave(struct inccl_group *group);
/* Frees a group in a forked child: sends nothing, and frees only the child's own memory and
 * descriptors. */
void inccl_group_abandon(struct inccl_group *group);
/* Sends message G (join), which the caller has filled with the addresses and the derivation. Waits
 * until all ranks have joined. The answer has this rank's number and the number of ranks. */
int inccl_group_join(struct inccl_group *group, struct inc_msg_join *msg, struct inccl_limit *limit,
		     struct inc_err *err);
/* Fills in the fields that messages G and RESUME have in common, except for the addresses. */
void inccl_group_introduce(const struct inccl_group *group, struct inc_msg_join *msg);

/* collective.c */
void inccl_request_release(struct inccl_request *req);
/* Frees a request, or one part of a cut collective, which is on no list. */
void inccl_request_free(struct inccl_request *req);

#endif
