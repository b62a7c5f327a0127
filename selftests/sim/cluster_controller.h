/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller as a process: its main(), with a command line, on a real libevent and a real
 * database in a directory. It can be killed at any moment, also in the middle of a transaction, and
 * started again from its database.
 */
#ifndef SIM_CLUSTER_CONTROLLER_H
#define SIM_CLUSTER_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>
#include "task.h"

#define CLUSTER_CONTROLLER "10.77.255.1"
/* As its command line says: a member that is silent for so long is lost. */
#define CLUSTER_MEMBER_TIMEOUT_MS 3000
/* Likewise: a switch must answer a request within this time. */
#define CLUSTER_SWITCH_TIMEOUT_MS 5000

struct controller {
	struct process process;
	bool running;
	bool ready;      /* it has said so */
	uint64_t killed; /* times */
	/* killed in the middle of a step of the database, with this chance of 1,000 */
	uint32_t dies_in_store;
	void (*died)(void);
};
extern struct controller controller;

/* A new run: an empty database in the working directory, and a topology of so many hosts. */
void controller_open(unsigned int hosts);
void controller_start(void);
void controller_kill(void);
/* The daemon of the switch, which shares its libraries' memory here, is dead. */
void controller_switch_died(void);
/* SIGTERM. */
void controller_stop(void);
/* Groups that it knows, and whether it knows anything else that began. */
unsigned int controller_knows(void);
/* Rows of the database of a controller that has ended, but for the numbers given away. */
unsigned int controller_rows(void);

#endif
