/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The binary interface between NCCL and a network plugin, declared here so that no header of NCCL
 * is needed. The plugin exports it, and ha-nccl-perf calls it as NCCL does. NCCL looks for the
 * newest version that it supports and falls back to older ones, so a plugin with all five versions
 * serves each of these releases:
 *
 *	version  symbol             native to NCCL   accepted by
 *	8        ncclNetPlugin_v8   2.20 to 2.23     2.20 and later
 *	9        ncclNetPlugin_v9   2.24, 2.25       2.24 and later
 *	10       ncclNetPlugin_v10  2.26, 2.27       2.26 and later
 *	11       ncclNetPlugin_v11  2.28, 2.29       2.28 and later
 *	12       ncclNetPlugin_v12  2.30             2.30 and later
 *
 * An exported symbol is the struct itself, as in extern const struct ha_nccl_net_v8
 * ncclNetPlugin_v8. Version 9 introduced size_t sizes and virtual devices. Version 10 introduced
 * traffic classes and the profiler, whose handle is an argument of isend and irecv. Version 11
 * introduced a context for each NCCL communicator. Version 12 introduced the rail and the plane of
 * a device, and virtual devices of eight physical ones.
 *
 * makeVDevice and setNetAttr may be NULL, too. NCCL ignores the result of setNetAttr. If any other
 * member fails, NCCL ends its communicator; from 2.26 on makeVDevice may fail as well.
 *
 * Requests and comms are pointers of the plugin. If connect, accept, isend or irecv would have to
 * wait, it returns success and a NULL pointer, and NCCL calls it again.
 */
#ifndef HA_NCCL_ABI_H
#define HA_NCCL_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* ncclResult_t */
enum ha_nccl_result {
	HA_NCCL_SUCCESS,
	HA_NCCL_UNHANDLED_CUDA_ERROR,
	HA_NCCL_SYSTEM_ERROR,
	HA_NCCL_INTERNAL_ERROR,
	HA_NCCL_INVALID_ARGUMENT,
	HA_NCCL_INVALID_USAGE,
	HA_NCCL_REMOTE_ERROR,
	HA_NCCL_IN_PROGRESS, /* NCCL has this value, but no call of a network plugin returns it */
};

/* NCCL's ncclDebugLogLevel. The masks below it are the values of ncclDebugLogSubSys with which a
 * network plugin logs. */
enum ha_nccl_log_level {
	HA_NCCL_LOG_NONE,
	HA_NCCL_LOG_VERSION,
	HA_NCCL_LOG_WARN,
	HA_NCCL_LOG_INFO,
	HA_NCCL_LOG_ABORT,
	HA_NCCL_LOG_TRACE,
};
#define HA_NCCL_LOG_INIT 0x1ul
#define HA_NCCL_LOG_NET  0x10ul
#define HA_NCCL_LOG_ENV  0x80ul

/* NCCL's ncclDebugLogger_t, whose format is that of printf. */
typedef void (*ha_nccl_logger)(enum ha_nccl_log_level level, unsigned long subsystems,
			       const char *file, int line, const char *format, ...);
/* NCCL's ncclProfilerCallback_t, from version 10 of the interface on. NCCL may pass NULL. */
typedef enum ha_nccl_result (*ha_nccl_profiler)(void **event, int type, void *parent,
						int64_t plugin_id, void *data);

#define HA_NCCL_HANDLE_BYTES 128
#define HA_NCCL_MAX_REQUESTS 32 /* most requests under way on a comm */
/* most physical devices of a virtual device, up to version 11 of the interface and in version 12 */
#define HA_NCCL_MAX_DEVICES_PER_NIC     4
#define HA_NCCL_MAX_DEVICES_PER_NIC_V12 8

/* Bits of the property ptr_support. Each one is also the type of a registration of such memory. */
#define HA_NCCL_PTR_HOST   0x1
#define HA_NCCL_PTR_CUDA   0x2
#define HA_NCCL_PTR_DMABUF 0x4

/*
 * A value that NCCL 2.24 and later stores in *request before it calls irecv, if it does not need
 * the completion of that receive. The plugin must post the receive all the same. It then sets
 * *request to a request that NCCL tests, or to NULL if it has not posted the receive. The size that
 * such a request reports may be 0.
 */
#define HA_NCCL_OPTIONAL_RECV_COMPLETION ((void *)0x1)

#define HA_NCCL_TRAFFIC_CLASS_UNDEF (-1)
#define HA_NCCL_ATTR_UNDEF          (-1)
#define HA_NCCL_ID_UNDEF            (-1) /* NCCL then finds rails and planes out itself */
/* The greatest value that max_p2p_bytes and max_coll_bytes may have. */
#define HA_NCCL_MAX_NET_BYTES (1ull << 40)

/* NCCL's ncclNetDeviceType: whether the host's CPU or the GPU (UNPACK) drives the network. */
enum ha_nccl_device_type {
	HA_NCCL_DEVICE_HOST,
	HA_NCCL_DEVICE_UNPACK,
};
/* The netDeviceVersion of a plugin that does not offer device offload. */
#define HA_NCCL_DEVICE_INVALID_VERSION 0

/* NCCL's ncclNetDeviceHandle_v8_t to _v12_t, for device offload. NCCL passes NULL, or a pointer to
 * a NULL pointer that the plugin may set. */
struct ha_nccl_device_handle {
	enum ha_nccl_device_type type;
	int version;
	void *handle;
	size_t size;
	int needs_proxy_progress;
};

/* NCCL's ncclNetProperties_v8_t. The strings belong to the plugin, which keeps them valid. */
struct ha_nccl_properties_v8 {
	char *name;
	char *pci_path; /* path of the PCI device in /sys; NULL: none */
	uint64_t guid;
	int ptr_support;
	/* 1: a registration is valid for other comms than the one that made it, too */
	int reg_is_global;
	int speed; /* Mbit/s */
	int port;
	float latency; /* latency in us; 0: unknown */
	int max_comms;
	int max_recvs; /* most buffers of one irecv, which is then a grouped receive */
	enum ha_nccl_device_type device_type;
	int device_version;
};

/* NCCL's ncclNetVDeviceProps_v9_t to _v11_t: the devices of which a virtual device consists. A
 * physical device lists itself alone. */
struct ha_nccl_vdevice {
	int ndevs;
	int devs[HA_NCCL_MAX_DEVICES_PER_NIC];
};

/* ncclNetProperties_v9_t and _v10_t. */
struct ha_nccl_properties_v9 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush; /* 1: NCCL must flush every receive into GPU memory */
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum ha_nccl_device_type device_type;
	int device_version;
	struct ha_nccl_vdevice virtual_device;
	size_t max_p2p_bytes, max_coll_bytes;
};

/* ncclNetProperties_v11_t. */
struct ha_nccl_properties_v11 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum ha_nccl_device_type device_type;
	int device_version;
	struct ha_nccl_vdevice virtual_device;
	size_t max_p2p_bytes, max_coll_bytes;
	/* most requests that the device combines into one; 1: it combines none */
	int max_multi_request_size;
};

/* ncclNetVDeviceProps_v12_t. */
struct ha_nccl_vdevice_v12 {
	int ndevs;
	int devs[HA_NCCL_MAX_DEVICES_PER_NIC_V12];
};

/* ncclNetProperties_v12_t. */
struct ha_nccl_properties_v12 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum ha_nccl_device_type device_type;
	int device_version;
	struct ha_nccl_vdevice_v12 virtual_device;
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request_size;
	/* Numbers of the network's rail and plane to which the device belongs, or
	 * HA_NCCL_ID_UNDEF. */
	int16_t rail_id, plane_id;
};

/* ncclNetCommConfig_v10_t to _v12_t. */
struct ha_nccl_comm_config {
	int traffic_class;
};

/* NCCL's ncclNetCommAttr_v11_t and ncclNetAttr_v11_t, and those of version 12: hints that NCCL
 * passes to setNetAttr. A value that NCCL does not know is HA_NCCL_ATTR_UNDEF. */
struct ha_nccl_comm_attr {
	int32_t max_concurrent_peers, min_concurrent_peers;
	int32_t max_flows_per_peer, min_flows_per_peer;
};
struct ha_nccl_attr {
	struct ha_nccl_comm_attr send, recv;
	uint32_t op, algo, proto;
};

/*
 * Functions of a network plugin that several versions of the interface share. Each member has
 * NCCL's own name, so that NCCL's documentation applies. Initialisers must name the members,
 * because their order differs between versions.
 */
#define HA_NCCL_MEMORY_CALLS                                                              \
	enum ha_nccl_result (*regMr)(void *comm, void *data, size_t size, int type,       \
				     void **mhandle);                                     \
	enum ha_nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, \
					   uint64_t offset, int fd, void **mhandle);      \
	enum ha_nccl_result (*deregMr)(void *comm, void *mhandle)
/* In test(), sizes has one entry for a send, and one for each buffer of a receive; it may be NULL.
 * iflush() has the same arguments as irecv(). */
#define HA_NCCL_END_CALLS                                                                      \
	enum ha_nccl_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,         \
				      void **mhandles, void **request);                        \
	enum ha_nccl_result (*test)(void *request, int *done, int *sizes);                     \
	enum ha_nccl_result (*closeSend)(void *send_comm);                                     \
	enum ha_nccl_result (*closeRecv)(void *recv_comm);                                     \
	enum ha_nccl_result (*closeListen)(void *listen_comm);                                 \
	/* may be NULL; NCCL calls it for device offload alone */                              \
	enum ha_nccl_result (*getDeviceMr)(void *comm, void *mhandle, void **device_mhandle);  \
	/* may be NULL; else NCCL calls it for every receive, whatever the device's type is */ \
	enum ha_nccl_result (*irecvConsumed)(void *recv_comm, int n, void *request)

/* ncclNet_v8_t */
struct ha_nccl_net_v8 {
	const char *name;
	enum ha_nccl_result (*init)(ha_nccl_logger logger);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v8 *props);
	enum ha_nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	enum ha_nccl_result (*connect)(int dev, void *handle, void **send_comm,
				       struct ha_nccl_device_handle **send_device);
	enum ha_nccl_result (*accept)(void *listen_comm, void **recv_comm,
				      struct ha_nccl_device_handle **recv_device);
	HA_NCCL_MEMORY_CALLS;
	enum ha_nccl_result (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle,
				     void **request);
	enum ha_nccl_result (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags,
				     void **mhandles, void **request);
	HA_NCCL_END_CALLS;
};

/* ncclNet_v9_t */
struct ha_nccl_net_v9 {
	const char *name;
	enum ha_nccl_result (*init)(ha_nccl_logger logger);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v9 *props);
	enum ha_nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	enum ha_nccl_result (*connect)(int dev, void *handle, void **send_comm,
				       struct ha_nccl_device_handle **send_device);
	enum ha_nccl_result (*accept)(void *listen_comm, void **recv_comm,
				      struct ha_nccl_device_handle **recv_device);
	HA_NCCL_MEMORY_CALLS;
	enum ha_nccl_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				     void *mhandle, void **request);
	enum ha_nccl_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **request);
	HA_NCCL_END_CALLS;
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice *parts);
};

/* ncclNet_v10_t */
struct ha_nccl_net_v10 {
	const char *name;
	enum ha_nccl_result (*init)(ha_nccl_logger logger, ha_nccl_profiler profiler);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v9 *props);
	enum ha_nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	enum ha_nccl_result (*connect)(int dev, struct ha_nccl_comm_config *config, void *handle,
				       void **send_comm,
				       struct ha_nccl_device_handle **send_device);
	enum ha_nccl_result (*accept)(void *listen_comm, void **recv_comm,
				      struct ha_nccl_device_handle **recv_device);
	HA_NCCL_MEMORY_CALLS;
	enum ha_nccl_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				     void *mhandle, void *phandle, void **request);
	enum ha_nccl_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **phandles, void **request);
	HA_NCCL_END_CALLS;
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice *parts);
};

/* NCCL's ncclNet_v11_t. NCCL calls init once for each of its communicators. Each call returns a
 * context, which NCCL passes to finalize. */
struct ha_nccl_net_v11 {
	const char *name;
	enum ha_nccl_result (*init)(void **context, uint64_t comm_id,
				    struct ha_nccl_comm_config *config, ha_nccl_logger logger,
				    ha_nccl_profiler profiler);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v11 *props);
	enum ha_nccl_result (*listen)(void *context, int dev, void *handle, void **listen_comm);
	enum ha_nccl_result (*connect)(void *context, int dev, void *handle, void **send_comm,
				       struct ha_nccl_device_handle **send_device);
	enum ha_nccl_result (*accept)(void *listen_comm, void **recv_comm,
				      struct ha_nccl_device_handle **recv_device);
	HA_NCCL_MEMORY_CALLS;
	enum ha_nccl_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				     void *mhandle, void *phandle, void **request);
	enum ha_nccl_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **phandles, void **request);
	HA_NCCL_END_CALLS;
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice *parts);
	enum ha_nccl_result (*finalize)(void *context);
	enum ha_nccl_result (*setNetAttr)(void *context, struct ha_nccl_attr *attr);
};

/* ncclNet_v12_t */
struct ha_nccl_net_v12 {
	const char *name;
	enum ha_nccl_result (*init)(void **context, uint64_t comm_id,
				    struct ha_nccl_comm_config *config, ha_nccl_logger logger,
				    ha_nccl_profiler profiler);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v12 *props);
	enum ha_nccl_result (*listen)(void *context, int dev, void *handle, void **listen_comm);
	enum ha_nccl_result (*connect)(void *context, int dev, void *handle, void **send_comm,
				       struct ha_nccl_device_handle **send_device);
	enum ha_nccl_result (*accept)(void *listen_comm, void **recv_comm,
				      struct ha_nccl_device_handle **recv_device);
	HA_NCCL_MEMORY_CALLS;
	enum ha_nccl_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				     void *mhandle, void *phandle, void **request);
	enum ha_nccl_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **phandles, void **request);
	HA_NCCL_END_CALLS;
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice_v12 *parts);
	enum ha_nccl_result (*finalize)(void *context);
	enum ha_nccl_result (*setNetAttr)(void *context, struct ha_nccl_attr *attr);
};

/*
 * Collectives in the network (CollNet): symbols ncclCollNetPlugin_v8 to _v12, which NCCL looks for
 * in the library that has the network plugin. In contrast to the network's connect, that of CollNet
 * must return a comm or fail; it may wait. Like isend, the calls that begin with i may set *request
 * to NULL, and NCCL calls them again.
 */

/* NCCL's ncclDataType_t. The 8-bit floats exist from NCCL 2.24 on. */
enum ha_nccl_dtype {
	HA_NCCL_INT8,
	HA_NCCL_UINT8,
	HA_NCCL_INT32,
	HA_NCCL_UINT32,
	HA_NCCL_INT64,
	HA_NCCL_UINT64,
	HA_NCCL_FLOAT16,
	HA_NCCL_FLOAT32,
	HA_NCCL_FLOAT64,
	HA_NCCL_BFLOAT16,
	HA_NCCL_FLOAT8E4M3,
	HA_NCCL_FLOAT8E5M2,
	HA_NCCL_NDTYPES,
};

/* NCCL's ncclRedOp_t. A network gets an average as a sum. */
enum ha_nccl_op { HA_NCCL_SUM, HA_NCCL_PROD, HA_NCCL_MAX, HA_NCCL_MIN, HA_NCCL_NOPS };

/* ncclNetSGE_v8_t, and ncclNetSGE_v9_t to _v12_t. */
struct ha_nccl_part_v8 {
	void *mhandle, *address;
	uint32_t size;
};
struct ha_nccl_part {
	void *mhandle, *address;
	size_t size;
};

/* The functions that all versions of CollNet share, with NCCL's names. */
#define HA_NCCL_COLL_CALLS(count_type, part_type)                                                \
	enum ha_nccl_result (*connect)(void *handles[], int nranks, int rank, void *listen_comm, \
				       void **coll_comm);                                        \
	/* not about a comm: NCCL asks once its comms are connected */                           \
	enum ha_nccl_result (*reduceSupport)(enum ha_nccl_dtype dtype, enum ha_nccl_op op,       \
					     int *supported);                                    \
	HA_NCCL_MEMORY_CALLS;                                                                    \
	enum ha_nccl_result (*iallreduce)(void *coll_comm, void *send, void *recv,               \
					  count_type count, enum ha_nccl_dtype dtype,            \
					  enum ha_nccl_op op, void *send_mhandle,                \
					  void *recv_mhandle, void **request);                   \
	/* iallgather and ireducescatter may be NULL, as long as NCCL does not use CollNetDirect \
	 */                                                                                      \
	enum ha_nccl_result (*iallgather)(                                                       \
		void *coll_comm, void *send, int n, part_type *recv, size_t bytes_per_rank,      \
		size_t window_offset, size_t window_bytes, void *send_mhandle, void **request);  \
	enum ha_nccl_result (*ireducescatter)(                                                   \
		void *coll_comm, int n, part_type *send, void *recv, size_t bytes_per_rank,      \
		size_t window_offset, size_t window_bytes, enum ha_nccl_dtype dtype,             \
		enum ha_nccl_op op, void *recv_mhandle, void **request);                         \
	enum ha_nccl_result (*iflush)(void *coll_comm, void *data, int size, void *mhandle,      \
				      void **request);                                           \
	enum ha_nccl_result (*test)(void *request, int *done, int *size);                        \
	enum ha_nccl_result (*closeColl)(void *coll_comm);                                       \
	enum ha_nccl_result (*closeListen)(void *listen_comm)

/* ncclCollNet_v8_t */
struct ha_nccl_coll_v8 {
	const char *name;
	enum ha_nccl_result (*init)(ha_nccl_logger logger);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v8 *props);
	enum ha_nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	HA_NCCL_COLL_CALLS(int, struct ha_nccl_part_v8);
};

/* ncclCollNet_v9_t and _v10_t */
struct ha_nccl_coll_v9 {
	const char *name;
	enum ha_nccl_result (*init)(ha_nccl_logger logger);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v9 *props);
	enum ha_nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	HA_NCCL_COLL_CALLS(size_t, struct ha_nccl_part);
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice *parts);
};

/* ncclCollNet_v11_t */
struct ha_nccl_coll_v11 {
	const char *name;
	enum ha_nccl_result (*init)(void **context, uint64_t comm_id, ha_nccl_logger logger);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v11 *props);
	enum ha_nccl_result (*listen)(void *context, int dev, void *handle, void **listen_comm);
	HA_NCCL_COLL_CALLS(size_t, struct ha_nccl_part);
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice *parts);
	enum ha_nccl_result (*finalize)(void *context);
};

/* ncclCollNet_v12_t */
struct ha_nccl_coll_v12 {
	const char *name;
	enum ha_nccl_result (*init)(void **context, uint64_t comm_id, ha_nccl_logger logger);
	enum ha_nccl_result (*devices)(int *ndev);
	enum ha_nccl_result (*getProperties)(int dev, struct ha_nccl_properties_v12 *props);
	enum ha_nccl_result (*listen)(void *context, int dev, void *handle, void **listen_comm);
	HA_NCCL_COLL_CALLS(size_t, struct ha_nccl_part);
	enum ha_nccl_result (*makeVDevice)(int *dev, struct ha_nccl_vdevice_v12 *parts);
	enum ha_nccl_result (*finalize)(void *context);
};

/* Sizes and offsets that NCCL's own compilers give these structs on 64-bit systems.
 * selftests/nccl/test_layouts.c has those of every member. */
#define HA_NCCL_PLACE(type, member, place) \
	static_assert(offsetof(struct type, member) == (place), #type "." #member)
static_assert(sizeof(enum ha_nccl_result) == 4, "ncclResult_t");
static_assert(sizeof(struct ha_nccl_device_handle) == 32, "ncclNetDeviceHandle_v8_t");
static_assert(sizeof(struct ha_nccl_properties_v8) == 64, "ncclNetProperties_v8_t");
HA_NCCL_PLACE(ha_nccl_properties_v8, speed, 32);
HA_NCCL_PLACE(ha_nccl_properties_v8, max_recvs, 48);
static_assert(sizeof(struct ha_nccl_properties_v9) == 104, "ncclNetProperties_v9_t");
HA_NCCL_PLACE(ha_nccl_properties_v9, speed, 36);
HA_NCCL_PLACE(ha_nccl_properties_v9, virtual_device, 64);
HA_NCCL_PLACE(ha_nccl_properties_v9, max_p2p_bytes, 88);
static_assert(sizeof(struct ha_nccl_properties_v11) == 112, "ncclNetProperties_v11_t");
HA_NCCL_PLACE(ha_nccl_properties_v11, max_multi_request_size, 104);
static_assert(sizeof(struct ha_nccl_properties_v12) == 128, "ncclNetProperties_v12_t");
HA_NCCL_PLACE(ha_nccl_properties_v12, max_p2p_bytes, 104);
HA_NCCL_PLACE(ha_nccl_properties_v12, rail_id, 124);
HA_NCCL_PLACE(ha_nccl_properties_v12, plane_id, 126);
static_assert(sizeof(struct ha_nccl_attr) == 44, "ncclNetAttr_v11_t");
static_assert(sizeof(struct ha_nccl_net_v8) == 19 * sizeof(void *), "ncclNet_v8_t");
HA_NCCL_PLACE(ha_nccl_net_v8, isend, 80);
HA_NCCL_PLACE(ha_nccl_net_v8, test, 104);
static_assert(sizeof(struct ha_nccl_net_v9) == 20 * sizeof(void *), "ncclNet_v9_t");
static_assert(sizeof(struct ha_nccl_net_v10) == 20 * sizeof(void *), "ncclNet_v10_t");
static_assert(sizeof(struct ha_nccl_net_v11) == 22 * sizeof(void *), "ncclNet_v11_t");
HA_NCCL_PLACE(ha_nccl_net_v11, test, 104);
HA_NCCL_PLACE(ha_nccl_net_v11, setNetAttr, 168);
static_assert(sizeof(struct ha_nccl_net_v12) == 22 * sizeof(void *), "ncclNet_v12_t");
HA_NCCL_PLACE(ha_nccl_net_v12, setNetAttr, 168);

#endif
