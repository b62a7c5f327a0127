/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines of client and service against random damage, the same on every run, and against those
 * that are kept in corpus: what is not refused with one line is printed as something that is read
 * again as the same, and what follows from its settings can be computed. Built with the
 * sanitizers; every struct stands in a block of its own size.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/protocol.h"
#include "selftests/connect/messages.h"
#include "selftests/control/damage.h"

#define CORPUS     "selftests/connect/corpus"
#define ROUNDS     60000
#define MAX_TIME_S 20

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
static const char *check_settings(enum connect_message_id id, const void *in)
{
	const struct connect_connect *asked = in;

	if (id != CONNECT_MSG_CONNECT)
		return NULL;
	if (!connect_link_of(&asked->info))
		return "no link";
	if (asked->config.buf_ack_batch > asked->config.send_buf_cnt ||
	    connect_recv_wr(&asked->config) <= asked->config.send_buf_cnt ||
	    connect_cq_entries(&asked->config) <= connect_send_wr(&asked->config))
		return "settings that do not go together";
	return NULL;
}

static int try_one(enum connect_message_id id, const char *text, size_t len)
{
	json_t *object = json_loadb(text, len, JSON_DECODE_ANY, NULL), *first = NULL,
	       *second = NULL;
	void *in = malloc(size_of(id)), *again = malloc(size_of(id));
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
	why = check_settings(id, in);
	first = print(id, in);
	if (!first || connect_read(id, first, again, &err))
		why = first ? err.msg : "not printed";
	second = first ? print(id, again) : NULL;
	if (!why && !json_equal(first, second))
		why = "prints another thing the second time";
out:
	ret = why ? fail(text, len, why) : 0;
	json_decref(object);
	json_decref(first);
	json_decref(second);
	free(in);
	free(again);
	return ret;
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
			if (id != CONNECT_MSG_FIGURES)
				ret = try_one(id, line, len);
		(*lines)++;
	}
	free(line);
	fclose(f);
	return ret;
}

int main(void)
{
	const time_t start = time(NULL);
	unsigned int lines = 0;
	int ret = try_corpus(&lines);

	good = 0;
	for (; !ret && round_n < ROUNDS && time(NULL) - start < MAX_TIME_S; round_n++) {
		const size_t i = damage_rnd(N_SAMPLES);
		const char *base = connect_samples[i].text;
		size_t len;
		char *text = damage(base, strlen(base), &len);

		ret = try_one(connect_samples[i].id, text, len);
		free(text);
	}
	if (!ret && (!lines || round_n < 1000 || !good || good == round_n))
		ret = fail("", 0, "too few rounds, or all alike");
	if (!ret)
		printf("ok protocol fuzz (%u kept lines, %u damaged ones, %u still valid)\n", lines,
		       round_n, good);
	return ret;
}
