/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender and a receiver of the plugin in one thread. Simulated queue pairs, one per epoch, and a
 * control channel join them. The world also plays the part of NCCL at both ends, and causes faults.
 * It is plain memory, so a copy of it is an independent world. It lists the events that are
 * possible, and one event is one step.
 */
#ifndef NCCL_WORLD_H
#define NCCL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/receiver.h"
#include "hostlib/nccl/sender.h"

/* The exhaustive search copies and compares millions of worlds, so its worlds are small. Random
 * walks use a large world. */
#ifndef WORLD_LARGE
#define WORLD_MESSAGES 8u
#define WORLD_EPOCHS   4u
#define WORLD_QUEUE    8u
#else
#define WORLD_MESSAGES 4096u
#define WORLD_EPOCHS   64u
#define WORLD_QUEUE    512u
#endif
#define WORLD_MSGS 4u /* messages in flight in one direction; a further one is lost */

/* The parameters of a test: the messages that NCCL sends and receives, and the faults that may
 * occur. */
struct world_shape {
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

enum world_kind { WORLD_PAYLOAD, WORLD_SLOT, WORLD_PROBE };

struct world_item {
	uint8_t kind;
	uint16_t index;   /* request to which a payload belongs, or index of a slot in the ring */
	uint16_t message; /* of a payload: number of its message */
	uint32_t key;     /* of a payload: epoch of the description that it uses, plus 1 */
	struct ha_slot slot; /* of a description: its slot; of a payload: its destination */
};

struct world_completion {
	uint64_t wr_id;
	uint32_t sequence, bytes;
	bool ok;
};

struct world_items {
	unsigned int n;
	struct world_item item[WORLD_QUEUE];
};

struct world_completions {
	unsigned int n;
	struct world_completion item[WORLD_QUEUE];
};

/* One direction of a queue pair: items on the wire, items without an acknowledgement, and the
 * sending end's completions that it has not polled. */
struct world_way {
	bool cut;
	/* the end that sends in this direction has its queue pair in ERR, so it neither sends nor
	 * receives */
	bool fenced;
	struct world_items wire;
	struct world_completions unacked, done;
};

struct world_pair {
	/* the two directions: from the sender, and from the receiver */
	struct world_way there, back;
	struct world_completions landed; /* completions that the receiver has not polled yet */
};

struct world_msgs {
	unsigned int n;
	struct ha_control_msg msg[WORLD_MSGS];
};

struct world {
	struct world_shape shape;
	uint64_t now_ns;
	struct ha_sender sender;
	struct ha_receiver receiver;
	_Alignas(64) struct ha_slot_wire ring[HA_SLOTS];
	struct world_pair pair[WORLD_EPOCHS];
	struct world_msgs to_receiver, to_sender;
	bool control_cut;
	uint32_t up;                       /* the newest epoch whose path is up */
	bool sender_heard, receiver_heard; /* whether each end has the newest path */
	unsigned int faults, repairs, causes;
	bool early; /* a timer expired before its time */
	/* the part of NCCL, which the world plays */
	unsigned int sent, received; /* counts of posted requests */
	uint16_t message[HA_REQUESTS];
	uint16_t sends_done, receives_done;
	uint8_t in_memory[WORLD_MESSAGES / 8], got[WORLD_MESSAGES / 8], acked[WORLD_MESSAGES / 8];
	const char *broken; /* the name of a property that was violated */
};

#define WORLD_HEARTBEAT_NS 100u
#define WORLD_RTO_NS       300u

/* Kinds of events. CUT_THERE and all kinds after it are faults. */
#define WORLD_KINDS(_)       \
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

enum world_event_kind {
#define KIND(NAME) NAME,
	WORLD_KINDS(KIND)
#undef KIND
};

struct world_event {
	uint8_t kind;
	uint8_t arg;
};

#define WORLD_EVENTS 96u

void world_init(struct world *w, const struct world_shape *shape);
/* Lists the events that are possible now. Sets *quiet if all of them are faults, so that time may
 * pass. */
unsigned int world_events(struct world *w, struct world_event events[WORLD_EVENTS], bool *quiet);
bool world_is_fault(struct world_event event);
void world_step(struct world *w, struct world_event event);
/* Checks the properties that must hold when no event is possible. */
void world_check_end(struct world *w);
bool world_ended(const struct world *w);
void world_print(const struct world *w, struct world_event event);
/* Brings equivalent worlds into the same form, in which instants are replaced by ages. */
void world_normalize(struct world *w);

/* Functions that world.c and possible.c share. */
void world_must(struct world *w, bool holds, const char *property);
unsigned int world_slot_of(const struct world *w, unsigned int message);
uint32_t world_tag_of(const struct world *w, unsigned int slot);

#endif
