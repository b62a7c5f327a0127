/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libinc_connect - a connected queue pair between two processes that know a TCP address
 *
 * Synopsis:
 *	cc hello.c $(pkg-config --cflags --libs libinc_connect libevent_core)
 *
 * Objects:
 * One of two processes serves at a TCP address, and the other process knows nothing else of it. It
 * asks there for the active RDMA ports, and chooses a pair of ports that fit. Both processes then
 * have a *socket*: messages with credits, RDMA READ and RDMA WRITE on a connected (RC) queue pair.
 * A *context* has the devices of this machine and the objects that are made on them. A *service*
 * answers clients, and a *request* is a client's question.
 *
 *	struct inc_connect *ctx;
 *
 *	err = inc_connect_create(base, NULL, &ctx);
 *	err = inc_connect_serve(ctx, &opts, &service);		the one side
 *	err = inc_connect_open(ctx, "node7", &opts, &request);	the other
 *	event_base_dispatch(base);				callbacks have the sockets
 *
 * docs/connect.md describes the wire, the configuration file and the figures.
 *
 * Results:
 * Functions that can fail return 0 or a negative errno(3). If a struct of options has @error and
 * error_size, a call that fails writes a line of explanation to @error. A callback that reports a
 * failure gets such a line. An error of a socket is final: every later call on the socket returns
 * it, and inc_connect_socket_error() explains it.
 *
 * Option structs:
 * An option struct begins with its own size, sz, which the caller sets. INC_CONNECT_OPTS() declares
 * a struct with its size set and the other members zero or as given. Zero always means the default,
 * except in struct inc_connect_settings, which inc_connect_settings_init() fills. A member that an
 * older caller's struct lacks counts as zero. A member that the library does not know must be zero,
 * or the call fails with -E2BIG.
 *
 * Threads:
 * A context and all that is made from it belong to the thread that runs its event base
 * (event_base_dispatch() of libevent). That thread makes every call. Every callback comes from its
 * loop, with no lock held. Contexts in different threads are independent of each other. A socket
 * belongs to its owner once its callback has returned. Any one thread at a time may use it, without
 * an event base.
 *
 * Only inc_connect_socket_wait() blocks. inc_connect_destroy() blocks while the kernel is looking
 * for a RoCE peer's Ethernet address. Threads of the library look up names of hosts and connect
 * queue pairs. They block all signals and are not realtime, even if the caller is. They may run on
 * the CPUs that the process had when the library was loaded.
 *
 * Fork:
 * All objects belong to the process that made them. A child of that process makes no call on them,
 * not even one that destroys them, because the event base, the queue pairs and the connections are
 * shared with the parent. The child may make contexts of its own, on an event base of its own.
 *
 * Memory:
 * Objects belong to the caller until it destroys them. Texts and lists that a callback gets live as
 * long as its call. Memory that a socket moves may be accessed until inc_connect_socket_destroy().
 *
 * See also:
 * inc_connect_create(), inc_connect_serve(), inc_connect_open(), inc_connect_socket_send(),
 * inc-connect(1)
 */
#ifndef INC_CONNECT_H
#define INC_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define INC_CONNECT_PORT       52400 /* TCP port of a service whose address has no port */
#define INC_CONNECT_TIMEOUT_MS 15000 /* timeout in ms of a request whose options have none */

#define INC_CONNECT_NAME_SIZE   64 /* size of a device's name and of a zone, with the final 0 */
#define INC_CONNECT_HOST_SIZE   65 /* size of a host's name or address, with the final 0 */
#define INC_CONNECT_MAX_DEVICES 64
#define INC_CONNECT_MAX_PORTS   8 /* most ports of a device */
#define INC_CONNECT_MAX_ZONES   8 /* most zones of a port */

struct event_base; /* a type of libevent */
struct inc_connect;
struct inc_connect_service;
struct inc_connect_request;
struct inc_connect_socket;
struct inc_connect_region;

/* Declares an option struct with its size set and the other members zero or as given. */
#ifdef __cplusplus
/* clang-format off */
#define INC_CONNECT_OPTS(type, name, ...) \
	_Pragma("GCC diagnostic push") \
	_Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
	struct type name = {.sz = sizeof(struct type), ##__VA_ARGS__}; \
	_Pragma("GCC diagnostic pop") static_assert(true, "")
/* clang-format on */
#else
#define INC_CONNECT_OPTS(type, name, ...) \
	struct type name = {.sz = sizeof(struct type), ##__VA_ARGS__}
#endif

/*
 * inc_connect_create, inc_connect_destroy, inc_connect_settings_init, inc_connect_devices,
 * inc_connect_figures, inc_connect_figures_part - a context: the devices of this machine and what
 * is made on them
 *
 * inc_connect_create() reads the file and opens the devices. It updates its list of devices by
 * their events, and checks them again every 15 seconds (refresh_ms of the file). The event base of
 * libevent, @base, must outlive the context. The options, @opts, may be NULL.
 *
 * inc_connect_destroy() ends the context, its services and its requests. Their callbacks are not
 * called, and sockets live on. While the kernel is looking for a RoCE peer's Ethernet address, the
 * call waits for the end of that. This takes a second or more if no machine has the address. NULL
 * is allowed.
 *
 * inc_connect_settings_init() sets all of @settings to their defaults, and sz to the argument sz,
 * which is sizeof(*settings) as the caller was compiled. If sz is less than a size_t, the call does
 * nothing.
 *
 * inc_connect_devices() fills in the devices with which a query would be answered now. These are
 * the devices of this machine with a usable port, and their usable ports. A usable port is active,
 * and has a RoCE v2 address if it is an Ethernet port.
 *
 * inc_connect_figures() makes a text of the context's counters and histograms, in the format of
 * Prometheus (docs/connect.md, "Figures"). With inc_connect_figures_part() a caller gets the same
 * text in parts: @part is 0, 1 and so on, and a part may be empty. So a page can be written while
 * other clients are served.
 *
 * Of the settings, buf_ack_batch and buf_signal_batch are at most send_buf_cnt,
 * max_rdma_wr_per_post is at most max_rdma_wr, and buf_size times send_buf_cnt is at most 256 MiB.
 *
 * Return value:
 * Of inc_connect_create(): 0, and @*ctx belongs to the caller, or a negative error number. Of
 * inc_connect_figures(): a text that the caller frees, or NULL if there is no memory. Of
 * inc_connect_figures_part(): such a text, or NULL if there are no more parts or there is no
 * memory.
 *
 * Errors:
 * -EINVAL	The file or an option is wrong; @error has the file, the line and the field.
 * -E2BIG	An option, or a setting, that this library does not know.
 * -ENODEV	No device of this machine has an active port, and that is not allowed.
 * -ENOENT, ...	The system's error for the file or for a device.
 * -ENOMEM	No memory.
 *
 * Example:
 *	char error[256] = "";
 *	INC_CONNECT_OPTS(inc_connect_opts, opts, .config = "connect.yaml",
 *			 .error = error, .error_size = sizeof(error));
 *
 *	if (inc_connect_create(base, &opts, &ctx))
 *		fprintf(stderr, "%s\n", error);
 *
 * See also:
 * inc_connect_serve(), inc_connect_open(), inc_connect_socket_info()
 */

struct inc_connect_opts {
	size_t sz; /* sizeof(struct inc_connect_opts) */
	/* Path of a YAML file with zones, devices and settings (docs/connect.md, "The file"). NULL:
	 * all defaults. */
	const char *config;
	/* Settings of the queue pairs that this context requests, instead of the file's queue_pair.
	 * A setting that an older caller's struct lacks has its default. NULL: those of the file,
	 * or the defaults. */
	const struct inc_connect_settings *settings;
	/* If true, a context without a usable device is no error: its service answers with an empty
	 * list, and its client can only query. The configuration file has a setting of the same
	 * name, and either of the two is enough. */
	bool allow_no_usable_devices;
	char *error;       /* room for one line that explains a failure, or NULL */
	size_t error_size; /* bytes */
	/* The event loop calls this function with one line at a time, without newline: connections
	 * that were made or refused, ports that appear or fail. It must call nothing of this
	 * context. NULL: lines are discarded. */
	void (*log)(void *ctx, const char *line);
	void *log_ctx; /* the callback's first argument */
};

/* The settings of a queue pair, as rows _(field, type, default, least, most, text). A field is as
 * wide as it is on the wire. A field that is added later begins behind all of these, padding
 * included, so that sz shows whether a caller has it. */
#define INC_CONNECT_SETTINGS(_)                                                                \
	_(sl, uint8_t, 0, 0, 15, "service level")                                              \
	_(traffic_class, uint8_t, 0, 0, 255, "of RoCE packets: DSCP and ECN")                  \
	_(pkey_index, uint16_t, 0, 0, 65535, "place of the partition key in the port's table") \
	_(start_psn, uint32_t, 0, 0, 0xffffff, "PSN of the first packet, in both directions")  \
	_(min_rnr_timer, uint8_t, 1, 0, 31, "code of the delay that RNR NAKs ask for")         \
	_(timeout, uint8_t, 14, 1, 31, "ACK timeout is 4.096 us * 2^timeout")                  \
	_(retry_cnt, uint8_t, 7, 0, 7, "tries after timeouts; 7 is for ever on some devices")  \
	_(rnr_retry, uint8_t, 0, 0, 7, "tries after RNR NAKs; 7 is for ever")                  \
	_(max_sge, uint32_t, 16, 1, 256, "pieces of memory of a request")                      \
	_(max_rdma_wr, uint32_t, 128, 1, 65536, "RDMA requests under way")                     \
	_(max_rdma_wr_per_post, uint32_t, 32, 1, 65536, "RDMA requests in one call")           \
	_(max_rd_atomic, uint32_t, 16, 1, 255, "RDMA READs under way on the wire")             \
	_(buf_size, uint32_t, 16384, 64, 1 << 24, "bytes of a message, at most")               \
	_(send_buf_cnt, uint32_t, 32, 1, 16384, "messages under way in each direction")        \
	_(buf_ack_batch, uint32_t, 8, 1, 16384, "messages that one ACK gives back")            \
	_(buf_signal_batch, uint32_t, 8, 1, 16384, "sends between two completions")            \
	_(event_ack_batch, uint32_t, 128, 1, 65536, "completion events acknowledged at once")

/*
 * The settings of a queue pair: those of the connecting side count for both ends. Behind each
 * setting stand its default, and its least and greatest value. Times are the codes of the IBTA.
 */
struct inc_connect_settings {
	size_t sz; /* sizeof() of the caller's struct */
	/* Whether the context has histograms of the times to connect and to accept for each peer,
	 * too. A service's own value counts beside the client's. Default: false. */
	bool record_latency_per_peer;
#define INC_CONNECT_FIELD_(name, type, preset, least, most, what) type name;
	INC_CONNECT_SETTINGS(INC_CONNECT_FIELD_)
#undef INC_CONNECT_FIELD_
};

/* The link layers of a port have the numbers of verbs: */
enum inc_connect_link_layer {
	INC_CONNECT_INFINIBAND = 1,
	INC_CONNECT_ETHERNET = 2,
};

struct inc_connect_port {
	uint8_t port;       /* from 1 */
	uint8_t link_layer; /* link layer of the port: enum inc_connect_link_layer */
	uint32_t n_zones;
	struct {
		char name[INC_CONNECT_NAME_SIZE];
	} zones[INC_CONNECT_MAX_ZONES];
};

struct inc_connect_device {
	uint8_t dev; /* number of the device */
	char dev_name[INC_CONNECT_NAME_SIZE];
	uint32_t n_ports; /* number of usable ports */
	struct inc_connect_port ports[INC_CONNECT_MAX_PORTS];
};

struct inc_connect_devices {
	char hostname[INC_CONNECT_HOST_SIZE];
	uint32_t n_devices; /* number of devices with a usable port */
	struct inc_connect_device devices[INC_CONNECT_MAX_DEVICES];
};

int inc_connect_create(struct event_base *base, const struct inc_connect_opts *opts,
		       struct inc_connect **ctx);
void inc_connect_destroy(struct inc_connect *ctx);
void inc_connect_settings_init(struct inc_connect_settings *settings, size_t sz);
void inc_connect_devices(struct inc_connect *ctx, struct inc_connect_devices *devices);
char *inc_connect_figures(struct inc_connect *ctx);
char *inc_connect_figures_part(struct inc_connect *ctx, unsigned int part);

/*
 * inc_connect_serve, inc_connect_service_port, inc_connect_service_close - let others connect
 *
 * inc_connect_serve() listens for clients, and sends them the list of ports. It makes a queue pair
 * for each client that asks for one, and passes the socket on when the client's first message has
 * come.
 *
 * inc_connect_service_port() is the TCP port that the service listens on.
 *
 * inc_connect_service_close() ends the service and the connections that are being made. Sockets
 * that were accepted live on. NULL is allowed.
 *
 * Errors:
 * -EINVAL	An option is wrong or missing.
 * -E2BIG	An option that this library does not know.
 * -EADDRINUSE, -EADDRNOTAVAIL, ...	The service cannot listen there.
 * -ENOMEM	No memory.
 *
 * Example:
 *	static void accepted(void *arg, struct inc_connect_socket *socket, const char *peer)
 *	{
 *		add_client(arg, socket, peer); // which watches inc_connect_socket_fd()
 *	}
 *
 *	INC_CONNECT_OPTS(inc_connect_serve_opts, opts, .accepted = accepted, .arg = clients);
 *
 *	err = inc_connect_serve(ctx, &opts, &service);
 *
 * See also:
 * inc_connect_create(), inc_connect_open(), inc_connect_socket_receive()
 */
struct inc_connect_serve_opts {
	size_t sz; /* sizeof(struct inc_connect_serve_opts) */
	/* Where to listen: "ADDRESS" or "ADDRESS:PORT" in numbers. Port 0 is any that is free, and
	 * without a port it is 52400 (INC_CONNECT_PORT). NULL: every address. */
	const char *listen;
	/* The event loop calls this function when a client has connected and its first message has
	 * come. The socket belongs to the callee from then on. @peer is the client's address, such
	 * as "10.77.0.1", and lives as long as the call. */
	void (*accepted)(void *arg, struct inc_connect_socket *socket, const char *peer);
	void *arg; /* the callback's first argument */
	/* Time in ms for which a client may be silent between its lines, and from the answer to its
	 * first message. Then all that was made for the client is freed, and no callback is called.
	 * 0: the file's value, which is 15000 by default. */
	unsigned int accept_timeout_ms;
	char *error;       /* room for one line that explains a failure, or NULL */
	size_t error_size; /* bytes */
};

int inc_connect_serve(struct inc_connect *ctx, const struct inc_connect_serve_opts *opts,
		      struct inc_connect_service **service);
unsigned int inc_connect_service_port(const struct inc_connect_service *service);
void inc_connect_service_close(struct inc_connect_service *service);

/*
 * inc_connect_open, inc_connect_query, inc_connect_ask_figures, inc_connect_cancel,
 * inc_connect_reason_text - ask a service for a socket, for its ports, for what it counts
 *
 * Each of the first three calls begins to ask the service at @address, which is "HOST" or
 * "HOST:PORT" (port 52400 if it has none). It calls @done once, from the loop, and never from
 * inside the call itself. The request is gone when that callback returns. @opts may be NULL.
 *
 * inc_connect_open() asks for the peer's ports, chooses a pair of ports, and connects a queue pair
 * of each. It has sent a first message when @socket is there. @choice has every pair of a port of
 * the peer and one of this machine, each with a reason that inc_connect_reason_text() explains. It
 * is NULL if the request failed before the choice.
 *
 * inc_connect_query() asks for the ports alone, and inc_connect_ask_figures() for what the service
 * counts, in the format of Prometheus.
 *
 * In a callback @error is 0, or a negative error number that @why explains in one line. Arguments
 * of callbacks are valid during the call, except that @socket belongs to the callee from then on.
 *
 * inc_connect_cancel() ends a request whose callback has not come, and then will not come. NULL is
 * allowed.
 *
 * Return value:
 * The first three calls return 0, and @*request lives until @done returns. Or they return a
 * negative error number, and @done is not called. inc_connect_reason_text() returns a static text,
 * never NULL.
 *
 * Errors:
 * Of the calls:
 *
 * -EINVAL	@address is not an address, or an option is wrong.
 * -E2BIG	An option that this library does not know.
 * -ENOMEM	No memory.
 *
 * Errors that @done may receive:
 *
 * -ENODEV	No pair of ports fits, and @why has the reasons.
 * -ETIMEDOUT	The request took longer than timeout_ms.
 * -ECONNREFUSED, -EHOSTUNREACH, ...	No service listens there.
 * -EINVAL	Settings that a device does not support, with the field.
 * -EPROTO, -EPROTONOSUPPORT	The peer does not speak our protocol, or speaks another version.
 *
 * Or an error with which the service, or the device, has refused the request.
 *
 * Example:
 *	static void opened(void *arg, int error, const char *why,
 *			   struct inc_connect_socket *socket,
 *			   const struct inc_connect_choice *choice)
 *	{
 *		for (uint32_t i = 0; choice && i < choice->n_pairs; i++)
 *			printf("%s, %s: %s\n", choice->pairs[i].remote_name,
 *			       choice->pairs[i].local_name,
 *			       inc_connect_reason_text(choice->pairs[i].reason));
 *		if (error)
 *			fprintf(stderr, "%s\n", why);
 *		*(struct inc_connect_socket **)arg = socket;
 *	}
 *
 *	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .arg = &socket);
 *
 *	err = inc_connect_open(ctx, "node7", &opts, opened, &request);
 *
 * See also:
 * inc_connect_create(), inc_connect_serve(), inc_connect_socket_send()
 */
struct inc_connect_request_opts {
	size_t sz; /* sizeof(struct inc_connect_request_opts) */
	/* Timeout of the whole request in ms; 0: 15000 (INC_CONNECT_TIMEOUT_MS). */
	unsigned int timeout_ms;
	void *arg;         /* the callback's first argument */
	char *error;       /* room for one line that explains a failure, or NULL */
	size_t error_size; /* bytes */
};

struct inc_connect_choice;

typedef void (*inc_connect_opened)(void *arg, int error, const char *why,
				   struct inc_connect_socket *socket,
				   const struct inc_connect_choice *choice);
typedef void (*inc_connect_queried)(void *arg, int error, const char *why,
				    const struct inc_connect_devices *devices);
typedef void (*inc_connect_told)(void *arg, int error, const char *why, const char *figures);

/* _(NAME, text) */
#define INC_CONNECT_REASONS(_)                                 \
	_(CHOSEN, "chosen")                                    \
	_(LINK_LAYER, "one is InfiniBand, the other Ethernet") \
	_(INACTIVE, "the local port is not active")            \
	_(NO_GID, "the local port has no RoCE v2 address")     \
	_(NO_ZONE, "no zone in common")                        \
	_(NOT_INFINIBAND, "an InfiniBand pair is preferred")   \
	_(NOT_ITS_TURN, "fits, but another pair's turn it is")

/* These are the reasons why a pair of ports was chosen or not: */
enum inc_connect_reason {
#define INC_CONNECT_REASON_(NAME, text) INC_CONNECT_##NAME,
	INC_CONNECT_REASONS(INC_CONNECT_REASON_)
#undef INC_CONNECT_REASON_
		INC_CONNECT_N_REASONS
};

/* A pair of ports has a remote one, of the peer, and a local one, of this machine: */
struct inc_connect_pair {
	uint8_t remote_dev, remote_port;
	uint8_t local_dev, local_port;
	char remote_name[INC_CONNECT_NAME_SIZE];
	char local_name[INC_CONNECT_NAME_SIZE];
	uint8_t link_layer; /* link layer of the local port */
	enum inc_connect_reason reason;
};

struct inc_connect_choice {
	uint32_t n_pairs; /* number of pairs of ports, the chosen one included */
	const struct inc_connect_pair *pairs;
	bool zones_ignored; /* zones did not count, because no pair of ports had one in common */
	uint64_t counter;   /* the peer's counter; its remainder chose among the pairs that fit */
};

int inc_connect_open(struct inc_connect *ctx, const char *address,
		     const struct inc_connect_request_opts *opts, inc_connect_opened done,
		     struct inc_connect_request **request);
int inc_connect_query(struct inc_connect *ctx, const char *address,
		      const struct inc_connect_request_opts *opts, inc_connect_queried done,
		      struct inc_connect_request **request);
int inc_connect_ask_figures(struct inc_connect *ctx, const char *address,
			    const struct inc_connect_request_opts *opts, inc_connect_told done,
			    struct inc_connect_request **request);
void inc_connect_cancel(struct inc_connect_request *request);
const char *inc_connect_reason_text(enum inc_connect_reason reason);

/*
 * inc_connect_socket_progress, inc_connect_socket_fd, inc_connect_socket_wait,
 * inc_connect_socket_check - when a socket has something to do
 *
 * inc_connect_socket_progress() processes what the device has done: messages that have come,
 * buffers that the peer has given back, transfers that have ended. It does not block.
 *
 * inc_connect_socket_fd() is a descriptor that is readable when inc_connect_socket_progress() has
 * something to do. Wait for the descriptor only after that call has returned 0. It stays the
 * socket's, so the caller must neither read nor close it.
 *
 * inc_connect_socket_wait() sleeps until there is something to do, up to timeout_ms milliseconds.
 * With -1 it sleeps for ever.
 *
 * inc_connect_socket_check() checks whether the peer is still there, by an RDMA WRITE of no bytes
 * that the peer's device must acknowledge. If the device does not, the socket fails. The settings
 * @timeout and retry_cnt determine how soon. With some devices 7 tries last for ever.
 *
 * Return value:
 * inc_connect_socket_progress()	How much there was: messages, buffers given back, sends and
 *		transfers that have ended. There may be more. 0: there is nothing now. Or a negative
 *		error number.
 * inc_connect_socket_wait()	0, -ETIMEDOUT, or the socket's error.
 * inc_connect_socket_check()	0: the check is under way. -EAGAIN: one is under way already, or
 *		max_rdma_wr transfers are. Or the socket's error.
 *
 * Errors:
 * -ESHUTDOWN	The peer has closed, or this end has.
 * -ENETDOWN, ...	The socket has failed; see inc_connect_socket_error().
 *
 * Example:
 * The oldest message, within 5 seconds of silence:
 *
 *	while ((err = inc_connect_socket_receive(socket, &data, &size)) == -EAGAIN)
 *		if (inc_connect_socket_progress(socket) == 0 &&
 *		    inc_connect_socket_wait(socket, 5000) == -ETIMEDOUT)
 *			break;
 *
 * See also:
 * inc_connect_socket_receive(), inc_connect_socket_transferred()
 */
int inc_connect_socket_fd(const struct inc_connect_socket *socket);
int inc_connect_socket_progress(struct inc_connect_socket *socket);
int inc_connect_socket_wait(struct inc_connect_socket *socket, int timeout_ms);
int inc_connect_socket_check(struct inc_connect_socket *socket);

/*
 * inc_connect_socket_send, inc_connect_socket_flush, inc_connect_socket_receive,
 * inc_connect_socket_release - messages
 *
 * inc_connect_socket_send() sends a message of 1 to buf_size bytes. It copies them, so the caller
 * may change them at once. Messages arrive whole and in their order. Up to send_buf_cnt messages
 * may be under way until the peer gives buffers back, which it does when it releases messages.
 *
 * inc_connect_socket_flush() checks whether the peer's device has all messages that were sent.
 *
 * inc_connect_socket_receive() returns the oldest message that has come, in its buffer: *data stays
 * valid until inc_connect_socket_release() gives the buffer back. A second call without a release
 * returns the same message.
 *
 * None of them blocks. After -EAGAIN call inc_connect_socket_progress(), and try again.
 *
 * Errors:
 * -EAGAIN	inc_connect_socket_send(): the peer has not given back enough buffers yet.
 *		inc_connect_socket_flush(): the peer's device does not have all messages yet.
 *		inc_connect_socket_receive(): there is no message.
 * -EMSGSIZE	The message has no bytes, or more than buf_size bytes.
 * -ESHUTDOWN	The peer has closed, or inc_connect_socket_close() was called.
 * -EINVAL	inc_connect_socket_release(): there is no message to release.
 *
 * Or the socket's error. inc_connect_socket_receive() first returns all messages that came before
 * the error.
 *
 * Example:
 *	while ((err = inc_connect_socket_send(socket, line, strlen(line))) == -EAGAIN)
 *		if (inc_connect_socket_progress(socket) == 0)
 *			inc_connect_socket_wait(socket, -1);
 *
 * See also:
 * inc_connect_socket_transfer(), inc_connect_socket_close()
 */
int inc_connect_socket_send(struct inc_connect_socket *socket, const void *data, size_t size);
int inc_connect_socket_flush(struct inc_connect_socket *socket);
int inc_connect_socket_receive(struct inc_connect_socket *socket, const void **data, size_t *size);
int inc_connect_socket_release(struct inc_connect_socket *socket);

/*
 * inc_connect_socket_transfer, inc_connect_socket_transferred, inc_connect_socket_register,
 * inc_connect_region_address, inc_connect_region_key, inc_connect_region_release - RDMA READ and
 * WRITE
 *
 * inc_connect_socket_register() registers @size bytes of the caller's memory with the socket's
 * device. With @remote the peer may read and write them, too. The peer then needs
 * inc_connect_region_address() and inc_connect_region_key(), which the caller sends it in a
 * message. inc_connect_region_release() ends the registration, before the socket is destroyed. NULL
 * is allowed.
 *
 * inc_connect_socket_transfer() begins @n transfers, which are carried out in their order.
 * INC_CONNECT_READ moves the peer's memory into ours, and INC_CONNECT_WRITE ours into the peer's.
 * The peer's program does not notice them. inc_connect_socket_transferred() checks whether the
 * transfers of a @ticket, and all before them, are done. Until then the memory belongs to the
 * device.
 *
 * None of them blocks. After -EAGAIN call inc_connect_socket_progress(), and try again.
 *
 * Return value:
 * The calls of a socket return 0, or a negative error number.
 *
 * Errors:
 * -EAGAIN	inc_connect_socket_transfer(): max_rdma_wr transfers are under way.
 *		inc_connect_socket_transferred(): the transfers are not done yet.
 * -EINVAL	@n is 0 or more than max_rdma_wr_per_post, a transfer is not inside its region, or
 *		there is no memory to register.
 * -EMSGSIZE	A transfer's @size is more than this end's port can do in one, which is
 *		max_transfer_bytes of inc_connect_socket_info().
 * -ENOMEM	Memory that cannot be allocated, or locked (ulimit -l).
 *
 * Or the socket's error, or an error of the device. An access that the peer's memory does not allow
 * ends the socket.
 *
 * Example:
 *	struct inc_connect_transfer t = {.region = region, .local = buffer, .size = 4096,
 *					 .remote_key = key, .remote_address = address};
 *
 *	err = inc_connect_socket_transfer(socket, INC_CONNECT_READ, &t, 1, &ticket);
 *	while (!err && (err = inc_connect_socket_transferred(socket, ticket)) == -EAGAIN)
 *		err = inc_connect_socket_progress(socket) == 0 ?
 *			      inc_connect_socket_wait(socket, 1000) : 0;
 *
 * See also:
 * inc_connect_socket_send()
 */
enum inc_connect_direction {
	INC_CONNECT_READ,
	INC_CONNECT_WRITE,
};

struct inc_connect_transfer {
	const struct inc_connect_region *region;
	void *local;   /* address of the data in this process, inside the region */
	uint32_t size; /* bytes */
	uint32_t remote_key;
	uint64_t remote_address;
};

int inc_connect_socket_register(struct inc_connect_socket *socket, void *memory, size_t size,
				bool remote, struct inc_connect_region **region);
uint64_t inc_connect_region_address(const struct inc_connect_region *region);
uint32_t inc_connect_region_key(const struct inc_connect_region *region);
void inc_connect_region_release(struct inc_connect_region *region);
int inc_connect_socket_transfer(struct inc_connect_socket *socket,
				enum inc_connect_direction direction,
				const struct inc_connect_transfer *transfers, uint32_t n,
				uint64_t *ticket);
int inc_connect_socket_transferred(struct inc_connect_socket *socket, uint64_t ticket);

/*
 * inc_connect_socket_info, inc_connect_socket_error - properties and counters of a socket, and why
 * it has failed
 *
 * inc_connect_socket_info() fills as many members of @info as the caller's sz covers. Members that
 * the library does not know become 0.
 *
 * inc_connect_socket_error() says in one line why the socket has failed.
 *
 * Return value:
 * inc_connect_socket_info() returns 0, or -EINVAL if sz is not a size of the struct.
 * inc_connect_socket_error() returns a text that lives as long as the socket, or NULL while the
 * socket has not failed.
 *
 * Example:
 *	struct inc_connect_socket_info info = {.sz = sizeof(info)};
 *
 *	inc_connect_socket_info(socket, &info);
 *	printf("%s port %u to %s: %s\n", info.local_name, info.local_port, info.peer,
 *	       inc_connect_socket_error(socket) ? inc_connect_socket_error(socket) : "well");
 *
 * See also:
 * inc_connect_socket_progress(), inc_connect_figures()
 */
struct inc_connect_socket_info {
	size_t sz;                               /* sizeof() of the struct, set by the caller */
	char peer[INC_CONNECT_HOST_SIZE];        /* host name that the peer gave itself */
	char local_name[INC_CONNECT_NAME_SIZE];  /* device */
	char remote_name[INC_CONNECT_NAME_SIZE]; /* device */
	uint8_t local_port, remote_port;
	uint8_t link_layer; /* link layer of the ports: enum inc_connect_link_layer */
	unsigned int mtu_bytes;
	uint32_t local_qpn, remote_qpn;
	uint64_t messages_sent, messages_received;
	uint64_t bytes_sent, bytes_received; /* bytes of messages */
	uint64_t bytes_read, bytes_written;  /* bytes moved by our transfers */
	/* number of messages' buffers that ACKs gave back, in each direction */
	uint64_t credits_sent, credits_received;
	/* time from the request, or its arrival, until this socket was there */
	uint64_t latency_ns;
	uint32_t max_transfer_bytes; /* most bytes that our port can move in one READ or WRITE */
	/* The settings of the connection, which both ends have. They live as long as the socket.
	 * Their sz says how many of them the library has, because both structs can grow. */
	const struct inc_connect_settings *settings;
};

int inc_connect_socket_info(const struct inc_connect_socket *socket,
			    struct inc_connect_socket_info *info);
const char *inc_connect_socket_error(const struct inc_connect_socket *socket);

/*
 * inc_connect_socket_close, inc_connect_socket_destroy - the end of a socket
 *
 * inc_connect_socket_close() begins to close: it notifies the peer that nothing more comes, and
 * what is under way has 200 ms to end. It does not block. Call it again, with
 * inc_connect_socket_progress() between, until it does not return -EAGAIN any more. If both sides
 * close at once, the side that receives the other's close ends at once. It has all that the other
 * side has sent. Data that it has sent and the peer has not acknowledged may be lost. Whether
 * all has arrived can be checked before the close, by inc_connect_socket_flush() and
 * inc_connect_socket_transferred().
 *
 * inc_connect_socket_destroy() frees the socket, at any time. Transfers under way are aborted. A
 * peer that received no close notices the end only when it sends, or calls
 * inc_connect_socket_check(). NULL is allowed. Regions of the socket must be released before.
 *
 * Return value:
 * inc_connect_socket_close() returns 0 if the socket is closed, by either side, or a negative error
 * number.
 *
 * Errors:
 * -EAGAIN	The socket is not closed yet.
 *
 * Or the socket's error.
 *
 * Example:
 *	while (inc_connect_socket_close(socket) == -EAGAIN)
 *		if (inc_connect_socket_progress(socket) == 0)
 *			inc_connect_socket_wait(socket, 1000);
 *	inc_connect_socket_destroy(socket);
 *
 * See also:
 * inc_connect_socket_send()
 */
int inc_connect_socket_close(struct inc_connect_socket *socket);
void inc_connect_socket_destroy(struct inc_connect_socket *socket);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
