/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration of a communicator at a switch: its connections and sizes. The controller sends
 * it in "configure". inc-switchd reads it from this message or from its file, and prints the
 * communicators that it has. The engines and the loader work from it (docs/control.md, "Switch"
 * and "configure").
 */
#ifndef INC_COMM_CONF_H
#define INC_COMM_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>
#include "lib/base/err.h"
#include "lib/conf/ranks.h"
#include "lib/conf/schema.h"
#include "lib/proto/maps.h"
#include "lib/proto/rc_end.h"
#include "lib/proto/roce.h"

/* limit of the NICs of a host */
#define INC_MAX_RAILS 8

#define INC_DEF_PAYLOAD 1024
#define INC_DEF_SLOTS   512
/* Limit of the children of a communicator, whatever its mode. INC_MAX_CHILDREN (maps.h) is that of
 * passthrough mode. */
#define INC_COMM_MAX_CHILDREN 64
/* limit of a communicator's connections, which are those to the children and one to the parent */
#define INC_COMM_MAX_CONNECTIONS (INC_COMM_MAX_CHILDREN + 1)
/* Limit of the memory that the messages of one connection's window may need at a switch in
 * termination mode. */
#define INC_MAX_WINDOW_BYTES (64u << 20)
/* Limits of a message: in packets and in bytes in termination mode, and in packets in passthrough
 * mode. */
#define INC_MAX_MESSAGE_PACKETS             1024
#define INC_MAX_MESSAGE_BYTES               (1 << 20)
#define INC_MAX_PASSTHROUGH_MESSAGE_PACKETS 64

/* How a switch reduces a communicator. In passthrough mode XDP adds up packets as they pass. In
 * termination mode the switch is the other end of its hosts' connections and adds up messages. */
enum inc_mode_of_switch { INC_PASSTHROUGH, INC_TERMINATION, INC_N_MODES };

/* A topology or a tool sets one of these modes for a switch, or INC_AUTO. With INC_AUTO the
 * controller chooses the mode for each communicator (controller/core/comm_choice.c). */
enum { INC_AUTO = INC_N_MODES };
/* A tool can also take back what it has set. */
enum { INC_MODE_DEFAULT = INC_AUTO + 1 };

/* The limit of a communicator's children at a switch. INC_AUTO has that of termination mode. */
static inline uint32_t inc_most_children(enum inc_mode_of_switch mode)
{
	return mode == INC_PASSTHROUGH ? INC_MAX_CHILDREN : INC_COMM_MAX_CHILDREN;
}

/* How floats are sent to a switch: fixed, as integers that the hosts make of them, or native,
 * unchanged. */
enum inc_float_form {
	INC_FLOATS_FIXED,
	INC_FLOATS_NATIVE,
};

enum inc_byte_order {
	INC_ORDER_LITTLE,
	INC_ORDER_NETWORK,
};

/* Whether this CPU must swap the bytes of elements in the given byte order before it computes with
 * them. */
static inline bool inc_order_is_foreign(enum inc_byte_order order)
{
	return (order == INC_ORDER_LITTLE) != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
}

/*
 * Settings of queue pairs of RDMA devices, as hosts have them in INCCL_VERBS, and switches in
 * `verbs` of a topology, of their file, and of "configure". Names and units are those of
 * ibv_modify_qp(3); docs/verbs.md is the reference. _(name, least value, greatest value, text)
 */
/* clang-format off */
#define INC_VERBS_SHARED_KEYS(_) \
	_(gid_index, 0, 255, "index of the GID, which must be the port's address, of type RoCE v2") \
	_(pkey_index, 0, 65535, "index of the P_Key in the port's table") \
	_(timeout, 1, 31, "ACK timeout: 4.096 us * 2^timeout") \
	_(retry_cnt, 0, 7, "retries after a timeout or NAK") \
	_(min_rnr_timer, 0, 31, "code of the delay that RNR NAKs of this end ask for") \
	_(sl, 0, 15, "service level: the priority (PCP) of frames in a VLAN; of soft endpoints and passthrough mode, too") \
	_(traffic_class, 0, 254, "TOS byte: DSCP * 4 + ECN; of soft endpoints and passthrough mode, too") \
	_(hop_limit, 1, 255, "TTL") \
	_(flow_label, 0, 0xfffff, "the UDP source port follows from it on some devices") \
	_(rate_limit, 0, INT32_MAX, "most that the queue pair sends, in kbit/s; 0: no limit") \
	_(max_rd_atomic, 0, 255, "RDMA READs under way in each direction, of which none is used")
/* Switches have these keys and rnr_retry. Only a switch may have 7 there, because it waits for a
 * slow peer for ever. */
#define INC_VERBS_SWITCH_KEYS(_) \
	INC_VERBS_SHARED_KEYS(_) \
	_(rnr_retry, 0, 7, "retries after an RNR NAK; 7: for ever")
/* clang-format on */

/* Whether a traffic class is one that a sender may have. */
bool inc_traffic_class_good(uint64_t traffic_class);
#define INC_TRAFFIC_CLASS_TEXT \
	"DSCP * 4 + ECN, from 0 to 254, where ECN is 0 to 2 (routers alone set 3)"

/* The settings of a switch's queue pairs. Those that are not given have defaults. */
struct inc_verbs_conf {
#define INC_VERBS_MEMBER(name, min, max, text) uint32_t name;
	INC_VERBS_SWITCH_KEYS(INC_VERBS_MEMBER)
#undef INC_VERBS_MEMBER
#define INC_VERBS_MEMBER(name, min, max, text) bool has_##name;
	INC_VERBS_SWITCH_KEYS(INC_VERBS_MEMBER)
#undef INC_VERBS_MEMBER
};

extern const struct inc_schema inc_verbs_schema;
/* Whether a setting is given. */
bool inc_verbs_conf_any(const struct inc_verbs_conf *conf);
/* Adds those settings of more that conf lacks. */
void inc_verbs_conf_complete(struct inc_verbs_conf *conf, const struct inc_verbs_conf *more);
/* Writes the settings as INCCL_VERBS has them, such as "timeout=18,sl=3"; "none": none is given.
 * Returns buf. */
#define INC_VERBS_CONF_TEXT 400
const char *inc_verbs_conf_text(const struct inc_verbs_conf *conf, char buf[INC_VERBS_CONF_TEXT]);

/* A connection as the switch sees it. In termination mode an end's number may be unknown. The
 * engine chooses its own numbers, and those of the peer come later, in "connect". The kind of an
 * end has a meaning in termination mode only. */
struct inc_conn_conf {
	/* number of the communicator to which the connection belongs; used in files only */
	uint32_t communicator;
	bool up; /* the connection leads to the parent switch */
	/* rank of the child, which is the lowest one if several ranks are behind it */
	uint32_t rank;
	bool has_ranks;
	/* all ranks behind the child, if it is a switch or the leader of a machine's ranks */
	struct inc_ranks ranks;
	/* the field is given, which it is only if it is true in a message of the controller */
	bool has_machine;
	bool is_machine; /* the child is a host whose rank leads the other ranks of its machine */
	char port[IF_NAMESIZE];
	struct inc_rc_end own;
	bool has_own_mac;
	uint8_t own_mac[6]; /* MAC address of the switch's end; zeros: that of the port */
	bool has_own_psn;
	struct inc_rc_end peer;
	/* peer_mac is given, so it is fixed; otherwise the switch learns the address from received
	 * frames */
	bool has_peer_mac;
	/* MAC address of the peer; zeros: it is not known, so the kernel's neighbour table is
	 * looked up */
	uint8_t peer_mac[6];
	bool has_peer_psn;
	uint16_t pkey;
	bool udp_csum; /* results to this peer carry a UDP checksum */
	/* settings of the switch's queue pair; in passthrough mode, traffic_class and sl alone.
	 * has_verbs: some are given */
	bool has_verbs;
	struct inc_verbs_conf verbs;
};

/* Adds those settings of a queue pair that the connection lacks, and that its own end can have. A
 * soft endpoint has traffic_class and sl alone, and so has an end in passthrough mode. own.kind
 * must be set. */
void inc_conn_conf_add_verbs(struct inc_conn_conf *conn, const struct inc_verbs_conf *more);

/* Whether the peer of a connection is a switch. */
static inline bool inc_conn_to_switch(const struct inc_conn_conf *conn)
{
	return conn->up || (conn->has_ranks && !conn->is_machine);
}

struct inc_comm_conf {
	uint32_t communicator; /* number of the communicator, unique in the switch */
	/* the file names the communicator's mode; otherwise the switch's mode applies */
	bool has_mode;
	uint32_t mode; /* mode of the communicator: enum inc_mode_of_switch */
	bool root;     /* the switch is the root, that is, no connection leads to a parent switch */
	uint32_t payload;
	uint32_t slots;
	uint32_t byte_order; /* byte order of the elements: enum inc_byte_order */
	/* reorder, in passthrough mode: the switch keeps contributions in any order, and all
	 * children accept results in any order. has_reorder: the message has the field. */
	bool has_reorder, reorder;
	/* The next three are for termination mode. */
	uint32_t message_packets; /* number of packets of the longest message */
	/* limit of the messages that each peer may have in flight, a power of two */
	uint32_t messages;
	uint32_t floats; /* form of floats: enum inc_float_form */
	uint32_t n_conns;
	struct inc_conn_conf conn[INC_COMM_MAX_CONNECTIONS];
};

extern const char *const inc_byte_orders[];
extern const char *const inc_modes_of_switch[];
extern const char *const inc_mode_settings[]; /* the modes and INC_AUTO */
extern const char *const inc_mode_orders[];   /* these and INC_MODE_DEFAULT */
extern const char *const inc_float_forms[];
extern const char *const inc_endpoint_kinds[];
/* Returns the kind of endpoint for a member's transport, by the transport's name in "C"
 * (docs/control.md): a device for verbs, a socket for all other names. */
enum inc_endpoint_kind inc_endpoint_kind_of(const char *transport);
extern const struct inc_schema inc_conn_schema;
extern const struct inc_schema inc_comm_schema;

/* Whether a value is valid for a field of this kind. The tables of other structs that have such a
 * field use the same check. */
bool inc_payload_good(uint64_t payload);
bool inc_rc_payload_good(uint64_t payload);
bool inc_slots_good(uint64_t slots);
bool inc_pkey_good(uint64_t pkey);
#define INC_PAYLOAD_FIELD .kind = INC_UINT, .good = inc_payload_good, .what = INC_PAYLOADS_TEXT
#define INC_RC_PAYLOAD_FIELD \
	.kind = INC_UINT, .good = inc_rc_payload_good, .what = INC_RC_PAYLOADS_TEXT
#define INC_SLOTS_FIELD .kind = INC_UINT, .good = inc_slots_good, .what = INC_SLOTS_TEXT
#define INC_PKEY_FIELD \
	.kind = INC_UINT, .good = inc_pkey_good, .what = "a partition (not 0 or 32768)"
#define INC_QPN_FIELD      .kind = INC_UINT, .min = INC_MIN_QPN, .max = INC_MAX_QPN
#define INC_PSN_FIELD      .kind = INC_UINT, .max = INC_PSN_MASK
#define INC_UDP_PORT_FIELD .kind = INC_UINT, .min = 1, .max = UINT16_MAX
/*
 * The rows of a table for one end of a connection. The argument type is the struct that the table
 * describes, with the end as its member own or peer. Each table with an end has these rows, so a
 * new field of struct inc_rc_end needs one row. The arguments of_port, of_qp and of_psn are the
 * rest of the row for that number, because not every table needs it. The address and the kind have
 * rows of their own, because few tables have them.
 */
/* clang-format off */
#define INC_END_FIELDS(type, end, of_port, of_qp, of_psn) \
	{#end "_port", INC_UDP_PORT_FIELD, INC_AT(type, end.udp_port), of_port}, \
	{#end "_qp", INC_QPN_FIELD, INC_AT(type, end.qpn), of_qp}, \
	{#end "_psn", INC_PSN_FIELD, INC_AT(type, end.psn), of_psn}
/* clang-format on */
_Static_assert(INC_N_RC_END_FIELDS == 4, "a new field of an end needs a row in INC_END_FIELDS");

/*
 * Applies the rules of fields that depend on the mode, because tables cannot express them. Fills in
 * the values that absent fields have in this mode, and checks the result. form: INC_FILE_ONLY, for
 * which the peer's numbers must be present, or INC_MESSAGE_ONLY. Returns 0, or -EINVAL with the
 * reason; the reason for a connection does not name the connection. comm->mode must be set.
 * inc_conn_conf_settle() uses no connections of comm.
 */
int inc_conn_conf_settle(struct inc_conn_conf *conn, const struct inc_comm_conf *comm,
			 enum inc_field_form form, struct inc_err *err);
int inc_comm_conf_settle(struct inc_comm_conf *comm, struct inc_err *err);

#endif
