// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tables of messages and files against random damage, the same on every run: what is not
 * refused with one line prints as something that is read again and prints the same. Built with the
 * sanitizers; every struct stands in a block of its own size.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/conf/messages.h"
#include "lib/conf/schema_yaml.h"
#include "selftests/control/damage.h"

#define ROUNDS     60000
#define MAX_TIME_S 20

#define CONNECTION                                                                       \
	"\"up\":false,\"host_id\":0,\"my_name\":\"p0\",\"my_ip\":\"10.77.0.254\","       \
	"\"my_mac\":\"02:00:00:00:00:01\",\"my_port\":4791,\"my_qp\":100,\"my_psn\":0,"  \
	"\"peer_ip\":\"10.77.0.1\",\"peer_port\":4791,\"peer_qp\":200,\"psn\":16777215," \
	"\"pkey\":65535,\"udp_csum\":true"

static const struct {
	enum inc_message_id id;
	const char *text;
} messages[] = {
	{INC_MSG_JOIN, "{\"version\":1,\"job\":\"t\",\"rank\":0,\"world_size\":4,\"addrs\":"
		       "[\"10.77.0.1\",\"10.77.1.1\"],\"host\":\"node17\"}"},
	{INC_MSG_ASK, "{\"comm\":0,\"transport\":\"soft\",\"qpn\":17,\"psn\":8388600,"
		      "\"udp_port\":40001,\"payload\":1024,\"message_packets\":1,\"window\":512,"
		      "\"pkey\":65535,\"udp_csum\":true,\"byte_order\":\"network\"}"},
	{INC_MSG_MADE, "{\"comm\":0,\"communicator\":12,\"payload\":1024,\"slots\":512,"
		       "\"connection\":{\"switch\":\"s0\",\"peer_ip\":\"10.77.0.254\","
		       "\"peer_port\":4791,\"peer_qp\":4097,\"peer_psn\":77,"
		       "\"my_ip\":\"10.77.0.1\"}}"},
	{INC_MSG_JOIN,
	 "{\"job\":\"t\",\"rank\":0,\"world_size\":4,\"addrs\":[\"10.77.0.1\"],\"derive\":"
	 "{\"how\":\"split\",\"of\":7,\"round\":1,\"color\":2,\"key\":-3}}"},
	{INC_MSG_JOINED, "{\"group\":7,\"addr\":\"10.77.0.1\",\"rank\":0,\"world_size\":4}"},
	{INC_MSG_REPORT, "{\"communicator\":12,\"comm\":0,\"errno\":\"EMSGSIZE\",\"message\":"
			 "\"s0: send\",\"rank\":1}"},
	{INC_MSG_REPORT, "{\"derive\":{\"how\":\"shrink\",\"round\":0},\"errno\":\"ENOMEM\","
			 "\"message\":\"no memory\"}"},
	{INC_MSG_FAILED, "{\"group\":7,\"communicator\":12,\"rank\":2,\"errno\":\"ECONNRESET\","
			 "\"message\":\"rank 2 left\"}"},
	{INC_MSG_RESUME, "{\"job\":\"t\",\"rank\":0,\"world_size\":4,\"addrs\":[\"10.77.0.1\"],"
			 "\"group\":7,\"communicators\":[{\"communicator\":12,\"comm\":0,"
			 "\"switch\":\"s0\",\"transport\":\"soft\",\"qpn\":17,\"payload\":1024,"
			 "\"slots\":512},{\"communicator\":13,\"comm\":1,\"switch\":\"s0\","
			 "\"transport\":\"verbs\",\"qpn\":18,\"payload\":256,\"slots\":1}]}"},
	{INC_MSG_HELLO, "{\"version\":1,\"switch\":\"s0\",\"limits\":{\"children\":32,"
			"\"slots\":4096,\"rows\":16384,\"connections\":1024,\"groups\":64}}"},
	{INC_MSG_HELLO,
	 "{\"version\":1,\"switch\":\"s0\",\"mode\":\"termination\",\"engines\":[{\"mode\":"
	 "\"passthrough\"},{\"mode\":\"termination\",\"limits\":{\"children\":64,"
	 "\"message_bytes\":1048576,\"window_bytes\":1},\"endpoints\":[{\"port\":\"p0\","
	 "\"kind\":\"soft\",\"device\":\"d\",\"payload\":1024,\"message_bytes\":1}],"
	 "\"kernels\":[{\"operator\":\"sum\",\"types\":[\"int32\",\"float32\"]}],"
	 "\"set\":\"avx2\"}]}"},
	{INC_MSG_CONFIGURED,
	 "{\"seq\":5,\"communicator\":12,\"connections\":[{\"host_id\":0,\"my_qp\":2,"
	 "\"my_psn\":0,\"my_port\":1},{\"host_id\":0,\"up\":true,\"my_qp\":3,\"my_psn\":9,"
	 "\"my_port\":4791}]}"},
	{INC_MSG_CONNECT, "{\"communicator\":12,\"connections\":[{\"host_id\":0,\"peer_qp\":2,"
			  "\"psn\":0,\"peer_port\":1}]}"},
	{INC_MSG_SET_MODE, "{\"switch\":\"s0\",\"mode\":\"termination\"}"},
	{INC_MSG_CONFIGURE,
	 "{\"seq\":5,\"config\":{\"communicator\":12,\"root\":true,\"payload\":1024,\"slots\":512,"
	 "\"connections\":[{" CONNECTION "},{" CONNECTION "}]}}"},
	{INC_MSG_QUESTION,
	 "{\"what\":\"counters\",\"switch\":\"s0\",\"communicator\":3,\"from\":7}"},
	{INC_MSG_EVENT, "{\"switch\":\"s0\",\"time_ns\":1,\"event\":\"mismatch\","
			"\"communicator\":12,\"rank\":1,\"r\":4711,\"message\":\"m\"}"},
	{INC_MSG_ERROR,
	 "{\"seq\":1,\"comm\":0,\"communicator\":12,\"errno\":\"EINVAL\",\"message\":\"no\"}"},
};

static const char conn_file[] =
	"up: false\ncommunicator: 3\nhost_id: 0\nmy_name: p0\nmy_ip: 10.77.0.254\n"
	"my_mac: \"02:00:00:00:00:01\"\nmy_port: 4791\nmy_qp: 100\npeer_ip: 10.77.0.1\n"
	"peer_qp: 0x200\npsn: 16777215\npkey: 65535\nudp_csum: no\n";
static const char comm_file[] =
	"{communicator: 3, payload: 1024, slots: 512, byte_order: network}\n";

static const char *what = "start";
static unsigned int round_n, good;

static int fail(const char *why)
{
	printf("not ok schema fuzz: %s: %s in round %u\n", what, why, round_n);
	return 1;
}

static int check_refusal(const struct inc_err *err)
{
	return err->msg[0] && !strchr(err->msg, '\n') ? 0 : fail("no one-line message");
}

/* Whether a message reads, and what it reads as does, too. 0: all is well. */
static int try_message(size_t i)
{
	const struct inc_schema *schema = &inc_messages[messages[i].id].schema;
	void *first = calloc(1, schema->size), *second = calloc(1, schema->size);
	struct inc_err err = {""};
	json_t *object, *print = NULL, *again = NULL;
	size_t len;
	char *text = damage(messages[i].text, strlen(messages[i].text), &len);
	int ret = 0;

	what = inc_messages[messages[i].id].type;
	/* what may be absent has a value all the same */
	object = json_loads(messages[i].text, 0, NULL);
	if (inc_schema_read_json(schema, object, first, &err))
		return fail(err.msg);
	json_decref(object);
	object = json_loadb(text, len, 0, NULL);
	free(text);
	if (inc_schema_read_json(schema, object, first, &err)) {
		ret = check_refusal(&err);
	} else {
		good++;
		print = inc_schema_print(schema, INC_MESSAGE_ONLY, first);
		if (!print || inc_schema_read_json(schema, print, second, &err))
			ret = fail(print ? err.msg : "not printed");
		again = inc_schema_print(schema, INC_MESSAGE_ONLY, second);
		if (!ret && !json_equal(print, again))
			ret = fail("prints another thing the second time");
	}
	json_decref(object);
	json_decref(print);
	json_decref(again);
	free(first);
	free(second);
	return ret;
}

static int read_file(const struct inc_schema *schema, const char *text, size_t len, void *out,
		     struct inc_err *err)
{
	struct inc_yaml *doc;
	int ret = inc_yaml_parse("f", text, len, &doc, err);

	if (ret)
		return ret;
	ret = inc_schema_read_yaml(schema, inc_yaml_root(doc), out, err);
	inc_yaml_free(doc);
	return ret;
}

static int try_file(const struct inc_schema *schema, const char *base, size_t base_len)
{
	void *first = calloc(1, schema->size), *second = calloc(1, schema->size);
	json_t *print = NULL, *again = NULL;
	struct inc_err err = {""};
	char *yaml = NULL, *text;
	size_t len, yaml_len;
	int ret = 0;
	FILE *f;

	what = "a file";
	text = damage(base, base_len, &len);
	if (read_file(schema, text, len, first, &err)) {
		ret = check_refusal(&err);
		goto out;
	}
	good++;
	print = inc_schema_print(schema, INC_FILE_ONLY, first);
	f = open_memstream(&yaml, &yaml_len);
	inc_yaml_write(f, print);
	fclose(f);
	/* what was left out is printed as empty, which a file cannot say */
	if (read_file(schema, yaml, yaml_len, second, &err) && !strstr(err.msg, "is empty"))
		ret = fail(err.msg);
	again = inc_schema_print(schema, INC_FILE_ONLY, second);
	if (!ret && !strstr(err.msg, "is empty") && !json_equal(print, again))
		ret = fail("prints another thing the second time");
out:
	json_decref(print);
	json_decref(again);
	free(yaml);
	free(text);
	free(first);
	free(second);
	return ret;
}

int main(void)
{
	const size_t n = sizeof(messages) / sizeof(messages[0]);
	time_t start = inc_now_s();
	int ret = 0;

	for (; !ret && round_n < ROUNDS && inc_now_s() - start < MAX_TIME_S; round_n++) {
		if (round_n % 3)
			ret = try_message(damage_rnd(n));
		else if (damage_rnd(2))
			ret = try_file(&inc_conn_schema, conn_file, sizeof(conn_file) - 1);
		else
			ret = try_file(&inc_comm_schema, comm_file, sizeof(comm_file) - 1);
	}
	what = "the end";
	if (!ret && (round_n < 1000 || !good || good == round_n))
		ret = fail("too few rounds, or all alike");
	if (!ret)
		printf("ok schema fuzz (%u damaged texts, %u still valid)\n", round_n, good);
	return ret;
}
