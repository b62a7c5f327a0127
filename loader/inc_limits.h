/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options, limits and paths of a switch of XDP programs, for code that reads options and files.
 * inc_loader.h has the functions.
 */
#ifndef INC_LIMITS_H
#define INC_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/proto/desc.h"
#include "lib/proto/maps.h"

#define INC_BPFFS    "/sys/fs/bpf"
#define INC_PIN_ROOT INC_BPFFS "/inc"
#define INC_RUN_DIR  "/run/inc"
/* file that an instance locks, so that one process at a time loads its programs */
#define INC_LOCK_PATH INC_RUN_DIR "/%s.lock"
/* size of an instance's name with the final 0; the name consists of letters, digits, '-' and '_' */
#define INC_INSTANCE_LEN 32
#define INC_DEF_COMMS    64
#define INC_DEF_CONNS    1024
/* default of the rows for contributions, of sizeof(struct inc_buf) bytes each; there are half as
 * many rows for results */
#define INC_DEF_ROWS  16384
#define INC_MAX_COMMS 1024
#define INC_MAX_CONNS 32768
#define INC_MAX_ROWS  (1 << 20)

enum inc_attach {
	INC_ATTACH_AUTO = 0, /* attach by libxdp, or by a bpf_link if libxdp cannot attach */
	INC_ATTACH_LIBXDP,
	INC_ATTACH_BPF_LINK,
};

/* Checks an instance's name. Returns 0, or -EINVAL with a message if the text is not valid. */
int inc_instance_name_check(const char *instance, struct inc_err *err);

/* Returns the number of rows of inc_root_child in a switch with so many communicators: four for
 * each, which is enough for 256 ranks, and the rows of one communicator of the largest size. */
static inline uint32_t inc_switch_root_rows(uint32_t max_comms)
{
	return 4 * max_comms + INC_MAX_RANKS / INC_ROOTS_PER_ROW;
}

/* Returns the number of result rows, which is also that of slots, in a switch with so many
 * contribution rows. */
uint32_t inc_switch_sum_rows(uint32_t max_rows);

/* Whether a daemon of this instance has ended and left pins, which the next daemon takes over. */
bool inc_switch_left(const char *instance);

#endif
