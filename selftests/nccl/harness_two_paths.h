/* SPDX-License-Identifier: BSD-2-Clause */
/* One path with both of its ends in one process: a sender's and a receiver's, on rails that the
 * test chooses. */
#ifndef SELFTESTS_NCCL_HARNESS_TWO_PATHS_H
#define SELFTESTS_NCCL_HARNESS_TWO_PATHS_H

#include "hostlib/nccl/path.h"

enum { SENDER, RECEIVER, N_ENDS };

#define PAYLOAD_BYTES 4096

struct two_paths {
	struct ha_path *path[N_ENDS];
	struct ibv_mr *source_mr, *target_mr;
};

/* The devices that all paths of this process use. */
extern struct ha_devices devices;
extern struct ha_config config;
extern struct ha_rail rails[4];
extern struct ha_slot_wire *ring;
extern uint8_t source[PAYLOAD_BYTES], target[PAYLOAD_BYTES];

/* Opens n devices of this machine in the order of their names. Each device is a rail. */
void open_rails(unsigned int n);
void close_rails(void);
/* Refreshes the inventory's list of devices. */
void refresh_rails(void);

/* Makes one end of a path, whose queue pair is in state INIT. */
int make_end(struct two_paths *two, int end, unsigned int rail, uint32_t epoch,
	     struct inc_err *err);
/* Makes both ends and the memory of payloads. Returns 0. If a call fails, destroys everything and
 * returns the error. */
int try_two(struct two_paths *two, const unsigned int rail[N_ENDS], uint32_t epoch,
	    struct inc_err *err);
void make_two(struct two_paths *two, unsigned int sender_rail, unsigned int receiver_rail,
	      uint32_t epoch);
void destroy_two(struct two_paths *two);

/* Polls the path until an event occurs. Fails if that takes seconds. */
struct ha_path_event next_event(struct ha_path *path);
/* Polls the path once, and checks that no event occurred. */
void expect_nothing(struct ha_path *path);

void fence(struct ha_path *path);
/* Polls the path until no request is posted any more. Returns the number of payloads that it has
 * reported. Messages and failed completions may occur, too. */
unsigned int drain(struct ha_path *path);

/* Sends a SEND that is shorter than a control message. A retransmission of rxe in Linux 6.1 may
 * have this form. */
void send_short(struct ha_path *path, uint32_t bytes);

/* Writes `bytes` bytes of source into target, with this sequence number. */
int write_payload(const struct two_paths *two, uint32_t index, uint32_t bytes, uint32_t sequence);
/* Expects the sender's completion of that write, and the receiver's. */
void expect_written(const struct two_paths *two, uint32_t index);
void expect_landed(const struct two_paths *two, uint32_t sequence, uint32_t bytes);

#endif
