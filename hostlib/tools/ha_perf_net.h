/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network plugin as ha-nccl-perf calls it: one set of calls for all versions of the interface.
 * Each call is timed. What fails leaves its story in net->err. One thread.
 */
#ifndef HA_PERF_NET_H
#define HA_PERF_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "lib/base/err.h"

/* The calls of a plugin, as NCCL names them. */
#define HA_NET_CALLS(_)  \
	_(init)          \
	_(devices)       \
	_(getProperties) \
	_(listen)        \
	_(connect)       \
	_(accept)        \
	_(regMr)         \
	_(deregMr)       \
	_(isend)         \
	_(irecv)         \
	_(iflush)        \
	_(test)          \
	_(closeSend)     \
	_(closeRecv)     \
	_(closeListen)   \
	_(finalize)

#define _(name) HA_NET_##name,
enum ha_net_call { HA_NET_CALLS(_) HA_NET_NCALLS };
#undef _

#define HA_NET_OLDEST    8
#define HA_NET_NEWEST    11
#define HA_NET_MAX_GROUP 8

struct ha_net {
	unsigned int api; /* HA_NET_OLDEST to HA_NET_NEWEST */
	void *library;
	union {
		const void *table;
		const struct ha_nccl_net_v8 *v8; /* what is the same everywhere is called by it */
		const struct ha_nccl_net_v9 *v9;
		const struct ha_nccl_net_v10 *v10;
		const struct ha_nccl_net_v11 *v11;
	};
	void *context; /* v11 */
	bool ready;    /* init has succeeded */
	struct {
		uint64_t count, max_ns;
	} calls[HA_NET_NCALLS];
	struct inc_err err;
};

/* What all versions tell of a device, as far as it matters here. */
struct ha_net_properties {
	int ptr_support, max_recvs;
};

const char *ha_net_call_name(enum ha_net_call call);

/* Loads a plugin; api 0: the newest version that it has. 0, or -errno and net->err. The others
 * return 0, or -EIO and net->err. ha_net_close takes a zeroed net, too. */
int ha_net_open(struct ha_net *net, const char *path, unsigned int api);
void ha_net_close(struct ha_net *net);

int ha_net_init(struct ha_net *net, ha_nccl_logger logger);
int ha_net_finalize(struct ha_net *net);
int ha_net_devices(struct ha_net *net, int *ndev);
int ha_net_properties(struct ha_net *net, int dev, struct ha_net_properties *out);
int ha_net_listen(struct ha_net *net, int dev, void *handle, void **comm);
int ha_net_connect(struct ha_net *net, int dev, void *handle, void **comm);
int ha_net_accept(struct ha_net *net, void *listen, void **comm);
int ha_net_reg(struct ha_net *net, void *comm, void *data, size_t size, void **mhandle);
int ha_net_dereg(struct ha_net *net, void *comm, void *mhandle);
int ha_net_isend(struct ha_net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
		 void **request);
/* n buffers of one registration and one size. */
int ha_net_irecv(struct ha_net *net, void *comm, int n, void **data, size_t size, int *tags,
		 void *mhandle, void **request);
int ha_net_iflush(struct ha_net *net, void *comm, int n, void **data, int *sizes, void *mhandle,
		  void **request);
int ha_net_test(struct ha_net *net, void *request, int *done, int *sizes);
int ha_net_close_send(struct ha_net *net, void *comm);
int ha_net_close_recv(struct ha_net *net, void *comm);
int ha_net_close_listen(struct ha_net *net, void *comm);

#endif
