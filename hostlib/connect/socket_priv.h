/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket, for the files that implement it.
 *	socket.c		from its creation to the hand-over, and its destruction
 *	socket_data.c		what the owner sends, receives and transfers
 *	socket_progress.c	completions, events of the device, time limits
 *	socket_region.c		the owner's registered memory
 */
#ifndef INC_CONNECT_SOCKET_PRIV_H
#define INC_CONNECT_SOCKET_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "hostlib/connect/figures.h"
#include "hostlib/connect/flow.h"
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/state.h"
#include "hostlib/include/inc_connect.h"
#include "lib/base/err.h"
#include "lib/rdma/async.h"
#include "lib/rdma/completion.h"
#include "lib/rdma/port_timer.h"
#include "lib/rdma/qp.h"

#define CONNECT_DRAIN_MS 200 /* time in ms that a close gives posted requests to complete */
/* time in ms for which a port may be down before the socket fails */
#define CONNECT_PORT_DOWN_MS 2000

/* A received message that the owner has not released. */
struct connect_message {
	uint32_t buffer; /* index of the message's receive buffer */
	uint32_t bytes;
};

/*
 * Reports of the thread that reads the device's events, for the owner's thread. The lock protects
 * them and is held only briefly. timer_fd serves both threads: the owner sets it to its next time
 * limit, and a pending event makes it fire at once. Both set it under the lock. The owner does not
 * change it while an event is pending, so neither thread undoes what the other has set.
 */
struct connect_device_events {
	pthread_mutex_t lock;
	int timer_fd;
	/* A device event has come. The owner reads this without the lock, which it takes only if an
	 * event has come or a time limit has passed. */
	atomic_bool pending;
	bool port_down;
	/* the port was up at some time since the owner last handled device events */
	bool port_was_up;
	const char *fatal; /* device event that ends the socket, as a static text; NULL: none */
};

struct inc_connect_socket {
	struct inc_connect_settings settings;
	struct connect_info own, peer;
	uint8_t gid_index; /* index of own.gid in the port's table, on an Ethernet port */
	unsigned int mtu_bytes;
	uint32_t max_transfer_bytes; /* most bytes of a transfer that this end's port allows */
	struct inc_rdma_device *device;
	struct connect_counters *counters;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	/* prepared attributes of the move to RTR, for connect_socket_enter_rtr() */
	struct inc_rdma_rtr rtr;
	struct connect_flow flow;

	/* The registered memory: send_buf_cnt send buffers, followed by connect_recv_wr() receive
	 * buffers. */
	uint8_t *memory;
	size_t memory_bytes;
	struct ibv_mr *mr;
	/* ring of received messages: the n-th one is messages[n % send_buf_cnt] */
	struct connect_message *messages;

	enum connect_state state; /* state of the connection; only used from the hand-over on */
	bool handed_over, stopped;
	/* events that connect_socket_event() has reported */
	bool reported_message, reported_probed, reported_closed;
	/* -errno with which the socket has ended; why has the reason */
	int error;
	struct inc_err why;

	int epoll_fd; /* epoll descriptor that waits for completions and device_events */
	/* a completion was found since the device was last asked for a notification */
	bool completed_since_armed;
	unsigned int empty_polls;
	bool idle; /* inc_connect_socket_progress() has returned 0 last */
	/* Number of messages that arrived before the hand-over. The first
	 * inc_connect_socket_progress() adds it to its result. */
	int uncounted_messages;
	/* The queue pair has flushed requests, and no completion has shown the reason yet. */
	bool flushed;
	/* time at which a close gives up waiting; 0: the socket is not closing */
	uint64_t drain_ends_at_ns;
	struct inc_rdma_port_timer port_timer;
	uint64_t wake_at_ns; /* time at which the timer fires; 0: never */
	struct inc_rdma_subscriber subscriber;
	struct connect_device_events device_events;

	uint64_t check; /* number of the last request of inc_connect_socket_check(); 0: none */
	uint64_t bytes_sent, bytes_received, latency_ns;
};

/* socket_progress.c */

/* Ends the socket with this error, unless it has one already. Returns the socket's error. */
int connect_socket_fail(struct inc_connect_socket *socket, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Passes an event to the socket's state machine, and carries out its actions. Allowed only from the
 * hand-over on. */
void connect_socket_step(struct inc_connect_socket *socket, enum connect_event event);
/* Opens the descriptors of a socket, and subscribes to the device's events. Returns 0 or -errno.
 * Even after an error connect_socket_close_events() is due. */
int connect_socket_open_events(struct inc_connect_socket *socket, struct inc_err *err);
void connect_socket_close_events(struct inc_connect_socket *socket);
/* Sets the socket's timer to the next of its time limits, or to fire at once if the socket has an
 * error. */
void connect_socket_set_timer(struct inc_connect_socket *socket);

/* socket_data.c. Each function returns 0, or the error that has ended the socket. */

int connect_socket_post_receive(struct inc_connect_socket *socket, uint32_t buffer);
/* Posts a SEND without data, which carries this immediate: an ACK, a probe or a close. */
int connect_socket_post_control(struct inc_connect_socket *socket, enum connect_wr_kind kind,
				uint32_t immediate);
int connect_socket_post_ack_if_due(struct inc_connect_socket *socket);

/* A bit of wr_id that is set for receives. The low bits are the number of the receive buffer. */
#define CONNECT_RECEIVE (1ull << 63)

static inline struct connect_figures *connect_socket_figures(struct inc_connect_socket *socket)
{
	return connect_counters_figures(socket->counters);
}

static inline uint8_t *connect_receive_buffer(const struct inc_connect_socket *socket,
					      uint32_t buffer)
{
	return socket->memory +
	       (size_t)(socket->settings.send_buf_cnt + buffer) * socket->settings.buf_size;
}

/* Access to a region for transfers. Called on the socket's thread. */
/* Whether the registered region belongs to this socket and contains so many bytes at address local.
 * *key receives the region's local key. */
bool connect_region_has(const struct inc_connect_region *region,
			const struct inc_connect_socket *socket, const void *local, uint32_t bytes,
			uint32_t *key);

#endif
