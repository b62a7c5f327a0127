/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fake of libinc_connect for tests of inc-connect on a machine without RDMA devices. It offers
 * two remote ports and two local ports, and a socket is the TCP connection itself. FAKE_PORT is the
 * port of an address without one. FAKE_FAULT selects a fault:
 *	changed		changes a byte of each message that arrives
 *	misread		changes a byte of what READ returns
 *	silent		drops messages that arrive
 *	dead		drops messages, READ results and checks
 *	narrow		transfers are short
 *	refused		no pair of ports fits
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "hostlib/include/inc_connect.h"

#define WINDOW 3 /* number of sent messages that the peer has not released yet */

enum frame_kind { MESSAGE = 1, RELEASED, READ_ASKED, READ_DATA, WRITE_DATA, WRITTEN };

struct frame {
	/* size: bytes that follow this header; for READ_ASKED: bytes of the requested data */
	uint32_t kind, size;
	uint64_t address, local;
};

struct inc_connect {
	struct event_base *base;
	struct inc_connect_settings settings;
};

struct inc_connect_service {
	struct inc_connect *ctx;
	struct evconnlistener *listener;
	struct inc_connect_serve_opts opts;
};

struct inc_connect_socket {
	int fd, error;
	struct inc_connect_settings settings;
	struct evbuffer *in; /* bytes that have not been parsed yet */
	uint8_t *message;    /* the oldest message that has arrived */
	uint32_t size;       /* size of the oldest message */
	unsigned int under_way;
	/* the answer to a check has arrived, but progress() has not returned it yet */
	bool checked;
	uint64_t begun, ended; /* numbers of transfers that have begun and ended */
};

struct inc_connect_region {
	void *memory;
};

/* A request, whose callback the event loop calls later. */
struct inc_connect_request {
	struct inc_connect *ctx;
	struct inc_connect_request_opts opts;
	inc_connect_opened opened;
	inc_connect_queried queried;
	inc_connect_told told;
	int fd;
};

static bool fault(const char *name)
{
	const char *have = getenv("FAKE_FAULT");

	return have && !strcmp(have, name);
}

/* Reads the address "127.0.0.1:PORT". A text without a port gets the port of FAKE_PORT. */
static struct sockaddr_in address_of(const char *text)
{
	const char *port = text ? strchr(text, ':') : NULL;

	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(atoi(port ? port + 1 : getenv("FAKE_PORT"))),
	};
}

void inc_connect_settings_init(struct inc_connect_settings *settings, size_t sz)
{
	*settings = (struct inc_connect_settings){.sz = sz,
#define PRESET(name, type, preset, least, most, about) .name = (preset),
						  INC_CONNECT_SETTINGS(PRESET)
#undef PRESET
	};
}

int inc_connect_create(struct event_base *base, const struct inc_connect_opts *opts,
		       struct inc_connect **ctx)
{
	*ctx = calloc(1, sizeof(**ctx));
	(*ctx)->base = base;
	inc_connect_settings_init(&(*ctx)->settings, sizeof((*ctx)->settings));
	if (opts->settings)
		(*ctx)->settings = *opts->settings;
	return 0;
}

void inc_connect_destroy(struct inc_connect *ctx)
{
	free(ctx);
}

char *inc_connect_figures_part(struct inc_connect *ctx, unsigned int part)
{
	return part ? NULL
		    : strdup("# HELP inc_fake a figure that there is\n# TYPE inc_fake "
			     "gauge\ninc_fake 7\n");
}

const char *inc_connect_reason_text(enum inc_connect_reason reason)
{
	static const char *const texts[] = {
#define TEXT(NAME, text) text,
		INC_CONNECT_REASONS(TEXT)
#undef TEXT
	};

	return texts[reason];
}

static struct inc_connect_socket *socket_of(const struct inc_connect *ctx, int fd)
{
	struct inc_connect_socket *s = calloc(1, sizeof(*s));
	const int at_once = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
	s->fd = fd;
	s->settings = ctx->settings;
	s->in = evbuffer_new();
	return s;
}

static void on_client(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer,
		      int len, void *arg)
{
	struct inc_connect_service *service = arg;

	service->opts.accepted(service->opts.arg, socket_of(service->ctx, fd), "127.0.0.1");
}

int inc_connect_serve(struct inc_connect *ctx, const struct inc_connect_serve_opts *opts,
		      struct inc_connect_service **service)
{
	struct sockaddr_in at = address_of(opts->listen);

	*service = calloc(1, sizeof(**service));
	(*service)->ctx = ctx;
	(*service)->opts = *opts;
	(*service)->listener = evconnlistener_new_bind(
		ctx->base, on_client, *service,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_LEAVE_SOCKETS_BLOCKING | LEV_OPT_REUSEABLE, 8,
		(struct sockaddr *)&at, sizeof(at));
	if ((*service)->listener)
		return 0;
	snprintf(opts->error, opts->error_size, "cannot listen: %s", strerror(errno));
	return -errno;
}

unsigned int inc_connect_service_port(const struct inc_connect_service *service)
{
	const struct sockaddr_in at = address_of(service->opts.listen);

	return ntohs(at.sin_port);
}

void inc_connect_service_close(struct inc_connect_service *service)
{
	if (!service)
		return;
	evconnlistener_free(service->listener);
	free(service);
}

static struct inc_connect_devices devices(void)
{
	return (struct inc_connect_devices){
		.hostname = "fake\x1b[2J",
		.n_devices = 1,
		.devices[0] = {.dev_name = "there0",
			       .n_ports = 2,
			       .ports = {{.port = 1,
					  .link_layer = INC_CONNECT_ETHERNET,
					  .n_zones = 2,
					  .zones = {{"rack7"}, {"row3"}}},
					 {.port = 2, .link_layer = INC_CONNECT_INFINIBAND}}},
	};
}

static void tell_opened(struct inc_connect_request *r)
{
	const bool none = fault("refused");
	const struct inc_connect_pair pairs[] = {
		{0, 1, 0, 1, "there0", "here0", INC_CONNECT_ETHERNET,
		 none ? INC_CONNECT_INACTIVE : INC_CONNECT_CHOSEN},
		{0, 2, 0, 1, "there0", "here0", INC_CONNECT_ETHERNET, INC_CONNECT_LINK_LAYER},
	};
	const struct inc_connect_choice choice = {.n_pairs = 2, .pairs = pairs};

	if (none)
		r->opened(r->opts.arg, -ENODEV, "no pair of ports fits", NULL, &choice);
	else
		r->opened(r->opts.arg, 0, NULL, socket_of(r->ctx, r->fd), &choice);
}

static void tell(evutil_socket_t fd, short what, void *arg)
{
	const struct inc_connect_devices there = devices();
	struct inc_connect_request *r = arg;

	if (r->opened)
		tell_opened(r);
	else if (r->queried)
		r->queried(r->opts.arg, 0, NULL, &there);
	else
		r->told(r->opts.arg, 0, NULL, "inc_fake 7\n");
	free(r);
}

static int ask(struct inc_connect *ctx, const struct inc_connect_request_opts *opts,
	       struct inc_connect_request what, struct inc_connect_request **request)
{
	*request = malloc(sizeof(**request));
	**request = what;
	(*request)->ctx = ctx;
	(*request)->opts = *opts;
	return event_base_once(ctx->base, -1, EV_TIMEOUT, tell, *request, NULL);
}

int inc_connect_query(struct inc_connect *ctx, const char *address,
		      const struct inc_connect_request_opts *opts, inc_connect_queried done,
		      struct inc_connect_request **request)
{
	return ask(ctx, opts, (struct inc_connect_request){.queried = done}, request);
}

int inc_connect_ask_figures(struct inc_connect *ctx, const char *address,
			    const struct inc_connect_request_opts *opts, inc_connect_told done,
			    struct inc_connect_request **request)
{
	return ask(ctx, opts, (struct inc_connect_request){.told = done}, request);
}

int inc_connect_open(struct inc_connect *ctx, const char *address,
		     const struct inc_connect_request_opts *opts, inc_connect_opened done,
		     struct inc_connect_request **request)
{
	const struct sockaddr_in to = address_of(address);
	const int fd = fault("refused") ? -1 : socket(AF_INET, SOCK_STREAM, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to))) {
		snprintf(opts->error, opts->error_size, "%s: %s", address, strerror(errno));
		close(fd);
		return -errno;
	}
	return ask(ctx, opts, (struct inc_connect_request){.opened = done, .fd = fd}, request);
}

int inc_connect_socket_fd(const struct inc_connect_socket *s)
{
	return s->fd;
}

static void put(struct inc_connect_socket *s, struct frame frame, const void *data, size_t size)
{
	struct iovec parts[] = {{&frame, sizeof(frame)}, {(void *)data, size}};
	struct msghdr all = {.msg_iov = parts, .msg_iovlen = 2};

	if (sendmsg(s->fd, &all, MSG_NOSIGNAL) != (ssize_t)(sizeof(frame) + size))
		s->error = -ECONNRESET;
}

/* Can the next frame be processed? A message waits until the application has released the one
 * before it. */
static bool can_take(const struct inc_connect_socket *s, struct frame *frame)
{
	const size_t have = evbuffer_get_length(s->in);
	size_t data;

	if (evbuffer_copyout(s->in, frame, sizeof(*frame)) != sizeof(*frame))
		return false;
	data = frame->kind == READ_ASKED ? 0 : frame->size;
	return have >= sizeof(*frame) + data && !(frame->kind == MESSAGE && s->message);
}

static void take_message(struct inc_connect_socket *s, const struct frame *frame)
{
	s->message = malloc(frame->size);
	s->size = frame->size;
	evbuffer_remove(s->in, s->message, frame->size);
	if (fault("changed"))
		s->message[s->size - 1] ^= 1;
	if (fault("silent") || fault("dead")) {
		free(s->message);
		s->message = NULL;
	}
}

static void take(struct inc_connect_socket *s, const struct frame *f)
{
	evbuffer_drain(s->in, sizeof(*f));
	switch (f->kind) {
	case MESSAGE:
		take_message(s, f);
		break;
	case RELEASED:
		s->under_way--;
		break;
	case READ_ASKED:
		put(s, (struct frame){READ_DATA, f->size, 0, f->local}, (void *)f->address,
		    f->size);
		break;
	case WRITE_DATA:
		evbuffer_remove(s->in, (void *)f->address, f->size);
		put(s, (struct frame){.kind = WRITTEN}, NULL, 0);
		break;
	case READ_DATA:
		evbuffer_remove(s->in, (void *)f->local, f->size);
		*(uint8_t *)f->local ^= fault("misread");
		s->ended++;
		break;
	case WRITTEN:
		s->ended++;
	}
}

int inc_connect_socket_progress(struct inc_connect_socket *s)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	struct frame frame;
	int done = 0;

	while (!s->error && poll(&p, 1, 0) > 0)
		if (evbuffer_read(s->in, s->fd, 1 << 20) <= 0)
			s->error = -ESHUTDOWN;
	for (; can_take(s, &frame); done++)
		take(s, &frame);
	done += s->checked;
	s->checked = false;
	return s->error ?: done;
}

int inc_connect_socket_wait(struct inc_connect_socket *s, int timeout_ms)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};

	return s->error ? s->error : poll(&p, 1, timeout_ms) > 0 ? 0 : -ETIMEDOUT;
}

int inc_connect_socket_send(struct inc_connect_socket *s, const void *data, size_t size)
{
	if (s->error)
		return s->error;
	if (s->under_way == WINDOW)
		return -EAGAIN;
	s->under_way++;
	put(s, (struct frame){.kind = MESSAGE, .size = size}, data, size);
	return 0;
}

int inc_connect_socket_flush(struct inc_connect_socket *s)
{
	return s->error ? s->error : s->under_way ? -EAGAIN : 0;
}

int inc_connect_socket_receive(struct inc_connect_socket *s, const void **data, size_t *size)
{
	*data = s->message;
	*size = s->size;
	return s->message ? 0 : s->error ? s->error : -EAGAIN;
}

int inc_connect_socket_release(struct inc_connect_socket *s)
{
	free(s->message);
	s->message = NULL;
	put(s, (struct frame){.kind = RELEASED}, NULL, 0);
	return 0;
}

int inc_connect_socket_register(struct inc_connect_socket *s, void *memory, size_t size,
				bool remote, struct inc_connect_region **region)
{
	*region = malloc(sizeof(**region));
	(*region)->memory = memory;
	return 0;
}

uint64_t inc_connect_region_address(const struct inc_connect_region *region)
{
	return (uintptr_t)region->memory;
}

uint32_t inc_connect_region_key(const struct inc_connect_region *region)
{
	return 77;
}

void inc_connect_region_release(struct inc_connect_region *region)
{
	free(region);
}

int inc_connect_socket_transfer(struct inc_connect_socket *s, enum inc_connect_direction direction,
				const struct inc_connect_transfer *t, uint32_t n, uint64_t *ticket)
{
	if (s->error)
		return s->error;
	if (n > s->settings.max_rdma_wr_per_post)
		return -EINVAL;
	if (s->begun - s->ended + n > s->settings.max_rdma_wr)
		return -EAGAIN;
	for (; n--; t++, s->begun++) {
		if (t->remote_key != 77)
			s->error = -EREMOTEIO;
		else if (direction == INC_CONNECT_READ)
			put(s,
			    (struct frame){READ_ASKED, t->size, t->remote_address,
					   (uintptr_t)t->local},
			    NULL, 0);
		else
			put(s, (struct frame){WRITE_DATA, t->size, t->remote_address, 0}, t->local,
			    t->size);
	}
	*ticket = s->begun;
	return s->error;
}

int inc_connect_socket_transferred(struct inc_connect_socket *s, uint64_t ticket)
{
	return s->ended >= ticket ? 0 : s->error ? s->error : -EAGAIN;
}

int inc_connect_socket_check(struct inc_connect_socket *s)
{
	s->checked = !fault("dead");
	return s->error;
}

int inc_connect_socket_info(const struct inc_connect_socket *s,
			    struct inc_connect_socket_info *info)
{
	*info = (struct inc_connect_socket_info){.sz = sizeof(*info),
						 .peer = "fake",
						 .local_name = "here0",
						 .remote_name = "there0",
						 .local_port = 1,
						 .remote_port = 1,
						 .link_layer = INC_CONNECT_ETHERNET,
						 .mtu_bytes = 1024,
						 .local_qpn = 17,
						 .remote_qpn = 18,
						 .latency_ns = 2500000,
						 .max_transfer_bytes =
							 fault("narrow") ? 4096 : 1u << 30,
						 .settings = &s->settings};
	return 0;
}

const char *inc_connect_socket_error(const struct inc_connect_socket *s)
{
	return s->error ? "the fake has failed" : NULL;
}

int inc_connect_socket_close(struct inc_connect_socket *s)
{
	return s->error;
}

void inc_connect_socket_destroy(struct inc_connect_socket *s)
{
	if (!s)
		return;
	free(s->message);
	evbuffer_free(s->in);
	close(s->fd);
	free(s);
}
