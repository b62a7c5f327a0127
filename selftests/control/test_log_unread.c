/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log whose reader does not read: inc_log_unblocked() drops lines and never blocks, whatever
 * stderr is. A child process writes the log, because a process has only one stderr. The test reads
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include "lib/base/log.h"

#define LINES   3000 /* number of lines, which is more than any kind of stderr can buffer */
#define WAIT_MS 20000
#define LIMIT_S 120

enum kind { PIPE, SOCKET, TERMINAL, STOPPED };

struct log {
	pid_t child;
	int reader, writer; /* the two ends of the log */
	int full;           /* becomes readable after the child has logged all LINES */
	bool has_note;
	unsigned int next; /* number of the next line that must come */
};

static void open_ends(struct log *log, enum kind kind)
{
	int fds[2];

	if (kind == PIPE)
		assert_int_equal(pipe(fds), 0);
	else if (kind == SOCKET)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	else
		assert_int_equal(openpty(&fds[0], &fds[1], NULL, NULL, NULL), 0);
	if (kind == STOPPED)
		/* stops the terminal's output, like Ctrl-S */
		assert_int_equal(tcflow(fds[1], TCOOFF), 0);
	log->reader = fds[0];
	log->writer = fds[1];
}

/* Logs so many lines that the log is full, reports that to the test, and then logs whenever there
 * is room. */
static void run_child(int writer, int full)
{
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
	unsigned int i;

	dup2(writer, STDERR_FILENO);
	alarm(LIMIT_S);
	inc_log_init("child");
	inc_log_sink(inc_log_unblocked);
	for (i = 0; i < LINES; i++)
		inc_warn("line %u of a log that is as long as such lines often are", i);
	if (write(full, "", 1) != 1)
		_exit(1);
	for (;; i++) {
		poll(&room, 1, -1);
		inc_warn("line %u of a log that is as long as such lines often are", i);
	}
}

/* Accounts for one line of the log. Lines and notes about dropped lines must add up to everything
 * that was logged. */
static void take_line(struct log *log, const char *line)
{
	unsigned int n;
	const char *text = strstr(line, "child: ");
	char rest[64] = "";

	if (!text || strlen(line) < 30 || line[4] != '-')
		fail_msg("no whole line: '%s'", line);
	text += strlen("child: ");
	if (sscanf(text, "%u lines were left out %60s", &n, rest) == 2) {
		log->next += n;
		log->has_note = true;
		return;
	}
	if (sscanf(text, "line %u of a log that is as long as such lines often %60s", &n, rest) !=
		    2 ||
	    strcmp(rest, "are") != 0)
		fail_msg("no whole line: '%s'", line);
	assert_int_equal(n, log->next);
	log->next++;
}

/* Reads the log until a line has come after a note and after all LINES. On a terminal a note may
 * come before LINES, because the kernel makes room while the child logs. */
static void read_log(struct log *log)
{
	char line[512], c;
	size_t len = 0;
	unsigned int noted = 0;

	while (!log->has_note || log->next == noted || log->next <= LINES) {
		assert_int_equal(read(log->reader, &c, 1), 1);
		if (c == '\r')
			continue;
		if (c != '\n') {
			assert_true(len < sizeof(line) - 1);
			line[len++] = c;
			continue;
		}
		line[len] = '\0';
		take_line(log, line);
		len = 0;
		if (!noted && log->has_note)
			noted = log->next;
	}
}

static void begin(struct log *log, enum kind kind)
{
	int full[2];

	*log = (struct log){};
	open_ends(log, kind);
	assert_int_equal(pipe(full), 0);
	log->full = full[0];
	log->child = fork();
	assert_true(log->child >= 0);
	if (!log->child)
		run_child(log->writer, full[1]);
	close(full[1]);
}

static void end(struct log *log)
{
	kill(log->child, SIGKILL);
	assert_int_equal(waitpid(log->child, NULL, 0), log->child);
	close(log->reader);
	close(log->writer);
	close(log->full);
}

static void goes_on(enum kind kind)
{
	struct log log;
	bool went_on;

	begin(&log, kind);
	went_on = poll(&(struct pollfd){.fd = log.full, .events = POLLIN}, 1, WAIT_MS) == 1;
	if (went_on && kind == STOPPED)
		assert_int_equal(tcflow(log.writer, TCOON), 0);
	if (went_on)
		read_log(&log);
	end(&log);
	assert_true(went_on);
}

static void test_pipe(void **state)
{
	goes_on(PIPE);
}

static void test_socket(void **state)
{
	goes_on(SOCKET);
}

static void test_terminal(void **state)
{
	goes_on(TERMINAL);
}

static void test_stopped_terminal(void **state)
{
	goes_on(STOPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_socket),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_stopped_terminal),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("log that is not read", tests, NULL, NULL);
}
