/* SPDX-License-Identifier: BSD-2-Clause */
/* AllReduce through a switch, or (TREE) through two switches, of which one is the other's child:
 * the rules of docs/protocol.md as bpf/ and userspace/xdp implement them. test_reduce searches
 * every order of events.
 *
 * A payload is the set of hosts in it and its chunk, so that a wrong sum is recognised at once. The
 * process `cpu` is a CPU of a switch that handles a packet. Other processes run between its steps,
 * at those points where the program in bpf/ reads or writes shared memory. Hosts, the slow path and
 * faults make one step for each event. Timers expire if no other event is possible, or too early as
 * a fault.
 *
 * Each switch of test_reduce's table removes one rule; the search must then fail. */

#ifndef CHUNKS
#define CHUNKS 5 /* two rounds of the slots, and one chunk more */
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CPUS
#define CPUS 2
#endif
#ifndef WINDOW
/* window of host 0. A host with more than SLOTS may lose results; then only sums are checked */
#define WINDOW SLOTS
#endif
#define TICKS 3 /* so many expiries of all timers without progress count as a hang */

/* Connection k < HOSTS is that of host k; UP is the lower switch's connection to the root. In a
 * tree, hosts 0 and 1 are below the lower switch (1), and host 2 is a child of the root (0). A star
 * has switch 0 and hosts 0 and 1. */
#ifdef TREE
#define HOSTS 3
#define SWITCHES 2
#define CONNS 4
#define UP 3
#define SWITCH_OF(k) ((k) < 2)
#else
#define HOSTS 2
#define SWITCHES 1
#define CONNS 2
#define UP 99
#define SWITCH_OF(k) 0
#endif
#define MASK(s) (SWITCHES == 1 || (s) -> 3 : 12) /* the children of a switch */
#define BIT(k) (1 << (k))
#define ALL ((1 << HOSTS) - 1)
#define VALUE(chunk, set) ((chunk) * 8 + (set))
#define BAD 255
#define NONE 254
#define PLACE(k, r) ((k) * SLOTS + (r) % SLOTS)

/* Does packet r request an ACK? (contribution and result; CHUNKS is odd) */
#define ASKS(r) ((r) % 2 == 0)

#define DATA 1
#define ACK 2 /* acknowledges all packets before psn */
#define NAK 3 /* expects psn; RNR NAKs are included */

/* What the switch does with a contribution. */
#define TAKEN 0
#define EARLY 1
#define BEHIND 2
#define AHEAD 3

/* Contribution r implies that the child has the result of chunk r - LATE. */
#define LATE SLOTS

/* The properties. Each must always be 0; a failed assertion names the property. */
hidden byte wrong, order, unkept, gone, twice, storm, unasked, needless, hang;

chan up[CONNS] = [8] of { byte, byte, byte }; /* type, psn, value: to the switch */
chan down[CONNS] = [8] of { byte, byte, byte };

/* A child (host or lower switch): the next packet to send, the first one not acknowledged, and the
 * results received. */
byte next[CONNS], una[CONNS], got[CONNS];
bit child_nak[CONNS];
/* The child's connection at the switch above. */
byte rx_next[CONNS], tx_acked[CONNS], naks[CONNS];
bit nak_sent[CONNS], busy[CONNS], up_busy;
byte kept_r[CONNS * SLOTS] = NONE, kept[CONNS * SLOTS] = NONE;
/* A switch: its slots, its sums (partial ones below the root), and the parent's results. */
byte generation[SWITCHES * SLOTS], bits[SWITCHES * SLOTS];
byte sum_r[SWITCHES * SLOTS] = NONE, sum[SWITCHES * SLOTS];
byte tx_next[SWITCHES];
#ifdef TREE
byte up_next, result_r[SLOTS] = NONE, result[SLOTS];
#endif
byte left = FAULTS, ticks, x, y, z;
byte idle = (1 << CPUS) - 1; /* CPUs are the first processes */

/* The result rows of a switch: those of the parent's results if there is a parent. */
#ifdef TREE
#define RESULT_R(s, r) (s -> result_r[(r) % SLOTS] : sum_r[PLACE(0, r)])
#define RESULT(s, r) (s -> result[(r) % SLOTS] : sum[PLACE(0, r)])
#else
#define RESULT_R(s, r) sum_r[PLACE(0, r)]
#define RESULT(s, r) sum[PLACE(0, r)]
#endif

/* A host receives a packet: the next one, a duplicate, or one after a gap. The lower switch does
 * this in cpu(). */
inline host_takes(k)
{
	down[k]?x, y, z;
	if
	:: x == DATA && y == got[k] ->
		assert(z == VALUE(y, ALL) || wrong);
		got[k]++;
		child_nak[k] = 0;
		ticks = 0;
#ifndef NO_IMPLIED
		una[k] = (una[k] > y + 1 -> una[k] : y + 1);
		next[k] = (next[k] > una[k] -> next[k] : una[k]);
#endif
		if
		:: ASKS(y) -> up[k]!ACK, got[k], 0
		:: else -> skip
		fi
#ifdef NO_ORDER
	:: x == DATA && y > got[k] ->
		assert(order);
#else
	:: x == DATA && y > got[k] && !child_nak[k] ->
		child_nak[k] = 1;
		up[k]!NAK, got[k], 0
#endif
#ifndef NO_ACK_AGAIN
	:: x == DATA && y < got[k] -> up[k]!ACK, got[k], 0
#endif
	:: x != DATA && y >= una[k] ->
		una[k] = y;
		next[k] = (x == NAK || next[k] < y -> y : next[k])
	:: else -> skip
	fi;
	x = 0; y = 0; z = 0
}

/* The slow path resends results from tx_acked on, as far as they exist. The row of a result that a
 * child lacks must still hold it. */
inline resends(k)
{
	x = tx_acked[k];
	do
	:: x < tx_next[SWITCH_OF(k)] ->
		assert((RESULT_R(SWITCH_OF(k), x) == x && kept_r[PLACE(k, x)] == x) || x < got[k] ||
		       WINDOW > SLOTS || gone);
		if
		:: RESULT_R(SWITCH_OF(k), x) == x && kept_r[PLACE(k, x)] == x ->
			down[k]!DATA, x, RESULT(SWITCH_OF(k), x)
		:: else -> skip
		fi;
		x++
	:: else -> break
	od;
	x = 0
}

inline sends_partials()
{
#ifdef TREE
	x = una[UP];
	do
	:: x < up_next ->
		assert(sum_r[PLACE(1, x)] == x || gone);
		up[UP]!DATA, x, sum[PLACE(1, x)];
		x++
	:: else -> break
	od;
	x = 0
#else
	skip
#endif
}

inline answers(kind)
{
	/* all packets before the one that an ACK or NAK names are stored */
	assert(kind == NAK || rx_next[k] == 0 || kept_r[PLACE(k, rx_next[k] - 1)] == rx_next[k] - 1 ||
	       unkept);
	down[k]!kind, rx_next[k], 0
}

/* Handles an ACK or NAK of a child. */
inline child_answers()
{
	if
	:: p > tx_acked[k] && p <= tx_next[s] -> tx_acked[k] = p; ticks = 0
	:: else -> skip
	fi;
	if
	:: t == NAK && p == tx_acked[k] -> resends(k)
	:: else -> skip
	fi
}

inline parent_answers()
{
	if
	:: p > una[k] -> una[k] = p; ticks = 0
	:: else -> skip
	fi;
	if
	:: t == NAK && p == una[k] -> sends_partials()
	:: else -> skip
	fi
}

inline decides()
{
	if
	:: p < rx_next[k] -> fate = BEHIND
	:: p > rx_next[k] -> fate = AHEAD
	:: p == rx_next[k] && generation[PLACE(s, p)] != p / SLOTS -> fate = EARLY
	:: else -> fate = TAKEN
	fi
#ifdef NO_DUPLICATE_CHECK
	;
	if
	:: fate == BEHIND && generation[PLACE(s, p)] == p / SLOTS -> fate = TAKEN
	:: else -> skip
	fi
#endif
#ifdef NO_GENERATION_CHECK
	;
	fate = (fate == EARLY -> TAKEN : fate)
#endif
}

/* All children of a slot have given their contributions: their rows are reduced. */
inline reduces()
{
	w = VALUE(p, 0);
	x = 0;
	do
	:: x < CONNS ->
		if
		:: (MASK(s) & BIT(x)) && w != BAD ->
			y = kept[PLACE(x, p)];
			w = ((y / 8 != p || ((y & w) & 7)) -> BAD : w + (y & 7))
		:: else -> skip
		fi;
		x++
	:: else -> break
	od;
	x = 0;
	y = 0;
	sum[PLACE(s, p)] = w;
	sum_r[PLACE(s, p)] = p
}

/* The slot goes to its next generation. */
inline moves_on()
{
	bits[PLACE(s, p)] = 0;
	generation[PLACE(s, p)] = p / SLOTS + 1
}

/* Sends the copies one by one, each in the frame of the current packet. */
#define COPY(i) \
	if \
	:: MASK(s) & BIT(i) -> \
		d_step { \
			if \
			:: kept_r[PLACE(i, p)] == p -> down[i]!DATA, p, w \
			:: else -> skip \
			fi \
		} \
	:: else -> skip \
	fi

#ifdef TREE
#define COPIES COPY(0); COPY(1); COPY(2); COPY(UP)
#else
#define COPIES COPY(0); COPY(1)
#endif

#ifdef NO_BUSY
#define ENTER(i) len(up[i]) > 0
#else
#define ENTER(i) len(up[i]) > 0 && !busy[i]
#endif
/* The lower switch receives a packet of its parent. */
#ifdef TREE
inline takes_parents()
{
	down[UP]?t, p, v;
	if
	:: t != DATA -> parent_answers()
	:: t == DATA && p < got[UP] -> up[UP]!ACK, got[UP], 0
	:: t == DATA && p > got[UP] && child_nak[UP] -> skip
	:: t == DATA && p > got[UP] && !child_nak[UP] ->
		child_nak[UP] = 1;
		up[UP]!NAK, got[UP], 0
	:: t == DATA && p == got[UP] ->
		assert(p < up_next || unasked);
		result_r[p % SLOTS] = NONE;
		working = 1
	fi;
	if
	:: working -> from_parent = 1; up_busy = 1; idle = idle & ~BIT(_pid)
	:: else -> forgets()
	fi
}

inline takes_result()
{
	d_step { w = v; result[p % SLOTS] = v; result_r[p % SLOTS] = p; got[UP] = p + 1;
		 una[UP] = (una[UP] > p -> una[UP] : p + 1); child_nak[UP] = 0; ticks = 0 };
	d_step { moves_on() };
	d_step { assert(tx_next[1] == p || twice); tx_next[1] = p + 1 };
	COPIES;
	if
	:: ASKS(p) -> d_step { up[UP]!ACK, got[UP], 0 }
	:: else -> skip
	fi
}
#endif

/* The last arriver's packet becomes the result, or the partial sum. */
inline completes()
{
#ifdef MOVE_ON_EARLY
	d_step { moves_on() };
#endif
#ifdef TX_NEXT_EARLY
	d_step { tx_next[s] = p + 1 };
#endif
	d_step { reduces() };
	if
#ifdef TREE
	:: s == 1 ->
#ifdef UP_NEXT_LATE
		d_step { up[UP]!DATA, p, w };
		d_step { up_next = p + 1 }
#else
		d_step { up_next = p + 1 };
		d_step { up[UP]!DATA, p, w }
#endif
#ifdef PARTIAL_FREED
		;
		d_step { sum_r[PLACE(1, p)] = NONE }
#endif
#endif
	:: s == 0 ->
#ifndef MOVE_ON_EARLY
		d_step { moves_on() };
#endif
		d_step {
#ifndef TX_NEXT_EARLY
			assert(tx_next[0] == p || twice);
#endif
			tx_next[0] = p + 1 };
		COPIES
	fi
}

inline contributes()
{
#ifdef ACK_EARLY
	d_step { down[k]!ACK, p + 1, 0; assert(kept_r[PLACE(k, p)] == p || unkept) };
#endif
#ifdef GENERATION_TWICE
	/* the first test of the fate decides where the payload is stored, the second one whether it
	 * counts */
	if
	:: d_step { fate == TAKEN -> kept[PLACE(k, p)] = v }
	:: else -> skip
	fi;
	d_step { decides() };
#endif
	if
	:: fate == TAKEN ->
		d_step {
#ifndef GENERATION_TWICE
			kept[PLACE(k, p)] = v;
#endif
			kept_r[PLACE(k, p)] = p; rx_next[k] = p + 1; nak_sent[k] = 0; naks[k] = 0; ticks = 0 };
#ifdef NO_ATOMIC_OR
		d_step { w = bits[PLACE(s, p)] };
		d_step { w = w | BIT(k); bits[PLACE(s, p)] = w; last = (w == MASK(s)) };
#else
#ifdef LAST_READ_LATER
		d_step { bits[PLACE(s, p)] = bits[PLACE(s, p)] | BIT(k) };
		d_step { last = (bits[PLACE(s, p)] == MASK(s)) };
#else
		d_step { bits[PLACE(s, p)] = bits[PLACE(s, p)] | BIT(k); last = (bits[PLACE(s, p)] == MASK(s)) };
#endif
#endif
		if
		:: last -> completes()
		:: !last && ASKS(p) -> d_step { answers(ACK) }
		:: else -> skip
		fi
	:: else -> d_step { nak_sent[k] = 1; answers(NAK) }
	fi
}

/* Other packets change only the connection, in one step; a contribution takes several. All CPUs are
 * alike, so the first idle one handles the packet. */
inline takes_packet()
{
	up[k]?t, p, v;
	if
	:: t == DATA -> decides()
	:: else -> child_answers()
	fi;
	if
	:: t != DATA -> skip
	:: t == DATA && fate == BEHIND -> answers(ACK)
#ifdef NAK_EACH
	:: t == DATA && fate == AHEAD ->
#else
	:: t == DATA && fate == AHEAD && nak_sent[k] -> skip
	:: t == DATA && fate == AHEAD && !nak_sent[k] ->
#endif
		nak_sent[k] = 1;
		naks[k]++;
		assert(naks[k] < 2 || storm);
		answers(NAK)
#ifdef GENERATION_TWICE
	:: t == DATA && fate == EARLY -> working = 1
#else
	:: t == DATA && fate == EARLY -> nak_sent[k] = 1; answers(NAK)
#endif
	:: t == DATA && fate == TAKEN -> working = 1
	fi;
	if
	:: working -> busy[k] = 1; idle = idle & ~BIT(_pid)
	:: else -> forgets()
	fi
}

inline forgets()
{
	k = 0; s = 0; t = 0; p = 0; v = 0; w = 0; fate = 0; last = 0; from_parent = 0; working = 0
}

#define MY_TURN ((idle & (BIT(_pid) - 1)) == 0)
#define TAKES(i) :: d_step { !working && ENTER(i) && MY_TURN -> k = i; s = SWITCH_OF(i); takes_packet() }

active [CPUS] proctype cpu()
{
	byte k, s, t, p, v, w, fate;
	bit last, from_parent, working;
end:
	do
	TAKES(0)
	TAKES(1)
#ifdef TREE
	TAKES(2)
	TAKES(UP)
	:: d_step { !working && len(down[UP]) > 0 && !up_busy && MY_TURN -> k = UP; s = 1; takes_parents() }
#endif
	:: working && !from_parent -> contributes(); d_step { busy[k] = 0; idle = idle | BIT(_pid); forgets() }
#ifdef TREE
	:: working && from_parent -> takes_result(); d_step { up_busy = 0; idle = idle | BIT(_pid); forgets() }
#endif
	od
}

#define HOST(k, window) \
	:: d_step { len(down[k]) > 0 -> host_takes(k) } \
	:: d_step { next[k] < CHUNKS && next[k] < got[k] + window -> \
		    up[k]!DATA, next[k], VALUE(next[k], BIT(k)); next[k]++ }

active proctype hosts()
{
end:
	do
	HOST(0, WINDOW)
	HOST(1, SLOTS)
#ifdef TREE
	HOST(2, SLOTS)
#endif
	od
}

#define FAULTY(i) \
	:: d_step { left > 0 && len(up[i]) > 0 -> left--; up[i]?_, _, _ } /* lost */ \
	:: d_step { left > 0 && len(down[i]) > 0 -> left--; down[i]?_, _, _ } \
	:: d_step { left > 0 && len(up[i]) > 0 -> /* a duplicate, or reordered after the other packets */ \
		    left--; up[i]?<x, y, z>; up[i]!x, y, z; x = 0; y = 0; z = 0 } \
	:: d_step { left > 0 && len(down[i]) > 0 -> \
		    left--; down[i]?<x, y, z>; down[i]!x, y, z; x = 0; y = 0; z = 0 } \
	:: d_step { left > 0 && len(up[i]) > 1 -> \
		    left--; up[i]?x, y, z; up[i]!x, y, z; x = 0; y = 0; z = 0 } \
	:: d_step { left > 0 && len(down[i]) > 1 -> \
		    left--; down[i]?x, y, z; down[i]!x, y, z; x = 0; y = 0; z = 0 } \
	:: d_step { left > 0 && tx_acked[i] < tx_next[SWITCH_OF(i)] -> left--; times_out(i) }

/* Does not resend results that the child's own contributions imply. */
inline times_out(i)
{
	x = (rx_next[i] > LATE -> rx_next[i] - LATE : 0);
	x = (x < tx_next[SWITCH_OF(i)] -> x : tx_next[SWITCH_OF(i)]);
	tx_acked[i] = (x > tx_acked[i] -> x : tx_acked[i]);
	resends(i)
}

active proctype faults()
{
end:
	do
	FAULTY(0)
	FAULTY(1)
#ifdef TREE
	FAULTY(2)
	FAULTY(UP)
	:: d_step { left > 0 && una[UP] < up_next -> left--; sends_partials() }
#endif
	:: d_step { left > 0 && una[0] < next[0] -> left--; next[0] = una[0] }
	od
}

#define ENDED(k) (una[k] == CHUNKS && got[k] == CHUNKS && tx_acked[k] == CHUNKS)
#ifdef TREE
#define ALL_ENDED (ENDED(0) && ENDED(1) && ENDED(2) && ENDED(UP))
#else
#define ALL_ENDED (ENDED(0) && ENDED(1))
#endif
#define CHILD_CLOCK(k) next[k] = una[k]

active proctype clocks()
{
	do
	:: atomic { timeout && ALL_ENDED -> break }
	:: atomic { timeout && !ALL_ENDED -> d_step {
		    assert(FAULTS > 0 || WINDOW > SLOTS || needless);
		    ticks = (ticks > TICKS -> ticks : ticks + 1);
		    assert(ticks <= TICKS || WINDOW > SLOTS || hang);
#ifndef NO_CHILD_TIMER
		    CHILD_CLOCK(0);
		    CHILD_CLOCK(1);
#ifdef TREE
		    CHILD_CLOCK(2);
#endif
#endif
#if defined(TREE) && !defined(NO_PARTIAL_TIMER)
		    sends_partials();
#endif
#ifndef NO_RESULT_TIMER
		    times_out(0);
		    times_out(1);
#ifdef TREE
		    times_out(2);
		    times_out(UP);
#endif
#endif
	    } }
	od
}
