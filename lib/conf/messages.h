/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the control plane as tables (docs/control.md): every type, every field, its
 * bounds, and the struct that holds its values. The controller, inc-switchd and libinccl read and
 * make their messages by these tables. A test compares docs/control.md with them.
 *
 * Some fields have only a name here (INC_OTHER), and their owner reads them: lists of any length,
 * and answers whose shape depends on the question. "type" is not a field of the tables. A
 * request's "seq" is not in its struct, because the code that numbers requests adds it.
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
#define INC_MAX_GROUP_COMMS       64 /* of one group at the same time */
#define INC_MIN_MTU               68 /* the least that IPv4 allows */
#define INC_MAX_MTU               65535
#define INC_MAX_ADDRS             64 /* of one member */
#define INC_CONTROL_NAME_LEN      65 /* of names of jobs and hosts, with the terminator */
#define INC_CONTROL_SWITCH_LEN    16 /* of a switch's name, with the terminator */
#define INC_CONTROL_TRANSPORT_LEN 16 /* a transport's name */
#define INC_CONTROL_PORT_LEN      16 /* a port's name */
#define INC_CONTROL_TREE_LEN      160
/* Of a switch: one of each kind at each port. */
#define INC_MAX_ENDPOINTS (INC_MAX_PORTS * INC_N_ENDPOINT_KINDS)

/* How one group is derived from another. */
enum inc_derive_how {
	INC_DERIVE_SPLIT,
	INC_DERIVE_DUPLICATE,
	INC_DERIVE_SHRINK,
	INC_DERIVE_GROW,
};
extern const char *const inc_derive_hows[];

/* Describes the derived group: in a G that derives a group from another, and in a "failed" of a
 * member that cannot take part in it. */
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
	uint32_t world_size; /* 0: after a split, for a member that joins no new group */
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
	uint32_t floats;     /* enum inc_float_form: the best form that the member can send */
};

/* The modes of a tree's switches taken together. */
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
	uint32_t message_packets;        /* 0: as the member has asked */
	uint32_t messages;               /* in flight at most; 0: follows from slots */
	char tree[INC_CONTROL_TREE_LEN]; /* the tree's switches, by inc_tree_describe(), for
					  * people to read */
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
	uint32_t message_bytes; /* in termination mode, like window_bytes; 0: no limit was sent */
	uint32_t window_bytes;
};

/* A port and device at which connections can end in termination mode. */
struct inc_msg_offer {
	char port[INC_CONTROL_PORT_LEN];
	uint32_t kind; /* enum inc_endpoint_kind */
	char device[64];
	uint32_t payload;
	uint32_t message_bytes;
};

/* An operator, and the element types that an engine can combine with it. */
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
	bool has_limits;                 /* the limits are of passthrough mode */
	struct inc_msg_limits limits;
	uint32_t mode;      /* enum inc_mode_of_switch: the mode in its own configuration */
	uint32_t n_engines; /* 0: the switch has passthrough mode only */
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
	/* in the order of the connections in "configure" */
	struct inc_msg_own conn[INC_COMM_MAX_CONNECTIONS];
};

/* The peer's end of a connection that was configured without the peer's numbers. */
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
	char node[INC_CONTROL_NAME_LEN]; /* only of this switch */
	uint32_t communicator;           /* only of this one */
	uint32_t from;
};

/* Names of events about ports. INC_EVENT_PORT_BACK never concerns a communicator. */
#define INC_EVENT_PORT_LOST "port_lost"
#define INC_EVENT_PORT_BACK "port_back"
/* The switch stops, which ends the event's communicator. */
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

/* An error message. Callers of functions that send one pass what shall be repeated of the
 * request in such a struct (NULL: nothing). These functions fill in code and message. */
struct inc_msg_error {
	uint64_t seq;
	bool has_seq, has_comm, has_communicator;
	uint32_t comm;         /* the index that the group counts */
	uint32_t communicator; /* the number of the communicator in the controller */
	int code;
	char message[512];
};

/* Parts of the answers to queries of which the controller reads only these fields: a waiting
 * communicator, and the results of each communicator. */
struct inc_msg_missing {
	uint32_t rank; /* of a child switch: the lowest rank below it */
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

/* The fields of "answer". seq: also of any other message that answers a request. */
struct inc_msg_answer {
	uint64_t seq;
	uint32_t next; /* from where the next page begins; 0: this was the last page */
};

/* A port in "hello", with the fields that the controller reads. ip is a text, because the
 * controller only compares it, and an invalid address must not hide the MTU. */
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

/* The value of "type"; "" if the object has none. */
const char *inc_message_type(const struct json_t *object);
/* Whether type is the name of message id. Several messages share a name: a request and its
 * answer, for example. */
bool inc_message_is(const char *type, enum inc_message_id id);
/* Reads the fields of a message into its struct. Returns 0, or -EINVAL with a message. */
int inc_message_read(enum inc_message_id id, const struct json_t *object, void *out,
		     struct inc_err *err);
/* Makes a message from its struct; in may be NULL if "type" is its only field. NULL: no memory. */
struct json_t *inc_message_new(enum inc_message_id id, const void *in);
/* The same for a message of another protocol's table. */
struct json_t *inc_message_print(const struct inc_message *message, const void *in);

#endif
