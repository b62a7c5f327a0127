/* SPDX-License-Identifier: BSD-2-Clause */
/* Serves a page over HTTP by libevent's server, with the limits that libevent does not have. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/hostport.h"
#include "lib/net/listen.h"
#include "lib/net/loop.h"
#include "lib/net/scrape.h"

/* limit of connections; further ones wait in the kernel's queue */
#define MAX_CONNECTIONS (INC_SCRAPE_DESCRIPTORS - 1)
#define BACKLOG         32
#define MAX_HEADERS     8192 /* limit of the bytes of a request's headers */
#define MAX_BODY        4096 /* limit of a request's body, which is not used */
#define SILENCE_S       5    /* limit of the time without a byte in either direction */
/* limit of the time from a connection's begin to the end of its request */
#define REQUEST_S  5
#define LIFETIME_S 30 /* limit of a connection's time in any case */
#define SWEEP_MS   100

/* A client's connection. libevent does not report when a connection without a request ends. So we
 * hold a second reference to the connection's bufferevent, whose callbacks are unset once libevent
 * has finished with it. */
struct scrape_conn {
	struct bufferevent *bev;
	uint64_t opened_at_ns;
	bool asked; /* the client's request is complete */
	LIST_ENTRY(scrape_conn) entry;
};

/* The answer to one request, which is sent in parts. */
struct scrape_page {
	struct inc_scrape *scrape;
	struct evhttp_request *request;
	struct inc_scrape_at at;
	LIST_ENTRY(scrape_page) entry;
};

struct inc_scrape {
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener; /* socket that accepts connections, owned by http */
	struct inc_timer *sweep;         /* timer that runs while there are connections */
	const struct inc_scrape_site *site;
	inc_scrape_part part;
	void *arg;
	LIST_HEAD(, scrape_conn) connections;
	unsigned int n_connections;
	LIST_HEAD(, scrape_page) pages;
};

static const struct inc_scrape_site figures_site = {
	.what = "figures",
	.path = "/metrics",
	.headers =
		(const struct inc_scrape_header[]){
			{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}, {}},
};

int inc_scrape_check(const char *where, struct inc_err *err)
{
	struct addrinfo *list;
	int ret = inc_hostport_listen("address", where, 0, &list, err);

	if (!ret)
		freeaddrinfo(list);
	return ret;
}

static void page_free(struct scrape_page *page)
{
	LIST_REMOVE(page, entry);
	free(page);
}

/* Called when the client has closed its connection before its page was complete. libevent leaves
 * the request of such a page for us to free. */
static void on_gone(struct evhttp_connection *connection, void *arg)
{
	struct scrape_page *page = arg;

	if (!evhttp_request_get_connection(page->request))
		evhttp_request_free(page->request);
	page_free(page);
}

/* Writes one part of the page to buffer. Returns false if it was the last part. */
static bool write_part(struct scrape_page *page, struct evbuffer *buffer)
{
	const struct inc_scrape *s = page->scrape;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	bool more;

	if (!out)
		return false;
	more = s->part(s->arg, &page->at, out);
	if (!fclose(out))
		evbuffer_add(buffer, text, len);
	free(text);
	return more;
}

/* Called when the part before has been sent. Skips empty parts, because libevent would never report
 * that they were sent. */
static void on_written(struct evhttp_connection *connection, void *arg)
{
	struct scrape_page *page = arg;
	struct evbuffer *buffer = evbuffer_new();
	bool more = buffer != NULL;

	while (more && !evbuffer_get_length(buffer))
		more = write_part(page, buffer);
	if (more) {
		evhttp_send_reply_chunk_with_cb(page->request, buffer, on_written, page);
	} else {
		if (buffer)
			evhttp_send_reply_chunk(page->request, buffer);
		evhttp_connection_set_closecb(connection, NULL, NULL);
		evhttp_send_reply_end(page->request);
		page_free(page);
	}
	if (buffer)
		evbuffer_free(buffer);
}

static void refuse(struct evhttp_request *request, int code, const char *reason, const char *text)
{
	struct evbuffer *body = evbuffer_new();

	if (body)
		evbuffer_add(body, text, strlen(text));
	evhttp_send_reply(request, code, reason, body);
	if (body)
		evbuffer_free(body);
}

static void mark_asked(struct inc_scrape *s, const struct bufferevent *bev)
{
	struct scrape_conn *c;

	LIST_FOREACH (c, &s->connections, entry)
		c->asked |= c->bev == bev;
}

/* Answers a request of another path or method. Returns false if the request is one for the page. */
static bool check_request(const struct inc_scrape *s, struct evhttp_request *request)
{
	const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
	const enum evhttp_cmd_type method = evhttp_request_get_command(request);
	struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
	const bool known = path && strcmp(path, s->site->path) == 0;
	char text[64];

	if (known && (method == EVHTTP_REQ_GET || (s->site->head && method == EVHTTP_REQ_HEAD)))
		return false;
	evhttp_add_header(headers, "Content-Type", "text/plain; charset=utf-8");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	if (!known) {
		snprintf(text, sizeof(text), "the only page is %s\n", s->site->path);
		refuse(request, HTTP_NOTFOUND, "Not Found", text);
		return true;
	}
	evhttp_add_header(headers, "Allow", s->site->head ? "GET, HEAD" : "GET");
	refuse(request, HTTP_BADMETHOD, "Method Not Allowed",
	       s->site->head ? "only GET and HEAD\n" : "only GET\n");
	return true;
}

static void on_request(struct evhttp_request *request, void *arg)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(request);
	struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
	struct inc_scrape *s = arg;
	struct scrape_page *page;

	mark_asked(s, evhttp_connection_get_bufferevent(connection));
	evhttp_add_header(headers, "Connection", "close");
	if (check_request(s, request))
		return;
	for (const struct inc_scrape_header *h = s->site->headers; h->name; h++)
		evhttp_add_header(headers, h->name, h->value);
	if (evhttp_request_get_command(request) == EVHTTP_REQ_HEAD) {
		evhttp_send_reply(request, HTTP_OK, "OK", NULL);
		return;
	}
	page = calloc(1, sizeof(*page));
	if (!page) {
		refuse(request, HTTP_SERVUNAVAIL, "Service Unavailable", "no memory\n");
		return;
	}
	page->scrape = s;
	page->request = request;
	LIST_INSERT_HEAD(&s->pages, page, entry);
	evhttp_connection_set_closecb(connection, on_gone, page);
	evhttp_send_reply_start(request, HTTP_OK, "OK");
	on_written(connection, page);
}

static bool is_over(const struct scrape_conn *c)
{
	bufferevent_data_cb readable, writable;
	bufferevent_event_cb event;
	void *arg;

	bufferevent_getcb(c->bev, &readable, &writable, &event, &arg);
	return !readable && !writable && !event;
}

static void connection_free(struct inc_scrape *s, struct scrape_conn *c)
{
	LIST_REMOVE(c, entry);
	s->n_connections--;
	bufferevent_decref(c->bev);
	free(c);
}

static bool is_late(const struct scrape_conn *c, uint64_t now_ns)
{
	return now_ns - c->opened_at_ns > (c->asked ? LIFETIME_S : REQUEST_S) * INC_NSEC_PER_SEC;
}

/* Runs every SWEEP_MS while there are connections: frees those that have ended, and ends those that
 * last too long. */
static void on_sweep(void *arg)
{
	const uint64_t now_ns = inc_now_ns();
	struct inc_scrape *s = arg;
	struct scrape_conn *c, *next;

	for (c = LIST_FIRST(&s->connections); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (is_over(c))
			connection_free(s, c);
		else if (is_late(c, now_ns))
			shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
	}
	if (s->n_connections < MAX_CONNECTIONS)
		evconnlistener_enable(s->listener);
	if (s->n_connections)
		inc_timer_arm(s->sweep, SWEEP_MS);
}

static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
	struct inc_scrape *s = arg;
	struct scrape_conn *c = calloc(1, sizeof(*c));
	struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);

	if (!c || !bev) {
		free(c);
		return bev;
	}
	bufferevent_incref(bev);
	c->bev = bev;
	c->opened_at_ns = inc_now_ns();
	LIST_INSERT_HEAD(&s->connections, c, entry);
	if (++s->n_connections >= MAX_CONNECTIONS)
		evconnlistener_disable(s->listener);
	if (!inc_timer_runs(s->sweep))
		inc_timer_arm(s->sweep, SWEEP_MS);
	return bev;
}

static int make_server(struct inc_scrape *s, const struct addrinfo *at)
{
	int ret;

	s->sweep = inc_timer_new(s->base, on_sweep, s);
	s->http = evhttp_new(s->base);
	if (!s->sweep || !s->http)
		return -ENOMEM;
	evhttp_set_max_headers_size(s->http, MAX_HEADERS);
	evhttp_set_max_body_size(s->http, MAX_BODY);
	evhttp_set_timeout(s->http, SILENCE_S);
	/* allow all methods, because on_request() answers the wrong ones with 405 */
	evhttp_set_allowed_methods(s->http, UINT16_MAX);
	evhttp_set_gencb(s->http, on_request, s);
	evhttp_set_bevcb(s->http, on_connection, s);
	ret = inc_listener_open(s->base, at->ai_addr, at->ai_addrlen, BACKLOG, NULL, NULL,
				&s->listener);
	if (ret)
		return ret;
	if (!evhttp_bind_listener(s->http, s->listener)) {
		evconnlistener_free(s->listener);
		return -ENOMEM;
	}
	/* guard and enable the listener now, because without a callback it was not enabled when it
	 * was made */
	return inc_listener_guard(s->listener);
}

static void tell_address(const struct inc_scrape *s)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	struct sockaddr_storage addr;
	socklen_t len;

	if (inc_os.stream.own(evconnlistener_get_fd(s->listener), &addr, &len) ||
	    getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	if (addr.ss_family == AF_INET6)
		inc_info("%s at http://[%s]:%s%s", s->site->what, host, port, s->site->path);
	else
		inc_info("%s at http://%s:%s%s", s->site->what, host, port, s->site->path);
}

int inc_scrape_start(struct event_base *base, const char *where, inc_scrape_part part, void *arg,
		     struct inc_scrape **out, struct inc_err *err)
{
	return inc_scrape_start_site(base, where, &figures_site, part, arg, out, err);
}

int inc_scrape_start_site(struct event_base *base, const char *where,
			  const struct inc_scrape_site *site, inc_scrape_part part, void *arg,
			  struct inc_scrape **out, struct inc_err *err)
{
	struct inc_scrape *s;
	struct addrinfo *at;
	int ret = inc_hostport_listen("address", where, 0, &at, err);

	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (s) {
		s->base = base;
		s->site = site;
		s->part = part;
		s->arg = arg;
		LIST_INIT(&s->connections);
		LIST_INIT(&s->pages);
	}
	ret = s ? make_server(s, at) : -ENOMEM;
	freeaddrinfo(at);
	if (ret) {
		inc_scrape_stop(s);
		return inc_err_set(err, -ret, "%s at %s: %s", site->what, where, strerror(-ret));
	}
	tell_address(s);
	*out = s;
	return 0;
}

void inc_scrape_stop(struct inc_scrape *s)
{
	if (!s)
		return;
	if (s->http)
		/* evhttp_free() also frees the listener, the connections and their requests */
		evhttp_free(s->http);
	while (!LIST_EMPTY(&s->pages))
		page_free(LIST_FIRST(&s->pages));
	while (!LIST_EMPTY(&s->connections))
		connection_free(s, LIST_FIRST(&s->connections));
	inc_timer_free(s->sweep);
	free(s);
}
