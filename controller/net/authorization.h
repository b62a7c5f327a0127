/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rights of an identity that a peer has proved (docs/control.md, "Keys"). Each function but
 * inc_first_message_read() returns 0, or -EACCES with one line for the log and the peer. NULL as an
 * identity is a peer without TLS. It has all rights, because the controller was started so that it
 * accepts such peers.
 */
#ifndef INC_CTL_AUTHORIZATION_H
#define INC_CTL_AUTHORIZATION_H

#include <jansson.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"

struct inc_ndjson;

/*
 * Whether a connection's first message (hello, join or resume) may be its first, before its
 * identity counts. Reads the message into *said; version points to the version field there. A peer
 * of another version gets -EPROTONOSUPPORT even if the rest of its message is unreadable, because
 * that error tells its operator what to change. 0; -ECONNRESET: the peer has closed the connection;
 * else the error of inc_message_read(). err has the text.
 */
int inc_first_message_read(const struct inc_ndjson *conn, enum inc_message_id id,
			   const json_t *object, void *said, const uint32_t *version,
			   struct inc_err *err);

/* To be heard on the member port, and to ask. */
int inc_authorize_client(const char *identity, struct inc_err *err);
/* To be a member of this job's groups. */
int inc_authorize_member(const char *identity, const char *job, struct inc_err *err);
/* To change what switches do. */
int inc_authorize_change(const char *identity, struct inc_err *err);
/* To be this switch. */
int inc_authorize_switch(const char *identity, const char *name, struct inc_err *err);

#endif
