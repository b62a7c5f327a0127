/* SPDX-License-Identifier: BSD-2-Clause */
/* Two paths' ends of a comm in one process: a sender's and a receiver's, on rails that the test
 * chooses. */
#ifndef TWO_PATHS_H
#define TWO_PATHS_H

#include "hostlib/nccl/path.h"

enum { SENDER, RECEIVER, N_ENDS };

#define PAYLOAD_BYTES 4096

struct two_paths {
	struct ha_path *path[N_ENDS];
	struct ibv_mr *source_mr, *target_mr;
};

/* Used by all paths. */
extern struct ha_devices devices;
extern struct ha_config config;
extern struct ha_rail rails[4];
extern struct ha_slot_wire *ring;
extern uint8_t source[PAYLOAD_BYTES], target[PAYLOAD_BYTES];

/* Opens n devices of this machine in the order of their names. Each is a rail. */
void open_rails(unsigned int n);
void close_rails(void);
/* Refreshes the inventory's view of the devices. */
void refresh_rails(void);

/* Makes one end of a path, in INIT. */
int make_end(struct two_paths *two, int end, unsigned int rail, uint32_t epoch,
	     struct inc_err *err);
/* Makes both ends and the memory of payloads. Returns 0, or the error of the first call that failed
 * after destroying everything. */
int try_two(struct two_paths *two, const unsigned int rail[N_ENDS], uint32_t epoch,
	    struct inc_err *err);
void make_two(struct two_paths *two, unsigned int sender_rail, unsigned int receiver_rail,
	      uint32_t epoch);
void destroy_two(struct two_paths *two);

/* Polls until an event occurs. Fails if that takes seconds. */
struct ha_path_event next_event(struct ha_path *path);
/* Polls once, and checks that no event occurred. */
void expect_nothing(struct ha_path *path);

void fence(struct ha_path *path);
/* Polls until no request is posted any more. Returns how many payloads it reported. Other events
 * may be messages and failed completions. */
unsigned int drain(struct ha_path *path);

/* Sends a SEND that is shorter than a control message. A retransmission of rxe in Linux 6.1 may
 * have this form. */
void send_short(struct ha_path *path, uint32_t bytes);

/* Writes `bytes` bytes of source into target, with this sequence. */
int write_payload(const struct two_paths *two, uint32_t index, uint32_t bytes, uint32_t sequence);
/* Expect the sender's completion of that write, and the receiver's. */
void expect_written(const struct two_paths *two, uint32_t index);
void expect_landed(const struct two_paths *two, uint32_t sequence, uint32_t bytes);

#endif
