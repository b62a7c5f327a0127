/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "lib/base/caller.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "lib/rdma/gid.h"

static const struct inc_field zone_fields[] = {
	{NULL, INC_WORD, INC_REQUIRED, INC_AT(struct connect_zone, name), .what = "a zone's name"},
};
const struct inc_schema connect_zone_schema = INC_SCHEMA(struct connect_zone, zone_fields);

static const struct inc_field subnet_fields[] = {
	{"subnet", INC_WORD, INC_REQUIRED, INC_AT(struct connect_subnet, text),
	 .what = "ADDRESS/BITS"},
	{"zones", .need = INC_REQUIRED,
	 INC_LIST_AT(struct connect_subnet, zones.zone, zones.n, &connect_zone_schema), .min = 1},
};
static const struct inc_schema subnet_schema = INC_SCHEMA(struct connect_subnet, subnet_fields);

static const struct inc_field allowed_fields[] = {
	{"device", INC_WORD, INC_REQUIRED, INC_AT(struct connect_allowed, device),
	 .what = "a device's name"},
	{"port", INC_UINT, INC_OPTIONAL, INC_AT(struct connect_allowed, port), .min = 1,
	 .max = 254},
	{"zones", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct connect_allowed, zones.zone, zones.n, &connect_zone_schema), .min = 1},
};
static const struct inc_schema allowed_schema = INC_SCHEMA(struct connect_allowed, allowed_fields);

static const struct inc_field settings_fields[] = {
#define FIELD(name, type, preset, least, most, about)                       \
	{                                                                   \
		#name,           INC_UINT,                                  \
		INC_DEFAULT,     INC_AT(struct inc_connect_settings, name), \
		.min = (least),  .max = (most),                             \
		.def = (preset), .text = about},
	INC_CONNECT_SETTINGS(FIELD)
#undef FIELD
		{"record_latency_per_peer", INC_BOOL, INC_DEFAULT,
		 INC_AT(struct inc_connect_settings, record_latency_per_peer),
		 .text = "histograms for each peer, too"},
};
const struct inc_schema connect_settings_schema =
	INC_SCHEMA(struct inc_connect_settings, settings_fields);

#define AT(member) INC_AT(struct connect_config, member)

static const struct inc_field config_fields[] = {
	{"zones", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct connect_config, subnets, n_subnets, &subnet_schema)},
	{"default_zones", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct connect_config, default_zones.zone, default_zones.n,
		     &connect_zone_schema)},
	{"devices", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct connect_config, allowed, n_allowed, &allowed_schema)},
	{"allow_unknown_zone", INC_BOOL, INC_OPTIONAL, AT(allow_unknown_zone)},
	{"prefer_ibdevice", INC_BOOL, INC_OPTIONAL, AT(prefer_ibdevice)},
	{"allow_no_usable_devices", INC_BOOL, INC_OPTIONAL, AT(allow_no_usable_devices)},
	{"fork_safe", INC_BOOL, INC_OPTIONAL, AT(fork_safe)},
	{"refresh_ms", INC_UINT, INC_OPTIONAL, AT(refresh_ms), .min = 100, .max = 3600000},
	{"accept_timeout_ms", INC_UINT, INC_OPTIONAL, AT(accept_timeout_ms), .min = 1,
	 .max = 3600000},
	{"queue_pair", INC_MAP, INC_OPTIONAL, AT(queue_pair), .of = &connect_settings_schema},
};
const struct inc_schema connect_config_schema = INC_SCHEMA(struct connect_config, config_fields);

void inc_connect_settings_init(struct inc_connect_settings *settings, size_t sz)
{
	static const struct inc_connect_settings preset = {
#define PRESET(name, type, preset, least, most, about) .name = (preset),
		INC_CONNECT_SETTINGS(PRESET)
#undef PRESET
	};

	if (sz < sizeof(sz))
		return;
	memset(settings, 0, sz);
	memcpy(settings, &preset, sz < sizeof(preset) ? sz : sizeof(preset));
	settings->sz = sz;
}

void connect_config_init(struct connect_config *config)
{
	memset(config, 0, sizeof(*config));
	config->allow_unknown_zone = true;
	config->prefer_ibdevice = true;
	config->refresh_ms = 15000;
	config->accept_timeout_ms = 15000;
	inc_connect_settings_init(&config->queue_pair, sizeof(config->queue_pair));
}

const char *connect_settings_wrong(const struct inc_connect_settings *s, struct inc_err *why)
{
	const struct {
		const char *name;
		uint32_t value;
		const char *of;
		uint32_t most;
	} parts[] = {
		{"buf_ack_batch", s->buf_ack_batch, "send_buf_cnt", s->send_buf_cnt},
		{"buf_signal_batch", s->buf_signal_batch, "send_buf_cnt", s->send_buf_cnt},
		{"max_rdma_wr_per_post", s->max_rdma_wr_per_post, "max_rdma_wr", s->max_rdma_wr},
	};
	size_t i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i].value <= parts[i].most)
			continue;
		inc_err_set(why, EINVAL, "%u is more than %s, %u", parts[i].value, parts[i].of,
			    parts[i].most);
		return parts[i].name;
	}
	if ((uint64_t)s->buf_size * s->send_buf_cnt <= CONNECT_MAX_BUFFER_BYTES)
		return NULL;
	inc_err_set(why, EINVAL, "%u for each of send_buf_cnt, %u, is more than %u", s->buf_size,
		    s->send_buf_cnt, CONNECT_MAX_BUFFER_BYTES);
	return "buf_size";
}

static int check_settings(const struct inc_connect_settings *s, struct inc_err *err)
{
	const struct {
		const char *name;
		uint32_t value, least, most;
	} fields[] = {
#define BOUNDS(name, type, preset, least, most, about) {#name, s->name, least, most},
		INC_CONNECT_SETTINGS(BOUNDS)
#undef BOUNDS
	};
	struct inc_err why;
	const char *wrong;
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].value < fields[i].least || fields[i].value > fields[i].most)
			return inc_err_set(err, EINVAL, "%s: %u is not %u to %u", fields[i].name,
					   fields[i].value, fields[i].least, fields[i].most);
	wrong = connect_settings_wrong(s, &why);
	return wrong ? inc_err_set(err, EINVAL, "%s: %s", wrong, why.msg) : 0;
}

int connect_settings_take(const struct inc_connect_settings *given,
			  struct inc_connect_settings *settings, struct inc_err *err)
{
	int ret;

	inc_connect_settings_init(settings, sizeof(*settings));
	ret = inc_caller_opts_over(settings, sizeof(*settings), given);
	settings->sz = sizeof(*settings);
	if (ret == -E2BIG)
		return inc_err_set(err, E2BIG,
				   "settings: %zu bytes, but this library knows only %zu, and the "
				   "rest is not 0",
				   given->sz, sizeof(*settings));
	if (ret)
		return inc_err_set(err, -ret, "settings: sz: %zu is no size", given->sz);
	return check_settings(settings, err);
}

int connect_settings_fit(const struct inc_connect_settings *s, const char *device,
			 const struct inc_rdma_limits *limits, struct inc_err *err)
{
	/* For each capability of a queue pair, the settings that determine it. The last row is for
	 * the sizes of both queues. */
	static const struct {
		const char *cap, *setting, *of;
	} names[] = {
		{"send_sge", "max_sge", "pieces of memory"},
		{"rd_atomic", "max_rd_atomic", "RDMA READs"},
		{"dest_rd_atomic", "max_rd_atomic", "RDMA READs of a peer"},
		{"send_wr", "send_buf_cnt, max_rdma_wr", "requests of a queue"},
	};
	const struct inc_rdma_qp_caps caps = connect_qp_caps(s);
	const uint32_t entries = connect_cq_entries(s);
	struct inc_rdma_excess excess;
	size_t i = 0;

	if (inc_rdma_qp_caps_exceed(limits, &caps, &excess)) {
		while (i + 1 < sizeof(names) / sizeof(names[0]) &&
		       strcmp(names[i].cap, excess.field) != 0)
			i++;
		return inc_err_set(err, EINVAL, "%s: %s: %u %s, the device can do %u", device,
				   names[i].setting, excess.wanted, names[i].of, excess.most);
	}
	if (entries > limits->max_cqe)
		return inc_err_set(err, EINVAL,
				   "%s: send_buf_cnt, max_rdma_wr: %u entries of a completion "
				   "queue, the device can do %u",
				   device, entries, limits->max_cqe);
	return 0;
}

/* Parses the text of a subnet, such as "10.1.0.0/16". Address bits beyond the prefix are an error,
 * because the user may have meant another prefix. */
static int parse_subnet(struct connect_subnet *subnet)
{
	char *slash = strchr(subnet->text, '/'), *end, host[sizeof(subnet->text)];
	struct in_addr addr;
	unsigned long bits;

	if (!slash)
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(slash - subnet->text), subnet->text);
	bits = strtoul(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end || bits > 32 ||
	    inet_pton(AF_INET, host, &addr) != 1)
		return -EINVAL;
	subnet->net = ntohl(addr.s_addr);
	subnet->mask = bits ? ~0u << (32 - bits) : 0;
	return subnet->net & ~subnet->mask ? -EINVAL : 0;
}

/* Checks fields of the configuration file that depend on each other. The error names the line of
 * the wrong field, or that of the map if the field has its default. */
static int check_queue_pair(const struct inc_yaml_node *map,
			    const struct inc_connect_settings *settings, struct inc_err *err)
{
	const struct inc_yaml_node *node;
	struct inc_err why;
	const char *field = connect_settings_wrong(settings, &why);

	if (!field)
		return 0;
	node = map ? inc_yaml_get(map, field) : NULL;
	if (node)
		return inc_yaml_error(node, err, "%s", why.msg);
	return inc_yaml_error(map, err, "%s: %s", field, why.msg);
}

static int read_map(const struct inc_yaml_node *root, struct connect_config *config,
		    struct inc_err *err)
{
	const struct inc_yaml_node *subnets = inc_yaml_get(root, "zones");
	uint32_t i;
	int ret;

	ret = inc_schema_read_yaml(&connect_config_schema, root, config, err);
	if (ret)
		return ret;
	for (i = 0; i < config->n_subnets; i++)
		if (parse_subnet(&config->subnets[i]))
			return inc_yaml_error(
				inc_yaml_get(inc_yaml_at(subnets, i), "subnet"), err,
				"'%s' is not ADDRESS/BITS of a subnet, as 10.1.0.0/16",
				config->subnets[i].text);
	return check_queue_pair(inc_yaml_get(root, "queue_pair"), &config->queue_pair, err);
}

int connect_config_read(const char *path, struct connect_config *config, struct inc_err *err)
{
	struct connect_config *copy;
	struct inc_yaml *doc;
	int ret;

	ret = inc_yaml_load(path, &doc, err);
	if (ret)
		return ret;
	copy = malloc(sizeof(*copy));
	if (copy) {
		*copy = *config;
		ret = read_map(inc_yaml_root(doc), copy, err);
		if (!ret)
			*config = *copy;
	} else {
		ret = inc_err_set(err, ENOMEM, "%s: %s", path, strerror(ENOMEM));
	}
	free(copy);
	inc_yaml_free(doc);
	return ret;
}

static void add_zone(struct connect_zones *zones, const struct connect_zone *zone)
{
	uint32_t i;

	for (i = 0; i < zones->n; i++)
		if (!strcmp(zones->zone[i].name, zone->name))
			return;
	if (zones->n < INC_CONNECT_MAX_ZONES)
		zones->zone[zones->n++] = *zone;
}

static void add_zones(struct connect_zones *zones, const struct connect_zones *more)
{
	uint32_t i;

	for (i = 0; i < more->n; i++)
		add_zone(zones, &more->zone[i]);
}

static bool is_ipv4(const struct inc_rdma_gid *gid, uint32_t *addr)
{
	uint8_t mapped[16];
	uint32_t net;

	memcpy(&net, gid->raw + 12, sizeof(net));
	inc_rdma_gid_of_ipv4(net, mapped);
	*addr = ntohl(net);
	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

void connect_port_zones(const struct connect_config *config, const char *device,
			const struct inc_rdma_port_info *port, struct connect_zones *zones)
{
	const struct connect_allowed *a;
	const struct connect_subnet *s;
	uint32_t addr;
	unsigned int i;

	zones->n = 0;
	for (a = config->allowed; a < config->allowed + config->n_allowed; a++)
		if (!strcmp(a->device, device) && (!a->port || a->port == port->number))
			add_zones(zones, &a->zones);
	if (zones->n)
		return;
	for (i = 0; i < port->gids; i++) {
		if (!is_ipv4(&port->gid[i], &addr))
			continue;
		for (s = config->subnets; s < config->subnets + config->n_subnets; s++)
			if ((addr & s->mask) == s->net)
				add_zones(zones, &s->zones);
	}
	if (!zones->n)
		*zones = config->default_zones;
}

void connect_config_filter(const struct connect_config *config,
			   struct inc_rdma_filter_entry entries[CONNECT_MAX_ALLOWED],
			   struct inc_rdma_filter *filter)
{
	uint32_t i;

	for (i = 0; i < config->n_allowed; i++) {
		memcpy(entries[i].device, config->allowed[i].device, sizeof(entries[i].device));
		entries[i].port = config->allowed[i].port;
	}
	filter->entry = entries;
	filter->entries = config->n_allowed;
}
