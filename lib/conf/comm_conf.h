/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator as a switch has it: its connections and sizes. The controller prints it into
 * "configure", inc-switchd reads it there and from its file, and prints what it has; the engines
 * and the loader work from it (docs/control.md, "Switch" and "configure").
 */
#ifndef INC_COMM_CONF_H
#define INC_COMM_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/conf/ranks.h"
#include "lib/conf/schema.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"

#define INC_DEF_PAYLOAD 1024
#define INC_DEF_SLOTS   512
/* Of a communicator, whatever the mode; maps.h has the bounds of passthrough mode. */
#define INC_COMM_MAX_CHILDREN    64
#define INC_COMM_MAX_CONNECTIONS (INC_COMM_MAX_CHILDREN + 1) /* its parent's, too */
/* What a window's messages take at most of the switch that ends a connection. */
#define INC_MAX_WINDOW_BYTES (64u << 20)
/* Packets and bytes of a message at most: where a switch terminates connections, and where one
 * adds up packets. */
#define INC_MAX_MESSAGE_PACKETS             1024
#define INC_MAX_MESSAGE_BYTES               (1 << 20)
#define INC_MAX_PASSTHROUGH_MESSAGE_PACKETS 64

/* What a switch does with a communicator's packets: it adds them up on their way (XDP), or is
 * itself the other end of its hosts' connections, and adds up messages. */
enum inc_mode_of_switch { INC_PASSTHROUGH, INC_TERMINATION, INC_N_MODES };

/* Of a communicator at a switch. */
static inline uint32_t inc_most_children(enum inc_mode_of_switch mode)
{
	return mode == INC_PASSTHROUGH ? INC_MAX_CHILDREN : INC_COMM_MAX_CHILDREN;
}

/* How floats reach a switch: as integers that the hosts make of them, or as they are. */
enum inc_float_form {
	INC_FLOATS_FIXED,
	INC_FLOATS_NATIVE,
};

/* What a terminated connection ends at: a UDP socket, or an RDMA device. */
enum inc_endpoint_kind { INC_ENDPOINT_SOFT, INC_ENDPOINT_VERBS, INC_N_ENDPOINT_KINDS };

enum inc_byte_order {
	INC_ORDER_LITTLE,
	INC_ORDER_NETWORK,
};

/* Have its elements to be turned round by who computes with them here? */
static inline bool inc_order_is_foreign(enum inc_byte_order order)
{
	return (order == INC_ORDER_LITTLE) != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
}

/* One connection, seen from the switch. In termination mode a 0 among the numbers means: what is
 * own the engine chooses, what is the peer's comes later ("connect"). */
struct inc_conn_conf {
	uint32_t communicator; /* in files: whose connection it is */
	bool up;               /* to the parent switch */
	uint32_t rank;         /* the child's; of a switch: the lowest below it */
	bool has_ranks;
	struct inc_ranks ranks; /* below a child that is a switch, in place of its rank alone */
	char port[IF_NAMESIZE];
	struct in_addr own_ip;
	bool has_own_mac;
	uint8_t own_mac[6]; /* zeros: the port's */
	uint16_t own_port;  /* UDP */
	uint32_t own_qp;
	bool has_own_psn;
	uint32_t own_psn; /* of the first result */
	struct in_addr peer_ip;
	bool has_peer_mac;   /* for good; else what frames say is believed */
	uint8_t peer_mac[6]; /* zeros: not known, the kernel's neighbour table is asked */
	uint16_t peer_port;
	uint32_t peer_qp;
	bool has_peer_psn;
	uint32_t peer_psn; /* of the peer's first packet */
	uint16_t pkey;
	bool udp_csum; /* results carry a UDP checksum */
	/* enum inc_endpoint_kind; of termination mode: */
	uint32_t endpoint;
	uint32_t peer_endpoint; /* the peer's own */
};

struct inc_comm_conf {
	uint32_t communicator; /* unique in the switch */
	bool has_mode;         /* in a file: else it is the switch's */
	uint32_t mode;         /* enum inc_mode_of_switch */
	bool root;             /* no connection is up */
	uint32_t payload;
	uint32_t slots;
	uint32_t byte_order; /* enum inc_byte_order: of the numbers that are added */
	/* Of termination mode. */
	uint32_t message_packets; /* of a message at most */
	uint32_t messages;        /* under way, of each peer: a power of two */
	uint32_t floats;          /* enum inc_float_form */
	uint32_t n_conns;
	struct inc_conn_conf conn[INC_COMM_MAX_CONNECTIONS];
};

extern const char *const inc_byte_orders[];
extern const char *const inc_modes_of_switch[];
extern const char *const inc_float_forms[];
extern const char *const inc_endpoint_kinds[];
/* What a member's transport is, as "C" names it: verbs is a device's, all else a socket's. */
enum inc_endpoint_kind inc_endpoint_kind_of(const char *transport);
extern const struct inc_schema inc_conn_schema;
extern const struct inc_schema inc_comm_schema;

/* For tables that have such fields, too. */
bool inc_payload_good(uint64_t payload);
bool inc_slots_good(uint64_t slots);
bool inc_pkey_good(uint64_t pkey);
#define INC_PAYLOAD_FIELD .kind = INC_UINT, .good = inc_payload_good, .what = INC_PAYLOADS_TEXT
#define INC_SLOTS_FIELD   .kind = INC_UINT, .good = inc_slots_good, .what = INC_SLOTS_TEXT
#define INC_PKEY_FIELD \
	.kind = INC_UINT, .good = inc_pkey_good, .what = "a partition (not 0 or 32768)"
#define INC_QPN_FIELD      .kind = INC_UINT, .min = INC_MIN_QPN, .max = INC_MAX_QPN
#define INC_PSN_FIELD      .kind = INC_UINT, .max = INC_PSN_MASK
#define INC_UDP_PORT_FIELD .kind = INC_UINT, .min = 1, .max = UINT16_MAX, .def = INC_ROCE_UDP_PORT

/*
 * What the tables cannot say, for their fields hang on the mode: completes what was read (what is
 * absent and has a value in this mode, gets it) and checks it. form: INC_FILE_ONLY, where the
 * peer's numbers cannot come later, or INC_MESSAGE_ONLY. 0, or -EINVAL with what is wrong; of a
 * connection without a word on which it is. comm has its mode, and its connections need not be
 * there yet for inc_conn_conf_settle().
 */
int inc_conn_conf_settle(struct inc_conn_conf *conn, const struct inc_comm_conf *comm,
			 enum inc_field_form form, struct inc_err *err);
int inc_comm_conf_settle(struct inc_comm_conf *comm, struct inc_err *err);

#endif
