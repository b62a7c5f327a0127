/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/machine.h"
#include "lib/net/loop.h"
#include "controller/store/lease.h"

/* Time for which etcd keeps the lease of a controller that is gone. */
#define LEASE_S 3
/* A controller stops so long before etcd may end its lease. The clocks of two machines may differ
 * by far less in 3 s. A message that is being sent needs some of the time. */
#define MARGIN_MS 500
#define KEEP_MS   500 /* how often the lease is kept */
/* how long one member has to answer that it keeps the lease */
#define KEEP_TRY_MS 700
/* so many members are asked at once to keep the lease */
#define KEEP_TRIES  3
#define STAND_BY_MS 200  /* how often a controller that stands by looks for a leader */
#define ASK_MS      2000 /* time limit of its requests */
#define GIVE_UP_MS  500  /* time limit of the request that gives the lead up */
/* How long a transaction may block the controller's loop. It may need the time in which the members
 * of etcd elect their own leader. */
#define WRITE_MS 2300

#define SEQUENCE "sequence"

enum state { STANDING_BY, LEADING, STATES };

struct inc_lease {
	enum state state;
	struct inc_etcd *etcd;
	const struct inc_lease_ops *ops;
	void *arg;
	struct inc_timer *timer;
	char id[24];          /* the lease's number, as etcd has sent it */
	uint64_t length_ns;   /* time of the lease, less the margin */
	uint64_t ends_at_ns;  /* by CLOCK_BOOTTIME */
	uint64_t asked_at_ns; /* when the request under way was sent, by CLOCK_BOOTTIME; 0: none */
	int64_t fence;        /* create revision of the leader's key */
	int64_t revision; /* revision of etcd at the last change of the sequence; 0: there is none
			   */
	unsigned int n_transactions;
	unsigned int refusals; /* requests to keep the lease that have failed since the last one */
	char said[sizeof(((struct inc_err *)0)->msg)]; /* the last line about standing by */
};

static void go(struct inc_lease *lease, enum state to)
{
	static const char *const names[] = {"standing by", "leading"};
	static const uint32_t steps[] = {
		[STANDING_BY] = INC_STEP(LEADING), [LEADING] = 0, /* the process begins again */
	};
	static const struct inc_machine machine = {"lease", STATES, names, steps};

	lease->state = inc_machine_step(&machine, lease->id, lease->state, to);
}

bool inc_lease_leads(const struct inc_lease *lease)
{
	return lease->state == LEADING;
}

struct inc_etcd *inc_lease_etcd(const struct inc_lease *lease)
{
	return lease->etcd;
}

void inc_lease_lose(const struct inc_lease *lease, const char *why)
{
	lease->ops->lost(lease->arg, why);
}

void inc_lease_check(const struct inc_lease *lease)
{
	if (lease && lease->state == LEADING && inc_boot_ns() >= lease->ends_at_ns)
		inc_lease_lose(lease, "its lease has not been kept in time");
}

/* Logs why this controller stands by, once for each reason. */
static void say(struct inc_lease *lease, bool wrong, const char *text)
{
	if (strcmp(lease->said, text) == 0)
		return;
	snprintf(lease->said, sizeof(lease->said), "%s", text);
	if (wrong)
		inc_error("%s; this controller stands by and tries again", text);
	else
		inc_info("%s; this controller stands by", text);
}

static int call(struct inc_lease *lease, const char *path, json_t *request, json_t **answer,
		struct inc_err *err)
{
	return inc_etcd_call(lease->etcd, path, request, inc_boot_ns() + ASK_MS * INC_NSEC_PER_MSEC,
			     answer, err);
}

/* Asks etcd for the leader. Returns 1 if there is none, 0 if there is one, or -errno. */
static int find_no_leader(struct inc_lease *lease, struct inc_err *err)
{
	json_t *answer, *kv;
	char text[sizeof(err->msg)];
	char *who;
	size_t n;
	int ret = call(lease, "kv/range",
		       json_pack("{s:o}", "key", inc_etcd_key(lease->etcd, INC_LEASE_KEY)), &answer,
		       err);

	if (ret)
		return ret;
	kv = json_array_get(json_object_get(answer, "kvs"), 0);
	if (kv) {
		who = inc_etcd_bytes(json_object_get(kv, "value"), &n);
		snprintf(text, sizeof(text), "controller %.200s leads", who ?: "?");
		say(lease, false, text);
		free(who);
	}
	ret = !kv;
	json_decref(answer);
	return ret;
}

/* Gets a new lease. */
static int grant(struct inc_lease *lease, struct inc_err *err)
{
	const uint64_t asked_at_ns = inc_boot_ns();
	json_t *answer;
	int64_t length_s;
	int ret = call(lease, "lease/grant", json_pack("{s:i}", "TTL", LEASE_S), &answer, err);

	if (ret)
		return ret;
	snprintf(lease->id, sizeof(lease->id), "%s",
		 json_string_value(json_object_get(answer, "ID")) ?: "");
	length_s = inc_etcd_number(answer, "TTL");
	json_decref(answer);
	if (!*lease->id || length_s < 1)
		return inc_err_set(err, EPROTO, "etcd: a lease without a number or a time");
	lease->length_ns = length_s * INC_NSEC_PER_SEC - MARGIN_MS * INC_NSEC_PER_MSEC;
	lease->ends_at_ns = asked_at_ns + lease->length_ns;
	return 0;
}

static void give_up(struct inc_lease *lease)
{
	json_t *answer;

	inc_etcd_call(lease->etcd, "lease/revoke", json_pack("{s:s}", "ID", lease->id),
		      inc_boot_ns() + GIVE_UP_MS * INC_NSEC_PER_MSEC, &answer, NULL);
	json_decref(answer);
}

static json_t *compare(const struct inc_lease *lease, const char *path, const char *target,
		       const char *field, int64_t revision)
{
	return json_pack("{s:o, s:s, s:s, s:I}", "key", inc_etcd_key(lease->etcd, path), "result",
			 "EQUAL", "target", target, field, (json_int_t)revision);
}

/* Makes the request that writes the leader's key with this controller's lease, if there is no such
 * key. The answer has the sequence as the second key. */
static json_t *claim_request(const struct inc_lease *lease)
{
	const struct inc_etcd *etcd = lease->etcd;
	char who[128] = "?";
	json_t *put;
	size_t n;

	gethostname(who, sizeof(who) - 1);
	n = strlen(who);
	n += snprintf(who + n, sizeof(who) - n, " (process %d)", (int)getpid());
	n = n < sizeof(who) ? n : sizeof(who) - 1;
	put = inc_etcd_put(etcd, INC_LEASE_KEY, who, n);
	json_object_set_new(json_object_get(put, "request_put"), "lease", json_string(lease->id));
	return json_pack("{s:[o], s:[o, o], s:[o, o]}", "compare",
			 compare(lease, INC_LEASE_KEY, "CREATE", "create_revision", 0), "success",
			 put, inc_etcd_read(etcd, SEQUENCE), "failure",
			 inc_etcd_read(etcd, INC_LEASE_KEY), inc_etcd_read(etcd, SEQUENCE));
}

/* Takes the revision of the sequence from the answer to the claim, and the fence if this controller
 * has the key. etcd may have carried the request out twice. So the key may have this lease although
 * the comparison has failed. */
static void take_claim(struct inc_lease *lease, const json_t *answer)
{
	const json_t *leader = inc_etcd_found(answer, 0);

	if (json_is_true(json_object_get(answer, "succeeded")))
		lease->fence = inc_etcd_number(json_object_get(answer, "header"), "revision");
	else if (inc_etcd_number(leader, "lease") == strtoll(lease->id, NULL, 10))
		lease->fence = inc_etcd_number(leader, "create_revision");
	lease->revision = inc_etcd_number(inc_etcd_found(answer, 1), "mod_revision");
}

/* Tries to become the leader. Returns 1 if that has succeeded, 0 if another controller was faster,
 * or -errno. */
static int claim(struct inc_lease *lease, struct inc_err *err)
{
	json_t *answer;
	int ret = grant(lease, err);

	if (ret)
		return ret;
	ret = call(lease, "kv/txn", claim_request(lease), &answer, err);
	lease->fence = 0;
	if (!ret)
		take_claim(lease, answer);
	json_decref(answer);
	if (!lease->fence || inc_boot_ns() >= lease->ends_at_ns) {
		give_up(lease);
		return ret;
	}
	return 1;
}

static void on_kept(void *arg, int ret, const json_t *answer, const struct inc_err *err);

void inc_lease_keep(struct inc_lease *lease)
{
	if (lease->asked_at_ns)
		return;
	lease->asked_at_ns = inc_boot_ns();
	if (inc_etcd_send(lease->etcd, "lease/keepalive", json_pack("{s:s}", "ID", lease->id),
			  KEEP_TRY_MS, on_kept, lease))
		lease->asked_at_ns = 0;
}

static void on_kept(void *arg, int ret, const json_t *answer, const struct inc_err *err)
{
	struct inc_lease *lease = arg;
	const uint64_t asked_at_ns = lease->asked_at_ns;

	lease->asked_at_ns = 0;
	if (!ret && inc_etcd_number(json_object_get(answer, "result"), "TTL") > 0) {
		lease->ends_at_ns = asked_at_ns + lease->length_ns;
		lease->refusals = 0;
		return;
	}
	if (!ret || ret == -ENOENT)
		inc_lease_lose(lease, "etcd has ended its lease");
	inc_lease_check(lease);
	if (!lease->refusals)
		inc_warn("%s", err->msg);
	/* at once from the next members, and later by the timer */
	if (++lease->refusals < KEEP_TRIES)
		inc_lease_keep(lease);
}

/* Returns whether the sequence has the text of this transaction. Then it was carried out, although
 * the comparison has failed at another attempt. */
static bool was_made(const json_t *sequence, const char *token)
{
	size_t n;
	char *value = inc_etcd_bytes(json_object_get(sequence, "value"), &n);
	const bool same = value && strcmp(value, token) == 0;

	free(value);
	return same;
}

/* Takes the answer of a transaction. Ends the lead if it was not carried out. */
static void take_answer(struct inc_lease *lease, const json_t *answer, const char *token)
{
	const json_t *leader, *sequence;

	if (json_is_true(json_object_get(answer, "succeeded"))) {
		lease->revision = inc_etcd_number(json_object_get(answer, "header"), "revision");
		return;
	}
	leader = inc_etcd_found(answer, 0);
	sequence = inc_etcd_found(answer, 1);
	if (inc_etcd_number(leader, "create_revision") != lease->fence)
		inc_lease_lose(lease,
			       leader ? "another controller leads" : "etcd has ended its lease");
	if (!was_made(sequence, token))
		inc_lease_lose(lease, "another program has written to its database");
	lease->revision = inc_etcd_number(sequence, "mod_revision");
}

int inc_lease_transact(struct inc_lease *lease, json_t *ops, struct inc_err *err)
{
	const uint64_t deadline_ns = inc_boot_ns() + WRITE_MS * INC_NSEC_PER_MSEC;
	json_t *request, *answer;
	char token[60];
	size_t n = snprintf(token, sizeof(token), "%lld-%u", (long long)lease->fence,
			    ++lease->n_transactions);

	inc_lease_check(lease);
	request =
		json_pack("{s:[o, o], s:o, s:[o, o]}", "compare",
			  compare(lease, INC_LEASE_KEY, "CREATE", "create_revision", lease->fence),
			  compare(lease, SEQUENCE, "MOD", "mod_revision", lease->revision),
			  "success", ops, "failure", inc_etcd_read(lease->etcd, INC_LEASE_KEY),
			  inc_etcd_read(lease->etcd, SEQUENCE));
	if (!request || json_array_append_new(json_object_get(request, "success"),
					      inc_etcd_put(lease->etcd, SEQUENCE, token, n))) {
		json_decref(request);
		return inc_err_set(err, ENOMEM, "out of memory");
	}
	if (inc_etcd_call(lease->etcd, "kv/txn", request,
			  deadline_ns < lease->ends_at_ns ? deadline_ns : lease->ends_at_ns,
			  &answer, err))
		inc_lease_lose(lease, err->msg);
	take_answer(lease, answer, token);
	json_decref(answer);
	return 0;
}

static void on_timer(void *arg)
{
	struct inc_lease *lease = arg;
	struct inc_err err;
	int ret;

	if (lease->state == LEADING) {
		inc_lease_check(lease);
		inc_lease_keep(lease);
		inc_timer_arm(lease->timer, KEEP_MS);
		return;
	}
	ret = find_no_leader(lease, &err);
	if (ret > 0)
		ret = claim(lease, &err);
	if (ret < 0)
		say(lease, true, err.msg);
	inc_timer_arm(lease->timer, ret > 0 ? KEEP_MS : STAND_BY_MS);
	if (ret <= 0)
		return;
	go(lease, LEADING);
	inc_info("this controller leads, by lease %s at revision %lld", lease->id,
		 (long long)lease->fence);
	lease->ops->elected(lease->arg);
}

int inc_lease_start(struct event_base *base, const char *database,
		    const struct inc_etcd_files *files, const struct inc_lease_ops *ops, void *arg,
		    struct inc_lease **out, struct inc_err *err)
{
	struct inc_lease *lease = calloc(1, sizeof(*lease));
	int ret;

	if (!lease)
		return inc_err_set(err, ENOMEM, "out of memory");
	lease->ops = ops;
	lease->arg = arg;
	ret = inc_etcd_open(base, database, files, &lease->etcd, err);
	if (!ret) {
		lease->timer = inc_timer_new(base, on_timer, lease);
		if (!lease->timer || inc_timer_arm(lease->timer, 0))
			ret = inc_err_set(err, ENOMEM, "out of memory");
	}
	if (ret) {
		inc_lease_stop(lease);
		return ret;
	}
	*out = lease;
	return 0;
}

void inc_lease_stop(struct inc_lease *lease)
{
	if (!lease)
		return;
	if (lease->state == LEADING)
		give_up(lease);
	inc_timer_free(lease->timer);
	inc_etcd_close(lease->etcd);
	free(lease);
}
