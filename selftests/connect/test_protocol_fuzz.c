/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines of client and service against random damage, the same on every run, and against those
 * that are kept in corpus: what is not refused with one line is printed as something that is read
 * again as the same, what follows from its settings can be computed, one of its devices chosen,
 * and its figures are text of Prometheus. Built with the sanitizers; every struct stands in a
 * block of its own size.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "hostlib/connect/config.h"
#include "hostlib/connect/figures.h"
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/select.h"
#include "selftests/connect/messages.h"
#include "selftests/control/damage.h"

#define CORPUS     "selftests/connect/corpus"
#define ROUNDS     60000
#define MAX_TIME_S 20

static const char figures[] =
	"{\"type\":\"figures\",\"families\":[{\"name\":\"inc_connect_sent_bytes\",\"unit\":"
	"\"bytes\","
	"\"kind\":\"counter\",\"text\":\"of messages\",\"samples\":[{\"labels\":{},\"value\":17},"
	"{\"labels\":{\"peer\":\"a\",\"x\":\"\\u001b\"},\"value\":9007199254740992}]},"
	"{\"name\":\"inc_connect_latency_us\",\"unit\":\"microseconds\",\"kind\":\"histogram\","
	"\"text\":\"from\\nto\",\"samples\":[{\"labels\":{\"peer\":\"10.1.0.1\"},\"bounds\":[100,"
	"200],"
	"\"counts\":[4,0,1],\"sum\":1017}]}]}";

static unsigned int round_n, good;

static int fail(const char *text, size_t len, const char *why)
{
	printf("not ok protocol fuzz: %s in round %u: %.*s\n", why, round_n, (int)len, text);
	return 1;
}

static size_t size_of(enum connect_message_id id)
{
	return id == CONNECT_MSG_ERROR ? inc_messages[INC_MSG_ERROR].schema.size
				       : connect_messages[id].schema.size;
}

static json_t *print(enum connect_message_id id, const void *in)
{
	return id == CONNECT_MSG_ERROR ? inc_message_new(INC_MSG_ERROR, in) : connect_new(id, in);
}

/* Why it will not do, NULL where it does. */
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

/* The peer's ports against an InfiniBand one and two of Ethernet, of which one is down. */
static const char *check_devices(const struct inc_connect_devices *remote)
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

	connect_config_init(&config);
	config.allow_unknown_zone = damage_rnd(2);
	ret = connect_select(remote, &local, &config, damage_rnd(1000), &selected, &err);
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

/* "# HELP …", "# TYPE …", or a sample: a name, its labels, a number. */
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
	if (text && !fine)
		printf("# %s\n", text);
	free(text);
	return fine ? NULL : "no text of Prometheus";
}

static const char *check(enum connect_message_id id, const json_t *object, const void *in)
{
	switch (id) {
	case CONNECT_MSG_CONNECT:
		return check_connect(in);
	case CONNECT_MSG_DEVICES:
		return check_devices(in);
	case CONNECT_MSG_FIGURES:
		return check_figures(object);
	default:
		return NULL;
	}
}

/* Printed, and read, and printed. */
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

static int try_one(enum connect_message_id id, const char *text, size_t len)
{
	json_t *object = json_loadb(text, len, JSON_DECODE_ANY, NULL);
	void *in = malloc(size_of(id));
	struct inc_err err = {""};
	const char *why = NULL;
	int ret;

	if (!object)
		goto out;
	ret = connect_read(id, object, in, &err);
	if (ret) {
		if (ret != -EINVAL && ret != -EPROTONOSUPPORT)
			why = "another error";
		else if (!err.msg[0] || strchr(err.msg, '\n'))
			why = "no one-line message";
		goto out;
	}
	good++;
	why = check(id, object, in);
	if (!why && id != CONNECT_MSG_FIGURES)
		why = check_print(id, in);
out:
	json_decref(object);
	free(in);
	return why ? fail(text, len, why) : 0;
}

/* Each kept line as a message of each kind. 0: all is well. */
static int try_corpus(unsigned int *lines)
{
	FILE *f = fopen(CORPUS, "r");
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int ret = 0;

	if (!f)
		return fail(CORPUS, strlen(CORPUS), strerror(errno));
	while (!ret && (len = getline(&line, &size, f)) > 0) {
		enum connect_message_id id;

		for (id = 0; !ret && id < CONNECT_MSG_MAX; id++)
			ret = try_one(id, line, len);
		(*lines)++;
	}
	free(line);
	fclose(f);
	return ret;
}

int main(void)
{
	const time_t start = inc_now_s();
	unsigned int lines = 0;
	int ret = try_corpus(&lines);

	good = 0;
	for (; !ret && round_n < ROUNDS && inc_now_s() - start < MAX_TIME_S; round_n++) {
		const size_t i = damage_rnd(N_SAMPLES + 1);
		const bool of_figures = i == N_SAMPLES;
		const char *base = of_figures ? figures : connect_samples[i].text;
		size_t len;
		char *text = damage(base, strlen(base), &len);

		ret = try_one(of_figures ? CONNECT_MSG_FIGURES : connect_samples[i].id, text, len);
		free(text);
	}
	if (!ret && (!lines || round_n < 1000 || !good || good == round_n))
		ret = fail("", 0, "too few rounds, or all alike");
	if (!ret)
		printf("ok protocol fuzz (%u kept lines, %u damaged ones, %u still valid)\n", lines,
		       round_n, good);
	return ret;
}
