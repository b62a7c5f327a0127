/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "lib/conf/comm_conf.h"
#include "hostlib/connect/config.h"
#include "hostlib/connect/protocol.h"

#define VERSION_FIELD(type)                                                       \
	{                                                                         \
		"version", INC_UINT, INC_REQUIRED, INC_AT(type, version),         \
			.min = 1, .max = UINT32_MAX, .text = "of the protocol: 1" \
	}
#define DEV_FIELD  .kind = INC_UINT, .max = UINT8_MAX
#define NAME_FIELD .kind = INC_WORD, .what = "a device's name"
#define PORT_FIELD .kind = INC_UINT, .min = 1, .max = 254

static const struct inc_field query_fields[] = {VERSION_FIELD(struct connect_query)};

_Static_assert(sizeof(((struct inc_connect_port *)0)->zones[0]) == sizeof(struct connect_zone),
	       "a zone is its name");

static const struct inc_field port_fields[] = {
	{"port", PORT_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_connect_port, port),
	 .text = "its number"},
	{"link_layer", INC_UINT, INC_REQUIRED, INC_AT(struct inc_connect_port, link_layer),
	 .min = INC_CONNECT_INFINIBAND, .max = INC_CONNECT_ETHERNET,
	 .text = "1: InfiniBand, 2: Ethernet"},
	{"zones", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_connect_port, zones, n_zones, &connect_zone_schema),
	 .text = "that it is in"},
};
static const struct inc_schema port_schema = INC_SCHEMA(struct inc_connect_port, port_fields);

static const struct inc_field device_fields[] = {
	{"dev", DEV_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_connect_device, dev),
	 .text = "its number there"},
	{"dev_name", NAME_FIELD, .need = INC_REQUIRED, INC_AT(struct inc_connect_device, dev_name),
	 .text = "its name there"},
	{"ports", .need = INC_REQUIRED,
	 INC_LIST_AT(struct inc_connect_device, ports, n_ports, &port_schema),
	 .text = "that are active"},
};
static const struct inc_schema device_schema = INC_SCHEMA(struct inc_connect_device, device_fields);

static const struct inc_field devices_fields[] = {
	{"hostname", INC_LINE, INC_OPTIONAL, INC_AT(struct inc_connect_devices, hostname),
	 .text = "as the machine calls itself"},
	{"devices", .need = INC_REQUIRED,
	 INC_LIST_AT(struct inc_connect_devices, devices, n_devices, &device_schema),
	 .text = "that have such ports"},
};

#define INFO_FIELDS(type, in)                                                                  \
	{"hostname", INC_LINE, INC_OPTIONAL, INC_AT(type, in hostname),                        \
	 .text = "as the machine calls itself"},                                               \
		{"dev", DEV_FIELD, .need = INC_REQUIRED, INC_AT(type, in dev),                 \
		 .text = "the device's number"},                                               \
		{"dev_name", NAME_FIELD, .need = INC_REQUIRED, INC_AT(type, in dev_name),      \
		 .text = "the device's name"},                                                 \
		{"port", PORT_FIELD, .need = INC_REQUIRED, INC_AT(type, in port),              \
		 .text = "of the device"},                                                     \
		{"mtu",                                                                        \
		 INC_UINT,                                                                     \
		 INC_REQUIRED,                                                                 \
		 INC_AT(type, in mtu),                                                         \
		 .min = 1,                                                                     \
		 .max = 5,                                                                     \
		 .text = "of the port: 1 to 5 for 256 to 4096 bytes"},                         \
		{"qp_num", INC_QPN_FIELD, .need = INC_REQUIRED, INC_AT(type, in qp_num),       \
		 .text = "its queue pair"},                                                    \
		{"start_psn", INC_PSN_FIELD, .need = INC_REQUIRED, INC_AT(type, in start_psn), \
		 .text = "of the first packet that it sends"},                                 \
		{"lid",                                                                        \
		 INC_UINT,                                                                     \
		 INC_OPTIONAL,                                                                 \
		 INC_AT(type, in lid),                                                         \
		 .min = 1,                                                                     \
		 .max = 0xbfff,                                                                \
		 .given = offsetof(type, in has_lid),                                          \
		 .text = "InfiniBand: of the port"},                                           \
	{                                                                                      \
		"gid", INC_WORD, INC_OPTIONAL, INC_AT(type, in gid),                           \
			.what = "an address as IPv6 writes it",                                \
			.given = offsetof(type, in has_gid), .text = "RoCE v2: of the port"    \
	}

/* Struct of the message connected. It contains struct connect_info as a member, because
 * INFO_FIELDS() needs the name of a member before each field. */
struct connected {
	struct connect_info info;
};
_Static_assert(sizeof(struct connected) == sizeof(struct connect_info), "nothing but the info");

static const struct inc_field connected_fields[] = {INFO_FIELDS(struct connected, info.)};

static const struct inc_field connect_fields[] = {
	VERSION_FIELD(struct connect_connect),
	INFO_FIELDS(struct connect_connect, info.),
	{"target_dev", DEV_FIELD, .need = INC_REQUIRED, INC_AT(struct connect_connect, target_dev),
	 .text = "which device of the service's"},
	{"target_devname", NAME_FIELD, .need = INC_REQUIRED,
	 INC_AT(struct connect_connect, target_devname), .text = "its name, which must fit"},
	{"target_port", PORT_FIELD, .need = INC_REQUIRED,
	 INC_AT(struct connect_connect, target_port), .text = "of it"},
	{"config", INC_MAP, INC_REQUIRED, INC_AT(struct connect_connect, config),
	 .of = &connect_settings_schema, .text = "of both queue pairs"},
};

static const struct inc_field figures_fields[] = {
	{"families", INC_OTHER, INC_REQUIRED, .what = "list of families",
	 .text = "as a switch's metrics (control.md)"},
};

#define TABLE(fields, type)                                                \
	{                                                                  \
		fields, sizeof(fields) / sizeof((fields)[0]), sizeof(type) \
	}

const struct inc_message connect_messages[CONNECT_MSG_MAX] = {
	[CONNECT_MSG_QUERY] = {"query", "client", "service",
			       TABLE(query_fields, struct connect_query),
			       "asks which ports there are"},
	[CONNECT_MSG_DEVICES] = {"devices", "service", "client",
				 TABLE(devices_fields, struct inc_connect_devices), "these"},
	[CONNECT_MSG_CONNECT] = {"connect", "client", "service",
				 TABLE(connect_fields, struct connect_connect),
				 "asks for a queue pair"},
	[CONNECT_MSG_CONNECTED] = {"connected", "service", "client",
				   TABLE(connected_fields, struct connected),
				   "it is made, and can receive"},
	[CONNECT_MSG_ASK_FIGURES] = {"stats", "client", "service",
				     TABLE(query_fields, struct connect_query),
				     "asks what it counts"},
	[CONNECT_MSG_FIGURES] = {"figures", "service", "client", {figures_fields, 1, 0}, "this"},
};

static int check_info(const struct connect_info *info, struct inc_err *err)
{
	uint8_t raw[16];

	if (!connect_link_of(info))
		return inc_err_set(err, EINVAL, "lid, gid: one of them, not %s",
				   info->has_lid ? "both" : "none");
	if (info->has_gid && inc_rdma_gid_parse(info->gid, raw))
		return inc_err_set(err, EINVAL, "gid: '%s' is not an address as IPv6 writes it",
				   info->gid);
	return 0;
}

static int check_settings(const struct inc_connect_settings *settings, struct inc_err *err)
{
	struct inc_err why;
	const char *field = connect_settings_wrong(settings, &why);

	return field ? inc_err_set(err, EINVAL, "config.%s: %s", field, why.msg) : 0;
}

_Static_assert(!offsetof(struct connect_query, version) &&
		       !offsetof(struct connect_connect, version),
	       "a message with a version begins with it");

static int check_version(uint32_t version, struct inc_err *err)
{
	if (!version || version == CONNECT_VERSION)
		return 0;
	return inc_err_set(err, EPROTONOSUPPORT, "version %u, this service speaks %u", version,
			   CONNECT_VERSION);
}

int connect_read(enum connect_message_id id, const json_t *message, void *out, struct inc_err *err)
{
	const struct inc_schema *schema = &connect_messages[id].schema;
	const struct connect_connect *asked = out;
	int ret, other = 0;

	if (id == CONNECT_MSG_ERROR)
		schema = &inc_messages[INC_MSG_ERROR].schema;
	if (schema->size)
		memset(out, 0, schema->size);
	ret = inc_schema_read_json(schema, message, out, err);
	/* The version is checked even if a field is wrong, because another version may have other
	 * fields. The peer must then receive the error about the version. */
	if (!strcmp(schema->fields[0].name, "version"))
		other = check_version(*(const uint32_t *)out, err);
	if (ret || other)
		return other ?: ret;
	if (id == CONNECT_MSG_CONNECTED)
		return check_info(out, err);
	if (id != CONNECT_MSG_CONNECT)
		return 0;
	return check_info(&asked->info, err) ?: check_settings(&asked->config, err);
}

json_t *connect_new(enum connect_message_id id, const void *in)
{
	return inc_message_print(&connect_messages[id], in);
}

enum inc_connect_link_layer connect_link_of(const struct connect_info *info)
{
	if (info->has_lid == info->has_gid)
		return 0;
	return info->has_lid ? INC_CONNECT_INFINIBAND : INC_CONNECT_ETHERNET;
}
