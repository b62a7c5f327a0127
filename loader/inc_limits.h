/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can be asked of a switch of XDP programs, and where it lives: for those who read options
 * and files. inc_loader.h has what can be done with one.
 */
#ifndef INC_LIMITS_H
#define INC_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/proto/desc.h"
#include "lib/proto/maps.h"

#define INC_BPFFS        "/sys/fs/bpf"
#define INC_PIN_ROOT     INC_BPFFS "/inc"
#define INC_RUN_DIR      "/run/inc"
#define INC_LOCK_PATH    INC_RUN_DIR "/%s.lock" /* of an instance that may load programs */
#define INC_INSTANCE_LEN 32                     /* with the final 0; letters, digits, '-' and '_' */
#define INC_DEF_COMMS    64
#define INC_DEF_CONNS    1024
#define INC_DEF_ROWS     16384 /* of sizeof(struct inc_buf), and half as many for results */
#define INC_MAX_COMMS    1024
#define INC_MAX_CONNS    32768
#define INC_MAX_ROWS     (1 << 20)

enum inc_attach {
	INC_ATTACH_AUTO = 0, /* libxdp, and a bpf_link where libxdp cannot */
	INC_ATTACH_LIBXDP,
	INC_ATTACH_BPF_LINK,
};

/* -EINVAL with a message for what cannot name an instance. */
int inc_instance_name_check(const char *instance, struct inc_err *err);

/* Rows of inc_root_child that a switch of so many communicators has: four for each, which is 256
 * ranks, and those of one as large as can be. */
static inline uint32_t inc_switch_root_rows(uint32_t max_comms)
{
	return 4 * max_comms + INC_MAX_RANKS / INC_ROOTS_PER_ROW;
}

/* Result rows, and slots, that a switch of so many contribution rows has. */
uint32_t inc_switch_sum_rows(uint32_t max_rows);

/* Has a daemon of this instance left something that its next one takes over? */
bool inc_switch_left(const char *instance);

#endif
