/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network between a soft endpoint and its peer, which a fuzz target controls. The linker
 * replaces recvmmsg(), sendmmsg(), sendto() and clock_gettime() with functions of air.c. Nothing
 * passes through the kernel, and the clock stands still until the target advances it. The
 * endpoint's packets are checked: a peer must be able to parse them, and their ICRCs must be right.
 */
#ifndef FUZZ_AIR_H
#define FUZZ_AIR_H

#include <stdint.h>
#include "lib/roce/wire.h"
#include "selftests/fuzz/fuzz.h"

/* A packet of the peer. */
struct air_packet {
	uint8_t opcode;
	bool ackreq, se;
	uint16_t pkey;
	uint32_t qpn, psn, imm; /* imm: the immediate; of an ACK, the AETH */
	uint64_t va;
	uint32_t rkey, dmalen;
	const uint8_t *payload;
	size_t len;
	uint32_t icrc_error;
};

/* Starts a new input, with no packet under way. to_peer: path of the endpoint's packets; back: path
 * of the peer's packets. */
void air_begin(const struct inc_roce_path *to_peer, const struct inc_roce_path *back);
/* These build the next datagram for the endpoint. Its packets all have the length of the first one,
 * except the last. air_send() returns false if the datagram has no room for the packet.
 * air_send_end() sends it. */
void air_send_begin(void);
bool air_send(const struct air_packet *packet);
void air_send_end(void);
/* Sends a datagram of any bytes. */
void air_send_bytes(const uint8_t *data, size_t size);
/* Send a packet that the next bytes of the input describe: an ACK of any kind for a packet near
 * start_psn, or a datagram of any bytes. */
void air_send_ack(struct fuzz_bytes *bytes, uint32_t qpn, uint32_t start_psn);
void air_send_garbage(struct fuzz_bytes *bytes);
void air_pass_ns(uint64_t ns);
/* The number of packets that the endpoint has sent. */
unsigned int air_sent(void);
/* One of the last data packets of the endpoint, counted backwards from 0. NULL: there is none. */
const struct air_packet *air_data_packet(unsigned int back);

#endif
