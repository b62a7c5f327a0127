/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several ranks of one job in one process, with a test switch between them. The switch receives
 * packet r of every rank, checks that these form one chunk by docs/protocol.md, and reduces them.
 * It sends each rank the mirror of that rank's packet with the result. In termination mode it works
 * on messages instead: it receives message m of every rank, and sends each rank message m with the
 * result in as many packets as needed.
 */
#ifndef SELFTESTS_FAKES_SWITCH_H
#define SELFTESTS_FAKES_SWITCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/controller.h"
#include "selftests/hostlib/soft_endpoint.h"

#define FAKE_SWITCH_RANKS   4
#define FAKE_SWITCH_PAYLOAD 256
#define FAKE_SWITCH_SLOTS   64
#define FAKE_SWITCH_TRACE   512
/* For termination mode: the greatest number of bytes in a message, and of messages in flight. */
#define FAKE_SWITCH_MESSAGE_BYTES (16 * FAKE_SWITCH_PAYLOAD)
#define FAKE_SWITCH_MESSAGES      64

struct fake_switch;

struct fake_switch_conf {
	unsigned int ranks;
	/* options with which the ranks create the communicator */
	unsigned int window, message_packets;
	enum inccl_byte_order byte_order;
	/* The modes and limits on which the controller decides. */
	/* mode of the switches; in termination mode the ranks' packets are not in step */
	enum inc_tree_mode mode;
	/* the switch adds floats without conversion to integers; then the next member must be
	 * set */
	bool native;
	void (*reduce_floats)(const struct fake_switch *sw, uint32_t desc, uint8_t *result,
			      size_t len); /* reduces the floats that fake_switch_given() returns */
	/* Agreed limits of messages; 0: the controller does not send the field. */
	unsigned int agreed_packets; /* number of packets in a message */
	unsigned int messages;       /* greatest number of messages in flight */
};

/* A rank's contribution in termination mode. */
struct fake_switch_message {
	uint32_t desc; /* descriptor of this message, or of the last one that had a descriptor */
	bool has_imm;
	size_t len;
	uint8_t bytes[FAKE_SWITCH_MESSAGE_BYTES];
};

/* A contribution of a rank, as it was received. */
struct fake_switch_packet {
	struct inc_roce_packet head;
	uint32_t desc; /* descriptor of this packet, or of the last one that had a descriptor */
	uint8_t payload[FAKE_SWITCH_PAYLOAD];
};

struct fake_switch_rank {
	struct fake_controller controller;
	struct rc_peer peer;
	const char *answers[5];
	char joined[128], conn[512];
	struct inccl_group *group;
	struct inccl_communicator *comm;
	/* expected result of destroying the communicator */
	int ended;
	/* received packets; packet r is at r modulo the length */
	struct fake_switch_packet ring[FAKE_SWITCH_SLOTS];
	/* number of received packets; in termination mode number of received messages */
	uint64_t received;
	uint32_t desc;
	/* In termination mode: messages (message m is at m modulo FAKE_SWITCH_MESSAGES), and the
	 * numbers of packets received and sent. */
	struct fake_switch_message *message;
	uint64_t packets, sent;
	unsigned int
		longest; /* number of packets in the longest message since fake_switch_reset() */
	/* since fake_switch_reset(): bytes of payload received from the rank and sent to it, and
	 * the greatest number of packets in flight */
	uint64_t gave, got;
	unsigned int most_under_way;
	struct fake_switch_packet
		trace[FAKE_SWITCH_TRACE]; /* the first packets since fake_switch_reset() */
	unsigned int traced;
};

struct fake_switch {
	struct fake_switch_conf conf;
	struct fake_switch_rank rank[FAKE_SWITCH_RANKS];
	uint64_t results;
	pthread_mutex_t log_lock;
	char log[4096]; /* the log lines of all ranks */
};

void fake_switch_up(struct fake_switch *sw, const struct fake_switch_conf *conf);
void fake_switch_down(struct fake_switch *sw);
void fake_switch_reset(struct fake_switch *sw);
/* Receives all packets that have arrived at the switch. */
void fake_switch_receive(struct fake_switch *sw);
/* Receives all packets that have arrived, and sends the results that can be made. */
void fake_switch_serve(struct fake_switch *sw);
/* Serves all ranks until every request is done. Asserts that no request has failed. */
void fake_switch_finish(struct fake_switch *sw, struct inccl_request *const *requests);
/* Does a rank's log contain the text? */
bool fake_switch_logged(struct fake_switch *sw, const char *text);
/* Receives a rank's next packet with data, which must be packet `number` of the rank. ACKs are
 * ignored, because this switch does not depend on them, and so are retransmissions. Returns false
 * if there is no such packet. */
bool fake_switch_receive_data(struct fake_switch_rank *rank, uint64_t number,
			      struct inc_roce_packet *p);
/* The same as fake_switch_receive() and fake_switch_serve() in termination mode. switch.c calls
 * them. */
void fake_switch_receive_messages(struct fake_switch *sw);
void fake_switch_serve_messages(struct fake_switch *sw);
/* Combines `into` with `from` by the operator and type of desc, in the byte order of the wire, and
 * stores the result in `into`. */
void fake_switch_combine(const struct fake_switch *sw, uint32_t desc, uint8_t *into,
			 const uint8_t *from, size_t len);
/* In termination mode: the contribution of a rank to the result that is being made. */
const uint8_t *fake_switch_given(const struct fake_switch *sw, unsigned int rank);
/* Asserts that no rank sends an unexpected packet. */
void fake_switch_silent(struct fake_switch *sw);

#endif
