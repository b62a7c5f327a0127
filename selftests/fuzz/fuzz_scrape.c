// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 2500
 *
 * Target: the HTTP server of metrics and pages (lib/net/scrape.h), over a real connection, with
 * requests in pieces. The answer to any request must begin as an HTTP answer. While each piece is
 * read, an honest reader is in the middle of its request, and must then receive the whole page.
 * Meanwhile the thread's errno has an unrelated value.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/event.h>
#include "lib/net/scrape.h"
#include "selftests/fuzz/fuzz.h"

#define TURNS     16
#define PIECES    4
#define PORT_FROM 20000
#define PORTS     20000
#define PAGE_MS   5000 /* longest time that an honest reader waits for the page */

static struct event_base *base;
static struct sockaddr_in at = {.sin_family = AF_INET};

static bool part(void *arg, struct inc_scrape_at *where, FILE *out)
{
	fprintf(out, "figure %u\n", where->place);
	return ++where->place < 3;
}

/* A site that answers HEAD, too, and has headers of its own, as the page of inc-controller has. */
static const struct inc_scrape_site site = {
	.what = "page",
	.path = "/metrics",
	.head = true,
	.headers = (const struct inc_scrape_header[]){{"Cache-Control", "no-store"}, {}},
};

/* Opens a new server for each input, because connections that were closed are freed only after a
 * while. The server reports a port that the kernel has chosen only in its log, so the port is
 * chosen here. */
static struct inc_scrape *start(bool is_site)
{
	static unsigned int tried;
	struct inc_scrape *scrape;
	char where[32];
	struct inc_err err = {""};

	for (; tried < PORTS; tried++) {
		const unsigned int port = PORT_FROM + ((unsigned int)getpid() + tried * 7) % PORTS;

		snprintf(where, sizeof(where), "127.0.0.1:%u", port);
		if (is_site ? inc_scrape_start_site(base, where, &site, part, NULL, &scrape, &err)
			    : inc_scrape_start(base, where, part, NULL, &scrape, &err))
			continue;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		at.sin_port = htons(port);
		return scrape;
	}
	fuzz_wrong(__FILE__, __LINE__, "no port: %s", err.msg);
}

static int dial(void)
{
	static const struct linger reset = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fuzz_require(fd >= 0, "socket: %s", strerror(errno));
	/* the fuzzer's own timer may interrupt connect(), which continues nevertheless */
	while (connect(fd, (struct sockaddr *)&at, sizeof(at)) && errno != EISCONN)
		fuzz_require(errno == EINTR || errno == EALREADY, "connect: %s", strerror(errno));
	/* this option prevents that ports remain in TIME_WAIT */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return fd;
}

/* Runs the event loop with an arbitrary errno, because the caller of the loop may have any
 * value. */
static void loop(void)
{
	errno = ENOTEMPTY;
	event_base_loop(base, EVLOOP_NONBLOCK);
}

static void turn(int fd, char *answer, size_t size, size_t *len)
{
	ssize_t n;
	int i;

	for (i = 0; i < TURNS; i++) {
		loop();
		n = recv(fd, answer + *len, size - 1 - *len, MSG_DONTWAIT);
		if (n > 0)
			*len += (size_t)n;
		else if (i > 2)
			break;
	}
}

static void ask(int fd, const char *part)
{
	fuzz_require(send(fd, part, strlen(part), MSG_NOSIGNAL) == (ssize_t)strlen(part),
		     "an honest reader cannot ask: %s", strerror(errno));
	loop();
}

/* Sends the rest of the honest reader's request, and expects the page. */
static void read_page(int fd)
{
	static const char parts[] =
		"9\r\nfigure 0\n\r\n9\r\nfigure 1\n\r\n9\r\nfigure 2\n\r\n0\r\n\r\n";
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char page[1024];
	const char *body;
	size_t len = 0;
	ssize_t n = 1;

	ask(fd, "ics HTTP/1.1\r\nHost: here\r\n\r\n");
	for (int ms = 0; n && ms < PAGE_MS && len < sizeof(page) - 1; ms++) {
		loop();
		n = poll(&pfd, 1, 1) > 0 ? recv(fd, page + len, sizeof(page) - 1 - len, 0) : -1;
		len += n > 0 ? n : 0;
	}
	page[len] = 0;
	body = strstr(page, "\r\n\r\n");
	fuzz_require(!n && !strncmp(page, "HTTP/1.1 200 OK\r\n", 17) && body &&
			     !strcmp(body + 4, parts),
		     "an honest reader receives '%s'", page);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	static char answer[1 << 16];
	struct inc_scrape *scrape;
	size_t len = 0, n;
	unsigned int i;
	int fd, honest;

	base = event_base_new();
	fuzz_require(base, "no loop");
	scrape = start(size % 2);
	fd = dial();
	for (i = 0; i < PIECES && bytes.size; i++) {
		n = i + 1 < PIECES ? fuzz_take8(&bytes) * 4u : bytes.size;
		n = n < bytes.size ? n : bytes.size;
		honest = dial();
		ask(honest, "GET /metr");
		send(fd, bytes.data, n, MSG_NOSIGNAL);
		bytes.data += n;
		bytes.size -= n;
		turn(fd, answer, sizeof(answer), &len);
		read_page(honest);
	}
	answer[len] = 0;
	fuzz_require(strlen(answer) == len, "a NUL in the answer");
	fuzz_require(!len || !strncmp(answer, "HTTP/", 5), "no answer of HTTP: %.40s", answer);
	close(fd);
	loop();
	inc_scrape_stop(scrape);
	event_base_free(base);
	return 0;
}
