/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"
#include "lib/base/opt.h"
#include "lib/net/hostport.h"
#include "lib/net/lines.h"
#include "lib/net/loop.h"
#include "controller/store/etcd.h"

#define DEFAULT_PORT 2379
/* how long one member has for a request that others may answer as well */
#define TRY_MS 1000
/* A member that has not answered for so long may have passed the request to a leader that is gone.
 * The next member is asked as well then, and the first answer counts. */
#define HEDGE_MS 300
/* pause after a round of members of which none could answer, such as for an election */
#define ROUND_MS 50
/* longest time for which a call waits without a call of on_wait */
#define WAIT_MS 100
/* how often the loop looks after requests under way */
#define LOOK_MS 5
/* limit of an answer */
#define ANSWER_MAX (64u << 20)

/* Codes of gRPC in the answers of the gateway. */
enum {
	CODE_DEADLINE = 4,
	CODE_NOT_FOUND = 5,
	CODE_DENIED = 7,
	CODE_EXHAUSTED = 8,
	CODE_UNAVAILABLE = 14,
	CODE_UNAUTHENTICATED = 16,
};

struct request {
	TAILQ_ENTRY(request) entry;
	struct inc_etcd *etcd;
	CURL *easy;
	struct curl_slist *headers, *addresses;
	unsigned int member; /* number of the member that it was sent to */
	char *body;
	char *answer; /* the bytes that have come */
	size_t answer_bytes;
	char curl_error[CURL_ERROR_SIZE];
	inc_etcd_done done;
	void *arg;
};

struct inc_etcd {
	struct inc_hostports members;
	struct inc_etcd_names *names;
	unsigned int at; /* number of the member that the next request is sent to */
	char prefix[INC_ETCD_PREFIX_MAX];
	bool secure;
	char *name;            /* the text of --database */
	char *ca, *cert, *key; /* paths of files; NULL: none */
	CURLM *multi;
	void (*on_wait)(void *arg); /* called while a call waits; NULL: there is none */
	void *on_wait_arg;
	struct inc_timer *timer;
	TAILQ_HEAD(, request) requests;
};

bool inc_etcd_wanted(const char *database)
{
	return strncmp(database, INC_ETCD_SCHEME, strlen(INC_ETCD_SCHEME)) == 0;
}

/* Splits the text of --database. prefix has INC_ETCD_PREFIX_MAX bytes. Returns 0 or -EINVAL. */
static int split(const char *text, struct inc_hostports *members, char *prefix, struct inc_err *err)
{
	const char *list = text + strlen(INC_ETCD_SCHEME), *slash = strchrnul(list, '/');
	char names[INC_HOSTPORTS_MAX * INC_HOSTPORT_TEXT_BYTES];
	size_t n;

	n = snprintf(names, sizeof(names), "%.*s", (int)(slash - list), list);
	if (n >= sizeof(names))
		return inc_err_set(err, EINVAL, "'%.300s': the list is too long", text);
	n = *slash ? strlen(slash + 1) : 0;
	if (!n || n >= INC_ETCD_PREFIX_MAX || !inc_is_word(slash + 1))
		return inc_err_set(err, EINVAL,
				   "'%.300s': want etcd://HOST:PORT,HOST:PORT/PREFIX with a "
				   "prefix of the keys",
				   text);
	strcpy(prefix, slash + 1);
	while (n && prefix[n - 1] == '/')
		prefix[--n] = '\0';
	return inc_hostports_parse("etcd", names, DEFAULT_PORT, members, err);
}

int inc_database_check(const char *text, struct inc_err *err)
{
	struct inc_hostports members;
	char prefix[INC_ETCD_PREFIX_MAX];

	return inc_etcd_wanted(text) ? split(text, &members, prefix, err)
				     : inc_path_check(text, err);
}

static void free_request(struct request *r)
{
	TAILQ_REMOVE(&r->etcd->requests, r, entry);
	if (r->easy)
		curl_multi_remove_handle(r->etcd->multi, r->easy);
	curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->headers);
	curl_slist_free_all(r->addresses);
	free(r->body);
	free(r->answer);
	free(r);
}

static void on_timer(void *arg);

/* Warns of members that are asked by plain HTTP over a network. */
static void warn_of_plain(const struct inc_etcd *etcd)
{
	const struct inc_hostport *at = etcd->members.at;

	for (; !etcd->secure && at < etcd->members.at + etcd->members.n; at++)
		if (strncmp(at->host, "127.", 4) != 0 && strcmp(at->host, "localhost") != 0 &&
		    strcmp(at->host, "::1") != 0)
			inc_warn("etcd http://%s:%s: plain HTTP, so each machine on the way can "
				 "read "
				 "and change the state of the jobs; give --etcd-ca, --etcd-cert "
				 "and --etcd-key",
				 at->host, at->port);
}

int inc_etcd_open(struct event_base *base, const char *database, const struct inc_etcd_files *files,
		  struct inc_etcd **out, struct inc_err *err)
{
	struct inc_etcd *etcd = calloc(1, sizeof(*etcd));
	int ret;

	if (!etcd)
		return inc_err_set(err, ENOMEM, "out of memory");
	TAILQ_INIT(&etcd->requests);
	ret = split(database, &etcd->members, etcd->prefix, err);
	if (ret)
		goto fail;
	ret = inc_etcd_names_open(&etcd->members, &etcd->names, err);
	if (ret)
		goto fail;
	etcd->secure = files->ca;
	etcd->name = strdup(database);
	etcd->ca = files->ca ? strdup(files->ca) : NULL;
	etcd->cert = files->cert ? strdup(files->cert) : NULL;
	etcd->key = files->key ? strdup(files->key) : NULL;
	ret = inc_err_set(err, ENOMEM, "no memory for requests to etcd");
	if (!etcd->name || !etcd->ca != !files->ca || !etcd->cert != !files->cert ||
	    !etcd->key != !files->key)
		goto fail;
	etcd->multi = curl_global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl_multi_init();
	etcd->timer = inc_timer_new(base, on_timer, etcd);
	if (!etcd->multi || !etcd->timer)
		goto fail;
	warn_of_plain(etcd);
	*out = etcd;
	return 0;

fail:
	inc_etcd_close(etcd);
	return ret;
}

void inc_etcd_close(struct inc_etcd *etcd)
{
	if (!etcd)
		return;
	while (!TAILQ_EMPTY(&etcd->requests))
		free_request(TAILQ_FIRST(&etcd->requests));
	inc_etcd_names_close(etcd->names);
	inc_timer_free(etcd->timer);
	if (etcd->multi) {
		curl_multi_cleanup(etcd->multi);
		curl_global_cleanup();
	}
	free(etcd->name);
	free(etcd->ca);
	free(etcd->cert);
	free(etcd->key);
	free(etcd);
}

const char *inc_etcd_name(const struct inc_etcd *etcd)
{
	return etcd->name;
}

const char *inc_etcd_prefix(const struct inc_etcd *etcd)
{
	return etcd->prefix;
}

/* --- requests --- */

static size_t on_bytes(char *bytes, size_t one, size_t n, void *arg)
{
	struct request *r = arg;
	char *more = r->answer_bytes + n <= ANSWER_MAX ? realloc(r->answer, r->answer_bytes + n + 1)
						       : NULL;

	if (!more)
		return 0;
	memcpy(more + r->answer_bytes, bytes, n);
	r->answer = more;
	r->answer_bytes += n;
	return n;
}

static void set_options(struct request *r, const char *url, size_t body_bytes,
			unsigned int limit_ms)
{
	CURL *easy = r->easy;

	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, r->headers);
	curl_easy_setopt(easy, CURLOPT_RESOLVE, r->addresses);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->body);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, r);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, r->curl_error);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* variables of the environment must not lead the controller's state through a proxy */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
	if (!r->etcd->secure)
		return;
	curl_easy_setopt(easy, CURLOPT_CAINFO, r->etcd->ca);
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	if (r->etcd->cert)
		curl_easy_setopt(easy, CURLOPT_SSLCERT, r->etcd->cert);
	if (r->etcd->key)
		curl_easy_setopt(easy, CURLOPT_SSLKEY, r->etcd->key);
}

/* Sends a request to this member, or to the next one that has an address. Returns 0, -ENOMEM, or
 * -EAGAIN if no member has an address. */
static int start(struct inc_etcd *etcd, unsigned int member, const char *path,
		 const json_t *request, unsigned int limit_ms, inc_etcd_done done, void *arg)
{
	const struct inc_hostport *at;
	struct request *r;
	char url[INC_HOSTPORT_TEXT_BYTES + 40];
	unsigned int skipped = 0;
	size_t n = 0;

	for (; !inc_etcd_name_known(etcd->names, member); member = (member + 1) % etcd->members.n)
		if (++skipped == etcd->members.n)
			return -EAGAIN;
	at = &etcd->members.at[member];
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->etcd = etcd;
	r->member = member;
	r->done = done;
	r->arg = arg;
	TAILQ_INSERT_TAIL(&etcd->requests, r, entry);
	r->body = inc_line_of(request, &n);
	r->easy = curl_easy_init();
	/* without "Expect:" a large request would first wait for a sign of the server */
	r->headers = curl_slist_append(NULL, "Expect:");
	if (*inc_etcd_name_addresses(etcd->names, member))
		r->addresses =
			curl_slist_append(NULL, inc_etcd_name_addresses(etcd->names, member));
	snprintf(url, sizeof(url),
		 strchr(at->host, ':') ? "%s://[%s]:%s/v3/%s" : "%s://%s:%s/v3/%s",
		 etcd->secure ? "https" : "http", at->host, at->port, path);
	if (r->body && r->easy && r->headers) {
		set_options(r, url, n, limit_ms);
		if (!curl_multi_add_handle(etcd->multi, r->easy))
			return 0;
	}
	free_request(r);
	return -ENOMEM;
}

/* Names the member in the reason of a failure. Returns -code. */
static int explain(const struct inc_etcd *etcd, unsigned int member, int code, struct inc_err *err,
		   const char *why)
{
	const struct inc_hostport *at = &etcd->members.at[member];
	const char *scheme = etcd->secure ? "https" : "http";

	return inc_err_set(err, code,
			   "etcd %s://%s:%s: %.200s; 'etcdctl --endpoints=%s://%s:%s endpoint "
			   "status' shows its state",
			   scheme, at->host, at->port, why, scheme, at->host, at->port);
}

static int error_of(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
		return ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
		return EHOSTUNREACH;
	case CURLE_OUT_OF_MEMORY:
		return ENOMEM;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CONNECT_ERROR:
		return EACCES;
	default:
		return EIO;
	}
}

static int error_of_answer(int64_t code)
{
	switch (code) {
	case CODE_DEADLINE:
		return ETIMEDOUT;
	case CODE_NOT_FOUND:
		return ENOENT;
	case CODE_DENIED:
	case CODE_UNAUTHENTICATED:
		return EACCES;
	case CODE_EXHAUSTED:
		return ENOSPC;
	case CODE_UNAVAILABLE:
		return EAGAIN;
	default:
		return EIO;
	}
}

/* Returns the result of a request that has ended: 0 with the answer, or -errno. */
static int result(struct request *r, CURLcode code, json_t **answer, struct inc_err *err)
{
	const char *why = *r->curl_error ? r->curl_error : curl_easy_strerror(code);
	long status = 0;
	json_t *got;
	int ret;

	*answer = NULL;
	if (code)
		return explain(r->etcd, r->member, error_of(code), err, why);
	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	got = inc_etcd_parse(r->answer, r->answer_bytes);
	why = json_string_value(json_object_get(got, "error"));
	if (got && !why && status == 200) {
		*answer = got;
		return 0;
	}
	ret = explain(r->etcd, r->member, error_of_answer(inc_etcd_number(got, "code")), err,
		      why ?: "its answer is not that of etcd's version 3 API");
	json_decref(got);
	return ret;
}

/* Whether another member may answer the request. A member may be refused because its own
 * certificate is wrong. */
static bool may_pass(int ret)
{
	return ret != -ENOENT && ret != -ENOSPC && ret != -ENOMEM;
}

/* A request for which the loop waits. */
struct call {
	unsigned int members; /* number of members */
	unsigned int first;   /* number of the member that is asked first */
	unsigned int tries, refused;
	uint64_t next_at_ns; /* when the next member is asked, by CLOCK_BOOTTIME */
	int ret;             /* the last error */
	json_t *answer;
	struct inc_err *err;
};

static void on_end(void *arg, int ret, const json_t *answer, const struct inc_err *err)
{
	struct call *call = arg;

	if (call->answer)
		return;
	call->answer = json_incref((json_t *)answer);
	call->refused = ret == -EACCES ? call->refused + 1 : 0;
	if (!ret)
		return;
	call->ret = ret;
	if (call->err)
		*call->err = *err;
	call->next_at_ns = inc_boot_ns();
	if (call->tries % call->members == 0)
		call->next_at_ns += ROUND_MS * INC_NSEC_PER_MSEC;
}

/* Ends the requests for which there is an answer or an error. */
static void finish(struct inc_etcd *etcd)
{
	struct inc_err err = {""};
	struct request *r;
	CURLMsg *msg;
	int left, ret;

	while ((msg = curl_multi_info_read(etcd->multi, &left))) {
		inc_etcd_done done;
		json_t *answer;
		void *arg;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &r);
		ret = result(r, msg->data.result, &answer, &err);
		if (ret && may_pass(ret) && r->member == etcd->at)
			etcd->at = (etcd->at + 1) % etcd->members.n;
		if (ret == -ECONNREFUSED || ret == -ETIMEDOUT)
			inc_etcd_name_refresh(
				etcd->names,
				r->member); /* its name may have another address by now */
		done = r->done;
		arg = r->arg;
		if (!ret && done == on_end)
			etcd->at = r->member; /* the first one that has answered is asked first */
		free_request(r);
		done(arg, ret, answer, &err);
		json_decref(answer);
	}
}

static void drive(struct inc_etcd *etcd)
{
	int running;

	curl_multi_perform(etcd->multi, &running);
	finish(etcd);
}

static void on_timer(void *arg)
{
	struct inc_etcd *etcd = arg;

	drive(etcd);
	if (!TAILQ_EMPTY(&etcd->requests))
		inc_timer_arm(etcd->timer, LOOK_MS);
}

int inc_etcd_send(struct inc_etcd *etcd, const char *path, json_t *request, unsigned int skip,
		  unsigned int limit_ms, inc_etcd_done done, void *arg)
{
	const unsigned int member = (etcd->at + skip) % etcd->members.n;
	int ret = request ? start(etcd, member, path, request, limit_ms, done, arg) : -ENOMEM;

	json_decref(request);
	if (!ret)
		inc_timer_arm(etcd->timer, 0);
	return ret;
}

void inc_etcd_on_wait(struct inc_etcd *etcd, void (*fn)(void *arg), void *arg)
{
	etcd->on_wait = fn;
	etcd->on_wait_arg = arg;
}

static unsigned int ms_left(uint64_t deadline_ns)
{
	return inc_ms_until(deadline_ns, inc_boot_ns());
}

static unsigned int shortest(unsigned int left_ms, unsigned int wait_ms)
{
	const unsigned int ms = left_ms < wait_ms ? left_ms : wait_ms;

	return ms < WAIT_MS ? ms : WAIT_MS;
}

/* Sends the request of a call to the next member. Returns 0 or -ENOMEM. If no member has an address
 * yet, that is the last error of the call. */
static int try_next(struct inc_etcd *etcd, struct call *call, const char *path,
		    const json_t *request, unsigned int left_ms)
{
	const unsigned int n = etcd->members.n, member = (call->first + call->tries++) % n;
	char why[200];
	int ret;

	/* with one member there is no other one to ask meanwhile */
	call->next_at_ns = inc_boot_ns() + (n > 1 ? HEDGE_MS : TRY_MS) * INC_NSEC_PER_MSEC;
	ret = start(etcd, member, path, request, left_ms < TRY_MS ? left_ms : TRY_MS, on_end, call);
	if (ret != -EAGAIN)
		return ret;
	call->next_at_ns = inc_boot_ns() + ROUND_MS * INC_NSEC_PER_MSEC;
	snprintf(why, sizeof(why), "its name cannot be looked up: %s",
		 inc_etcd_name_why(etcd->names, member));
	call->ret = explain(etcd, member, EHOSTUNREACH, call->err, why);
	return 0;
}

/* Frees the requests of a call that are still under way. */
static void cancel(struct inc_etcd *etcd, const struct call *call)
{
	struct request *r, *next;

	for (r = TAILQ_FIRST(&etcd->requests); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->arg == call)
			free_request(r);
	}
}

int inc_etcd_call(struct inc_etcd *etcd, const char *path, json_t *request, uint64_t deadline_ns,
		  json_t **answer, struct inc_err *err)
{
	struct call call = {.members = etcd->members.n, .first = etcd->at, .err = err};
	int ret = request ? 0 : inc_err_set(err, ENOMEM, "out of memory");

	while (!ret && !call.answer) {
		const unsigned int left_ms = ms_left(deadline_ns),
				   wait_ms = ms_left(call.next_at_ns);

		if (!left_ms) {
			ret = call.ret
				      ?: explain(etcd, etcd->at, ETIMEDOUT, err,
						 "no answer in time");
			break;
		}
		if (!wait_ms && try_next(etcd, &call, path, request, left_ms)) {
			ret = inc_err_set(err, ENOMEM, "no memory for a request to etcd");
			break;
		}
		if (wait_ms)
			curl_multi_poll(etcd->multi, NULL, 0, shortest(left_ms, wait_ms), NULL);
		if (etcd->on_wait)
			etcd->on_wait(etcd->on_wait_arg);
		drive(etcd);
		if (call.ret && (!may_pass(call.ret) || call.refused >= call.members))
			ret = call.ret;
	}
	cancel(etcd, &call);
	json_decref(request);
	*answer = call.answer;
	return call.answer ? 0 : ret;
}
