/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page of --http: a server, and what switches answer for it. Switches are asked only while the
 * page is read. Each one gets at most one question per second, and none while it owes
 * the answer to the one before. The kinds of questions take turns. libevent reads the requests, and
 * all that is ours is the path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/evp.h>
#include "controller/core/switch.h"
#include "controller/draw/draw.h"
#include "controller/net/ctl.h"
#include "lib/base/clock.h"
#include "lib/conf/event_kind.h"

#define ASK_NS   INC_NSEC_PER_SEC        /* least time between two questions to a switch */
#define STALE_NS (15 * INC_NSEC_PER_SEC) /* time after which an old answer says nothing */
/* Time without a reader after which all answers are forgotten. Otherwise the first rate would be
 * the mean of that time. A browser asks at least every two seconds. */
#define UNREAD_NS (5 * INC_NSEC_PER_SEC)
#define HASH_TEXT 64 /* bytes of the text of a hash */

static void free_switches(struct inc_page *page)
{
	for (unsigned int i = 0; i < page->n_switches; i++) {
		free(page->switches[i].ports);
		json_decref(page->switches[i].waiting);
		free(page->switches[i].waits_below);
	}
	free(page->switches);
	page->switches = NULL;
	page->n_switches = 0;
}

/* Whether the page has room for what the switches of the topology answer. */
static bool fits(const struct inc_page *page, const struct inc_topology *topo)
{
	if (page->n_switches != topo->n_switches)
		return false;
	for (unsigned int i = 0; i < topo->n_switches; i++) {
		if (page->switches[i].n_ports != topo->switches[i].n_ports)
			return false;
	}
	return true;
}

/* Makes room for what the switches of the topology answer, because the page is new, or the topology
 * is another one. Without memory the page shows nothing of the switches. */
static void make_room(struct inc_page *page)
{
	const struct inc_topology *topo = page->ctl->topo;

	if (fits(page, topo))
		return;
	free_switches(page);
	page->switches = calloc(topo->n_switches + 1, sizeof(*page->switches));
	for (; page->switches && page->n_switches < topo->n_switches; page->n_switches++) {
		struct inc_page_switch *side = &page->switches[page->n_switches];

		side->n_ports = topo->switches[page->n_switches].n_ports;
		side->ports = calloc(side->n_ports + 1, sizeof(*side->ports));
		if (!side->ports)
			break;
	}
}

void inc_page_renumbered(struct inc_ctl *ctl)
{
	if (ctl->page)
		free_switches(ctl->page);
}

/* Finds where the answer of a switch belongs. Returns NULL if the topology has changed meanwhile.
 */
static struct inc_page_switch *side_of(const struct inc_ctl *ctl, const struct inc_core_switch *sw)
{
	struct inc_page *page = ctl->page;

	return page && fits(page, ctl->topo) ? &page->switches[sw->index] : NULL;
}

static uint64_t count_of(const json_t *object, const char *key)
{
	const json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? value : 0;
}

static double mbit_per_s(uint64_t bytes, uint64_t ns)
{
	return (double)bytes * 8e3 / (double)ns;
}

/* Takes a port's entry of an answer. ns is the time since the answer before, or 0 if there was
 * none. */
static void take_port(struct inc_page_port *port, const json_t *entry, uint64_t ns)
{
	const uint64_t rx = count_of(entry, "rx_bytes"), tx = count_of(entry, "tx_bytes");

	port->rated = ns && port->known && rx >= port->rx_bytes && tx >= port->tx_bytes;
	if (port->rated) {
		port->rx_mbit = mbit_per_s(rx - port->rx_bytes, ns);
		port->tx_mbit = mbit_per_s(tx - port->tx_bytes, ns);
	}
	port->known = true;
	port->rx_bytes = rx;
	port->tx_bytes = tx;
	port->down = strcmp(inc_ctl_text(entry, "state"), "up") != 0 ||
		     (*inc_ctl_text(entry, "link") && strcmp(inc_ctl_text(entry, "link"), "up"));
	snprintf(port->reason, sizeof(port->reason), "%s", inc_ctl_text(entry, "reason"));
}

static void on_ports(struct inc_ctl *ctl, struct inc_core_switch *sw, int code, const char *text,
		     json_t *answer, uint64_t arg)
{
	struct inc_page_switch *side = side_of(ctl, sw);
	const uint64_t now_ns = inc_now_ns();
	const json_t *entry;
	size_t i;
	int port;

	if (!side)
		return;
	side->asked = false;
	json_array_foreach (json_object_get(answer, "data"), i, entry) {
		port = inc_topology_port_by_name(&ctl->topo->switches[sw->index],
						 inc_ctl_text(entry, "name"));
		if (port >= 0)
			take_port(&side->ports[port], entry,
				  side->ports_at_ns ? now_ns - side->ports_at_ns : 0);
	}
	side->ports_at_ns = now_ns;
	for (unsigned int k = 0; code && k < side->n_ports; k++)
		side->ports[k] = (struct inc_page_port){};
}

/* Finds the entry of a communicator's speed, or a free one, or one that is not used any more.
 * Returns NULL if there is none. */
static struct inc_page_speed *speed_room(struct inc_page *page, uint32_t communicator,
					 uint64_t now_ns)
{
	struct inc_page_speed *found = NULL;

	for (unsigned int i = 0; i < INC_PAGE_JOBS; i++) {
		struct inc_page_speed *speed = &page->speeds[i];

		if (speed->communicator == communicator)
			return speed;
		if (!speed->communicator || now_ns - speed->at_ns > STALE_NS)
			found = speed;
	}
	if (found)
		*found = (struct inc_page_speed){.communicator = communicator};
	return found;
}

static void take_speed(struct inc_page *page, const json_t *entry, uint64_t now_ns)
{
	const uint64_t number = count_of(entry, "communicator"),
		       results = count_of(entry, "results");
	struct inc_page_speed *speed;

	if (!number || number > UINT32_MAX || strcmp(inc_ctl_text(entry, "role"), "root") != 0)
		return;
	speed = speed_room(page, number, now_ns);
	if (!speed)
		return;
	if (speed->at_ns && results >= speed->results) {
		const double s = (double)(now_ns - speed->at_ns) / INC_NSEC_PER_SEC;

		speed->results_per_s = (double)(results - speed->results) / s;
		speed->mbit_per_s =
			speed->results_per_s * (double)count_of(entry, "payload_bytes") * 8e-6;
		speed->busy = speed->busy << 1 | (results > speed->results);
		speed->answers += speed->answers < 32;
	}
	speed->results = results;
	speed->at_ns = now_ns;
}

const struct inc_page_speed *inc_page_speed(const struct inc_page *page, uint32_t communicator)
{
	const uint64_t now_ns = inc_now_ns();

	for (unsigned int i = 0; i < INC_PAGE_JOBS; i++) {
		const struct inc_page_speed *speed = &page->speeds[i];

		if (speed->communicator == communicator && speed->answers &&
		    now_ns - speed->at_ns <= STALE_NS)
			return speed;
	}
	return NULL;
}

static void on_communicators(struct inc_ctl *ctl, struct inc_core_switch *sw, int code,
			     const char *text, json_t *answer, uint64_t arg)
{
	struct inc_page_switch *side = side_of(ctl, sw);
	const json_t *entry;
	size_t i;

	if (!side)
		return;
	side->asked = false;
	side->from[1] = code ? 0 : inc_page_next(answer, arg);
	json_array_foreach (json_object_get(answer, "data"), i, entry)
		take_speed(ctl->page, entry, inc_now_ns());
}

static int compare_numbers(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Lists the communicators of the switch's answer in which it waits for a peer below it. Without
 * memory the list is empty, and the page shows more waits. */
static void list_waits_below(struct inc_page_switch *side)
{
	const json_t *entry;
	size_t i;

	free(side->waits_below);
	side->waits_below = calloc(json_array_size(side->waiting) + 1, sizeof(uint32_t));
	side->n_waits_below = 0;
	if (!side->waits_below)
		return;
	json_array_foreach (side->waiting, i, entry) {
		const json_t *first = json_array_get(json_object_get(entry, "missing"), 0);

		if (!json_is_true(json_object_get(first, "up")))
			side->waits_below[side->n_waits_below++] = count_of(entry, "communicator");
	}
	qsort(side->waits_below, side->n_waits_below, sizeof(uint32_t), compare_numbers);
}

bool inc_page_waits_below(const struct inc_page_switch *side, uint32_t communicator)
{
	return side->waits_below && bsearch(&communicator, side->waits_below, side->n_waits_below,
					    sizeof(uint32_t), compare_numbers);
}

static void on_waiting(struct inc_ctl *ctl, struct inc_core_switch *sw, int code, const char *text,
		       json_t *answer, uint64_t arg)
{
	struct inc_page_switch *side = side_of(ctl, sw);
	json_t *data = json_object_get(answer, "data");

	if (!side)
		return;
	side->asked = false;
	side->from[2] = code ? 0 : inc_page_next(answer, arg);
	json_decref(side->waiting);
	side->waiting = code ? NULL : json_incref(data);
	inc_query_add_names(sw, side->waiting);
	list_waits_below(side);
}

/* Asks each switch the next question, unless that was done a moment ago. */
static void look(struct inc_page *page)
{
	static const struct {
		const char *what;
		inc_switch_reply reply;
	} kinds[] = {
		{"ports", on_ports}, {"communicators", on_communicators}, {"waiting", on_waiting}};
	static const unsigned char turns[] = {0, 1, 0, 2};
	const uint64_t now_ns = inc_now_ns();
	struct inc_ctl *ctl = page->ctl;

	if (now_ns - page->read_at_ns > UNREAD_NS) {
		free_switches(page);
		memset(page->speeds, 0, sizeof(page->speeds));
	}
	page->read_at_ns = now_ns;
	make_room(page);
	if (now_ns - page->asked_at_ns < ASK_NS)
		return;
	page->asked_at_ns = now_ns;
	for (unsigned int i = 0; i < page->n_switches; i++) {
		struct inc_page_switch *side = &page->switches[i];
		const unsigned char kind = turns[side->turn % sizeof(turns)];

		if (side->asked || !ctl->core.switches[i]->connected)
			continue;
		side->asked = !inc_switch_query(ctl, ctl->core.switches[i], kinds[kind].what, 0,
						side->from[kind], kinds[kind].reply);
		side->turn++;
	}
}

static bool print_part(void *arg, struct inc_scrape_at *at, FILE *out)
{
	struct inc_page *page = arg;

	if (!at->section)
		look(page);
	return inc_page_print(page, at, out);
}

static void add_event(struct inc_page *page, const struct inc_page_event *what, const char *from,
		      const char *message)
{
	struct inc_page_event *event = &page->events[page->n_events++ % INC_PAGE_EVENTS];

	*event = *what;
	snprintf(event->from, sizeof(event->from), "%s", from);
	snprintf(event->message, sizeof(event->message), "%s", message);
}

void inc_page_event(struct inc_ctl *ctl, const struct inc_core_switch *sw,
		    const struct inc_msg_event *said)
{
	const struct inc_page_event event = {.time_ns = said->time_ns,
					     .kind = inc_event_info[said->kind].name,
					     .communicator = said->communicator};

	if (ctl->page)
		add_event(ctl->page, &event, inc_switch_name(sw), said->message);
}

void inc_page_take_records(struct inc_ctl *ctl)
{
	const struct inc_records *records = &ctl->core.records;
	struct inc_page *page = ctl->page;
	uint64_t more = page ? records->n - page->n_records : 0;

	for (more = more < records->n_kept ? more : records->n_kept; more; more--) {
		const struct inc_record *r = &records->kept[records->n_kept - more];

		add_event(page,
			  &(struct inc_page_event){.time_ns = r->time_ns,
						   .kind = inc_record_kinds[r->kind],
						   .communicator = r->communicator},
			  "controller", r->message);
	}
	if (page)
		page->n_records = records->n;
}

/* Prints the hash by which a browser recognizes a style or script of this page, and no other. */
static void hash_of(const char *text, char out[HASH_TEXT])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	*out = '\0';
	if (EVP_Digest(text, strlen(text), hash, &len, EVP_sha256(), NULL) == 1)
		EVP_EncodeBlock((unsigned char *)out, hash, (int)len);
}

/* Sets the headers of the page's answers. The browser may load nothing but the page itself. */
static int set_headers(struct inc_page *page)
{
	char style[HASH_TEXT], script[HASH_TEXT];

	if (asprintf(&page->style, "%s%s", inc_page_style, inc_draw_style) < 0) {
		page->style = NULL;
		return -ENOMEM;
	}
	hash_of(page->style, style);
	hash_of(inc_page_script, script);
	snprintf(page->policy, sizeof(page->policy),
		 "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; "
		 "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
		 "frame-ancestors 'none'",
		 style, script);
	memcpy(page->headers,
	       (const struct inc_scrape_header[]){
		       {"Content-Type", "text/html; charset=utf-8"},
		       {"Content-Security-Policy", page->policy},
		       {"X-Content-Type-Options", "nosniff"},
		       {"Cross-Origin-Resource-Policy", "same-origin"},
		       {"Referrer-Policy", "no-referrer"},
		       {"Cache-Control", "no-store"},
		       {},
	       },
	       7 * sizeof(*page->headers));
	page->site = (struct inc_scrape_site){
		.what = "page", .path = "/", .head = true, .headers = page->headers};
	return 0;
}

int inc_page_start(struct inc_ctl *ctl, struct inc_err *err)
{
	int ret;

	if (!ctl->opt.http)
		return 0;
	ctl->page = calloc(1, sizeof(*ctl->page));
	if (ctl->page)
		ctl->page->drawn = calloc(1, sizeof(*ctl->page->drawn));
	if (!ctl->page || !ctl->page->drawn || set_headers(ctl->page))
		return inc_err_set(err, ENOMEM, "page: %s", strerror(ENOMEM));
	ctl->page->ctl = ctl;
	inc_page_take_records(ctl);
	ret = inc_scrape_start_site(ctl->base, ctl->opt.http, &ctl->page->site, print_part,
				    ctl->page, &ctl->page->scrape, err);
	return ret;
}

void inc_page_stop(struct inc_ctl *ctl)
{
	struct inc_page *page = ctl->page;

	if (!page)
		return;
	/* answers of switches that are under way find no page */
	ctl->page = NULL;
	inc_scrape_stop(page->scrape);
	free_switches(page);
	if (page->drawn)
		free(page->drawn->text);
	free(page->drawn);
	free(page->style);
	free(page);
}
