// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 20000
 *
 * Target: lines of client and service, as a message of each kind. The error of a rejected line must
 * be one line. If a message is accepted and printed, it must be read as the same message. Settings
 * must be computable from it, one of its devices selectable, and its metrics valid Prometheus text.
 * Every struct is in a block of exactly its size. After each message an honest one of the same kind
 * is read again. It must have the same result as before all messages, whatever errno the thread
 * has.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/figures.h"
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/select.h"
#include "selftests/fuzz/fuzz.h"

static size_t size_of(enum connect_message_id id)
{
	return id == CONNECT_MSG_ERROR ? inc_messages[INC_MSG_ERROR].schema.size
				       : connect_messages[id].schema.size;
}

static json_t *print(enum connect_message_id id, const void *in)
{
	return id == CONNECT_MSG_ERROR ? inc_message_new(INC_MSG_ERROR, in) : connect_new(id, in);
}

/* Returns why the message is wrong, or NULL. */
static const char *check_connect(const struct connect_connect *asked)
{
	if (!connect_link_of(&asked->info))
		return "no link";
	if (asked->config.buf_ack_batch > asked->config.send_buf_cnt ||
	    connect_recv_wr(&asked->config) <= asked->config.send_buf_cnt ||
	    connect_cq_entries(&asked->config) <= connect_send_wr(&asked->config))
		return "settings that do not go together";
	return NULL;
}

/* Are the counts within the lists? No sanitizer reports an entry beyond the end of a list inside
 * the struct. */
static bool within_bounds(const struct inc_connect_devices *d)
{
	uint32_t i, k;

	if (d->n_devices > INC_CONNECT_MAX_DEVICES)
		return false;
	for (i = 0; i < d->n_devices; i++) {
		if (d->devices[i].n_ports > INC_CONNECT_MAX_PORTS)
			return false;
		for (k = 0; k < d->devices[i].n_ports; k++)
			if (d->devices[i].ports[k].n_zones > INC_CONNECT_MAX_ZONES)
				return false;
	}
	return true;
}

/* Selects among pairs of the peer's ports and three ports of this side: InfiniBand, Ethernet, and
 * an Ethernet port that is down. */
static const char *check_devices(const struct inc_connect_devices *remote, unsigned int counter)
{
	static const struct inc_rdma_gid gid = {.type = INC_RDMA_GID_ROCE_V2,
						.raw = {[10] = 0xff, 0xff, 10, 1, 2, 3},
						.own_ifindex = 2};
	static const struct inc_rdma_port_info ports[] = {
		{.number = 1,
		 .link_layer = INC_RDMA_LINK_INFINIBAND,
		 .state = INC_RDMA_PORT_ACTIVE},
		{.number = 2,
		 .link_layer = INC_RDMA_LINK_ETHERNET,
		 .state = INC_RDMA_PORT_ACTIVE,
		 .gid = &gid,
		 .gids = 1},
		{.number = 3, .link_layer = INC_RDMA_LINK_ETHERNET, .state = INC_RDMA_PORT_DOWN},
	};
	static const struct inc_rdma_device_info device = {
		.name = "mlx5_0", .port = ports, .ports = 3};
	static const struct inc_rdma_list local = {.device = &device, .devices = 1};
	static struct connect_config config;
	struct connect_selected selected = {};
	struct inc_err err = {""};
	uint32_t pairs = 0, chosen = 0, i;
	int ret;

	if (!within_bounds(remote))
		return "more than there is room for";
	connect_config_init(&config);
	config.allow_unknown_zone = counter & 1;
	ret = connect_select(remote, &local, &config, counter, &selected, &err);
	for (i = 0; i < remote->n_devices; i++)
		pairs += 3 * remote->devices[i].n_ports;
	for (i = 0; i < selected.choice.n_pairs; i++)
		chosen += selected.pairs[i].reason == INC_CONNECT_CHOSEN;
	free(selected.pairs);
	if (selected.choice.n_pairs != pairs || chosen != !ret ||
	    (!ret && selected.chosen >= pairs))
		return "not one choice";
	return ret && (ret != -ENODEV || !err.msg[0] || strchr(err.msg, '\n'))
		       ? "no one-line reason"
		       : NULL;
}

/* Is this a "# HELP …" line, a "# TYPE …" line, or a sample with name, labels and number? */
static bool is_line(const char *line, size_t len)
{
	const char *end = line + len, *number = end;
	size_t i;

	for (i = 0; i < len; i++)
		if (iscntrl((unsigned char)line[i]))
			return false;
	if (*line == '#')
		return !strncmp(line, "# HELP ", 7) || !strncmp(line, "# TYPE ", 7);
	while (number > line && number[-1] != ' ')
		number--;
	return (isalpha((unsigned char)*line) || *line == '_') && number > line + 1 &&
	       number < end && strspn(number, "0123456789.") == (size_t)(end - number) &&
	       (number[-2] == '}' || isalnum((unsigned char)number[-2]) || number[-2] == '_');
}

static const char *check_figures(const json_t *message)
{
	char *text = connect_figures_text(json_object_get(message, "families")), *line = text, *end;
	bool fine = text;

	for (; fine && *line; line = end + 1) {
		end = strchr(line, '\n');
		fine = end && is_line(line, end - line);
		if (!end)
			break;
	}
	free(text);
	return fine ? NULL : "no text of Prometheus";
}

static const char *check(enum connect_message_id id, const json_t *object, const void *in,
			 unsigned int counter)
{
	switch (id) {
	case CONNECT_MSG_CONNECT:
		return check_connect(in);
	case CONNECT_MSG_DEVICES:
		return check_devices(in, counter);
	case CONNECT_MSG_FIGURES:
		return check_figures(object);
	default:
		return NULL;
	}
}

/* Prints the message, reads it, and prints it again. */
static const char *check_print(enum connect_message_id id, const void *in)
{
	void *again = malloc(size_of(id));
	json_t *first = print(id, in), *second = NULL;
	const char *why = NULL;
	struct inc_err err;

	if (!first || connect_read(id, first, again, &err))
		why = "not printed, or not as it can be read";
	else
		second = print(id, again);
	if (second && !json_equal(first, second))
		why = "prints another thing the second time";
	json_decref(first);
	json_decref(second);
	free(again);
	return why;
}

static void try_one(enum connect_message_id id, const json_t *object, unsigned int counter)
{
	/* a message with metrics has no struct */
	void *in = malloc(size_of(id) ?: 1);
	struct inc_err err = {""};
	const char *why;
	int ret;

	fuzz_require(in, "no memory");
	ret = connect_read(id, object, in, &err);
	if (ret) {
		fuzz_require(ret == -EINVAL || ret == -EPROTONOSUPPORT, "another error, %d", ret);
		fuzz_check_refusal(&err, NULL);
		free(in);
		return;
	}
	why = check(id, object, in, counter);
	if (!why && id != CONNECT_MSG_FIGURES)
		why = check_print(id, in);
	fuzz_require(!why, "message %u: %s", id, why);
	free(in);
}

/* The fields of one end of a connection. */
#define END_FIELDS                                                                               \
	"\"hostname\":\"n1\",\"dev\":0,\"dev_name\":\"mlx5_0\",\"port\":1,\"mtu\":5,\"qp_num\":" \
	"17,\"start_psn\":9"

static const char *const honest_texts[CONNECT_MSG_MAX] = {
	[CONNECT_MSG_QUERY] = "{\"type\":\"query\",\"version\":1}",
	[CONNECT_MSG_DEVICES] =
		"{\"type\":\"devices\",\"hostname\":\"n1\",\"devices\":[{\"dev\":0,\"dev_name\":"
		"\"mlx5_0\",\"ports\":[{\"port\":1,\"link_layer\":2,\"zones\":[\"a\"]}]}]}",
	[CONNECT_MSG_CONNECT] = "{\"type\":\"connect\",\"version\":1," END_FIELDS
				",\"gid\":\"::ffff:10.77.0.1\",\"target_dev\":0,\"target_devname\":"
				"\"rxe0\",\"target_port\":1,\"config\":{}}",
	[CONNECT_MSG_CONNECTED] = "{\"type\":\"connected\"," END_FIELDS ",\"lid\":7}",
	[CONNECT_MSG_ASK_FIGURES] = "{\"type\":\"stats\",\"version\":1}",
	[CONNECT_MSG_FIGURES] =
		"{\"type\":\"figures\",\"families\":[{\"name\":\"inc_a\",\"kind\":\"gauge\","
		"\"text\":"
		"\"of a\",\"samples\":[{\"labels\":{\"peer\":\"a\"},\"value\":19}]}]}",
	[CONNECT_MSG_ERROR] = "{\"type\":\"error\",\"errno\":\"ENODEV\",\"message\":\"no port\"}",
};

/* Reads an honest message, and returns its contents as a text that the caller frees. */
static char *read_honest(enum connect_message_id id)
{
	json_t *object = json_loads(honest_texts[id], 0, NULL), *again;
	void *in = malloc(size_of(id) ?: 1);
	struct inc_err err = {""};
	const char *why = NULL;
	char *text;

	fuzz_require(object && in, "no honest message %u", id);
	errno = ENOTEMPTY;
	if (connect_read(id, object, in, &err))
		why = err.msg;
	why = why ?: check(id, object, in, 1);
	fuzz_require(!why, "honest message %u: %s", id, why);
	if (id == CONNECT_MSG_FIGURES) {
		text = connect_figures_text(json_object_get(object, "families"));
	} else {
		again = print(id, in);
		text = json_dumps(again, JSON_SORT_KEYS);
		json_decref(again);
	}
	fuzz_require(text, "no memory");
	json_decref(object);
	free(in);
	return text;
}

static void check_honest(enum connect_message_id id)
{
	static char *first[CONNECT_MSG_MAX];
	char *now;

	if (!first[id])
		for (int i = 0; i < CONNECT_MSG_MAX; i++)
			first[i] = read_honest(i);
	now = read_honest(id);
	fuzz_require(!strcmp(now, first[id]), "honest message %u was %s, and is %s", id, first[id],
		     now);
	free(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *object = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
	int id;

	check_honest(0);
	for (id = 0; object && id < CONNECT_MSG_MAX; id++) {
		try_one(id, object, size);
		check_honest(id);
	}
	json_decref(object);
	return 0;
}
