/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "hostlib/nccl/handle.h"

#define MAGIC   0x4841484eu /* "HAHN" */
#define VERSION 1u

void ha_handle_make(struct ha_handle *handle, const union ha_address *address, unsigned int flags,
		    uint64_t nonce)
{
	const uint64_t nonce_be = htobe64(nonce);
	const uint32_t scope_be = htonl(address->in6.sin6_scope_id);

	*handle = (struct ha_handle){
		.magic = htonl(MAGIC),
		.version = VERSION,
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

	if (handle->magic != htonl(MAGIC))
		return inc_err_set(err, EPROTO,
				   "handle: magic 0x%08x is not this plugin's, 0x%08x: the peer "
				   "uses another one",
				   ntohl(handle->magic), MAGIC);
	if (handle->version != VERSION)
		return inc_err_set(err, EPROTO, "handle: version %u, this is version %u",
				   handle->version, VERSION);
	memcpy(&nonce_be, handle->nonce, sizeof(nonce_be));
	*nonce = be64toh(nonce_be);
	*flags = handle->flags;
	return read_address(handle, address, err);
}
