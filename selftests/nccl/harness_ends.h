/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender and a receiver of the plugin in one thread. Simulated queue pairs, one per epoch, and a
 * control channel join them. The harness also plays the part of NCCL at both ends, and causes
 * faults. It is plain memory, so a copy of it is an independent harness. It lists the events that
 * are possible, and one event is one step.
 */
#ifndef SELFTESTS_NCCL_HARNESS_ENDS_H
#define SELFTESTS_NCCL_HARNESS_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/receiver.h"
#include "hostlib/nccl/sender.h"

/* The exhaustive search copies and compares millions of harnesses, so they are small. Random walks
 * use a large one. */
#ifndef ENDS_LARGE
#define ENDS_MESSAGES 8u
#define ENDS_EPOCHS   4u
#define ENDS_QUEUE    8u
#else
#define ENDS_MESSAGES 4096u
#define ENDS_EPOCHS   64u
#define ENDS_QUEUE    512u
#endif
#define ENDS_MSGS 4u /* messages in flight in one direction; a further one is lost */

/* The parameters of a test: the messages that NCCL sends and receives, and the faults that may
 * occur. */
struct ends_shape {
	unsigned int messages; /* total number of messages that are sent and received */
	/* greatest number of receives in an irecv; the last irecv has the rest */
	unsigned int group;
	unsigned int tags;    /* slot i has tag i % tags */
	unsigned int window;  /* greatest number of irecvs in flight */
	uint32_t start;       /* sequence number of the first message */
	unsigned int faults;  /* total number of faults, of any kind */
	unsigned int repairs; /* number of paths that may come up again */
	/* number of epochs beyond epoch 0; if not 0, the standby path is up from the start */
	unsigned int extra_epochs;
	bool dual;
	/* faults that end the comm are possible: the control channel is lost, or timers expire too
	 * early */
	bool fatal;
	/* the ends get to know the first standby path at any time instead of at the start */
	bool late_path;
	bool triggers; /* both ends may also leave a healthy path without a fault */
};

enum ends_kind { ENDS_PAYLOAD, ENDS_SLOT, ENDS_PROBE };

struct ends_item {
	uint8_t kind;
	uint8_t zero;     /* states are compared byte by byte, so there is no unnamed padding */
	uint16_t index;   /* request to which a payload belongs, or index of a slot in the ring */
	uint16_t message; /* of a payload: number of its message */
	uint16_t zeros;
	uint32_t key; /* of a payload: epoch of the description that it uses, plus 1 */
	uint32_t more_zeros;
	struct ha_slot slot; /* of a description: its slot; of a payload: its destination */
};

struct ends_completion {
	uint64_t wr_id;
	uint32_t sequence, bytes;
	bool ok;
	uint8_t zeros[7];
};

struct ends_items {
	unsigned int n;
	struct ends_item item[ENDS_QUEUE];
};

struct ends_completions {
	unsigned int n;
	struct ends_completion item[ENDS_QUEUE];
};

/* One direction of a queue pair: items on the wire, items without an acknowledgement, and the
 * sending end's completions that it has not polled. */
struct ends_way {
	bool cut;
	/* the end that sends in this direction has its queue pair in ERR, so it neither sends nor
	 * receives */
	bool fenced;
	struct ends_items wire;
	struct ends_completions unacked, done;
};

struct ends_pair {
	/* the two directions: from the sender, and from the receiver */
	struct ends_way there, back;
	struct ends_completions landed; /* completions that the receiver has not polled yet */
};

struct ends_msgs {
	unsigned int n;
	struct ha_control_msg msg[ENDS_MSGS];
};

struct ends {
	struct ends_shape shape;
	uint64_t now_ns;
	struct ha_sender sender;
	struct ha_receiver receiver;
	_Alignas(64) struct ha_slot_wire ring[HA_SLOTS];
	struct ends_pair pair[ENDS_EPOCHS];
	struct ends_msgs to_receiver, to_sender;
	bool control_cut;
	uint32_t up;                       /* the newest epoch whose path is up */
	bool sender_heard, receiver_heard; /* whether each end has the newest path */
	unsigned int faults, repairs, causes;
	bool early; /* a timer expired before its time */
	/* the part of NCCL, which the harness plays */
	unsigned int sent, received; /* counts of posted requests */
	uint16_t message[HA_REQUESTS];
	uint16_t sends_done, receives_done;
	uint8_t in_memory[ENDS_MESSAGES / 8], got[ENDS_MESSAGES / 8], acked[ENDS_MESSAGES / 8];
	const char *broken; /* the name of a property that was violated */
};

#define ENDS_HEARTBEAT_NS 100u
#define ENDS_RTO_NS       300u

/* Kinds of events. CUT_THERE and all kinds after it are faults. */
#define ENDS_KINDS(_)        \
	_(POST_SEND)         \
	_(POST_RECV)         \
	_(DATA_LANDS)        \
	_(SLOT_LANDS)        \
	_(SENDER_POLLS)      \
	_(RECEIVER_POLLS)    \
	_(RECEIVER_LANDED)   \
	_(DRAINED)           \
	_(SEND_FAILS)        \
	_(DESCRIBE_FAILS)    \
	_(LOOK)              \
	_(SENDER_HEARS)      \
	_(RECEIVER_HEARS)    \
	_(SENDER_PATH)       \
	_(RECEIVER_PATH)     \
	_(CLOSE_SEND)        \
	_(CLOSE_RECV)        \
	_(TICK)              \
	_(REPAIR)            \
	_(CUT_THERE)         \
	_(CUT_BACK)          \
	_(LOSE_THERE)        \
	_(LOSE_BACK)         \
	_(SENDER_TRIGGER)    \
	_(RECEIVER_TRIGGER)  \
	_(LOSE_TO_SENDER)    \
	_(LOSE_TO_RECEIVER)  \
	_(AGAIN_TO_SENDER)   \
	_(AGAIN_TO_RECEIVER) \
	_(CUT_CONTROL)       \
	_(SENDER_EARLY)      \
	_(RECEIVER_EARLY)

enum ends_event_kind {
#define KIND(NAME) NAME,
	ENDS_KINDS(KIND)
#undef KIND
};

struct ends_event {
	uint8_t kind;
	uint8_t arg;
};

#define ENDS_EVENTS 96u

void ends_init(struct ends *b, const struct ends_shape *shape);
/* Lists the events that are possible now. Sets *quiet if all of them are faults, so that time may
 * pass. */
unsigned int ends_events(struct ends *b, struct ends_event events[ENDS_EVENTS], bool *quiet);
bool ends_is_fault(struct ends_event event);
void ends_step(struct ends *b, struct ends_event event);
/* Checks the properties that must hold when no event is possible. */
void ends_check_end(struct ends *b);
bool ends_are_over(const struct ends *b);
void ends_print(const struct ends *b, struct ends_event event);
/* Brings equivalent states into the same form, in which instants are replaced by ages. */
void ends_normalize(struct ends *b);

/* Functions that harness_ends.c and harness_ends_events.c share. */
void ends_must(struct ends *b, bool holds, const char *property);
unsigned int ends_slot_of(const struct ends *b, unsigned int message);
uint32_t ends_tag_of(const struct ends *b, unsigned int slot);

#endif
