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
#include "lib/conf/ranks.h"
#include "lib/conf/schema.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"

#define INC_DEF_PAYLOAD     1024
#define INC_DEF_SLOTS       512
#define INC_MAX_CONNECTIONS (INC_MAX_CHILDREN + 1) /* of a communicator: its parent's, too */

enum inc_byte_order {
	INC_ORDER_LITTLE,
	INC_ORDER_NETWORK,
};

/* One connection, seen from the switch. */
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
	uint32_t own_psn; /* of the first result */
	struct in_addr peer_ip;
	bool has_peer_mac;   /* for good; else what frames say is believed */
	uint8_t peer_mac[6]; /* zeros: not known, the kernel's neighbour table is asked */
	uint16_t peer_port;
	uint32_t peer_qp;
	uint32_t peer_psn; /* of the peer's first packet */
	uint16_t pkey;
	bool udp_csum; /* results carry a UDP checksum */
};

struct inc_comm_conf {
	uint32_t communicator; /* unique in the switch */
	bool root;             /* no connection is up */
	uint32_t payload;
	uint32_t slots;
	uint32_t byte_order; /* enum inc_byte_order: of the numbers that are added */
	uint32_t n_conns;
	struct inc_conn_conf conn[INC_MAX_CONNECTIONS];
};

extern const char *const inc_byte_orders[];
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

#endif
