/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What client and service say to each other: lines of JSON over TCP, as tables (docs/connect.md,
 * "The wire"). Fields that are not known are ignored; every text and list is bounded; a line is,
 * too. Any thread.
 *
 *	client		service
 *	query		devices		which ports there are
 *	connect		connected	a queue pair for one of them
 *	stats		figures		what it counts
 *			error		in the place of each answer
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
#define CONNECT_REQUEST_MAX (16u << 10) /* bytes of a client's line */
#define CONNECT_ANSWER_MAX  (1u << 20)  /* of a service's */

/* query, stats */
struct connect_query {
	uint32_t version;
};

/* One end of a connection. Its link says what it is: lid InfiniBand, gid RoCE v2. */
struct connect_info {
	char hostname[INC_CONNECT_HOST_SIZE];
	uint8_t dev;
	char dev_name[INC_CONNECT_NAME_SIZE];
	uint8_t port;
	uint8_t mtu; /* code, of the port */
	uint32_t qp_num;
	uint32_t start_psn; /* of the first packet that it sends */
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
	CONNECT_MSG_ERROR, /* inc_messages' own */
	CONNECT_MSG_MAX
};

/* ERROR's entry is empty: see inc_messages. */
extern const struct inc_message connect_messages[CONNECT_MSG_MAX];

/* A message into its struct: query and stats struct connect_query, devices struct
 * inc_connect_devices, connect struct connect_connect, connected struct connect_info, error struct
 * inc_msg_error; of figures, whose "families" their reader takes, NULL. 0, -EINVAL and the field
 * that is wrong, or -EPROTONOSUPPORT: of another version. */
int connect_read(enum connect_message_id id, const json_t *message, void *out, struct inc_err *err);
/* The reverse. NULL: no memory. */
json_t *connect_new(enum connect_message_id id, const void *in);

/* What kind of link the end has; 0 where it says both or none. */
enum inc_connect_link_layer connect_link_of(const struct connect_info *info);

#endif
