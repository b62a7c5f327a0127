/* SPDX-License-Identifier: BSD-2-Clause */
/* The static file of a switch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "lib/conf/yaml.h"
#include "userspace/config.h"

#define DEF_PAYLOAD 1024
#define DEF_SLOTS   512

static bool has_port(const struct inc_settings *s, const char *ifname)
{
	uint32_t i;

	for (i = 0; i < s->n_ports; i++)
		if (!strcmp(s->port[i], ifname))
			return true;
	return false;
}

bool inc_settings_add_port(struct inc_settings *s, const char *ifname)
{
	if (has_port(s, ifname))
		return true;
	if (s->n_ports == INC_MAX_PORTS)
		return false;
	strncpy(s->port[s->n_ports++], ifname, IF_NAMESIZE - 1);
	return true;
}

void inc_settings_merge(struct inc_settings *s, const struct inc_settings *more)
{
	if (!s->mode_given) {
		s->mode_given = more->mode_given;
		s->generic = more->generic;
	}
	if (!s->n_ports) {
		memcpy(s->port, more->port, sizeof(s->port));
		s->n_ports = more->n_ports;
	}
	s->max_comms = s->max_comms ?: more->max_comms;
	s->max_connections = s->max_connections ?: more->max_connections;
	s->max_rows = s->max_rows ?: more->max_rows;
	s->rto_min_ms = s->rto_min_ms ?: more->rto_min_ms;
	s->rto_max_ms = s->rto_max_ms ?: more->rto_max_ms;
	s->ack_delay_ms = s->ack_delay_ms ?: more->ack_delay_ms;
}

static int get_u32(const struct inc_yaml_node *map, const char *key, bool required, uint64_t min,
		   uint64_t max, uint32_t *out, struct inc_err *err)
{
	uint64_t v = *out;
	int ret = inc_yaml_get_u64(map, key, required, min, max, &v, err);

	if (!ret)
		*out = v;
	return ret;
}

static int get_u16(const struct inc_yaml_node *map, const char *key, bool required, uint64_t min,
		   uint64_t max, uint16_t *out, struct inc_err *err)
{
	uint64_t v = *out;
	int ret = inc_yaml_get_u64(map, key, required, min, max, &v, err);

	if (!ret)
		*out = v;
	return ret;
}

static int get_ifname(const struct inc_yaml_node *map, const char *key, char out[IF_NAMESIZE],
		      struct inc_err *err)
{
	const char *text = NULL;
	int ret = inc_yaml_get_str(map, key, true, &text, err);

	if (ret)
		return ret;
	if (!*text || strlen(text) >= IF_NAMESIZE)
		return inc_yaml_error(inc_yaml_get(map, key), err,
				      "'%.32s' is not an interface name (1 to %d characters)", text,
				      IF_NAMESIZE - 1);
	strcpy(out, text);
	return 0;
}

static struct inc_comm_conf *find_comm(struct inc_switch_conf *conf, uint32_t communicator)
{
	uint32_t i;

	for (i = 0; i < conf->n_comms; i++)
		if (conf->comm[i].communicator == communicator)
			return &conf->comm[i];
	return NULL;
}

static int read_comm(const struct inc_yaml_node *node, struct inc_switch_conf *conf,
		     struct inc_err *err)
{
	static const char *const known[] = {"communicator", "payload", "slots", NULL};
	struct inc_comm_conf *cm = &conf->comm[conf->n_comms];
	uint32_t number = 0;
	int ret;

	ret = inc_yaml_want_map(node, err);
	ret = ret ?: inc_yaml_check_keys(node, known, err);
	ret = ret ?: get_u32(node, "communicator", true, 0, UINT32_MAX, &number, err);
	if (ret)
		return ret;
	if (find_comm(conf, number))
		return inc_yaml_error(inc_yaml_get(node, "communicator"), err,
				      "communicator %u stands twice", number);
	*cm = (struct inc_comm_conf){
		.communicator = number, .payload = DEF_PAYLOAD, .slots = DEF_SLOTS};
	ret = get_u32(node, "payload", false, 0, UINT32_MAX, &cm->payload, err);
	if (!ret && !inc_payload_ok(cm->payload))
		ret = inc_yaml_error(inc_yaml_get(node, "payload"), err,
				     "%u is not " INC_PAYLOADS_TEXT, cm->payload);
	ret = ret ?: get_u32(node, "slots", false, 1, INC_MAX_SLOTS, &cm->slots, err);
	if (!ret && cm->slots & (cm->slots - 1))
		ret = inc_yaml_error(inc_yaml_get(node, "slots"), err, "%u is not a power of two",
				     cm->slots);
	if (!ret)
		conf->n_comms++;
	return ret;
}

static int read_comms(const struct inc_yaml_node *sw, struct inc_switch_conf *conf,
		      struct inc_err *err)
{
	const struct inc_yaml_node *list = inc_yaml_get(sw, "communicators");
	size_t n = inc_yaml_len(list), i;
	int ret = list ? inc_yaml_want_seq(list, err) : 0;

	if (ret)
		return ret;
	if (n > INC_MAX_COMMS)
		return inc_yaml_error(list, err, "%zu communicators, at most %d", n, INC_MAX_COMMS);
	conf->comm = calloc(n ?: 1, sizeof(*conf->comm));
	if (!conf->comm)
		return inc_err_set(err, ENOMEM, "no memory for %zu communicators", n);
	if (!list) {
		conf->comm[0] = (struct inc_comm_conf){.payload = DEF_PAYLOAD, .slots = DEF_SLOTS};
		conf->n_comms = 1;
	}
	for (i = 0; !ret && i < n; i++)
		ret = read_comm(inc_yaml_at(list, i), conf, err);
	return ret;
}

static int get_unicast(const struct inc_yaml_node *map, const char *key, struct in_addr *out,
		       struct inc_err *err)
{
	int ret = inc_yaml_get_ipv4(map, key, true, out, err);

	if (!ret && !inc_addr_unicast(ntohl(out->s_addr)))
		ret = inc_yaml_error(inc_yaml_get(map, key), err, "not a unicast address");
	return ret;
}

static int read_conn(const struct inc_yaml_node *node, struct inc_conn_conf *c, struct inc_err *err)
{
	const struct inc_yaml_node *own_mac = inc_yaml_get(node, "my_mac");
	const struct inc_yaml_node *peer_mac = inc_yaml_get(node, "peer_mac");
	int ret;

	*c = (struct inc_conn_conf){.own_port = INC_ROCE_UDP_PORT,
				    .peer_port = INC_ROCE_UDP_PORT,
				    .pkey = INC_PKEY_DEFAULT};
	ret = get_u32(node, "host_id", true, 0, INC_MAX_CHILDREN - 1, &c->rank, err);
	ret = ret ?: get_ifname(node, "my_name", c->port, err);
	ret = ret ?: get_unicast(node, "my_ip", &c->own_ip, err);
	ret = ret ?: get_unicast(node, "peer_ip", &c->peer_ip, err);
	ret = ret ?: inc_yaml_get_mac(node, "my_mac", false, c->own_mac, err);
	ret = ret ?: inc_yaml_get_mac(node, "peer_mac", false, c->peer_mac, err);
	ret = ret ?: get_u16(node, "my_port", false, 1, UINT16_MAX, &c->own_port, err);
	ret = ret ?: get_u16(node, "peer_port", false, 1, UINT16_MAX, &c->peer_port, err);
	ret = ret ?: get_u32(node, "my_qp", true, 2, INC_QPN_MASK - 1, &c->own_qp, err);
	ret = ret ?: get_u32(node, "peer_qp", true, 2, INC_QPN_MASK - 1, &c->peer_qp, err);
	ret = ret ?: get_u32(node, "my_psn", true, 0, INC_PSN_MASK, &c->own_psn, err);
	ret = ret ?: get_u32(node, "psn", true, 0, INC_PSN_MASK, &c->peer_psn, err);
	ret = ret ?: get_u16(node, "pkey", false, 0, UINT16_MAX, &c->pkey, err);
	ret = ret ?: inc_yaml_get_bool(node, "udp_csum", false, &c->udp_csum, err);
	if (!ret && !(c->pkey & INC_PKEY_BITS))
		ret = inc_yaml_error(inc_yaml_get(node, "pkey"), err, "0x%04x is not a partition",
				     c->pkey);
	c->has_own_mac = own_mac;
	c->has_peer_mac = peer_mac;
	return ret;
}

static bool same_queue_pair(const struct inc_conn_conf *a, const struct inc_conn_conf *b)
{
	return a->peer_ip.s_addr == b->peer_ip.s_addr && a->own_ip.s_addr == b->own_ip.s_addr &&
	       a->own_qp == b->own_qp;
}

static int check_unique(const struct inc_yaml_node *node, const struct inc_switch_conf *conf,
			const struct inc_comm_conf *cm, const struct inc_conn_conf *c,
			struct inc_err *err)
{
	uint32_t i, j;

	for (j = 0; j < cm->children; j++)
		if (cm->conn[j].rank == c->rank)
			return inc_yaml_error(inc_yaml_get(node, "host_id"), err,
					      "communicator %u has host %u already",
					      cm->communicator, c->rank);
	for (i = 0; i < conf->n_comms; i++)
		for (j = 0; j < conf->comm[i].children; j++)
			if (same_queue_pair(&conf->comm[i].conn[j], c))
				return inc_yaml_error(inc_yaml_get(node, "my_qp"), err,
						      "host %u of communicator %u has queue pair "
						      "%u between the same addresses",
						      conf->comm[i].conn[j].rank,
						      conf->comm[i].communicator, c->own_qp);
	return 0;
}

static int read_connection(const struct inc_yaml_node *node, struct inc_switch_conf *conf,
			   struct inc_err *err)
{
	static const char *const known[] = {
		"up",      "communicator", "host_id", "my_name",  "my_ip",    "my_mac",
		"my_port", "my_qp",        "my_psn",  "peer_ip",  "peer_mac", "peer_port",
		"peer_qp", "psn",          "pkey",    "udp_csum", NULL};
	struct inc_comm_conf *cm;
	struct inc_conn_conf c;
	uint32_t number = 0;
	bool up = false;
	int ret;

	ret = inc_yaml_want_map(node, err);
	ret = ret ?: inc_yaml_check_keys(node, known, err);
	ret = ret ?: inc_yaml_get_bool(node, "up", false, &up, err);
	ret = ret ?: get_u32(node, "communicator", false, 0, UINT32_MAX, &number, err);
	if (ret)
		return ret;
	if (up)
		return inc_yaml_error(inc_yaml_get(node, "up"), err,
				      "a parent switch: this switch can only be a root");
	cm = find_comm(conf, number);
	if (!cm)
		return inc_yaml_error(inc_yaml_get(node, "communicator") ?: node, err,
				      "communicator %u is not in communicators", number);
	if (cm->children == INC_MAX_CHILDREN)
		return inc_yaml_error(node, err, "communicator %u has %d connections already",
				      number, INC_MAX_CHILDREN);
	ret = read_conn(node, &c, err);
	ret = ret ?: check_unique(node, conf, cm, &c, err);
	if (!ret)
		cm->conn[cm->children++] = c;
	return ret;
}

static int read_connections(const struct inc_yaml_node *sw, struct inc_switch_conf *conf,
			    struct inc_err *err)
{
	const struct inc_yaml_node *list = inc_yaml_get(sw, "connections");
	size_t i;
	int ret;

	if (!list)
		return inc_yaml_error(sw, err, "a switch needs connections");
	ret = inc_yaml_want_seq(list, err);
	for (i = 0; !ret && i < inc_yaml_len(list); i++)
		ret = read_connection(inc_yaml_at(list, i), conf, err);
	if (ret)
		return ret;
	for (i = 0; i < conf->n_comms; i++)
		if (!conf->comm[i].children)
			return inc_yaml_error(list, err, "communicator %u has no connection",
					      conf->comm[i].communicator);
	return 0;
}

static int read_ports(const struct inc_yaml_node *list, struct inc_settings *s, struct inc_err *err)
{
	size_t i;
	int ret = inc_yaml_want_seq(list, err);

	for (i = 0; !ret && i < inc_yaml_len(list); i++) {
		const struct inc_yaml_node *node = inc_yaml_at(list, i);
		const char *name = inc_yaml_text(node);

		if (!name || !*name || strlen(name) >= IF_NAMESIZE)
			return inc_yaml_error(node, err,
					      "not an interface name (1 to %d characters)",
					      IF_NAMESIZE - 1);
		if (!inc_settings_add_port(s, name))
			return inc_yaml_error(list, err, "at most %d ports", INC_MAX_PORTS);
	}
	return ret;
}

static int read_settings(const struct inc_yaml_node *map, struct inc_settings *s,
			 struct inc_err *err)
{
	static const char *const known[] = {
		"mode",     "ports",      "max_groups", "max_connections",
		"max_rows", "rto_min_ms", "rto_max_ms", "ack_delay_ms",
		NULL};
	const char *mode = NULL;
	int ret;

	ret = inc_yaml_want_map(map, err);
	ret = ret ?: inc_yaml_check_keys(map, known, err);
	ret = ret ?: inc_yaml_get_str(map, "mode", false, &mode, err);
	if (!ret && mode) {
		s->mode_given = true;
		s->generic = !strcmp(mode, "generic");
		if (!s->generic && strcmp(mode, "native"))
			ret = inc_yaml_error(inc_yaml_get(map, "mode"), err,
					     "'%.32s' is not native or generic", mode);
	}
	if (!ret && inc_yaml_get(map, "ports"))
		ret = read_ports(inc_yaml_get(map, "ports"), s, err);
	ret = ret ?: get_u32(map, "max_groups", false, 1, INC_MAX_COMMS, &s->max_comms, err);
	ret = ret
		      ?: get_u32(map, "max_connections", false, 1, INC_MAX_CONNS,
				 &s->max_connections, err);
	ret = ret ?: get_u32(map, "max_rows", false, 1, INC_MAX_ROWS, &s->max_rows, err);
	ret = ret ?: get_u32(map, "rto_min_ms", false, 1, 60000, &s->rto_min_ms, err);
	ret = ret ?: get_u32(map, "rto_max_ms", false, 1, 60000, &s->rto_max_ms, err);
	ret = ret ?: get_u32(map, "ack_delay_ms", false, 1, 1000, &s->ack_delay_ms, err);
	if (!ret && (s->rto_max_ms ?: INC_DEF_RTO_MAX_MS) < (s->rto_min_ms ?: INC_DEF_RTO_MIN_MS))
		ret = inc_yaml_error(inc_yaml_get(map, "rto_max_ms") ?: map, err,
				     "rto_max_ms is below rto_min_ms");
	return ret;
}

/* Connections must run over ports; without a list of ports theirs are the ports. */
static int check_ports(const struct inc_yaml_node *sw, struct inc_switch_conf *conf,
		       struct inc_err *err)
{
	const struct inc_yaml_node *list = inc_yaml_get(sw, "connections");
	bool given = conf->settings.n_ports;
	size_t i;

	for (i = 0; i < inc_yaml_len(list); i++) {
		const struct inc_yaml_node *name = inc_yaml_get(inc_yaml_at(list, i), "my_name");
		const char *ifname = inc_yaml_text(name);

		if (given && !has_port(&conf->settings, ifname))
			return inc_yaml_error(name, err, "'%s' is not in settings.ports", ifname);
		if (!inc_settings_add_port(&conf->settings, ifname))
			return inc_yaml_error(name, err, "more than %d ports", INC_MAX_PORTS);
	}
	return 0;
}

static int read_switch(const struct inc_yaml_node *sw, struct inc_switch_conf *conf,
		       struct inc_err *err)
{
	static const char *const known[] = {"id",          "name",     "root", "communicators",
					    "connections", "settings", NULL};
	const struct inc_yaml_node *settings = inc_yaml_get(sw, "settings");
	bool root = true;
	uint32_t id = 0;
	int ret;

	ret = inc_yaml_check_keys(sw, known, err);
	ret = ret ?: get_u32(sw, "id", false, 0, UINT32_MAX, &id, err);
	ret = ret ?: inc_yaml_get_bool(sw, "root", false, &root, err);
	if (!ret && !root)
		ret = inc_yaml_error(inc_yaml_get(sw, "root"), err,
				     "this switch can only be a root");
	if (!ret && settings)
		ret = read_settings(settings, &conf->settings, err);
	ret = ret ?: read_comms(sw, conf, err);
	ret = ret ?: read_connections(sw, conf, err);
	return ret ?: check_ports(sw, conf, err);
}

static int get_name(const struct inc_yaml_node *sw, const char **name, struct inc_err *err)
{
	struct inc_err why;
	int ret;

	ret = inc_yaml_want_map(sw, err);
	ret = ret ?: inc_yaml_get_str(sw, "name", true, name, err);
	if (!ret && inc_instance_name_check(*name, &why))
		ret = inc_yaml_error(inc_yaml_get(sw, "name"), err, "%.200s", why.msg);
	return ret;
}

/* The switch called want; NULL: the only one. */
static int pick_switch(const struct inc_yaml_node *root, const char *want,
		       const struct inc_yaml_node **out, const char **name, struct inc_err *err)
{
	static const char *const known[] = {"switches", NULL};
	const struct inc_yaml_node *list;
	size_t i;
	int ret;

	ret = inc_yaml_want_map(root, err);
	ret = ret ?: inc_yaml_check_keys(root, known, err);
	if (ret)
		return ret;
	list = inc_yaml_get(root, "switches");
	if (!list)
		return inc_yaml_error(root, err, "'switches' is missing");
	ret = inc_yaml_want_seq(list, err);
	if (ret)
		return ret;
	if (!inc_yaml_len(list))
		return inc_yaml_error(list, err, "no switch");
	if (!want && inc_yaml_len(list) > 1)
		return inc_yaml_error(list, err, "%zu switches: --name tells which one to be",
				      inc_yaml_len(list));
	for (i = 0; i < inc_yaml_len(list); i++) {
		ret = get_name(inc_yaml_at(list, i), name, err);
		if (ret)
			return ret;
		if (!want || !strcmp(*name, want)) {
			*out = inc_yaml_at(list, i);
			return 0;
		}
	}
	return inc_yaml_error(list, err, "no switch is called '%.32s'", want);
}

int inc_config_load(const char *path, const char *name, struct inc_switch_conf *out,
		    struct inc_err *err)
{
	const struct inc_yaml_node *sw = NULL;
	const char *found = NULL;
	struct inc_yaml *doc;
	int ret;

	memset(out, 0, sizeof(*out));
	ret = inc_yaml_load(path, &doc, err);
	if (ret)
		return ret;
	ret = pick_switch(inc_yaml_root(doc), name, &sw, &found, err);
	if (!ret) {
		strncpy(out->name, found, sizeof(out->name) - 1);
		ret = read_switch(sw, out, err);
	}
	inc_yaml_free(doc);
	if (ret)
		inc_config_free(out);
	return ret;
}

int inc_config_fits(const char *path, const struct inc_switch_conf *conf, struct inc_err *err)
{
	const struct inc_settings *s = &conf->settings;
	uint64_t connections = 0, rows = 0, slots = 0;
	uint32_t max_rows = s->max_rows ?: INC_DEF_ROWS, i, k;

	for (i = 0; i < conf->n_comms; i++) {
		const struct inc_comm_conf *cm = &conf->comm[i];

		connections += cm->children;
		rows += (uint64_t)cm->children * cm->slots;
		slots += cm->slots;
		for (k = 0; k < cm->children; k++)
			if (!has_port(s, cm->conn[k].port))
				return inc_err_set(err, ENODEV,
						   "%s: communicator %u, rank %u: %s is not one of "
						   "the ports given",
						   path, cm->communicator, cm->conn[k].rank,
						   cm->conn[k].port);
	}
	const struct {
		const char *what;
		uint64_t want;
		uint32_t have;
		const char *setting;
	} sums[] = {
		{"communicators", conf->n_comms, s->max_comms ?: INC_DEF_COMMS, "max_groups"},
		{"connections", connections, s->max_connections ?: INC_DEF_CONNS,
		 "max_connections"},
		{"contribution rows (children times slots)", rows, max_rows, "max_rows"},
		{"slots", slots, inc_switch_result_rows(max_rows), "max_rows"},
	};
	for (i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		if (sums[i].want > sums[i].have)
			return inc_err_set(err, ENOSPC,
					   "%s: %llu %s are wanted, %s gives room for %u", path,
					   (unsigned long long)sums[i].want, sums[i].what,
					   sums[i].setting, sums[i].have);
	if ((s->rto_max_ms ?: INC_DEF_RTO_MAX_MS) < (s->rto_min_ms ?: INC_DEF_RTO_MIN_MS))
		return inc_err_set(err, EINVAL, "%s: rto_max_ms is below rto_min_ms", path);
	return 0;
}

void inc_config_free(struct inc_switch_conf *conf)
{
	free(conf->comm);
	memset(conf, 0, sizeof(*conf));
}
