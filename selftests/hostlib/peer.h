/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake peer of a soft endpoint. The peer receives the endpoint's packets one by one. It checks
 * every ICRC with the IP ID that the kernel must have assigned. It sends the packets that the test
 * describes.
 */
#ifndef SELFTESTS_PEER_H
#define SELFTESTS_PEER_H

#include <netinet/in.h>
#include "hostlib/src/internal.h"
#include "lib/channel/soft_priv.h"
#include "lib/roce/parse.h"
#include "lib/roce/wire.h"

#define PEER_QPN  0x4321
#define PEER_ADDR 0x7f000001

static const struct inccl_transport peer_soft = {INCCL_TRANSPORT_SOFT, &inc_channel_soft};

/* The soft channel of an endpoint. A test may set the channel's timers and counts. */
static inline struct soft_channel *peer_channel(const struct inccl_endpoint *ep)
{
	return SOFT_CH(ep->ch);
}

static inline struct inccl_transport_stats peer_stats(const struct inccl_endpoint *ep)
{
	struct inccl_transport_stats stats;

	inccl_endpoint_stats(ep, &stats);
	return stats;
}

struct peer {
	int fd;
	struct inc_roce_path from_host, to_host;
	struct sockaddr_in host;
	uint32_t host_qpn, host_psn, own_psn;
	/* expected IP ID of the next packet; the IDs of each send call begin at 0 */
	uint16_t next_id;
	uint8_t buf[65536]; /* the packets of the last receive call */
	/* after peer_hear_together(): position, remaining bytes and packet size of the packets that
	 * were received together */
	size_t at, left, step;
	unsigned int together;
};

struct say {
	uint8_t opcode;
	uint32_t psn;
	bool ackreq, se;
	uint64_t va;
	uint32_t rkey, dmalen, imm;
	const void *payload;
	size_t len;
	/* header fields with which the test can make the packet false */
	uint32_t qpn;  /* queue pair number of the packet; 0: that of the host */
	uint16_t pkey; /* P_Key of the packet; 0: the default P_Key */
	bool bad_icrc;
	size_t cut; /* number of bytes that are cut off at the end of the packet */
};

/* Opens a socket at an IP address and a port. Port 0: any free port. */
int peer_socket(uint32_t address, uint16_t port);
/* peer_listen() opens a peer and returns its UDP port. peer_meet() sets the endpoint with which the
 * peer exchanges packets. */
uint16_t peer_listen(struct peer *peer);
void peer_meet(struct peer *peer, uint16_t udp_port, uint32_t qpn, uint32_t host_psn,
	       uint32_t own_psn);
/* Opens a soft endpoint on 127.0.0.1 and a fake peer, and connects them to each other. */
struct inccl_endpoint *peer_pair(struct peer *peer, unsigned int payload, unsigned int slots,
				 uint32_t host_psn, uint32_t own_psn);
/* Options of a peer that, other than that of peer_pair(), receives whole messages, as a switch in
 * termination mode does. Both start PSNs are 0. */
struct peer_form {
	unsigned int payload;
	unsigned int slots;
	unsigned int message_packets;
	unsigned int messages; /* greatest number of messages in flight */
};
struct inccl_endpoint *peer_pair_by_message(struct peer *peer, const struct peer_form *form);
void peer_close(struct peer *peer, struct inccl_endpoint *ep);

/* Receives the endpoint's next packet, within timeout_ms. Returns false if no packet arrives. A
 * wrong ICRC fails the test. */
bool peer_hear(struct peer *peer, struct inc_roce_packet *pkt, int timeout_ms);
/* After this call the packets of one send call arrive together. The test then receives them by
 * peer_next() instead of peer_hear(). */
void peer_hear_together(struct peer *peer);
/* Receives the next packet. Returns false if there is none. *together: how many packets arrived
 * with it in one send call. */
bool peer_next(struct peer *peer, struct inc_roce_packet *pkt, unsigned int *together);
void peer_say(struct peer *peer, const struct say *say);
void peer_ack(struct peer *peer, uint8_t syndrome, uint32_t psn);
/* Answers a contribution with its mirror: the same headers, with another payload and the PSN of
 * result r. */
void peer_mirror(struct peer *peer, const struct inc_roce_packet *of, uint64_t r,
		 const void *payload);

#endif
