/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints answers as text tables. Columns are as wide as their widest cell. */
#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/incctl/incctl.h"
#include "lib/base/log.h"
#include "lib/conf/messages.h"
#include "lib/metric/metric.h"

#define MAX_COLUMNS 20

struct table {
	unsigned int columns;
	bool right[MAX_COLUMNS]; /* numbers */
	size_t width[MAX_COLUMNS];
	char **cells;
	size_t n, room;
};

static void add_cell(struct table *t, const char *text)
{
	unsigned int column = t->n % t->columns;
	size_t len = strlen(text);

	if (t->n == t->room) {
		t->room = t->room ? t->room * 2 : 64;
		t->cells = realloc(t->cells, t->room * sizeof(*t->cells));
		if (!t->cells)
			abort();
	}
	t->cells[t->n] = strdup(text);
	if (!t->cells[t->n])
		abort();
	t->n++;
	if (len > t->width[column])
		t->width[column] = len;
}

/* Begins a table with a row of titles, which are separated by blanks. A title with '>' in front
 * heads a column of numbers, which is aligned to the right. */
static void begin(struct table *t, const char *titles)
{
	char copy[256], *save, *title;

	memset(t, 0, sizeof(*t));
	assert(strlen(titles) < sizeof(copy));
	snprintf(copy, sizeof(copy), "%s", titles);
	for (title = strtok_r(copy, " ", &save); title; title = strtok_r(NULL, " ", &save)) {
		assert(t->columns < MAX_COLUMNS);
		t->right[t->columns++] = *title == '>';
	}
	snprintf(copy, sizeof(copy), "%s", titles);
	for (title = strtok_r(copy, " ", &save); title; title = strtok_r(NULL, " ", &save))
		add_cell(t, title + (*title == '>'));
}

static void end(struct table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		unsigned int column = i % t->columns;
		bool last = column == t->columns - 1;

		if (t->right[column])
			printf("%*s", (int)t->width[column], t->cells[i]);
		else
			printf("%-*s", last ? 0 : (int)t->width[column], t->cells[i]);
		fputs(last ? "\n" : "  ", stdout);
		free(t->cells[i]);
	}
	free(t->cells);
}

/* Prints a further table after a blank line, or nothing if the table has no rows. */
static void end_detail(struct table *t)
{
	if (t->n > t->columns) {
		putchar('\n');
		end(t);
		return;
	}
	while (t->n)
		free(t->cells[--t->n]);
	free(t->cells);
}

static void add(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct table *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_cell(t, text);
}

static bool is_mbit(const char *key)
{
	const size_t n = strlen(key);

	return n > 5 && !strcmp(key + n - 5, "_mbit");
}

/* Adds the value of an object's field as a cell of the table, or "-" if the field is absent. Tables
 * have all rates in Gbit/s, also where JSON has Mbit/s. */
static void add_field(struct table *t, const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	switch (v ? json_typeof(v) : JSON_NULL) {
	case JSON_STRING:
		add_cell(t, *json_string_value(v) ? json_string_value(v) : "-");
		break;
	case JSON_INTEGER:
		if (is_mbit(key))
			add(t, "%g", json_integer_value(v) / 1e3);
		else
			add(t, "%lld", (long long)json_integer_value(v));
		break;
	case JSON_REAL:
		add(t, "%.1f", json_real_value(v));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		add_cell(t, json_is_true(v) ? "yes" : "no");
		break;
	default:
		add_cell(t, "-");
	}
}

/* Adds a cell for each of an object's fields with these keys, which are separated by blanks. */
static void add_fields(struct table *t, const json_t *object, const char *keys)
{
	char copy[256], *save, *key;

	snprintf(copy, sizeof(copy), "%s", keys);
	for (key = strtok_r(copy, " ", &save); key; key = strtok_r(NULL, " ", &save))
		add_field(t, object, key);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "-";
}

static long long number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

const char *incctl_join_numbers(const json_t *array, char *buf, size_t size)
{
	size_t used = 0, i;
	json_t *v;

	snprintf(buf, size, "-");
	json_array_foreach (array, i, v) {
		used += snprintf(buf + used, size - used, "%s%lld", i ? " " : "",
				 (long long)json_integer_value(v));
		if (used >= size)
			break;
	}
	return buf;
}

/* Adds a cell with the use of a resource and its limit, such as "3/8", or the use alone if there is
 * no limit. */
static void add_usage(struct table *t, const json_t *usage, const char *what)
{
	char limit[40];

	snprintf(limit, sizeof(limit), "%s_limit", what);
	if (!json_is_integer(json_object_get(usage, limit)))
		add_field(t, usage, what);
	else
		add(t, "%lld/%lld", number_of(usage, what), number_of(usage, limit));
}

/* Adds the state of a switch or of a rank's host. It drains if the topology has it no longer. */
static void add_state(struct table *t, const json_t *object)
{
	add(t, "%s%s", text_of(object, "state"),
	    json_is_true(json_object_get(object, "draining")) ? ", draining" : "");
}

/* Returns what has made a group, as far as the name of its job shows that. */
static const char *kind_of_job(const char *job)
{
	const char *digits = strrchr(job, '-');

	if (strncmp(job, INC_CONTROL_MPI_JOB, strlen(INC_CONTROL_MPI_JOB)) || !digits)
		return "-";
	digits++;
	return strspn(digits, "0123456789abcdef") == INC_CONTROL_JOB_DIGITS &&
			       strlen(digits) == INC_CONTROL_JOB_DIGITS
		       ? "MPI"
		       : "-";
}

void incctl_print_groups(const json_t *data)
{
	char text[200];
	struct table t;
	json_t *group, *member, *of;
	size_t i, k;

	begin(&t, ">GROUP JOB KIND STATE >AGE_S >SIZE >JOB_COMMS >JOB_SLOTS MADE_BY COMMUNICATORS");
	json_array_foreach (data, i, group) {
		add_fields(&t, group, "group job");
		add_cell(&t, kind_of_job(text_of(group, "job")));
		add_fields(&t, group, "state age_s world_size");
		add_usage(&t, json_object_get(group, "job_usage"), "communicators");
		add_usage(&t, json_object_get(group, "job_usage"), "slots");
		of = json_object_get(group, "of");
		if (of)
			add(&t, "%s of %lld", text_of(group, "how"),
			    (long long)json_integer_value(of));
		else
			add_cell(&t, "-");
		add_cell(&t, incctl_join_numbers(json_object_get(group, "communicators"), text,
						 sizeof(text)));
	}
	end(&t);
	begin(&t, ">GROUP >RANK HOST ADDR NODE STATE");
	json_array_foreach (data, i, group) {
		json_array_foreach (json_object_get(group, "members"), k, member) {
			add_field(&t, group, "group");
			add_fields(&t, member, "rank host addr node");
			add_state(&t, member);
		}
	}
	end_detail(&t);
}

/* Prints a table of the objects in the answers of all switches. */
static void rows(const json_t *data, const char *titles, const char *keys)
{
	struct table t;
	json_t *sw, *row;
	size_t i, k;

	begin(&t, titles);
	json_array_foreach (data, i, sw) {
		json_array_foreach (json_object_get(sw, "data"), k, row) {
			add_field(&t, sw, "switch");
			add_fields(&t, row, keys);
		}
	}
	end(&t);
}

void incctl_print_communicators(const json_t *data)
{
	struct table t;
	json_t *comm, *conn;
	size_t i, k;

	if (json_object_get(json_array_get(data, 0), "data")) {
		rows(data,
		     "SWITCH >COMMUNICATOR ROLE >CHILDREN >PAYLOAD >SLOTS >RECEIVES BYTE_ORDER "
		     ">CPU >RESULTS ERROR REASON",
		     "communicator role children payload slots receives byte_order cpu results "
		     "error reason");
		return;
	}
	begin(&t, ">COMMUNICATOR >GROUP JOB >CHANNEL STATE >PAYLOAD >SLOTS BYTE_ORDER MODE FLOATS "
		  ">PACKETS >MESSAGES AUTO");
	json_array_foreach (data, i, comm) {
		add_fields(&t, comm, "communicator group job");
		add(&t, "%lld of %lld", number_of(comm, "channel"), number_of(comm, "channels"));
		add_fields(&t, comm,
			   "state payload slots byte_order mode floats message_packets messages "
			   "choice");
	}
	end(&t);
	begin(&t,
	      ">COMMUNICATOR >RANK HOST TRANSPORT IP >QP >UDP_PORT SWITCH SWITCH_IP >SWITCH_QP");
	json_array_foreach (data, i, comm) {
		json_array_foreach (json_object_get(comm, "connections"), k, conn) {
			add_field(&t, comm, "communicator");
			/* an earlier controller has no ranks, because each has a connection there
			 */
			add_field(&t, conn, json_object_get(conn, "ranks") ? "ranks" : "rank");
			add_fields(&t, conn,
				   "host transport ip qp udp_port switch switch_ip switch_qp");
		}
	}
	end_detail(&t);
}

/* Prints the endpoints of switches that support termination mode. */
static void print_endpoints(const json_t *data)
{
	json_t *sw, *engine, *endpoint;
	struct table t;
	size_t i, k, e;

	begin(&t, "SWITCH PORT ENDPOINT DEVICE >PAYLOAD >MESSAGE_BYTES KERNELS");
	json_array_foreach (data, i, sw) {
		json_array_foreach (json_object_get(sw, "engines"), k, engine) {
			json_array_foreach (json_object_get(engine, "endpoints"), e, endpoint) {
				add_field(&t, sw, "switch");
				add_fields(&t, endpoint, "port kind device payload message_bytes");
				add_field(&t, engine, "set");
			}
		}
	}
	end_detail(&t);
}

static void print_lacks(const json_t *data)
{
	json_t *sw, *port;
	struct table t;
	size_t i, k;

	begin(&t, "SWITCH LACKS IP REASON");
	json_array_foreach (data, i, sw) {
		json_array_foreach (json_object_get(sw, "lacks"), k, port) {
			add_field(&t, sw, "switch");
			add_fields(&t, port, "port ip reason");
		}
	}
	end_detail(&t);
}

void incctl_print_switches(const json_t *data)
{
	struct table t;
	json_t *sw, *port;
	size_t i, k;

	begin(&t, "SWITCH STATE >SINCE_S ROOT MODE PORTS");
	json_array_foreach (data, i, sw) {
		char ports[400] = "-";
		size_t used = 0;

		add_field(&t, sw, "switch");
		add_state(&t, sw);
		add_fields(&t, sw, "since_s root mode");
		json_array_foreach (json_object_get(sw, "ports"), k, port) {
			used += snprintf(ports + used, sizeof(ports) - used, "%s%s=%s",
					 k ? " " : "", text_of(port, "name"), text_of(port, "ip"));
			if (used >= sizeof(ports))
				break;
		}
		add_cell(&t, ports);
	}
	end(&t);
	print_lacks(data);
	print_endpoints(data);
}

void incctl_print_connections(const json_t *data)
{
	rows(data,
	     "SWITCH >COMM >RANK HOST PORT PEER_IP >PEER_QP >OWN_QP >RECEIVED >ACKED >RESULTS >DUP "
	     ">NAK_OUT >NAK_IN >RESENT STATE REASON",
	     "communicator rank host port peer_ip peer_qp own_qp received acknowledged results "
	     "duplicates naks_sent naks_received retransmits state reason");
}

void incctl_print_ports(const json_t *data)
{
	rows(data,
	     "SWITCH PORT >IFINDEX IP MAC >MTU LINK >SPEED_GBIT/S DRIVER XDP ATTACH >RX_PACKETS "
	     ">RX_BYTES >TX_PACKETS >TX_BYTES STATE >LOSSES REASON",
	     "name ifindex ip mac mtu link speed_mbit driver xdp attach rx_packets rx_bytes "
	     "tx_packets tx_bytes state losses reason");
}

void incctl_print_counters(const json_t *data)
{
	json_t *sw, *counter;
	size_t i, k;

	json_array_foreach (data, i, sw) {
		const json_t *d = json_object_get(sw, "data");
		struct table t;

		if (!d)
			continue;
		printf("%s%s: received %lld = passed %lld + dropped %lld + absorbed %lld + "
		       "answered "
		       "%lld + multicast %lld: %s\n",
		       i ? "\n" : "", text_of(sw, "switch"), number_of(d, "received"),
		       number_of(d, "passed"), number_of(d, "dropped"), number_of(d, "absorbed"),
		       number_of(d, "answered"), number_of(d, "multicast"),
		       json_is_true(json_object_get(d, "balanced")) ? "the books balance"
								    : "THE BOOKS DO NOT BALANCE");
		begin(&t, ">VALUE CLASS COUNTER MEANING");
		json_array_foreach (json_object_get(d, "counters"), k, counter) {
			if (number_of(counter, "value"))
				add_fields(&t, counter, "value class name text");
		}
		end(&t);
	}
}

static void print_event(const json_t *sw, const json_t *event)
{
	char at[INC_LOG_TIME_BYTES];

	inc_log_time(number_of(event, "time_ns"), at);
	printf("%s %s %s communicator %lld: %s\n", at,
	       incctl_true(sw, "controller") ? "controller" : text_of(sw, "switch"),
	       text_of(event, "event"), number_of(event, "communicator"),
	       text_of(event, "message"));
}

/* Returns the earliest event that is not printed yet, or NULL. Sets *list to the number of its
 * list. In `at` is the place of the first such event in each list, because lists are in the order
 * of time. */
static const json_t *next_event(const json_t *data, const size_t *at, size_t *list)
{
	const json_t *first = NULL, *event;
	json_t *sw;
	size_t i;

	json_array_foreach (data, i, sw) {
		event = json_array_get(json_object_get(sw, "data"), at[i]);
		if (event &&
		    (!first || number_of(event, "time_ns") < number_of(first, "time_ns"))) {
			first = event;
			*list = i;
		}
	}
	return first;
}

/* Prints the events of all switches and of the controller in the order of their times. */
void incctl_print_events(const json_t *data)
{
	size_t *at = calloc(json_array_size(data) + 1, sizeof(*at)), list;
	const json_t *event;

	if (!at)
		abort();
	while ((event = next_event(data, at, &list))) {
		print_event(json_array_get(data, list), event);
		at[list]++;
	}
	free(at);
}

void incctl_print_status(const json_t *data)
{
	struct table t;
	json_t *sw;
	size_t i;

	begin(&t, "SWITCH VERSION >ABI >UPTIME_S ATTACH CONTROLLER >COMMUNICATORS "
		  ">CONNECTIONS >ROWS >SLOTS >ROOT_ROWS");
	json_array_foreach (data, i, sw) {
		const json_t *d = json_object_get(sw, "data");

		add_field(&t, sw, "switch");
		add_fields(&t, d, "version abi uptime_s attach controller");
		add_usage(&t, json_object_get(d, "usage"), "communicators");
		add_usage(&t, json_object_get(d, "usage"), "connections");
		add_usage(&t, json_object_get(d, "usage"), "rows");
		add_usage(&t, json_object_get(d, "usage"), "slots");
		add_usage(&t, json_object_get(d, "usage"), "root_rows");
	}
	end(&t);
}

/* Adds a cell with a rate in about four characters, or "-" if there is no rate. */
static void add_rate(struct table *t, const json_t *object, const char *key)
{
	static const char units[] = " kMGT";
	const json_t *v = json_object_get(object, key);
	double rate = json_real_value(v);
	size_t unit = 0;

	if (!json_is_real(v)) {
		add_cell(t, "-");
		return;
	}
	for (; rate >= 10000 && units[unit + 1]; unit++)
		rate /= 1000;
	if (unit)
		add(t, "%.1f%c", rate, units[unit]);
	else
		add(t, "%.0f", rate);
}

/* Adds a cell with a rate of bytes in Gbit/s, as inccl-perf prints it, or "-" if there is no rate.
 */
static void add_gbits(struct table *t, const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	if (json_is_real(v))
		add(t, "%.3f", json_real_value(v) * 8 / 1e9);
	else
		add_cell(t, "-");
}

void incctl_print_top(const json_t *shown)
{
	static const char *const usage[] = {"communicators", "connections", "rows", "slots",
					    "root_rows"};
	struct table t;
	json_t *v;
	size_t i, k;

	begin(&t, "SWITCH >PACKETS/S >COMMUNICATORS >CONNECTIONS >ROWS >SLOTS >ROOT_ROWS");
	json_array_foreach (json_object_get(shown, "switches"), i, v) {
		add_field(&t, v, "switch");
		add_rate(&t, v, "packets_per_s");
		for (k = 0; k < sizeof(usage) / sizeof(usage[0]); k++)
			add_usage(&t, v, usage[k]);
	}
	end(&t);
	begin(&t, "SWITCH PORT >RX_PACKETS/S >RX_GBIT/S >TX_PACKETS/S >TX_GBIT/S");
	json_array_foreach (json_object_get(shown, "ports"), i, v) {
		add_fields(&t, v, "switch port");
		add_rate(&t, v, "rx_packets_per_s");
		add_gbits(&t, v, "rx_bytes_per_s");
		add_rate(&t, v, "tx_packets_per_s");
		add_gbits(&t, v, "tx_bytes_per_s");
	}
	end_detail(&t);
	begin(&t, "SWITCH >COMMUNICATOR JOB >RESULTS/S >GBIT/S >PACKETS/S >RESENT/S >CONNECTIONS "
		  ">SLOTS >ROWS");
	json_array_foreach (json_object_get(shown, "communicators"), i, v) {
		add_fields(&t, v, "switch communicator job");
		add_rate(&t, v, "results_per_s");
		add_gbits(&t, v, "bytes_per_s");
		add_rate(&t, v, "packets_per_s");
		add_rate(&t, v, "retransmits_per_s");
		add_fields(&t, v, "connections slots rows");
	}
	end_detail(&t);
}

void incctl_print_metrics(const json_t *data)
{
	json_t *families = json_array(), *sw;
	size_t i;

	json_array_foreach (data, i, sw) {
		const char *const from[] = {"switch", text_of(sw, "switch")};

		inc_metric_merge(families, json_object_get(sw, "data"), from);
	}
	inc_metric_print(stdout, families);
	json_decref(families);
}
