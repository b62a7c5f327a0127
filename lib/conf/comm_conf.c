/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/conf/comm_conf.h"
#include "lib/proto/roce.h"

const char *const inc_byte_orders[] = {"little", "network", NULL};

bool inc_payload_good(uint64_t payload)
{
	return inc_payload_ok(payload);
}

bool inc_slots_good(uint64_t slots)
{
	return inc_slots_ok(slots);
}

bool inc_pkey_good(uint64_t pkey)
{
	return pkey <= UINT16_MAX && pkey & INC_PKEY_BITS;
}

#define CONN(member) INC_AT(struct inc_conn_conf, member)
#define GIVEN(flag)  .given = offsetof(struct inc_conn_conf, flag)

static const struct inc_field conn_fields[] = {
	{"up", INC_BOOL, INC_DEFAULT, CONN(up), .text = "to a parent switch"},
	{"communicator", INC_UINT, INC_DEFAULT, INC_FILE_ONLY, CONN(communicator),
	 .max = UINT32_MAX, .text = "whose connection this is"},
	{"host_id", INC_UINT, INC_REQUIRED, CONN(rank), .max = INC_MAX_RANKS - 1,
	 .text = "the child's rank; of a switch, the lowest below it"},
	{"ranks", INC_RANKS, INC_OPTIONAL, CONN(ranks), GIVEN(has_ranks),
	 .text = "all ranks below a child that is a switch (0-3,8); absent: host_id alone"},
	{"my_name", INC_WORD, INC_TOLD, CONN(port), .what = "an interface name",
	 .text = "port of the switch; in a file that does not say it, the one that has my_ip"},
	{"my_ip", INC_IPV4, INC_REQUIRED, CONN(own_ip), .text = "the switch's address"},
	{"my_mac", INC_MAC, INC_OPTIONAL, CONN(own_mac), GIVEN(has_own_mac),
	 .text = "source of the frames to the peer; absent: the port's"},
	{"my_port", INC_UDP_PORT_FIELD, .need = INC_DEFAULT, CONN(own_port),
	 .text = "UDP source port"},
	{"my_qp", INC_QPN_FIELD, .need = INC_REQUIRED, CONN(own_qp),
	 .text = "the switch's queue pair"},
	{"my_psn", INC_PSN_FIELD, .need = INC_TOLD, CONN(own_psn),
	 .text = "PSN of the first result"},
	{"peer_ip", INC_IPV4, INC_REQUIRED, CONN(peer_ip), .text = "the peer's address"},
	{"peer_mac", INC_MAC, INC_OPTIONAL, CONN(peer_mac), GIVEN(has_peer_mac),
	 .text = "where the peer is; absent: the kernel's neighbour table, then its frames tell"},
	{"peer_port", INC_UDP_PORT_FIELD, .need = INC_DEFAULT, CONN(peer_port),
	 .text = "UDP port on which the peer receives"},
	{"peer_qp", INC_QPN_FIELD, .need = INC_REQUIRED, CONN(peer_qp),
	 .text = "the peer's queue pair"},
	{"psn", INC_PSN_FIELD, .need = INC_TOLD, CONN(peer_psn),
	 .text = "PSN of the peer's first packet"},
	{"pkey", INC_PKEY_FIELD, .need = INC_DEFAULT, CONN(pkey), .def = INC_PKEY_DEFAULT,
	 .text = "P_Key of the connection"},
	{"udp_csum", INC_BOOL, INC_DEFAULT, CONN(udp_csum), .text = "results carry a UDP checksum"},
};

const struct inc_schema inc_conn_schema = INC_SCHEMA(struct inc_conn_conf, conn_fields);

#define COMM(member) INC_AT(struct inc_comm_conf, member)

static const struct inc_field comm_fields[] = {
	{"communicator", INC_UINT, INC_REQUIRED, COMM(communicator), .max = UINT32_MAX,
	 .text = "its number, unique in the switch"},
	{"root", INC_BOOL, INC_DEFAULT, INC_MESSAGE_ONLY, COMM(root), .def = true,
	 .text = "no connection is up"},
	{"payload", INC_PAYLOAD_FIELD, .need = INC_TOLD, COMM(payload), .def = INC_DEF_PAYLOAD,
	 .text = "bytes of a packet"},
	{"slots", INC_SLOTS_FIELD, .need = INC_TOLD, COMM(slots), .def = INC_DEF_SLOTS,
	 .text = "packets under way"},
	{"byte_order", INC_CHOICE, INC_DEFAULT, COMM(byte_order), .names = inc_byte_orders,
	 .text = "of the numbers that are added"},
	{"connections", .need = INC_REQUIRED, .form = INC_MESSAGE_ONLY,
	 INC_LIST_AT(struct inc_comm_conf, conn, n_conns, &inc_conn_schema), .min = 1,
	 .text = "children, those of one port together; last the one that is up"},
};

const struct inc_schema inc_comm_schema = INC_SCHEMA(struct inc_comm_conf, comm_fields);
