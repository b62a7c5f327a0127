/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket, for the files that make it up.
 *	socket.c		its life until the hand-over, and its end
 *	socket_data.c		what its owner sends, takes and begins
 *	socket_progress.c	what comes: completions, events of the device, time
 *	socket_region.c		memory of its owner's
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
#include "lib/rdma/qp.h"

#define CONNECT_DRAIN_MS     200  /* that a close waits for what is under way */
#define CONNECT_PORT_DOWN_MS 2000 /* that a port may be down; it may come back */

/* A message that has come. */
struct connect_message {
	uint32_t buffer; /* of the receive buffers */
	uint32_t bytes;
};

/*
 * What other threads say: those that take the device's events. Under the lock, which is held for
 * moments. The timer is the owner's clock and their bell in one: whoever sets it holds the lock and
 * leaves a bell that has rung alone, so that neither undoes the other's.
 */
struct connect_bell {
	pthread_mutex_t lock;
	int timer_fd;
	atomic_bool rung; /* read without the lock to see whether it is worth taking */
	bool port_down;
	bool port_was_up;  /* since the owner looked */
	const char *fatal; /* static; NULL: nothing was */
};

struct inc_connect_socket {
	struct inc_connect_settings settings;
	struct connect_info own, peer;
	uint8_t gid_index; /* of an Ethernet port: own.gid's place */
	unsigned int mtu_bytes;
	uint32_t max_transfer_bytes; /* that our port can do */
	struct inc_rdma_device *device;
	struct connect_counters *counters;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct inc_rdma_rtr rtr; /* connect_socket_enter_rtr()'s */
	struct connect_flow flow;

	/* send_buf_cnt buffers to send from, then connect_recv_wr() to receive into */
	uint8_t *memory;
	size_t memory_bytes;
	struct ibv_mr *mr;
	struct connect_message *messages; /* number n of those received: n % send_buf_cnt */

	enum connect_state state; /* from the hand-over on */
	bool handed_over, stopped;
	bool told_message, told_probed, told_closed; /* by connect_socket_event() */
	int error;                                   /* the final one, and its story */
	struct inc_err why;

	int epoll_fd; /* completions and the bell */
	bool woken;   /* a completion was taken since the notification was asked for */
	unsigned int idle_looks;
	bool idle;    /* progress() has said 0 */
	int untold;   /* messages from before the hand-over: the first progress() counts them */
	bool flushed; /* the device has given up requests, and not said why */
	uint64_t drain_ends_at_ns, port_down_at_ns; /* 0: not closing, not down */
	uint64_t wake_at_ns;                        /* what the timer is set to; 0: nothing */
	struct inc_rdma_subscriber subscriber;
	struct connect_bell bell;

	uint64_t check; /* request number of the last inc_connect_socket_check(); 0: none */
	uint64_t bytes_sent, bytes_received, latency_ns;
};

/* socket_progress.c */

/* The error that ends the socket; the first one stays. Returns the socket's error. */
int connect_socket_fail(struct inc_connect_socket *socket, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* From the hand-over on: what follows of an event, and does it. */
void connect_socket_step(struct inc_connect_socket *socket, enum connect_event event);
/* The bell and the timer. 0 or -errno; what is there then is the socket's to close. */
int connect_socket_listen(struct inc_connect_socket *socket, struct inc_err *err);
void connect_socket_deafen(struct inc_connect_socket *socket);
/* Sets the timer as drain_ends_at_ns, port_down_at_ns and error say. */
void connect_socket_set_timer(struct inc_connect_socket *socket);

/* socket_data.c: 0, or the error that has ended the socket. */

int connect_socket_post_receive(struct inc_connect_socket *socket, uint32_t buffer);
/* A message without data. */
int connect_socket_post_control(struct inc_connect_socket *socket, enum connect_wr_kind kind,
				uint32_t immediate);
int connect_socket_post_ack_if_due(struct inc_connect_socket *socket);

#define CONNECT_RECEIVE (1ull << 63) /* in a wr_id: of a receive, with its buffer */

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

#endif
