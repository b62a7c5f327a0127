/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 packets in user space: ICRC (isa-l's carry-less CRC) and the shapes that
 * opcodes allow. Used by the slow path, the soft transport and the tests.
 */
#ifndef INC_ROCE_WIRE_H
#define INC_ROCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/frame.h"

/* Length of the extended headers that follow the BTH (RETH, ImmDt, AETH), or -1 for an
 * opcode that is not RC SEND, RDMA WRITE or ACK. */
int inc_roce_ext_len(uint8_t opcode);
bool inc_roce_has_imm(uint8_t opcode);
bool inc_roce_has_reth(uint8_t opcode);
bool inc_roce_is_first(uint8_t opcode); /* first or only */
bool inc_roce_is_last(uint8_t opcode);  /* last or only */

/* CRC-32 state over len bytes from a start state: no initial, no final xor. */
uint32_t inc_crc32_update(uint32_t state, const void *data, size_t len);

/*
 * ICRC of a packet over IPv4. ip: the 20-byte IP header (no options), followed in
 * memory by UDP, BTH, extended headers, payload and pad; len: bytes from the IP header
 * up to, not including, the ICRC. Masked fields are masked here. The value is stored
 * least significant byte first on the wire.
 */
uint32_t inc_icrc_ipv4(const void *ip, size_t len);

/*
 * The same for a sender or receiver that sees only the UDP payload: addresses, ports
 * and the IP fields that are not masked are given. len: UDP payload without the ICRC.
 */
uint32_t inc_icrc_udp(const struct inc_roce_path *path, uint16_t ip_id, const void *bth,
		      size_t len);

/* How long the 5-bit timer code of an RNR NAK's syndrome asks to wait. */
uint64_t inc_rnr_timeout_ns(uint8_t syndrome);

#endif
