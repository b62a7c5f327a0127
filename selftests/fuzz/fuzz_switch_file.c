// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 6000
 *
 * Target: a switch's file, in the project's form and in that of the original documents. All values
 * of an accepted file are within bounds, and its communicators are complete. The error of a
 * rejected file names file and place. The same communicators are read as "configure" messages. If
 * the input is JSON, it is itself read as "configure".
 */
#include <stdlib.h>
#include <string.h>
#include "userspace/config.h"
#include "selftests/fuzz/fuzz.h"

static void check_comm(const struct inc_comm_conf *cm)
{
	uint32_t i, ups = 0;

	fuzz_require(inc_rc_payload_good(cm->payload), "payload %u", cm->payload);
	fuzz_require(cm->mode != INC_PASSTHROUGH || inc_payload_good(cm->payload), "payload %u",
		     cm->payload);
	fuzz_require(cm->mode < INC_N_MODES, "mode %u", cm->mode);
	fuzz_require(cm->mode != INC_PASSTHROUGH || inc_slots_good(cm->slots), "%u slots",
		     cm->slots);
	fuzz_require(cm->n_conns <= INC_COMM_MAX_CONNECTIONS, "%u connections", cm->n_conns);
	for (i = 0; i < cm->n_conns; i++) {
		ups += cm->conn[i].up;
		fuzz_require(memchr(cm->conn[i].port, 0, sizeof(cm->conn[i].port)),
			     "a port's name without an end");
		fuzz_require(cm->conn[i].rank < INC_MAX_RANKS, "rank %u", cm->conn[i].rank);
	}
	fuzz_require(ups == !cm->root, "%u up, root %u", ups, cm->root);
}

/* Checks that a communicator that was read prints as a message that is read as the same
 * communicator. */
static void check_configure(const struct inc_comm_conf *comm)
{
	struct inc_msg_configure *said = calloc(1, sizeof(*said));
	struct inc_comm_conf *again = calloc(1, sizeof(*again));
	json_t *first, *second;
	struct inc_err err = {""};

	fuzz_require(said && again, "no memory");
	said->config = *comm;
	first = inc_message_new(INC_MSG_CONFIGURE, said);
	fuzz_require(first, "not printed");
	fuzz_require(!inc_config_json(first, again, &err), "its configure is refused: %s", err.msg);
	check_comm(again);
	said->config = *again;
	second = inc_message_new(INC_MSG_CONFIGURE, said);
	fuzz_require(json_equal(first, second), "another configure the second time");
	json_decref(first);
	json_decref(second);
	free(said);
	free(again);
}

static void try_message(const uint8_t *data, size_t size)
{
	json_t *object = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	struct inc_comm_conf *comm = calloc(1, sizeof(*comm));
	struct inc_err err = {""};

	fuzz_require(comm, "no memory");
	if (object && inc_config_json(object, comm, &err)) {
		fuzz_check_refusal(&err, NULL);
	} else if (object) {
		check_comm(comm);
		check_configure(comm);
	}
	free(comm);
	json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct inc_settings line;
	const char *path = fuzz_file(data, size);
	struct inc_switch_conf conf;
	struct inc_err err = {""};
	uint32_t i;

	if (inc_config_load(path, NULL, &line, &conf, &err)) {
		fuzz_check_file_refusal(&err, path);
		fuzz_require(!conf.comm && !conf.n_comms, "refused, and yet there is something");
		try_message(data, size);
		return 0;
	}
	fuzz_require(conf.n_comms <= INC_MAX_COMMS && conf.settings.n_ports <= INC_MAX_PORTS,
		     "out of bounds");
	for (i = 0; i < conf.n_comms; i++) {
		check_comm(&conf.comm[i]);
		check_configure(&conf.comm[i]);
	}
	inc_settings_complete(&conf.settings);
	if (inc_config_fits(path, &conf, &err))
		fuzz_check_refusal(&err, path);
	inc_config_free(&conf);
	return 0;
}
