// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 15000
 *
 * Target: the tables of the control plane. The input is read as a message of every type with its
 * name, in both directions. If it is no message, it is read as a connection and as a communicator
 * of a switch's file. The error of a rejected input is one line. The text of an accepted input can
 * be read again and then prints the same text. Every struct is in a block of exactly its size.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/conf/messages.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "selftests/fuzz/fuzz.h"

static void *block(const struct inc_schema *schema)
{
	/* a message without fields has size 0 */
	void *p = calloc(1, schema->size ?: 1);

	fuzz_require(p, "no memory");
	return p;
}

static void check_message(const struct inc_schema *schema, const json_t *object)
{
	void *first = block(schema), *second = block(schema);
	json_t *print, *again;
	struct inc_err err = {""};

	if (inc_schema_read_json(schema, object, first, &err)) {
		fuzz_check_refusal(&err, NULL);
	} else {
		print = inc_schema_print(schema, INC_MESSAGE_ONLY, first);
		fuzz_require(print, "not printed");
		fuzz_require(!inc_schema_read_json(schema, print, second, &err),
			     "its print is refused: %s", err.msg);
		again = inc_schema_print(schema, INC_MESSAGE_ONLY, second);
		fuzz_require(json_equal(print, again), "prints another thing the second time");
		json_decref(print);
		json_decref(again);
	}
	free(first);
	free(second);
}

static int read_file(const struct inc_schema *schema, const char *text, size_t len, void *out,
		     struct inc_err *err)
{
	struct inc_yaml *doc;
	int ret = inc_yaml_parse("f.yaml", text, len, &doc, err);

	if (ret)
		return ret;
	ret = inc_schema_read_yaml(schema, inc_yaml_root(doc), out, err);
	inc_yaml_free(doc);
	return ret;
}

static void check_file(const struct inc_schema *schema, const char *text, size_t len)
{
	void *first = block(schema), *second = block(schema);
	json_t *print = NULL, *again = NULL;
	struct inc_err err = {""};
	char *yaml = NULL;
	size_t yaml_len;
	FILE *f;

	if (read_file(schema, text, len, first, &err)) {
		fuzz_check_file_refusal(&err, "f.yaml");
		goto out;
	}
	print = inc_schema_print(schema, INC_FILE_ONLY, first);
	f = open_memstream(&yaml, &yaml_len);
	inc_yaml_write(f, print);
	fclose(f);
	/* an absent field prints as an empty one, which a file must not contain */
	if (read_file(schema, yaml, yaml_len, second, &err)) {
		fuzz_require(strstr(err.msg, "is empty"), "its print is refused: %s", err.msg);
		goto out;
	}
	again = inc_schema_print(schema, INC_FILE_ONLY, second);
	fuzz_require(json_equal(print, again), "prints another thing the second time");
out:
	json_decref(print);
	json_decref(again);
	free(yaml);
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	bool known = false;
	int id;

	for (id = 0; object && id < INC_MSG_MAX; id++) {
		if (strcmp(inc_message_type(object), inc_messages[id].type) != 0)
			continue;
		known = true;
		check_message(&inc_messages[id].schema, object);
	}
	json_decref(object);
	if (!known) {
		check_file(&inc_conn_schema, text, size);
		check_file(&inc_comm_schema, text, size);
	}
	return 0;
}
