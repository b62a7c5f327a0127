/* SPDX-License-Identifier: BSD-2-Clause */
/* A communicator on its way into the maps: inc_comm_plan.c decides what they get, inc_comm.c writes
 * it. */
#ifndef INC_COMM_PLAN_H
#define INC_COMM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"

/* How far the making of a communicator has come; undone from the last to the first. */
struct inc_comm_build {
	struct inc_comm_cfg cfg;
	struct inc_conn_cfg conn[INC_MAX_CONNECTIONS]; /* the parent's behind the children's */
	union inc_mac peer[INC_MAX_CONNECTIONS];       /* as far as it is known */
	struct inc_root_row roots[INC_MAX_RANKS / INC_ROOTS_PER_ROW];
	uint32_t comm;    /* the index that it gets */
	uint32_t lookups; /* entries of inc_conn_lookup made, with those of inc_conn_place */
	bool ports;       /* its rows of inc_comm_ports set */
};

/* Validates all of conf and finds places for what it needs. 0; or -errno, and nothing has changed.
 */
int inc_comm_plan(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		  struct inc_comm_build *b, struct inc_err *err);
/* The same as far as it hangs on conf alone: without places, and unchecked. */
int inc_comm_plan_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct inc_comm_build *b, struct inc_err *err);
/* Who shares a port with whom, and where each port's children begin. Children of one port stand
 * together; where no child is, port_child is 0 before. */
void inc_comm_plan_ports(struct inc_comm_build *b);
/* The Ethernet address of an interface. */
int inc_port_mac(uint32_t ifindex, uint8_t mac[6]);
/* inc_comm.c, for inc_port.c: the communicator's rows of inc_comm_cfg and of inc_conn_cfg. */
int inc_comm_write(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* inc_comm.c, for inc_adopt.c and inc_port.c: its rows of inc_comm_ports and of inc_parent_port. */
int inc_comm_make_ports(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* The place of a queue pair number goes from old to new. One that holds something else is another
 * connection's and stays so: the look-up alone finds this one then. */
int inc_comm_set_place(struct inc_switch *sw, uint32_t qpn, uint32_t old, uint32_t new,
		       struct inc_err *err);
/* What packets of the connection are looked up by. */
struct inc_conn_key inc_conn_key_of(const struct inc_conn_cfg *c);

#endif
