/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths between the two ends of a comm, in one process: a sender's and a receiver's, over rails
 * that the test has chosen. */
#ifndef TWO_PATHS_H
#define TWO_PATHS_H

#include "hostlib/nccl/path.h"

enum { SENDER, RECEIVER, N_ENDS };

#define PAYLOAD_BYTES 4096

struct two_paths {
	struct ha_path *path[N_ENDS];
	struct ibv_mr *source_mr, *target_mr;
};

/* What all paths use. */
extern struct ha_devices devices;
extern struct ha_config config;
extern struct ha_rail rails[4];
extern struct ha_slot_wire *ring;
extern uint8_t source[PAYLOAD_BYTES], target[PAYLOAD_BYTES];

/* Opens the machine's devices, so many: a rail each, in the order of their names. */
void open_rails(unsigned int n);
void close_rails(void);
/* The inventory's view of them is that of now. */
void refresh_rails(void);

/* One end, in INIT. */
int make_end(struct two_paths *two, int end, unsigned int rail, uint32_t epoch,
	     struct inc_err *err);
/* Both, and the memory of payloads: 0, or the error of the first call that fails, after which all
 * is destroyed. */
int try_two(struct two_paths *two, const unsigned int rail[N_ENDS], uint32_t epoch,
	    struct inc_err *err);
void make_two(struct two_paths *two, unsigned int sender_rail, unsigned int receiver_rail,
	      uint32_t epoch);
void destroy_two(struct two_paths *two);

/* Polls until an event comes; fails where that takes seconds. */
struct ha_path_event next_event(struct ha_path *path);
/* Polls once: none has come. */
void expect_nothing(struct ha_path *path);

void fence(struct ha_path *path);
/* Polls until nothing is posted any more: how many payloads that has told. What else it tells are
 * messages, and completions that have failed. */
unsigned int drain(struct ha_path *path);

/* Sends a SEND that is shorter than a control message, as rxe of Linux 6.1 may send one again. */
void send_short(struct ha_path *path, uint32_t bytes);

/* Writes so many bytes of source into target, with this sequence. */
int write_payload(const struct two_paths *two, uint32_t index, uint32_t bytes, uint32_t sequence);
/* The sender's completion of that, and the receiver's. */
void expect_written(const struct two_paths *two, uint32_t index);
void expect_landed(const struct two_paths *two, uint32_t sequence, uint32_t bytes);

#endif
