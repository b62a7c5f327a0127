/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The metrics of a context (hostlib/connect/figures.h): names, units, peers, threads, and the text
 * format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/figures.h"
#include "hostlib/connect/protocol.h"

#define THREADS 4
#define ROUNDS  50000

/* Returns the text of the families, and drops the reference to them. */
static char *text_of(json_t *families)
{
	char *text;

	assert_non_null(families);
	text = connect_figures_text(families);
	assert_non_null(text);
	json_decref(families);
	return text;
}

static void has(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
		fail_msg("no line %s in\n%s", line, text);
}

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void each_figure_has_its_value(void **state)
{
	struct connect_counters *c = connect_counters_new();
	struct connect_figures *f = connect_counters_figures(c);
	uint64_t n = 0;
	char *text;

#define COUNT(T, name, unit, kind, about) connect_count(&f->name, ++n);
	CONNECT_FIGURES(COUNT, )
#undef COUNT
	connect_uncount(&f->connections, 2);
	text = text_of(connect_figures_families(c));
	has(text, "inc_connect_connecting 1");
	has(text, "inc_connect_accepting 2");
	has(text, "inc_connect_connections 1");
	has(text, "inc_connect_connect_failed_total 4");
	has(text, "inc_connect_accept_failed_total 5");
	has(text, "inc_connect_accept_timeout_total 6");
	has(text, "inc_connect_sent_bytes_total 7");
	has(text, "inc_connect_received_bytes_total 8");
	has(text, "inc_connect_read_bytes_total 9");
	has(text, "inc_connect_written_bytes_total 10");
	has(text, "inc_connect_registered_bytes 11");
	assert_int_equal(n, 11);
	has(text, "# TYPE inc_connect_registered_bytes gauge");
	has(text, "# TYPE inc_connect_connect_latency_seconds histogram");
	has(text, "inc_connect_connect_latency_seconds_count 0");
	has(text, "inc_connect_accept_latency_seconds_count 0");
	assert_null(strstr(text, "inc_connect_peer_"));
	free(text);
	connect_counters_release(c);
}

/* The parts of the metrics page together have each line of the page once, in its order. Each part
 * has at most a few hundred lines. */
static void parts_add_up_to_the_page(void **state)
{
	struct connect_counters *c = connect_counters_new();
	char peer[20], *whole, *text, *at;
	unsigned int i, part, peers;
	json_t *families;

	for (peers = 0; peers <= CONNECT_MAX_PEERS + 1; peers += CONNECT_MAX_PEERS + 1) {
		for (i = 0; i < peers; i++) {
			snprintf(peer, sizeof(peer), "peer%u", i);
			connect_counters_latency(c, CONNECT_LATENCY_ACCEPT, peer, 1000);
		}
		whole = text_of(connect_figures_families(c));
		at = whole;
		for (part = 0; (families = connect_figures_part(c, part)); part++) {
			text = text_of(families);
			assert_int_equal(strncmp(at, text, strlen(text)), 0);
			assert_int_equal(!!text[0], peers || !part);
			assert_true(count(text, "\n") < 700);
			at += strlen(text);
			free(text);
		}
		assert_string_equal(at, "");
		assert_int_equal(part, 3);
		free(whole);
	}
	connect_counters_release(c);
}

static void latencies_are_counted_where_they_belong(void **state)
{
	struct connect_counters *c = connect_counters_new();
	char *text;

	connect_counters_latency(c, CONNECT_LATENCY_CONNECT, NULL, 150000);
	connect_counters_latency(c, CONNECT_LATENCY_CONNECT, "10.1.0.1", 30ull * 1000000000);
	connect_counters_latency(c, CONNECT_LATENCY_ACCEPT, "10.1.0.1", 100999);
	connect_counters_latency(c, CONNECT_LATENCY_ACCEPT, "10.1.0.2", 1000000);
	text = text_of(connect_figures_families(c));
	has(text, "inc_connect_connect_latency_seconds_bucket{le=\"0.000100\"} 0");
	has(text, "inc_connect_connect_latency_seconds_bucket{le=\"0.000200\"} 1");
	has(text, "inc_connect_connect_latency_seconds_bucket{le=\"20.000000\"} 1");
	has(text, "inc_connect_connect_latency_seconds_bucket{le=\"+Inf\"} 2");
	has(text, "inc_connect_connect_latency_seconds_sum 30.000150");
	has(text, "inc_connect_connect_latency_seconds_count 2");
	has(text, "inc_connect_accept_latency_seconds_bucket{le=\"0.000100\"} 1");
	has(text, "inc_connect_accept_latency_seconds_sum 0.001100");
	has(text, "inc_connect_accept_latency_seconds_count 2");
	has(text, "inc_connect_peer_connect_latency_seconds_count{peer=\"10.1.0.1\"} 1");
	has(text, "inc_connect_peer_accept_latency_seconds_sum{peer=\"10.1.0.1\"} 0.000100");
	has(text, "inc_connect_peer_connect_latency_seconds_count{peer=\"10.1.0.2\"} 0");
	has(text,
	    "inc_connect_peer_accept_latency_seconds_bucket{peer=\"10.1.0.2\",le=\"0.001000\"}"
	    " 1");
	free(text);
	connect_counters_release(c);
}

static void peers_are_bounded(void **state)
{
	struct connect_counters *c = connect_counters_new();
	char peer[200], *text;
	unsigned int i, k;

	for (k = 0; k < 2; k++)
		for (i = 0; i < CONNECT_MAX_PEERS + 100; i++) {
			snprintf(peer, sizeof(peer), "peer%u", i);
			connect_counters_latency(c, CONNECT_LATENCY_ACCEPT, peer, 1000);
		}
	text = text_of(connect_figures_families(c));
	assert_int_equal(count(text, "inc_connect_peer_accept_latency_seconds_count{"),
			 CONNECT_MAX_PEERS + 1);
	has(text, "inc_connect_peer_accept_latency_seconds_count{peer=\"peer0\"} 2");
	snprintf(peer, sizeof(peer),
		 "inc_connect_peer_accept_latency_seconds_count{peer=\"peer%u\"} 2",
		 CONNECT_MAX_PEERS - 1);
	has(text, peer);
	has(text, "inc_connect_peer_accept_latency_seconds_count{peer=\"(others)\"} 200");
	free(text);
	connect_counters_release(c);
}

/* A peer's name is shown in printable form if it is too long, is cut inside a UTF-8 character, or
 * has control characters. */
static void names_of_peers_are_printable(void **state)
{
	struct connect_counters *c = connect_counters_new();
	char name[INC_CONNECT_HOST_SIZE + 10], want[200], *text;

	memset(name, 'x', sizeof(name));
	memcpy(name + INC_CONNECT_HOST_SIZE - 2, "\xc3\xa4\xc3\xa4", 5);
	connect_counters_latency(c, CONNECT_LATENCY_CONNECT, name, 1000);
	connect_counters_latency(c, CONNECT_LATENCY_CONNECT, name, 1000);
	connect_counters_latency(c, CONNECT_LATENCY_CONNECT, "\xff\x1b[2J\"", 1000);
	text = text_of(connect_figures_families(c));
	memcpy(name + INC_CONNECT_HOST_SIZE - 2, "?", 2);
	snprintf(want, sizeof(want),
		 "inc_connect_peer_connect_latency_seconds_count{peer=\"%s\"} 2", name);
	has(text, want);
	has(text, "inc_connect_peer_connect_latency_seconds_count{peer=\"??[2J\\\"\"} 1");
	free(text);
	connect_counters_release(c);
}

static void figures_of_a_service_are_printable(void **state)
{
	json_t *families =
		json_pack("[{s:s, s:s, s:s, s:[{s:{s:s}, s:i}]}]", "name", "inc_a", "kind", "gauge",
			  "text", "\x1b]0;evil\a\r\nx\xe2\x80\xae", "samples", "labels", "l",
			  "\xc2\x9b"
			  "1m",
			  "value", 3);
	char *text = text_of(families);

	assert_string_equal(text, "# HELP inc_a ?]0;evil? \\nx???\n# TYPE inc_a gauge\n"
				  "inc_a{l=\"??1m\"} 3\n");
	free(text);
}

/* The longest possible answer with metrics must fit into the longest line that a client accepts. */
static void the_longest_answer_fits(void **state)
{
	struct connect_counters *c = connect_counters_new();
	struct connect_figures *f = connect_counters_figures(c);
	char peer[INC_CONNECT_HOST_SIZE], *text;
	json_t *families;
	unsigned int i;

#define FILL(T, name, unit, kind, about) connect_count(&f->name, INT64_MAX);
	CONNECT_FIGURES(FILL, )
#undef FILL
	memset(peer, '"', sizeof(peer) - 1);
	peer[sizeof(peer) - 1] = '\0';
	for (i = 0; i <= CONNECT_MAX_PEERS; i++) {
		peer[0] = 'A' + i;
		connect_counters_latency(c, CONNECT_LATENCY_ACCEPT, peer, UINT64_MAX);
	}
	families = connect_figures_families(c);
	text = json_dumps(families, JSON_COMPACT);
	/* A count has up to 19 digits. Each histogram has 18 counts. */
	assert_true(strlen(text) + 2 * (CONNECT_MAX_PEERS + 2) * 18 * 18 < CONNECT_ANSWER_MAX);
	free(text);
	free(text_of(families));
	connect_counters_release(c);
}

static void *count_much(void *arg)
{
	struct connect_counters *c = arg;
	struct connect_figures *f = connect_counters_figures(c);
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		connect_count(&f->sent_bytes, 3);
		connect_count(&f->connections, 1);
		connect_uncount(&f->connections, 1);
	}
	connect_counters_release(c);
	return NULL;
}

/* Sockets count in their own threads while another thread reads the context's metrics, and also
 * after the context is gone. */
static void any_thread_counts(void **state)
{
	struct connect_counters *c = connect_counters_new(), *mine = connect_counters_hold(c);
	pthread_t threads[THREADS];
	unsigned int i;
	char *text;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, count_much, connect_counters_hold(c)), 0);
	free(text_of(connect_figures_families(c)));
	connect_counters_release(c);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	text = text_of(connect_figures_families(mine));
	has(text, "inc_connect_sent_bytes_total 600000");
	has(text, "inc_connect_connections 0");
	free(text);
	connect_counters_release(mine);
	connect_counters_release(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_figure_has_its_value),
		cmocka_unit_test(parts_add_up_to_the_page),
		cmocka_unit_test(latencies_are_counted_where_they_belong),
		cmocka_unit_test(peers_are_bounded),
		cmocka_unit_test(names_of_peers_are_printable),
		cmocka_unit_test(figures_of_a_service_are_printable),
		cmocka_unit_test(the_longest_answer_fits),
		cmocka_unit_test(any_thread_counts),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
