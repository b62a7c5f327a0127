/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the control plane as structs and tables, which messages.def defines. The
 * controller, inc-switchd and libinccl read and make their messages by these tables. A test
 * compares docs/control.md with them.
 */
#ifndef INC_MESSAGES_H
#define INC_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/event_kind.h"
#include "lib/conf/schema.h"
#include "lib/proto/maps.h"
#include "lib/proto/rc_end.h"

struct json_t; /* a JSON value; the library jansson defines this struct */

#define INC_CONTROL_VERSION 3
#define INC_MAX_WORLD       1024
#define INC_MAX_GROUP_COMMS 64 /* limit of communicators of one group at the same time */
/* Limit of the channels of one communicator, and the position of a channel's number in a
 * communicator's index (inc_channel_index()). */
#define INC_MAX_CHANNELS  16
#define INC_CHANNEL_SHIFT 27
/* the least MTU that IPv4 allows, as the lower bound of MTUs in messages */
#define INC_MIN_MTU          68
#define INC_MAX_MTU          65535
#define INC_MAX_ADDRS        64 /* limit of addresses of one member */
#define INC_CONTROL_NAME_LEN 65 /* size of the names of jobs and hosts, with the final 0 */
/* The names of the groups of MPI programs (hostlib/mpi) begin so, and end with this number of
 * random hexadecimal digits. incctl shows by that what they are. */
#define INC_CONTROL_MPI_JOB       "mpi-"
#define INC_CONTROL_JOB_DIGITS    16
#define INC_MAX_NODE_RANKS        64  /* limit of the ranks of a group that share memory */
#define INC_CONTROL_MACHINE_LEN   17  /* size of what identifies a member's machine */
#define INC_CONTROL_MEETING_LEN   33  /* size of where the members of a machine meet */
#define INC_CONTROL_SWITCH_LEN    16  /* size of a switch's name, with the final 0 */
#define INC_CONTROL_TRANSPORT_LEN 16  /* size of a transport's name */
#define INC_CONTROL_PORT_LEN      16  /* size of a port's name */
#define INC_CONTROL_REASON_LEN    120 /* size of the reason why a member does not use a NIC */
#define INC_CONTROL_DOWN_LEN      160 /* size of the reason why a port cannot be used */
#define INC_CONTROL_TREE_LEN      160
#define INC_CONTROL_CHOICE_LEN    80  /* size of the reason why a mode was chosen */
#define INC_CONTROL_SLOW_LEN      480 /* size of an advice about slow modes */
/* A wait for other ranks is reported to the ranks that wait when it has lasted for the first time,
 * and then again each time that the second one has passed. */
#define INC_WAIT_FIRST_MS 5000
#define INC_WAIT_NEXT_MS  10000
/* Limit of the endpoints of a switch, which has at most one of each kind at each port. */
#define INC_MAX_ENDPOINTS (INC_MAX_PORTS * INC_N_ENDPOINT_KINDS)

extern const char *const inc_operator_names[]; /* names of enum inc_operator */
extern const char *const inc_dtype_names[];    /* names of enum inc_dtype */

/*
 * A member's communicator may have several channels. To the controller and to switches each channel
 * is a communicator of its own, with a number of its own. Its index in the group, the field "comm",
 * is that of channel 0 plus the channel's number times 2^INC_CHANNEL_SHIFT. So one number names the
 * channel in every message, error and row of the database.
 */
static inline uint32_t inc_channel_index(uint32_t comm, unsigned int channel)
{
	return comm | (uint32_t)channel << INC_CHANNEL_SHIFT;
}

/* Returns the number of the channel that has this index. */
static inline unsigned int inc_channel_of(uint32_t index)
{
	return index >> INC_CHANNEL_SHIFT;
}

/* Returns, from the index of any channel, the index of channel 0 of the same communicator. */
static inline uint32_t inc_channel_comm(uint32_t index)
{
	return index & ((1u << INC_CHANNEL_SHIFT) - 1);
}

/* From messages.def: struct inc_msg_S for each STRUCT(S), the enums, and the schema of each STRUCT
 * and TABLE. */
/* clang-format off */
#define ENUM(TAG, NAMES) extern const char *const NAMES[]; enum TAG {
#define NAME(VALUE, TEXT) VALUE,
#define END_ENUM };
#define STRUCT(S) extern const struct inc_schema inc_##S##_schema; struct inc_msg_##S {
#define ROW(S, MEMBER, KEY, NEED, TYPE, TEXT) typeof(TYPE) MEMBER; NEED(S, MEMBER)
#define LIST(S, MEMBER, COUNT, KEY, NEED, E, MIN, MAX, TEXT) \
	uint32_t COUNT; struct inc_msg_##E MEMBER[MAX];
#define VALUES(S, MEMBER, COUNT, KEY, NEED, TYPE, MIN, MAX, TEXT) \
	uint32_t COUNT; typeof(INC_TYPE_##TYPE) MEMBER[MAX];
#define OTHER(KEY, NEED, VALUE, TEXT)
#define PART(S, TYPE, MEMBER, ...) TYPE MEMBER;
#define RC_END(S, MEMBER, ...) struct inc_rc_end MEMBER;
#define END(S) };
#define TABLE(T, S, ...) extern const struct inc_schema inc_##T##_schema;
#define INC_TYPE(TYPE, ...) TYPE
/* The word NEED of a row in messages.def is a macro. FLAG is called with the (S, MEMBER) that
 * follows NEED there. */
#define INC_NEED(FLAG, ...) FLAG
#define INC_FLAG_NO(S, MEMBER)
#define INC_FLAG_HAS(S, MEMBER) bool has_##MEMBER;
/* clang-format on */
#include "lib/conf/messages.def"

enum inc_message_id {
#define MESSAGE(ID, KEY, FROM, TO, S, TEXT) INC_MSG_##ID,
#include "lib/conf/messages.def"
	INC_MSG_MAX
};

/*
 * Parts of the answer to "neighbours", which inc-switchd prints and inc-controller --discover
 * reads. Their tables are in messages.c.
 */
#define INC_LLDP_LINE 64 /* size of a text that an LLDP frame has */

/* An entry of the kernel's neighbour table. */
struct inc_msg_neighbour {
	struct in_addr ip;
	uint8_t mac[6];
	bool stale; /* the neighbour has not confirmed it lately */
};

/* The sender of an LLDP frame. */
struct inc_msg_introduced {
	uint8_t mac[6];
	char chassis[INC_LLDP_LINE], port[INC_LLDP_LINE], name[INC_LLDP_LINE];
	bool has_address;
	struct in_addr address;
};

/* A port itself, without its neighbours. */
struct inc_msg_place {
	char name[INC_CONTROL_PORT_LEN];
	bool has_ip, has_mac;
	struct in_addr ip;
	uint32_t prefix;
	uint8_t mac[6];
	uint32_t mtu, speed_mbit;
	bool lldp; /* the switch receives LLDP frames there */
};

extern const struct inc_schema inc_neighbour_schema, inc_introduced_schema, inc_place_schema;

struct inc_message {
	const char *type;
	/* names of the message's sender and receiver, which only the documents use */
	const char *from, *to;
	struct inc_schema schema;
	const char *text;
};

extern const struct inc_message inc_messages[INC_MSG_MAX];

/* Returns the value of the field "type", or "" if the object has none. */
const char *inc_message_type(const struct json_t *object);
/* Whether type is the name of message id. Several messages share a name: a request and its
 * answer, for example. */
bool inc_message_is(const char *type, enum inc_message_id id);
/* Reads the fields of a message into its struct. Returns 0, or -EINVAL with a message. */
int inc_message_read(enum inc_message_id id, const struct json_t *object, void *out,
		     struct inc_err *err);
/* Makes a JSON message from the struct `in` of message id. in may be NULL if "type" is the
 * message's only field. Returns NULL if there is no memory. */
struct json_t *inc_message_new(enum inc_message_id id, const void *in);
/* Makes a JSON message like inc_message_new(), but from a table that is not in messages.def,
 * because the message belongs to another protocol. */
struct json_t *inc_message_print(const struct inc_message *message, const void *in);

#endif
