/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to etcd, by the JSON gateway of its version 3 API over HTTP or HTTPS, with libcurl. A
 * member that has not answered within HEDGE_MS gets company: the next one is asked as well, and the
 * first answer counts. lease.c and store_etcd.c use it, on the thread of the
 * controller's loop. A request without a callback blocks the loop, for a limited time. While it
 * waits, requests with a callback go on.
 */
#ifndef INC_ETCD_H
#define INC_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

/* A text of --database that begins so names an etcd, and not a file. */
#define INC_ETCD_SCHEME "etcd://"
/* Bytes of the prefix of the keys, with its NUL. */
#define INC_ETCD_PREFIX_MAX 200

struct event_base;
struct inc_etcd;

/* The files for HTTPS, as PEM. ca NULL: plain HTTP. */
struct inc_etcd_files {
	const char *ca, *cert, *key;
};

/* Whether the text of --database names an etcd, and not a file. */
bool inc_etcd_wanted(const char *database);
/* Checks the text of --database: etcd://HOST[:PORT][,HOST[:PORT]...]/PREFIX, or a file's path. */
int inc_database_check(const char *text, struct inc_err *err);

/* Prepares requests to these members. Returns 0, or -errno with the reason. No member is asked
 * yet. */
int inc_etcd_open(struct event_base *base, const char *database, const struct inc_etcd_files *files,
		  struct inc_etcd **out, struct inc_err *err);
/* Frees all. Callbacks of requests under way are not called. etcd may be NULL. */
void inc_etcd_close(struct inc_etcd *etcd);

/* Returns the text of --database. */
const char *inc_etcd_name(const struct inc_etcd *etcd);
/* Returns the prefix of all keys, without the slash behind it. */
const char *inc_etcd_prefix(const struct inc_etcd *etcd);

/* ---- etcd_keys.c ---- */

/* Makes a JSON string of the key PREFIX/path in base64, as requests have keys. NULL: no memory. */
json_t *inc_etcd_key(const struct inc_etcd *etcd, const char *path);
/* The same for the end of the range of all keys that begin with PREFIX/path. */
json_t *inc_etcd_key_end(const struct inc_etcd *etcd, const char *path);
/* Make an operation of a transaction: write a key, delete it, delete all keys that begin with path,
 * or read a key. NULL: no memory. */
json_t *inc_etcd_put(const struct inc_etcd *etcd, const char *path, const char *value, size_t n);
json_t *inc_etcd_delete(const struct inc_etcd *etcd, const char *path);
json_t *inc_etcd_delete_all(const struct inc_etcd *etcd, const char *path);
json_t *inc_etcd_read(const struct inc_etcd *etcd, const char *path);
/* Returns the key that the i-th operation of a transaction has read, or NULL if there is none. */
const json_t *inc_etcd_found(const json_t *answer, unsigned int i);
/* Makes a JSON string of bytes in base64. */
json_t *inc_etcd_text(const char *bytes, size_t n);
/* Returns the bytes of a JSON string in base64, which the caller frees, with a NUL behind them.
 * NULL: the value is no such string, or there is no memory. */
char *inc_etcd_bytes(const json_t *text, size_t *n);
/* Returns the part of a key behind PREFIX/, or NULL if the key does not begin so. */
const char *inc_etcd_path(const struct inc_etcd *etcd, const char *key);
/* Parses JSON that etcd has stored. Returns the object, or NULL. */
json_t *inc_etcd_parse(const char *bytes, size_t n);
/* Returns a number that the gateway has sent as a string; 0 if there is none. */
int64_t inc_etcd_number(const json_t *object, const char *name);

/* ---- etcd_names.c, for etcd.c ---- */

struct inc_etcd_names;

/* Begins to look up the names of the members, which outlive the object. Returns 0, or -errno with
 * the reason. Even after an error the caller closes *out. */
int inc_etcd_names_open(const struct inc_hostports *members, struct inc_etcd_names **out,
			struct inc_err *err);
/* Frees all, and waits for no look-up. NULL is allowed. */
void inc_etcd_names_close(struct inc_etcd_names *names);
/* Whether the member has an address. If not, a look-up goes on. */
bool inc_etcd_name_known(struct inc_etcd_names *names, unsigned int member);
/* Returns the addresses as libcurl takes them, or "" if the host is an address in numbers. */
const char *inc_etcd_name_addresses(const struct inc_etcd_names *names, unsigned int member);
/* Returns why the member has no address. */
const char *inc_etcd_name_why(const struct inc_etcd_names *names, unsigned int member);
/* Begins to look the name up again, unless that was done a moment ago. */
void inc_etcd_name_refresh(struct inc_etcd_names *names, unsigned int member);

/* ---- etcd.c ---- */

/*
 * Sends a request and waits for the answer, until the deadline by CLOCK_BOOTTIME. path: such as
 * "kv/txn". request: consumed. A member that has no leader is left for the next one, and a slow one
 * gets company, so a request may be carried out twice. Returns 0 with the answer, which the caller
 * owns, or -errno. -ENOENT: there is no such lease. The error's line names the member and a command
 * that shows its state.
 */
int inc_etcd_call(struct inc_etcd *etcd, const char *path, json_t *request, uint64_t deadline_ns,
		  json_t **answer, struct inc_err *err);

/* Receives the end of a request: 0 with the answer, or -errno with the reason. */
typedef void (*inc_etcd_done)(void *arg, int ret, const json_t *answer, const struct inc_err *err);
/* Sends a request to one member, for which the loop does not wait. With skip 0 that is the member
 * that has answered last, and with 1 the one behind it. The function `done` is called later, from
 * the loop or during inc_etcd_call(). Returns -errno if the request cannot be made. Then `done` is
 * not called. */
int inc_etcd_send(struct inc_etcd *etcd, const char *path, json_t *request, unsigned int skip,
		  unsigned int limit_ms, inc_etcd_done done, void *arg);
/* Makes inc_etcd_call() call this function again and again while it waits, some times a second. */
void inc_etcd_on_wait(struct inc_etcd *etcd, void (*fn)(void *arg), void *arg);

#endif
