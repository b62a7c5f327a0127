/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The switch as docs/protocol.md describes it, in plain C: what one received frame must
 * lead to. Written from the documents, not from the XDP program, and without a thought
 * for speed. The structures of lib/proto/maps.h hold its state, so that each field can be
 * compared with the maps.
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
	struct inc_ranks ranks;      /* behind it */
	struct inc_conn_state state; /* the caches stay 0 */
};

struct ref_comm {
	uint32_t index;
	struct inc_comm_cfg cfg;
	struct inc_comm_state state;
	uint32_t slots;
	struct inc_slot *slot;  /* [slots] */
	struct inc_buf *kept;   /* [child * slots + slot]; the parent's results behind */
	struct inc_buf *result; /* [slots]; crc and csum as in struct inc_buf */
	bool up;                /* it has a parent: conn[cfg.children] */
	struct ref_conn conn[INC_MAX_CONNECTIONS];
};

struct ref_switch {
	struct ref_comm *comm[REF_MAX_COMMS];
	bool slowpath;      /* a socket waits in inc_xsk */
	bool generic;       /* generic mode: copies of a frame have no more room than it has */
	bool copies_shared; /* the kernel's copies of a frame share their bytes */
	uint64_t counter[INC_CTR_MAX];
};

/* What one frame led to. */
struct ref_out {
	int verdict;                 /* XDP_* */
	enum inc_counter_id counter; /* its one class, beside INC_CTR_RX */
	struct ref_comm *comm;       /* NULL: the frame found no connection */
	uint32_t child;
	uint64_t r;   /* chunk, where the frame was data in order */
	bool stored;  /* contribution row (child, r) was written */
	bool reduced; /* result row r was written */
	bool passed;  /* the parent's result r was kept */
	bool bare;    /* the frame goes on, but has no room for the sum */
	int events;
	struct inc_event event[REF_MAX_EVENTS];
	struct frame frame; /* the answer, where verdict is XDP_TX */
};

/* index: the communicator's number in the switch; cfg and conn, with the parent's last, are copied.
 * NULL: no memory. */
struct ref_comm *ref_comm_add(struct ref_switch *sw, uint32_t index, const struct inc_comm_cfg *cfg,
			      const struct ref_conn *conn);
void ref_comm_remove(struct ref_switch *sw, uint32_t index);

void ref_input(struct ref_switch *sw, const struct frame *in, uint32_t ifindex,
	       struct ref_out *out);

/* The frame that carries result r to this child; its row and the contribution still hold r. */
void ref_copy(const struct ref_comm *cm, uint32_t child, uint64_t r, struct frame *out);

/* The frame that carries partial sum r to the parent. */
void ref_partial(const struct ref_comm *cm, uint64_t r, struct frame *out);

struct inc_buf *ref_contrib(const struct ref_comm *cm, uint32_t child, uint64_t r);
struct inc_buf *ref_result(const struct ref_comm *cm, uint64_t r);

/* What ref_switch.c asks of ref_comm.c. */
bool ref_is_only(uint8_t opcode);
const uint8_t *ref_peer_mac(const struct ref_conn *c);
/* Children that differ from the first one in descriptor, or from the first one with that
 * descriptor that gives anything in the length they give; those that give nothing to an
 * AllReduce or Reduce that has data, or anything to a barrier, or to another's broadcast. */
uint32_t ref_odd_children(const struct ref_comm *cm, uint64_t r);
/* Of ref_element.c. The size of the descriptor's type, 0: there is no such type. */
uint32_t ref_element_bytes(uint32_t desc);
bool ref_desc_known(uint32_t desc);
/* len bytes of elements, big endian or little: into becomes what the operator makes of both. */
void ref_operate(uint32_t desc, bool big, uint8_t *into, const uint8_t *from, uint32_t len);
/* Fills result row r. */
void ref_reduce(struct ref_switch *sw, struct ref_comm *cm, uint64_t r);
/* The result of chunk r is there: its slot moves on. */
void ref_done(struct ref_comm *cm, uint64_t r);
/* Is a result of this length what the parent owes for partial sum r? */
bool ref_owed(const struct ref_comm *cm, uint64_t r, uint32_t len);
/* crc and csum of a row. */
void ref_seal(struct inc_buf *row);

#endif
