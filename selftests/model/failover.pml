/* SPDX-License-Identifier: BSD-2-Clause */
/* The failover protocol of the NCCL network plugin (docs/nccl-failover.md): a sender, a receiver,
 * one queue pair for each epoch on two alternating paths, and a control channel. test_failover
 * searches every order of events. The process `faults` decides which faults happen, and how often.
 *
 * One step of `protocol` is one event at one end with its actions, as in the plugin. Ends handle
 * events one at a time and share only what the wires carry. A step that reads the other end's state
 * models what a device sees: a queue pair that is gone does not acknowledge.
 *
 * Each switch of test_failover's table removes one rule; the search must then fail. */

#ifndef N
#define N 3 /* messages, one slot each */
#endif
#ifndef W
#define W 2 /* receives that are open at once */
#endif
#ifndef EPOCHS
#define EPOCHS 3 /* 0 to 2: a failover, and a failure during its replay */
#endif
#ifndef FAULTS
#define FAULTS 3 /* faults of the process `faults`, in any combination */
#endif
#ifndef REPAIRS
#define REPAIRS 1 /* how often the path that was left comes up again */
#endif
#define TRIES (FAULTS + 1) /* of a control message, so that at least one arrives */

#define ALL ((1 << N) - 1)
#define BIT(x) (1 << (x))
/* Slots have the tags 0 1 0 1 and sends the tags 1 0 0 1, so they match out of order. */
#define SLOT_TAG(q) ((q) & 1)
#define SEND_TAG(m) (1 - ((((m) + 1) >> 1) & 1))
#define SLOT_OF(m) ((m) > 1 -> (m) : 1 - (m)) /* the i-th send of a tag goes to its i-th slot */

#define FLOWING 0
#define SWITCHING 1 /* the end has left its queue pair and waits for the other end's message */
#define BROKEN 2    /* the end's path has failed, and no other path is ready */
#define DONE 3
#define FAILED 4

#define OPEN 1
#define REPORT 2
#define RESUME 3
#define CLOSE 4
#define ABORT 5
#define TO_RECEIVER 0
#define TO_SENDER 2

/* The properties. Each must always be 0; a failed assertion names the property. */
hidden byte twice, misplaced, early, contradiction, stale_key, apart, hang, lost, needless;

/* The sender: epoch and state; sends that NCCL has posted, that are complete, and that are in
 * flight; their slots. */
byte se, sst, stries, posted_sends, sdone, fly, bound, used;
byte slot[N];
byte ring[N]; /* 1 + the epoch of the slot's current description */
/* The receiver: epoch and state; receives that are posted, that are complete, and that were
 * described in this epoch; descriptions without an acknowledgement. */
byte re, rst, rtries, posted = W, got, described, unacked;
byte landed; /* payloads in the receiver's memory, of which the sender has no knowledge */

chan data[EPOCHS] = [N] of { byte, byte };  /* slot, message */
chan slots[EPOCHS] = [N] of { byte };
chan completions = [N] of { byte, byte };   /* completions that the receiver has not polled yet */
chan control[4] = [1] of { byte, byte, byte }; /* two ways (TCP, standby) for each direction */

bool cut_there[EPOCHS], cut_back[EPOCHS]; /* sender to receiver, receiver to sender */
bool cut_control;
byte ready = 1; /* the newest epoch whose path is up at both ends */
byte left = FAULTS, repairs = REPAIRS;
byte causes; /* number of faults that take a path away */
#ifdef NO_WR_EPOCH
byte late; /* completions of the former queue pair that are not polled yet */
#endif
hidden byte t, e, b, q, m, x; /* temporary variables of one step */

#define SENDER_CLOSED(p) ((p) < se || sst >= DONE || ((p) == se && sst == BROKEN))
#define RECEIVER_CLOSED(p) ((p) < re || rst >= DONE || ((p) == re && rst == BROKEN))
#ifdef NO_RECEIVER_FENCE
#define LANDS(p) (rst < BROKEN)
#else
#define LANDS(p) (!RECEIVER_CLOSED(p))
#endif
#ifdef NO_SENDER_FENCE
#define SLOT_LANDS(p) (sst < BROKEN)
#else
#define SLOT_LANDS(p) (!SENDER_CLOSED(p))
#endif
#define CUT(p) (cut_there[p] || cut_back[p])
#ifdef NO_SLOT_EPOCH
#define DESCRIBED(q) (ring[q] != 0)
#elif defined(NAIVE_REPLAY)
#define DESCRIBED(q) (ring[q] != 0)
#else
#define DESCRIBED(q) (ring[q] == se + 1)
#endif
#define FREE(q) (DESCRIBED(q) && !(used & BIT(q)))

inline send_msg(to, type, epoch, bits)
{
	if
	:: cut_control -> skip
	:: else ->
		if
		:: len(control[to]) == 0 -> control[to]!type, epoch, bits
		:: len(control[to]) > 0 && len(control[to + 1]) == 0 ->
			control[to + 1]!type, epoch, bits
		:: len(control[to]) > 0 && len(control[to + 1]) > 0 -> skip /* lost */
		fi
	fi
}

/* Removes packets that no open queue pair can receive any more. */
inline forget_closed()
{
	x = 0;
	do
	:: x < EPOCHS ->
		do
		:: len(data[x]) > 0 && !LANDS(x) && x <= re -> data[x]?_, _
		:: else -> break
		od;
		do
		:: len(slots[x]) > 0 && !SLOT_LANDS(x) && x <= se -> slots[x]?_
		:: else -> break
		od;
		x++
	:: else -> break
	od;
	x = 0
}

/* ---- the sender ---- */
inline sender_ends(how, msg)
{
	sst = how;
	fly = 0;
	send_msg(TO_RECEIVER, msg, se, 0);
	forget_closed()
}

inline sender_completes(message)
{
	assert((landed & BIT(slot[message])) || early);
	printf("the sender completes send %d\n", message);
	sdone = sdone | BIT(message);
	fly = fly & ~BIT(message)
}

inline sender_is_done()
{
	if
	:: sdone == ALL -> sender_ends(DONE, CLOSE)
	:: else -> skip
	fi
}

inline sender_enters(epoch)
{
	assert(epoch <= se + 1 || apart);
	printf("the sender enters epoch %d\n", epoch);
	se = epoch;
	stries = 0;
#ifdef NO_WR_EPOCH
	late = fly;
#endif
	fly = 0;
#ifdef NAIVE_REPLAY
	sst = FLOWING;
#else
	sst = SWITCHING;
#endif
	forget_closed()
}

inline sender_fails()
{
#ifdef NO_DOUBT
	m = 0;
	do
	:: m < N && (fly & BIT(m)) -> sender_completes(m)
	:: m < N && !(fly & BIT(m)) -> m++
	:: m >= N -> break
	od;
	m = 0;
#endif
	if
	:: ready > se ->
		sender_enters(se + 1);
#ifndef NAIVE_REPLAY
		send_msg(TO_RECEIVER, OPEN, se, 0)
#endif
	:: else ->
		sst = BROKEN;
		fly = 0;
		forget_closed()
	fi
}

inline sender_takes(bits)
{
	m = 0;
	do
	:: m < N ->
		if
		:: (bound & BIT(m)) && (bits & BIT(slot[m])) && !(sdone & BIT(m)) ->
			sender_completes(m)
		:: (bound & BIT(m)) && !(bits & BIT(slot[m])) ->
			assert(!(sdone & BIT(m)) || contradiction);
#ifdef NO_BINDING
			bound = bound & ~BIT(m);
			used = used & ~BIT(slot[m])
#endif
		:: else -> skip
		fi;
		m++
	:: else -> break
	od;
	fly = 0;
	m = 0;
	sst = FLOWING;
	send_msg(TO_RECEIVER, RESUME, se, 0);
	sender_is_done()
}

inline sender_receives_report(epoch, bits)
{
	if
	:: epoch > se -> sender_enters(epoch); sender_takes(bits)
	:: epoch == se && sst == SWITCHING -> sender_takes(bits)
	:: epoch == se && sst != SWITCHING ->
#ifdef NO_SINGLE_REPORT
		sender_takes(bits)
#else
		send_msg(TO_RECEIVER, RESUME, epoch, 0)
#endif
	:: epoch < se ->
#ifdef NO_REPORT_EPOCH
		if
		:: sst == SWITCHING -> sender_takes(bits)
		:: else -> skip
		fi
#else
		skip
#endif
	fi
}

inline sender_receives(way)
{
	control[way]?t, e, b;
	printf("the sender receives message %d of epoch %d, received %d\n", t, e, b);
	if
	:: t == REPORT && sst == FAILED -> send_msg(TO_RECEIVER, ABORT, se, 0)
	:: t == REPORT && sst < DONE -> sender_receives_report(e, b)
	:: t == ABORT && sst < DONE -> sst = FAILED; fly = 0; forget_closed()
	:: else -> skip
	fi;
	t = 0; e = 0; b = 0
}

inline sender_posts(message)
{
	printf("the sender writes send %d into slot %d, epoch %d\n", message, slot[message], se);
	fly = fly | BIT(message);
	if
	:: cut_there[se] || RECEIVER_CLOSED(se) -> skip /* lost */
	:: else -> data[se]!slot[message], message
	fi
}

inline sender_binds(message, place)
{
	slot[message] = place;
	bound = bound | BIT(message);
	used = used | BIT(place);
	sender_posts(message)
}

/* ---- the receiver ---- */
inline receiver_is_done()
{
	if
	:: got == ALL -> rst = DONE; unacked = 0; described = 0; forget_closed()
	:: else -> skip
	fi
}

inline receiver_polls()
{
	completions?q, m;
	printf("the receiver completes slot %d\n", q);
	assert(!(got & BIT(q)) || twice);
	assert(SLOT_OF(m) == q || misplaced);
	got = got | BIT(q);
	posted = (posted < N -> posted + 1 : N);
	q = 0; m = 0
}

inline receiver_drains()
{
	do
	:: len(completions) > 0 -> receiver_polls()
	:: else -> break
	od
}

inline receiver_fails_for_good(msg)
{
	receiver_is_done();
	if
	:: rst == DONE -> skip
	:: else ->
		rst = FAILED; unacked = 0; described = 0;
		if
		:: msg != 0 -> send_msg(TO_SENDER, ABORT, re, 0)
		:: else -> skip
		fi;
		forget_closed()
	fi
}

inline receiver_enters(epoch)
{
	assert(epoch <= re + 1 || apart);
	printf("the receiver enters epoch %d\n", epoch);
	re = epoch;
#ifndef NO_RECEIVER_DRAIN
	receiver_drains();
#endif
	described = 0;
	unacked = 0;
	rtries = 0;
#ifdef NO_RESUME
	rst = FLOWING;
#else
	rst = SWITCHING;
#endif
	send_msg(TO_SENDER, REPORT, re, got);
	forget_closed();
	receiver_is_done()
}

inline receiver_fails()
{
	if
	:: ready > re -> receiver_enters(re + 1)
	:: else ->
		rst = BROKEN;
		unacked = 0;
		forget_closed()
	fi
}

inline receiver_receives_open(epoch)
{
	if
	:: rst == FAILED -> send_msg(TO_SENDER, ABORT, re, 0)
	:: rst == DONE ->
#ifdef NO_LINGER
		skip
#else
		re = (epoch > re -> epoch : re);
		send_msg(TO_SENDER, REPORT, re, got)
#endif
	:: rst < DONE && epoch > re -> receiver_enters(epoch)
	:: rst < DONE && epoch == re -> send_msg(TO_SENDER, REPORT, re, got)
	:: else -> skip
	fi
}

inline receiver_receives(way)
{
	control[way]?t, e, b;
	printf("the receiver receives message %d of epoch %d\n", t, e);
	if
	:: t == OPEN -> receiver_receives_open(e)
#ifdef NO_RESUME_EPOCH
	:: t == RESUME && rst == SWITCHING -> rst = FLOWING
#else
	:: t == RESUME && rst == SWITCHING && e == re -> rst = FLOWING
#endif
	:: (t == CLOSE || t == ABORT) && rst < DONE ->
#ifndef NO_DRAIN_AT_CLOSE
		receiver_drains();
#endif
		receiver_fails_for_good(0)
	:: else -> skip
	fi;
	t = 0; e = 0; b = 0
}

inline receiver_describes()
{
	q = 0;
	do
	:: (got & BIT(q)) || (described & BIT(q)) -> q++
	:: else -> break
	od;
	described = described | BIT(q);
	unacked++;
	if
	:: cut_back[re] || SENDER_CLOSED(re) -> skip /* lost */
	:: else -> slots[re]!q
	fi;
	q = 0
}

/* ---- the wires ---- */
/* The payload is in memory and its completion in the queue. The acknowledgement returns at once or
 * never. A late acknowledgement is like one that the sender has not polled. */
inline data_lands(epoch)
{
	data[epoch]?q, m;
	printf("payload of send %d lands in slot %d, epoch %d\n", m, q, epoch);
	assert(!(landed & BIT(q)) || twice);
#ifndef NAIVE_REPLAY
	assert(epoch != re || (described & BIT(q)) || stale_key);
#endif
	landed = landed | BIT(q);
	completions!q, m;
	if
	:: epoch == se && sst == FLOWING && (fly & BIT(m)) && !cut_back[epoch] ->
		sender_completes(m);
		sender_is_done()
	:: else -> skip
	fi;
	q = 0; m = 0
}

inline slot_lands(epoch)
{
	slots[epoch]?q;
	printf("slot %d is described to the sender, epoch %d\n", q, epoch);
	ring[q] = epoch + 1;
	if
	:: epoch == re && unacked > 0 && !cut_there[epoch] -> unacked--
	:: else -> skip
	fi;
	q = 0
}

/* A send takes the first free slot of its tag. */
#define FITS(message, place) \
	(sst == FLOWING && SEND_TAG(message) == SLOT_TAG(place) && FREE(place) && \
	 !((place) > 1 && FREE((place) & 1)))
#define POST_NEW(place) \
	:: d_step { posted_sends < N && FITS(posted_sends, place) -> \
		    sender_binds(posted_sends, place); posted_sends++ }
#ifdef NO_BINDING
#define REPLAY_AT(message, place) \
	:: d_step { message < posted_sends && !(bound & BIT(message)) && FITS(message, place) -> \
		    sender_binds(message, place) }
#define REPLAY(message) REPLAY_AT(message, 0) REPLAY_AT(message, 1) REPLAY_AT(message, 2)
#else
#define REPLAY(message) \
	:: d_step { sst == FLOWING && (bound & ~sdone & ~fly & BIT(message)) && \
		    DESCRIBED(slot[message]) -> sender_posts(message) }
#endif
#define WIRES(epoch) \
	:: d_step { len(data[epoch]) > 0 && LANDS(epoch) -> data_lands(epoch) } \
	:: d_step { len(slots[epoch]) > 0 && SLOT_LANDS(epoch) -> slot_lands(epoch) }

/* An end that receives nothing on the control channel, or whose peer has failed, tests the path. */
#define PEER_SILENT(state) (cut_control || state == FAILED)

active proctype protocol()
{
	do
	WIRES(0)
	WIRES(1)
	WIRES(2)
#if EPOCHS > 3
	WIRES(3)
#endif
	POST_NEW(0)
	POST_NEW(1)
	POST_NEW(2)
	REPLAY(0)
	REPLAY(1)
	REPLAY(2)
#if N > 3
	POST_NEW(3)
	REPLAY(3)
#endif
	:: d_step { len(control[0]) > 0 -> receiver_receives(0) }
	:: d_step { len(control[1]) > 0 -> receiver_receives(1) }
	:: d_step { len(control[2]) > 0 -> sender_receives(2) }
	:: d_step { len(control[3]) > 0 -> sender_receives(3) }
	/* an error completion: sends in flight are not acknowledged */
	:: d_step { sst == FLOWING && fly != 0 && (CUT(se) || RECEIVER_CLOSED(se)) -> sender_fails() }
	:: d_step { sst == BROKEN && ready > se -> sender_fails() }
#ifdef NO_WR_EPOCH
	:: d_step { late != 0 && sst == FLOWING && fly != 0 -> late = 0; sender_fails() }
#endif
	:: d_step { rst < DONE && len(completions) > 0 -> receiver_polls(); receiver_is_done() }
	:: d_step { rst == FLOWING && ((BIT(posted) - 1) & ~got & ~described) != 0 ->
		    receiver_describes() }
	:: d_step { rst == FLOWING && unacked > 0 && (CUT(re) || SENDER_CLOSED(re)) ->
		    receiver_fails() }
	:: d_step { rst == BROKEN && ready > re -> receiver_fails() }
	:: else -> /* no other event is possible: timers expire */
		if
#ifndef NO_RESEND
#ifdef NO_GIVE_UP
		:: d_step { sst == SWITCHING -> send_msg(TO_RECEIVER, OPEN, se, 0) }
		:: d_step { rst == SWITCHING -> send_msg(TO_SENDER, REPORT, re, got) }
#else
		:: d_step { sst == SWITCHING && stries < TRIES ->
			    stries++; send_msg(TO_RECEIVER, OPEN, se, 0) }
		:: d_step { rst == SWITCHING && rtries < TRIES ->
			    rtries++; send_msg(TO_SENDER, REPORT, re, got) }
#endif
#endif
#ifndef NO_GIVE_UP
#ifdef NO_RESEND
		:: d_step { sst == SWITCHING -> sender_ends(FAILED, ABORT) }
		:: d_step { rst == SWITCHING -> receiver_fails_for_good(1) }
#else
		:: d_step { sst == SWITCHING && stries == TRIES -> sender_ends(FAILED, ABORT) }
		:: d_step { rst == SWITCHING && rtries == TRIES -> receiver_fails_for_good(1) }
#endif
		:: d_step { sst == BROKEN -> sender_ends(FAILED, ABORT) }
		:: d_step { rst == BROKEN -> receiver_fails_for_good(1) }
#endif
#ifndef NO_PROBE
		:: d_step { sst == FLOWING && PEER_SILENT(rst) && (CUT(se) || RECEIVER_CLOSED(se)) ->
			    sender_fails() }
		:: d_step { rst == FLOWING && PEER_SILENT(sst) && (CUT(re) || SENDER_CLOSED(re)) ->
			    receiver_fails() }
#endif
		:: else -> break
		fi
	od;
	assert((sst >= DONE && rst >= DONE) || hang);
	assert(sst != DONE || rst == DONE || lost);
	assert((sst != FAILED && rst != FAILED) || cut_control ||
	       causes >= 2 || needless)
}

#ifdef NO_STEPS
#define LEFT (ready == se || ready == re)
#define MAY_SKIP(state) (state == SWITCHING)
#else
#define LEFT (ready == se && ready == re)
#define MAY_SKIP(state) false
#endif

/* The cable fails. Packets in flight still arrive (late), or are lost. */
#define CUT_ONE(epoch) \
	:: d_step { left > 0 && (epoch == se || epoch == re) && !cut_there[epoch] -> \
		    left--; causes++; cut_there[epoch] = true } \
	:: d_step { left > 0 && (epoch == se || epoch == re) && !cut_there[epoch] && \
		    len(data[epoch]) > 0 -> left--; causes++; cut_there[epoch] = true; \
		    do :: len(data[epoch]) > 0 -> data[epoch]?_, _ :: else -> break od; x = 0 } \
	:: d_step { left > 0 && (epoch == se || epoch == re) && !cut_back[epoch] -> \
		    left--; causes++; cut_back[epoch] = true } \
	:: d_step { left > 0 && (epoch == se || epoch == re) && !cut_back[epoch] && \
		    len(slots[epoch]) > 0 -> left--; causes++; cut_back[epoch] = true; \
		    do :: len(slots[epoch]) > 0 -> slots[epoch]?_ :: else -> break od; x = 0 }
#define LOSE(way) \
	:: d_step { left > 0 && len(control[way]) > 0 -> left--; control[way]?_, _, _ }

active proctype faults()
{
end:
	do
	CUT_ONE(0)
	CUT_ONE(1)
	CUT_ONE(2)
#if EPOCHS > 3
	CUT_ONE(3)
#endif
	LOSE(0)
	LOSE(1)
	LOSE(2)
	LOSE(3)
	:: d_step { left > 0 && !cut_control -> left--; cut_control = true; x = 0;
		    do
		    :: x < 4 ->
			    if
			    :: len(control[x]) > 0 -> control[x]?_, _, _
			    :: else -> skip
			    fi;
			    x++
		    :: else -> break
		    od;
		    x = 0 }
	:: d_step { left > 0 && ((sst == FLOWING && fly != 0) || MAY_SKIP(sst)) -> left--; causes++; sender_fails() }
	:: d_step { left > 0 && (rst == FLOWING || MAY_SKIP(rst)) -> left--; causes++; receiver_fails() }
	:: d_step { left > 0 && sst == SWITCHING -> left--; send_msg(TO_RECEIVER, OPEN, se, 0) }
	:: d_step { left > 0 && rst == SWITCHING -> left--; send_msg(TO_SENDER, REPORT, re, got) }
	/* a timer expires although the message is on its way */
	:: d_step { left > 0 && sst == SWITCHING -> left--; causes = 2; sender_ends(FAILED, ABORT) }
	:: d_step { left > 0 && rst == SWITCHING -> left--; causes = 2; receiver_fails_for_good(1) }
	/* a path comes up again after both ends have left its epoch */
	:: d_step { repairs > 0 && LEFT && ready < EPOCHS - 1 ->
		    repairs--; ready++ }
	od
}
