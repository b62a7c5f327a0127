/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that ask a service one question: for its ports (inc_connect_query()), or for its figures
 * (inc_connect_ask_figures()). */
#include <stdlib.h>
#include "hostlib/connect/request.h"

struct connect_question {
	struct inc_connect_request request; /* must be the first member */
	const struct connect_question_kind *about;
	struct inc_connect_devices *devices; /* the answer to CONNECT_MSG_QUERY */
	char *figures;
	inc_connect_queried devices_done;
	inc_connect_told figures_done;
};

struct connect_question_kind {
	enum connect_message_id ask, answer;
	/* Stores the service's answer in question. Returns 0, or -errno with the reason in
	 * request.why. */
	int (*read)(struct connect_question *question, json_t *object);
};

static void on_up(void *arg)
{
	struct connect_question *question = arg;
	int ret = connect_request_ask(arg, question->about->ask);

	if (ret)
		connect_request_finish(arg, ret);
}

static void on_message(void *arg, json_t *object)
{
	struct connect_question *question = arg;

	connect_request_finish(arg, question->about->read(question, object));
}

static void on_down(void *arg, int error, const char *why)
{
	struct inc_connect_request *request = arg;

	inc_err_set(&request->why, -error, "%s", why);
	connect_request_finish(request, error);
}

static void time_out(struct inc_connect_request *request)
{
	connect_request_finish(request, request->error);
}

/* does nothing, because a question uses nothing of the context but the request itself */
static void detach(struct inc_connect_request *request)
{
}

static void report(struct inc_connect_request *request)
{
	const struct connect_question *question = (const struct connect_question *)request;
	const char *why = request->error ? request->why.msg : NULL;

	if (question->devices_done)
		question->devices_done(request->arg, request->error, why,
				       request->error ? NULL : question->devices);
	else
		question->figures_done(request->arg, request->error, why,
				       request->error ? NULL : question->figures);
}

static void release(struct inc_connect_request *request)
{
	struct connect_question *question = (struct connect_question *)request;

	free(question->devices);
	free(question->figures);
}

static const struct connect_request_kind kind = {
	.size = sizeof(struct connect_question),
	.call = {.up = on_up, .message = on_message, .down = on_down},
	.time_out = time_out,
	.detach = detach,
	.report = report,
	.release = release,
};

static int read_devices(struct connect_question *question, json_t *object)
{
	return connect_request_devices(&question->request, object, &question->devices);
}

static int read_figures(struct connect_question *question, json_t *object)
{
	int ret = connect_request_answer(&question->request, object, CONNECT_MSG_FIGURES, NULL);

	if (ret)
		return ret;
	question->figures = connect_figures_text(json_object_get(object, "families"));
	return question->figures ? 0 : connect_request_no_memory(&question->request);
}

static void ask(struct inc_connect_request *request)
{
	int ret = connect_request_call(request);

	if (ret)
		connect_request_finish(request, ret);
}

int inc_connect_query(struct inc_connect *ctx, const char *address,
		      const struct inc_connect_request_opts *opts, inc_connect_queried done,
		      struct inc_connect_request **out)
{
	static const struct connect_question_kind about = {CONNECT_MSG_QUERY, CONNECT_MSG_DEVICES,
							   read_devices};
	int ret = connect_request_make(ctx, address, opts, done, &kind, out);

	if (ret)
		return ret;
	((struct connect_question *)*out)->about = &about;
	((struct connect_question *)*out)->devices_done = done;
	ask(*out);
	return 0;
}

int inc_connect_ask_figures(struct inc_connect *ctx, const char *address,
			    const struct inc_connect_request_opts *opts, inc_connect_told done,
			    struct inc_connect_request **out)
{
	static const struct connect_question_kind about = {CONNECT_MSG_ASK_FIGURES,
							   CONNECT_MSG_FIGURES, read_figures};
	int ret = connect_request_make(ctx, address, opts, done, &kind, out);

	if (ret)
		return ret;
	((struct connect_question *)*out)->about = &about;
	((struct connect_question *)*out)->figures_done = done;
	ask(*out);
	return 0;
}
