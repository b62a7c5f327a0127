/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender and a receiver as they are in the plugin, joined by simulated queue pairs, one per
 * epoch, and a control channel; NCCL's part at both ends; faults. One thread. A world is plain
 * memory: a copy is another world. An event is one step; which are possible is the world's to say.
 */
#ifndef NCCL_WORLD_H
#define NCCL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/receiver.h"
#include "hostlib/nccl/sender.h"

/* A world that is copied and compared a million times is small; the one of random walks is not. */
#ifndef WORLD_LARGE
#define WORLD_MESSAGES 8u
#define WORLD_EPOCHS   4u
#define WORLD_QUEUE    8u
#else
#define WORLD_MESSAGES 4096u
#define WORLD_EPOCHS   64u
#define WORLD_QUEUE    512u
#endif
#define WORLD_MSGS 4u /* under way in one direction at most: one more is lost */

/* What NCCL does at both ends, and what may go wrong. */
struct world_shape {
	unsigned int messages;     /* sent and received in all */
	unsigned int group;        /* receives in an irecv at most; the last has what is left */
	unsigned int tags;         /* slot i has tag i % tags */
	unsigned int window;       /* irecvs under way at most */
	uint32_t start;            /* the first sequence */
	unsigned int faults;       /* in any mixture */
	unsigned int repairs;      /* paths that come up again */
	unsigned int extra_epochs; /* beyond 0; the standby is up from the start where not 0 */
	bool dual;
	bool fatal;     /* faults that end the comm: no control channel, clocks that run early */
	bool late_path; /* the ends hear of the first standby at some time */
	bool triggers;  /* faults without a cause, too: both ends may leave a healthy path */
};

enum world_kind { WORLD_PAYLOAD, WORLD_SLOT, WORLD_PROBE };

struct world_item {
	uint8_t kind;
	uint16_t index;      /* request or place */
	uint16_t message;    /* of a payload */
	uint32_t key;        /* of the description that is used: its epoch + 1 */
	struct ha_slot slot; /* of a description, or where a payload goes */
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

/* One direction of a queue pair: what is on the wire, not acknowledged, and completions of the one
 * who sends that nobody has polled. */
struct world_way {
	bool cut;
	bool fenced; /* the end that sends here is in ERR: takes and gives nothing any more */
	struct world_items wire;
	struct world_completions unacked, done;
};

struct world_pair {
	struct world_way there, back;    /* from the sender; from the receiver */
	struct world_completions landed; /* the receiver's, not polled */
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
	bool sender_heard, receiver_heard; /* of it */
	unsigned int faults, repairs, causes;
	bool early; /* a clock ran out before its time */
	/* NCCL's part */
	unsigned int sent, received; /* posted */
	uint16_t message[HA_REQUESTS];
	uint16_t sends_done, receives_done;
	uint8_t in_memory[WORLD_MESSAGES / 8], got[WORLD_MESSAGES / 8], acked[WORLD_MESSAGES / 8];
	const char *broken; /* a property that does not hold */
};

#define WORLD_HEARTBEAT_NS 100u
#define WORLD_RTO_NS       300u

/* From CUT_THERE on: faults. */
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
/* What can happen now; quiet: nothing of it but faults, so that time may pass. */
unsigned int world_events(struct world *w, struct world_event events[WORLD_EVENTS], bool *quiet);
bool world_is_fault(struct world_event event);
void world_step(struct world *w, struct world_event event);
/* What does not hold where nothing can move any more. */
void world_check_end(struct world *w);
bool world_ended(const struct world *w);
void world_print(const struct world *w, struct world_event event);
/* The same for worlds that behave the same: ages instead of instants. */
void world_normalize(struct world *w);

/* Between world.c and possible.c. */
void world_must(struct world *w, bool holds, const char *property);
unsigned int world_slot_of(const struct world *w, unsigned int message);
uint32_t world_tag_of(const struct world *w, unsigned int slot);

#endif
