/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls the functions of a network plugin, for each version of the interface. Reads and merges the
 * devices of a plugin, as NCCL does when it detects the topology. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/tools/ha_perf_net.h"

#define V8_P2P_BYTES (1ull << 30) /* largest message that NCCL assumes for devices of version 8 */

#define _(name) #name,
static const char *const call_names[] = {HA_NET_CALLS(_)};
#undef _

static const char *const result_names[] = {
	[HA_NCCL_SUCCESS] = "ncclSuccess",
	[HA_NCCL_UNHANDLED_CUDA_ERROR] = "ncclUnhandledCudaError",
	[HA_NCCL_SYSTEM_ERROR] = "ncclSystemError",
	[HA_NCCL_INTERNAL_ERROR] = "ncclInternalError",
	[HA_NCCL_INVALID_ARGUMENT] = "ncclInvalidArgument",
	[HA_NCCL_INVALID_USAGE] = "ncclInvalidUsage",
	[HA_NCCL_REMOTE_ERROR] = "ncclRemoteError",
	[HA_NCCL_IN_PROGRESS] = "ncclInProgress",
};

const char *ha_net_call_name(enum ha_net_call call)
{
	return call_names[call];
}

static void mark(const struct ha_net *net, char sign, enum ha_net_call call)
{
	char text[32];
	int n;

	if (!net->marks)
		return;
	n = snprintf(text, sizeof(text), "%c%s", sign, call_names[call]);
	if (write(-1, text, n) < 0)
		return;
}

uint64_t ha_net_begin(const struct ha_net *net, enum ha_net_call call)
{
	mark(net, '>', call);
	return inc_now_ns();
}

int ha_net_finish(struct ha_net *net, enum ha_net_call call, uint64_t began_at_ns,
		  enum ha_nccl_result result)
{
	const uint64_t took_ns = inc_now_ns() - began_at_ns;

	mark(net, '<', call);
	net->calls[call].count++;
	if (took_ns > net->calls[call].max_ns)
		net->calls[call].max_ns = took_ns;
	if (result == HA_NCCL_SUCCESS)
		return 0;
	if ((unsigned int)result < sizeof(result_names) / sizeof(*result_names))
		return inc_err_set(&net->err, EIO, "%s: %s", call_names[call],
				   result_names[result]);
	return inc_err_set(&net->err, EIO, "%s: result %d", call_names[call], (int)result);
}

int ha_net_open(struct ha_net *net, const char *path, unsigned int api)
{
	const unsigned int from = api ? api : HA_NET_NEWEST, to = api ? api : HA_NET_OLDEST;
	char symbol[32];

	memset(net, 0, sizeof(*net));
	net->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!net->library)
		return inc_err_set(&net->err, ENOENT, "%s", dlerror());
	for (net->api = from; net->api >= to; net->api--) {
		snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%u", net->api);
		net->table = dlsym(net->library, symbol);
		if (net->table)
			return 0;
	}
	inc_err_set(&net->err, ENOENT, "%s: no %s%s", path, symbol, api ? "" : " or newer");
	ha_net_close(net);
	return -ENOENT;
}

void ha_net_close(struct ha_net *net)
{
	if (net->library)
		dlclose(net->library);
	net->library = NULL;
}

int ha_net_init(struct ha_net *net, ha_nccl_logger logger)
{
	struct ha_nccl_comm_config config = {.traffic_class = HA_NCCL_TRAFFIC_CLASS_UNDEF};
	int err;

	memset(&net->attr, 0xff, sizeof(net->attr));
	if (net->api >= 11)
		err = HA_NET_TIMED(net, init,
				   net->v11->init(&net->context, 1, &config, logger, NULL));
	else if (net->api == 10)
		err = HA_NET_TIMED(net, init, net->v10->init(logger, NULL));
	else
		err = HA_NET_TIMED(net, init, net->v8->init(logger));
	net->ready = !err;
	return err;
}

int ha_net_finalize(struct ha_net *net)
{
	if (!net->ready || net->api < 11)
		return 0;
	net->ready = false;
	return HA_NET_TIMED(net, finalize, net->v11->finalize(net->context));
}

int ha_net_devices(struct ha_net *net, int *ndev)
{
	*ndev = 0;
	return HA_NET_TIMED(net, devices, net->v8->devices(ndev));
}

#define TAKE_PROPERTIES(out, from, most)                                        \
	(*(out) = (struct ha_net_properties){.name = (from).name,               \
					     .pci_path = (from).pci_path,       \
					     .ptr_support = (from).ptr_support, \
					     .max_recvs = (from).max_recvs,     \
					     .device_type = (from).device_type, \
					     .max_p2p_bytes = (most)})

static int refuse_properties(struct ha_net *net, int dev, const struct ha_net_properties *props)
{
	if (!props->name)
		return inc_err_set(&net->err, EPROTO, "device %d has no name", dev);
	if (props->device_type != HA_NCCL_DEVICE_HOST)
		return inc_err_set(&net->err, EPROTO,
				   "device %d is of type %d: it needs a GPU, or NCCL refuses it",
				   dev, (int)props->device_type);
	if (!props->max_p2p_bytes || props->max_p2p_bytes > HA_NCCL_MAX_NET_BYTES)
		return inc_err_set(&net->err, EPROTO,
				   "device %d: a message of at most %llu bytes is refused by NCCL",
				   dev, (unsigned long long)props->max_p2p_bytes);
	return 0;
}

int ha_net_properties(struct ha_net *net, int dev, struct ha_net_properties *out)
{
	struct ha_nccl_properties_v8 v8 = {};
	struct ha_nccl_properties_v9 v9 = {};
	struct ha_nccl_properties_v11 v11 = {};
	struct ha_nccl_properties_v12 v12 = {};
	int err;

	if (net->api == 12) {
		err = HA_NET_TIMED(net, getProperties, net->v12->getProperties(dev, &v12));
		TAKE_PROPERTIES(out, v12, v12.max_p2p_bytes);
	} else if (net->api == 11) {
		err = HA_NET_TIMED(net, getProperties, net->v11->getProperties(dev, &v11));
		TAKE_PROPERTIES(out, v11, v11.max_p2p_bytes);
	} else if (net->api >= 9) {
		err = HA_NET_TIMED(net, getProperties, net->v9->getProperties(dev, &v9));
		TAKE_PROPERTIES(out, v9, v9.max_p2p_bytes);
	} else {
		err = HA_NET_TIMED(net, getProperties, net->v8->getProperties(dev, &v8));
		TAKE_PROPERTIES(out, v8, V8_P2P_BYTES);
	}
	return err ? err : refuse_properties(net, dev, out);
}

/* Asks the plugin to merge devices. NCCL 2.24 and 2.25, which use version 9, give up if the plugin
 * returns ncclInvalidUsage. After any other error, and in all other releases, NCCL uses the devices
 * unmerged. */
int ha_net_merge(struct ha_net *net, struct ha_nccl_vdevice_v12 *parts, bool *merged)
{
	/* up to version 11 the struct is the beginning of that of version 12, with fewer devices */
	struct ha_nccl_vdevice *old = (struct ha_nccl_vdevice *)parts;
	enum ha_nccl_result result;
	int dev = 0, err;

	*merged = false;
	if (net->api < 9 || !net->v9->makeVDevice)
		return 0;
	err = HA_NET_TIMED(net, makeVDevice,
			   result = net->api == 12 ? net->v12->makeVDevice(&dev, parts)
						   : net->v9->makeVDevice(&dev, old));
	*merged = !err;
	return net->api == 9 && result == HA_NCCL_INVALID_USAGE ? err : 0;
}

static void hint(struct ha_net *net, const struct ha_nccl_attr *attr)
{
	struct ha_nccl_attr copy = net->attr = *attr;

	if (net->api >= 11 && net->v11->setNetAttr)
		(void)HA_NET_TIMED(net, setNetAttr, net->v11->setNetAttr(net->context, &copy));
}

void ha_net_hint_connect(struct ha_net *net)
{
	struct ha_nccl_attr attr;

	memset(&attr, 0xff, sizeof(attr)); /* HA_NCCL_ATTR_UNDEF in all fields */
	hint(net, &attr);
}

void ha_net_hint_transfer(struct ha_net *net, bool sends)
{
	const struct ha_nccl_comm_attr one = {1, 1, 1, 1};
	struct ha_nccl_attr attr = net->attr;

	*(sends ? &attr.send : &attr.recv) = one;
	if (memcmp(&attr, &net->attr, sizeof(attr)))
		hint(net, &attr);
}

int ha_net_listen(struct ha_net *net, int dev, void *handle, void **comm)
{
	if (net->api >= 11)
		return HA_NET_TIMED(net, listen, net->v11->listen(net->context, dev, handle, comm));
	return HA_NET_TIMED(net, listen, net->v8->listen(dev, handle, comm));
}

/* Rejects a device handle that the plugin has returned. A device without GPU support must not
 * return one, because NCCL would use it. */
static int refuse_handle(struct ha_net *net, const char *call,
			 const struct ha_nccl_device_handle *device)
{
	return device ? inc_err_set(&net->err, EPROTO,
				    "%s has made a device handle, which only a GPU can use", call)
		      : 0;
}

int ha_net_connect(struct ha_net *net, int dev, void *handle, void **comm)
{
	struct ha_nccl_comm_config config = {.traffic_class = HA_NCCL_TRAFFIC_CLASS_UNDEF};
	struct ha_nccl_device_handle *device = NULL;
	int err;

	*comm = NULL;
	if (net->api >= 11)
		err = HA_NET_TIMED(net, connect,
				   net->v11->connect(net->context, dev, handle, comm, &device));
	else if (net->api == 10)
		err = HA_NET_TIMED(net, connect,
				   net->v10->connect(dev, &config, handle, comm, &device));
	else
		err = HA_NET_TIMED(net, connect, net->v8->connect(dev, handle, comm, &device));
	return err ? err : refuse_handle(net, "connect", device);
}

int ha_net_accept(struct ha_net *net, void *listen, void **comm)
{
	struct ha_nccl_device_handle *device = NULL;
	int err;

	*comm = NULL;
	err = HA_NET_TIMED(net, accept, net->v8->accept(listen, comm, &device));
	return err ? err : refuse_handle(net, "accept", device);
}

int ha_net_reg(struct ha_net *net, void *comm, void *data, size_t size, int type, int fd,
	       void **mhandle)
{
	if (fd < 0)
		return HA_NET_TIMED(net, regMr, net->v8->regMr(comm, data, size, type, mhandle));
	return HA_NET_TIMED(net, regMrDmaBuf,
			    net->v8->regMrDmaBuf(comm, data, size, type, 0, fd, mhandle));
}

int ha_net_dereg(struct ha_net *net, void *comm, void *mhandle)
{
	return HA_NET_TIMED(net, deregMr, net->v8->deregMr(comm, mhandle));
}

int ha_net_isend(struct ha_net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
		 void **request)
{
	if (net->api >= 10)
		return HA_NET_TIMED(net, isend,
				    net->v10->isend(comm, data, size, tag, mhandle, NULL, request));
	if (net->api == 9)
		return HA_NET_TIMED(net, isend,
				    net->v9->isend(comm, data, size, tag, mhandle, request));
	return HA_NET_TIMED(net, isend,
			    net->v8->isend(comm, data, (int)size, tag, mhandle, request));
}

int ha_net_irecv(struct ha_net *net, void *comm, int n, void **data, size_t size, int *tags,
		 void *mhandle, void **request)
{
	void *mhandles[HA_NET_MAX_GROUP], *phandles[HA_NET_MAX_GROUP] = {};
	size_t sizes[HA_NET_MAX_GROUP];
	int old_sizes[HA_NET_MAX_GROUP];

	for (int i = 0; i < n; i++) {
		mhandles[i] = mhandle;
		sizes[i] = size;
		old_sizes[i] = (int)size;
	}
	if (net->api >= 10)
		return HA_NET_TIMED(
			net, irecv,
			net->v10->irecv(comm, n, data, sizes, tags, mhandles, phandles, request));
	if (net->api == 9)
		return HA_NET_TIMED(net, irecv,
				    net->v9->irecv(comm, n, data, sizes, tags, mhandles, request));
	return HA_NET_TIMED(net, irecv,
			    net->v8->irecv(comm, n, data, old_sizes, tags, mhandles, request));
}

int ha_net_iflush(struct ha_net *net, void *comm, int n, void **data, int *sizes, void *mhandle,
		  void **request)
{
	void *mhandles[HA_NET_MAX_GROUP];

	for (int i = 0; i < n; i++)
		mhandles[i] = mhandle;
	*request = NULL;
	return HA_NET_TIMED(net, iflush, net->v8->iflush(comm, n, data, sizes, mhandles, request));
}

int ha_net_test(struct ha_net *net, void *request, int *done, int *sizes)
{
	int err;

	*done = true;
	err = HA_NET_TIMED(net, test, net->v8->test(request, done, sizes));
	if (err)
		*done = false;
	return err;
}

int ha_net_consumed(struct ha_net *net, void *comm, int n, void *request)
{
	if (!net->v8->irecvConsumed)
		return 0;
	return HA_NET_TIMED(net, irecvConsumed, net->v8->irecvConsumed(comm, n, request));
}

int ha_net_close_send(struct ha_net *net, void *comm)
{
	return HA_NET_TIMED(net, closeSend, net->v8->closeSend(comm));
}

int ha_net_close_recv(struct ha_net *net, void *comm)
{
	return HA_NET_TIMED(net, closeRecv, net->v8->closeRecv(comm));
}

int ha_net_close_listen(struct ha_net *net, void *comm)
{
	return HA_NET_TIMED(net, closeListen, net->v8->closeListen(comm));
}

/* ---- the survey of all devices --------------------------------------------------------------- */

/* Finds the PCI address in the path of a device in /sys, without the digit of the PCI function.
 * Returns the length of what is left. */
static size_t card_of(const char *path, const char **card)
{
	const char *slash = strrchr(path, '/');

	*card = slash ? slash + 1 : path;
	return **card ? strlen(*card) - 1 : 0;
}

/* Whether two devices are ports of one card. NCCL merges these, unless NCCL_NET_MERGE_LEVEL
 * disables that. It treats all devices without a PCI path as one card. */
static bool on_one_card(const struct ha_net_properties *a, const struct ha_net_properties *b)
{
	const char *card[2];
	size_t bytes;

	if (!a->pci_path || !b->pci_path)
		return a->pci_path == b->pci_path;
	bytes = card_of(a->pci_path, &card[0]);
	return bytes == card_of(b->pci_path, &card[1]) && !memcmp(card[0], card[1], bytes);
}

/* Asks the plugin to merge the devices of each card, as NCCL does. NCCL 2.24 and 2.25 call
 * makeVDevice even for a single device, later releases only for several. If the plugin does not
 * merge some devices, those behind the first are tried again without it. */
static int merge_cards(struct ha_net *net, const struct ha_net_properties *props, int ndev)
{
	const int most =
		net->api < 12 ? HA_NCCL_MAX_DEVICES_PER_NIC : HA_NCCL_MAX_DEVICES_PER_NIC_V12;
	bool *placed = calloc(ndev, sizeof(*placed)), merged;
	int err = placed ? 0 : inc_err_set(&net->err, ENOMEM, "no memory for %d devices", ndev);

	for (int i = 0; i < ndev && !err; i++) {
		struct ha_nccl_vdevice_v12 parts = {.ndevs = 1, .devs = {i}};

		if (placed[i])
			continue;
		for (int j = i + 1; j < ndev && parts.ndevs < most; j++)
			if (!placed[j] && on_one_card(&props[i], &props[j]))
				parts.devs[parts.ndevs++] = j;
		if (parts.ndevs == 1 && net->api != 9)
			continue;
		err = ha_net_merge(net, &parts, &merged);
		for (int k = 1; merged && k < parts.ndevs; k++)
			placed[parts.devs[k]] = true;
	}
	free(placed);
	return err;
}

int ha_survey(struct ha_net *net, int *ndev)
{
	struct ha_net_properties *props = NULL;
	int err = ha_net_devices(net, ndev);

	if (!err && *ndev <= 0)
		return inc_err_set(&net->err, ENODEV, "the plugin has no device");
	if (!err) {
		props = calloc(*ndev, sizeof(*props));
		if (!props)
			err = inc_err_set(&net->err, ENOMEM, "no memory for %d devices", *ndev);
	}
	for (int i = 0; i < *ndev && !err; i++)
		err = ha_net_properties(net, i, &props[i]);
	if (!err)
		err = merge_cards(net, props, *ndev);
	free(props);
	return err ? err : ha_net_devices(net, ndev);
}
