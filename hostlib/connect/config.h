/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The settings of a context: its file (docs/connect.md, "The file"), numbers that follow from the
 * settings of a queue pair, and the zones of a port. Nothing here uses a device. All functions may
 * be called on any thread.
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
#include "lib/rdma/info.h"

/* Names and link layers of lib/rdma must have the same form in inc_connect.h, because they are
 * passed to callers and peers unchanged. */
_Static_assert(INC_CONNECT_NAME_SIZE == INC_RDMA_NAME_SIZE, "names are copied whole");
_Static_assert((int)INC_CONNECT_INFINIBAND == INC_RDMA_LINK_INFINIBAND &&
		       (int)INC_CONNECT_ETHERNET == INC_RDMA_LINK_ETHERNET,
	       "link layers have the same numbers");

#define CONNECT_MAX_SUBNETS 256
#define CONNECT_MAX_ALLOWED 64 /* most devices and ports in the configuration file's list */
/* Limit of buf_size * send_buf_cnt, because a peer chooses both settings, and this side must lock
 * the memory. */
#define CONNECT_MAX_BUFFER_BYTES (256u << 20)

struct connect_zone {
	char name[INC_CONNECT_NAME_SIZE];
};

struct connect_zones {
	uint32_t n;
	struct connect_zone zone[INC_CONNECT_MAX_ZONES];
};

/* A subnet of the configuration file, whose zones all ports with an address in it have. */
struct connect_subnet {
	char text[20];      /* the subnet as text, such as "10.1.0.0/16" */
	uint32_t net, mask; /* network and netmask in host byte order */
	struct connect_zones zones;
};

/* An entry of the file's list of devices and ports that may be used. If the list is empty, all may
 * be used. */
struct connect_allowed {
	char device[INC_RDMA_NAME_SIZE];
	uint8_t port; /* number of the port; 0: all ports of the device */
	/* Zones of the port. If there are any, the port's addresses do not count for its zones. */
	struct connect_zones zones;
};

struct connect_config {
	uint32_t n_subnets;
	struct connect_subnet subnets[CONNECT_MAX_SUBNETS];
	/* zones of a port whose addresses are in none of the subnets */
	struct connect_zones default_zones;
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
/* Reads a configuration file into config. Settings that the file lacks keep their value. Returns 0,
 * or -EINVAL or another -errno; err names the file, line and field. */
int connect_config_read(const char *path, struct connect_config *config, struct inc_err *err);

/* Describes the fields of the configuration file. */
extern const struct inc_schema connect_config_schema;
/* Describes the settings of a queue pair, in the file and in a peer's message; an absent field has
 * its default. The fields are the rows of INC_CONNECT_SETTINGS, so a new row adds a setting here,
 * in the file and on the wire. Tests report documents, manual pages and samples that lack it. */
extern const struct inc_schema connect_settings_schema;
/* Describes a zone in the file, which has no fields but is written as its name alone. */
extern const struct inc_schema connect_zone_schema;

/* Copies the settings of a caller, whose struct may be older or newer than this library's. Settings
 * that an older struct lacks get their defaults. Returns 0, or -EINVAL if a field is out of bounds
 * or conflicts with another, which err names. Returns -E2BIG if a newer struct has settings that
 * this library does not have. */
int connect_settings_take(const struct inc_connect_settings *given,
			  struct inc_connect_settings *settings, struct inc_err *err);
/* Checks whether settings conflict with each other; each must be within its own bounds already.
 * Returns NULL, or the name of a field that conflicts with another one, with the reason in why. */
const char *connect_settings_wrong(const struct inc_connect_settings *settings,
				   struct inc_err *why);

/* Returns how many ACKs may be in the send queue at once: one for each batch of buffers, and 4 to
 * spare. */
static inline uint32_t connect_ack_bufs(const struct inc_connect_settings *s)
{
	return (s->send_buf_cnt + s->buf_ack_batch - 1) / s->buf_ack_batch + 4;
}

/* Returns the number of requests in a send queue: messages, ACKs, transfers, the probe and the
 * close. */
static inline uint32_t connect_send_wr(const struct inc_connect_settings *s)
{
	return s->send_buf_cnt + connect_ack_bufs(s) + s->max_rdma_wr + 2;
}

/* Returns the number of receives in a receive queue: for the peer's messages, ACKs and close. The
 * peer's probe uses one of the receives that the ACKs have to spare. */
static inline uint32_t connect_recv_wr(const struct inc_connect_settings *s)
{
	return s->send_buf_cnt + connect_ack_bufs(s) + 1;
}

static inline uint32_t connect_cq_entries(const struct inc_connect_settings *s)
{
	return connect_send_wr(s) + connect_recv_wr(s);
}

/* Returns the capabilities that a queue pair with these settings needs. */
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

/* Checks whether a device supports the settings. device is its name. Returns 0, or -EINVAL, and err
 * names the setting. Limits of the port are checked by connect_socket_make(), which knows the
 * port. */
int connect_settings_fit(const struct inc_connect_settings *settings, const char *device,
			 const struct inc_rdma_limits *limits, struct inc_err *err);

/* Returns the memory that one end of a connection locks for messages in both directions. */
static inline uint64_t connect_buffer_bytes(const struct inc_connect_settings *s)
{
	return ((uint64_t)s->send_buf_cnt + connect_recv_wr(s)) * s->buf_size;
}

/* Returns the memory that a socket needs: its buffers and its send queue, whose requests have room
 * for max_sge pieces each. Its other queues are small in comparison. */
static inline uint64_t connect_socket_bytes(const struct inc_connect_settings *s)
{
	return connect_buffer_bytes(s) +
	       (uint64_t)connect_send_wr(s) * s->max_sge * sizeof(struct ibv_sge);
}

/* Finds the zones of a port. They are those of its entry in the file's list of devices, if that has
 * any. Otherwise they are those of all subnets that contain one of its addresses, or else the
 * default zones. */
void connect_port_zones(const struct connect_config *config, const char *device,
			const struct inc_rdma_port_info *port, struct connect_zones *zones);

/* Converts the file's list of devices to the filter of lib/rdma/inventory.h, which points into
 * entries. */
void connect_config_filter(const struct connect_config *config,
			   struct inc_rdma_filter_entry entries[CONNECT_MAX_ALLOWED],
			   struct inc_rdma_filter *filter);

#endif
