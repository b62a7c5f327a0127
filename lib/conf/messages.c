/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <string.h>
#include "lib/conf/messages_priv.h"

static const struct inc_field addr_field[] = {
	{NULL, INC_IPV4, .size = sizeof(struct in_addr)},
};
static const struct inc_schema addr_schema = {
	.fields = addr_field, .n = 1, .size = sizeof(struct in_addr)};

/* The fields that G and resume share. The struct of a resume begins with the struct of a G. */
/* clang-format off */
#define JOIN(member) INC_AT(struct inc_msg_join, member)
#define JOIN_FIELDS \
	{"version", INC_UINT, INC_DEFAULT, JOIN(version), .min = 1, .max = UINT32_MAX, \
	 .def = INC_CONTROL_VERSION, .text = "of the protocol"}, \
	{"job", INC_WORD, INC_REQUIRED, JOIN(job), .text = "names the group"}, \
	{"rank", INC_UINT, INC_REQUIRED, JOIN(rank), .max = INC_MAX_WORLD - 1, \
	 .text = "the member's own, below world_size"}, \
	{"world_size", INC_UINT, INC_REQUIRED, JOIN(world_size), .min = 1, .max = INC_MAX_WORLD, \
	 .text = "ranks of the job"}, \
	{"addrs", .need = INC_REQUIRED, \
	 INC_LIST_AT(struct inc_msg_join, addrs, n_addrs, &addr_schema), .min = 1, \
	 .text = "the member's addresses; the first that the topology knows counts"}, \
	{"host", INC_WORD, INC_OPTIONAL, JOIN(host), .empty = true, \
	 .text = "what the member calls its machine"}
/* clang-format on */

const char *const inc_derive_hows[] = {
	[INC_DERIVE_SPLIT] = "split",
	[INC_DERIVE_DUPLICATE] = "duplicate",
	[INC_DERIVE_SHRINK] = "shrink",
	[INC_DERIVE_GROW] = "grow",
	NULL,
};

static const struct inc_field derive_fields[] = {
	{"how", INC_CHOICE, INC_REQUIRED, INC_AT(struct inc_msg_derive, how),
	 .names = inc_derive_hows, .text = "what becomes of the other group"},
	{"of", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_derive, of), .min = 1,
	 .max = UINT32_MAX, .given = offsetof(struct inc_msg_derive, has_of),
	 .text = "that group's number; absent: the member is new to a job that grows"},
	{"round", INC_UINT, INC_DEFAULT, INC_AT(struct inc_msg_derive, round), .max = INT32_MAX,
	 .text = "that group's own count of what is made of it; shrinks have one of their own"},
	{"color", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_derive, color), .max = INT32_MAX,
	 .given = offsetof(struct inc_msg_derive, has_color),
	 .text = "of a split: members of the same one form a group; absent: in none"},
	{"key", INC_INT, INC_DEFAULT, INC_AT(struct inc_msg_derive, key),
	 .text = "of a split: orders the ranks of a color; equal ones stay in order"},
};

static const struct inc_schema derive_schema = INC_SCHEMA(struct inc_msg_derive, derive_fields);

static const struct inc_field join_fields[] = {
	JOIN_FIELDS,
	{"derive", INC_MAP, INC_OPTIONAL, JOIN(derive), .of = &derive_schema,
	 .given = offsetof(struct inc_msg_join, has_derive),
	 .text = "makes a group of another one: job, rank and world_size are that one's, of a grow "
		 "the new size"},
};

static const struct inc_field joined_fields[] = {
	{"group", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_joined, group), .min = 1,
	 .max = UINT32_MAX, .text = "the group's number"},
	{"addr", INC_IPV4, INC_REQUIRED, INC_AT(struct inc_msg_joined, addr),
	 .text = "which of the member's addresses the topology has"},
	{"rank", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_joined, rank),
	 .max = INC_MAX_WORLD - 1, .text = "the member's own in this group"},
	{"world_size", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_joined, world_size),
	 .max = INC_MAX_WORLD,
	 .text = "ranks of this group; 0: none was made for the member, as it asked, and group is "
		 "the other one"},
};

static const struct inc_field ask_fields[] = {
	{"comm", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_ask, comm), .max = INT32_MAX,
	 .text = "the group's own count of its communicators"},
	{"transport", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_ask, transport),
	 .text = "soft or verbs; shown by incctl"},
	{"qpn", INC_QPN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_ask, qpn),
	 .text = "the member's queue pair"},
	{"psn", INC_PSN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_ask, psn),
	 .text = "of the first packet the member sends"},
	{"udp_port", INC_UDP_PORT_FIELD, .need = INC_DEFAULT, INC_AT(struct inc_msg_ask, udp_port),
	 .text = "where its endpoint receives"},
	{"payload", INC_PAYLOAD_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_ask, payload),
	 .text = "the largest path MTU the member can use; the smallest of all counts"},
	{"message_packets", INC_UINT, INC_DEFAULT, INC_AT(struct inc_msg_ask, message_packets),
	 .max = INC_MAX_MESSAGE_PACKETS, .def = 1,
	 .text = "the same everywhere; 0: what suits the tree"},
	{"window", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_ask, window), .min = 1,
	 .max = INC_MAX_SLOTS, .text = "in messages"},
	{"pkey", INC_PKEY_FIELD, .need = INC_DEFAULT, INC_AT(struct inc_msg_ask, pkey),
	 .def = INC_PKEY_DEFAULT, .text = "P_Key of the connection"},
	{"udp_csum", INC_BOOL, INC_DEFAULT, INC_AT(struct inc_msg_ask, udp_csum),
	 .text = "results shall carry a UDP checksum"},
	{"byte_order", INC_CHOICE, INC_DEFAULT, INC_AT(struct inc_msg_ask, byte_order),
	 .names = inc_byte_orders, .text = "of the numbers that are added, the same everywhere"},
	{"floats", INC_CHOICE, INC_DEFAULT, INC_AT(struct inc_msg_ask, floats),
	 .names = inc_float_forms,
	 .text = "native: the member can send floats as they are, if the tree can add them"},
};

const char *const inc_tree_modes[] = {
	[INC_TREE_PASSTHROUGH] = "passthrough",
	[INC_TREE_TERMINATION] = "termination",
	[INC_TREE_MIXED] = "mixed",
	NULL,
};

/* The properties on which the tree's switches and the members have agreed. A claim repeats what
 * the member received. */
/* clang-format off */
#define AGREED_FIELDS(type) \
	{"mode", INC_CHOICE, INC_DEFAULT, INC_AT(type, mode), .names = inc_tree_modes, \
	 .text = "of its switches"}, \
	{"floats", INC_CHOICE, INC_DEFAULT, INC_AT(type, floats), .names = inc_float_forms, \
	 .text = "native: they add floats as they are; fixed: as integers that hosts make of them"}, \
	{"message_packets", INC_UINT, INC_OPTIONAL, INC_AT(type, message_packets), .min = 1, \
	 .max = INC_MAX_MESSAGE_PACKETS, .empty = true, \
	 .text = "of a message at most; absent: as C asked"}, \
	{"messages", INC_SLOTS_FIELD, .need = INC_OPTIONAL, INC_AT(type, messages), .empty = true, \
	 .text = "under way at most; absent: as slots and message_packets say"}
/* clang-format on */

static const struct inc_field endpoint_fields[] = {
	{"switch", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_endpoint, node),
	 .text = "the switch of the member's connection"},
	{"peer_ip", INC_IPV4, INC_REQUIRED, INC_AT(struct inc_msg_endpoint, peer_ip),
	 .text = "the switch's address"},
	{"peer_port", INC_UDP_PORT_FIELD, .need = INC_REQUIRED,
	 INC_AT(struct inc_msg_endpoint, peer_port), .text = "the switch's UDP port"},
	{"peer_qp", INC_QPN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_endpoint, peer_qp),
	 .text = "the switch's queue pair"},
	{"peer_psn", INC_PSN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_endpoint, peer_psn),
	 .text = "PSN of the first result"},
	{"my_ip", INC_IPV4, INC_REQUIRED, INC_AT(struct inc_msg_endpoint, my_ip),
	 .text = "the member's address"},
};

static const struct inc_schema endpoint_schema =
	INC_SCHEMA(struct inc_msg_endpoint, endpoint_fields);

static const struct inc_field made_fields[] = {
	{"comm", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_made, comm), .max = INT32_MAX,
	 .text = "as asked"},
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_made, communicator),
	 .min = 1, .max = UINT32_MAX, .text = "its number from here on"},
	{"payload", INC_PAYLOAD_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_made, payload),
	 .text = "bytes of a packet"},
	{"slots", INC_SLOTS_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_made, slots),
	 .text = "packets under way at most"},
	AGREED_FIELDS(struct inc_msg_made),
	{"connection", INC_MAP, INC_REQUIRED, INC_AT(struct inc_msg_made, connection),
	 .of = &endpoint_schema, .text = "the member's, as the member sees it"},
	{"tree", INC_LINE, INC_HINT, INC_AT(struct inc_msg_made, tree),
	 .text = "the switches from the member's to the root, and how many there are in all"},
};

static const struct inc_field number_fields[] = {
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_number, communicator),
	 .min = 1, .max = UINT32_MAX, .text = "its number"},
};

static const struct inc_field report_fields[] = {
	{"communicator", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_report, communicator),
	 .min = 1, .max = UINT32_MAX, .given = offsetof(struct inc_msg_report, has_communicator),
	 .text = "which; absent: see comm"},
	{"comm", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_report, comm), .max = INT32_MAX,
	 .given = offsetof(struct inc_msg_report, has_comm),
	 .text = "which, before the communicator has a number"},
	{"derive", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_msg_report, derive),
	 .of = &derive_schema, .given = offsetof(struct inc_msg_report, has_derive),
	 .text = "which group that is made of this one; how and round count"},
	{"errno", INC_ERRNO, INC_REQUIRED, INC_AT(struct inc_msg_report, code),
	 .text = "what kind of failure"},
	{"message", INC_LINE, INC_REQUIRED, INC_AT(struct inc_msg_report, message),
	 .text = "one line"},
	{"rank", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_report, rank),
	 .max = INC_MAX_WORLD - 1, .given = offsetof(struct inc_msg_report, has_rank),
	 .text = "who is to blame; absent: not known"},
};

/* All fields are hints, because the failure counts even if a field cannot be read. */
static const struct inc_field failed_fields[] = {
	{"group", INC_UINT, INC_HINT, INC_AT(struct inc_msg_failed, group), .min = 1,
	 .max = UINT32_MAX, .text = "which group"},
	{"communicator", INC_UINT, INC_HINT, INC_AT(struct inc_msg_failed, communicator), .min = 1,
	 .max = UINT32_MAX, .given = offsetof(struct inc_msg_failed, has_communicator),
	 .text = "which; absent: all of the group"},
	{"rank", INC_UINT, INC_HINT, INC_AT(struct inc_msg_failed, rank), .max = INC_MAX_WORLD - 1,
	 .given = offsetof(struct inc_msg_failed, has_rank),
	 .text = "who is to blame; absent: not known"},
	{"errno", INC_ERRNO, INC_HINT, INC_AT(struct inc_msg_failed, code),
	 .text = "what kind of failure; absent: EREMOTEIO"},
	{"message", INC_LINE, INC_HINT, INC_AT(struct inc_msg_failed, message), .text = "one line"},
};

static const struct inc_field claim_fields[] = {
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_claim, communicator),
	 .min = 1, .max = UINT32_MAX, .text = "its number"},
	{"comm", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_claim, comm), .max = INT32_MAX,
	 .text = "the group's own count"},
	{"switch", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_claim, node),
	 .text = "the switch of the member's connection"},
	{"transport", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_claim, transport),
	 .text = "soft or verbs"},
	{"qpn", INC_QPN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_claim, qpn),
	 .text = "the member's queue pair"},
	{"udp_port", INC_UDP_PORT_FIELD, .need = INC_DEFAULT,
	 INC_AT(struct inc_msg_claim, udp_port), .text = "where its endpoint receives"},
	{"payload", INC_PAYLOAD_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_claim, payload),
	 .text = "as C answered"},
	{"slots", INC_SLOTS_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_claim, slots),
	 .text = "as C answered"},
	{"byte_order", INC_CHOICE, INC_DEFAULT, INC_AT(struct inc_msg_claim, byte_order),
	 .names = inc_byte_orders, .text = "as C asked"},
	AGREED_FIELDS(struct inc_msg_claim),
};

static const struct inc_schema claim_schema = INC_SCHEMA(struct inc_msg_claim, claim_fields);

static const struct inc_field resume_fields[] = {
	JOIN_FIELDS,
	{"group", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_resume, group), .min = 1,
	 .max = UINT32_MAX, .text = "as an earlier controller numbered it"},
	{"communicators", .need = INC_REQUIRED,
	 INC_LIST_AT(struct inc_msg_resume, claims, n_claims, &claim_schema), .min = 1,
	 .text = "what the member has"},
};

static const struct inc_field resumed_fields[] = {
	{"group", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_resumed, group), .min = 1,
	 .max = UINT32_MAX, .text = "the same"},
};

static const struct inc_field hello_fields[] = {
	{"version", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_hello, version), .min = 1,
	 .max = UINT32_MAX, .text = "of the protocol"},
	{"switch", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_hello, node),
	 .text = "its name, which the topology has"},
	{"limits", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_msg_hello, limits),
	 .of = &inc_limits_schema, .given = offsetof(struct inc_msg_hello, has_limits),
	 .text = "what it can hold in passthrough mode"},
	{"mode", INC_CHOICE, INC_DEFAULT, INC_AT(struct inc_msg_hello, mode),
	 .names = inc_modes_of_switch, .text = "where the topology does not say it"},
	{"engines", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_msg_hello, engines, n_engines, &inc_engine_schema),
	 .text = "the modes that it knows; absent: passthrough alone"},
	{"ports", INC_OTHER, INC_OPTIONAL, .what = "list of {name, ip, mac, mtu}",
	 .text = "what it has"},
	{"communicators", INC_OTHER, INC_OPTIONAL, .what = "list of numbers",
	 .text = "what it runs"},
	{"failures", INC_OTHER, INC_OPTIONAL, .what = "list of events",
	 .text = "of those, the first of each"},
};

static const struct inc_field welcome_fields[] = {
	{"switch", INC_OTHER, INC_REQUIRED, .what = "a name", .text = "as it said"},
	{"keep", INC_OTHER, INC_REQUIRED, .what = "list of numbers",
	 .text = "those of its communicators that it keeps"},
};

/* clang-format off */
#define SEQ_FIELD \
	{"seq", INC_OTHER, INC_OPTIONAL, .what = "a number", \
	 .text = "of the request; its answer, an error too, repeats it"}
/* clang-format on */

static const struct inc_field configure_fields[] = {
	SEQ_FIELD,
	{"config", INC_MAP, INC_REQUIRED, INC_AT(struct inc_msg_configure, config),
	 .of = &inc_comm_schema, .text = "one communicator: all of it or nothing"},
};

static const struct inc_field number_and_seq_fields[] = {
	SEQ_FIELD,
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_number, communicator),
	 .min = 1, .max = UINT32_MAX, .text = "its number"},
};

/* The fields that identify a connection, in lists of connections. */
/* clang-format off */
#define WHICH_FIELDS(type) \
	{"host_id", INC_UINT, INC_REQUIRED, INC_AT(type, rank), .max = INC_MAX_RANKS - 1, \
	 .text = "as in configure"}, \
	{"up", INC_BOOL, INC_DEFAULT, INC_AT(type, up), .text = "as in configure"}
/* clang-format on */

static const struct inc_field own_fields[] = {
	WHICH_FIELDS(struct inc_msg_own),
	{"my_qp", INC_QPN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_own, own_qp),
	 .text = "the switch's queue pair"},
	{"my_psn", INC_PSN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_own, own_psn),
	 .text = "PSN of the first result"},
	{"my_port", INC_UDP_PORT_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_own, own_port),
	 .text = "UDP port on which it receives"},
};
static const struct inc_schema own_schema = INC_SCHEMA(struct inc_msg_own, own_fields);

static const struct inc_field configured_fields[] = {
	SEQ_FIELD,
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_configured, communicator),
	 .min = 1, .max = UINT32_MAX, .text = "its number"},
	{"connections", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_msg_configured, conn, n_conns, &own_schema),
	 .text = "the switch's ends, in configure's order; absent: as configure has them"},
};

static const struct inc_field peer_fields[] = {
	WHICH_FIELDS(struct inc_msg_peer),
	{"peer_qp", INC_QPN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_peer, peer_qp),
	 .text = "the peer's queue pair"},
	{"psn", INC_PSN_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_msg_peer, peer_psn),
	 .text = "PSN of the peer's first packet"},
	{"peer_port", INC_UDP_PORT_FIELD, .need = INC_DEFAULT,
	 INC_AT(struct inc_msg_peer, peer_port), .text = "UDP port on which the peer receives"},
};
static const struct inc_schema peer_schema = INC_SCHEMA(struct inc_msg_peer, peer_fields);

static const struct inc_field connect_fields[] = {
	SEQ_FIELD,
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_connect, communicator),
	 .min = 1, .max = UINT32_MAX, .text = "its number"},
	{"connections", .need = INC_REQUIRED,
	 INC_LIST_AT(struct inc_msg_connect, conn, n_conns, &peer_schema), .min = 1,
	 .text = "those that were configured without their peers' numbers"},
};

static const struct inc_field mode_fields[] = {
	{"switch", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_mode, node), .text = "which"},
	{"mode", INC_CHOICE, INC_REQUIRED, INC_AT(struct inc_msg_mode, mode),
	 .names = inc_modes_of_switch, .text = "of the communicators made from now on"},
};

#define ONE_COMMUNICATOR_FIELD                                                     \
	{                                                                          \
		"communicator", INC_UINT, INC_OPTIONAL,                            \
			INC_AT(struct inc_msg_query, communicator),                \
			.min = 1, .max = UINT32_MAX,                               \
			.given = offsetof(struct inc_msg_query, has_communicator), \
			.text = "only what is of this one; absent: of all"         \
	}

static const struct inc_field query_fields[] = {
	SEQ_FIELD,
	{"what", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_query, what),
	 .text = "the question"},
	ONE_COMMUNICATOR_FIELD,
	{"from", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_query, from), .max = UINT32_MAX,
	 .given = offsetof(struct inc_msg_query, has_from),
	 .text = "what the page before called next"},
};

static const struct inc_field answer_fields[] = {
	{"seq", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_answer, seq), .min = 1,
	 .max = INT64_MAX, .text = "of the query"},
	{"next", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_answer, next), .min = 1,
	 .max = UINT32_MAX, .text = "where the next page begins; absent: this is the last"},
	{"what", INC_OTHER, INC_REQUIRED, .what = "the question", .text = "as asked"},
	{"data", INC_OTHER, INC_REQUIRED, .what = "anything", .text = "the answer"},
};

static const struct inc_field event_fields[] = {
	{"switch", INC_WORD, INC_HINT, INC_AT(struct inc_msg_event, node), .text = "who says it"},
	{"time_ns", INC_UINT, INC_HINT, INC_AT(struct inc_msg_event, time_ns), .max = INT64_MAX,
	 .text = "since 1970"},
	{"event", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_event, event), .text = "its name"},
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_event, communicator),
	 .max = UINT32_MAX, .text = "whose; 0: the event is about a port"},
	{"rank", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_event, rank),
	 .max = INC_MAX_WORLD - 1, .given = offsetof(struct inc_msg_event, has_rank),
	 .text = "the first of ranks; of a switch: the lowest behind it; absent: the parent"},
	{"ranks", INC_OTHER, INC_OPTIONAL, .what = "list of numbers", .text = "who is to blame"},
	{"r", INC_UINT, INC_HINT, INC_AT(struct inc_msg_event, r), .max = INT64_MAX,
	 .text = "the chunk"},
	{"message", INC_LINE, INC_HINT, INC_AT(struct inc_msg_event, message), .text = "one line"},
};

static const struct inc_field question_fields[] = {
	{"what", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_query, what),
	 .text = "the question"},
	{"switch", INC_WORD, INC_OPTIONAL, INC_AT(struct inc_msg_query, node),
	 .given = offsetof(struct inc_msg_query, has_node), .text = "only this one; absent: all"},
	ONE_COMMUNICATOR_FIELD,
	{"from", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_query, from), .max = UINT32_MAX,
	 .given = offsetof(struct inc_msg_query, has_from),
	 .text = "what the page before called next"},
};

static const struct inc_field told_fields[] = {
	{"what", INC_OTHER, INC_REQUIRED, .what = "the question", .text = "as asked"},
	{"data", INC_OTHER, INC_REQUIRED, .what = "list",
	 .text = "of what switches are asked, one entry {switch, data, next, error} for each"},
};

static const struct inc_field error_fields[] = {
	{"seq", INC_UINT, INC_HINT, INC_AT(struct inc_msg_error, seq), .min = 1, .max = INT64_MAX,
	 .given = offsetof(struct inc_msg_error, has_seq), .text = "of the request that had one"},
	{"comm", INC_UINT, INC_HINT, INC_AT(struct inc_msg_error, comm), .max = UINT32_MAX,
	 .given = offsetof(struct inc_msg_error, has_comm), .text = "of the request that had one"},
	{"communicator", INC_UINT, INC_HINT, INC_AT(struct inc_msg_error, communicator),
	 .max = UINT32_MAX, .given = offsetof(struct inc_msg_error, has_communicator),
	 .text = "of the request that had one"},
	{"message", INC_LINE, INC_HINT, INC_AT(struct inc_msg_error, message), .text = "one line"},
	{"errno", INC_ERRNO, INC_HINT, INC_AT(struct inc_msg_error, code),
	 .text = "its symbolic name"},
};

/* A table, and the size of its struct; 0: it has none. */
#define TABLE(fields, bytes)                                        \
	{                                                           \
		fields, sizeof(fields) / sizeof((fields)[0]), bytes \
	}

const struct inc_message inc_messages[INC_MSG_MAX] = {
	[INC_MSG_JOIN] = {"G", "member", "controller",
			  TABLE(join_fields, sizeof(struct inc_msg_join)), "joins a group"},
	[INC_MSG_JOINED] = {"G", "controller", "member",
			    TABLE(joined_fields, sizeof(struct inc_msg_joined)),
			    "all ranks are there"},
	[INC_MSG_ASK] = {"C", "member", "controller", TABLE(ask_fields, sizeof(struct inc_msg_ask)),
			 "asks for a communicator"},
	[INC_MSG_MADE] = {"C", "controller", "member",
			  TABLE(made_fields, sizeof(struct inc_msg_made)), "it is configured"},
	[INC_MSG_READY] = {"ready", "member", "controller",
			   TABLE(number_fields, sizeof(struct inc_msg_number)),
			   "its queue pair can receive and send"},
	[INC_MSG_START] = {"start", "controller", "member",
			   TABLE(number_fields, sizeof(struct inc_msg_number)),
			   "so can all the others'"},
	[INC_MSG_DESTROY] = {"D", "both", "both",
			     TABLE(number_fields, sizeof(struct inc_msg_number)),
			     "destroys, and confirms it"},
	[INC_MSG_REPORT] = {"failed", "member", "controller",
			    TABLE(report_fields, sizeof(struct inc_msg_report)),
			    "its own side of a communicator has failed"},
	[INC_MSG_FAILED] = {"failed", "controller", "member",
			    TABLE(failed_fields, sizeof(struct inc_msg_failed)),
			    "a failure, of a communicator or the group"},
	[INC_MSG_BYE] = {"bye", "member", "controller", {}, "the close that follows is meant"},
	[INC_MSG_RESUME] = {"resume", "member", "controller",
			    TABLE(resume_fields, sizeof(struct inc_msg_resume)),
			    "what runs since an earlier controller"},
	[INC_MSG_RESUMED] = {"resumed", "controller", "member",
			     TABLE(resumed_fields, sizeof(struct inc_msg_resumed)), "it goes on"},
	[INC_MSG_HELLO] = {"hello", "switch", "controller",
			   TABLE(hello_fields, sizeof(struct inc_msg_hello)), "a switch is here"},
	[INC_MSG_WELCOME] = {"welcome", "controller", "switch", TABLE(welcome_fields, 0),
			     "and known"},
	[INC_MSG_CONFIGURE] = {"configure", "controller", "switch",
			       TABLE(configure_fields, sizeof(struct inc_msg_configure)),
			       "makes a communicator"},
	[INC_MSG_CONFIGURED] = {"configured", "switch", "controller",
				TABLE(configured_fields, sizeof(struct inc_msg_configured)),
				"it is made"},
	[INC_MSG_CONNECT] = {"connect", "controller", "switch",
			     TABLE(connect_fields, sizeof(struct inc_msg_connect)),
			     "the other ends of its connections"},
	[INC_MSG_CONNECTED] = {"connected", "switch", "controller",
			       TABLE(number_and_seq_fields, sizeof(struct inc_msg_number)),
			       "it knows them"},
	[INC_MSG_REMOVE] = {"remove", "controller", "switch",
			    TABLE(number_and_seq_fields, sizeof(struct inc_msg_number)),
			    "forgets a communicator"},
	[INC_MSG_REMOVED] = {"removed", "switch", "controller",
			     TABLE(number_and_seq_fields, sizeof(struct inc_msg_number)),
			     "it is forgotten"},
	[INC_MSG_QUERY] = {"query", "controller or tool", "switch",
			   TABLE(query_fields, sizeof(struct inc_msg_query)), "a question"},
	[INC_MSG_ANSWER] = {"answer", "switch", "controller or tool",
			    TABLE(answer_fields, sizeof(struct inc_msg_answer)), "and its answer"},
	[INC_MSG_EVENT] = {"event", "switch", "controller",
			   TABLE(event_fields, sizeof(struct inc_msg_event)),
			   "something has happened"},
	[INC_MSG_QUESTION] = {"A", "tool", "controller",
			      TABLE(question_fields, sizeof(struct inc_msg_query)), "a question"},
	[INC_MSG_TOLD] = {"A", "controller", "tool", TABLE(told_fields, 0), "and its answer"},
	[INC_MSG_SET_MODE] = {"mode", "tool", "controller",
			      TABLE(mode_fields, sizeof(struct inc_msg_mode)),
			      "changes a switch's mode"},
	[INC_MSG_MODE_SET] = {"mode", "controller", "tool",
			      TABLE(mode_fields, sizeof(struct inc_msg_mode)), "it is changed"},
	[INC_MSG_ERROR] = {"error", "anybody", "anybody",
			   TABLE(error_fields, sizeof(struct inc_msg_error)),
			   "why a request is not met"},
	[INC_MSG_PING] = {"ping", "anybody", "anybody", {}, "asks for a pong"},
	[INC_MSG_PONG] = {"pong", "anybody", "anybody", {}, "the peer lives"},
};

const char *inc_message_type(const json_t *object)
{
	return json_string_value(json_object_get(object, "type")) ?: "";
}

bool inc_message_is(const char *type, enum inc_message_id id)
{
	return strcmp(type, inc_messages[id].type) == 0;
}

int inc_message_read(enum inc_message_id id, const json_t *object, void *out, struct inc_err *err)
{
	return inc_schema_read_json(&inc_messages[id].schema, object, out, err);
}

json_t *inc_message_print(const struct inc_message *message, const void *in)
{
	json_t *fields = inc_schema_print(&message->schema, INC_MESSAGE_ONLY, in);
	json_t *object = json_pack("{s:s}", "type", message->type);

	if (!fields || !object || json_object_update(object, fields)) {
		json_decref(object);
		object = NULL;
	}
	json_decref(fields);
	return object;
}

json_t *inc_message_new(enum inc_message_id id, const void *in)
{
	return inc_message_print(&inc_messages[id], in);
}
