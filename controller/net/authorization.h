/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks what a peer may do by the identity that it has proved (docs/control.md, "Keys"). Each
 * function except inc_first_message_read() returns 0, or -EACCES with one line for the log and the
 * peer. If identity is NULL, the peer has connected without TLS. It may do everything, because the
 * controller was started so that it accepts such peers.
 */
#ifndef INC_CTL_AUTHORIZATION_H
#define INC_CTL_AUTHORIZATION_H

#include <jansson.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"

struct inc_ndjson;

/*
 * Reads a connection's first message (hello, join or resume) into *said, before its identity is
 * checked. version points to the version field of *said. A peer of another version gets
 * -EPROTONOSUPPORT even if the rest of its message is unreadable, because that error tells its
 * operator what to change. Returns 0, or -ECONNRESET if the peer has closed the connection, or an
 * error of inc_message_read() with the text in err.
 */
int inc_first_message_read(const struct inc_ndjson *conn, enum inc_message_id id,
			   const json_t *object, void *said, const uint32_t *version,
			   struct inc_err *err);

/* Checks whether a peer with this identity may send messages to the member port. */
int inc_authorize_client(const char *identity, struct inc_err *err);
/* Checks whether a peer with this identity may be a member of this job's groups. */
int inc_authorize_member(const char *identity, const char *job, struct inc_err *err);
/* Checks whether a peer with this identity may set the mode of switches. */
int inc_authorize_change(const char *identity, struct inc_err *err);
/* Checks whether a peer with this identity may be the switch of this name. */
int inc_authorize_switch(const char *identity, const char *name, struct inc_err *err);

#endif
