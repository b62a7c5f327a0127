// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 200000
 *
 * Target: data that the NCCL plugin receives. The first byte of an input selects a control message,
 * a slot of the ring, a handle or a list of devices. A control message that is decoded must encode
 * to the same bytes, and a slot or an address that is accepted must be usable.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/choose.h"
#include "hostlib/nccl/control_msg.h"
#include "hostlib/nccl/tcp.h"
#include "selftests/fuzz/fuzz.h"

static void check_msg(struct fuzz_bytes *bytes)
{
	uint8_t given[HA_MSG_BYTES] = {0}, again[HA_MSG_BYTES];
	struct inc_err err = {""};
	struct ha_control_msg msg;
	int ret;

	memcpy(given, bytes->data, bytes->size < sizeof(given) ? bytes->size : sizeof(given));
	ret = ha_control_msg_decode(given, &msg, &err);
	if (ret) {
		fuzz_require(ret == -EPROTO, "error %d", ret);
		fuzz_check_refusal(&err, NULL);
		return;
	}
	ha_control_msg_encode(&msg, again);
	fuzz_require(!memcmp(given, again, sizeof(given)),
		     "a control message encodes to other bytes");
	fuzz_require(*ha_control_msg_name(msg.type) != '?' && *ha_cause_text(msg.cause) != '?',
		     "type %u, cause %u", msg.type, msg.cause);
	fuzz_require(msg.type != HA_MSG_HELLO || strnlen(msg.hello.name, sizeof(msg.hello.name)) <
							 sizeof(msg.hello.name),
		     "a name without an end");
	fuzz_require(msg.type < HA_MSG_PATH || msg.type > HA_MSG_PATH_FAILED ||
			     msg.path.rail < HA_RAILS,
		     "rail %u", msg.path.rail);
}

static void check_slot(struct fuzz_bytes *bytes)
{
	const uint32_t sequence = fuzz_take32(bytes), epoch = fuzz_take32(bytes);
	_Alignas(32) struct ha_slot_wire wire = {0}, again;
	struct inc_err err = {""};
	struct ha_slot slot;
	int ret;

	memcpy(&wire, bytes->data, bytes->size < sizeof(wire) ? bytes->size : sizeof(wire));
	ret = ha_slot_read(&wire, sequence, epoch, &slot, &err);
	if (ret < 0)
		fuzz_check_refusal(&err, "slot ");
	if (ret <= 0)
		return;
	fuzz_require(slot.slots >= 1 && slot.slots <= HA_GROUP && slot.index < slot.slots,
		     "slot %u of %u", slot.index, slot.slots);
	ha_slot_encode(&slot, &again);
	fuzz_require(!memcmp(&wire, &again, sizeof(wire)), "another slot the second time");
}

static void check_handle(struct fuzz_bytes *bytes)
{
	struct ha_handle handle = {0}, again;
	union ha_address address;
	struct inc_err err = {""};
	unsigned int flags;
	uint64_t nonce;
	int ret;

	memcpy(&handle, bytes->data, bytes->size < sizeof(handle) ? bytes->size : sizeof(handle));
	ret = ha_handle_read(&handle, &address, &flags, &nonce, &err);
	if (ret) {
		fuzz_require(ret == -EPROTO, "error %d", ret);
		fuzz_check_refusal(&err, "handle: ");
		return;
	}
	fuzz_require(address.sa.sa_family == AF_INET || address.sa.sa_family == AF_INET6,
		     "family %u", address.sa.sa_family);
	fuzz_require(address.in4.sin_port, "port 0");
	ha_handle_make(&again, &address, flags, nonce);
	fuzz_require(again.tcp_port == handle.tcp_port && again.family == handle.family &&
			     again.flags == handle.flags &&
			     !memcmp(again.nonce, handle.nonce, sizeof(again.nonce)) &&
			     !memcmp(again.address, handle.address, handle.family == 6 ? 16 : 4),
		     "another handle the second time");
}

static void check_list(struct fuzz_bytes *bytes)
{
	const int port = (int)fuzz_take8(bytes) - 1;
	char *name = fuzz_take_line(bytes), *list = fuzz_take_text(bytes);

	if (name)
		ha_iflist_passes(list, HA_IFLIST_DEVICES, name, port);
	free(name);
	free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(struct fuzz_bytes * bytes) = {check_msg, check_slot,
								    check_handle, check_list};
	struct fuzz_bytes bytes = {data, size};

	if (size)
		checks[fuzz_take8(&bytes) % 4](&bytes);
	return 0;
}
