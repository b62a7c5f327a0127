/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and memory regions, the table of all objects, and the failures of calls. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "selftests/fakes/verbs_priv.h"

#undef ibv_reg_mr

struct entry {
	struct ibv_wc wc;
	/* number of the queue pair whose send queue has room again once this entry is polled */
	uint32_t qpn;
	uint64_t up_to;
};

struct fake_verbs_cq {
	/* must be the first member, because pointers to it are cast to this struct */
	struct ibv_cq ibv;
	struct entry entry[FAKE_VERBS_DEPTH];
	uint64_t put, taken;
	bool armed;
	unsigned int late, unacknowledged;
};

struct fake_verbs_mr {
	/* must be the first member, because pointers to it are cast to this struct */
	struct ibv_mr ibv;
	int access;
	/* a mapping of the registered memory of a GPU, and its size; NULL: memory of the host */
	uint8_t *gpu;
	size_t mapped_bytes;
};

/* A write to GPU memory that is still in its device. */
struct fake_verbs_late {
	struct fake_verbs_late *next;
	void *to;
	uint32_t bytes;
	uint8_t data[];
};

pthread_mutex_t fake_verbs_lock = PTHREAD_MUTEX_INITIALIZER;

static struct fake_verbs_mr *mrs[FAKE_VERBS_MAX_OBJECTS];
static struct fake_verbs_cq *cqs[FAKE_VERBS_MAX_OBJECTS];
static unsigned int n_mrs, n_cqs;
static unsigned int objects, calls_to_failure;
static bool has_failed, notify_late;
static void (*before_arming)(void);
static struct {
	int error;
	unsigned int times;
} refused[FAKE_VERBS_N_CALLS];

static void lock(void)
{
	pthread_mutex_lock(&fake_verbs_lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&fake_verbs_lock);
}

void fake_verbs_must(bool holds, const char *reason)
{
	if (holds)
		return;
	fprintf(stderr, "# fake verbs: %s\n", reason);
	abort();
}

uint32_t fake_verbs_number(void)
{
	static uint32_t last = 16;

	return ++last;
}

void fake_verbs_put(void *table, unsigned int *n, void *object)
{
	void **const entry = table;
	unsigned int i;

	for (i = 0; i < *n && entry[i]; i++)
		;
	fake_verbs_must(i < FAKE_VERBS_MAX_OBJECTS, "too many objects");
	entry[i] = object;
	*n += i == *n;
	objects++;
}

void fake_verbs_take_out(void *table, unsigned int n, const void *object)
{
	void **const entry = table;
	unsigned int i;

	for (i = 0; i < n && entry[i] != object; i++)
		;
	fake_verbs_must(i < n, "an object that is not there");
	entry[i] = NULL;
	objects--;
}

/* ---- calls that fail ------------------------------------------------------------------------ */

void fake_verbs_fail_call(unsigned int n)
{
	calls_to_failure = n;
	has_failed = false;
}

bool fake_verbs_has_failed(void)
{
	return has_failed;
}

bool fake_verbs_call_fails(void)
{
	if (!calls_to_failure || --calls_to_failure)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

void fake_verbs_refuse(enum fake_verbs_call call, int error, unsigned int times)
{
	lock();
	refused[call].error = error;
	refused[call].times = times;
	unlock();
}

unsigned int fake_verbs_refusals_left(enum fake_verbs_call call)
{
	unsigned int n;

	lock();
	n = refused[call].times;
	unlock();
	return n;
}

int fake_verbs_refused(enum fake_verbs_call call)
{
	if (fake_verbs_call_fails())
		return ENOMEM;
	if (!refused[call].times)
		return 0;
	if (refused[call].times != UINT32_MAX)
		refused[call].times--;
	errno = refused[call].error;
	return errno;
}

unsigned int fake_verbs_objects(void)
{
	unsigned int n;

	lock();
	n = objects;
	unlock();
	return n;
}

/* ---- completions ---------------------------------------------------------------------------- */

static struct fake_verbs_cq *cq_of(const struct ibv_cq *cq)
{
	return (struct fake_verbs_cq *)cq;
}

void fake_verbs_notify_late(bool late)
{
	notify_late = late;
}

static void notify(struct fake_verbs_cq *cq)
{
	for (; cq->late; cq->late--)
		fake_verbs_must(!eventfd_write(cq->ibv.channel->fd, 1), "eventfd");
}

void fake_verbs_notify(struct ibv_cq *cq)
{
	lock();
	notify(cq_of(cq));
	unlock();
}

bool fake_verbs_notifies(const struct ibv_cq *cq)
{
	return cq_of(cq)->late;
}

void fake_verbs_notify_of_nothing(struct ibv_cq *cq)
{
	fake_verbs_must(!eventfd_write(cq->channel->fd, 1), "eventfd");
}

unsigned int fake_verbs_completions(const struct ibv_cq *cq)
{
	unsigned int n;

	lock();
	n = cq_of(cq)->put - cq_of(cq)->taken;
	unlock();
	return n;
}

static void complete(struct fake_verbs_cq *cq, struct entry entry)
{
	fake_verbs_must(cq->put - cq->taken < (uint64_t)cq->ibv.cqe,
			"a completion queue overflows");
	cq->entry[cq->put++ % FAKE_VERBS_DEPTH] = entry;
	if (!cq->armed)
		return;
	cq->armed = false;
	cq->late++;
	if (!notify_late)
		notify(cq);
}

void fake_verbs_complete_send(struct fake_verbs_qp *qp, uint64_t number, enum ibv_wc_status status)
{
	const struct ibv_send_wr *wr = &qp->sq[number % FAKE_VERBS_DEPTH].wr;

	complete(cq_of(qp->ibv.send_cq),
		 (struct entry){
			 .wc = {.wr_id = wr->wr_id, .status = status, .qp_num = qp->ibv.qp_num},
			 .qpn = qp->ibv.qp_num,
			 .up_to = number});
}

void fake_verbs_complete_receive(struct fake_verbs_qp *qp, const struct ibv_wc *wc)
{
	complete(cq_of(qp->ibv.recv_cq), (struct entry){.wc = *wc});
}

/* Makes room in the send queue of the completion's queue pair, because the completion was
 * polled. */
static void free_room(const struct entry *entry)
{
	unsigned int i;

	for (i = 0; entry->qpn && i < fake_verbs_n_qps; i++)
		if (fake_verbs_qps[i] && fake_verbs_qps[i]->ibv.qp_num == entry->qpn) {
			fake_verbs_qps[i]->freed = entry->up_to;
			return;
		}
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct fake_verbs_cq *cq = cq_of(ibv);
	struct entry *e;
	int i;

	lock();
	fake_verbs_progress_all();
	for (i = 0; i < n && cq->taken < cq->put; i++) {
		e = &cq->entry[cq->taken++ % FAKE_VERBS_DEPTH];
		wc[i] = e->wc;
		free_room(e);
	}
	unlock();
	return i;
}

void fake_verbs_before_arming(void (*call)(void))
{
	before_arming = call;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	void (*const call)(void) = before_arming;
	int ret;

	before_arming = NULL;
	if (call)
		call();
	lock();
	ret = fake_verbs_call_fails() ? ENOMEM : 0;
	cq_of(ibv)->armed |= !ret;
	unlock();
	return ret;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *channel = NULL;

	lock();
	if (!fake_verbs_call_fails()) {
		channel = calloc(1, sizeof(*channel));
		channel->context = ctx;
		channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
		objects++;
	}
	/* a test may have limited the number of descriptors, of which a real device needs one, too
	 */
	if (channel && channel->fd < 0) {
		free(channel);
		channel = NULL;
		objects--;
	}
	unlock();
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	lock();
	close(channel->fd);
	free(channel);
	objects--;
	unlock();
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_verbs_cq *cq = NULL;

	lock();
	if (!fake_verbs_refused(FAKE_VERBS_CREATE_CQ)) {
		fake_verbs_must(cqe <= FAKE_VERBS_DEPTH,
				"a completion queue is larger than it can be");
		cq = calloc(1, sizeof(*cq));
		cq->ibv = (struct ibv_cq){.context = ctx, .channel = channel, .cqe = cqe};
		fake_verbs_put(cqs, &n_cqs, cq);
	}
	unlock();
	return cq ? &cq->ibv : NULL;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	unsigned int i;

	lock();
	for (i = 0; i < fake_verbs_n_qps; i++)
		fake_verbs_must(!fake_verbs_qps[i] || (fake_verbs_qps[i]->ibv.send_cq != cq &&
						       fake_verbs_qps[i]->ibv.recv_cq != cq),
				"a queue pair has lost its completion queue");
	fake_verbs_must(!cq_of(cq)->unacknowledged,
			"not acknowledged: a real device waits for ever");
	fake_verbs_take_out(cqs, n_cqs, cq);
	free(cq);
	unlock();
	return 0;
}

static struct fake_verbs_cq *cq_with(const struct ibv_comp_channel *channel)
{
	unsigned int i;

	for (i = 0; i < n_cqs && !(cqs[i] && cqs[i]->ibv.channel == channel); i++)
		;
	fake_verbs_must(i < n_cqs, "an event of a queue that is not there");
	return cqs[i];
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **ctx)
{
	struct fake_verbs_cq *cq;
	eventfd_t one;

	if (eventfd_read(channel->fd, &one))
		return -1;
	lock();
	cq = cq_with(channel);
	cq->unacknowledged++;
	unlock();
	*out = &cq->ibv;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	lock();
	cq_of(cq)->unacknowledged -= n;
	unlock();
}

/* ---- memory --------------------------------------------------------------------------------- */

static struct {
	uint8_t *addr;
	size_t bytes;
	int fd;
	bool peer_memory;
} gpu;

void fake_verbs_gpu(void *addr, size_t bytes, int fd, bool peer_memory)
{
	lock();
	gpu.addr = addr;
	gpu.bytes = bytes;
	gpu.fd = fd;
	gpu.peer_memory = peer_memory;
	unlock();
}

static bool is_on_gpu(const void *addr, size_t length)
{
	const uint8_t *at = addr;

	return at < gpu.addr + gpu.bytes && at + length > gpu.addr;
}

/* Maps length bytes of a file for a registration. Returns false with errno if the file is none, is
 * too short, or cannot be mapped. */
static bool map_file(struct fake_verbs_mr *mr, int fd, uint64_t offset, size_t length)
{
	const uint64_t page = sysconf(_SC_PAGESIZE), from = offset / page * page;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	if (offset + length > (uint64_t)st.st_size) {
		errno = EINVAL;
		return false;
	}
	mr->mapped_bytes = offset + length - from;
	mr->gpu = mmap(NULL, mr->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, from);
	if (mr->gpu == MAP_FAILED)
		return false;
	mr->gpu += offset - from;
	return true;
}

/* Maps the memory of a registration if that is a GPU's. Returns false with errno if the device
 * cannot register it. */
static bool map_gpu(struct fake_verbs_mr *mr, enum fake_verbs_call call, int fd, uint64_t offset)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	const uint8_t *addr = mr->ibv.addr;

	if (call == FAKE_VERBS_REG_DMABUF) {
		/* the kernel maps whole pages, too */
		if (offset % page == (uintptr_t)addr % page)
			return map_file(mr, fd, offset, mr->ibv.length);
		errno = EINVAL;
		return false;
	}
	if (!is_on_gpu(addr, mr->ibv.length))
		return true;
	if (gpu.peer_memory && addr >= gpu.addr)
		return map_file(mr, gpu.fd, addr - gpu.addr, mr->ibv.length);
	errno = EFAULT;
	return false;
}

static struct ibv_mr *make_mr(enum fake_verbs_call call, struct ibv_pd *pd, void *addr,
			      size_t length, int access, int fd, uint64_t offset)
{
	struct fake_verbs_mr *mr = NULL;

	lock();
	if (!fake_verbs_refused(call)) {
		mr = calloc(1, sizeof(*mr));
		mr->access = access;
		mr->ibv = (struct ibv_mr){
			.context = pd->context, .pd = pd, .addr = addr, .length = length};
		mr->ibv.lkey = mr->ibv.rkey = fake_verbs_number();
		if (map_gpu(mr, call, fd, offset)) {
			fake_verbs_put(mrs, &n_mrs, mr);
		} else {
			free(mr);
			mr = NULL;
		}
	}
	unlock();
	return mr ? &mr->ibv : NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return make_mr(FAKE_VERBS_REG_MR, pd, addr, length, access, -1, 0);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return make_mr(FAKE_VERBS_REG_MR, pd, addr, length, access, -1, 0);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return make_mr(FAKE_VERBS_REG_DMABUF, pd, (void *)(uintptr_t)iova, length, access, fd,
		       offset);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct fake_verbs_mr *mr = (struct fake_verbs_mr *)ibv;
	const uintptr_t page = sysconf(_SC_PAGESIZE);

	lock();
	fake_verbs_take_out(mrs, n_mrs, ibv);
	if (mr->gpu) {
		fake_verbs_flush_gpu(fake_verbs_dev_of(ibv->context));
		munmap((void *)((uintptr_t)mr->gpu / page * page), mr->mapped_bytes);
	}
	free(ibv);
	unlock();
	return 0;
}

void *fake_verbs_touch(const struct ibv_context *ctx, uint32_t key, uint64_t addr, uint32_t length,
		       int access, bool *on_gpu)
{
	const struct fake_verbs_mr *mr;
	unsigned int i;

	for (i = 0; i < n_mrs; i++) {
		mr = mrs[i];
		if (!mr || mr->ibv.lkey != key || mr->ibv.context != ctx ||
		    (mr->access & access) != access || addr < (uintptr_t)mr->ibv.addr ||
		    addr + length > (uintptr_t)mr->ibv.addr + mr->ibv.length)
			continue;
		if (on_gpu)
			*on_gpu = mr->gpu;
		return mr->gpu ? mr->gpu + (addr - (uintptr_t)mr->ibv.addr)
			       : (void *)(uintptr_t)addr;
	}
	return NULL;
}

bool fake_verbs_may_touch(const struct ibv_context *ctx, uint32_t key, uint64_t addr,
			  uint32_t length, int access)
{
	return fake_verbs_touch(ctx, key, addr, length, access, NULL);
}

void fake_verbs_write_gpu(struct fake_verbs_dev *dev, void *to, const void *from, uint32_t bytes)
{
	struct fake_verbs_late *late = calloc(1, sizeof(*late) + bytes);

	late->to = to;
	late->bytes = bytes;
	memcpy(late->data, from, bytes);
	if (dev->last_late)
		dev->last_late->next = late;
	else
		dev->first_late = late;
	dev->last_late = late;
	dev->lates++;
}

void fake_verbs_flush_gpu(struct fake_verbs_dev *dev)
{
	struct fake_verbs_late *late;

	while ((late = dev->first_late)) {
		memcpy(late->to, late->data, late->bytes);
		dev->first_late = late->next;
		free(late);
	}
	dev->last_late = NULL;
	dev->lates = 0;
}

unsigned int fake_verbs_unflushed(unsigned int device)
{
	unsigned int n;

	lock();
	n = fake_verbs_dev_number(device)->lates;
	unlock();
	return n;
}

void fake_verbs_deliver(unsigned int device)
{
	lock();
	fake_verbs_flush_gpu(fake_verbs_dev_number(device));
	unlock();
}

void fake_verbs_set_ops(struct ibv_context *ctx)
{
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.req_notify_cq = req_notify_cq;
	ctx->ops.post_send = fake_verbs_post_send;
	ctx->ops.post_recv = fake_verbs_post_recv;
}
