/* SPDX-License-Identifier: BSD-2-Clause */
/* What a switch tells about itself (docs/control.md, "What a query answers"). */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "userspace/switchd.h"

/* Connections of one page, at least: 250 KB of JSON, of the 1 MiB that a line may have. */
#define PAGE_CONNECTIONS 512

#define LOAD(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/* Of an answer that one line cannot hold. In communicators of the switch, which stay where they are
 * when others come and go. */
struct inc_page {
	uint32_t from;
	uint32_t next; /* 0: there is no more */
};

static json_t *count(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *query_status(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	const struct inc_switch_port *port = inc_switch_port_at(d->sw, 0);
	const struct inc_slowpath_stats *s = inc_slowpath_stats(d->sp);
	uint32_t cm, n = 0;

	for (cm = 0; cm < inc_switch_get_opts(d->sw)->max_comms; cm++)
		n += inc_switch_comm(d->sw, cm) != NULL;
	return json_pack(
		"{s:s, s:i, s:i, s:I, s:s, s:s, s:s, s:i, "
		"s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}}",
		"switch", d->conf.name, "version", INC_CONTROL_VERSION, "abi", INC_ABI_VERSION,
		"uptime_s", (json_int_t)((inc_now_ns() - d->started_ns) / INC_NSEC_PER_SEC), "mode",
		inc_switch_get_opts(d->sw)->generic ? "generic" : "native", "attach",
		port ? inc_attach_name(port->attach) : "none", "controller",
		d->client ? inc_client_state(d->client) : "none", "communicators", (int)n,
		"slowpath", "frames_received", (json_int_t)s->frames_received, "frames_bad",
		(json_int_t)s->frames_bad, "naks_served", (json_int_t)s->naks_served, "rnrs_served",
		(json_int_t)s->rnrs_served, "timeouts", (json_int_t)s->timeouts, "results_resent",
		(json_int_t)s->results_resent, "results_pending", (json_int_t)s->results_pending,
		"results_gone", (json_int_t)s->results_gone, "acks_paid", (json_int_t)s->acks_paid,
		"naks_sent", (json_int_t)s->naks_sent);
}

static json_t *query_counters(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list = json_array();
	struct inc_counters c;
	uint32_t i;

	if (inc_switch_read_counters(d->sw, &c, err)) {
		json_decref(list);
		return NULL;
	}
	for (i = 0; i < INC_CTR_MAX; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s%, s:o, s:s}", "name", inc_counter_info[i].name,
					"class", &inc_counter_info[i].class, (size_t)1, "value",
					count(c.value[i]), "text", inc_counter_info[i].text));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "received", count(c.received),
			 "passed", count(c.passed), "dropped", count(c.dropped), "absorbed",
			 count(c.absorbed), "answered", count(c.answered), "multicast",
			 count(c.multicast), "balanced", (int)c.balanced, "counters", list);
}

/* Name, IPv4 address ("" for none), MAC and MTU. */
static json_t *port_json(const struct inc_switch_port *port, const struct ifaddrs *addrs)
{
	char ip[INET_ADDRSTRLEN] = "", mac[18] = "";
	struct ifreq ifr = {};
	const uint8_t *m;
	int mtu = 0, fd;

	for (; addrs && !ip[0]; addrs = addrs->ifa_next)
		if (addrs->ifa_addr && addrs->ifa_addr->sa_family == AF_INET &&
		    !strcmp(addrs->ifa_name, port->name))
			inet_ntop(AF_INET, &((struct sockaddr_in *)addrs->ifa_addr)->sin_addr, ip,
				  sizeof(ip));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		memcpy(ifr.ifr_name, port->name, IF_NAMESIZE);
		if (!ioctl(fd, SIOCGIFHWADDR, &ifr)) {
			m = (const uint8_t *)ifr.ifr_hwaddr.sa_data;
			snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1],
				 m[2], m[3], m[4], m[5]);
		}
		if (!ioctl(fd, SIOCGIFMTU, &ifr))
			mtu = ifr.ifr_mtu;
		close(fd);
	}
	return json_pack("{s:s, s:s, s:s, s:i}", "name", port->name, "ip", ip, "mac", mac, "mtu",
			 mtu);
}

json_t *inc_query_port_list(struct inc_daemon *d)
{
	const struct inc_switch_port *port;
	json_t *list = json_array();
	struct ifaddrs *addrs;
	size_t i;

	if (getifaddrs(&addrs))
		addrs = NULL;
	for (i = 0; (port = inc_switch_port_at(d->sw, i)); i++)
		json_array_append_new(list, port_json(port, addrs));
	if (addrs)
		freeifaddrs(addrs);
	return list;
}

struct port_stats {
	uint64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
};

/* /sys may show another network namespace than the one this thread is in; /proc does not. */
static void read_port_stats(const char *ifname, struct port_stats *s)
{
	FILE *f = fopen("/proc/thread-self/net/dev", "r");
	size_t n = strlen(ifname);
	char line[512], *p;

	memset(s, 0, sizeof(*s));
	while (f && fgets(line, sizeof(line), f)) {
		p = line + strspn(line, " ");
		if (strncmp(p, ifname, n) || p[n] != ':')
			continue;
		sscanf(p + n + 1,
		       "%" SCNu64 " %" SCNu64 " %*u %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
		       &s->rx_bytes, &s->rx_packets, &s->tx_bytes, &s->tx_packets);
		break;
	}
	if (f)
		fclose(f);
}

static json_t *query_ports(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list = inc_query_port_list(d), *v;
	const struct inc_switch_port *port;
	struct port_stats s;
	size_t i;

	json_array_foreach (list, i, v) {
		port = inc_switch_port_at(d->sw, i);
		read_port_stats(port->name, &s);
		json_object_set_new(v, "ifindex", json_integer(port->ifindex));
		json_object_set_new(v, "mode", json_string(port->generic ? "generic" : "native"));
		json_object_set_new(v, "attach", json_string(inc_attach_name(port->attach)));
		json_object_set_new(v, "queues", json_integer(inc_slowpath_queues(d->sp, port)));
		json_object_set_new(v, "rx_packets", count(s.rx_packets));
		json_object_set_new(v, "rx_bytes", count(s.rx_bytes));
		json_object_set_new(v, "tx_packets", count(s.tx_packets));
		json_object_set_new(v, "tx_bytes", count(s.tx_bytes));
	}
	return list;
}

static const char *conn_state_name(const struct inc_conn_state *st,
				   const struct inc_comm_state *gst,
				   const struct inc_conn_stats *stats)
{
	if (st->error || gst->error)
		return "ended";
	if (stats->unresponsive)
		return "unresponsive";
	return LOAD(st->rx_next) ? "active" : "idle";
}

static json_t *conn_json(struct inc_daemon *d, uint32_t cm, uint32_t child)
{
	const struct inc_comm_cfg *comm = inc_switch_comm(d->sw, cm);
	const struct inc_conn_cfg *cfg = inc_switch_conn(d->sw, comm->conn_base + child);
	const struct inc_conn_state *st = &inc_switch_conn_state(d->sw)[comm->conn_base + child];
	const struct inc_comm_state *gst = &inc_switch_comm_state(d->sw)[cm];
	struct in_addr own = {cfg->own_addr}, peer = {cfg->peer_addr};
	char own_ip[INET_ADDRSTRLEN], peer_ip[INET_ADDRSTRLEN], port[IF_NAMESIZE] = "";
	struct inc_conn_stats stats = {};

	if_indextoname(cfg->ifindex, port);
	inc_slowpath_conn_stats(d->sp, cm, child, &stats);
	return json_pack(
		"{s:I, s:I, s:s, s:s, s:s, s:i, s:I, s:s, s:I, "
		"s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:s}",
		"communicator", (json_int_t)comm->communicator, "rank", (json_int_t)cfg->rank,
		"host", "", "port", port, "peer_ip",
		inet_ntop(AF_INET, &peer, peer_ip, sizeof(peer_ip)), "peer_port",
		(int)cfg->peer_port, "peer_qp", (json_int_t)cfg->peer_qpn, "my_ip",
		inet_ntop(AF_INET, &own, own_ip, sizeof(own_ip)), "my_qp", (json_int_t)cfg->own_qpn,
		"received", count(LOAD(st->rx_next)), "acknowledged", count(LOAD(st->tx_acked)),
		"results", count(LOAD(gst->tx_next)), "duplicates", count(LOAD(st->duplicates)),
		"naks_sent", count(LOAD(st->naks_sent)), "naks_received",
		count(LOAD(st->naks_received)), "rnrs_sent", count(LOAD(st->rnrs_sent)),
		"retransmits", count(stats.retransmits), "acks_paid", count(stats.acks_paid),
		"timeouts", count(stats.timeouts), "rtt_us", count(stats.rtt_us), "error",
		(int)(st->error ?: gst->error), "state", conn_state_name(st, gst, &stats));
}

typedef void (*comm_fn)(struct inc_daemon *d, uint32_t cm, const struct inc_comm_cfg *cfg,
			json_t *list);

/* From the communicator page->from on, each whole, until the page is full: fn adds to the list. */
static json_t *each_comm(struct inc_daemon *d, struct inc_page *page, json_t *list, comm_fn fn)
{
	uint32_t max = inc_switch_get_opts(d->sw)->max_comms, cm, n = 0;
	const struct inc_comm_cfg *cfg;

	for (cm = page->from; cm < max; cm++) {
		cfg = inc_switch_comm(d->sw, cm);
		if (!cfg)
			continue;
		if (n >= PAGE_CONNECTIONS) {
			page->next = cm;
			break;
		}
		fn(d, cm, cfg, list);
		n += cfg->children;
	}
	return list;
}

static void add_connections(struct inc_daemon *d, uint32_t cm, const struct inc_comm_cfg *cfg,
			    json_t *list)
{
	uint32_t c;

	for (c = 0; c < cfg->children; c++)
		json_array_append_new(list, conn_json(d, cm, c));
}

static json_t *query_connections(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	return each_comm(d, page, json_array(), add_connections);
}

static void add_communicator(struct inc_daemon *d, uint32_t cm, const struct inc_comm_cfg *cfg,
			     json_t *list)
{
	const struct inc_comm_state *st = &inc_switch_comm_state(d->sw)[cm];

	json_array_append_new(
		list,
		json_pack("{s:I, s:i, s:i, s:i, s:s, s:o, s:i}", "communicator",
			  (json_int_t)cfg->communicator, "children", (int)cfg->children, "payload",
			  (int)cfg->payload, "slots", 1 << cfg->log2_slots, "byte_order",
			  inc_byte_orders[cfg->flags & INC_COMM_F_NET_ORDER ? INC_ORDER_NETWORK
									    : INC_ORDER_LITTLE],
			  "results", count(LOAD(st->tx_next)), "error", (int)st->error));
}

static json_t *query_communicators(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	return each_comm(d, page, json_array(), add_communicator);
}

/* The oldest incomplete chunk, where somebody has given and somebody has not. */
static void add_waiting(struct inc_daemon *d, uint32_t cm, const struct inc_comm_cfg *cfg,
			json_t *list)
{
	uint64_t r = LOAD(inc_switch_comm_state(d->sw)[cm].tx_next), word, since;
	json_t *arrived, *missing;
	uint32_t c;

	word = LOAD(inc_switch_slots(d->sw)[cfg->result_base + (r & ((1u << cfg->log2_slots) - 1))]
			    .word);
	if (INC_SLOT_GENERATION(word) != (uint32_t)(r >> cfg->log2_slots) ||
	    !INC_SLOT_ARRIVED(word))
		return;
	since = inc_slowpath_waiting_ms(d->sp, cm, r);
	arrived = json_array();
	missing = json_array();
	for (c = 0; c < cfg->children; c++) {
		json_int_t rank = inc_switch_conn(d->sw, cfg->conn_base + c)->rank;

		if (INC_SLOT_ARRIVED(word) >> c & 1)
			json_array_append_new(arrived, json_integer(rank));
		else
			json_array_append_new(missing, json_pack("{s:I, s:o}", "rank", rank,
								 "since_ms", count(since)));
	}
	json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o}", "communicator",
					      (json_int_t)cfg->communicator, "chunk", count(r),
					      "arrived", arrived, "missing", missing));
}

static void add_config(struct inc_daemon *d, uint32_t cm, const struct inc_comm_cfg *cfg,
		       json_t *list)
{
	inc_configured_append(d, cm, json_array_get(list, 0));
}

/* One switch, as its file would have it; each page has it with other communicators. */
static json_t *query_config(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list = json_array();

	json_array_append_new(list, inc_configured_switch(d));
	return each_comm(d, page, list, add_config);
}

static json_t *query_waiting(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	return each_comm(d, page, json_array(), add_waiting);
}

static json_t *query_events(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	return json_incref(d->events);
}

static json_t *query(struct inc_daemon *d, const char *what, struct inc_page *page,
		     struct inc_err *err)
{
	static const struct {
		const char *what;
		json_t *(*fn)(struct inc_daemon *d, struct inc_page *page, struct inc_err *err);
	} queries[] = {
		{"status", query_status},
		{"counters", query_counters},
		{"ports", query_ports},
		{"connections", query_connections},
		{"communicators", query_communicators},
		{"events", query_events},
		{"waiting", query_waiting},
		{"config", query_config},
	};
	json_t *data;
	size_t i;

	for (i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		if (strcmp(queries[i].what, what))
			continue;
		err->msg[0] = 0;
		data = queries[i].fn(d, page, err);
		if (!data && !err->msg[0])
			inc_err_set(err, ENOMEM, "no memory for the answer");
		return data;
	}
	inc_err_set(err, EINVAL, "unknown question '%.32s'", what);
	return NULL;
}

void inc_query_answer(struct inc_daemon *d, struct inc_ndjson *conn, json_t *request)
{
	json_t *seq = json_object_get(request, "seq"), *data = NULL, *answer;
	struct inc_msg_query said = {};
	struct inc_page page = {};
	struct inc_err err = {};

	if (!inc_message_read(INC_MSG_QUERY, request, &said, &err)) {
		page.from = said.from;
		data = query(d, said.what, &page, &err);
	}
	if (!data) {
		inc_ndjson_send_error(conn, EINVAL, seq ? json_pack("{s:O}", "seq", seq) : NULL,
				      "%s", err.msg);
		return;
	}
	answer = json_pack("{s:s, s:s, s:o}", "type", "answer", "what", said.what, "data", data);
	if (answer && seq)
		json_object_set(answer, "seq", seq);
	if (answer && page.next)
		json_object_set_new(answer, "next", json_integer(page.next));
	inc_ndjson_send_new(conn, answer);
}
