// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 2500
 * HTTP requests to who shows figures (lib/net/scrape.h), over a real connection, in pieces.
 * Whatever comes, what is answered is text that begins as an answer of HTTP does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
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

static struct event_base *base;
static struct sockaddr_in at = {.sin_family = AF_INET};

static bool part(void *arg, struct inc_scrape_at *where, FILE *out)
{
	fprintf(out, "figure %u\n", where->place);
	return ++where->place < 3;
}

/* Anew for each input: who is gone is given back only after a while. The port that is free is told
 * to the log alone, so it is chosen here. */
static struct inc_scrape *start(void)
{
	static unsigned int tried;
	struct inc_scrape *scrape;
	char where[32];
	struct inc_err err = {""};

	for (; tried < PORTS; tried++) {
		const unsigned int port = PORT_FROM + ((unsigned int)getpid() + tried * 7) % PORTS;

		snprintf(where, sizeof(where), "127.0.0.1:%u", port);
		if (inc_scrape_start(base, where, part, NULL, &scrape, &err))
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
	/* the fuzzer's own timer may interrupt it, and it goes on */
	while (connect(fd, (struct sockaddr *)&at, sizeof(at)) && errno != EISCONN)
		fuzz_require(errno == EINTR || errno == EALREADY, "connect: %s", strerror(errno));
	/* leaves no port behind that is waiting */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return fd;
}

static void turn(int fd, char *answer, size_t size, size_t *len)
{
	ssize_t n;
	int i;

	for (i = 0; i < TURNS; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = recv(fd, answer + *len, size - 1 - *len, MSG_DONTWAIT);
		if (n > 0)
			*len += (size_t)n;
		else if (i > 2)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	static char answer[1 << 16];
	struct inc_scrape *scrape;
	size_t len = 0, n;
	unsigned int i;
	int fd;

	base = event_base_new();
	fuzz_require(base, "no loop");
	scrape = start();
	fd = dial();
	for (i = 0; i < PIECES && bytes.size; i++) {
		n = i + 1 < PIECES ? fuzz_take8(&bytes) * 4u : bytes.size;
		n = n < bytes.size ? n : bytes.size;
		send(fd, bytes.data, n, MSG_NOSIGNAL);
		bytes.data += n;
		bytes.size -= n;
		turn(fd, answer, sizeof(answer), &len);
	}
	answer[len] = 0;
	fuzz_require(strlen(answer) == len, "a NUL in the answer");
	fuzz_require(!len || !strncmp(answer, "HTTP/", 5), "no answer of HTTP: %.40s", answer);
	close(fd);
	event_base_loop(base, EVLOOP_NONBLOCK);
	inc_scrape_stop(scrape);
	event_base_free(base);
	return 0;
}
