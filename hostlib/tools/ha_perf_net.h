/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network plugin as ha-nccl-perf calls it: one set of calls for all versions of the interface.
 * Each call is timed. What fails leaves its story in net->err. A net belongs to
 * one thread, so a second thread needs a copy of it.
 *
 * The calls, their order and what their arguments hold before are those of NCCL's proxy
 * (docs/nccl.md has the table), so that a member which fails there fails here. Every member that is
 * not NULL is called, except what NCCL calls for GPU memory alone: getDeviceMr and regMrDmaBuf are
 * never called, and iflush is called with --flush.
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
	_(makeVDevice)   \
	_(listen)        \
	_(setNetAttr)    \
	_(connect)       \
	_(accept)        \
	_(regMr)         \
	_(deregMr)       \
	_(isend)         \
	_(irecv)         \
	_(iflush)        \
	_(test)          \
	_(irecvConsumed) \
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
	void *context;            /* v11 */
	bool ready;               /* init has succeeded */
	struct ha_nccl_attr attr; /* v11: what setNetAttr was called with last */
	struct {
		uint64_t count, max_ns;
	} calls[HA_NET_NCALLS];
	struct inc_err err;
};

/* What all versions tell of a device, as far as it matters here. max_p2p_bytes: what NCCL assumes
 * where version 8 does not tell it. */
struct ha_net_properties {
	const char *name, *pci_path;
	int ptr_support, max_recvs;
	enum ha_nccl_device_type device_type;
	uint64_t max_p2p_bytes;
};

const char *ha_net_call_name(enum ha_net_call call);

/* Loads a plugin; api 0: the newest version that it has. 0, or -errno and net->err. The others
 * return 0, or -EIO and net->err. ha_net_close takes a zeroed net, too. */
int ha_net_open(struct ha_net *net, const char *path, unsigned int api);
void ha_net_close(struct ha_net *net);

int ha_net_init(struct ha_net *net, ha_nccl_logger logger);
int ha_net_finalize(struct ha_net *net);
int ha_net_devices(struct ha_net *net, int *ndev);
/* Also -EPROTO where NCCL would refuse what the plugin says. */
int ha_net_properties(struct ha_net *net, int dev, struct ha_net_properties *out);
/* ha_perf_survey.c: looks at all devices, and tries to merge them, as NCCL's search for its
 * topology does. How many there are, or an error. */
int ha_survey(struct ha_net *net, int *ndev);
/* One device of several: *merged says whether the plugin has made it. A refusal is no error, but
 * where a release that takes this version of the interface would end its communicator. */
int ha_net_merge(struct ha_net *net, struct ha_nccl_vdevice *parts, bool *merged);
/* Hints before connect and accept, and before the first isend and irecv: NCCL ignores the result.
 */
void ha_net_hint_connect(struct ha_net *net);
void ha_net_hint_transfer(struct ha_net *net, bool sends);
int ha_net_listen(struct ha_net *net, int dev, void *handle, void **comm);
int ha_net_connect(struct ha_net *net, int dev, void *handle, void **comm);
int ha_net_accept(struct ha_net *net, void *listen, void **comm);
int ha_net_reg(struct ha_net *net, void *comm, void *data, size_t size, void **mhandle);
int ha_net_dereg(struct ha_net *net, void *comm, void *mhandle);
/* *request keeps what was there before, as in NCCL: the plugin has to write a request or NULL. */
int ha_net_isend(struct ha_net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
		 void **request);
/* The same, with n buffers of one registration and one size. */
int ha_net_irecv(struct ha_net *net, void *comm, int n, void **data, size_t size, int *tags,
		 void *mhandle, void **request);
int ha_net_iflush(struct ha_net *net, void *comm, int n, void **data, int *sizes, void *mhandle,
		  void **request);
/* *done begins as true: NCCL has not initialised it, so the plugin has to write it. */
int ha_net_test(struct ha_net *net, void *request, int *done, int *sizes);
/* The data of a receive of n buffers, whose request is complete, has been taken. */
int ha_net_consumed(struct ha_net *net, void *comm, int n, void *request);
int ha_net_close_send(struct ha_net *net, void *comm);
int ha_net_close_recv(struct ha_net *net, void *comm);
int ha_net_close_listen(struct ha_net *net, void *comm);

#endif
