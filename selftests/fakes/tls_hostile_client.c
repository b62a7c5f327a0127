// SPDX-License-Identifier: BSD-2-Clause
/*
 * tls_hostile_client KEYFILE ADDRESS PORT flood|half: a hostile client for test_keys. It connects
 * to a real program, authenticates with a valid key, sends the attack that tls_hostile.h describes,
 * and ends the stream. It waits until the other side has ended the stream, too, because that side
 * has then read everything.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "selftests/fakes/tls_hostile.h"

static void give_up(const char *what)
{
	fprintf(stderr, "tls_hostile_client: %s\n", what);
	exit(1);
}

static int dial(const char *address, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		give_up("no connection");
	return fd;
}

static void send_all(struct tls_hostile *h, int fd)
{
	size_t n;
	const void *bytes = tls_hostile_output(h, &n);

	if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
		give_up("it cannot be sent");
	tls_hostile_sent(h);
}

int main(int argc, char **argv)
{
	struct inc_err err = {""};
	struct tls_hostile *h;
	struct inc_tls *tls;
	char bytes[4096];
	ssize_t n;
	int fd;

	if (argc != 5)
		give_up("usage: tls_hostile_client KEYFILE ADDRESS PORT flood|half");
	tls = inc_tls_client(&(struct inc_tls_files){.key = argv[1]}, &err);
	if (!tls)
		give_up(err.msg);
	fd = dial(argv[2], argv[3]);
	h = tls_hostile_new(tls);
	send_all(h, fd);
	while (!tls_hostile_done(h)) {
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			give_up("no handshake");
		tls_hostile_take(h, bytes, n);
	}
	if (strcmp(argv[4], "flood"))
		tls_hostile_half(h);
	else
		tls_hostile_flood(h);
	send_all(h, fd);
	shutdown(fd, SHUT_WR);
	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
	close(fd);
	tls_hostile_free(h);
	inc_tls_free(tls);
	return 0;
}
