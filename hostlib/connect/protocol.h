/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages between a client and a service, as tables: lines of JSON over TCP (docs/connect.md,
 * "The wire"). Unknown fields are ignored, and every text, list and line has a maximum length. All
 * functions may be called on any thread.
 *
 *	client		service
 *	query		devices		the ports of the service
 *	connect		connected	makes a queue pair for one of these ports
 *	stats		figures		the service's counters
 *			error		instead of any answer
 */
#ifndef INC_CONNECT_PROTOCOL_H
#define INC_CONNECT_PROTOCOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"
#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "lib/rdma/gid.h"

#define CONNECT_VERSION     1
#define CONNECT_REQUEST_MAX (16u << 10) /* most bytes of a line of JSON from a client */
#define CONNECT_ANSWER_MAX  (1u << 20)  /* most bytes of a line of JSON from a service */

/* The fields of the messages query and stats. */
struct connect_query {
	uint32_t version;
};

/* One end of a connection, as a message describes it. InfiniBand ends have a lid, and RoCE v2 ends
 * have a gid. */
struct connect_info {
	char hostname[INC_CONNECT_HOST_SIZE];
	uint8_t dev;
	char dev_name[INC_CONNECT_NAME_SIZE];
	uint8_t port;
	uint8_t mtu; /* active MTU of the port, as a code: 1 to 5 for 256 to 4096 bytes */
	uint32_t qp_num;
	uint32_t start_psn; /* PSN of the first packet that this end sends */
	bool has_lid, has_gid;
	uint16_t lid;
	char gid[INC_RDMA_GID_TEXT_SIZE];
};

struct connect_connect {
	uint32_t version;
	struct connect_info info;
	uint8_t target_dev;
	char target_devname[INC_CONNECT_NAME_SIZE];
	uint8_t target_port;
	struct inc_connect_settings config;
};

enum connect_message_id {
	CONNECT_MSG_QUERY,
	CONNECT_MSG_DEVICES,
	CONNECT_MSG_CONNECT,
	CONNECT_MSG_CONNECTED,
	CONNECT_MSG_ASK_FIGURES,
	CONNECT_MSG_FIGURES,
	CONNECT_MSG_ERROR, /* an error, whose fields are in inc_messages */
	CONNECT_MSG_MAX
};

/* The tables of the messages. The entry of CONNECT_MSG_ERROR is empty, because inc_messages has
 * it. */
extern const struct inc_message connect_messages[CONNECT_MSG_MAX];

/* Reads a message into its struct: query and stats into struct connect_query, devices into struct
 * inc_connect_devices, connect into struct connect_connect, connected into struct connect_info,
 * error into struct inc_msg_error. For figures out is NULL, because the caller reads their
 * "families" itself. Returns 0, or -EINVAL if a field is wrong, which err names, or
 * -EPROTONOSUPPORT for another version of the protocol. */
int connect_read(enum connect_message_id id, const json_t *message, void *out, struct inc_err *err);
/* Makes a message from its struct, which is the reverse of connect_read(). Returns NULL if there is
 * no memory. */
json_t *connect_new(enum connect_message_id id, const void *in);

/* Returns the link layer of an end of a connection. It is 0 if its message has both a lid and a
 * gid, or neither. */
enum inc_connect_link_layer connect_link_of(const struct connect_info *info);

#endif
