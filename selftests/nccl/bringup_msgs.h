/* SPDX-License-Identifier: BSD-2-Clause */
/* Short names for the actions of a path's bring-up, and times for tests with one epoch. */
#ifndef NCCL_BRINGUP_MSGS_H
#define NCCL_BRINGUP_MSGS_H

#include "hostlib/nccl/bringup.h"
#include "lib/base/clock.h"

#define EPOCH      4u
#define AT_NS      (1000 * INC_NSEC_PER_SEC)
#define RETRY_NS   (HA_BRINGUP_RETRY_MS * INC_NSEC_PER_MSEC)
#define TIMEOUT_NS (HA_BRINGUP_TIMEOUT_MS * INC_NSEC_PER_MSEC)

#define DROP        HA_BRINGUP_DROP
#define MAKE        HA_BRINGUP_MAKE
#define OFFER       HA_BRINGUP_OFFER
#define ENTER       HA_BRINGUP_ENTER
#define SEND_READY  HA_BRINGUP_SEND_READY
#define SEND_FAILED HA_BRINGUP_SEND_FAILED
#define UP          HA_BRINGUP_UP
#define DOWN        HA_BRINGUP_DOWN

enum { FOLLOWER, LEADER, SIDES };

#endif
