/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices, their ports and network interfaces, and the calls of libibverbs that query them. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/rdma/device_priv.h"
#include "lib/rdma/gid.h"
#include "selftests/fakes/verbs_priv.h"

#undef ibv_get_device_list
#undef ibv_query_port

#define MAX_CONTEXTS  16 /* number of contexts that a device can have open */
#define MAX_EVENTS    64 /* number of events that the program has not read yet */
#define FIRST_GID     1  /* first index in the GID table; index 0 has a link-local GID */
#define FIRST_IFINDEX 900u
/* the devices of fake_verbs_device() come after those of fake_verbs_machine() */
#define MAX_DEVICES (FAKE_VERBS_MACHINE_DEVICES + 8)

struct fake_verbs_context {
	/* must be the first member, because pointers to its part ex.context become pointers to this
	 * struct */
	struct verbs_context ex;
	struct fake_verbs_dev *dev;
	struct ibv_async_event event[MAX_EVENTS];
	unsigned int put, taken;
};

/* the values of fake_verbs_rate_limits() and fake_verbs_second_gid() */
static uint32_t rate_min, rate_max;
static bool second_gid;

static struct fake_verbs_dev devs[MAX_DEVICES];
static unsigned int n_devs, n_by_hand;
static struct fake_verbs_context *contexts[MAX_DEVICES * MAX_CONTEXTS];
static enum ibv_port_state state_by_hand = IBV_PORT_ACTIVE;
static void (*before_ack)(void);
struct fake_verbs_refused_queries fake_verbs_refused_queries;

static void lock(void)
{
	pthread_mutex_lock(&fake_verbs_lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&fake_verbs_lock);
}

/* ---- the devices of fake_verbs_machine() ----------------------------------------------------- */

static void init_dev(struct fake_verbs_dev *dev, const char *name, uint32_t address)
{
	*dev = (struct fake_verbs_dev){
		.state = IBV_PORT_ACTIVE, .ports = 1, .gid_index = FIRST_GID, .pkey = 0x8001};
	dev->ibv.node_type = IBV_NODE_CA;
	dev->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(dev->ibv.name, sizeof(dev->ibv.name), "%s", name);
	snprintf(dev->ibv.dev_name, sizeof(dev->ibv.dev_name), "%s", name);
	inc_rdma_gid_of_ipv4(htonl(address), dev->gid.raw);
}

void fake_verbs_machine(unsigned int devices)
{
	char name[16];
	unsigned int i;

	fake_verbs_must(devices <= FAKE_VERBS_MACHINE_DEVICES, "too many devices");
	lock();
	for (i = 0; i < MAX_DEVICES * MAX_CONTEXTS; i++)
		fake_verbs_must(!contexts[i], "a device is still open");
	fake_verbs_forget_packets();
	for (i = 0; i < devices; i++) {
		snprintf(name, sizeof(name), "fake%u", i);
		init_dev(&devs[i], name, 0x0a4e0001 + (i << 8));
	}
	n_devs = devices;
	fake_verbs_generation++;
	unlock();
}

static struct fake_verbs_context *context_of(const struct ibv_context *ctx)
{
	return (struct fake_verbs_context *)((char *)ctx -
					     offsetof(struct fake_verbs_context, ex.context));
}

struct fake_verbs_dev *fake_verbs_dev_number(unsigned int device)
{
	fake_verbs_must(device < n_devs, "there is no such device");
	return &devs[device];
}

struct fake_verbs_dev *fake_verbs_dev_of(const struct ibv_context *ctx)
{
	return context_of(ctx)->dev;
}

struct fake_verbs_dev *fake_verbs_dev_at(const union ibv_gid *gid)
{
	unsigned int i;

	for (i = 0; i < MAX_DEVICES; i++)
		if ((i < n_devs || devs[i].by_hand) &&
		    !memcmp(devs[i].gid.raw, gid->raw, sizeof(gid->raw)))
			return &devs[i];
	return NULL;
}

static void put_event(struct fake_verbs_context *c, const struct ibv_async_event *event)
{
	fake_verbs_must(c->put - c->taken < MAX_EVENTS,
			"the owner of the device does not read its events");
	c->event[c->put++ % MAX_EVENTS] = *event;
	fake_verbs_must(!eventfd_write(c->ex.context.async_fd, 1), "eventfd");
}

/* Queues the event of the device's port in each context in which the device is open. */
static void queue_event(struct fake_verbs_dev *dev, enum ibv_event_type type)
{
	const struct ibv_async_event event = {.element.port_num = 1, .event_type = type};
	unsigned int i;

	for (i = 0; i < MAX_DEVICES * MAX_CONTEXTS; i++)
		if (contexts[i] && contexts[i]->dev == dev)
			put_event(contexts[i], &event);
}

void fake_verbs_faults(unsigned int device, unsigned int faults)
{
	lock();
	fake_verbs_dev_number(device)->faults = faults;
	fake_verbs_generation++;
	unlock();
}

void fake_verbs_port(unsigned int device, bool up)
{
	struct fake_verbs_dev *dev;

	lock();
	dev = fake_verbs_dev_number(device);
	dev->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	queue_event(dev, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	fake_verbs_generation++;
	unlock();
}

void fake_verbs_second_gid(bool second)
{
	lock();
	second_gid = second;
	unlock();
}

void fake_verbs_pkey(unsigned int device, uint16_t pkey)
{
	lock();
	fake_verbs_dev_number(device)->pkey = pkey;
	unlock();
}

unsigned int fake_verbs_move_gid(unsigned int device)
{
	struct fake_verbs_dev *dev;
	unsigned int index;

	lock();
	dev = fake_verbs_dev_number(device);
	index = dev->gid_index = FIRST_GID + dev->gid_index % (FAKE_VERBS_MACHINE_GIDS - 1);
	queue_event(dev, IBV_EVENT_GID_CHANGE);
	unlock();
	return index;
}

/* ---- the host's interfaces ------------------------------------------------------------------ */

/* The GID of each device is the address of an interface "fakeN", which is not up. */
struct own_interface {
	/* must be the first member, because pointers to it are cast to this struct */
	struct ifaddrs ifa;
	struct sockaddr_in address;
	char name[16];
	bool ours;
};

int getifaddrs(struct ifaddrs **out)
{
	int (*real)(struct ifaddrs **) = dlsym(RTLD_NEXT, "getifaddrs");
	struct own_interface *own;
	unsigned int i;

	if (real(out))
		return -1;
	for (i = n_devs; i--;) {
		own = calloc(1, sizeof(*own));
		own->address.sin_family = AF_INET;
		memcpy(&own->address.sin_addr, devs[i].gid.raw + 12, 4);
		snprintf(own->name, sizeof(own->name), "fake%u", i);
		own->ifa.ifa_name = own->name;
		own->ifa.ifa_addr = (struct sockaddr *)&own->address;
		own->ifa.ifa_next = *out;
		*out = &own->ifa;
	}
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	void (*real)(struct ifaddrs *) = dlsym(RTLD_NEXT, "freeifaddrs");
	struct ifaddrs *next;

	for (; list && !strncmp(list->ifa_name, "fake", 4); list = next) {
		next = list->ifa_next;
		free(list);
	}
	real(list);
}

unsigned int if_nametoindex(const char *name)
{
	unsigned int (*real)(const char *) = dlsym(RTLD_NEXT, "if_nametoindex");

	return strncmp(name, "fake", 4) ? real(name) : FIRST_IFINDEX + atoi(name + 4);
}

/* ---- libibverbs: devices -------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(n_devs + 1, sizeof(struct ibv_device *));
	unsigned int i;

	lock();
	for (i = 0; i < n_devs; i++)
		list[i] = &devs[i].ibv;
	*n = n_devs;
	unlock();
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(0x02fa4e0000000000ull + ((struct fake_verbs_dev *)device - devs));
}

int ibv_fork_init(void)
{
	return 0;
}

void fake_verbs_rate_limits(uint32_t min, uint32_t max)
{
	rate_min = min;
	rate_max = max;
}

bool fake_verbs_limits_rate(uint32_t kbps)
{
	return rate_max && kbps >= rate_min && kbps <= rate_max;
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	attr->packet_pacing_caps.qp_rate_limit_min = rate_min;
	attr->packet_pacing_caps.qp_rate_limit_max = rate_max;
	/* devices that limit the rate of raw packets alone exist, too */
	attr->packet_pacing_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET | !!rate_max
										     << IBV_QPT_RC;
	return ibv_query_device(ctx, &attr->orig_attr);
}

static struct fake_verbs_context *make_context(struct fake_verbs_dev *dev)
{
	struct fake_verbs_context *c = calloc(1, sizeof(*c));

	c->dev = dev;
	c->ex.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->ex.sz = sizeof(c->ex);
	c->ex.query_device_ex = query_device_ex;
	c->ex.context.device = &dev->ibv;
	c->ex.context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	c->ex.context.num_comp_vectors = 1;
	fake_verbs_must(c->ex.context.async_fd >= 0, "eventfd");
	fake_verbs_set_ops(&c->ex.context);
	return c;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_verbs_context *c = NULL;
	unsigned int i;

	lock();
	if (!fake_verbs_refused(FAKE_VERBS_OPEN)) {
		c = make_context((struct fake_verbs_dev *)device);
		for (i = 0; contexts[i]; i++)
			fake_verbs_must(i + 1 < MAX_DEVICES * MAX_CONTEXTS,
					"too many open devices");
		contexts[i] = c;
	}
	unlock();
	return c ? &c->ex.context : NULL;
}

int ibv_close_device(struct ibv_context *ctx)
{
	unsigned int i;

	lock();
	for (i = 0; contexts[i] != context_of(ctx); i++)
		fake_verbs_must(i + 1 < MAX_DEVICES * MAX_CONTEXTS, "a device that is not open");
	contexts[i] = NULL;
	close(ctx->async_fd);
	free(context_of(ctx));
	unlock();
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = ctx;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct fake_verbs_context *c = context_of(ctx);
	eventfd_t one;

	if (eventfd_read(ctx->async_fd, &one))
		return -1;
	lock();
	*event = c->event[c->taken++ % MAX_EVENTS];
	unlock();
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	void (*const call)(void) = before_ack;

	before_ack = NULL;
	if (call)
		call();
}

/* ---- libibverbs: queries -------------------------------------------------------------------- */

static bool refused(uint32_t ports, unsigned int port)
{
	return ports >> port & 1;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.phys_port_cnt = fake_verbs_dev_of(ctx)->ports,
		.max_qp = FAKE_VERBS_MAX_OBJECTS,
		.max_qp_wr = FAKE_VERBS_DEPTH,
		.max_sge = 16,
		.max_cqe = FAKE_VERBS_DEPTH,
		.max_mr = FAKE_VERBS_MAX_OBJECTS,
		.max_mr_size = UINT64_MAX,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
	};
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
	const struct fake_verbs_dev *dev = fake_verbs_dev_of(ctx);
	int ret;

	lock();
	*attr = (struct ibv_port_attr){
		.state = dev->by_hand ? state_by_hand : dev->state,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_1024,
		.gid_tbl_len = FAKE_VERBS_MACHINE_GIDS,
		.max_msg_sz = FAKE_VERBS_MACHINE_MAX_BYTES,
		.pkey_tbl_len = 2,
		.active_width = 2,
		.active_speed = 32,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	ret = refused(fake_verbs_refused_queries.ports, port) ? EIO
	      : fake_verbs_call_fails()                       ? ENOMEM
							      : 0;
	unlock();
	return ret;
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	lock();
	*pkey = htons(index ? fake_verbs_dev_of(ctx)->pkey : 0xffff);
	unlock();
	return 0;
}

bool fake_verbs_has_gid(const struct fake_verbs_dev *dev, unsigned int index)
{
	return index == dev->gid_index || (second_gid && index == FAKE_VERBS_MACHINE_GIDS - 1);
}

static bool fill_gid(const struct fake_verbs_dev *dev, unsigned int port, unsigned int index,
		     struct ibv_gid_entry *entry)
{
	*entry = (struct ibv_gid_entry){
		.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};
	if (fake_verbs_has_gid(dev, index))
		entry->gid = dev->gid;
	else if (!index)
		entry->gid = (union ibv_gid){.raw = {0xfe, 0x80, [15] = dev->gid.raw[14] + 1}};
	else
		return false;
	entry->gid.raw[13] += port - 1;
	return true;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	int ret;

	lock();
	fake_verbs_must(index < FAKE_VERBS_MACHINE_GIDS, "a GID beyond the port's table");
	ret = refused(fake_verbs_refused_queries.gids, port)         ? EPERM
	      : fill_gid(fake_verbs_dev_of(ctx), port, index, entry) ? 0
								     : ENODATA;
	unlock();
	return ret;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *table, size_t most,
			     uint32_t flags, size_t size)
{
	const struct fake_verbs_dev *dev = fake_verbs_dev_of(ctx);
	unsigned int port, i;
	ssize_t n = 0;

	if (fake_verbs_refused_queries.whole_table || most < dev->ports * FAKE_VERBS_MACHINE_GIDS)
		return -EINVAL;
	lock();
	for (port = 1; port <= dev->ports && n >= 0; port++) {
		for (i = 0; i < FAKE_VERBS_MACHINE_GIDS; i++)
			n += fill_gid(dev, port, i, &table[n]);
		if (refused(fake_verbs_refused_queries.gids, port))
			n = -EPERM;
	}
	unlock();
	return n;
}

/* ---- devices that the test moves ------------------------------------------------------------- */

void fake_verbs_port_state(enum ibv_port_state state)
{
	state_by_hand = state;
}

void fake_verbs_ports(struct inc_rdma_device *device, unsigned int ports)
{
	struct fake_verbs_dev *dev = fake_verbs_dev_of(device->ctx);

	dev->ports = ports;
	dev->gid_index = 2;
	device->ports = ports;
}

void fake_verbs_report(struct inc_rdma_device *device, const struct ibv_async_event *event)
{
	lock();
	put_event(context_of(device->ctx), event);
	unlock();
}

void fake_verbs_before_ack(void (*call)(void))
{
	before_ack = call;
}

struct inc_rdma_device *fake_verbs_device(const char *name, struct inc_rdma_port_info *port)
{
	static struct {
		struct inc_rdma_device rdma;
		struct ibv_pd pd;
		struct inc_rdma_gid gid;
	} devices[4];
	static const uint16_t pkey = 0xffff;
	const unsigned int n = n_by_hand++;
	struct fake_verbs_dev *dev = &devs[FAKE_VERBS_MACHINE_DEVICES + n];
	struct inc_rdma_device *device = &devices[n].rdma;

	init_dev(dev, name, 0x0a4d0001 + n);
	dev->by_hand = true;
	device->ctx = devices[n].pd.context = &make_context(dev)->ex.context;
	device->pd = &devices[n].pd;
	fcntl(device->ctx->async_fd, F_SETFL, O_NONBLOCK);
	snprintf(device->name, sizeof(device->name), "%s", name);
	device->ports = 1;
	device->limits = (struct inc_rdma_limits){100, 1000, 16, 1000, 16, 16, 0, 0};
	inc_rdma_async_init(&device->async);
	device->refs = 1;
	devices[n].gid = (struct inc_rdma_gid){
		.type = INC_RDMA_GID_ROCE_V2, .ifindex = 7, .own_ifindex = 7, .own_ifname = "h"};
	memcpy(devices[n].gid.raw, dev->gid.raw, sizeof(dev->gid.raw));
	*port = (struct inc_rdma_port_info){.number = 1,
					    .link_layer = INC_RDMA_LINK_ETHERNET,
					    .state = INC_RDMA_PORT_ACTIVE,
					    .active_mtu_bytes = 1024,
					    .max_message_bytes = FAKE_VERBS_MAX_MESSAGE_BYTES,
					    .pkey = &pkey,
					    .pkeys = 1,
					    .gid = &devices[n].gid,
					    .gids = 1};
	return device;
}
