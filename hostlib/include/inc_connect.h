/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libinc_connect: a connected queue pair between two processes that know of each other a TCP
 * address and nothing else. The one serves, the other asks which RDMA ports there are, chooses a
 * pair of ports that fit, and both end with a socket: messages with credits, RDMA READ and WRITE.
 *
 *	struct inc_connect *ctx;
 *
 *	err = inc_connect_create(base, NULL, &ctx);
 *	err = inc_connect_serve(ctx, &opts, &service);		the one side
 *	err = inc_connect_open(ctx, "node7", &opts, &request);	the other
 *	event_base_dispatch(base);				callbacks have the sockets
 *
 * Conventions
 *
 * Functions that can fail return 0 or a negative errno. Option structs begin with their own size,
 * which the caller sets (INC_CONNECT_OPTS does it): fields that an older caller does not know are
 * taken as zero, and zero always means "the default" (but for struct inc_connect_settings, which
 * inc_connect_settings_init() fills); bytes beyond what this library knows must be
 * zero, else -E2BIG. Where a struct of options has error, it gets one line that explains a failure
 * of the call, and a callback's error is such a line.
 *
 * Threads: a context, and all that is made from it, belongs to the thread that runs its event base:
 * it makes every call, and every callback comes from that loop, with no lock held. A socket is an
 * exception: once its callback has returned, it is its owner's, who may use it from any one thread
 * at a time, without an event base (inc_connect_socket_fd()). Several contexts in several threads
 * know nothing of each other. Nothing blocks but what says "wait" in its name, and
 * inc_connect_destroy() where it says so. Names of hosts are looked up, and queue pairs are
 * connected, by threads of the library. They block all signals, are not realtime where the caller
 * is, and may run on the CPUs that the process had when the library was loaded.
 *
 * Fork: all of this belongs to the process that made it. A child of that process makes no call on
 * it, not even one that destroys it, because the event base, the queue pairs and the connections
 * are shared with the parent. The child may make contexts of its own, on an event base of its own.
 *
 * The wire, the file and the figures are described in docs/connect.md.
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

#define INC_CONNECT_PORT       52400 /* of a service, where an address does not say one */
#define INC_CONNECT_TIMEOUT_MS 15000 /* of a request, where its options do not say one */

struct event_base; /* of libevent */
struct inc_connect;
struct inc_connect_service;
struct inc_connect_request;
struct inc_connect_socket;
struct inc_connect_region;

/* Declares an option struct with its size set and the rest zero or as given. */
#define INC_CONNECT_OPTS(type, name, ...) \
	struct type name = {.sz = sizeof(struct type), ##__VA_ARGS__}

/*
 * How the queue pair of a socket is made: the connecting side's count for both. _(field, type, the
 * default, least, most, what). Times of the IBTA are its codes.
 */
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
 * Filled by inc_connect_settings_init(), as a zero is a value here. The fields are as wide as what
 * stands for them on the wire. A field that is added later begins behind all of this, padding
 * included, so that sz tells whether a caller has it.
 */
struct inc_connect_settings {
	size_t sz; /* of the caller's struct */
	/* Histograms of connect and accept for each peer, too. A service's own count beside the
	 * client's. */
	bool record_latency_per_peer;
#define INC_CONNECT_FIELD_(name, type, preset, least, most, what) type name;
	INC_CONNECT_SETTINGS(INC_CONNECT_FIELD_)
#undef INC_CONNECT_FIELD_
};

/* All at their defaults, sz too: sz is sizeof(*settings) as the caller was compiled. What is less
 * than a size_t is left as it is. */
void inc_connect_settings_init(struct inc_connect_settings *settings, size_t sz);

/*
 * Context: the devices of this machine, kept up to date, and what is made on them.
 */

struct inc_connect_opts {
	size_t sz;
	const char *config; /* a file (docs/connect.md, "The file"); NULL: all defaults */
	/* Instead of the file's queue_pair; what an older caller's struct does not have is at its
	 * default. NULL: as the file has it, or the defaults. */
	const struct inc_connect_settings *settings;
	bool allow_no_usable_devices; /* beside the file's: no error where there is none */
	char *error;
	size_t error_size;
	/* What is worth a line: chosen and refused connections, ports that come and go. From inside
	 * the loop; it calls nothing of this context. NULL: nowhere. */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

/*
 * -EINVAL: the file or the options are wrong; -ENODEV: no device here has a port that is active,
 * and that is not allowed; else what the system says. On success *ctx belongs to the caller; the
 * base must outlive it. opts may be NULL.
 */
int inc_connect_create(struct event_base *base, const struct inc_connect_opts *opts,
		       struct inc_connect **ctx);
/* With its services and requests, whose callbacks are not called. Sockets live on. Where the kernel
 * is looking for a RoCE peer's Ethernet address it waits for the end of that: a second or more,
 * where nobody has it. NULL is fine. */
void inc_connect_destroy(struct inc_connect *ctx);

#define INC_CONNECT_NAME_SIZE   64 /* of a device's name and of a zone, with the final 0 */
#define INC_CONNECT_HOST_SIZE   65 /* of a host's name or address, the same way */
#define INC_CONNECT_MAX_DEVICES 64
#define INC_CONNECT_MAX_PORTS   8 /* of a device */
#define INC_CONNECT_MAX_ZONES   8 /* of a port */

enum inc_connect_link_layer { /* with the numbers of verbs */
			      INC_CONNECT_INFINIBAND = 1,
			      INC_CONNECT_ETHERNET = 2,
};

struct inc_connect_port {
	uint8_t port; /* from 1 */
	uint8_t link_layer;
	uint32_t n_zones;
	struct {
		char name[INC_CONNECT_NAME_SIZE];
	} zones[INC_CONNECT_MAX_ZONES];
};

struct inc_connect_device {
	uint8_t dev;
	char dev_name[INC_CONNECT_NAME_SIZE];
	uint32_t n_ports;
	struct inc_connect_port ports[INC_CONNECT_MAX_PORTS];
};

/* Of one machine: devices with a port that can be used, and those ports: active, and with a RoCE v2
 * address where they are Ethernet. */
struct inc_connect_devices {
	char hostname[INC_CONNECT_HOST_SIZE];
	uint32_t n_devices;
	struct inc_connect_device devices[INC_CONNECT_MAX_DEVICES];
};

/* Those of this machine, as a query would be answered now. */
void inc_connect_devices(struct inc_connect *ctx, struct inc_connect_devices *devices);

/* What the context counts, and its histograms, as Prometheus text; the caller frees it. NULL: no
 * memory. */
char *inc_connect_figures(struct inc_connect *ctx);
/* The same text in parts 0, 1 and so on, for a page that is written while others are served; "" is
 * one, too. NULL: there are no more, or there is no memory. */
char *inc_connect_figures_part(struct inc_connect *ctx, unsigned int part);

/*
 * Service
 */

struct inc_connect_serve_opts {
	size_t sz;
	/* "ADDRESS", "ADDRESS:PORT" in numbers, port 0 being any that is free; NULL: every address.
	 * Without a port it is INC_CONNECT_PORT. */
	const char *listen;
	/* A client has connected, and its first message has come: the socket is the callee's.
	 * peer: "10.77.0.1". */
	void (*accepted)(void *arg, struct inc_connect_socket *socket, const char *peer);
	void *arg;
	/* How long a client may be silent: between its lines, and from the answer to its first
	 * message. 0: the file's. */
	unsigned int accept_timeout_ms;
	char *error;
	size_t error_size;
};

/* -EINVAL: options; -EADDRINUSE and the like. On success *service belongs to the caller. */
int inc_connect_serve(struct inc_connect *ctx, const struct inc_connect_serve_opts *opts,
		      struct inc_connect_service **service);
unsigned int inc_connect_service_port(const struct inc_connect_service *service);
/* With the connections that are being made. Sockets that were accepted live on. NULL is fine. */
void inc_connect_service_close(struct inc_connect_service *service);

/*
 * Client. A request's callback comes once, from the loop, never from inside the call that made it;
 * the request is gone when the callback returns.
 */

struct inc_connect_request_opts {
	size_t sz;
	unsigned int timeout_ms; /* for all of it; 0: INC_CONNECT_TIMEOUT_MS */
	void *arg;               /* of the callback */
	char *error;
	size_t error_size;
};

/* error: 0, or -errno and why. devices live as long as the call. */
typedef void (*inc_connect_queried)(void *arg, int error, const char *why,
				    const struct inc_connect_devices *devices);

/* Asks which devices the service at "HOST" or "HOST:PORT" has. opts may be NULL. -EINVAL: no
 * address. */
int inc_connect_query(struct inc_connect *ctx, const char *address,
		      const struct inc_connect_request_opts *opts, inc_connect_queried done,
		      struct inc_connect_request **request);

/* The same for what it counts: Prometheus text. */
typedef void (*inc_connect_told)(void *arg, int error, const char *why, const char *figures);
int inc_connect_ask_figures(struct inc_connect *ctx, const char *address,
			    const struct inc_connect_request_opts *opts, inc_connect_told done,
			    struct inc_connect_request **request);

/* Why a pair of ports was not taken. */
#define INC_CONNECT_REASONS(_)                                 \
	_(CHOSEN, "chosen")                                    \
	_(LINK_LAYER, "one is InfiniBand, the other Ethernet") \
	_(INACTIVE, "the local port is not active")            \
	_(NO_GID, "the local port has no RoCE v2 address")     \
	_(NO_ZONE, "no zone in common")                        \
	_(NOT_INFINIBAND, "an InfiniBand pair is preferred")   \
	_(NOT_ITS_TURN, "fits, but another pair's turn it is")

enum inc_connect_reason {
#define INC_CONNECT_REASON_(NAME, text) INC_CONNECT_##NAME,
	INC_CONNECT_REASONS(INC_CONNECT_REASON_)
#undef INC_CONNECT_REASON_
		INC_CONNECT_N_REASONS
};
const char *inc_connect_reason_text(enum inc_connect_reason reason);

/* A port of theirs and one of ours. */
struct inc_connect_pair {
	uint8_t remote_dev, remote_port;
	uint8_t local_dev, local_port;
	char remote_name[INC_CONNECT_NAME_SIZE];
	char local_name[INC_CONNECT_NAME_SIZE];
	uint8_t link_layer; /* the local one's */
	enum inc_connect_reason reason;
};

/* How a pair was chosen: all there are, the chosen one too. */
struct inc_connect_choice {
	uint32_t n_pairs;
	const struct inc_connect_pair *pairs;
	bool zones_ignored; /* no pair had a zone in common */
	uint64_t counter;   /* the peer's, whose remainder was the choice */
};

/* error 0: the socket is the callee's. Else -errno and why; choice: NULL where it did not come to
 * that. Both live as long as the call. */
typedef void (*inc_connect_opened)(void *arg, int error, const char *why,
				   struct inc_connect_socket *socket,
				   const struct inc_connect_choice *choice);

/*
 * Connects to the service at the address. -EINVAL: no address. What the callback may hear: -ENODEV:
 * no pair of ports fits; -ETIMEDOUT; -ECONNREFUSED and the like: nobody serves there; -EINVAL:
 * settings that a device cannot do, with the field; -EPROTO: it does not speak our protocol; or
 * what the service, or the device, has refused.
 */
int inc_connect_open(struct inc_connect *ctx, const char *address,
		     const struct inc_connect_request_opts *opts, inc_connect_opened done,
		     struct inc_connect_request **request);

/* Ends a request whose callback has not come, and will not. NULL is fine. */
void inc_connect_cancel(struct inc_connect_request *request);

/*
 * Socket. An error of a socket is final: every later call returns it, and
 * inc_connect_socket_error() tells the story. Memory that it moves may be used until
 * inc_connect_socket_destroy().
 */

/*
 * Readable when inc_connect_socket_progress() has something to do. It stays the socket's: not to be
 * read or closed. Wait for it only after progress() has returned 0.
 */
int inc_connect_socket_fd(const struct inc_connect_socket *socket);

/* Takes in what the device has done. Does not block. How much there was (messages, buffers given
 * back, sends and transfers that have ended), more than 0: more may be there; 0: nothing now; or
 * -errno: -ESHUTDOWN once the peer has closed, or this end has. */
int inc_connect_socket_progress(struct inc_connect_socket *socket);

/* Sleeps until progress() has something to do, timeout_ms at most (-1: for ever). 0, -ETIMEDOUT, or
 * the socket's error. */
int inc_connect_socket_wait(struct inc_connect_socket *socket, int timeout_ms);

/* Sends a message of 1 to buf_size bytes, which are copied. -EAGAIN: the peer has not given back
 * enough buffers yet; -EMSGSIZE: of another size; -ESHUTDOWN: behind a close; or the socket's
 * error. */
int inc_connect_socket_send(struct inc_connect_socket *socket, const void *data, size_t size);
/* 0: the peer's device has all messages that were sent; -EAGAIN: not yet; or the socket's error. */
int inc_connect_socket_flush(struct inc_connect_socket *socket);

/* The oldest message that has come: *data stays valid until inc_connect_socket_release().
 * -EAGAIN: there is none; or the socket's error, once all that came before it have been taken. */
int inc_connect_socket_receive(struct inc_connect_socket *socket, const void **data, size_t *size);
/* Gives the buffer of the oldest message back. -EINVAL: there is none. */
int inc_connect_socket_release(struct inc_connect_socket *socket);

/*
 * Registers memory of the caller's for RDMA: by both sides, if remote. address and key are what the
 * peer needs, to be told in a message. -EINVAL: nothing to register; a limit on locked memory is
 * -ENOMEM; or what the device says.
 */
int inc_connect_socket_register(struct inc_connect_socket *socket, void *memory, size_t size,
				bool remote, struct inc_connect_region **region);
uint64_t inc_connect_region_address(const struct inc_connect_region *region);
uint32_t inc_connect_region_key(const struct inc_connect_region *region);
/* NULL is fine. Before the socket is destroyed. */
void inc_connect_region_release(struct inc_connect_region *region);

/* One RDMA READ or WRITE: size bytes between local, inside the region, and the peer's memory. */
struct inc_connect_transfer {
	const struct inc_connect_region *region;
	void *local;
	uint32_t size;
	uint32_t remote_key;
	uint64_t remote_address;
};

enum inc_connect_direction {
	INC_CONNECT_READ,  /* the peer's memory into ours */
	INC_CONNECT_WRITE, /* ours into the peer's */
};

/*
 * Begins n transfers, max_rdma_wr_per_post at most, carried out in their order. *ticket: for
 * inc_connect_socket_transferred(). -EAGAIN: max_rdma_wr are under way; -EINVAL: nothing, too many
 * at once, or not inside the region; -EMSGSIZE: size is more than this end's port can do in one,
 * max_transfer_bytes of the socket's info; or the socket's error.
 */
int inc_connect_socket_transfer(struct inc_connect_socket *socket,
				enum inc_connect_direction direction,
				const struct inc_connect_transfer *transfers, uint32_t n,
				uint64_t *ticket);
/* 0: those transfers, and all before them, are done; -EAGAIN: not yet; or the socket's error. */
int inc_connect_socket_transferred(struct inc_connect_socket *socket, uint64_t ticket);

/* Asks whether the peer is still there: an RDMA WRITE of no bytes, whose arrival its device must
 * confirm. 0: it is under way, its failure is the socket's; -EAGAIN: one is, or max_rdma_wr
 * transfers are; or the error. */
int inc_connect_socket_check(struct inc_connect_socket *socket);

struct inc_connect_socket_info {
	size_t sz;                               /* set by the caller */
	char peer[INC_CONNECT_HOST_SIZE];        /* host name that it gave itself */
	char local_name[INC_CONNECT_NAME_SIZE];  /* device */
	char remote_name[INC_CONNECT_NAME_SIZE]; /* device */
	uint8_t local_port, remote_port;
	uint8_t link_layer;
	unsigned int mtu_bytes;
	uint32_t local_qpn, remote_qpn;
	uint64_t messages_sent, messages_received;
	uint64_t bytes_sent, bytes_received;     /* of messages */
	uint64_t bytes_read, bytes_written;      /* by our transfers */
	uint64_t credits_sent, credits_received; /* buffers that ACKs gave back */
	uint64_t latency_ns;         /* from the request, or its arrival, to this socket */
	uint32_t max_transfer_bytes; /* of one READ or WRITE: what our port can do */
	/* Of both ends; the socket's own, as long as that lives. Its sz says how much of it there
	 * is: both structs can grow. */
	const struct inc_connect_settings *settings;
};
/* Fills as much of info as its sz says; what this library does not know becomes 0. -EINVAL: no sz.
 */
int inc_connect_socket_info(const struct inc_connect_socket *socket,
			    struct inc_connect_socket_info *info);

/* Why it has failed, NULL while it has not. Lives as long as the socket. */
const char *inc_connect_socket_error(const struct inc_connect_socket *socket);

/* Begins to close: the peer hears that nothing more comes, and what is under way has 200 ms to end.
 * 0: it is closed, by whichever side; -EAGAIN: not yet, go on with progress(); or the error.
 * Where the peer closes, too, the one that hears the other's close ends at once: it has all that
 * the other has sent, and what it has sent and was not acknowledged may be lost. Whether all has
 * arrived, inc_connect_socket_flush() and inc_connect_socket_transferred() tell before. */
int inc_connect_socket_close(struct inc_connect_socket *socket);
/* At any time; what is under way is given up. NULL is fine. */
void inc_connect_socket_destroy(struct inc_connect_socket *socket);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
