/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "selftests/fakes/controller.h"

#define REPORT "{\"type\":\"failed\""

const char HANG_UP[] = "";

double now_s(void)
{
	return (double)inc_now_ns() / INC_NSEC_PER_SEC;
}

static void *serve(void *arg)
{
	struct fake_controller *f = arg;
	const char *const *answer = f->answers;
	size_t used = 0, line = 0;
	bool report;
	ssize_t n;
	char c;

again:
	f->fd = accept(f->listener, NULL, NULL);
	if (f->fd < 0)
		return NULL;
	while ((n = read(f->fd, &c, 1)) == 1) {
		if (used < sizeof(f->received) - 1)
			f->received[used++] = c;
		if (c != '\n')
			continue;
		/* the controller does not answer a failure report (docs/control.md), and so neither
		 * does this one */
		report = !strncmp(f->received + line, REPORT, sizeof(REPORT) - 1);
		line = used;
		if (report && *answer && **answer)
			continue;
		if (*answer && write(f->fd, *answer, strlen(*answer)) < 0)
			break;
		if (*answer)
			answer++;
		if (*answer == HANG_UP) {
			answer++;
			close(f->fd);
			goto again;
		}
		if (!*answer && f->hang_up)
			break;
	}
	f->was_reset = n < 0;
	/* fake_controller_stop() closes the descriptor, because no other thread uses it then */
	shutdown(f->fd, SHUT_RDWR);
	return NULL;
}

void fake_controller_start(struct fake_controller *f, const char *const *answers, bool hang_up)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->answers = answers;
	f->hang_up = hang_up;
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	f->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(f->listener >= 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(f->listener, 4), 0);
	assert_int_equal(getsockname(f->listener, (struct sockaddr *)&addr, &len), 0);
	f->port = ntohs(addr.sin_port);
	assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void fake_controller_beside(struct fake_controller *f, const struct fake_controller *first,
			    const char *const *answers, bool hang_up)
{
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->answers = answers;
	f->hang_up = hang_up;
	f->listener = dup(first->listener);
	assert_true(f->listener >= 0);
	assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void fake_controller_stop(struct fake_controller *f)
{
	shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	if (f->fd >= 0)
		close(f->fd);
	close(f->listener);
}

void fake_controller_send(struct fake_controller *f, const char *text)
{
	size_t len = strlen(text);

	assert_int_equal(write(f->fd, text, len), len);
}

void fake_controller_hang_up(struct fake_controller *f)
{
	shutdown(f->fd, SHUT_RDWR);
}

long fake_controller_received_number(const struct fake_controller *f, const char *field)
{
	char key[64];
	const char *at = f->received, *found = NULL;

	snprintf(key, sizeof(key), "\"%s\":", field);
	while ((at = strstr(at, key))) {
		at += strlen(key);
		found = at;
	}
	assert_non_null(found);
	return strtol(found, NULL, 10);
}

int fake_controller_join(struct fake_controller *f, const char *const *answers, bool hang_up,
			 const struct inccl_group_opts *more, struct inccl_group **group,
			 char error[256])
{
	struct inccl_group_opts opts = *more;
	double begin = now_s();
	char controller[32];
	int ret;

	error[0] = 0;
	fake_controller_start(f, answers, hang_up);
	snprintf(controller, sizeof(controller), "127.0.0.1:%u", f->port);
	opts.controller = controller;
	opts.job = "t";
	opts.address = "127.0.0.1";
	/* with answers, the wait ends by an answer, but a busy machine may delay the test for long
	 * before that */
	opts.create_timeout_ms = *answers ? PATIENT_MS : HASTY_MS;
	opts.error = error;
	opts.error_size = 256;
	ret = inccl_group_create(&opts, group);
	assert_true(now_s() - begin < 2 * PATIENT_MS / 1000.0);
	return ret;
}

int fake_controller_create(struct fake_controller *f, const char *const *answers, bool hang_up,
			   struct inccl_group **group, char error[256],
			   void (*log)(void *, const char *), void *log_ctx)
{
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .log = log, .log_ctx = log_ctx);

	return fake_controller_join(f, answers, hang_up, &opts, group, error);
}
