// SPDX-License-Identifier: BSD-2-Clause
/* Checks what an identity may do (authorization.h). */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "controller/net/authorization.h"
#include "lib/net/ndjson.h"

/* An identity with one of these prefixes is restricted to one switch, or to one job, whose name
 * follows. */
#define OF_SWITCH "switch:"
#define OF_JOB    "job:"

static bool is(const char *identity, const char *word)
{
	return !strcmp(identity, word);
}

static bool is_of(const char *identity, const char *kind)
{
	return !strncmp(identity, kind, strlen(kind));
}

/* Names the peer of another version, both versions, and the program to upgrade. hello: the peer's
 * message if the peer is a switch, otherwise NULL. The message of a later version may be unreadable
 * behind the switch's name. */
static int refuse_version(const struct inc_ndjson *conn, const struct inc_msg_hello *hello,
			  enum inc_message_id id, uint32_t version, struct inc_err *err)
{
	const char *program = id == INC_MSG_HELLO ? "inc-switchd" : "libinccl";
	const char *node = hello ? hello->node : "";

	return inc_err_set(err, EPROTONOSUPPORT,
			   "%s%s%s at %s speaks version %u of the control protocol, and this "
			   "controller speaks %u: upgrade %s",
			   program, *node ? " of switch " : "", node, inc_ndjson_peer(conn),
			   version, INC_CONTROL_VERSION,
			   version < INC_CONTROL_VERSION ? program : "inc-controller");
}

int inc_first_message_read(const struct inc_ndjson *conn, enum inc_message_id id,
			   const json_t *object, void *said, const uint32_t *version,
			   struct inc_err *err)
{
	const int ret = inc_message_read(id, object, said, err);

	if (*version && *version != INC_CONTROL_VERSION)
		return refuse_version(conn, id == INC_MSG_HELLO ? said : NULL, id, *version, err);
	return ret ?: inc_ndjson_check_open(conn, err);
}

int inc_authorize_client(const char *identity, struct inc_err *err)
{
	if (!identity || is(identity, "admin") || is(identity, "member") ||
	    is(identity, "viewer") || is_of(identity, OF_JOB))
		return 0;
	return inc_err_set(err, EACCES, "identity %s may do nothing on the port for members",
			   identity);
}

int inc_authorize_member(const char *identity, const char *job, struct inc_err *err)
{
	if (!identity || is(identity, "admin") || is(identity, "member") ||
	    (is_of(identity, OF_JOB) && is(identity + strlen(OF_JOB), job)))
		return 0;
	return inc_err_set(err, EACCES,
			   "identity %s may be no member of job %s; use the key of the identity "
			   "member, which may join any job, or that of job:%s",
			   identity, job, job);
}

int inc_authorize_change(const char *identity, struct inc_err *err)
{
	if (!identity || is(identity, "admin"))
		return 0;
	return inc_err_set(err, EACCES, "identity %s may change nothing", identity);
}

int inc_authorize_switch(const char *identity, const char *name, struct inc_err *err)
{
	if (!identity || (is_of(identity, OF_SWITCH) && is(identity + strlen(OF_SWITCH), name)))
		return 0;
	return inc_err_set(err, EACCES, "identity %s may not be switch %s", identity, name);
}
