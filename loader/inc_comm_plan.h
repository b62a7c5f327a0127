/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator before it is in the maps. inc_comm_plan.c computes the values, and inc_comm.c
 * writes them.
 */
#ifndef INC_COMM_PLAN_H
#define INC_COMM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"

/* The values of a communicator, and which steps of its making have been done; they are undone in
 * reverse order. */
struct inc_comm_build {
	struct inc_comm_cfg cfg;
	struct inc_conn_cfg conn[INC_MAX_CONNECTIONS]; /* children first, then the parent */
	union inc_mac peer[INC_MAX_CONNECTIONS];       /* MAC addresses of the peers; zeros: not
							* known */
	struct inc_root_row roots[INC_MAX_RANKS / INC_ROOTS_PER_ROW];
	uint32_t comm;    /* its index in the switch */
	uint32_t lookups; /* number of entries made in inc_conn_lookup, and in inc_conn_place */
	bool ports;       /* its rows of inc_comm_ports are set */
};

/* Validates all of conf and finds free connections and rows. 0; or -errno, and nothing has
 * changed. */
int inc_comm_plan(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		  struct inc_comm_build *b, struct inc_err *err);
/* The part of the plan that depends on conf only: without free places, and unchecked. */
int inc_comm_plan_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct inc_comm_build *b, struct inc_err *err);
/* Fills in the first child and the number of children on each port. Children of one port stand
 * together. port_child must be zero before. */
void inc_comm_plan_ports(struct inc_comm_build *b);
/* The MAC address of an interface. */
int inc_port_mac(uint32_t ifindex, uint8_t mac[6]);
/* inc_comm.c, for inc_port.c: writes the communicator's rows of inc_comm_cfg and of
 * inc_conn_cfg. */
int inc_comm_write(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* inc_comm.c, for inc_adopt.c and inc_port.c: writes its rows of inc_comm_ports and of
 * inc_parent_port. */
int inc_comm_make_ports(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* Changes the place of a queue pair number from old to new. A place with another value belongs
 * to another connection and is left unchanged; then only inc_conn_lookup leads to this
 * connection. */
int inc_comm_set_place(struct inc_switch *sw, uint32_t qpn, uint32_t old, uint32_t new,
		       struct inc_err *err);
/* The look-up key of a connection's packets. */
struct inc_conn_key inc_conn_key_of(const struct inc_conn_cfg *c);

#endif
