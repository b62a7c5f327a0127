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
#include "hostlib/src/packet.h"
#include "lib/inc_roce.h"

#define PEER_QPN  0x4321
#define PEER_ADDR 0x7f000001

struct peer {
	int fd;
	struct inc_roce_path from_host, to_host;
	struct sockaddr_in host;
	uint32_t host_qpn, host_psn, own_psn;
	uint16_t next_id;  /* IP ID of the next packet, unless it begins a new send */
	uint8_t buf[4096]; /* of the last packet heard */
};

struct say {
	uint8_t opcode;
	uint32_t psn;
	bool ackreq;
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

/* A soft endpoint on 127.0.0.1 and its peer, connected. */
struct inccl_endpoint *peer_pair(struct peer *peer, unsigned int payload, unsigned int slots,
				 uint32_t host_psn, uint32_t own_psn);
void peer_close(struct peer *peer, struct inccl_endpoint *ep);

/* The next packet of the host, within timeout_ms; false: none came. A wrong ICRC fails the test. */
bool peer_hear(struct peer *peer, struct inccl_packet *pkt, int timeout_ms);
void peer_say(struct peer *peer, const struct say *say);
void peer_ack(struct peer *peer, uint8_t syndrome, uint32_t psn);
/* The mirror of a contribution, with another payload and the PSN of result r. */
void peer_mirror(struct peer *peer, const struct inccl_packet *of, uint64_t r, const void *payload);

#endif
