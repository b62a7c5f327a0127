/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that has a valid key and misbehaves after the handshake. OpenSSL makes the handshake.
 * Everything after it is made here, record by record, because OpenSSL would never send it. The
 * users are test_tls_link, the program tls_hostile_client, the fuzzers fuzz_tls_beside and
 * fuzz_controller, and the hostile peers of the simulation (selftests/sim/cluster_hostile.c).
 *
 * No function leaves an error in OpenSSL's queue, so that a test sees only the product's errors.
 */
#ifndef SELFTESTS_FAKES_TLS_HOSTILE_H
#define SELFTESTS_FAKES_TLS_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/net/tls.h"

#define TLS_HOSTILE_RECORD_MAX 1024 /* bytes of a record's content */

struct tls_hostile;

/* Makes a peer. Its context decides whether the peer connects or listens. */
struct tls_hostile *tls_hostile_new(struct inc_tls *tls);
void tls_hostile_free(struct tls_hostile *h);

/* Receives bytes of the other side. The handshake uses them until it is done; later bytes are
 * ignored. */
void tls_hostile_take(struct tls_hostile *h, const void *bytes, size_t n);
bool tls_hostile_done(const struct tls_hostile *h);

/* The bytes that the peer has to send, as one segment, valid until the next call.
 * tls_hostile_sent() marks them as sent. */
const void *tls_hostile_output(struct tls_hostile *h, size_t *n);
void tls_hostile_sent(struct tls_hostile *h);

/* Adds a record of this content type (SSL3_RT_*) to the output. The other side can decrypt it. The
 * handshake must be done. */
void tls_hostile_record(struct tls_hostile *h, uint8_t type, const void *bytes, size_t n);
/* Adds a complete KeyUpdate to the output, and uses the new keys from then on. asks: the peer
 * requests a KeyUpdate in return. */
void tls_hostile_update(struct tls_hostile *h, bool asks);
/* Adds bytes to the output that are not encrypted. */
void tls_hostile_raw(struct tls_hostile *h, const void *bytes, size_t n);

/* Adds more KeyUpdates to the output than a link accepts, and then a record that cannot be
 * decrypted. */
void tls_hostile_flood(struct tls_hostile *h);
/* Adds the head of a KeyUpdate to the output without the byte that must follow. The caller ends the
 * stream there. */
void tls_hostile_half(struct tls_hostile *h);

#endif
