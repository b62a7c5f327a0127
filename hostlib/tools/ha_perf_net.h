/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network plugin: one set of functions that calls it, for all versions of NCCL's interface. Each
 * call is timed. After a failure net->err has the reason. A net belongs to one thread, so a second
 * thread needs a copy of it.
 *
 * The calls, their order, and the initial values of their output arguments are those of NCCL's
 * proxy (docs/nccl.md has the table). So a plugin that would fail in NCCL fails here, too. Every
 * member that is not NULL is called, except for GPU memory: getDeviceMr is never called, iflush
 * only with --flush, and regMrDmaBuf in the place of regMr only with --memory dmabuf.
 */
#ifndef HA_PERF_NET_H
#define HA_PERF_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "lib/base/clock.h"
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
	_(regMrDmaBuf)   \
	_(deregMr)       \
	_(isend)         \
	_(irecv)         \
	_(iflush)        \
	_(test)          \
	_(irecvConsumed) \
	_(closeSend)     \
	_(closeRecv)     \
	_(closeListen)   \
	_(reduceSupport) \
	_(iallreduce)    \
	_(closeColl)     \
	_(finalize)

#define _(name) HA_NET_##name,
enum ha_net_call { HA_NET_CALLS(_) HA_NET_NCALLS };
#undef _

#define HA_NET_OLDEST    8
#define HA_NET_NEWEST    12
#define HA_NET_MAX_GROUP 8

struct ha_net {
	unsigned int api; /* version of NCCL's plugin interface: HA_NET_OLDEST to HA_NET_NEWEST */
	void *library;
	union {
		const void *table;
		/* v8 is also used for calls that are the same in all versions */
		const struct ha_nccl_net_v8 *v8;
		const struct ha_nccl_net_v9 *v9;
		const struct ha_nccl_net_v10 *v10;
		/* v11 is also used for version 12, whose functions have the same arguments */
		const struct ha_nccl_net_v11 *v11;
		const struct ha_nccl_net_v12 *v12;
	};
	void *context; /* v11 and v12 */
	bool ready;    /* init has succeeded */
	/* Each call is marked, before by '>' and after by '<', by a system call that fails. So what
	 * strace prints between the marks, on this thread, are system calls of the plugin. */
	bool marks;
	/* argument with which setNetAttr was last called, from version 11 of the interface on */
	struct ha_nccl_attr attr;
	struct {
		uint64_t count, max_ns;
	} calls[HA_NET_NCALLS];
	struct inc_err err;
};

/* The properties of a network device that ha-nccl-perf needs. For version 8, which has no
 * max_p2p_bytes, that member is the value that NCCL assumes. */
struct ha_net_properties {
	const char *name, *pci_path;
	int ptr_support, max_recvs;
	enum ha_nccl_device_type device_type;
	uint64_t max_p2p_bytes;
};

const char *ha_net_call_name(enum ha_net_call call);

/* Begins a call, and returns the time. */
uint64_t ha_net_begin(const struct ha_net *net, enum ha_net_call call);
/* Ends a call: records its time, and converts its result to 0 or -EIO with the reason in
 * net->err. */
int ha_net_finish(struct ha_net *net, enum ha_net_call call, uint64_t began_at_ns,
		  enum ha_nccl_result result);

/* Evaluates a call of the plugin, and measures its time. The clock is read in a statement of its
 * own, because arguments are evaluated in no defined order. */
#define HA_NET_TIMED(net, name, expression)                                     \
	({                                                                      \
		const uint64_t began_at_ns_ = ha_net_begin(net, HA_NET_##name); \
		const enum ha_nccl_result result_ = (expression);               \
		ha_net_finish(net, HA_NET_##name, began_at_ns_, result_);       \
	})

/* Loads a plugin with this version of the interface, or with the newest one that it has if api is
 * 0. Returns 0, or -errno with the reason in net->err. The functions below return 0, or -EIO with
 * the reason in net->err. ha_net_close() accepts a net of zeros. */
int ha_net_open(struct ha_net *net, const char *path, unsigned int api);
void ha_net_close(struct ha_net *net);

int ha_net_init(struct ha_net *net, ha_nccl_logger logger);
int ha_net_finalize(struct ha_net *net);
int ha_net_devices(struct ha_net *net, int *ndev);
/* Reads the properties of a network device. It may also return -EPROTO, if NCCL would reject
 * them. */
int ha_net_properties(struct ha_net *net, int dev, struct ha_net_properties *out);
/* Reads the properties of all devices and tries to merge them, as NCCL does when it detects the
 * topology. *ndev receives the number of devices. */
int ha_survey(struct ha_net *net, int *ndev);
/* Asks the plugin to merge several devices into one. *merged tells whether the plugin has done so.
 * A refusal is an error only if NCCL with this version of the interface would give up. */
int ha_net_merge(struct ha_net *net, struct ha_nccl_vdevice_v12 *parts, bool *merged);
/* These functions call setNetAttr as NCCL does: before connect and accept, and before the first
 * isend and irecv. NCCL ignores the result. */
void ha_net_hint_connect(struct ha_net *net);
void ha_net_hint_transfer(struct ha_net *net, bool sends);
int ha_net_listen(struct ha_net *net, int dev, void *handle, void **comm);
int ha_net_connect(struct ha_net *net, int dev, void *handle, void **comm);
int ha_net_accept(struct ha_net *net, void *listen, void **comm);
/* Registers memory of a type (HA_NCCL_PTR_*): by regMrDmaBuf if fd is the descriptor of its
 * dma-buf, and by regMr if fd is -1. */
int ha_net_reg(struct ha_net *net, void *comm, void *data, size_t size, int type, int fd,
	       void **mhandle);
int ha_net_dereg(struct ha_net *net, void *comm, void *mhandle);
/* Posts a send. *request is not initialised, as in NCCL, so the plugin must set it to a request or
 * to NULL. */
int ha_net_isend(struct ha_net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
		 void **request);
/* Posts a receive into n buffers of the same size and registration. *request is not initialised, as
 * in NCCL. */
int ha_net_irecv(struct ha_net *net, void *comm, int n, void **data, size_t size, int *tags,
		 void *mhandle, void **request);
int ha_net_iflush(struct ha_net *net, void *comm, int n, void **data, int *sizes, void *mhandle,
		  void **request);
/* Tests a request. *done is true before the call, because NCCL does not initialise it, so the
 * plugin must set it. */
int ha_net_test(struct ha_net *net, void *request, int *done, int *sizes);
/* Notifies the plugin that NCCL has read the data of a completed receive of n buffers. */
int ha_net_consumed(struct ha_net *net, void *comm, int n, void *request);
int ha_net_close_send(struct ha_net *net, void *comm);
int ha_net_close_recv(struct ha_net *net, void *comm);
int ha_net_close_listen(struct ha_net *net, void *comm);

#endif
