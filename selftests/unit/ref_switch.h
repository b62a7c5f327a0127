/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reference: the switch as docs/protocol.md describes it, in plain C. It computes what must
 * happen to one received frame. It is written from the documents, not from the XDP program, and
 * without regard to speed. The structures of lib/proto/maps.h hold its state, so that each field
 * can be compared with the maps.
 */
#ifndef UNIT_REF_SWITCH_H
#define UNIT_REF_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/bpf.h>
#include "lib/conf/comm_conf.h"
#include "lib/proto/maps.h"
#include "frame.h"

#define REF_MAX_COMMS  64
#define REF_MAX_EVENTS 2

struct ref_conn {
	struct inc_conn_cfg cfg;
	struct inc_ranks ranks;      /* the ranks that are reached by the connection */
	struct inc_conn_state state; /* state of the connection; its caches of headers stay 0 */
	bool cnp_early; /* a CNP would follow too soon after the one before; set by the test */
};

struct ref_comm {
	uint32_t index;
	struct inc_comm_cfg cfg;
	struct inc_comm_state state;
	uint32_t slots;
	struct inc_slot *slot; /* array of `slots` entries */
	/* contributions at [child * slots + slot], and then the parent's results */
	struct inc_buf *kept;
	/* results, as an array of `slots` entries; crc and csum as in struct inc_buf */
	struct inc_buf *result;
	bool up; /* the communicator has a parent, whose connection is conn[cfg.children] */
	struct ref_conn conn[INC_MAX_CONNECTIONS];
};

struct ref_switch {
	struct ref_comm *comm[REF_MAX_COMMS];
	bool slowpath; /* inc_xsk has a socket of the slow path */
	/* the one port that answers echo requests, and its address in network order; 0: none */
	uint32_t echo_ifindex, echo_ip;
	uint16_t echo_vlan; /* the VLAN of that port; 0: none */
	/* the programs run in generic mode, in which a copy has no more room than its frame */
	bool generic;
	bool copies_shared; /* the kernel's copies of a frame share their bytes */
	uint64_t counter[INC_CTR_MAX];
};

/* The reference's result for one frame. */
struct ref_out {
	int verdict;                 /* XDP verdict of the frame (XDP_DROP, XDP_TX, ...) */
	enum inc_counter_id counter; /* the counter on which the frame ends, beside INC_CTR_RX */
	struct ref_comm *comm;       /* communicator of the frame; NULL: no connection matches */
	uint32_t child;
	uint64_t r;   /* chunk number of data in order */
	bool stored;  /* row r of the child's contributions was written */
	bool reduced; /* result row r was written */
	bool passed;  /* row r of the parent's results was written */
	/* the frame is sent on but has no room for the sum, which the slow path must send */
	bool bare;
	int events;
	struct inc_event event[REF_MAX_EVENTS];
	struct frame frame; /* the answer, if verdict is XDP_TX */
};

/* Adds a communicator. index: its number in the switch. The function copies cfg and conn, of which
 * the parent's is the last. Returns NULL if there is no memory. */
struct ref_comm *ref_comm_add(struct ref_switch *sw, uint32_t index, const struct inc_comm_cfg *cfg,
			      const struct ref_conn *conn);
void ref_comm_remove(struct ref_switch *sw, uint32_t index);

void ref_input(struct ref_switch *sw, const struct frame *in, uint32_t ifindex,
	       struct ref_out *out);

/* Builds the frame that carries result r to this child. The child's contribution row and the
 * result's row must still hold chunk r. */
void ref_copy(const struct ref_comm *cm, uint32_t child, uint64_t r, struct frame *out);

/* Called when the copy of a result was made for this child, because it has taken a report with
 * it. */
void ref_copied(struct ref_switch *sw, struct ref_comm *cm, uint32_t child);

/* Builds the frame that carries partial sum r to the parent. */
void ref_partial(const struct ref_comm *cm, uint64_t r, struct frame *out);

struct inc_buf *ref_contrib(const struct ref_comm *cm, uint32_t child, uint64_t r);
struct inc_buf *ref_result(const struct ref_comm *cm, uint64_t r);

/* Functions of ref_comm.c that ref_switch.c uses. */
/* Whether the frame has two tags, or the outer one of two. */
bool ref_has_two_tags(const struct frame *in);
/* Copies an IPv4 frame with a tag without it. Returns the tag as in struct inc_conn_state, or 0 if
 * the frame is another one. */
uint16_t ref_strip(const struct frame *in, struct frame *plain);
/* Finds the counter of a frame that belongs to no connection. Returns `why`, unless the frame's
 * source is an address of the switch, or the frame is an echo request to its port. vlan: that of
 * the frame, 0: none. Builds the reply if the counter is INC_CTR_ANS_ECHO. */
enum inc_counter_id ref_stranger(const struct ref_switch *sw, const struct frame *in,
				 uint32_t ifindex, uint16_t vlan, enum inc_counter_id why,
				 struct frame *reply);
bool ref_is_only(uint8_t opcode);
/* Finds the connection of a packet, and stores its communicator and child in *out. */
struct ref_conn *ref_find(const struct ref_switch *sw, uint32_t saddr, uint32_t daddr, uint32_t qpn,
			  struct ref_out *out);
bool ref_intact(const struct frame *f); /* whether the packet's ICRC is right */
/* Fills in the fields that are the same in all frames to a peer, and the PSN of packet r. */
void ref_peer_spec(const struct ref_conn *c, uint64_t r, struct frame_spec *s);
/* Builds the CNP that is due to a peer. Returns false if none is, or if it may not be sent yet. */
bool ref_take_cnp(struct ref_conn *c, struct frame *out);
const uint8_t *ref_peer_mac(const struct ref_conn *c);
void ref_learn_mac(struct ref_conn *c, const uint8_t *source, uint32_t psn);
/* Learns the class of packets to a child, or to the parent, from the IP header of the child's
 * packet, if its checksum is right. */
void ref_learn_class(struct ref_comm *cm, uint32_t child, const uint8_t *ip);
/* Learns the tag of packets to a child, or to the parent, from the tag of the child's packet. */
void ref_learn_tag(struct ref_comm *cm, uint32_t child, uint16_t tag);
/* Tags a frame for the peer of a connection, if frames to it have a tag. */
void ref_tag(const struct ref_conn *c, struct frame *f);
/* Reports congestion between the switch and a child, or the parent, to those who send less then. */
void ref_report(struct ref_comm *cm, uint32_t child);
/* Has the switch contribution r of the child, which may be ahead of a gap? */
bool ref_has(const struct ref_comm *cm, uint32_t child, uint64_t r);
/* Passes over the packets behind a gap that has just been closed, if they were kept. */
void ref_pass_kept(struct ref_comm *cm, uint32_t child);
/* Mask of the children whose packets contradict the others. A child is one of them if its
 * descriptor differs from that of the first child. It is also one if its length differs from
 * that of the first child that has this descriptor and gives data. The same holds if it gives
 * nothing to an AllReduce or Reduce that has data, or gives data to a Barrier or to another
 * root's Broadcast. */
uint32_t ref_odd_children(const struct ref_comm *cm, uint64_t r);
/* Functions of ref_element.c. This one returns the size of the descriptor's type, or 0 if there is
 * no such type. */
uint32_t ref_element_bytes(uint32_t desc);
bool ref_desc_known(uint32_t desc);
/* Applies the operator to len bytes of elements, which are big endian or little endian, and stores
 * the results in `into`. */
void ref_operate(uint32_t desc, bool big, uint8_t *into, const uint8_t *from, uint32_t len);
/* Computes result row r from the contributions. */
void ref_reduce(struct ref_switch *sw, struct ref_comm *cm, uint64_t r);
/* Moves the slot of chunk r to its next generation, because the result of chunk r is complete. */
void ref_done(struct ref_comm *cm, uint64_t r);
/* Has the parent's result for partial sum r the right length? */
bool ref_owed(const struct ref_comm *cm, uint64_t r, uint32_t len);
/* Computes crc and csum of the row. */
void ref_seal(struct inc_buf *row);

#endif
