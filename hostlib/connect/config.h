/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A context's settings: the file (docs/connect.md, "The file"), the numbers that follow from a
 * queue pair's settings, and the zones of a port. Pure: no device is asked. Any thread.
 */
#ifndef INC_CONNECT_CONFIG_H
#define INC_CONNECT_CONFIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "hostlib/include/inc_connect.h"
#include "lib/base/err.h"
#include "lib/conf/schema.h"
#include "lib/rdma/caps.h"
#include "lib/rdma/info.h"

/* What the device says goes to callers and peers as it is. */
_Static_assert(INC_CONNECT_NAME_SIZE == INC_RDMA_NAME_SIZE, "names are copied whole");
_Static_assert((int)INC_CONNECT_INFINIBAND == INC_RDMA_LINK_INFINIBAND &&
		       (int)INC_CONNECT_ETHERNET == INC_RDMA_LINK_ETHERNET,
	       "link layers have the same numbers");

#define CONNECT_MAX_SUBNETS 256
#define CONNECT_MAX_ALLOWED 64 /* devices and ports that a file names */
/* Of messages under way in one direction: a peer asks for them, and we lock the memory. */
#define CONNECT_MAX_BUFFER_BYTES (256u << 20)

struct connect_zone {
	char name[INC_CONNECT_NAME_SIZE];
};

struct connect_zones {
	uint32_t n;
	struct connect_zone zone[INC_CONNECT_MAX_ZONES];
};

/* Zones of the ports that have an address in this subnet. */
struct connect_subnet {
	char text[20];      /* "10.1.0.0/16" */
	uint32_t net, mask; /* host order */
	struct connect_zones zones;
};

/* A device that may be used, or a port of it; without any, all may. */
struct connect_allowed {
	char device[INC_RDMA_NAME_SIZE];
	uint8_t port;               /* 0: all */
	struct connect_zones zones; /* instead of those of its addresses; none: of these */
};

struct connect_config {
	uint32_t n_subnets;
	struct connect_subnet subnets[CONNECT_MAX_SUBNETS];
	struct connect_zones default_zones; /* of ports in no subnet */
	uint32_t n_allowed;
	struct connect_allowed allowed[CONNECT_MAX_ALLOWED];
	bool allow_unknown_zone;
	bool prefer_ibdevice;
	bool allow_no_usable_devices;
	bool fork_safe;
	uint32_t refresh_ms;
	uint32_t accept_timeout_ms;
	struct inc_connect_settings queue_pair;
};

void connect_config_init(struct connect_config *config);
/* A file on top of what config has. 0, or -EINVAL or -errno: file, line and field. */
int connect_config_read(const char *path, struct connect_config *config, struct inc_err *err);

/* Of the file. */
extern const struct inc_schema connect_config_schema;
/* Of the settings, as a peer sends them, too: what is absent has its default. Its fields are the
 * rows of INC_CONNECT_SETTINGS: a row more is a setting more here, in the file and on the wire;
 * where else it must be written the tests of the document, the manual and the samples say. */
extern const struct inc_schema connect_settings_schema;
/* Of struct connect_zone: its name and nothing else. */
extern const struct inc_schema connect_zone_schema;

/* Settings that a caller gives, of whatever size; what an older one's do not have is at its
 * default. 0; -EINVAL with the field: out of its bounds, or not with another; -E2BIG: more is said
 * than this library knows. */
int connect_settings_take(const struct inc_connect_settings *given,
			  struct inc_connect_settings *settings, struct inc_err *err);
/* NULL, or the field that does not go with the others, and why. Each field's own bounds have been
 * kept. */
const char *connect_settings_wrong(const struct inc_connect_settings *settings,
				   struct inc_err *why);

/* ACKs of buffers that can be under way: one per batch, and some to spare. */
static inline uint32_t connect_ack_bufs(const struct inc_connect_settings *s)
{
	return (s->send_buf_cnt + s->buf_ack_batch - 1) / s->buf_ack_batch + 4;
}

/* Requests of the send queue: messages, ACKs, transfers, and the probe and the close. */
static inline uint32_t connect_send_wr(const struct inc_connect_settings *s)
{
	return s->send_buf_cnt + connect_ack_bufs(s) + s->max_rdma_wr + 2;
}

/* Of the receive queue: the peer's messages and ACKs, and its close; its probe has one of those
 * that ACKs have to spare. */
static inline uint32_t connect_recv_wr(const struct inc_connect_settings *s)
{
	return s->send_buf_cnt + connect_ack_bufs(s) + 1;
}

static inline uint32_t connect_cq_entries(const struct inc_connect_settings *s)
{
	return connect_send_wr(s) + connect_recv_wr(s);
}

/* Of the queue pair. */
static inline struct inc_rdma_qp_caps connect_qp_caps(const struct inc_connect_settings *s)
{
	return (struct inc_rdma_qp_caps){
		.send_wr = connect_send_wr(s),
		.recv_wr = connect_recv_wr(s),
		.send_sge = s->max_sge,
		.recv_sge = 1,
		.rd_atomic = s->max_rd_atomic,
		.dest_rd_atomic = s->max_rd_atomic,
	};
}

/* 0, or -EINVAL: what the device, named so, cannot do, with the field. What the settings ask of a
 * port stands with whoever has the port. */
int connect_settings_fit(const struct inc_connect_settings *settings, const char *device,
			 const struct inc_rdma_limits *limits, struct inc_err *err);

/* Memory that a connection's own end locks for messages, of both directions. */
static inline uint64_t connect_buffer_bytes(const struct inc_connect_settings *s)
{
	return ((uint64_t)s->send_buf_cnt + connect_recv_wr(s)) * s->buf_size;
}

/* Bytes that a socket keeps, all in all: its buffers, and the send queue, whose requests have room
 * for max_sge pieces each. The other queues are small beside these. */
static inline uint64_t connect_socket_bytes(const struct inc_connect_settings *s)
{
	return connect_buffer_bytes(s) +
	       (uint64_t)connect_send_wr(s) * s->max_sge * sizeof(struct ibv_sge);
}

/* The zones of a port: those that the file gives it by name, else those of all subnets that an
 * address of it is in, else the default ones. */
void connect_port_zones(const struct connect_config *config, const char *device,
			const struct inc_rdma_port_info *port, struct connect_zones *zones);

/* The file's devices as the inventory wants them; filter->entry points into entries. */
void connect_config_filter(const struct connect_config *config,
			   struct inc_rdma_filter_entry entries[CONNECT_MAX_ALLOWED],
			   struct inc_rdma_filter *filter);

#endif
