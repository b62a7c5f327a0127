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
/* A controller that stands by ends the lead of one that has given no sign of life for so long. It
 * need not wait for etcd, which prolongs all leases when its own leader is lost. */
#define SILENT_MS (LEASE_S * 1000)
#define KEEP_MS   500 /* how often etcd is asked to keep the lease, and a sign of life is written */
#define LOOK_MS   100 /* how often the leader looks whether that is due */
/* how long one member has for such a request, and after which time the next one is asked as well */
#define KEEP_TRY_MS   1000
#define KEEP_HEDGE_MS 250
/* so many members that refuse such a request are left at once for the next one */
#define KEEP_TRIES 3
/* most such requests at a time */
#define KEEP_REQUESTS 16
#define STAND_BY_MS   100  /* how often a controller that stands by looks for a leader */
#define ASK_MS        2000 /* time limit of its requests */
#define GIVE_UP_MS    500  /* time limit of the request that gives the lead up */
/* How long a transaction may block the controller's loop. It may need the time in which the members
 * of etcd elect their own leader. */
#define WRITE_MS 2300

#define SEQUENCE "sequence"
/* The environment variable in which a controller that has lost its lead gives the lease to the
 * program that it executes. */
#define ENDED_LEASE "INC_CONTROLLER_ENDED_LEASE"

enum state { STANDING_BY, LEADING, STATES };

/* The last sign of life of the controller that leads, as one that stands by has read it. */
struct watched {
	int64_t fence;       /* create revision of its key */
	int64_t revision;    /* that of its last sign of life; 0: none is known */
	uint64_t seen_at_ns; /* when this controller first saw that sign */
};

/* One of the two things that a leader must do again and again: to ask etcd to keep its lease, and
 * to write a sign of life. */
struct duty {
	uint64_t done_at_ns;  /* when the last request that has succeeded was sent */
	uint64_t asked_at_ns; /* when the last request was sent */
	unsigned int tries;   /* requests since the last one that has succeeded */
};

struct duty_request {
	struct inc_lease *lease; /* NULL: not in use */
	struct duty *duty;
	uint64_t at_ns;
};

struct inc_lease {
	enum state state;
	struct inc_etcd *etcd;
	const struct inc_lease_ops *ops;
	void *arg;
	struct inc_timer *timer;
	char id[24];         /* the lease's number, as etcd has sent it */
	uint64_t length_ns;  /* time of the lease, less the margin */
	uint64_t ends_at_ns; /* by CLOCK_BOOTTIME, as all times here */
	struct duty keeps, signs;
	struct duty_request requests[KEEP_REQUESTS];
	bool stops;       /* the lead is given up, so requests under way mean nothing any more */
	bool warned;      /* the log has why the last of these requests has failed */
	int64_t fence;    /* create revision of the leader's key */
	int64_t revision; /* revision of etcd at the last change of the sequence; 0: there is none
			   */
	unsigned int n_transactions;
	struct watched watched;
	char ended_id[24]; /* lease of a lead that this process has lost; "": none */
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
	setenv(ENDED_LEASE, lease->id, 1);
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

static json_t *compare(const struct inc_lease *lease, const char *path, const char *target,
		       const char *field, int64_t revision)
{
	return json_pack("{s:o, s:s, s:s, s:I}", "key", inc_etcd_key(lease->etcd, path), "result",
			 "EQUAL", "target", target, field, (json_int_t)revision);
}

/*
 * Whether the controller that leads must have stopped, because no new sign of life has come for too
 * long. The time is measured by this machine's clock alone, from the moment at which the last sign
 * was seen here. The leader has sent the sign before that, and acts for a shorter time from then
 * on. So the clocks of the two machines need not agree. Without any sign of life the leader is a
 * controller of an earlier version, and only etcd ends its lease.
 */
static bool has_stopped(struct inc_lease *lease, const json_t *leader, const json_t *alive)
{
	const int64_t fence = inc_etcd_number(leader, "create_revision"),
		      revision = inc_etcd_number(alive, "mod_revision");
	const uint64_t now_ns = inc_boot_ns();
	struct watched *w = &lease->watched;

	if (!alive)
		return false;
	if (fence != w->fence || revision != w->revision)
		*w = (struct watched){fence, revision, now_ns};
	return now_ns - w->seen_at_ns >= SILENT_MS * INC_NSEC_PER_MSEC;
}

/* Deletes the key of a leader that must have stopped. Returns 1 if that was done, 0 if the leader
 * has given another sign of life or another controller was faster, or -errno. */
static int depose(struct inc_lease *lease, struct inc_err *err)
{
	const struct inc_etcd *etcd = lease->etcd;
	json_t *answer;
	int ret = call(lease, "kv/txn",
		       json_pack("{s:[o, o], s:[o, o]}", "compare",
				 compare(lease, INC_LEASE_KEY, "CREATE", "create_revision",
					 lease->watched.fence),
				 compare(lease, INC_LEASE_ALIVE_KEY, "MOD", "mod_revision",
					 lease->watched.revision),
				 "success", inc_etcd_delete(etcd, INC_LEASE_KEY),
				 inc_etcd_delete(etcd, INC_LEASE_ALIVE_KEY)),
		       &answer, err);

	if (ret)
		return ret;
	ret = json_is_true(json_object_get(answer, "succeeded"));
	json_decref(answer);
	if (ret)
		inc_info("the controller that led has given no sign of life for %d ms, so it has "
			 "stopped",
			 SILENT_MS);
	return ret;
}

/* Asks etcd for the leader. Returns 1 if there is none, 0 if there is one, or -errno. */
static int find_no_leader(struct inc_lease *lease, struct inc_err *err)
{
	const json_t *leader;
	json_t *answer;
	char text[sizeof(err->msg)];
	char *who;
	size_t n;
	int ret = call(lease, "kv/txn",
		       json_pack("{s:[o, o]}", "success", inc_etcd_read(lease->etcd, INC_LEASE_KEY),
				 inc_etcd_read(lease->etcd, INC_LEASE_ALIVE_KEY)),
		       &answer, err);

	if (ret)
		return ret;
	leader = inc_etcd_found(answer, 0);
	ret = !leader;
	if (leader) {
		who = inc_etcd_bytes(json_object_get(leader, "value"), &n);
		snprintf(text, sizeof(text), "controller %.200s leads", who ?: "?");
		say(lease, false, text);
		free(who);
		if (has_stopped(lease, leader, inc_etcd_found(answer, 1)))
			ret = depose(lease, err);
	}
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
	/* etcd may give a longer lease than asked, for which no other controller waits */
	length_s = length_s < LEASE_S ? length_s : LEASE_S;
	lease->length_ns = length_s * INC_NSEC_PER_SEC - MARGIN_MS * INC_NSEC_PER_MSEC;
	lease->keeps = lease->signs =
		(struct duty){.done_at_ns = asked_at_ns, .asked_at_ns = asked_at_ns};
	lease->ends_at_ns = asked_at_ns + lease->length_ns;
	return 0;
}

/* Ends a lease, with which etcd deletes the leader's key. Returns 0 or -errno. */
static int end_lease(struct inc_lease *lease, const char *id, unsigned int limit_ms)
{
	json_t *answer;
	int ret = inc_etcd_call(lease->etcd, "lease/revoke", json_pack("{s:s}", "ID", id),
				inc_boot_ns() + limit_ms * INC_NSEC_PER_MSEC, &answer, NULL);

	json_decref(answer);
	return ret;
}

static void give_up(struct inc_lease *lease)
{
	end_lease(lease, lease->id, GIVE_UP_MS);
}

/* Ends the lease of the lead that this process has lost, because it acts by it no more. So no
 * controller has to wait for the end of its time. */
static void end_lost_lead(struct inc_lease *lease)
{
	int ret = *lease->ended_id ? end_lease(lease, lease->ended_id, GIVE_UP_MS) : 0;

	if (!ret || ret == -ENOENT)
		*lease->ended_id = '\0';
}

/* Makes the operation that writes a sign of life. It has the lease, so that it ends with the key of
 * the leader. */
static json_t *sign(const struct inc_lease *lease, uint64_t at_ns)
{
	char text[24];
	const size_t n = snprintf(text, sizeof(text), "%llu", (unsigned long long)at_ns);
	json_t *put = inc_etcd_put(lease->etcd, INC_LEASE_ALIVE_KEY, text, n);

	json_object_set_new(json_object_get(put, "request_put"), "lease", json_string(lease->id));
	return put;
}

/* Makes the request that writes the leader's key with this controller's lease, if there is no such
 * key. The answer has the sequence as the third key. */
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
	return json_pack("{s:[o], s:[o, o, o], s:[o, o, o]}", "compare",
			 compare(lease, INC_LEASE_KEY, "CREATE", "create_revision", 0), "success",
			 put, sign(lease, inc_boot_ns()), inc_etcd_read(etcd, SEQUENCE), "failure",
			 inc_etcd_read(etcd, INC_LEASE_KEY),
			 inc_etcd_read(etcd, INC_LEASE_ALIVE_KEY), inc_etcd_read(etcd, SEQUENCE));
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
	lease->revision = inc_etcd_number(inc_etcd_found(answer, 2), "mod_revision");
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

static void check_leader(const struct inc_lease *lease, const json_t *leader)
{
	if (inc_etcd_number(leader, "create_revision") != lease->fence)
		inc_lease_lose(lease,
			       leader ? "another controller leads" : "etcd has ended its lease");
}

static json_t *sign_request(const struct inc_lease *lease, uint64_t at_ns)
{
	return json_pack("{s:[o], s:[o], s:[o]}", "compare",
			 compare(lease, INC_LEASE_KEY, "CREATE", "create_revision", lease->fence),
			 "success", sign(lease, at_ns), "failure",
			 inc_etcd_read(lease->etcd, INC_LEASE_KEY));
}

static void on_done(void *arg, int ret, const json_t *answer, const struct inc_err *err);

/* Sends a request of a duty, to the next member if the one before owes its answer. */
static void request_duty(struct inc_lease *lease, struct duty *duty)
{
	const bool signs = duty == &lease->signs;
	const uint64_t now_ns = inc_boot_ns();
	struct duty_request *r = lease->requests;

	while (r < lease->requests + KEEP_REQUESTS && r->lease)
		r++;
	duty->asked_at_ns = now_ns;
	if (r == lease->requests + KEEP_REQUESTS)
		return;
	*r = (struct duty_request){lease, duty, now_ns};
	if (inc_etcd_send(lease->etcd, signs ? "kv/txn" : "lease/keepalive",
			  signs ? sign_request(lease, now_ns) : json_pack("{s:s}", "ID", lease->id),
			  duty->tries++, KEEP_TRY_MS, on_done, r))
		r->lease = NULL;
}

/* A request has succeeded that was sent at this time. The leader may act for the time of the lease
 * behind that of the older duty. */
static void duty_done(struct inc_lease *lease, struct duty *duty, uint64_t at_ns)
{
	uint64_t from_ns;

	duty->tries = 0;
	lease->warned = false;
	if (at_ns > duty->done_at_ns)
		duty->done_at_ns = at_ns;
	from_ns = lease->keeps.done_at_ns < lease->signs.done_at_ns ? lease->keeps.done_at_ns
								    : lease->signs.done_at_ns;
	lease->ends_at_ns = from_ns + lease->length_ns;
}

static void on_done(void *arg, int ret, const json_t *answer, const struct inc_err *err)
{
	const struct duty_request r = *(struct duty_request *)arg;
	const bool signs = r.duty == &r.lease->signs;

	((struct duty_request *)arg)->lease = NULL;
	if (r.lease->stops)
		return;
	if (!signs && (ret == -ENOENT ||
		       (!ret && inc_etcd_number(json_object_get(answer, "result"), "TTL") <= 0)))
		inc_lease_lose(r.lease, "etcd has ended its lease");
	if (signs && !ret && !json_is_true(json_object_get(answer, "succeeded")))
		check_leader(r.lease, inc_etcd_found(answer, 0));
	if (!ret) {
		duty_done(r.lease, r.duty, r.at_ns);
		return;
	}
	inc_lease_check(r.lease);
	if (!r.lease->warned)
		inc_warn("%s", err->msg);
	r.lease->warned = true;
	/* at once by the next members, and later by the timer */
	if (r.duty->tries && r.duty->tries < KEEP_TRIES)
		request_duty(r.lease, r.duty);
}

static bool is_due(const struct duty *duty)
{
	const uint64_t now_ns = inc_boot_ns();

	return duty->tries ? now_ns - duty->asked_at_ns >= KEEP_HEDGE_MS * INC_NSEC_PER_MSEC
			   : now_ns - duty->done_at_ns >= KEEP_MS * INC_NSEC_PER_MSEC;
}

void inc_lease_keep(struct inc_lease *lease)
{
	if (lease->state != LEADING || lease->stops)
		return;
	if (is_due(&lease->keeps))
		request_duty(lease, &lease->keeps);
	if (is_due(&lease->signs))
		request_duty(lease, &lease->signs);
}

static void on_wait(void *arg)
{
	inc_lease_keep(arg);
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
	check_leader(lease, leader);
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
		inc_timer_arm(lease->timer, LOOK_MS);
		return;
	}
	end_lost_lead(lease);
	ret = find_no_leader(lease, &err);
	if (ret > 0)
		ret = claim(lease, &err);
	if (ret < 0)
		say(lease, true, err.msg);
	inc_timer_arm(lease->timer, ret > 0 ? LOOK_MS : STAND_BY_MS);
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
	snprintf(lease->ended_id, sizeof(lease->ended_id), "%s", getenv(ENDED_LEASE) ?: "");
	unsetenv(ENDED_LEASE);
	ret = inc_etcd_open(base, database, files, &lease->etcd, err);
	if (!ret) {
		inc_etcd_on_wait(lease->etcd, on_wait, lease);
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
	lease->stops = true;
	if (lease->state == LEADING)
		give_up(lease);
	inc_timer_free(lease->timer);
	inc_etcd_close(lease->etcd);
	free(lease);
}
