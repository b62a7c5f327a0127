/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's own objects.
 *
 * Locks: a group's lock may be held while a communicator's is taken, never the other
 * way round. The control thread is the only reader of the controller's connection; the
 * group's lock serialises its writers.
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
#include "lib/conf/messages.h"
#include "lib/net/hostport.h"
#include "lib/net/stream.h"
#include "lib/net/tls.h"
#include "hostlib/src/transport.h"

#define CONNECT_TIMEOUT_MS   5000
#define CREATE_TIMEOUT_MS    70000
#define OPERATION_TIMEOUT_MS 30000
/* With the controller gone nobody will tell of dead ranks: wait no longer than this. */
#define ORPHAN_TIMEOUT_MS 5000
/* After a mismatch the controller's notice names the ranks: wait for it so long. */
#define NOTICE_GRACE_MS 500
/* The longest that destroying a communicator waits for the peer's ACKs. */
#define SETTLE_MS 200

/* A group's, and that of the groups that its communicators' splits and duplicates have for
 * themselves. */
struct inccl_log {
	void (*fn)(void *ctx, const char *line); /* NULL: nowhere */
	void *ctx;
	unsigned int owners;
	pthread_mutex_t lock; /* the innermost; not held while fn runs */
	struct inccl_log_entry *first, **last;
	bool waiting; /* there are lines to deliver; read without the lock, too */
	bool delivering;
	bool ended; /* fn is not called any more */
	pthread_cond_t delivered;
};

/* The answers that somebody waits for, as control_wait.id tells them apart. */
union control_answer {
	struct inc_msg_joined joined;
	struct inc_msg_made made;
	struct inc_msg_number number; /* start; D, which confirms an end */
};

/* A caller that waits for one answer of the controller; lives on its stack, is in the
 * group's list while it waits, and is filled under the group's lock. */
struct control_wait {
	enum inc_message_id id; /* of the answer */
	/* The communicator that it is about: */
	long long index;  /* the group's own count, -1: it is about none */
	long long number; /* the controller's number, -1: not known, or none */
	bool farewell;    /* wait on after the group has failed (for the answer to D), until the
			     connection is lost */
	bool done;
	bool refused; /* it was an error: the controller knows that this has come to nothing */
	int err;      /* 0, or -errno with text */
	char text[512];
	union control_answer answer;
	struct control_wait *next;
};

/* The connection to the controller. */
enum inccl_link {
	LINK_UP,
	LINK_LOST,     /* running communicators go on */
	LINK_RESUMING, /* a controller is back and has been told what runs; has not answered yet */
};

struct inccl_group {
	pid_t maker; /* the process that made it */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an answer came, or the group failed */
	char job[INC_CONTROL_NAME_LEN];
	int rank;
	int world_size;
	uint32_t addr;        /* own, network order; what the controller chose */
	char controller[280]; /* for messages */
	uint32_t number;      /* the controller's */
	struct inccl_log *log;

	struct inc_stream stream;     /* to the controller; fd is -1 where it is closed */
	struct inc_tls *tls;          /* owned; NULL: plainly */
	char host[256];               /* the controller's name, as it was given */
	struct sockaddr_storage peer; /* its address, to find it again */
	socklen_t peer_len;
	int stop_fd;   /* eventfd: the control thread is to end, or has something to report */
	bool stopping; /* to end */
	pthread_t thread;
	bool has_thread;
	struct control_wait *waits;

	enum inccl_link link; /* inccl_control_set_link() */
	unsigned int losses;  /* how often: an answer does not come over another connection */
	int error; /* a failed group stays failed, also where only the controller is lost */
	int failed_rank;
	char error_text[512];

	long long next_comm;
	uint32_t derived[2]; /* the group's own counts, hostlib/src/derive.c */
	struct inccl_communicator *comms;
};

struct inccl_request {
	struct inccl_communicator *comm;
	struct inccl_request *prev, *next; /* all uncollected requests, in order of start */
	/* What is given and where results go, block by block (coll/coll.h). */
	const uint8_t *send;
	uint8_t *recv;
	struct inccl_floats *floats; /* where floats are reduced (coll/fixed_point.c), else NULL */
	uint64_t send_bytes, recv_bytes; /* 0: nothing is given, or got */
	uint32_t blocks;
	uint64_t block_bytes;
	uint64_t send_step, recv_step; /* bytes from a block to the next */
	size_t element_bytes;
	unsigned int divisor; /* of what has come, at the end; 0: it stays */
	bool foreign;         /* the wire's byte order is not the machine's */
	uint32_t desc;        /* immediate of the first packet */
	/* of a message at most; the first message of a block has one, which carries desc */
	unsigned int message_packets;
	uint8_t mode;
	/* The request fails when, from begun_at_ns on, nothing has moved for timeout_ns; by the
	 * communicator's awake. */
	uint64_t timeout_ns, begun_at_ns;
	struct inccl_region send_map, recv_map; /* the caller's buffers */
	bool send_mapped, recv_mapped;
	const struct inccl_region *send_region, *recv_region; /* where send and recv are */
	uint64_t block_messages;                              /* of one block */
	uint64_t messages;                                    /* in all */
	uint64_t posted;                                      /* of them */
	uint64_t end; /* done when the endpoint has completed this many messages; valid
		       * once all are posted */
	bool done;
	int result;
};

/* Who serves the endpoint. */
enum inccl_driver {
	DRIVER_NONE,   /* nobody: the thread takes over after a while */
	DRIVER_WAITER, /* a caller inside inccl_wait() */
	DRIVER_THREAD, /* the communicator's thread, for nobody has called for a while */
	DRIVER_LAST,   /* the call that destroys the communicator */
};

/* What the controller must hear of this rank's communicator. */
enum inccl_report {
	REPORT_NONE, /* nothing: it lives, or has failed in a way that the controller knows */
	REPORT_DUE,  /* that it has failed by itself */
	REPORT_DONE, /* that has been said to it, on this connection */
};

/* What changes that. */
enum inccl_report_event {
	REPORT_FAILED, /* the communicator has failed, and this rank alone knows */
	REPORT_KNOWN,  /* the controller has said that it has failed, or is about to */
	REPORT_SENT,   /* the report is on its way */
	REPORT_LOST,   /* the connection is: perhaps the report was not read any more */
};

/* The communicator's life; changes under the group's lock. */
enum inccl_comm_phase {
	COMM_CREATING,
	COMM_RUNNING, /* it has its thread */
	COMM_LEAVING, /* being destroyed: the controller has been told (D), or is lost */
};

struct inccl_communicator {
	struct inccl_group *group;
	struct inccl_communicator *next; /* under the group's lock */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* requests finished, or the driver left */

	struct inccl_endpoint *ep;
	struct inccl_bounce *bounce; /* NULL until something needs it */
	long long index;             /* the group's count */
	long long number;            /* the controller's, -1: not yet known */
	unsigned int payload, slots;
	unsigned int message_packets;     /* of a message at most */
	unsigned int window_messages;     /* of that size; or as many packets, in shorter ones */
	unsigned int messages;            /* under way at most, however short */
	enum inc_tree_mode mode;          /* of the switches */
	bool native_floats;               /* which the switches add as they are */
	enum inccl_byte_order byte_order; /* on the wire */
	uint64_t timeout_ns;
	struct inccl_communicator_opts settings; /* as asked for; verbs belongs to it */
	bool owns_group;                         /* destroying it destroys its group */
	char device[64];
	char peer[80];
	char tree[INC_CONTROL_TREE_LEN];
	/* what a controller that has restarted does not know, and resume.c tells it: */
	char node[INC_CONTROL_SWITCH_LEN]; /* the switch */
	uint32_t qpn;                      /* of the own endpoint */
	uint16_t udp_port;                 /* where that receives */

	struct inccl_request *first, *last; /* uncollected */
	struct inccl_request *head;         /* of them, the oldest unfinished */
	struct inccl_request *posting;      /* and the oldest not wholly given to the endpoint */
	uint32_t seq;                       /* of the next collective */
	/* The log tells once how each kind of collective runs, and that options have no effect:
	 * bits for the kinds that it has told of, by describe() in collective.c. */
	uint32_t described;
	bool noted_unused;
	/* The time by which nothing moves, from a request's begin on: what the process does not
	 * live through is not the peer's silence. */
	struct inc_awake awake;
	uint64_t moved_at_ns; /* when something last came, or work began; by awake */
	uint64_t moved_mark;

	int error; /* 0 while alive */
	int failed_rank;
	char error_text[600];
	int grace_error; /* failed, but a better explanation may come until grace_over_at_ns */
	uint64_t grace_over_at_ns;
	uint64_t orphan_at_ns; /* when the controller was lost, by awake; 0: it is there */
	enum inccl_report report;
	enum inccl_comm_phase phase;
	bool refused; /* the controller has said why it cannot be created */

	enum inccl_driver driver;
	unsigned int waiters;
	bool sleeping;     /* a waiter that drives is in poll */
	uint64_t activity; /* counts calls of the user, for the thread */
	int wake_fd;       /* eventfd: wakes the driver */
	int thread_fd;     /* eventfd: wakes the thread alone */
	/* timerfd: wakes the thread for what the last call has left behind: results that the peer
	 * is to be told of (ep->tell_at_ns), or messages under way that nobody serves. A caller who
	 * comes back in time sets it anew, and nobody is woken. */
	int alarm_fd;
	uint64_t alarm_at_ns;   /* UINT64_MAX: it does not run */
	bool alarm_is_for_acks; /* it is set for ep->tell_at_ns, not for messages under way */
	uint64_t look_at_ns;    /* the thread wakes then by itself, alarm or not */
	pthread_t thread;
	bool stop;
};

/* As messages say it. */
static inline enum inc_byte_order inccl_wire_order(const struct inccl_communicator *comm)
{
	return comm->byte_order == INCCL_ORDER_NETWORK ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
}

static inline uint64_t deadline_after_ms(unsigned int ms)
{
	return inc_now_ns() + ms * INC_NSEC_PER_MSEC;
}

/* A time limit for answers of others. It counts the time that this process was awake, so that the
 * process does not blame them for what it missed while it stood still. */
struct inccl_limit {
	struct inc_awake awake;
	uint64_t began_at_ns, limit_ns; /* by awake's time; the limit's length */
};

static inline struct inccl_limit inccl_limit_ms(unsigned int ms)
{
	struct inccl_limit limit = {.limit_ns = ms * INC_NSEC_PER_MSEC};

	limit.began_at_ns = inc_awake_now_ns(&limit.awake);
	return limit;
}

/* Do the ranks' messages keep in step with their results, and no more: those of one side may have
 * other packets than those of the other (docs/protocol.md, Termination mode). */
static inline bool inccl_steps_are_messages(const struct inccl_communicator *comm)
{
	return comm->mode == INC_TREE_TERMINATION;
}

/*
 * Is this process a child of the one that made the group? It has copies of the group's memory and
 * descriptors. The threads are the parent's alone, any lock may have been held at the fork, and the
 * connections, timers and eventfds are shared: what is done to them happens to the parent.
 */
static inline bool inccl_is_inherited(const struct inccl_group *group)
{
	return group->maker != getpid();
}

#define INCCL_INHERITED_TEXT "the object belongs to the process from which this one was forked"

/* In a public function: its thread is not cancelled inside, where it holds locks and others rely
 * on it; inccl_wait() lets it happen where it sleeps. */
#define INCCL_UNCANCELLED(state) \
	int state __attribute__((cleanup(inccl_cancel_restore), unused)) = inccl_cancel_hold()

/* util.c */
int inccl_cancel_hold(void);
void inccl_cancel_restore(const int *state);
int inccl_cond_init(pthread_cond_t *cond); /* on CLOCK_MONOTONIC */
/* Waits until signalled or the deadline (UINT64_MAX: none). 0 or ETIMEDOUT. */
int inccl_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* caller_log.c: lines may be made under any lock; whoever may have made one delivers when it holds
 * none.
 */
/* fn NULL: where the environment says. The caller owns it, and inccl_log_hold() makes one more
 * owner. The last inccl_log_put() frees it. */
int inccl_log_new(void (*fn)(void *ctx, const char *line), void *ctx, struct inccl_log **out);
struct inccl_log *inccl_log_hold(struct inccl_log *log);
void inccl_log_put(struct inccl_log *log);
/* inccl_log_put() in a forked child: nothing is called, and no lock is taken. */
void inccl_log_abandon(struct inccl_log *log);
/* When this returns, the caller's callback runs in no thread, and will not be called again. Lines
 * that go to stderr go there still. */
void inccl_log_end(struct inccl_log *log);
void inccl_log_line(struct inccl_log *log, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void inccl_log_forward(void *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void inccl_log_deliver(struct inccl_log *log);

/* env.c: options and environment made into what is needed. */
struct inccl_place {
	char job[INC_CONTROL_NAME_LEN];
	struct inc_hostport controller;
	int rank;
	int world_size;
	const char *address; /* belong to the options or the environment */
	const char *interface;
	struct inc_tls_files tls;
};
int inccl_place_resolve(const struct inccl_group_opts *opts, struct inccl_place *place,
			struct inc_err *err);
int inccl_env_transport(enum inccl_transport_kind *kind, struct inc_err *err);
int inccl_env_start_psn(uint32_t *psn, struct inc_err *err);

/* control.c: the connection to the controller. */
/* A connected socket becomes a stream to the controller, with TLS where the group has keys, which
 * is not the group's yet. stop_fd: see inc_stream_open(). 0, or -errno with err; the socket is the
 * caller's then. */
int inccl_control_open(const struct inccl_group *group, int fd, uint64_t deadline_ns, int stop_fd,
		       struct inc_stream *stream, struct inc_err *err);
int inccl_control_connect(struct inccl_group *group, const struct inccl_place *place,
			  unsigned int timeout_ms, struct inc_err *err);
/* The only place where the link changes; under the group's lock. */
void inccl_control_set_link(struct inccl_group *group, enum inccl_link to);
/* A connection to where another group has one. */
int inccl_control_connect_beside(struct inccl_group *group, const struct inccl_group *other,
				 unsigned int timeout_ms, struct inc_err *err);
/* Starts and ends the thread that reads it. */
int inccl_control_start(struct inccl_group *group);
void inccl_control_stop(struct inccl_group *group);
/* Before that, of a member that leaves in order: says so, and waits until the controller has hung
 * up, for a moment. Closed with something unread the connection would be reset, and what was said
 * be lost: the others' calls would end, as if this rank were dead. */
void inccl_control_bye(struct inccl_group *group);
/* Under the group's lock; said: the message's struct, NULL where it has no fields. */
int inccl_control_send(struct inccl_group *group, enum inc_message_id id, const void *msg);
/* Sends and waits for the answer that wait describes; 0 (it is in wait->answer) or -errno with err.
 */
int inccl_control_call(struct inccl_group *group, enum inc_message_id id, const void *msg,
		       struct control_wait *wait, struct inccl_limit *limit, struct inc_err *err);

/* Tells the controller that the communicator has failed, if it has and by itself. Under the
 * group's lock. */
void inccl_control_report(struct inccl_group *group, struct inccl_communicator *comm);
/* The same for the creation of the group's communicator number index, known to the controller as
 * number, or not yet (-1). */
void inccl_control_report_creation(struct inccl_group *group, long long index, long long number,
				   int error, const char *text);

/* The same for a group that was to be made of this one; said: what was, or would have been, asked.
 */
void inccl_control_report_derive(struct inccl_group *group, const struct inc_msg_derive *msg,
				 int error, const char *text);

/* resume.c; on the control thread. The controller is lost: tries until it is back (0) or the group
 * is to end (-ECANCELED). */
int inccl_control_resume(struct inccl_group *group);
/* Its answer; under the group's lock. */
void inccl_control_resumed(struct inccl_group *group);
void inccl_control_not_resumed(struct inccl_group *group, int error, const char *why);

/* comm.c */
int inccl_comm_check_opts(struct inccl_communicator_opts *opts, struct inc_err *err);
/* The group's communicator number index, with options that were checked. An error has been told to
 * the other ranks. */
int inccl_comm_create(struct inccl_group *group, long long index,
		      const struct inccl_communicator_opts *opts, struct inccl_limit *limit,
		      struct inccl_communicator **comm, struct inc_err *err);
/* Takes the communicator's lock: what the controller says. The first error wins. */
void inccl_comm_fail(struct inccl_communicator *comm, int error, int rank, const char *text);
/* "native" or "fixed": how floats that are reduced go over the wire. */
const char *inccl_comm_floats(const struct inccl_communicator *comm);

/* progress.c; all under the communicator's lock */
void inccl_comm_fail_locked(struct inccl_communicator *comm, int error, int rank, const char *text);
/* The only place where comm->report changes. */
void inccl_comm_report(struct inccl_communicator *comm, enum inccl_report_event event);
/* Takes in, posts, sends, finishes. Never blocks. */
void inccl_comm_advance(struct inccl_communicator *comm);
/* The same for a request that is new: sends first. */
void inccl_comm_begin(struct inccl_communicator *comm);
/* A user's call ends: sets the alarm, so that the thread sees in time to what it leaves behind. */
void inccl_comm_leave(struct inccl_communicator *comm);
/* Drives the endpoint until the request is done or the deadline; false: not done. cancel_state
 * is the caller's, valid while it sleeps here. */
bool inccl_comm_drive(struct inccl_communicator *comm, struct inccl_request *req,
		      uint64_t deadline_ns, int cancel_state);
/* A user's call begins: whoever sleeps with an old view of the timers is woken. */
void inccl_comm_enter(struct inccl_communicator *comm);
/* Before the end: until the peer has kept all that was posted and been told of all results that
 * somebody waited for, or the deadline. Fails with ECANCELED where the others wait for something
 * that does not come any more. */
void inccl_comm_settle(struct inccl_communicator *comm, uint64_t deadline_ns);
void *inccl_comm_thread(void *comm);

/* group.c */
int inccl_group_check_limits(const struct inccl_group_opts *opts, struct inc_err *err);
/* Without a connection. The group becomes an owner of the log where it succeeds. */
int inccl_group_new(const char *job, int rank, int world_size, struct inccl_log *log,
		    struct inccl_group **group);
void inccl_group_free(struct inccl_group *group);
/* Leaves a group that has no communicators, and frees it. Its log may have other owners. */
void inccl_group_leave(struct inccl_group *group);
/* The same in a forked child: nothing is said, and only what is the child's own is given back. */
void inccl_group_abandon(struct inccl_group *group);
/* Says G, to which the caller has put the addresses and what the group is made of, and waits until
 * all ranks have; the answer says which rank of how many this is. */
int inccl_group_join(struct inccl_group *group, struct inc_msg_join *msg, struct inccl_limit *limit,
		     struct inc_err *err);
/* What joining (G) and resume both say of this rank; not its addresses. */
void inccl_group_introduce(const struct inccl_group *group, struct inc_msg_join *msg);

/* collective.c */
void inccl_request_release(struct inccl_request *req);
/* Its memory alone; nothing knows of it any more. */
void inccl_request_free(struct inccl_request *req);

#endif
