/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is between a soft endpoint and its peer, in the hands of a target: the linker puts these in
 * the place of recvmmsg(), sendmmsg(), sendto() and clock_gettime(). Nothing goes through the
 * kernel; time stands still until the target moves it. What the endpoint sends is checked: packets
 * that a peer can take apart, with good ICRCs.
 */
#ifndef FUZZ_AIR_H
#define FUZZ_AIR_H

#include <stdint.h>
#include "lib/roce/wire.h"
#include "selftests/fuzz/fuzz.h"

/* A packet that the peer says. */
struct air_packet {
	uint8_t opcode;
	bool ackreq, se;
	uint16_t pkey;
	uint32_t qpn, psn, imm; /* of an ACK imm is the AETH */
	uint64_t va;
	uint32_t rkey, dmalen;
	const uint8_t *payload;
	size_t len;
	uint32_t icrc_error;
};

/* Begins anew: nothing is on its way. to_peer: as the endpoint's packets go; back: the peer's. */
void air_begin(const struct inc_roce_path *to_peer, const struct inc_roce_path *back);
/* The next datagram for the endpoint: packets, each as long as the first but the last. False: it
 * has no room for this one. Sent by air_say_end(). */
void air_say_begin(void);
bool air_say(const struct air_packet *packet);
void air_say_end(void);
/* The same of any bytes. */
void air_say_bytes(const uint8_t *data, size_t size);
/* What the input has next: an ACK of any kind, about the endpoint's packets around start_psn; and
 * any bytes. */
void air_say_ack(struct fuzz_bytes *bytes, uint32_t qpn, uint32_t start_psn);
void air_say_garbage(struct fuzz_bytes *bytes);
void air_pass_ns(uint64_t ns);
/* How many packets the endpoint has sent. */
unsigned int air_sent(void);
/* What one of those was that brought data; NULL: there was none that is remembered. */
const struct air_packet *air_heard(unsigned int back);

#endif
