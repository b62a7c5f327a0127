/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that has a valid key and misbehaves behind the handshake. OpenSSL makes the handshake, and
 * everything that follows is made here, record by record, because OpenSSL would never send it. Used
 * by test_tls_link, the program hostile_tls, the fuzzers fuzz_tls_beside and fuzz_controller, and
 * the hostile peers of the simulation (selftests/sim/cluster_hostile.c).
 *
 * No function leaves an error in OpenSSL's queue, so that a test sees those of the product alone.
 */
#ifndef TLS_HOSTILE_H
#define TLS_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/net/tls.h"

#define TLS_HOSTILE_RECORD_MAX 1024 /* bytes of one record's content */

struct tls_hostile;

/* The side that connects or the one that listens, as the context says. */
struct tls_hostile *tls_hostile_new(struct inc_tls *tls);
void tls_hostile_free(struct tls_hostile *h);

/* Bytes of the other side. Before the handshake is done they are its; later they are ignored. */
void tls_hostile_take(struct tls_hostile *h, const void *bytes, size_t n);
bool tls_hostile_done(const struct tls_hostile *h);

/* What is to be sent, as one segment: it is valid until the next call. */
const void *tls_hostile_output(struct tls_hostile *h, size_t *n);
void tls_hostile_sent(struct tls_hostile *h);

/* After the handshake: a record of this content type (SSL3_RT_*) that the other side can decrypt.
 */
void tls_hostile_record(struct tls_hostile *h, uint8_t type, const void *bytes, size_t n);
/* A whole KeyUpdate, with the new keys for what follows. asks: it wants one in return. */
void tls_hostile_update(struct tls_hostile *h, bool asks);
/* Bytes as they are. */
void tls_hostile_raw(struct tls_hostile *h, const void *bytes, size_t n);

/* More KeyUpdates than a link accepts, and behind them a record that does not decrypt. */
void tls_hostile_flood(struct tls_hostile *h);
/* The head of a KeyUpdate without the byte behind it. The caller ends the stream there. */
void tls_hostile_half(struct tls_hostile *h);

#endif
