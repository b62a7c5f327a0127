// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints the tables of lib/conf/messages.def and comm_conf.c as a document: every message of the
 * control protocol with its fields, their bounds and their defaults. The build writes the output to
 * build/docs/messages.md. With --json it prints the names of messages, fields and events, which
 * selftests/control/test_docs compares with the examples in docs/control.md.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"

static const char *need(const struct inc_field *f, char *buf, size_t size)
{
	switch (f->need) {
	case INC_REQUIRED:
		return "required";
	case INC_TOLD:
		return "required; not in files";
	case INC_LATER:
		return "may be absent";
	case INC_DEFAULT:
		if (f->kind == INC_BOOL)
			return f->def ? "true" : "false";
		if (f->kind == INC_CHOICE)
			return f->names[f->def];
		snprintf(buf, size, "%llu", (unsigned long long)f->def);
		return buf;
	case INC_HINT:
		return "hint";
	default:
		return "may be absent";
	}
}

static void print_rows(const struct inc_schema *schema, const char *prefix)
{
	char value[200], absent[32], path[100];

	for (size_t i = 0; i < schema->n; i++) {
		const struct inc_field *f = &schema->fields[i];
		bool list = f->kind == INC_LIST && f->of->fields[0].name;

		if (f->form == INC_FILE_ONLY)
			continue;
		snprintf(path, sizeof(path), "%s%s", prefix, f->name);
		printf("| `%s` | %s | %s | %s |\n", path,
		       list ? "list of objects" : inc_field_domain(f, value, sizeof(value)),
		       need(f, absent, sizeof(absent)), f->text);
		if (f->kind != INC_MAP && !list)
			continue;
		strncat(path, list ? "[]." : ".", sizeof(path) - strlen(path) - 1);
		print_rows(f->of, path);
	}
}

static const char *end_of(const struct inc_event_info *info)
{
	return info->code ? inc_errno_name(info->code) : "-";
}

static void print_events(void)
{
	puts("\n### Kinds of events\n\n"
	     "The second column has the error with which the controller ends the communicator.\n\n"
	     "| event | error | |\n|---|---|---|");
	for (size_t i = 0; i < INC_EVENT_KIND_MAX; i++)
		printf("| %s | %s | %s |\n", inc_event_info[i].name, end_of(&inc_event_info[i]),
		       inc_event_info[i].text);
}

static void print_markdown(void)
{
	puts("# The messages of the control plane, field by field\n\n"
	     "The build prints this file from the tables by which the programs read and write "
	     "messages (lib/conf/messages.c).\ncontrol.md describes which program sends a message "
	     "and when. The third column has the value of a field that\nis absent, if it has one. "
	     "If a hint is absent or unreadable, the message takes effect without it. Every "
	     "message "
	     "also has\nits `type`.");
	for (size_t i = 0; i < INC_MSG_MAX; i++) {
		const struct inc_message *m = &inc_messages[i];

		if (strcmp(m->from, "both") == 0)
			printf("\n## %s: member and controller; %s\n\n", m->type, m->text);
		else
			printf("\n## %s: %s to %s; %s\n\n", m->type, m->from, m->to, m->text);
		if (!m->schema.n) {
			puts("No fields.");
			continue;
		}
		puts("| field | value | absent | |\n|---|---|---|---|");
		print_rows(&m->schema, "");
		if (i == INC_MSG_EVENT)
			print_events();
	}
}

static json_t *list_fields(const struct inc_schema *schema, enum inc_field_form form)
{
	json_t *list = json_object();

	for (size_t i = 0; i < schema->n; i++) {
		const struct inc_field *f = &schema->fields[i];
		bool nests = f->kind == INC_MAP || f->kind == INC_LIST;

		if (f->form != INC_EVERYWHERE && f->form != form)
			continue;
		json_object_set_new(list, f->name,
				    nests && f->of->fields[0].name ? list_fields(f->of, form)
								   : json_null());
	}
	return list;
}

static void print_json(void)
{
	json_t *all = json_array(), *events = json_object(), *data;

	for (size_t i = 0; i < INC_MSG_MAX; i++)
		json_array_append_new(
			all, json_pack("{s:s, s:o}", "type", inc_messages[i].type, "fields",
				       list_fields(&inc_messages[i].schema, INC_MESSAGE_ONLY)));
	for (size_t i = 0; inc_event_names[i]; i++)
		json_object_set_new(events, inc_event_names[i],
				    json_string(end_of(&inc_event_info[i])));
	data = json_pack("{s:o, s:o, s:o, s:o}", "messages", all, "events", events, "communicators",
			 list_fields(&inc_comm_schema, INC_FILE_ONLY), "connections",
			 list_fields(&inc_conn_schema, INC_FILE_ONLY));
	json_dumpf(data, stdout, JSON_INDENT(1));
	json_decref(data);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--json") == 0)
		print_json();
	else
		print_markdown();
	return 0;
}
