/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostlib/nccl/bringup.h"
#include "lib/base/clock.h"

#define RETRY_NS   (HA_BRINGUP_RETRY_MS * INC_NSEC_PER_MSEC)
#define TIMEOUT_NS (HA_BRINGUP_TIMEOUT_MS * INC_NSEC_PER_MSEC)

const char *ha_bringup_state_text(enum ha_bringup_state state)
{
	static const char *const texts[] = {
#define TEXT(NAME, text) text,
		HA_BRINGUP_STATES(TEXT)
#undef TEXT
	};

	return state < sizeof(texts) / sizeof(texts[0]) ? texts[state] : "?";
}

void ha_bringup_init(struct ha_bringup *bringup, bool leads, unsigned int rails)
{
	*bringup = (struct ha_bringup){.leads = leads, .rails = rails};
}

/* Stores when messages were sent, because ha_bringup_tick() repeats messages without an answer.
 * Returns bits. */
static unsigned int note_sent(struct ha_bringup *b, unsigned int bits, uint64_t now_ns)
{
	b->sent_at_ns = now_ns;
	return bits;
}

static void set_state(struct ha_bringup *b, enum ha_bringup_state to)
{
	b->state = to;
}

static uint8_t rail_for(const struct ha_bringup *b, uint8_t rail, unsigned int changes)
{
	return b->rails < HA_RAILS ? 0 : (rail ^ changes) & 1;
}

/* Returns the bring-up to state IDLE. The bits that it returns destroy the bring-up's queue pair,
 * if there is one. */
static unsigned int drop(struct ha_bringup *b)
{
	const unsigned int bits = b->state == HA_BRINGUP_IDLE    ? 0
				  : b->state == HA_BRINGUP_READY ? HA_BRINGUP_DROP | HA_BRINGUP_DOWN
								 : HA_BRINGUP_DROP;

	set_state(b, HA_BRINGUP_IDLE);
	b->ready_received = false;
	return bits;
}

static unsigned int begin(struct ha_bringup *b, uint8_t rail)
{
	const unsigned int bits = drop(b);

	set_state(b, HA_BRINGUP_MAKING);
	b->tried = true;
	b->rail = rail;
	return bits | HA_BRINGUP_MAKE;
}

/* Starts the leader's next attempt to bring up a path. */
static unsigned int try(struct ha_bringup *b)
{
	if (b->tried)
		b->attempt++;
	return begin(b, rail_for(b, b->wanted_rail, b->failures));
}

static unsigned int fail(struct ha_bringup *b, uint64_t now_ns)
{
	b->failures++;
	b->retry_at_ns = now_ns + RETRY_NS;
	return drop(b);
}

unsigned int ha_bringup_want(struct ha_bringup *bringup, uint32_t epoch, uint8_t rail,
			     uint64_t now_ns)
{
	const bool same = bringup->tried && bringup->epoch == epoch;
	unsigned int bits = 0;

	if (bringup->wanted && same && !bringup->leads)
		return 0;
	if (!same) {
		bits = drop(bringup);
		bringup->attempt = 0;
		bringup->tried = false;
	}
	bringup->wanted = true;
	bringup->epoch = epoch;
	bringup->wanted_rail = rail;
	bringup->failures = 0;
	return bits | (bringup->leads ? try(bringup) : 0);
}

unsigned int ha_bringup_made(struct ha_bringup *bringup, uint64_t now_ns)
{
	if (bringup->state != HA_BRINGUP_MAKING)
		return 0;
	bringup->attempt_at_ns = now_ns;
	if (bringup->leads) {
		set_state(bringup, HA_BRINGUP_OFFERED);
		return note_sent(bringup, HA_BRINGUP_OFFER, now_ns);
	}
	set_state(bringup, HA_BRINGUP_ENTERING);
	return note_sent(bringup, HA_BRINGUP_OFFER | HA_BRINGUP_ENTER, now_ns);
}

static unsigned int ready(struct ha_bringup *b)
{
	set_state(b, HA_BRINGUP_READY);
	b->failures = 0;
	return HA_BRINGUP_UP;
}

unsigned int ha_bringup_entered(struct ha_bringup *bringup, uint64_t now_ns)
{
	if (bringup->state != HA_BRINGUP_ENTERING)
		return 0;
	set_state(bringup, HA_BRINGUP_ENTERED);
	bringup->attempt_at_ns = now_ns;
	return note_sent(bringup, HA_BRINGUP_SEND_READY, now_ns) |
	       (bringup->ready_received ? ready(bringup) : 0);
}

unsigned int ha_bringup_failed(struct ha_bringup *bringup, uint64_t now_ns)
{
	if (bringup->state == HA_BRINGUP_IDLE)
		return 0;
	return note_sent(bringup, fail(bringup, now_ns) | HA_BRINGUP_SEND_FAILED, now_ns);
}

static unsigned int receive_path_of_leader(struct ha_bringup *b, const struct ha_path_info *path,
					   uint64_t now_ns)
{
	if (!b->tried || ha_before(b->attempt, path->attempt)) {
		if (b->tried && b->state != HA_BRINGUP_IDLE)
			/* a failure, because the leader has given up the attempt that was under way
			 * here */
			b->failures++;
		b->attempt = path->attempt;
		b->peer = *path;
		return begin(b, rail_for(b, path->rail, b->failures >> 1));
	}
	switch (b->state) {
	case HA_BRINGUP_IDLE:
		return note_sent(b, HA_BRINGUP_SEND_FAILED, now_ns);
	case HA_BRINGUP_ENTERING:
		return note_sent(b, HA_BRINGUP_OFFER, now_ns);
	case HA_BRINGUP_ENTERED:
	case HA_BRINGUP_READY:
		return note_sent(b, HA_BRINGUP_OFFER | HA_BRINGUP_SEND_READY, now_ns);
	default: /* MAKING: this end has no queue pair yet, and sends PATH as soon as it has one */
		return 0;
	}
}

static unsigned int receive_path_of_follower(struct ha_bringup *b, const struct ha_path_info *path)
{
	if (b->state != HA_BRINGUP_OFFERED)
		return 0;
	b->peer = *path;
	set_state(b, HA_BRINGUP_ENTERING);
	return HA_BRINGUP_ENTER;
}

static unsigned int receive_ready(struct ha_bringup *b, uint64_t now_ns)
{
	switch (b->state) {
	case HA_BRINGUP_IDLE:
		return note_sent(b, HA_BRINGUP_SEND_FAILED, now_ns);
	/* OFFERED: PATH_READY has arrived before the follower's PATH, because messages may be
	 * lost */
	case HA_BRINGUP_OFFERED:
	case HA_BRINGUP_ENTERING:
		b->ready_received = true;
		return 0;
	case HA_BRINGUP_ENTERED:
		return ready(b);
	case HA_BRINGUP_READY:
		return b->leads ? note_sent(b, HA_BRINGUP_SEND_READY, now_ns) : 0;
	default: /* MAKING: the peer does not have this end's PATH yet, so it cannot be ready */
		return 0;
	}
}

unsigned int ha_bringup_msg(struct ha_bringup *bringup, const struct ha_control_msg *msg,
			    uint64_t now_ns)
{
	const struct ha_path_info *path = &msg->path;
	bool newer;

	if (!bringup->wanted || msg->epoch != bringup->epoch ||
	    (bringup->tried && ha_before(path->attempt, bringup->attempt)))
		return 0;
	newer = !bringup->tried || path->attempt != bringup->attempt;
	/* A message with a newer attempt only counts from the leader, which begins attempts. The
	 * follower learns of a new attempt by PATH or PATH_FAILED. */
	if (newer && (bringup->leads || msg->type == HA_MSG_PATH_READY))
		return 0;
	switch (msg->type) {
	case HA_MSG_PATH:
		return bringup->leads ? receive_path_of_follower(bringup, path)
				      : receive_path_of_leader(bringup, path, now_ns);
	case HA_MSG_PATH_READY:
		return receive_ready(bringup, now_ns);
	case HA_MSG_PATH_FAILED:
		/* the message may name an attempt that this end has not begun, because the leader
		 * has given that up already */
		return bringup->state == HA_BRINGUP_IDLE ? 0 : fail(bringup, now_ns);
	default:
		return 0;
	}
}

unsigned int ha_bringup_hurry(struct ha_bringup *bringup, uint64_t now_ns)
{
	if (!bringup->leads || !bringup->wanted || bringup->state != HA_BRINGUP_IDLE)
		return 0;
	bringup->failures = 0; /* with no failure in a row the leader tries the preferred rail */
	return try(bringup);
}

unsigned int ha_bringup_tick(struct ha_bringup *bringup, uint64_t now_ns)
{
	const bool again = now_ns - bringup->sent_at_ns >= RETRY_NS;

	if (!bringup->wanted)
		return 0;
	switch (bringup->state) {
	case HA_BRINGUP_IDLE:
		if (bringup->leads)
			return now_ns >= bringup->retry_at_ns ? try(bringup) : 0;
		return bringup->tried && again ? note_sent(bringup, HA_BRINGUP_SEND_FAILED, now_ns)
					       : 0;
	case HA_BRINGUP_OFFERED:
	case HA_BRINGUP_ENTERED:
		if (now_ns - bringup->attempt_at_ns >= TIMEOUT_NS)
			return ha_bringup_failed(bringup, now_ns);
		return !again ? 0
			      : note_sent(bringup,
					  bringup->leads ? HA_BRINGUP_OFFER : HA_BRINGUP_SEND_READY,
					  now_ns);
	default:
		return 0;
	}
}

void ha_bringup_taken(struct ha_bringup *bringup)
{
	set_state(bringup, HA_BRINGUP_IDLE);
	bringup->wanted = bringup->ready_received = false;
}
