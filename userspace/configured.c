/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The switch's configuration in the form of its file. The daemon stores the configuration of each
 * communicator, and a query prints the configurations with the schemas that read files (config.h,
 * lib/conf/comm_conf.h).
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/log.h"
#include "userspace/switchd.h"
#include "userspace/neighbour.h"

struct inc_configured {
	struct inc_comm_conf conf;
	/* a text about what the ports lack, as it was last reported, or when the communicator was
	 * made; "": they lack nothing */
	char lacks[INC_PORT_REASON];
	const struct inc_engine_port *lacking; /* the port of that text; NULL: none */
	/* A peer may have sent nothing yet, so the kernel is asked whether it answers ARP
	 * requests. */
	bool awaits_peers;
	/* address of the first peer that the kernel did not know when it was last asked; zeros:
	 * there is none */
	struct inc_addr asked_ip;
	struct inc_addr silent_ip;    /* address of a peer that does not answer, likewise */
	char silent[INC_PORT_REASON]; /* a text that names that peer */
	const struct inc_engine_port *silent_port; /* the port that leads to it */
	const struct inc_engine_port *seen_port;   /* another one, at which it is seen; or NULL */
	LIST_ENTRY(inc_configured) entry;
};

/* One look at the peers of communicators asks the kernel about so many peers at most. The next look
 * goes on with the others. */
#define ASK_PEERS 64
/* So many communicators are looked at in one look, if so many wait for peers. */
#define ASK_COMMS 64

/* The answers of the kernel in one look. Many communicators have the same peers. */
struct asked {
	struct {
		uint32_t ifindex;
		struct inc_addr ip;
		enum inc_neighbour_answer answer;
	} peer[ASK_PEERS];
	uint32_t n;
	/* the kernel's neighbour table, if has_table is set */
	struct inc_neighbour *table;
	int n_table;
	bool has_table;
};

static struct inc_configured *find(const struct inc_daemon *d, uint32_t communicator)
{
	struct inc_configured *c;

	LIST_FOREACH (c, &d->configured, entry)
		if (c->conf.communicator == communicator)
			break;
	return c;
}

/* Writes what the communicator's ports lack now. Returns the port that lacks it, or NULL. */
static const struct inc_engine_port *
look(const struct inc_daemon *d, const struct inc_comm_conf *conf, char lacks[INC_PORT_REASON])
{
	struct inc_err err = {};
	uint32_t conn;
	const int ret = inc_ports_fit(d, conf, &conn, &err);

	snprintf(lacks, INC_PORT_REASON, "%s", err.msg);
	return ret ? inc_ports_find(d, conf->conn[conn].port) : NULL;
}

/* Asks the kernel for a peer, once in a look, and makes the kernel ask that peer if necessary.
 * Returns false if the look has asked for enough peers. */
static bool ask_kernel(struct asked *asked, uint32_t ifindex, struct inc_addr ip,
		       enum inc_neighbour_answer *answer)
{
	uint32_t i;

	for (i = 0; i < asked->n; i++)
		if (asked->peer[i].ifindex == ifindex && inc_addr_same(asked->peer[i].ip, ip))
			break;
	if (i == ASK_PEERS)
		return false;
	if (i == asked->n) {
		asked->peer[i].ifindex = ifindex;
		asked->peer[i].ip = ip;
		asked->peer[i].answer = inc_neighbour_answer(ifindex, ip);
		asked->n++;
		if (asked->peer[i].answer == INC_NEIGHBOUR_UNKNOWN ||
		    asked->peer[i].answer == INC_NEIGHBOUR_SILENT)
			inc_neighbour_provoke(ifindex, ip);
	}
	*answer = asked->peer[i].answer;
	return true;
}

/* Whether the MAC address of an entry has another address at the same port. Then it is another NIC
 * of the peer's host, which may answer for all addresses of the host, or a router. */
static bool has_others(const struct asked *asked, const struct inc_neighbour *entry)
{
	int i;

	for (i = 0; i < asked->n_table; i++) {
		const struct inc_neighbour *other = &asked->table[i];

		if (other->ifindex == entry->ifindex && other->ip.s_addr != entry->ip.s_addr &&
		    !memcmp(other->mac, entry->mac, sizeof(entry->mac)))
			return true;
	}
	return false;
}

/* Finds another port of the switch at which a peer's address is seen, as if two cables were
 * exchanged. was: the result of the last look. Returns NULL if there is none. */
static const struct inc_engine_port *seen_at(const struct inc_daemon *d, struct asked *asked,
					     const struct inc_engine_port *except,
					     const struct inc_engine_port *was, struct inc_addr ip)
{
	uint32_t p;
	int i;

	if (!asked->has_table)
		asked->n_table = inc_neighbour_list(&asked->table);
	asked->has_table = true;
	for (p = 0; p < d->n_ports; p++) {
		const struct inc_engine_port *port = &d->port[p];

		if (port == except)
			continue;
		for (i = 0; i < asked->n_table; i++) {
			const struct inc_neighbour *entry = &asked->table[i];

			if (entry->ifindex != port->ifindex ||
			    !inc_addr_same(inc_addr_of_in(entry->ip), ip) ||
			    has_others(asked, entry))
				continue;
			/* The kernel asks an old entry's owner, and forgets the entry if it is
			 * gone. Until then the last look's result stays. */
			if (entry->stale)
				inc_neighbour_provoke(port->ifindex, ip);
			if (!entry->stale || port == was)
				return port;
		}
	}
	return NULL;
}

/*
 * Looks for a peer that has sent nothing and does not answer ARP requests. Writes a text that names
 * it, or "". Makes the kernel ask for those that it does not know. An older answer of the kernel
 * does not count, because the peer may have come since. A text stays until the peer answers, while
 * the kernel asks again.
 */
static void find_silent_peer(const struct inc_daemon *d, struct inc_configured *c,
			     struct asked *asked)
{
	char ip[INC_ADDR_TEXT], who[INC_PEER_TEXT] = "the parent";
	enum inc_neighbour_answer answer;
	const struct inc_engine_port *port, *other;
	struct inc_engine_conn conn;
	struct inc_comm_at at;
	struct inc_addr first_ip = {};
	bool silent = false;
	const char *how;
	uint32_t i;

	c->awaits_peers = false;
	if (!inc_daemon_find_comm(d, c->conf.communicator, &at))
		return;
	for (i = 0; !silent && i < at.comm.connections; i++) {
		at.engine->ops->conn(at.engine, at.place, i, &conn);
		port = inc_ports_find(d, conn.port);
		if (conn.received || !port)
			continue;
		if (!ask_kernel(asked, port->ifindex, conn.peer.ip, &answer)) {
			c->awaits_peers = true;
			return;
		}
		if (answer == INC_NEIGHBOUR_KNOWN)
			continue;
		c->awaits_peers = true;
		if (!inc_addr_given(first_ip))
			first_ip = conn.peer.ip;
		silent = (answer == INC_NEIGHBOUR_SILENT &&
			  inc_addr_same(c->asked_ip, conn.peer.ip)) ||
			 (answer == INC_NEIGHBOUR_ASKED &&
			  inc_addr_same(c->silent_ip, conn.peer.ip));
	}
	c->asked_ip = first_ip;
	if (!silent || !inc_addr_same(c->silent_ip, conn.peer.ip))
		c->seen_port = NULL;
	c->silent_ip = silent ? conn.peer.ip : (struct inc_addr){};
	if (!silent)
		return;
	if (!conn.up)
		snprintf(who, sizeof(who), "rank %u", conn.rank);
	c->silent_port = port;
	inc_addr_text(conn.peer.ip, ip);
	how = inc_addr_is_ipv4(conn.peer.ip) ? "ARP requests" : "neighbour solicitations";
	other = c->seen_port = seen_at(d, asked, port, c->seen_port, conn.peer.ip);
	if (other)
		snprintf(c->silent, sizeof(c->silent),
			 "port %s: %s (%s) does not answer %s, and is seen at port %s: "
			 "exchange the cables of %s and %s, or correct the topology",
			 port->name, who, ip, how, other->name, port->name, other->name);
	else
		snprintf(c->silent, sizeof(c->silent),
			 "port %s: %s (%s) does not answer %s: is it up, behind this "
			 "port, and has it this address? (ip neigh show dev %s)",
			 port->name, who, ip, how, port->name);
}

int inc_configured_add(struct inc_daemon *d, const struct inc_comm_conf *conf)
{
	struct inc_configured *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->conf = *conf;
	c->awaits_peers = d->client;
	c->lacking = look(d, conf, c->lacks);
	if (c->lacking)
		inc_ports_warn(d, conf);
	LIST_INSERT_HEAD(&d->configured, c, entry);
	return 0;
}

void inc_configured_connect(struct inc_daemon *d, uint32_t communicator,
			    const struct inc_msg_peer *peer, uint32_t n)
{
	struct inc_comm_conf *conf = &find(d, communicator)->conf;
	uint32_t i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < conf->n_conns; k++) {
			struct inc_conn_conf *c = &conf->conn[k];

			if (c->up != peer[i].up || (!c->up && c->rank != peer[i].rank))
				continue;
			inc_rc_end_update(&c->peer, &peer[i].peer);
			c->has_peer_psn = true;
		}
}

void inc_configured_by_port(const struct inc_daemon *d, const char *texts[INC_MAX_PORTS])
{
	const struct inc_configured *c;

	LIST_FOREACH (c, &d->configured, entry)
		if (c->lacking && !texts[c->lacking - d->port])
			texts[c->lacking - d->port] = c->lacks;
}

/* Reports what the communicator's ports lack, or which peer is silent, if that has changed. */
static void report(struct inc_daemon *d, struct inc_configured *c)
{
	struct inc_msg_event event = {.communicator = c->conf.communicator};
	char lacks[INC_PORT_REASON];

	c->lacking = look(d, &c->conf, lacks);
	if (!c->lacking && inc_addr_given(c->silent_ip)) {
		memcpy(lacks, c->silent, sizeof(lacks));
		c->lacking = c->silent_port;
	}
	if (!strcmp(lacks, c->lacks))
		return;
	memcpy(c->lacks, lacks, sizeof(lacks));
	event.kind = *lacks ? INC_EVENT_KIND_PORT_UNFIT : INC_EVENT_KIND_PORT_FIT;
	snprintf(event.message, sizeof(event.message), "%s",
		 *lacks ? lacks : "its ports are as it needs them again");
	inc_event_notice(d, &event);
}

void inc_configured_watch(struct inc_daemon *d)
{
	struct inc_configured *c;

	LIST_FOREACH (c, &d->configured, entry)
		report(d, c);
}

void inc_configured_ask(struct inc_daemon *d)
{
	struct asked asked = {.n = 0};
	struct inc_configured *c;
	uint32_t n = 0, turns, i = 0;

	LIST_FOREACH (c, &d->configured, entry)
		n += c->awaits_peers;
	turns = (n + ASK_COMMS - 1) / ASK_COMMS;
	d->turn++;
	LIST_FOREACH (c, &d->configured, entry) {
		if (!c->awaits_peers || i++ % turns != d->turn % turns)
			continue;
		find_silent_peer(d, c, &asked);
		report(d, c);
	}
	free(asked.table);
}

const char *inc_configured_lacks_now(struct inc_daemon *d, uint32_t communicator)
{
	static char lacks[INC_PORT_REASON];
	const struct inc_configured *c = find(d, communicator);

	if (!c)
		return "";
	inc_ports_read_mtu(d);
	if (!look(d, &c->conf, lacks))
		snprintf(lacks, sizeof(lacks), "%s", c->lacks);
	return lacks;
}

const char *inc_configured_lacks(const struct inc_daemon *d, uint32_t communicator)
{
	const struct inc_configured *c = find(d, communicator);

	return c ? c->lacks : "";
}

const char *inc_configured_lacks_at(const struct inc_daemon *d, uint32_t communicator,
				    const struct inc_engine_port *port)
{
	const struct inc_configured *c = find(d, communicator);

	return c && c->lacking == port ? c->lacks : "";
}

void inc_configured_remove(struct inc_daemon *d, uint32_t communicator)
{
	struct inc_configured *c = find(d, communicator);

	if (!c)
		return;
	LIST_REMOVE(c, entry);
	free(c);
}

void inc_configured_free(struct inc_daemon *d)
{
	while (!LIST_EMPTY(&d->configured))
		inc_configured_remove(d, LIST_FIRST(&d->configured)->conf.communicator);
}

static void rename_conns(struct inc_comm_conf *conf, char old[][IF_NAMESIZE],
			 char now[][IF_NAMESIZE], uint32_t n)
{
	uint32_t c, i;

	for (c = 0; c < conf->n_conns; c++) {
		for (i = 0; i < n && strcmp(conf->conn[c].port, old[i]) != 0; i++)
			;
		if (i < n)
			strcpy(conf->conn[c].port, now[i]);
	}
}

void inc_configured_rename(struct inc_daemon *d)
{
	struct inc_settings *s = &d->conf.settings;
	char old[INC_MAX_PORTS][IF_NAMESIZE];
	struct inc_configured *c;
	bool changed = false;
	uint32_t i;

	memcpy(old, s->port, sizeof(old));
	for (i = 0; i < d->n_ports; i++) {
		changed |= strcmp(d->port[i].name, old[i]) != 0;
		strcpy(s->port[i], d->port[i].name);
	}
	if (!changed)
		return;
	LIST_FOREACH (c, &d->configured, entry)
		rename_conns(&c->conf, old, s->port, s->n_ports);
}

const char *inc_configured_role(const struct inc_daemon *d, uint32_t communicator)
{
	const struct inc_comm_conf *conf = &find(d, communicator)->conf;
	uint32_t i;

	if (conf->root)
		return "root";
	for (i = 0; i < conf->n_conns; i++)
		if (!conf->conn[i].up && inc_conn_to_switch(&conf->conn[i]))
			return "spine";
	return "leaf";
}

/* Whether the switch is the root of all its communicators, which is the field `root` of a switch's
 * file. */
static bool is_root(const struct inc_daemon *d)
{
	const struct inc_configured *c;

	LIST_FOREACH (c, &d->configured, entry)
		if (!c->conf.root)
			return false;
	return true;
}

json_t *inc_configured_switch(const struct inc_daemon *d)
{
	struct inc_switch_conf shown = d->conf;
	json_t *sw;

	shown.root = is_root(d);
	sw = inc_schema_print(&inc_switch_schema, INC_FILE_ONLY, &shown);
	json_object_set_new(sw, "communicators", json_array());
	json_object_set_new(sw, "connections", json_array());
	return sw;
}

void inc_configured_append(const struct inc_daemon *d, uint32_t communicator, json_t *sw)
{
	const struct inc_comm_conf *conf = &find(d, communicator)->conf;
	json_t *list = json_object_get(sw, "connections");
	struct inc_conn_conf c;
	uint32_t i;

	json_array_append_new(json_object_get(sw, "communicators"),
			      inc_schema_print(&inc_comm_schema, INC_FILE_ONLY, conf));
	for (i = 0; i < conf->n_conns; i++) {
		c = conf->conn[i];
		c.communicator = conf->communicator;
		json_array_append_new(list, inc_schema_print(&inc_conn_schema, INC_FILE_ONLY, &c));
	}
}
