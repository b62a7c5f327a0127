/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The counters of packets, which the XDP programs write and user space reads (inc_counter in
 * bpf/inc_maps.h). docs/protocol.md explains each of them. */
#ifndef INC_PROTO_COUNTERS_H
#define INC_PROTO_COUNTERS_H

#include <linux/types.h>
#include "lib/proto/roce.h"

/*
 * The packet counters. Each has a row for each CPU. Class R counts every packet received. Each
 * packet then counts in exactly one other class. The classes are P (passed to the kernel), D
 * (dropped), A (absorbed: stored or used without an answer), W (answered) and M (became the packet
 * that is multicast). So R = P + D + A + W + M. Class X counts other things than received packets
 * (copies, bytes, sums).
 */
#define INC_COUNTERS(_)                                                                           \
	_(RX, rx, 'R', "packets received on the switch's ports")                                  \
	_(PASS_NOT_ROCE, pass_not_roce, 'P', "not RoCEv2 over plain IPv4")                        \
	_(PASS_NO_CONN, pass_no_connection, 'P', "RoCEv2, but no connection of ours")             \
	_(PASS_VLAN, pass_other_vlan, 'P', "right connection, but not in its VLAN")               \
	_(PASS_QINQ, pass_qinq, 'P', "two VLAN tags")                                             \
	_(DROP_TRUNCATED, drop_truncated, 'D', "shorter than its headers say")                    \
	_(DROP_LENGTH, drop_bad_length, 'D',                                                      \
	  "IP, UDP and frame lengths disagree, or not one the opcode allows")                     \
	_(DROP_TVER, drop_bad_tver, 'D', "BTH transport version not 0")                           \
	_(DROP_OPCODE, drop_bad_opcode, 'D',                                                      \
	  "opcode not RC SEND, RDMA WRITE or ACK, or an ACK of no known kind")                    \
	_(DROP_PKEY, drop_bad_pkey, 'D', "P_Key not the connection's")                            \
	_(DROP_OWN_ADDR, drop_own_address, 'D',                                                   \
	  "from outside, but with an address of the switch's as its source")                      \
	_(DROP_PORT, drop_wrong_port, 'D', "right connection, wrong ingress port")                \
	_(DROP_ICRC, drop_bad_icrc, 'D', "ICRC does not match")                                   \
	_(DROP_AHEAD, drop_psn_ahead, 'D', "PSN ahead of the gap, NAK already sent")              \
	_(DROP_CONN_ERROR, drop_connection_error, 'D', "connection or communicator has ended")    \
	_(DROP_ACK_RANGE, drop_ack_range, 'D', "ACK of a packet not sent")                        \
	_(DROP_BUSY, drop_connection_busy, 'D',                                                   \
	  "another CPU works on the connection, and did so for too long")                         \
	_(DROP_QUEUE_FULL, drop_queue_full, 'D',                                                  \
	  "the queue to the CPU of the communicator is full")                                     \
	_(DROP_NO_SLOWPATH, drop_no_slowpath, 'D', "for the slow path, which is not there")       \
	_(DROP_NO_ROOM, drop_no_room, 'D', "frame could not be resized for the answer")           \
	_(DROP_NO_MAC, drop_no_mac, 'D', "answer to a peer whose MAC address is not known")       \
	_(DROP_CONFIG, drop_bad_config, 'D', "a map entry is missing or does not fit")            \
	_(ABS_STORED, absorbed_stored, 'A', "contribution kept, no ACK asked")                    \
	_(ABS_AHEAD, absorbed_ahead, 'A', "contribution kept ahead of a gap")                     \
	_(ABS_ACK, absorbed_ack, 'A', "ACK of what was sent")                                     \
	_(ABS_SLOWPATH, absorbed_slowpath, 'A', "handed to the slow path (NAK, RNR)")             \
	_(ABS_CNP, absorbed_cnp, 'A', "CNP, whose report goes on to children")                    \
	_(ABS_PENDING, absorbed_pending, 'A',                                                     \
	  "result or partial sum left to the slow path: copies share bytes, or generic mode and " \
	  "too short a frame")                                                                    \
	_(ANS_ACK, answered_ack, 'W', "contribution kept, and acknowledged")                      \
	_(ANS_OWED, answered_owed_ack, 'W', "ACK turned round into an owed or requested ACK")     \
	_(ANS_DUPLICATE, answered_duplicate, 'W', "duplicate acknowledged again")                 \
	_(ANS_NAK_SEQ, answered_nak_sequence, 'W', "first packet after a gap: NAK 60")            \
	_(ANS_NAK_INVALID, answered_nak_invalid, 'W', "invalid request: NAK 61")                  \
	_(ANS_NAK_FATAL, answered_nak_operation, 'W', "communicator has failed: NAK 63")          \
	_(ANS_RNR, answered_rnr, 'W', "slot still in an older generation: RNR NAK")               \
	_(ANS_ECHO, answered_echo, 'W', "echo request to the port's address: echo reply")         \
	_(ANS_CNP, answered_cnp, 'W', "became a CNP to its sender, which slows down")             \
	_(MC_RESULT, multicast_result, 'M', "last arriver became the result")                     \
	_(MC_DOWN, multicast_from_parent, 'M', "result of the parent, passed on")                 \
	_(UP_PARTIAL, partial_to_parent, 'M', "last arriver became the partial sum")              \
	_(X_COPY, copies_sent, 'X', "copies of results and partial sums given to a port")         \
	_(X_COPY_DROP, copies_dropped, 'X', "copies that could not be made")                      \
	_(X_BECN, copies_with_becn, 'X', "copies of results that report congestion to a child")   \
	_(X_SUM_BYTES, reduced_bytes, 'X',                                                        \
	  "bytes of contributions that a result or a partial sum was made of")                    \
	_(X_STEERED, steered, 'X', "packets given to the CPU of their communicator")              \
	_(X_MISMATCH, mismatches, 'X', "chunks whose children called different collectives")      \
	_(X_EVENT_LOST, events_lost, 'X', "events dropped because the ring was full")

enum inc_counter_id {
#define _(ID, name, class, text) INC_CTR_##ID,
	INC_COUNTERS(_)
#undef _
		INC_CTR_MAX
};

/* Whether a counter belongs to a class, such as 'D'. With a constant class the compiler makes a
 * mask of all counters of the class. */
INC_INLINE _Bool inc_counter_is(enum inc_counter_id id, char class)
{
#define _(ID, name, of, text) | (__u64)((of) == class) << INC_CTR_##ID
	return (0 INC_COUNTERS(_)) >> id & 1;
#undef _
}

_Static_assert(INC_CTR_MAX <= 64, "the counters of a class fit a mask");

#endif
