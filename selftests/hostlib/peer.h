/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other end of a soft endpoint, in the hands of a test: hears its packets one by one,
 * every ICRC checked against the IP ID the kernel must have given, and says what the test
 * wants said.
 */
#ifndef SELFTESTS_PEER_H
#define SELFTESTS_PEER_H

#include <netinet/in.h>
#include "hostlib/src/internal.h"
#include "lib/roce/parse.h"
#include "lib/roce/wire.h"

#define PEER_QPN  0x4321
#define PEER_ADDR 0x7f000001

struct peer {
	int fd;
	struct inc_roce_path from_host, to_host;
	struct sockaddr_in host;
	uint32_t host_qpn, host_psn, own_psn;
	uint16_t next_id;   /* IP ID of the next packet, unless it begins a new send */
	uint8_t buf[65536]; /* of the last packets heard */
	/* after peer_hear_together(): what is left of them */
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
	/* lies */
	uint32_t qpn;  /* 0: the host's */
	uint16_t pkey; /* 0: the default */
	bool bad_icrc;
	size_t cut; /* bytes missing at the end */
};

/* A socket at an address, and at this port or (0) at any. */
int peer_socket(uint32_t address, uint16_t port);
/* A peer alone: its UDP port; then whose packets it hears and answers. */
uint16_t peer_listen(struct peer *peer);
void peer_meet(struct peer *peer, uint16_t udp_port, uint32_t qpn, uint32_t host_psn,
	       uint32_t own_psn);
/* A soft endpoint on 127.0.0.1 and its peer, connected. */
struct inccl_endpoint *peer_pair(struct peer *peer, unsigned int payload, unsigned int slots,
				 uint32_t host_psn, uint32_t own_psn);
/* The same with a peer that receives whole messages, as a switch in termination mode does. Both
 * start PSNs are 0. */
struct peer_form {
	unsigned int payload;
	unsigned int slots;
	unsigned int message_packets;
	unsigned int messages; /* under way at most */
};
struct inccl_endpoint *peer_pair_by_message(struct peer *peer, const struct peer_form *form);
void peer_close(struct peer *peer, struct inccl_endpoint *ep);

/* The next packet of the host, within timeout_ms; false: none came. A wrong ICRC fails the test. */
bool peer_hear(struct peer *peer, struct inc_roce_packet *pkt, int timeout_ms);
/* From now on packets of one send arrive as one: peer_next() takes them, peer_hear() no more. */
void peer_hear_together(struct peer *peer);
/* The next packet that is there, and how many came in its send; false: none. */
bool peer_next(struct peer *peer, struct inc_roce_packet *pkt, unsigned int *together);
void peer_say(struct peer *peer, const struct say *say);
void peer_ack(struct peer *peer, uint8_t syndrome, uint32_t psn);
/* The mirror of a contribution, with another payload and the PSN of result r. */
void peer_mirror(struct peer *peer, const struct inc_roce_packet *of, uint64_t r,
		 const void *payload);

#endif
