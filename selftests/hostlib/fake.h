/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A controller in the hands of a test: it answers each line it gets with the next of its
 * texts, and after the last one keeps silent (or hangs up) until the member leaves. It hangs up
 * before HANG_UP, too, and goes on with the next connection.
 */
#ifndef SELFTESTS_FAKE_H
#define SELFTESTS_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include "hostlib/include/inccl.h"

struct fake {
	int listener;
	int fd; /* the member's connection; -1: none */
	unsigned short port;
	const char *const *answers;
	bool hang_up;
	bool was_reset; /* the connection has not ended in order; once it is stopped */
	pthread_t thread;
	char heard[4096];
};

#define JOINED_AS(group, rank, world_size)                                          \
	"{\"type\":\"G\",\"group\":" group ",\"addr\":\"127.0.0.1\",\"rank\":" rank \
	",\"world_size\":" world_size "}\n"
#define JOINED JOINED_AS("7", "0", "1")
#define CONN_TO(port, qp, payload, slots)                                                         \
	"{\"type\":\"C\",\"comm\":0,\"communicator\":12,\"payload\":" payload ",\"slots\":" slots \
	",\"connection\":{\"switch\":\"s0\",\"peer_ip\":\"127.0.0.1\",\"peer_port\":" port        \
	",\"peer_qp\":" qp ",\"peer_psn\":77,\"my_ip\":\"127.0.0.1\"}}\n"
#define CONN(qp, payload, slots) CONN_TO("4791", qp, payload, slots)
#define STARTED                  "{\"type\":\"start\",\"communicator\":12}\n"

extern const char HANG_UP[];

/* Time limits of a creation that must run into one, and of any other. */
#define HASTY_MS   400
#define PATIENT_MS 20000

double now_s(void);
void fake_start(struct fake *f, const char *const *answers, bool hang_up);
void fake_stop(struct fake *f);
/* Another connection to the same controller, beside that of the first one. Both are stopped after
 * the last use of either. */
void fake_beside(struct fake *f, const struct fake *first, const char *const *answers,
		 bool hang_up);
/* Unasked, from the test's own thread, after the last answer. */
void fake_say(struct fake *f, const char *text);
/* The controller goes away. */
void fake_hang_up(struct fake *f);
/* A number of the last line heard that has it. */
long fake_heard(const struct fake *f, const char *field);
/* Starts it and joins it; opts: rank, world size and log. */
int fake_join(struct fake *f, const char *const *answers, bool hang_up,
	      const struct inccl_group_opts *opts, struct inccl_group **group, char error[256]);
/* The same as rank 0 of 1; log may be NULL. */
int fake_create(struct fake *f, const char *const *answers, bool hang_up,
		struct inccl_group **group, char error[256], void (*log)(void *, const char *),
		void *log_ctx);

#endif
