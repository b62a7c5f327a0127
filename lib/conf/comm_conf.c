/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/opt.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/frame.h"
#include "lib/proto/roce.h"

const char *const inc_byte_orders[] = {"little", "network", NULL};
#define MODE_NAMES [INC_PASSTHROUGH] = "passthrough", [INC_TERMINATION] = "termination"
const char *const inc_modes_of_switch[] = {MODE_NAMES, NULL};
#define MODE_SETTINGS MODE_NAMES, [INC_AUTO] = "auto"
const char *const inc_mode_settings[] = {MODE_SETTINGS, NULL};
const char *const inc_mode_orders[] = {MODE_SETTINGS, [INC_MODE_DEFAULT] = "default", NULL};
const char *const inc_float_forms[] = {
	[INC_FLOATS_FIXED] = "fixed", [INC_FLOATS_NATIVE] = "native", NULL};
const char *const inc_endpoint_kinds[] = {
	[INC_ENDPOINT_SOFT] = "soft", [INC_ENDPOINT_VERBS] = "verbs", NULL};

enum inc_endpoint_kind inc_endpoint_kind_of(const char *transport)
{
	enum inc_endpoint_kind kind;

	for (kind = 0; kind < INC_N_ENDPOINT_KINDS; kind++)
		if (!strcmp(inc_endpoint_kinds[kind], transport))
			return kind;
	return INC_ENDPOINT_SOFT;
}

bool inc_payload_good(uint64_t payload)
{
	return inc_payload_ok(payload);
}

bool inc_rc_payload_good(uint64_t payload)
{
	return inc_rc_payload_ok(payload);
}

bool inc_slots_good(uint64_t slots)
{
	return inc_slots_ok(slots);
}

bool inc_pkey_good(uint64_t pkey)
{
	return pkey <= UINT16_MAX && pkey & INC_PKEY_BITS;
}

bool inc_traffic_class_good(uint64_t traffic_class)
{
	return traffic_class <= UINT8_MAX && (traffic_class & INC_ECN_MASK) != INC_ECN_CE;
}

bool inc_verbs_conf_any(const struct inc_verbs_conf *conf)
{
	bool any = false;

#define _(name, min, max, text) any |= conf->has_##name;
	INC_VERBS_SWITCH_KEYS(_)
#undef _
	return any;
}

void inc_verbs_conf_complete(struct inc_verbs_conf *conf, const struct inc_verbs_conf *more)
{
#define _(name, min, max, text)                      \
	if (!conf->has_##name && more->has_##name) { \
		conf->has_##name = true;             \
		conf->name = more->name;             \
	}
	INC_VERBS_SWITCH_KEYS(_)
#undef _
}

const char *inc_verbs_conf_text(const struct inc_verbs_conf *conf, char buf[INC_VERBS_CONF_TEXT])
{
	size_t n = 0;

	strcpy(buf, "none");
#define _(key, min, max, text)                                                                 \
	if (conf->has_##key)                                                                   \
		n += snprintf(buf + n, INC_VERBS_CONF_TEXT - n, "%s" #key "=%u", n ? "," : "", \
			      conf->key);
	INC_VERBS_SWITCH_KEYS(_)
#undef _
	return buf;
}

void inc_conn_conf_add_verbs(struct inc_conn_conf *conn, const struct inc_verbs_conf *more)
{
	const struct inc_verbs_conf of_soft = {.traffic_class = more->traffic_class,
					       .has_traffic_class = more->has_traffic_class,
					       .sl = more->sl,
					       .has_sl = more->has_sl};

	inc_verbs_conf_complete(&conn->verbs,
				conn->own.kind == INC_ENDPOINT_VERBS ? more : &of_soft);
	conn->has_verbs = inc_verbs_conf_any(&conn->verbs);
}

/* Whether a key is traffic_class, the only one whose values need more than bounds. */
#define IS_CLASS(key) \
	(offsetof(struct inc_verbs_conf, key) == offsetof(struct inc_verbs_conf, traffic_class))

static const struct inc_field verbs_fields[] = {
#define _(key, low, high, help)                                 \
	{#key,                                                  \
	 INC_UINT,                                              \
	 INC_OPTIONAL,                                          \
	 INC_AT(struct inc_verbs_conf, key),                    \
	 .min = low,                                            \
	 .max = high,                                           \
	 .good = IS_CLASS(key) ? inc_traffic_class_good : NULL, \
	 .what = IS_CLASS(key) ? INC_TRAFFIC_CLASS_TEXT : NULL, \
	 .given = offsetof(struct inc_verbs_conf, has_##key),   \
	 .text = help},
	INC_VERBS_SWITCH_KEYS(_)
#undef _
};
const struct inc_schema inc_verbs_schema = INC_SCHEMA(struct inc_verbs_conf, verbs_fields);

#define CONN(member) INC_AT(struct inc_conn_conf, member)
#define GIVEN(flag)  .given = offsetof(struct inc_conn_conf, flag)
/* Macros for the rows of an end's numbers, which may become known later. old: the field's name in
 * older files. flag: the bool that is set if the field was present. */
#define LATER(old, what)     .need = INC_OPTIONAL, .empty = true, .alias = (old), .text = what
#define PSN(flag, old, what) .need = INC_LATER, GIVEN(flag), .alias = (old), .text = what

static const struct inc_field conn_fields[] = {
	{"up", INC_BOOL, INC_DEFAULT, CONN(up), .text = "to a parent switch"},
	{"communicator", INC_UINT, INC_DEFAULT, INC_FILE_ONLY, CONN(communicator),
	 .max = UINT32_MAX, .text = "whose connection this is"},
	{"host_id", INC_UINT, INC_REQUIRED, CONN(rank), .max = INC_MAX_RANKS - 1,
	 .text = "the child's rank; of a switch, the lowest below it"},
	{"ranks", INC_RANKS, INC_OPTIONAL, CONN(ranks), GIVEN(has_ranks),
	 .text = "all ranks behind a child that is a switch or a machine (0-3,8); absent: host_id "
		 "alone"},
	{"machine", INC_BOOL, INC_OPTIONAL, CONN(is_machine), GIVEN(has_machine),
	 .text = "the child is a host, whose rank leads the ranks of its machine"},
	{"own_name", INC_WORD, INC_TOLD, CONN(port), .alias = "my_name",
	 .what = "an interface name",
	 .text = "port of the switch; in a file that does not say it, the one that has own_ip"},
	{"own_ip", INC_ADDR, INC_REQUIRED, CONN(own.ip), .alias = "my_ip",
	 .text = "the switch's address"},
	{"own_mac", INC_MAC, INC_OPTIONAL, CONN(own_mac), GIVEN(has_own_mac), .alias = "my_mac",
	 .text = "source of the frames to the peer; absent: the port's"},
	INC_END_FIELDS(
		struct inc_conn_conf, own,
		LATER("my_port", "UDP source port; absent: " INC_STR(
					 INC_ROCE_UDP_PORT) ", of a message in termination mode: "
							    "the switch chooses"),
		LATER("my_qp", "the switch's queue pair; absent: the switch chooses (in "
			       "termination mode alone)"),
		PSN(has_own_psn, "my_psn",
		    "PSN of the first result; absent: the switch chooses (in termination mode "
		    "alone)")),
	{"own_endpoint", INC_CHOICE, INC_DEFAULT, CONN(own.kind), .names = inc_endpoint_kinds,
	 .alias = "endpoint", .text = "what it ends at in termination mode"},
	{"peer_ip", INC_ADDR, INC_REQUIRED, CONN(peer.ip), .text = "the peer's address"},
	{"peer_mac", INC_MAC, INC_OPTIONAL, CONN(peer_mac), GIVEN(has_peer_mac),
	 .text = "where the peer is; absent: the kernel's neighbour table, then its frames tell"},
	INC_END_FIELDS(struct inc_conn_conf, peer,
		       LATER(NULL, "UDP port on which the peer receives; absent: " INC_STR(
					   INC_ROCE_UDP_PORT) ", or as connect says"),
		       LATER(NULL,
			     "the peer's queue pair; absent: as connect says (in termination mode "
			     "alone)"),
		       PSN(has_peer_psn, "psn",
			   "PSN of the peer's first packet; absent where peer_qp is")),
	{"peer_endpoint", INC_CHOICE, INC_DEFAULT, CONN(peer.kind), .names = inc_endpoint_kinds,
	 .text = "what the peer is: of verbs, whose IP IDs a socket cannot know, a soft endpoint "
		 "takes any"},
	{"pkey", INC_PKEY_FIELD, .need = INC_DEFAULT, CONN(pkey), .def = INC_PKEY_DEFAULT,
	 .text = "P_Key of the connection"},
	{"udp_csum", INC_BOOL, INC_DEFAULT, CONN(udp_csum), .text = "results carry a UDP checksum"},
	{"verbs", INC_MAP, INC_OPTIONAL, CONN(verbs), GIVEN(has_verbs), .of = &inc_verbs_schema,
	 .text = "settings of the switch's queue pair; a soft endpoint and passthrough mode have "
		 "traffic_class alone"},
};

const struct inc_schema inc_conn_schema = INC_SCHEMA(struct inc_conn_conf, conn_fields);

#define COMM(member) INC_AT(struct inc_comm_conf, member)

static const struct inc_field comm_fields[] = {
	{"communicator", INC_UINT, INC_REQUIRED, COMM(communicator), .max = UINT32_MAX,
	 .text = "its number, unique in the switch"},
	{"mode", INC_CHOICE, INC_OPTIONAL, COMM(mode), .names = inc_modes_of_switch,
	 .given = offsetof(struct inc_comm_conf, has_mode),
	 .text = "absent: passthrough, in a file the switch's"},
	{"root", INC_BOOL, INC_DEFAULT, INC_MESSAGE_ONLY, COMM(root), .def = true,
	 .text = "no connection is up"},
	{"payload", INC_RC_PAYLOAD_FIELD, .need = INC_TOLD, COMM(payload), .def = INC_DEF_PAYLOAD,
	 .text = "bytes of a packet"},
	{"slots", INC_SLOTS_FIELD, .need = INC_TOLD, COMM(slots), .def = INC_DEF_SLOTS,
	 .text = "packets under way"},
	{"byte_order", INC_CHOICE, INC_DEFAULT, COMM(byte_order), .names = inc_byte_orders,
	 .text = "of the numbers that are added"},
	{"message_packets", INC_UINT, INC_OPTIONAL, COMM(message_packets), .min = 1,
	 .max = INC_MAX_MESSAGE_PACKETS, .empty = true,
	 .text = "packets of a message at most, 1 MiB together; absent: 1 (of termination mode)"},
	{"messages", INC_SLOTS_FIELD, .need = INC_OPTIONAL, COMM(messages), .empty = true,
	 .text = "messages under way of each peer; absent: as slots (of termination mode)"},
	/* the field is absent from a message if it is false, because an older switch does not know
	 * the field */
	{"reorder", INC_BOOL, INC_OPTIONAL, INC_MESSAGE_ONLY, COMM(reorder),
	 .given = offsetof(struct inc_comm_conf, has_reorder),
	 .text = "all children take results in any order, and contributions are kept in any (of "
		 "passthrough mode)"},
	{"floats", INC_CHOICE, INC_DEFAULT, COMM(floats), .names = inc_float_forms,
	 .text = "native: what descriptors call floats is added as floats (of termination mode)"},
	{"connections", .need = INC_REQUIRED, .form = INC_MESSAGE_ONLY,
	 INC_LIST_AT(struct inc_comm_conf, conn, n_conns, &inc_conn_schema), .min = 1,
	 .text = "children, those of one port together; last the one that is up"},
};

const struct inc_schema inc_comm_schema = INC_SCHEMA(struct inc_comm_conf, comm_fields);

static int missing(const char *field, struct inc_err *err)
{
	return inc_err_set(err, EINVAL, "'%s' is missing", field);
}

/* Checks that the own end of a connection can have its settings of queue pairs. */
static int settle_verbs(struct inc_conn_conf *conn, bool passes, struct inc_err *err)
{
	const uint32_t most_sl = passes ? INC_MAX_PCP : INC_MAX_SOFT_SL;
	struct inc_verbs_conf rest = conn->verbs;

	rest.has_traffic_class = rest.has_sl = false;
	if (passes && inc_verbs_conf_any(&rest))
		return inc_err_set(
			err, EINVAL,
			"'verbs' may have traffic_class and sl alone in passthrough mode, which "
			"has no queue pairs: remove the rest, or set mode: termination");
	if (conn->own.kind != INC_ENDPOINT_VERBS && inc_verbs_conf_any(&rest))
		return inc_err_set(
			err, EINVAL,
			"'verbs' of a soft endpoint may have traffic_class and sl alone: remove "
			"the rest, or set own_endpoint: verbs");
	if (conn->own.kind != INC_ENDPOINT_VERBS && conn->verbs.has_sl && conn->verbs.sl > most_sl)
		return inc_err_set(err, EINVAL, "'verbs': sl %u is not between 0 and %u %s",
				   conn->verbs.sl, most_sl,
				   passes ? "in passthrough mode" : "of a soft endpoint");
	conn->has_verbs = inc_verbs_conf_any(&conn->verbs);
	return 0;
}

int inc_conn_conf_settle(struct inc_conn_conf *conn, const struct inc_comm_conf *comm,
			 enum inc_field_form form, struct inc_err *err)
{
	const bool passes = comm->mode == INC_PASSTHROUGH, file = form == INC_FILE_ONLY;

	if (passes && !conn->own.qpn)
		return missing("own_qp", err);
	if ((passes || file) && !conn->peer.qpn)
		return missing("peer_qp", err);
	if (passes && !file && !conn->has_own_psn)
		return missing("own_psn", err);
	if (!file && conn->peer.qpn && !conn->has_peer_psn)
		return missing("peer_psn", err);
	if (passes && conn->own.kind != INC_ENDPOINT_SOFT)
		return inc_err_set(err, EINVAL, "'own_endpoint' is of termination mode");
	if ((passes || file) && !conn->own.udp_port)
		conn->own.udp_port = INC_ROCE_UDP_PORT;
	if (conn->peer.qpn && !conn->peer.udp_port)
		conn->peer.udp_port = INC_ROCE_UDP_PORT;
	conn->has_own_psn |= file;
	conn->has_peer_psn |= file;
	return settle_verbs(conn, passes, err);
}

static int settle_passthrough(const struct inc_comm_conf *comm, struct inc_err *err)
{
	const uint32_t children = comm->n_conns - !comm->root;

	if (!inc_payload_ok(comm->payload))
		return inc_err_set(err, EINVAL,
				   "communicator %u: payload %u, in passthrough mode at most %d",
				   comm->communicator, comm->payload, INC_MAX_PAYLOAD);
	if (comm->message_packets || comm->messages || comm->floats != INC_FLOATS_FIXED)
		return inc_err_set(
			err, EINVAL,
			"communicator %u: message_packets, messages and native floats are of "
			"termination mode",
			comm->communicator);
	if (children > inc_most_children(INC_PASSTHROUGH))
		return inc_err_set(err, EINVAL,
				   "communicator %u has %u children, in passthrough mode at most "
				   "%u",
				   comm->communicator, children,
				   inc_most_children(INC_PASSTHROUGH));
	return 0;
}

int inc_comm_conf_settle(struct inc_comm_conf *comm, struct inc_err *err)
{
	if (comm->mode == INC_PASSTHROUGH)
		return settle_passthrough(comm, err);
	if (!comm->message_packets)
		comm->message_packets = 1;
	if (!comm->messages)
		comm->messages = comm->slots;
	if (comm->message_packets * comm->payload > INC_MAX_MESSAGE_BYTES)
		return inc_err_set(err, EINVAL,
				   "communicator %u: messages of %u packets of %u bytes, at most "
				   "%d bytes",
				   comm->communicator, comm->message_packets, comm->payload,
				   INC_MAX_MESSAGE_BYTES);
	return 0;
}
