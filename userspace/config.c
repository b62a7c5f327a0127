/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the static file of a switch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "lib/net/scrape.h"
#include "userspace/config.h"

void inc_settings_old_xdp(struct inc_settings *s, bool generic, const char *where)
{
	const char *word = generic ? INC_XDP_GENERIC : INC_XDP_NATIVE;

	inc_warn("%s: mode %s is taken as xdp %s, which it is called now", where, word, word);
	if (s->xdp_given)
		return;
	s->xdp_given = true;
	s->generic = generic;
}

int inc_settings_check_metrics(const char *text, struct inc_err *err)
{
	if (strlen(text) >= INC_METRICS_ADDR_LEN)
		return inc_err_set(err, EINVAL, "'%.80s…' is too long for an address", text);
	return inc_scrape_check(text, err);
}

#define SETTING(member) INC_AT(struct inc_settings, member)
#define SWITCH(member)  INC_AT(struct inc_switch_conf, member)

static const char *const xdp_modes[] = {INC_XDP_NATIVE, INC_XDP_GENERIC, NULL};

/* in the order of enum inc_steering_choice */
static const char *const steering_choices[] = {"auto", "on", "off", NULL};

static const struct inc_field port_field[] = {
	{NULL, INC_WORD, .size = IF_NAMESIZE, .what = "an interface name"},
};
static const struct inc_schema port_schema = {.fields = port_field, .n = 1, .size = IF_NAMESIZE};

static const struct inc_field settings_fields[] = {
	{"xdp", INC_CHOICE, INC_OPTIONAL, SETTING(generic), .names = xdp_modes,
	 .given = offsetof(struct inc_settings, xdp_given),
	 .text = "where packets are added up in passthrough mode"},
	{"mode", INC_CHOICE, INC_OPTIONAL, SETTING(old_generic), .names = xdp_modes,
	 .given = offsetof(struct inc_settings, old_xdp_given), .text = "what xdp was called"},
	{"steering", INC_CHOICE, INC_OPTIONAL, SETTING(steering), .names = steering_choices,
	 .given = offsetof(struct inc_settings, steering_given),
	 .text = "whether one CPU handles all packets of a communicator"},
	{"ports", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_settings, port, n_ports, &port_schema),
	 .text = "absent: those that connections name"},
	{"max_communicators", INC_UINT, INC_OPTIONAL, SETTING(max_comms), .min = 1,
	 .max = INC_MAX_COMMS, .alias = "max_groups", .text = "at a time"},
	{"max_connections", INC_UINT, INC_OPTIONAL, SETTING(max_connections), .min = 1,
	 .max = INC_MAX_CONNS, .text = "of all communicators"},
	{"max_rows", INC_UINT, INC_OPTIONAL, SETTING(max_rows), .min = 1, .max = INC_MAX_ROWS,
	 .text = "connections times slots, of all communicators"},
	{"rto_min_ms", INC_UINT, INC_OPTIONAL, SETTING(rto_min_ms), .min = 1, .max = INC_MAX_RTO_MS,
	 .text = "until a result is sent again, at least"},
	{"rto_max_ms", INC_UINT, INC_OPTIONAL, SETTING(rto_max_ms), .min = 1, .max = INC_MAX_RTO_MS,
	 .text = "and at most"},
	{"ack_delay_ms", INC_UINT, INC_OPTIONAL, SETTING(ack_delay_ms), .min = 1,
	 .max = INC_MAX_ACK_DELAY_MS, .text = "until an ACK is paid that no result has carried"},
	{"threads", INC_UINT, INC_OPTIONAL, SETTING(threads), .min = 1, .max = INC_MAX_THREADS,
	 .empty = true, .text = "that add up messages in termination mode"},
	{"metrics", INC_WORD, INC_OPTIONAL, SETTING(metrics), .what = "an address",
	 .given = offsetof(struct inc_settings, metrics_given),
	 .text = "where figures are read over HTTP; absent: nowhere"},
	{"verbs", INC_MAP, INC_OPTIONAL, SETTING(verbs), .of = &inc_verbs_schema,
	 .given = offsetof(struct inc_settings, verbs_given),
	 .text = "settings of queue pairs in termination mode, where a connection lacks them"},
};
static const struct inc_schema settings_schema = INC_SCHEMA(struct inc_settings, settings_fields);

static const struct inc_field switch_fields[] = {
	{"id", INC_UINT, INC_OPTIONAL, SWITCH(id), .max = UINT32_MAX,
	 .given = offsetof(struct inc_switch_conf, has_id), .text = "its name, where it has none"},
	{"name", INC_WORD, INC_OPTIONAL, SWITCH(name), .what = "a name", .text = "of the switch"},
	{"mode", INC_CHOICE, INC_OPTIONAL, SWITCH(settings.mode), .names = inc_modes_of_switch,
	 .given = offsetof(struct inc_switch_conf, settings.mode_given),
	 .text = "of communicators that do not say it; absent: passthrough"},
	{"root", INC_BOOL, INC_DEFAULT, SWITCH(root), .def = true, .alias = "is_root",
	 .text = "no connection is up"},
	{"communicators", INC_OTHER, INC_OPTIONAL, .what = "list of communicators",
	 .text = "absent: one with number 0"},
	{"connections", INC_OTHER, INC_OPTIONAL, .what = "list of connections",
	 .text = "of all communicators"},
	{"settings", INC_MAP, INC_OPTIONAL, SWITCH(settings), .of = &settings_schema,
	 .text = "also on the command line, which wins"},
};
const struct inc_schema inc_switch_schema = INC_SCHEMA(struct inc_switch_conf, switch_fields);

static struct inc_comm_conf *find_comm(struct inc_switch_conf *conf, uint32_t communicator)
{
	uint32_t i;

	for (i = 0; i < conf->n_comms; i++)
		if (conf->comm[i].communicator == communicator)
			return &conf->comm[i];
	return NULL;
}

/*
 * Sets up the only communicator of a file that has no list of communicators. A switch without a
 * name is in the original documents' form. There hosts send numbers in network byte order to a
 * switch in passthrough mode, and in little-endian order to one in termination mode.
 */
static struct inc_comm_conf unlisted_comm(const struct inc_yaml_node *sw, uint32_t mode)
{
	const bool turned = !inc_yaml_get(sw, "name") && mode == INC_PASSTHROUGH;

	return (struct inc_comm_conf){.root = true,
				      .payload = INC_DEF_PAYLOAD,
				      .slots = INC_DEF_SLOTS,
				      .has_mode = true,
				      .mode = mode,
				      .byte_order = turned ? INC_ORDER_NETWORK : INC_ORDER_LITTLE};
}

/* Reads one communicator from its mapping in the file. mode: the mode of a communicator whose
 * mapping has none. */
static int read_comm(const struct inc_yaml_node *node, uint32_t mode, struct inc_switch_conf *conf,
		     struct inc_err *err)
{
	struct inc_comm_conf *cm = &conf->comm[conf->n_comms];
	int ret;

	ret = inc_schema_read_yaml(&inc_comm_schema, node, cm, err);
	if (ret)
		return ret;
	if (find_comm(conf, cm->communicator))
		return inc_yaml_error(inc_yaml_get(node, "communicator"), err,
				      "communicator %u is listed twice", cm->communicator);
	if (!cm->has_mode)
		cm->mode = mode;
	cm->has_mode = true;
	/* the switch counts as the communicator's root until a connection to a parent is read */
	cm->root = true;
	conf->n_comms++;
	return 0;
}

static int read_comms(const struct inc_yaml_node *sw, uint32_t mode, struct inc_switch_conf *conf,
		      struct inc_absent *absent, struct inc_err *err)
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
	if (!list && inc_yaml_get(sw, "connections")) {
		conf->comm[0] = unlisted_comm(sw, mode);
		conf->n_comms = 1;
	}
	for (i = 0; !ret && i < n; i++) {
		ret = read_comm(inc_yaml_at(list, i), mode, conf, err);
		inc_absent_count(absent, inc_yaml_at(list, i));
	}
	return ret;
}

static bool same_queue_pair(const struct inc_conn_conf *a, const struct inc_conn_conf *b)
{
	return inc_addr_same(a->peer.ip, b->peer.ip) && inc_addr_same(a->own.ip, b->own.ip) &&
	       a->own.qpn && a->own.qpn == b->own.qpn;
}

static int check_unique(const struct inc_yaml_node *node, const struct inc_switch_conf *conf,
			const struct inc_comm_conf *cm, const struct inc_conn_conf *c,
			struct inc_err *err)
{
	uint32_t i, j;

	for (j = 0; j < cm->n_conns; j++)
		if (cm->conn[j].up && c->up)
			return inc_yaml_error(inc_yaml_get(node, "up"), err,
					      "communicator %u has a parent already",
					      cm->communicator);
		else if (cm->conn[j].up == c->up && cm->conn[j].rank == c->rank)
			return inc_yaml_error(inc_yaml_get(node, "host_id"), err,
					      "communicator %u has host %u already",
					      cm->communicator, c->rank);
	for (i = 0; i < conf->n_comms; i++)
		for (j = 0; j < conf->comm[i].n_conns; j++)
			if (same_queue_pair(&conf->comm[i].conn[j], c))
				return inc_yaml_error(inc_yaml_get(node, "own_qp")
							      ?: inc_yaml_get(node, "my_qp"),
						      err,
						      "host %u of communicator %u has queue pair "
						      "%u between the same addresses",
						      conf->comm[i].conn[j].rank,
						      conf->comm[i].communicator, c->own.qpn);
	return 0;
}

/* Checks that a connection's port is one of the switch's ports. If the file has no list of ports,
 * this adds the port to them. */
static int take_port(const struct inc_yaml_node *node, struct inc_switch_conf *conf,
		     const struct inc_conn_conf *c, struct inc_err *err)
{
	const struct inc_yaml_node *name = inc_yaml_get(node, "own_name")
						 ?: inc_yaml_get(node, "my_name")
						 ?: node;

	if (conf->ports_given && !inc_settings_has_port(&conf->settings, c->port))
		return inc_yaml_error(name, err, "'%s' is not in settings.ports", c->port);
	if (!inc_settings_add_port(&conf->settings, c->port))
		return inc_yaml_error(name, err, "more than %d ports", INC_MAX_PORTS);
	return 0;
}

static int read_connection(const struct inc_yaml_node *node, struct inc_switch_conf *conf,
			   struct inc_err *err)
{
	struct inc_conn_conf c = {};
	struct inc_comm_conf *cm;
	struct inc_err why;
	int ret;

	ret = inc_schema_read_yaml(&inc_conn_schema, node, &c, err);
	if (!ret && !*c.port)
		ret = inc_default_port(node, &c, err);
	if (ret)
		return ret;
	if (c.up && conf->root)
		return inc_yaml_error(inc_yaml_get(node, "up"), err,
				      "the switch needs root: false for this");
	cm = find_comm(conf, c.communicator);
	if (!cm)
		return inc_yaml_error(inc_yaml_get(node, "communicator") ?: node, err,
				      "communicator %u is not in communicators", c.communicator);
	if (!c.up && cm->n_conns - !cm->root == inc_most_children(cm->mode))
		return inc_yaml_error(node, err, "communicator %u has %u children already",
				      c.communicator, inc_most_children(cm->mode));
	if (inc_conn_conf_settle(&c, cm, INC_FILE_ONLY, &why))
		return inc_yaml_error(node, err, "%.200s", why.msg);
	inc_conn_conf_add_verbs(&c, &conf->settings.verbs);
	ret = check_unique(node, conf, cm, &c, err);
	if (!ret)
		cm->conn[cm->n_conns++] = c;
	if (c.up)
		cm->root = false;
	return ret ?: take_port(node, conf, &c, err);
}

static int read_connections(const struct inc_yaml_node *sw, struct inc_switch_conf *conf,
			    struct inc_absent *absent, struct inc_err *err)
{
	const struct inc_yaml_node *list = inc_yaml_get(sw, "connections");
	uint32_t roots = 0;
	struct inc_err why;
	size_t i;
	int ret;

	ret = list ? inc_yaml_want_seq(list, err) : 0;
	for (i = 0; !ret && i < inc_yaml_len(list); i++) {
		ret = read_connection(inc_yaml_at(list, i), conf, err);
		inc_absent_count(absent, inc_yaml_at(list, i));
	}
	if (ret)
		return ret;
	for (i = 0; i < conf->n_comms; i++) {
		struct inc_comm_conf *cm = &conf->comm[i];

		if (inc_comm_conf_settle(cm, &why))
			return inc_yaml_error(inc_yaml_get(sw, "communicators") ?: sw, err,
					      "%.200s", why.msg);
		if (cm->n_conns == !cm->root)
			return inc_yaml_error(list, err, "communicator %u has no %s",
					      cm->communicator,
					      cm->root ? "connection" : "children");
		roots += cm->root;
	}
	if (list && !conf->root && roots == conf->n_comms)
		return inc_yaml_error(inc_yaml_get(sw, "root") ?: inc_yaml_get(sw, "is_root"), err,
				      "root is false, but no connection is up");
	return 0;
}

/* Removes repeated ports, because the engine can attach a port only once. */
static void forget_repeated_ports(struct inc_settings *s)
{
	const struct inc_settings listed = *s;
	uint32_t i;

	s->n_ports = 0;
	for (i = 0; i < listed.n_ports; i++)
		inc_settings_add_port(s, listed.port[i]);
}

/* Checks the settings of a switch. s: the file's settings. merged: the file's settings merged with
 * the command line's. The timers are checked as merged, because the command line may set one of
 * them. The file's address for metrics is checked even if the command line's is used. */
static int check_settings(const struct inc_yaml_node *sw, const struct inc_settings *s,
			  const struct inc_settings *merged, struct inc_err *err)
{
	const struct inc_yaml_node *map = inc_yaml_get(sw, "settings"), *said;
	struct inc_err why;

	said = inc_yaml_get(map, "rto_max_ms") ?: inc_yaml_get(map, "rto_min_ms");
	if (inc_settings_check_timers(merged, &why))
		return inc_yaml_error(said ?: sw, err, "%.300s", why.msg);
	if (s->metrics_given && inc_settings_check_metrics(s->metrics, &why))
		return inc_yaml_error(inc_yaml_get(map, "metrics"), err, "%.300s", why.msg);
	return 0;
}

/* Logs what the switch uses in place of a name, connections or communicators that its file leaves
 * out. */
static void log_left_out(const char *path, const struct inc_yaml_node *sw,
			 const struct inc_switch_conf *conf)
{
	const bool named = inc_yaml_get(sw, "name");

	if (!named)
		inc_info("%s: the switch has no name: using its id, %s", path, conf->name);
	if (!inc_yaml_get(sw, "connections"))
		inc_warn("%s: the switch has no connections, so it adds up nothing", path);
	else if (!inc_yaml_get(sw, "communicators"))
		inc_info("%s: the switch lists no communicators: using number 0, payload %d, "
			 "slots %d, byte_order %s%s",
			 path, INC_DEF_PAYLOAD, INC_DEF_SLOTS,
			 inc_byte_orders[conf->comm[0].byte_order],
			 named ? "" : ", as the original documents' files have it");
}

/* Reads one switch of a file. alone: the file has only this switch, as the mapping "switch", which
 * may lack connections. line: the settings of the command line. */
static int read_switch(const char *path, const struct inc_yaml_node *sw, bool alone,
		       const struct inc_settings *line, struct inc_switch_conf *conf,
		       struct inc_err *err)
{
	struct inc_absent comms = {.schema = &inc_comm_schema, .what = "communicators"};
	struct inc_absent conns = {.schema = &inc_conn_schema, .what = "connections"};
	struct inc_settings merged = *line;
	int ret;

	ret = inc_schema_read_yaml(&inc_switch_schema, sw, conf, err);
	if (!ret && !inc_yaml_get(sw, "connections") &&
	    (!alone || inc_yaml_get(sw, "communicators")))
		ret = inc_yaml_error(sw, err, "'connections' is missing");
	if (!ret && conf->settings.old_xdp_given)
		inc_settings_old_xdp(&conf->settings, conf->settings.old_generic, path);
	conf->settings.old_xdp_given = false;
	inc_settings_merge(&merged, &conf->settings);
	ret = ret ?: check_settings(sw, &conf->settings, &merged, err);
	forget_repeated_ports(&conf->settings);
	conf->ports_given = conf->settings.n_ports;
	ret = ret ?: read_comms(sw, merged.mode, conf, &comms, err);
	ret = ret ?: read_connections(sw, conf, &conns, err);
	if (ret)
		return ret;
	log_left_out(path, sw, conf);
	inc_absent_log(&comms, path, conf);
	inc_absent_log(&conns, path, conf);
	return 0;
}

/* Reads the switch's name. A switch without a name has its id as name, because files in the
 * original documents' form have only an id. */
static int get_name(const struct inc_yaml_node *sw, char name[INC_SWITCH_NAME_LEN],
		    struct inc_err *err)
{
	const char *key = inc_yaml_get(sw, "name") || !inc_yaml_get(sw, "id") ? "name" : "id";
	const char *text = NULL;
	struct inc_err why;
	int ret;

	ret = inc_yaml_want_map(sw, err);
	ret = ret ?: inc_yaml_get_str(sw, key, &text, err);
	if (ret)
		return ret;
	if (inc_instance_name_check(text, &why))
		return inc_yaml_error(inc_yaml_get(sw, key), err, "%.200s", why.msg);
	strcpy(name, text);
	return 0;
}

/* Compares a switch of the file with the name that is wanted. Returns 0 if it has that name or want
 * is NULL, 1 if it is another switch, or -EINVAL. */
static int match_switch(const struct inc_yaml_node *sw, const char *want,
			const struct inc_yaml_node **out, char name[INC_SWITCH_NAME_LEN],
			struct inc_err *err)
{
	int ret = get_name(sw, name, err);

	if (ret)
		return ret;
	if (want && strcmp(name, want))
		return 1;
	*out = sw;
	return 0;
}

/* Returns the file's "switch" if that is the mapping of one switch, or NULL if it is a list. */
static const struct inc_yaml_node *only_switch(const struct inc_yaml_node *root)
{
	const struct inc_yaml_node *sw = inc_yaml_get(root, "switch");

	return sw && !inc_yaml_want_map(sw, NULL) ? sw : NULL;
}

/* Finds the switch called want, or the only one if want is NULL. */
static int pick_switch(const struct inc_yaml_node *root, const char *want,
		       const struct inc_yaml_node **out, char name[INC_SWITCH_NAME_LEN],
		       struct inc_err *err)
{
	static const char *const known[] = {"switches", "switch", NULL};
	const struct inc_yaml_node *list;
	size_t i;
	int ret;

	ret = inc_yaml_want_map(root, err);
	ret = ret ?: inc_yaml_check_keys(root, known, err);
	if (ret)
		return ret;
	list = inc_yaml_get(root, "switches");
	if (list && inc_yaml_get(root, "switch"))
		return inc_yaml_error(root, err, "'switches' and 'switch' exclude each other");
	list = list ?: inc_yaml_get(root, "switch");
	if (!list)
		return inc_yaml_error(root, err, "'switches' is missing");
	if (only_switch(root)) {
		ret = match_switch(list, want, out, name, err);
		return ret > 0 ? inc_yaml_error(list, err, "is not called '%.32s'", want) : ret;
	}
	ret = inc_yaml_want_seq(list, err);
	if (ret)
		return ret;
	if (!inc_yaml_len(list))
		return inc_yaml_error(list, err, "no switch");
	if (!want && inc_yaml_len(list) > 1)
		return inc_yaml_error(list, err, "%zu switches: --name must name one of them",
				      inc_yaml_len(list));
	for (i = 0; i < inc_yaml_len(list); i++) {
		ret = match_switch(inc_yaml_at(list, i), want, out, name, err);
		if (ret <= 0)
			return ret;
	}
	return inc_yaml_error(list, err, "no switch is called '%.32s'", want);
}

int inc_config_load(const char *path, const char *name, const struct inc_settings *line,
		    struct inc_switch_conf *out, struct inc_err *err)
{
	const struct inc_yaml_node *sw = NULL;
	struct inc_yaml *doc;
	int ret;

	memset(out, 0, sizeof(*out));
	ret = inc_yaml_load(path, &doc, err);
	if (ret)
		return ret;
	ret = pick_switch(inc_yaml_root(doc), name, &sw, out->name, err);
	ret = ret ?: read_switch(path, sw, only_switch(inc_yaml_root(doc)), line, out, err);
	inc_yaml_free(doc);
	if (ret)
		inc_config_free(out);
	return ret;
}

int inc_config_fits(const char *path, const struct inc_switch_conf *conf, struct inc_err *err)
{
	const struct inc_settings *s = &conf->settings;
	/* the sums of rows and slots include only communicators of passthrough mode */
	uint64_t connections = 0, rows = 0, slots = 0;
	uint32_t i, k;

	for (i = 0; i < conf->n_comms; i++) {
		const struct inc_comm_conf *cm = &conf->comm[i];

		connections += cm->n_conns;
		if (cm->mode == INC_PASSTHROUGH) {
			rows += (uint64_t)cm->n_conns * cm->slots;
			slots += cm->slots;
		}
		for (k = 0; k < cm->n_conns; k++)
			if (!inc_settings_has_port(s, cm->conn[k].port))
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
		{"communicators", conf->n_comms, s->max_comms, "max_communicators"},
		{"connections", connections, s->max_connections, "max_connections"},
		{"contribution rows (connections times slots)", rows, s->max_rows, "max_rows"},
		{"slots", slots, inc_switch_sum_rows(s->max_rows), "max_rows"},
	};
	for (i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		if (sums[i].want > sums[i].have)
			return inc_err_set(err, ENOSPC,
					   "%s: %llu %s are wanted, %s gives room for %u", path,
					   (unsigned long long)sums[i].want, sums[i].what,
					   sums[i].setting, sums[i].have);
	return 0;
}

void inc_config_free(struct inc_switch_conf *conf)
{
	free(conf->comm);
	memset(conf, 0, sizeof(*conf));
}

int inc_config_json(const json_t *object, struct inc_comm_conf *out, struct inc_err *err)
{
	struct inc_msg_configure said = {};
	struct inc_err why;
	uint32_t i, ups = 0;
	int ret;

	ret = inc_message_read(INC_MSG_CONFIGURE, object, &said, err);
	if (ret)
		return ret;
	*out = said.config;
	for (i = 0; i < out->n_conns; i++) {
		if (inc_conn_conf_settle(&out->conn[i], out, INC_MESSAGE_ONLY, &why))
			return inc_err_set(err, EINVAL, "config.connections[%u]: %s", i, why.msg);
		ups += out->conn[i].up;
	}
	if (ups != !out->root)
		return inc_err_set(err, EINVAL, "config.root: %s, but %u connections are up",
				   out->root ? "true" : "false", ups);
	return inc_comm_conf_settle(out, err);
}
