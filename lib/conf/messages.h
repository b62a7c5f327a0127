/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the control plane as tables (docs/control.md): every type, every field, its
 * bounds, and the struct that it is read into or printed from. The controller, inc-switchd and
 * libinccl read and build their messages from here; a test compares docs/control.md with it.
 *
 * What is a list of any length, or an answer whose shape hangs on the question, is named here and
 * read by its owner (INC_OTHER). "type" is no field of a table, and a request's "seq" is none of
 * its struct: the one who numbers requests adds it.
 */
#ifndef INC_MESSAGES_H
#define INC_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/schema.h"
#include "lib/proto/maps.h"

struct json_t; /* of jansson */

#define INC_CONTROL_VERSION       1
#define INC_MAX_WORLD             1024
#define INC_MAX_GROUP_COMMS       64 /* of one group, at a time */
#define INC_MIN_MTU               68 /* of IPv4 */
#define INC_MAX_MTU               65535
#define INC_MAX_ADDRS             64 /* of one member */
#define INC_CONTROL_NAME_LEN      65 /* job and host names, with the terminator */
#define INC_CONTROL_SWITCH_LEN    16 /* a switch's name as topologies allow it, the same way */
#define INC_CONTROL_TRANSPORT_LEN 16 /* a transport's name */
#define INC_CONTROL_PORT_LEN      16 /* a port's name */
#define INC_CONTROL_TREE_LEN      160
/* Of a switch: all kinds at each port. */
#define INC_MAX_ENDPOINTS (INC_MAX_PORTS * INC_N_ENDPOINT_KINDS)

/* What a group can be made of another one by. */
enum inc_derive_how {
	INC_DERIVE_SPLIT,
	INC_DERIVE_DUPLICATE,
	INC_DERIVE_SHRINK,
	INC_DERIVE_GROW,
};
extern const char *const inc_derive_hows[];

/* In a G that makes a group of another one, and in a failed of a member that cannot come to that.
 */
struct inc_msg_derive {
	uint32_t how; /* enum inc_derive_how */
	bool has_of, has_color;
	uint32_t of;
	uint32_t round;
	uint32_t color;
	int32_t key;
};

/* G of a member */
struct inc_msg_join {
	uint32_t version;
	char job[INC_CONTROL_NAME_LEN];
	uint32_t rank;
	uint32_t world_size;
	uint32_t n_addrs;
	struct in_addr addrs[INC_MAX_ADDRS];
	char host[INC_CONTROL_NAME_LEN];
	bool has_derive;
	struct inc_msg_derive derive;
};

struct inc_msg_joined {
	uint32_t group;
	struct in_addr addr;
	uint32_t rank;
	uint32_t world_size; /* 0: of a split, a member that wants none */
};

/* C of a member */
struct inc_msg_ask {
	uint32_t comm;
	char transport[INC_CONTROL_TRANSPORT_LEN];
	uint32_t qpn;
	uint32_t psn;
	uint16_t udp_port;
	uint32_t payload;
	uint32_t message_packets;
	uint32_t window;
	uint16_t pkey;
	bool udp_csum;
	uint32_t byte_order; /* enum inc_byte_order */
	uint32_t floats;     /* enum inc_float_form: what the member can */
};

/* What the switches of a tree do. */
enum inc_tree_mode {
	INC_TREE_PASSTHROUGH,
	INC_TREE_TERMINATION,
	INC_TREE_MIXED,
};
extern const char *const inc_tree_modes[];

struct inc_msg_endpoint {
	char node[INC_CONTROL_SWITCH_LEN]; /* the switch */
	struct in_addr peer_ip;
	uint16_t peer_port;
	uint32_t peer_qp;
	uint32_t peer_psn;
	struct in_addr my_ip;
};

/* C of the controller */
struct inc_msg_made {
	uint32_t comm;
	uint32_t communicator;
	uint32_t payload;
	uint32_t slots;
	uint32_t mode;                   /* enum inc_tree_mode */
	uint32_t floats;                 /* enum inc_float_form */
	uint32_t message_packets;        /* 0: what the member has asked for */
	uint32_t messages;               /* under way at most; 0: as slots say */
	char tree[INC_CONTROL_TREE_LEN]; /* of switches, as inc_tree_describe() has it; for people
					  */
	struct inc_msg_endpoint connection;
};

/* ready, start, D, connected, removed, remove */
struct inc_msg_number {
	uint32_t communicator;
};

/* failed of a member */
struct inc_msg_report {
	uint32_t communicator;
	uint32_t comm;
	uint32_t rank;
	bool has_communicator, has_comm, has_derive, has_rank;
	struct inc_msg_derive derive;
	int code;
	char message[512];
};

/* failed of the controller */
struct inc_msg_failed {
	uint32_t group;
	uint32_t communicator;
	uint32_t rank;
	bool has_communicator, has_rank;
	int code;
	char message[512];
};

struct inc_msg_claim {
	uint32_t communicator;
	uint32_t comm;
	char node[INC_CONTROL_SWITCH_LEN]; /* the switch */
	char transport[INC_CONTROL_TRANSPORT_LEN];
	uint32_t qpn;
	uint16_t udp_port;
	uint32_t payload;
	uint32_t slots;
	uint32_t byte_order;
	uint32_t mode, floats, message_packets, messages; /* as in struct inc_msg_made */
};

struct inc_msg_resume {
	struct inc_msg_join join;
	uint32_t group;
	uint32_t n_claims;
	struct inc_msg_claim claims[INC_MAX_GROUP_COMMS];
};

struct inc_msg_resumed {
	uint32_t group;
};

struct inc_msg_limits {
	uint32_t children;
	uint32_t slots;
	uint32_t rows;
	uint32_t connections;
	uint32_t communicators; /* "groups" in messages */
	uint32_t message_bytes; /* of termination mode, as window_bytes; 0: not said */
	uint32_t window_bytes;
};

/* Where connections can end in termination mode. */
struct inc_msg_offer {
	char port[INC_CONTROL_PORT_LEN];
	uint32_t kind; /* enum inc_endpoint_kind */
	char device[64];
	uint32_t payload;
	uint32_t message_bytes;
};

/* What numbers an engine can add up. */
struct inc_msg_kernel {
	uint32_t op; /* enum inc_operator */
	uint32_t n_types;
	uint32_t types[INC_N_WIRE_DTYPES]; /* enum inc_dtype */
};
extern const char *const inc_operator_names[];
extern const char *const inc_dtype_names[];

struct inc_msg_engine {
	uint32_t mode; /* enum inc_mode_of_switch */
	bool has_limits;
	struct inc_msg_limits limits;
	uint32_t n_endpoints;
	struct inc_msg_offer endpoints[INC_MAX_ENDPOINTS];
	uint32_t n_kernels;
	struct inc_msg_kernel kernels[INC_N_OPERATORS];
	char set[16]; /* "avx2"; "": none */
};

struct inc_msg_hello {
	uint32_t version;
	char node[INC_CONTROL_NAME_LEN]; /* the switch */
	bool has_limits;                 /* in passthrough mode: */
	struct inc_msg_limits limits;
	uint32_t mode;      /* enum inc_mode_of_switch: what it does by itself */
	uint32_t n_engines; /* 0: it knows passthrough alone */
	struct inc_msg_engine engines[INC_N_MODES];
};

struct inc_msg_configure {
	struct inc_comm_conf config;
};

/* The switch's end of a connection. */
struct inc_msg_own {
	uint32_t rank;
	bool up;
	uint32_t own_qp;
	uint32_t own_psn;
	uint16_t own_port;
};

struct inc_msg_configured {
	uint32_t communicator;
	uint32_t n_conns;
	struct inc_msg_own conn[INC_COMM_MAX_CONNECTIONS]; /* in the order of configure's */
};

/* The other end of one that was configured without. */
struct inc_msg_peer {
	uint32_t rank;
	bool up;
	uint32_t peer_qp;
	uint32_t peer_psn;
	uint16_t peer_port;
};

struct inc_msg_connect {
	uint32_t communicator;
	uint32_t n_conns;
	struct inc_msg_peer conn[INC_COMM_MAX_CONNECTIONS];
};

/* mode, of a tool and of the controller */
struct inc_msg_mode {
	char node[INC_CONTROL_NAME_LEN]; /* the switch */
	uint32_t mode;                   /* enum inc_mode_of_switch */
};

/* query of a switch, A of a tool */
struct inc_msg_query {
	char what[32];
	bool has_node, has_communicator, has_from;
	char node[INC_CONTROL_NAME_LEN]; /* only this switch */
	uint32_t communicator;           /* only this one */
	uint32_t from;
};

/* Names of events that concern ports; the second one is never about a communicator. */
#define INC_EVENT_PORT_LOST "port_lost"
#define INC_EVENT_PORT_BACK "port_back"
/* The switch stops, and its communicator ends with it. */
#define INC_EVENT_STOPPED "stopped"

struct inc_msg_event {
	char node[INC_CONTROL_NAME_LEN]; /* the switch */
	uint64_t time_ns;
	char event[32];
	uint32_t communicator;
	bool has_rank;
	uint32_t rank;
	uint64_t r;
	char message[300];
};

/* Functions that send one take what it is to repeat of the request in such a struct (NULL:
 * nothing), and fill in code and message themselves. */
struct inc_msg_error {
	uint64_t seq;
	bool has_seq, has_comm, has_communicator;
	uint32_t comm;         /* the group's own count */
	uint32_t communicator; /* its number */
	int code;
	char message[512];
};

/* What the controller reads of answers: of each communicator that waits, and of each there is. */
struct inc_msg_missing {
	uint32_t rank; /* of a switch below: the lowest behind it */
	bool has_rank;
	bool up; /* it is the parent */
};

struct inc_msg_waiting {
	uint32_t communicator;
	bool has_chunk;
	uint64_t chunk;
	uint32_t n_missing;
	struct inc_msg_missing missing[INC_COMM_MAX_CONNECTIONS];
};

struct inc_msg_tally {
	uint32_t communicator;
	uint64_t results;
};

/* answer; seq: of whatever answers a request */
struct inc_msg_answer {
	uint64_t seq;
	uint32_t next; /* 0: this was the last page */
};

/* A port in hello, as far as the controller reads it. Its address is a text, for it is compared and
 * nothing else: one that is none must not hide the MTU. */
struct inc_msg_port {
	char name[INC_CONTROL_PORT_LEN];
	char ip[INET_ADDRSTRLEN];
	bool has_mac;
	uint8_t mac[6];
	uint32_t mtu;
};

extern const struct inc_schema inc_waiting_schema;
extern const struct inc_schema inc_tally_schema;
extern const struct inc_schema inc_port_schema;

struct inc_message {
	const char *type;
	const char *from, *to; /* for the documents */
	struct inc_schema schema;
	const char *text;
};

enum inc_message_id {
	INC_MSG_JOIN,
	INC_MSG_JOINED,
	INC_MSG_ASK,
	INC_MSG_MADE,
	INC_MSG_READY,
	INC_MSG_START,
	INC_MSG_DESTROY,
	INC_MSG_REPORT,
	INC_MSG_FAILED,
	INC_MSG_BYE,
	INC_MSG_RESUME,
	INC_MSG_RESUMED,
	INC_MSG_HELLO,
	INC_MSG_WELCOME,
	INC_MSG_CONFIGURE,
	INC_MSG_CONFIGURED,
	INC_MSG_CONNECT,
	INC_MSG_CONNECTED,
	INC_MSG_REMOVE,
	INC_MSG_REMOVED,
	INC_MSG_QUERY,
	INC_MSG_ANSWER,
	INC_MSG_EVENT,
	INC_MSG_QUESTION,
	INC_MSG_TOLD,
	INC_MSG_SET_MODE,
	INC_MSG_MODE_SET,
	INC_MSG_ERROR,
	INC_MSG_PING,
	INC_MSG_PONG,
	INC_MSG_MAX
};

extern const struct inc_message inc_messages[INC_MSG_MAX];

/* What it says it is; "" where it does not. */
const char *inc_message_type(const struct json_t *object);
/* Is this the type of that message? Some have another one's: what asks and what answers, say. */
bool inc_message_is(const char *type, enum inc_message_id id);
/* The fields of a message into its struct: 0 or -EINVAL with a message. */
int inc_message_read(enum inc_message_id id, const struct json_t *object, void *out,
		     struct inc_err *err);
/* A message from its struct; in may be NULL where it has no fields but "type". NULL: no memory. */
struct json_t *inc_message_new(enum inc_message_id id, const void *in);
/* The same of another protocol's table. */
struct json_t *inc_message_print(const struct inc_message *message, const void *in);

#endif
