/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Compares docs/connect.md with the tables that the code uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/figures.h"
#include "hostlib/connect/flow.h"
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/service.h"
#include "hostlib/connect/socket_priv.h"
#include "hostlib/connect/state.h"
#include "selftests/connect/document.h"

#define CELL 400

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("'%s' is not in docs/connect.md", what);
}

/* The value of a field that is a bool or a uint32_t. */
static uint32_t value_at(const struct inc_field *f, const void *values)
{
	const void *at = (const char *)values + f->offset;

	assert_true(f->size == sizeof(bool) || f->size == sizeof(uint32_t));
	return f->size == sizeof(bool) ? *(const bool *)at : *(const uint32_t *)at;
}

/* Writes the text with which a cell must begin, or which it must contain, to state the values that
 * a field accepts. */
static void domain_of(const struct inc_field *f, char *text, size_t size)
{
	const unsigned long long least = f->min, most = f->max;

	switch (f->kind) {
	case INC_UINT:
		if (most == UINT32_MAX)
			snprintf(text, size, "a number from %llu", least);
		else
			snprintf(text, size, "%llu %s %llu", least, most == least + 1 ? "or" : "to",
				 most);
		break;
	case INC_BOOL:
		snprintf(text, size, "true or false");
		break;
	case INC_LIST:
		snprintf(text, size, "up to %llu", most);
		break;
	case INC_LINE:
		snprintf(text, size, "a line of up to %zu characters", f->size - 1);
		break;
	case INC_WORD:
		/* an address has a description of its own; other texts are limited by their
		 * length */
		snprintf(text, size, f->given ? f->what : "1 to %zu characters without blanks",
			 f->size - 1);
		break;
	default:
		snprintf(text, size, f->kind == INC_MAP ? "object" : "list");
	}
}

static void check_field(const char *document, const char *path, const struct inc_field *f)
{
	char first[120], cell[CELL], domain[100];

	snprintf(first, sizeof(first), "`%s`", path);
	if (!document_cell(document, first, 1, cell, sizeof(cell)))
		fail_msg("no row of %s", path);
	domain_of(f, domain, sizeof(domain));
	if (strncmp(cell, domain, strlen(domain)) != 0)
		fail_msg("%s: '%s', the code says '%s'", path, cell, domain);
	if (f->need == INC_OPTIONAL && !f->given)
		assert_non_null(strstr(cell, "may be absent"));
}

static void check_fields(const struct inc_schema *schema, const char *document, const char *before)
{
	char path[100];
	size_t i;

	for (i = 0; i < schema->n; i++) {
		const struct inc_field *f = &schema->fields[i];

		if (!f->name)
			continue;
		snprintf(path, sizeof(path), "%s%s", before, f->name);
		check_field(document, path, f);
		snprintf(path, sizeof(path), "%s%s%s", before, f->name,
			 f->kind == INC_LIST ? "[]." : ".");
		if (f->of)
			check_fields(f->of, document, path);
	}
}

static void messages(void **state)
{
	char *wire = document_section("The wire"), type[64];
	size_t i;

	for (i = 0; i < CONNECT_MSG_ERROR; i++) {
		check_fields(&connect_messages[i].schema, wire, "");
		snprintf(type, sizeof(type), "{\"type\":\"%s\",", connect_messages[i].type);
		has(wire, type);
	}
	free(wire);
}

/* Checks that a row of the document's table of fields names a field of a message. */
static bool is_path(const struct inc_schema *schema, const char *path)
{
	size_t i, n;

	for (i = 0; i < schema->n; i++) {
		const struct inc_field *f = &schema->fields[i];

		n = f->name ? strlen(f->name) : 0;
		if (!n || strncmp(path, f->name, n) != 0)
			continue;
		if (path[n] == '`')
			return true;
		n += f->kind == INC_LIST ? 2 : 0;
		if (f->of && path[n] == '.' && is_path(f->of, path + n + 1))
			return true;
	}
	return false;
}

static void every_row_of_the_wire_is_a_field(void **state)
{
	char *wire = document_section("The wire");
	const char *row;
	size_t i;

	for (row = wire; (row = strstr(row, "\n| `")); row++) {
		for (i = 0; i < CONNECT_MSG_ERROR; i++)
			if (is_path(&connect_messages[i].schema, row + 4))
				break;
		if (i == CONNECT_MSG_ERROR)
			fail_msg("no message has%.60s", row);
	}
	free(wire);
}

static void limits_of_the_wire(void **state)
{
	char *wire = document_section("The wire"), text[200];

	snprintf(text, sizeof(text),
		 "port %u where an address has none: %u KiB at most from "
		 "clients, %u MiB from services",
		 INC_CONNECT_PORT, CONNECT_REQUEST_MAX >> 10, CONNECT_ANSWER_MAX >> 20);
	has(wire, text);
	snprintf(text, sizeof(text),
		 "\n| clients at once | %u, later ones wait until others have left; "
		 "%u from one address,",
		 CONNECT_MAX_CLIENTS, CONNECT_MAX_CLIENTS_PER_PEER);
	has(wire, text);
	snprintf(text, sizeof(text), "of the send queue | %llu GiB ",
		 CONNECT_MAX_MAKING_BYTES >> 30);
	has(wire, text);
	snprintf(text, sizeof(text), "| `version` | a number from 1 | of the protocol: %u |",
		 CONNECT_VERSION);
	has(wire, text);
	free(wire);
}

static void immediates(void **state)
{
	static const struct {
		const char *name;
		unsigned int number;
		const char *text;
	} rows[] = {
#define ROW(NAME, number, text) {"`" #NAME "`", number, text},
		CONNECT_IMMEDIATES(ROW)
#undef ROW
	};
	char *section = document_section("On the queue pair"), cell[CELL], text[100];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!document_cell(section, rows[i].name, 1, cell, sizeof(cell)))
			fail_msg("no row of %s", rows[i].name);
		assert_int_equal(strtoul(cell, NULL, 10), rows[i].number);
		assert_true(document_cell(section, rows[i].name, 3, cell, sizeof(cell)));
		assert_string_equal(cell, rows[i].text);
	}
	assert_int_equal(count(section, "\n| `"), sizeof(rows) / sizeof(rows[0]));
	assert_int_equal(CONNECT_IMM_SHIFT, 24);
	snprintf(text, sizeof(text), "waits %u ms", CONNECT_DRAIN_MS);
	has(section, text);
	snprintf(text, sizeof(text), "within %u ms", CONNECT_PORT_DOWN_MS);
	has(section, text);
	free(section);
}

static void settings(void **state)
{
	char *file = document_section("The file"), first[80], cell[CELL], want[80];
	const struct inc_schema *schema = &connect_config_schema;
	struct connect_config *config = calloc(1, sizeof(*config));
	size_t i;

	connect_config_init(config);
	for (i = 0; i < schema->n; i++) {
		const struct inc_field *f = &schema->fields[i];

		snprintf(first, sizeof(first), "`%s`", f->name);
		if (!document_cell(file, first, 1, cell, sizeof(cell)))
			fail_msg("no row of %s", f->name);
		if (f->kind == INC_UINT)
			assert_int_equal(strtoul(cell, NULL, 10), value_at(f, config));
		if (f->kind == INC_BOOL)
			assert_string_equal(cell, value_at(f, config) ? "true" : "false");
		domain_of(f, want, sizeof(want));
		assert_true(document_cell(file, first, 2, cell, sizeof(cell)));
		if ((f->kind == INC_UINT || f->kind == INC_LIST) && !strstr(cell, want))
			fail_msg("%s: '%s' has not '%s'", f->name, cell, want);
	}
	assert_int_equal(count(file, "\n| `"), schema->n);
	snprintf(want, sizeof(want), "is %u MiB at most", CONNECT_MAX_BUFFER_BYTES >> 20);
	has(file, want);
	free(config);
	free(file);
}

static void derived_numbers(void **state)
{
	char *file = document_section("The file"), cell[CELL], want[20];
	struct inc_connect_settings s;
	size_t i;

	inc_connect_settings_init(&s, sizeof(s));
	const struct {
		const char *first;
		uint32_t n;
	} rows[] = {
		{"buffers for ACKs", connect_ack_bufs(&s)},
		{"requests of the send queue", connect_send_wr(&s)},
		{"of the receive queue", connect_recv_wr(&s)},
		{"completion queue entries", connect_cq_entries(&s)},
	};

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(document_cell(file, rows[i].first, 2, cell, sizeof(cell)));
		snprintf(want, sizeof(want), "%u", rows[i].n);
		assert_string_equal(cell, want);
	}
	snprintf(cell, sizeof(cell), "| number | is | with %u / %u / %u |", s.send_buf_cnt,
		 s.buf_ack_batch, s.max_rdma_wr);
	has(file, cell);
	free(file);
}

static void reasons(void **state)
{
	char *choice = document_section("Which pair of ports"), row[200];
	enum inc_connect_reason r;

	for (r = 0; r < INC_CONNECT_N_REASONS; r++) {
		snprintf(row, sizeof(row), "\n| %s |", inc_connect_reason_text(r));
		if (r != INC_CONNECT_CHOSEN)
			has(choice, row);
	}
	/* the table has all reasons except "chosen", and two more lines for the heading and the
	 * rule below it */
	assert_int_equal(count(choice, "\n|"), INC_CONNECT_N_REASONS + 1);
	free(choice);
}

/* All final states share one row of the document's table. */
static void states(void **state)
{
	char *life = document_section("The life of a connection"), row[200];
	enum connect_state s;

	for (s = 0; s < CONNECT_CLOSED; s++) {
		snprintf(row, sizeof(row), "\n| %s |", connect_state_text(s));
		has(life, row);
	}
	snprintf(row, sizeof(row), "\n| %s, %s |", connect_state_text(CONNECT_CLOSED),
		 connect_state_text(CONNECT_FAILED));
	has(life, row);
	assert_int_equal(count(life, "\n|"), CONNECT_N_STATES - 1 + 2);
	free(life);
}

/* The text in a HELP line of the form "name text (unit)". */
static char *text_in(char *help)
{
	char *text = strchr(help, ' ') + 1, *unit = strrchr(text, '(');

	if (unit)
		unit[-1] = '\0';
	return text;
}

static void figures(void **state)
{
	struct connect_counters *c = connect_counters_new();
	char *document = document_section("Figures"), *text, *line, *rest, *help = NULL, row[1200];
	json_t *families;
	unsigned int n = 0;

	connect_counters_latency(c, CONNECT_LATENCY_ACCEPT, "p", 1);
	families = connect_figures_families(c);
	text = connect_figures_text(families);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char name[100], kind[20];

		if (!strncmp(line, "# HELP ", 7))
			help = text_in(line + 7);
		if (sscanf(line, "# TYPE %99s %19s", name, kind) != 2)
			continue;
		snprintf(row, sizeof(row), "\n| `%s` | %s | %s |\n", name, kind, help);
		has(document, row);
		n++;
	}
	assert_int_equal(n, count(document, "\n| `"));
	assert_in_range(n, 10, 100);
	snprintf(row, sizeof(row), "%u peers have series of", CONNECT_MAX_PEERS);
	has(document, row);
	has(document, "`" CONNECT_OTHER_PEERS "`");
	free(text);
	json_decref(families);
	free(document);
	connect_counters_release(c);
}

/* Reads a file of the source tree. The caller frees it. */
static char *read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 18);

	assert_non_null(f);
	assert_in_range(fread(text, 1, (1 << 18) - 1, f), 1000, (1 << 18) - 2);
	fclose(f);
	return text;
}

/* The public header must state how long a close takes, because the header is also the manual. */
static void the_time_of_a_close(void **state)
{
	char want[60], *text = read_file("hostlib/include/inc_connect.h");

	snprintf(want, sizeof(want), "what is under way has %u ms to end.", CONNECT_DRAIN_MS);
	if (!strstr(text, want))
		fail_msg("'%s' is not in inc_connect.h", want);
	free(text);
}

/* The document must not name calls that the public header does not have. */
static void calls(void **state)
{
	char *document = document_read(), *header = read_file("hostlib/include/inc_connect.h");
	char name[100];
	const char *at;
	unsigned int n = 0;

	for (at = document; (at = strstr(at, "inc_connect_")); at++) {
		const size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz_");

		if (at[len] != '(')
			continue;
		snprintf(name, sizeof(name), "%.*s(", (int)len, at);
		if (!strstr(header, name))
			fail_msg("there is no %s)", name);
		n++;
	}
	assert_in_range(n, 4, 1000);
	free(header);
	free(document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test(every_row_of_the_wire_is_a_field),
		cmocka_unit_test(limits_of_the_wire),
		cmocka_unit_test(immediates),
		cmocka_unit_test(settings),
		cmocka_unit_test(derived_numbers),
		cmocka_unit_test(reasons),
		cmocka_unit_test(states),
		cmocka_unit_test(figures),
		cmocka_unit_test(the_time_of_a_close),
		cmocka_unit_test(calls),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
