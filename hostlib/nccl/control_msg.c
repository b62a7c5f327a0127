/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "hostlib/nccl/control_msg.h"
#include "hostlib/nccl/tcp.h"
#include "lib/rdma/info.h"

#define MSG_MAGIC   0x494e4357u /* "INCW" */
#define MSG_VERSION 1u

#define MAX_24BIT     0xffffffu
#define MIN_MTU_BYTES 256u
#define MAX_MTU_BYTES 4096u

struct wire_hello {
	uint8_t dual;
	uint8_t zero[3];
	char name[64];
} __attribute__((packed));

struct wire_path {
	uint32_t attempt;
	uint8_t rail;
	uint8_t link_layer;
	uint16_t mtu_bytes;
	uint32_t qpn, psn;
	uint16_t lid;
	uint16_t pkey;
	uint8_t gid[16];
	uint64_t ring;
	uint32_t ring_rkey;
} __attribute__((packed));

struct wire_report {
	uint32_t next;
	/* bitmap of sequences: bit i is bit i % 8, counted from the lowest, of byte i / 8 */
	uint8_t received[HA_SLOTS / 8];
} __attribute__((packed));

struct wire_msg {
	uint32_t magic;
	uint8_t version, type, cause, zero;
	uint64_t nonce;
	uint32_t epoch;
	union {
		struct wire_hello hello;
		struct wire_path path;
		struct wire_report report;
		uint8_t body[HA_MSG_BYTES - 20];
	};
} __attribute__((packed));
static_assert(sizeof(struct wire_msg) == HA_MSG_BYTES, "all types have one size");
static_assert(offsetof(struct wire_msg, body) == 20, "size of the fields before the body");
static_assert(sizeof(((struct ha_hello *)0)->name) == sizeof(((struct wire_hello *)0)->name),
	      "the name is copied as it is");

const char *ha_cause_text(enum ha_cause cause)
{
	switch (cause) {
#define CAUSE(NAME, number, text) \
	case HA_CAUSE_##NAME:     \
		return text;
		HA_CAUSES(CAUSE)
#undef CAUSE
	}
	return "?";
}

const char *ha_control_msg_name(enum ha_control_msg_type type)
{
	switch (type) {
#define MSG(NAME, number, text) \
	case HA_MSG_##NAME:     \
		return #NAME;
		HA_MSGS(MSG)
#undef MSG
	}
	return "?";
}

/* ---- control messages ------------------------------------------------------------------------ */

static bool has_report(enum ha_control_msg_type type)
{
	return type == HA_MSG_REPORT || type == HA_MSG_CLOSE;
}

static void encode_path(const struct ha_control_msg *msg, struct wire_path *wire)
{
	const struct ha_path_info *path = &msg->path;

	wire->attempt = htonl(path->attempt);
	wire->rail = path->rail;
	if (msg->type != HA_MSG_PATH)
		return;
	wire->link_layer = path->link_layer;
	wire->mtu_bytes = htons(path->mtu_bytes);
	wire->qpn = htonl(path->qpn);
	wire->psn = htonl(path->psn);
	wire->lid = htons(path->lid);
	wire->pkey = htons(path->pkey);
	memcpy(wire->gid, path->gid, sizeof(wire->gid));
	wire->ring = htobe64(path->ring);
	wire->ring_rkey = htonl(path->ring_rkey);
}

static void encode_report(const struct ha_report *report, struct wire_report *wire)
{
	unsigned int i;

	wire->next = htonl(report->next);
	for (i = 0; i < sizeof(wire->received); i++)
		wire->received[i] = (uint8_t)(report->received[i / 8] >> i % 8 * 8);
}

void ha_control_msg_encode(const struct ha_control_msg *msg, uint8_t bytes[HA_MSG_BYTES])
{
	struct wire_msg wire = {.magic = htonl(MSG_MAGIC),
				.version = MSG_VERSION,
				.type = (uint8_t)msg->type,
				.cause = (uint8_t)msg->cause,
				.nonce = htobe64(msg->nonce),
				.epoch = htonl(msg->epoch)};

	if (msg->type == HA_MSG_HELLO) {
		wire.hello.dual = msg->hello.dual;
		memccpy(wire.hello.name, msg->hello.name, 0, sizeof(wire.hello.name) - 1);
	} else if (msg->type >= HA_MSG_PATH && msg->type <= HA_MSG_PATH_FAILED) {
		encode_path(msg, &wire.path);
	} else if (has_report(msg->type)) {
		encode_report(&msg->report, &wire.report);
	}
	memcpy(bytes, &wire, sizeof(wire));
}

static int decode_hello(const struct wire_hello *wire, struct ha_hello *hello, struct inc_err *err)
{
	if (wire->dual > 1)
		return inc_err_set(err, EPROTO, "HELLO: dual is %u", wire->dual);
	if (!memchr(wire->name, 0, sizeof(wire->name)))
		return inc_err_set(err, EPROTO, "HELLO: the name has no end");
	hello->dual = wire->dual;
	memccpy(hello->name, wire->name, 0, sizeof(hello->name));
	return 0;
}

static int decode_path(const struct wire_path *wire, struct ha_control_msg *msg,
		       struct inc_err *err)
{
	struct ha_path_info *path = &msg->path;
	const char *name = ha_control_msg_name(msg->type);

	path->attempt = ntohl(wire->attempt);
	path->rail = wire->rail;
	if (path->rail >= HA_RAILS)
		return inc_err_set(err, EPROTO, "%s: there is no rail %u", name, path->rail);
	if (msg->type != HA_MSG_PATH)
		return 0;
	path->link_layer = wire->link_layer;
	path->mtu_bytes = ntohs(wire->mtu_bytes);
	path->qpn = ntohl(wire->qpn);
	path->psn = ntohl(wire->psn);
	path->lid = ntohs(wire->lid);
	path->pkey = ntohs(wire->pkey);
	memcpy(path->gid, wire->gid, sizeof(path->gid));
	path->ring = be64toh(wire->ring);
	path->ring_rkey = ntohl(wire->ring_rkey);
	if (path->qpn > MAX_24BIT || path->psn > MAX_24BIT)
		return inc_err_set(err, EPROTO, "PATH: queue pair 0x%x, PSN 0x%x", path->qpn,
				   path->psn);
	if (path->mtu_bytes < MIN_MTU_BYTES || path->mtu_bytes > MAX_MTU_BYTES ||
	    path->mtu_bytes & (path->mtu_bytes - 1))
		return inc_err_set(err, EPROTO, "PATH: an MTU of %u bytes", path->mtu_bytes);
	if (path->link_layer > HA_LINK_SOFT)
		return inc_err_set(err, EPROTO, "PATH: link layer %u", path->link_layer);
	return 0;
}

static int decode_report(const struct wire_report *wire, struct ha_control_msg *msg,
			 struct inc_err *err)
{
	unsigned int i;

	msg->report.next = ntohl(wire->next);
	for (i = 0; i < sizeof(wire->received); i++)
		msg->report.received[i / 8] |= (uint64_t)wire->received[i] << i % 8 * 8;
	if (msg->report.received[0] & 1)
		return inc_err_set(err, EPROTO, "%s: the lowest slot not received is received",
				   ha_control_msg_name(msg->type));
	return 0;
}

static int decode_body(const struct wire_msg *wire, struct ha_control_msg *msg, struct inc_err *err)
{
	switch (msg->type) {
	case HA_MSG_HELLO:
		return decode_hello(&wire->hello, &msg->hello, err);
	case HA_MSG_PATH:
	case HA_MSG_PATH_READY:
	case HA_MSG_PATH_FAILED:
		return decode_path(&wire->path, msg, err);
	case HA_MSG_REPORT:
	case HA_MSG_CLOSE:
		return decode_report(&wire->report, msg, err);
	case HA_MSG_OPEN:
	case HA_MSG_RESUME:
	case HA_MSG_ABORT:
	case HA_MSG_PING:
	case HA_MSG_PONG:
		return 0;
	}
	return inc_err_set(err, EPROTO, "a message of type %u", wire->type);
}

int ha_control_msg_decode(const uint8_t bytes[HA_MSG_BYTES], struct ha_control_msg *msg,
			  struct inc_err *err)
{
	uint8_t again[HA_MSG_BYTES];
	struct wire_msg wire;
	int r;

	memset(msg, 0, sizeof(*msg));
	memcpy(&wire, bytes, sizeof(wire));
	if (wire.magic != htonl(MSG_MAGIC))
		return inc_err_set(err, EPROTO, "no control message: it begins with 0x%08x",
				   ntohl(wire.magic));
	if (wire.version != MSG_VERSION)
		return inc_err_set(err, EPROTO, "a message of version %u, not %u", wire.version,
				   MSG_VERSION);
	msg->type = wire.type;
	msg->cause = wire.cause;
	msg->nonce = be64toh(wire.nonce);
	msg->epoch = ntohl(wire.epoch);
	r = decode_body(&wire, msg, err);
	if (r)
		return r;
	if (*ha_cause_text(msg->cause) == '?')
		return inc_err_set(err, EPROTO, "%s: cause %u", ha_control_msg_name(msg->type),
				   wire.cause);
	if (!msg->epoch &&
	    (msg->type == HA_MSG_OPEN || msg->type == HA_MSG_REPORT || msg->type == HA_MSG_RESUME))
		return inc_err_set(err, EPROTO, "%s: epoch 0 is never entered",
				   ha_control_msg_name(msg->type));
	ha_control_msg_encode(msg, again);
	if (memcmp(again, bytes, sizeof(again)))
		return inc_err_set(err, EPROTO, "%s: bytes that it does not have are not zero",
				   ha_control_msg_name(msg->type));
	return 0;
}

/* ---- slots ---- */

void ha_slot_encode(const struct ha_slot *slot, struct ha_slot_wire *wire)
{
	*wire = (struct ha_slot_wire){
		.address = htobe64(slot->address),
		.rkey = htonl(slot->rkey),
		.bytes = htonl(slot->bytes),
		.tag = htonl(slot->tag),
		.epoch = htonl(slot->epoch),
		.index = slot->index,
		.slots = slot->slots,
		.sequence = htonl(slot->sequence),
	};
}

/* The fields that a device writes last are read first, because a device may be writing the slot. */
int ha_slot_read(const struct ha_slot_wire *wire, uint32_t sequence, uint32_t epoch,
		 struct ha_slot *slot, struct inc_err *err)
{
	uint16_t zero;

	if (ntohl(__atomic_load_n(&wire->sequence, __ATOMIC_ACQUIRE)) != sequence)
		return 0;
	slot->slots = __atomic_load_n(&wire->slots, __ATOMIC_ACQUIRE);
	/* a slot of zeros was never written, although it looks like sequence 0 */
	if (!sequence && !slot->slots)
		return 0;
	if (ntohl(__atomic_load_n(&wire->epoch, __ATOMIC_ACQUIRE)) != epoch)
		return 0;
	slot->sequence = sequence;
	slot->epoch = epoch;
	slot->address = be64toh(__atomic_load_n(&wire->address, __ATOMIC_RELAXED));
	slot->rkey = ntohl(__atomic_load_n(&wire->rkey, __ATOMIC_RELAXED));
	slot->bytes = ntohl(__atomic_load_n(&wire->bytes, __ATOMIC_RELAXED));
	slot->tag = ntohl(__atomic_load_n(&wire->tag, __ATOMIC_RELAXED));
	slot->index = __atomic_load_n(&wire->index, __ATOMIC_RELAXED);
	zero = __atomic_load_n(&wire->zero, __ATOMIC_RELAXED);
	if (slot->slots < 1 || slot->slots > HA_GROUP || slot->index >= slot->slots || zero)
		return inc_err_set(err, EPROTO, "slot %u: number %u of %u, unused bits 0x%x",
				   sequence, slot->index, slot->slots, ntohs(zero));
	return 1;
}

/* ---- handles --------------------------------------------------------------------------------- */

#define HANDLE_MAGIC 0x4841484eu /* "HAHN" */
/* Raised with each change of handles or of control messages, so that the connecting end refuses a
 * peer of another version. 2: PATH has the P_Key. */
#define HANDLE_VERSION 2u

void ha_handle_make(struct ha_handle *handle, const union ha_address *address, unsigned int flags,
		    uint64_t nonce)
{
	const uint64_t nonce_be = htobe64(nonce);
	const uint32_t scope_be = htonl(address->in6.sin6_scope_id);

	*handle = (struct ha_handle){
		.magic = htonl(HANDLE_MAGIC),
		.version = HANDLE_VERSION,
		.flags = flags,
		.family = address->sa.sa_family == AF_INET6 ? 6 : 4,
	};
	memcpy(handle->nonce, &nonce_be, sizeof(nonce_be));
	if (handle->family == 6) {
		handle->tcp_port = address->in6.sin6_port;
		memcpy(handle->address, &address->in6.sin6_addr, 16);
		memcpy(handle->scope, &scope_be, sizeof(scope_be));
	} else {
		handle->tcp_port = address->in4.sin_port;
		memcpy(handle->address, &address->in4.sin_addr, 4);
	}
}

static int read_address(const struct ha_handle *handle, union ha_address *address,
			struct inc_err *err)
{
	uint32_t scope_be;

	memset(address, 0, sizeof(*address));
	if (handle->family == 6) {
		memcpy(&scope_be, handle->scope, sizeof(scope_be));
		address->in6.sin6_family = AF_INET6;
		address->in6.sin6_port = handle->tcp_port;
		memcpy(&address->in6.sin6_addr, handle->address, 16);
		address->in6.sin6_scope_id = ntohl(scope_be);
	} else if (handle->family == 4) {
		address->in4.sin_family = AF_INET;
		address->in4.sin_port = handle->tcp_port;
		memcpy(&address->in4.sin_addr, handle->address, 4);
	} else {
		return inc_err_set(err, EPROTO, "handle: address family %u is neither 4 nor 6",
				   handle->family);
	}
	if (!handle->tcp_port)
		return inc_err_set(err, EPROTO, "handle: port 0");
	return 0;
}

int ha_handle_read(const struct ha_handle *handle, union ha_address *address, unsigned int *flags,
		   uint64_t *nonce, struct inc_err *err)
{
	uint64_t nonce_be;

	if (handle->magic != htonl(HANDLE_MAGIC))
		return inc_err_set(err, EPROTO,
				   "handle: magic 0x%08x is not this plugin's, 0x%08x: the peer "
				   "uses another one",
				   ntohl(handle->magic), HANDLE_MAGIC);
	if (handle->version != HANDLE_VERSION)
		return inc_err_set(err, EPROTO,
				   "handle: the peer's is of version %u, and this end's of version "
				   "%u: install the same version of the plugin on all nodes",
				   handle->version, HANDLE_VERSION);
	memcpy(&nonce_be, handle->nonce, sizeof(nonce_be));
	*nonce = be64toh(nonce_be);
	*flags = handle->flags;
	return read_address(handle, address, err);
}
