/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fake controller. It answers each line that it receives with the next one of its texts. After
 * the last text it is silent until the member leaves, or it closes the connection (hang_up). At the
 * text HANG_UP it also closes the connection, and continues with the member's next connection.
 */
#ifndef SELFTESTS_FAKES_CONTROLLER_H
#define SELFTESTS_FAKES_CONTROLLER_H

#include <pthread.h>
#include <stdbool.h>
#include "hostlib/include/inccl.h"

struct fake_controller {
	int listener;
	int fd; /* the member's connection; -1: none */
	unsigned short port;
	const char *const *answers;
	bool hang_up;
	/* the connection ended by a reset instead of an orderly close; set when the fake is
	 * stopped */
	bool was_reset;
	pthread_t thread;
	char received[4096];
};

#define JOINED_AS(group, rank, world_size)                                          \
	"{\"type\":\"G\",\"group\":" group ",\"addr\":\"127.0.0.1\",\"rank\":" rank \
	",\"world_size\":" world_size "}\n"
#define JOINED JOINED_AS("7", "0", "1")
#define CONN_TO(port, qp, payload, slots)                                                         \
	"{\"type\":\"C\",\"comm\":0,\"communicator\":12,\"payload\":" payload ",\"slots\":" slots \
	",\"connection\":{\"switch\":\"s0\",\"peer_ip\":\"127.0.0.1\",\"peer_port\":" port        \
	",\"peer_qp\":" qp ",\"peer_psn\":77,\"own_ip\":\"127.0.0.1\"}}\n"
#define CONN(qp, payload, slots) CONN_TO("4791", qp, payload, slots)
#define STARTED                  "{\"type\":\"start\",\"communicator\":12}\n"

extern const char HANG_UP[];

/* HASTY_MS: timeout of a creation that shall time out. PATIENT_MS: timeout of any other
 * creation. */
#define HASTY_MS   400
#define PATIENT_MS 20000

double now_s(void);
void fake_controller_start(struct fake_controller *f, const char *const *answers, bool hang_up);
void fake_controller_stop(struct fake_controller *f);
/* Serves a second connection to the same controller, with its own answers. The caller stops both
 * fakes after the last use of either. */
void fake_controller_beside(struct fake_controller *f, const struct fake_controller *first,
			    const char *const *answers, bool hang_up);
/* Sends a text from the test's thread, after the last answer. */
void fake_controller_send(struct fake_controller *f, const char *text);
/* Closes the member's connection, like a controller that ends. */
void fake_controller_hang_up(struct fake_controller *f);
/* The number in this field of the last line that was received with this field. */
long fake_controller_received_number(const struct fake_controller *f, const char *field);
/* Starts the fake controller and joins its group. opts has the rank, world size and log. */
int fake_controller_join(struct fake_controller *f, const char *const *answers, bool hang_up,
			 const struct inccl_group_opts *opts, struct inccl_group **group,
			 char error[256]);
/* Starts the fake controller and creates a group as rank 0 of 1. log may be NULL. */
int fake_controller_create(struct fake_controller *f, const char *const *answers, bool hang_up,
			   struct inccl_group **group, char error[256],
			   void (*log)(void *, const char *), void *log_ctx);

#endif
