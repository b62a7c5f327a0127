/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libinccl: collectives that a switch computes on the way.
 *
 * A *group* is the set of processes of a job, known to a controller by the job's name;
 * every process has a rank in it. A *communicator* is one RoCEv2 connection from each
 * member to its switch; collectives run on it, in the same order on every rank. Of a group
 * others can be made: parts, and what is left of it after a loss, or more of it.
 *
 *	struct inccl_group *group;
 *	struct inccl_communicator *comm;
 *
 *	err = inccl_group_create(NULL, &group);		(all from the environment)
 *	err = inccl_communicator_create(group, NULL, &comm);
 *	err = inccl_allreduce(comm, mine, sum, count, INCCL_INT32, INCCL_SUM, NULL);
 *	inccl_communicator_destroy(comm);
 *	inccl_group_destroy(group);
 *
 * Conventions
 *
 * Every function that can fail returns 0 or a negative errno. Option structs begin with
 * their own size, which the caller sets (INCCL_OPTS does it): fields that an older caller
 * does not know are taken as zero, and zero always means "the default". Bytes beyond what
 * this library knows must be zero, else -E2BIG. Where they have error, it gets a text of error_size
 * bytes at most, the final 0 included. Times are milliseconds, INT32_MAX at most.
 *
 * Nothing waits for ever: creation is bounded by its timeouts, an operation by the
 * communicator's timeout_ms without any progress. An error of a communicator is final:
 * every pending and later operation on it returns it, inccl_communicator_error() tells
 * the story and inccl_communicator_failed_rank() who, where it is known. A rank that fails by
 * itself (its device, a packet that has become too long, its options) is known to the others at
 * once: they get its errno, and the story names it.
 *
 * Without its controller a group is over: nothing new can begin in it, ever. What runs goes on;
 * until the controller is found again, for which the library keeps looking, nobody tells of dead
 * ranks, so operations fail after 5 s without any progress.
 *
 * Threads: any thread may call anything on any object, except that an object must not be
 * destroyed while another thread is still inside a call on it. Collectives started by
 * several threads on one communicator must be ordered by the caller, because all
 * ranks have to start them in the same order. A communicator
 * has one thread of its own, which serves the connection while the caller is not
 * waiting; a group has one that listens to the controller. Communicators whose transport is verbs
 * share one more in the process, while there are any of them that keep registrations for reuse: it
 * watches for memory that goes away. That is all the global state there is. All these threads
 * block all signals.
 *
 * The library's threads must run while the program computes: a rank whose thread does not answer
 * the controller for 3 s is declared dead, and its group ends. So they do not inherit what a
 * caller's thread has chosen for itself. They are not realtime, even where the caller is
 * SCHED_FIFO or SCHED_RR. They may run on the CPUs that the process had when the library was
 * loaded, so taskset, a launcher's binding or a cpuset holds for them, and a pinned thread's own
 * mask does not. Where realtime threads never sleep on all of these CPUs, the kernel's throttling
 * of realtime must be on (kernel.sched_rt_runtime_us is not -1), as it is by default. The kernel
 * lets a SCHED_DEADLINE thread create no thread, so such a thread cannot create a group or a
 * communicator (-EAGAIN). It may start collectives and wait for them. Each thread
 * of the library has a stack of 1 MiB, whatever RLIMIT_STACK says; a log callback may run on it.
 *
 * Descriptors that the library keeps are 3 or above, so what is printed in a program that has
 * closed its standard streams does not go into a connection. The descriptor by which libibverbs
 * has opened a device is the exception: it may be below, and accepts no text.
 *
 * A thread that calls the library needs a stack of INCCL_MIN_STACK_BYTES, and what its own log
 * callback needs.
 *
 * Fork: a group and its communicators belong to the process that made them. In a child of that
 * process inccl_communicator_destroy() and inccl_group_destroy() free memory, close descriptors
 * and return 0, and nothing is sent: the parent's job goes on. What a TLS session, a stage of data
 * or libibverbs keeps is left until the child ends. Every other call on these objects returns
 * -ECHILD (inccl_communicator_failed_rank(): -1), and the texts of errors say why. A child may
 * make groups of its own. While it holds the parent's descriptors, the parent's death is noticed
 * by the controller's timeout alone; a child that executes another program holds none.
 *
 * The caller may use OpenSSL itself, on the same threads. A call leaves that thread's queue of
 * errors as it was, and reads no error of the caller's. Marks in the queue (ERR_set_mark()) may get
 * lost.
 *
 * Environment, read where an option is left at its default:
 *	INCCL_CONTROLLER	host or host:port (52200) of the controller
 *	INCCL_KEY		file with the key that proves to the controller who this is
 *	INCCL_TLS_CERT, INCCL_TLS_CERT_KEY, INCCL_TLS_CA
 *				or a certificate, its private key and the CA, PEM files
 *	INCCL_JOB		name of the job, the same on every rank
 *	INCCL_RANK, INCCL_WORLD_SIZE
 *	INCCL_ADDR, INCCL_IFNAME	own address, or the interface that has it
 *	INCCL_TRANSPORT		auto, soft or verbs
 *	INCCL_VERBS		settings of the verbs transport: "timeout=16,device=mlx5_0"
 *	INCCL_START_PSN		first PSN of every communicator (for tests; else random)
 *	INCCL_DEBUG		1: what the library decides goes to stderr
 * and after these the launchers' variables: OMPI_COMM_WORLD_RANK/SIZE, PMI_RANK/SIZE,
 * SLURM_PROCID/SLURM_NTASKS, RANK/WORLD_SIZE for the rank; PMIX_NAMESPACE, SLURM_JOB_ID
 * for the job; MASTER_ADDR for the controller.
 */
#ifndef INCCL_H
#define INCCL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define INCCL_VERSION_MAJOR 0
#define INCCL_VERSION_MINOR 2
#define INCCL_VERSION_PATCH 0

#define INCCL_MIN_STACK_BYTES (64 << 10)

struct inccl_group;
struct inccl_communicator;
struct inccl_request;

/* Declares an option struct with its size set and the rest zero or as given:
 *	INCCL_OPTS(inccl_group_opts, opts, .job = "train-7");	*/
#define INCCL_OPTS(type, name, ...) struct type name = {.sz = sizeof(struct type), ##__VA_ARGS__}

/*
 * Group
 */

struct inccl_group_opts {
	size_t sz;       /* sizeof(struct inccl_group_opts) */
	const char *job; /* 1 to 64 printable ASCII characters without blanks; "default" if nothing
			  * says */
	const char *controller; /* "host" or "host:port" */
	int rank;               /* 0..world_size-1; read only where world_size is set */
	int world_size;         /* 0: rank and world size come from the environment */
	const char *address;   /* own IPv4 address on the fabric; NULL: all that the machine has are
				* offered, and the controller takes the one it knows */
	const char *interface; /* or the interface that has it */
	unsigned int connect_timeout_ms; /* looking up the controller's name and reaching it, by
					  * whichever of the name's addresses answers first: 5000 */
	unsigned int create_timeout_ms;  /* until all ranks are there: 70000 (the controller's own
					  * limit, 60 s, then names the missing ranks) */
	char *error; /* where to put one line that explains a failure of the creation */
	size_t error_size;
	/* What the library decides and why, one line at a time without newline, from any thread
	 * of the library or inside a call of yours. It may ask about errors, ranks and
	 * statistics, but neither destroy anything nor wait. It may run while another thread
	 * of yours destroys a communicator: a callback that asks about one has to see to it itself
	 * (by a lock of its own, say) that the communicator is still there. None runs any more once
	 * inccl_group_destroy() has returned 0, even where a split or a duplicate of the group's
	 * communicators lives on: its lines go nowhere then. NULL: nowhere (INCCL_DEBUG=1: stderr).
	 */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
	/* 1: a job that runs grows by this rank (inccl_group_grow()); world_size is the new one,
	 * rank the old one or more. */
	int join;
};

/*
 * Joins the group and waits until all its ranks have. opts may be NULL.
 * -EINVAL: an option or variable is wrong or missing; -ETIMEDOUT, -ECONNREFUSED, ...: no
 * controller; -EHOSTUNREACH: no such name; -EAGAIN: no name server answers; -EPROTO: it does not
 * speak our protocol; else what the controller says: -EEXIST: a rank taken; -EINVAL: a different
 * world size, or one larger than the topology's switches can take; -EADDRNOTAVAIL: no address of
 * this machine is in the topology; -ETIMEDOUT: ranks missing; -EPROTONOSUPPORT: it speaks another
 * version; with join -ENOENT: no such job runs. A group that was left can be joined again at once.
 * On success *group belongs to the caller.
 */
int inccl_group_create(const struct inccl_group_opts *opts, struct inccl_group **group);

/* Leaves the group. -EBUSY while it has communicators. NULL is fine. */
int inccl_group_destroy(struct inccl_group *group);

/*
 * Groups of their own that are made of another one: its ranks call the same, one such call after
 * the other (splits and duplicates of its communicators are such calls, too), and get a new group
 * of the same job with communicators of its own. The old one stays the caller's to destroy, and if
 * it was running it runs on. Of opts, which may be NULL, connect_timeout_ms, create_timeout_ms,
 * error and log are read; the rest must be 0. A group without a log of its own calls the old
 * group's callback, until the new group is destroyed.
 *
 * -EINVAL: an option or world size is wrong, or the ranks have not asked for the same; -ETIMEDOUT:
 * ranks missing; else what a rank could not come for, as inccl_group_create(), or why the old group
 * has failed. One that fails does so for all of its ranks.
 */

/*
 * Those that are left: every rank of the group that has neither left nor been lost must call it.
 * The ranks of *out are in the old order. The group may have failed, but not by its controller's
 * loss; a rank that is lost meanwhile is left out, too. It goes before all else: who waits for
 * something else to be made of the group gets -ECANCELED.
 */
int inccl_group_shrink(struct inccl_group *group, const struct inccl_group_opts *opts,
		       struct inccl_group **out);

/*
 * More: every rank of the group must call it with the new world_size, and keeps its rank. The ranks
 * from the old size on are processes that call inccl_group_create() with join, before or after.
 * -EBUSY: another group of the job grows.
 */
int inccl_group_grow(struct inccl_group *group, int world_size, const struct inccl_group_opts *opts,
		     struct inccl_group **out);

int inccl_group_rank(const struct inccl_group *group);
int inccl_group_size(const struct inccl_group *group);

/* Why the group has failed, or NULL while it has not. Lives as long as the group. */
const char *inccl_group_error(struct inccl_group *group);

/*
 * Communicator
 */

enum inccl_transport_kind {
	INCCL_TRANSPORT_AUTO = 0,  /* a usable RDMA port, else soft */
	INCCL_TRANSPORT_SOFT = 1,  /* RC endpoint of the library's own on a UDP socket */
	INCCL_TRANSPORT_VERBS = 2, /* libibverbs */
};

/* How data moves, per collective. The switch serves ranks with different modes in one. WRITE is
 * refused (-EOPNOTSUPP) where a switch of the tree is in termination mode: it has no memory to
 * name. */
enum inccl_mode {
	INCCL_MODE_DEFAULT = 0,  /* sendrecv */
	INCCL_MODE_SENDRECV = 1, /* RDMA SEND into receives posted ahead */
	INCCL_MODE_WRITE = 2,    /* RDMA WRITE with immediate; results are written into recv */
};

/* Of elements on the wire. Buffers are in the machine's order whatever it is. */
enum inccl_byte_order {
	INCCL_ORDER_LITTLE = 0,
	INCCL_ORDER_NETWORK = 1, /* big endian */
};

struct inccl_communicator_opts {
	size_t sz;
	enum inccl_transport_kind transport;
	/* Largest packet payload in bytes: 256, 512, 1024 or 2048. Default: what the
	 * interface's MTU carries, and its routes where they have an MTU of their own. The
	 * smallest of all ranks counts. */
	unsigned int payload;
	/* Packets per message, the same on every rank: 1 to 1024, and 1 MiB together, where all
	 * switches are in termination mode, else 1 to 64; fewer where a switch takes fewer.
	 * Default: what suits them, which is 64 KiB in termination mode, else 1 packet. */
	unsigned int message_packets;
	/* Messages under way at most; packets where message_packets is the default. window *
	 * message_packets is at most 4096. Fewer where a switch in termination mode holds fewer, or
	 * another rank can. Default: 256 packets, where all switches are in termination mode 512 of
	 * the soft transport; fewer where the socket's receive buffer holds fewer. */
	unsigned int window;
	/* Operations fail when nothing has moved for so long. Default 30000. */
	unsigned int timeout_ms;
	/* Until all ranks have their connection. Default 70000. */
	unsigned int create_timeout_ms;
	char *error; /* as in struct inccl_group_opts */
	size_t error_size;
	/* Settings of the verbs transport, "key=value,...": wins over INCCL_VERBS, whose form it
	 * has. docs/verbs.md lists them. */
	const char *verbs;
	/* The same on every rank. Where it is not the machine's, each collective converts, packet
	 * by packet, in memory of the library's own: a window of it, for all collectives. */
	enum inccl_byte_order byte_order;
};

/*
 * Creates the next communicator of the group: every rank must do so, in the same
 * order. opts may be NULL. One that fails counts: it fails for all ranks, each of which gets the
 * error of the first to fail, and the next call is for the next one. -EINVAL for options out of
 * range, -EOPNOTSUPP for a transport that is not usable here, -ETIMEDOUT: ranks missing,
 * -EHOSTUNREACH: a switch is not connected, -E2BIG: it would not fit an empty one, -ENOSPC: it is
 * full, -EDQUOT: the job has its share, -ECONNRESET: a rank was lost, -ESHUTDOWN: one has left the
 * group or the controller has restarted; else as inccl_group_create(). On success *comm belongs to
 * the caller.
 */
int inccl_communicator_create(struct inccl_group *group, const struct inccl_communicator_opts *opts,
			      struct inccl_communicator **comm);

/*
 * Communicators of some or all of a communicator's ranks, as MPI has them. Every rank of comm must
 * call the same, one such call after the other (see "Groups of their own"); comm goes on, and may
 * be destroyed before them. opts NULL: as comm was asked for, by its transport. Errors are those of
 * inccl_group_shrink() and of inccl_communicator_create(), and comm's own.
 *
 * Who this rank is there, inccl_communicator_info() tells; failures name ranks of the new one.
 */

/* No group: *out is NULL. Any negative color says so. */
#define INCCL_UNDEFINED (-1)

/*
 * One for each color: its ranks are those that have called with it, in the order of their keys, of
 * equal ones in that of comm. 0 to INT32_MAX, or INCCL_UNDEFINED.
 */
int inccl_communicator_split(struct inccl_communicator *comm, int color, int key,
			     const struct inccl_communicator_opts *opts,
			     struct inccl_communicator **out);

/* The same ranks. */
int inccl_communicator_duplicate(struct inccl_communicator *comm,
				 const struct inccl_communicator_opts *opts,
				 struct inccl_communicator **out);

/*
 * Destroys the communicator, without waiting for the other ranks: those that are still in
 * their last collective finish it. Requests that have not been collected are gone with it; where
 * what this rank gives to one of them has not all been sent, or does not reach the switch within
 * 200 ms, the others cannot finish it: they get -ECANCELED.
 * NULL is fine. Always frees; returns 0, or the error that the communicator had ended with.
 */
int inccl_communicator_destroy(struct inccl_communicator *comm);

/* Why the communicator has failed, or NULL while it has not. Lives as long as it. */
const char *inccl_communicator_error(struct inccl_communicator *comm);
/* The rank that caused the failure, -1: none or not known. */
int inccl_communicator_failed_rank(struct inccl_communicator *comm);

/*
 * What a communicator counts from its creation on: _(name, unit, what). "soft": the soft transport
 * alone; a device that answers by itself does not tell.
 */
#define INCCL_STATISTICS(_)                                                                     \
	_(packets_sent, "packets", "contributions, each counted once")                          \
	_(packets_resent, "packets", "contributions sent again (soft)")                         \
	_(results, "packets", "results taken")                                                  \
	_(duplicates, "packets", "results that were there already (soft)")                      \
	_(reordered, "packets", "results that came after a later one (soft)")                   \
	_(bad_packets, "packets", "dropped: ICRC, length, unknown sender, out of range (soft)") \
	_(acks_sent, "packets", "ACKs of results (soft)")                                       \
	_(acks_received, "packets",                                                             \
	  "ACKs of contributions; with verbs, of sends that asked for it")                      \
	_(naks_sent, "packets", "NAKs of results (soft)")                                       \
	_(naks_received, "packets", "NAKs of contributions (soft)")                             \
	_(rnrs_received, "packets", "requests to wait, RNR NAKs (soft)")                        \
	_(timeouts, "times", "the retransmission timer ran out (soft)")                         \
	_(send_calls, "calls", "to the kernel to send, or posts to the device")                 \
	_(recv_calls, "calls", "to the kernel to receive, or looks at the completion queue")

/* What came out of creation, and the statistics. */
struct inccl_communicator_info {
	size_t sz; /* set by the caller */
	int rank;
	int world_size;
	unsigned int payload;
	unsigned int message_packets;
	unsigned int window;   /* messages */
	unsigned int slots;    /* of the switch, chunks */
	unsigned int number;   /* the controller's number of this communicator */
	const char *transport; /* "soft", "verbs" */
	const char *device;    /* what it runs on: "10.77.0.1:40001", "rxe0/1" */
	const char *peer;      /* "s0 (10.77.0.254)" */
#define INCCL_STATISTIC_(name, unit, what) uint64_t name;
	INCCL_STATISTICS(INCCL_STATISTIC_)
#undef INCCL_STATISTIC_
	/* Of a sum of floats that go as integers (else 0): each rank's element is rounded to a unit
	 * of 2^-float_bits of what all elements of its block, on all ranks, are below. */
	unsigned int float_bits;
	const char *tree; /* "s0 > r of 3 switches": those from this rank's to the root, and how
			   * many there are in all; incctl tree draws them */
	/* What they do: "passthrough", "termination", or "mixed" (docs/protocol.md). */
	const char *mode;
	const char *floats; /* how they are reduced: "native", as they are, or "fixed", by integers;
			     * see enum inccl_dtype */
};
/* Fills as much of info as its sz says; what this library does not know becomes 0. The texts live
 * as long as the communicator. -EINVAL: a NULL, or no sz. */
int inccl_communicator_info(struct inccl_communicator *comm, struct inccl_communicator_info *info);

/*
 * Collectives
 */

enum inccl_collective {
	INCCL_ALLREDUCE = 0,
	INCCL_REDUCE = 1,
	INCCL_BROADCAST = 2,
	INCCL_BARRIER = 3,
	INCCL_REDUCE_SCATTER = 4,
	INCCL_ALL_GATHER = 5,
};

/* Each of them goes with each integer type; with floats SUM, AVG, MIN and MAX do, and PROD where
 * switches add floats as they are. */
enum inccl_op {
	INCCL_SUM = 0, /* modulo 2^bits: what does not fit wraps, without an error */
	INCCL_MIN = 1,
	INCCL_MAX = 2,
	INCCL_PROD = 3, /* modulo 2^bits, as the sum */
	INCCL_AND = 4,  /* bit by bit, as the two below */
	INCCL_OR = 5,
	INCCL_XOR = 6,
	/* The sum, divided by the world size on each rank that gets it, towards zero; of floats to
	 * nearest. */
	INCCL_AVG = 7,
};

/* Two's complement where there is a sign, in the machine's byte order.
 *
 * Where all switches of the tree are in termination mode, they add floats as they are (floats of
 * struct inccl_communicator_info is "native"): float32 as IEEE 754 has it, in the order of the
 * ranks at each switch; the halves in float32, rounded to their type once at each switch; the same
 * bits on every rank and in every run. MIN and MAX are exact, and a NaN wins.
 *
 * Else ("fixed") switches know integers only. Floats that are reduced travel as such, made on the
 * ranks: MIN and MAX are exact, and a NaN wins. SUM and AVG are fixed point with an exponent for
 * each block of elements, the same bits on every rank whatever the order of arrival. With largest
 * for the largest finite |element| of the block on any rank (2^-126 at least), and float_bits of
 * struct inccl_communicator_info (30 with one rank, 28 with four):
 *
 *	|result - exact sum| <= ranks * 2^-float_bits * largest + ulp(result) / 2
 *
 * Infinities and NaN come out as IEEE 754 adds them. An element of a SUM travels as 4 bytes,
 * whatever its type. However many they are, the library needs no more memory than a window of
 * packets (window * message_packets * payload of struct inccl_communicator_info, once for each
 * communicator) and for each SUM under way 1.3 MiB at most, 273 KiB with the default float_block.
 * docs/floats.md has it all. Collectives that do not compute carry floats as they are. */
enum inccl_dtype {
	INCCL_INT32 = 0,
	INCCL_UINT32 = 1,
	INCCL_INT64 = 2,
	INCCL_UINT64 = 3,
	INCCL_INT16 = 4,
	INCCL_UINT16 = 5,
	INCCL_INT8 = 6,
	INCCL_UINT8 = 7,
	INCCL_FLOAT32 = 8,
	INCCL_FLOAT16 = 9, /* of IEEE 754 */
	INCCL_BFLOAT16 = 10,
};

/*
 * How one collective is carried out; NULL means all defaults. It may differ between collectives
 * and, but for what is said to be the same on every rank, between ranks.
 */
struct inccl_collective_opts {
	size_t sz;
	enum inccl_mode mode;
	/* This one fails when nothing has moved for so long, and the communicator with it.
	 * Default: the communicator's timeout_ms. */
	unsigned int timeout_ms;
	char *error; /* where to put one line that says why it is refused at its start */
	size_t error_size;
	/* For SUM and AVG of floats that go as integers, and read for nothing else (where they go
	 * as they are, the log says so); both the same on every rank, which
	 * is checked: where they differ, or the floats' type or the operator does, the
	 * communicator ends with -EREMOTEIO on every rank. */
	/* Elements that share an exponent, counted from the first one of send. Default 64. */
	unsigned int float_block;
	/* Where not NULL: each element of each rank is below 2^*float_exponent in size (-126 to
	 * 128). So the ranks need not ask each other for the largest ones first; in the bound,
	 * 2^(*float_exponent - 1) takes the place of the largest element. A rank with an element
	 * that is not below it, or infinite or NaN, sends nothing: there the call and the
	 * communicator fail with -ERANGE, and with that the others. */
	const int *float_exponent;
};

/*
 * Each collective has two calls. NAME(...) returns when the result is there. NAME_start(...,
 * &request) does not wait; what it has begun must be collected by inccl_test() or inccl_wait().
 * Collectives of one communicator are carried out in the order of their start, which must be the
 * same on every rank; several may be under way.
 *
 * send		what this rank gives, aligned to the elements' size; not changed by the library,
 *		and to be left alone by the caller until the end
 * recv		what it gets, aligned likewise; must not overlap send but in place, as each call
 *		says. After an error it holds anything.
 * count	elements, the same on every rank; 0 is fine: nothing is sent
 * root		a rank, the same on every rank
 * opts		may be NULL
 *
 * A buffer that is not this rank's affair may be NULL, and nobody looks at it.
 *
 * They return 0; -EINVAL: a NULL where there is something to give or get, buffers that overlap
 * or are not aligned, a root that is no rank, more elements than memory has bytes, options that
 * are no struct; -E2BIG: options that this library does not know; -EOPNOTSUPP: a type, operator
 * or mode that it does not offer, or not with these switches, or an operator that floats do not
 * have; -ENOMEM, -EFAULT:
 * memory that cannot be had or registered; or the communicator's error, which -ERANGE is, too
 * (float_exponent). Only the last is final: of what is refused at the start nothing was sent.
 * Why a call was refused, the log says and opts->error.
 */

/*
 * The operator over all ranks' elements, on every rank.
 * send, recv: count elements. In place: recv is send.
 */
int inccl_allreduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, enum inccl_op op,
		    const struct inccl_collective_opts *opts);
int inccl_allreduce_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, enum inccl_op op,
			  const struct inccl_collective_opts *opts, struct inccl_request **request);

/*
 * The operator over all ranks' elements, on the root.
 * send: count elements; recv, on the root alone: as many. In place: recv is send.
 */
int inccl_reduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		 enum inccl_dtype dtype, enum inccl_op op, int root,
		 const struct inccl_collective_opts *opts);
int inccl_reduce_start(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		       enum inccl_dtype dtype, enum inccl_op op, int root,
		       const struct inccl_collective_opts *opts, struct inccl_request **request);

/*
 * The root's elements, on every rank, the root's own recv too.
 * send, on the root alone: count elements; recv: as many. In place: recv is send.
 */
int inccl_broadcast(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, int root, const struct inccl_collective_opts *opts);
int inccl_broadcast_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, int root,
			  const struct inccl_collective_opts *opts, struct inccl_request **request);

/*
 * The operator over all ranks' elements, of which rank r has block r.
 * send: world_size blocks of count elements; recv: one. In place: recv is send + rank * count, and
 * the other blocks of send stay as they are.
 */
int inccl_reduce_scatter(struct inccl_communicator *comm, const void *send, void *recv,
			 size_t count, enum inccl_dtype dtype, enum inccl_op op,
			 const struct inccl_collective_opts *opts);
int inccl_reduce_scatter_start(struct inccl_communicator *comm, const void *send, void *recv,
			       size_t count, enum inccl_dtype dtype, enum inccl_op op,
			       const struct inccl_collective_opts *opts,
			       struct inccl_request **request);

/*
 * All ranks' elements, on every rank: block r is rank r's.
 * send: count elements; recv: world_size blocks of as many. In place: send is recv + rank * count.
 */
int inccl_all_gather(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		     enum inccl_dtype dtype, const struct inccl_collective_opts *opts);
int inccl_all_gather_start(struct inccl_communicator *comm, const void *send, void *recv,
			   size_t count, enum inccl_dtype dtype,
			   const struct inccl_collective_opts *opts,
			   struct inccl_request **request);

/* Until every rank is there. */
int inccl_barrier(struct inccl_communicator *comm, const struct inccl_collective_opts *opts);
int inccl_barrier_start(struct inccl_communicator *comm, const struct inccl_collective_opts *opts,
			struct inccl_request **request);

/* inccl_allreduce() of INCCL_INT32 by INCCL_SUM, by the names and in the order of the original
 * documents: the mode is in the name. */
int inccl_allreduce_sendrecv(struct inccl_communicator *comm, const int32_t *send, size_t count,
			     int32_t *recv);
int inccl_allreduce_write(struct inccl_communicator *comm, const int32_t *send, size_t count,
			  int32_t *recv);

/*
 * -EAGAIN: not finished. Anything else is the request's result, 0 or an error, and the
 * request is gone. inccl_test() does not block; inccl_wait() blocks for up to timeout_ms, or
 * with -1 until the end, which the timeout of the collective bounds. -EINVAL also for a NULL.
 *
 * inccl_wait() is the only cancellation point of the library (pthread_cancel()), while it sleeps:
 * the request is then still there, and another thread must collect it.
 */
int inccl_test(struct inccl_request *request);
int inccl_wait(struct inccl_request *request, int timeout_ms);

/*
 * Words
 */

/* Size of one element in bytes, 0 for a type that the library does not know. */
size_t inccl_dtype_size(enum inccl_dtype dtype);
/* "allreduce", "sum", "int32", ...; NULL for an unknown value. The strings are static. */
const char *inccl_collective_name(enum inccl_collective collective);
const char *inccl_op_name(enum inccl_op op);
const char *inccl_dtype_name(enum inccl_dtype dtype);
/* And back: 0, or -EINVAL for an unknown name. */
int inccl_collective_parse(const char *name, enum inccl_collective *collective);
int inccl_op_parse(const char *name, enum inccl_op *op);
int inccl_dtype_parse(const char *name, enum inccl_dtype *dtype);
/* What a return value of this library means, in one static English line. */
const char *inccl_strerror(int err);
/* "0.2.0", of the library that runs. */
const char *inccl_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
