/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that NCCL registers with a comm: on the rail in use at once, on the other rail by the
 * worker. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"

static const struct ha_comm_region *comm_region(const struct ha_region *region)
{
	return (const struct ha_comm_region *)region;
}

bool ha_comm_is_registered(const struct ha_region *region, unsigned int rail)
{
	return !region || comm_region(region)->registered[rail];
}

bool ha_comm_refused(const struct ha_region *region, unsigned int rail)
{
	return region && comm_region(region)->refused[rail];
}

void ha_comm_forget_refusals(struct ha_comm *comm, unsigned int rail)
{
	struct ha_comm_region *region;

	for (region = comm->regions; region; region = region->next)
		region->refused[rail] = false;
}

/* ---- the worker's part ----------------------------------------------------------------------- */

static unsigned int rails(const struct ha_comm *comm)
{
	return comm->dual ? HA_RAILS : 1;
}

/* Finds a region that a rail's device has neither registered nor refused, on the rail in use first.
 * *rail receives the rail. */
static struct ha_comm_region *next_unregistered(struct ha_comm *comm, unsigned int *rail)
{
	struct ha_comm_region *region;
	unsigned int i;

	for (i = 0; i < rails(comm); i++) {
		*rail = comm->rail ^ i;
		for (region = comm->regions; region; region = region->next)
			if (!region->registered[*rail] && !region->refused[*rail])
				return region;
	}
	return NULL;
}

/* Makes the loop that GPU memory needs on a rail before its first payload can land. */
static int make_loop_for(struct ha_comm *comm, const struct ha_region *region, unsigned int rail,
			 struct inc_err *err)
{
	return ha_region_is_gpu(region) ? ha_comm_make_loop(comm, rail, err) : 0;
}

/* Registers a region on one rail, without the comm's lock. */
static int register_on(struct ha_comm *comm, struct ha_region *region, unsigned int rail,
		       struct inc_err *err)
{
	int ret = make_loop_for(comm, region, rail, err);

	return ret
		       ?: ha_region_register(region, comm->plugin->caches, comm->device->rail, rail,
					     err);
}

/* Registers a region on one rail, with the comm's lock released. Meanwhile the flag busy keeps the
 * region alive. */
static void register_one(struct ha_comm *comm, struct ha_comm_region *region, unsigned int rail)
{
	struct inc_err err;
	int ret;

	region->busy = true;
	pthread_mutex_unlock(&comm->lock);
	ret = register_on(comm, &region->region, rail, &err);
	pthread_mutex_lock(&comm->lock);
	region->busy = false;
	region->registered[rail] = !ret;
	region->refused[rail] = ret;
	pthread_cond_broadcast(&comm->idle_region);
	if (ret)
		ha_log(comm->plugin, HA_LOG_WARN, "%s: %s", comm->what, err.msg);
}

static void run_register(struct ha_job *base)
{
	struct ha_comm_job *job = (struct ha_comm_job *)base;
	struct ha_comm *comm = job->comm;
	struct ha_comm_region *region;
	uint64_t now_ns;
	unsigned int rail;

	pthread_mutex_lock(&comm->lock);
	ha_comm_renew(comm);
	while (comm->open && (region = next_unregistered(comm, &rail)))
		register_one(comm, region, rail);
	comm->registering = false;
	now_ns = inc_now_ns();
	if (comm->n_later)
		ha_comm_post_later(comm, now_ns);
	ha_comm_job_over(comm, job);
}

void ha_comm_register_all(struct ha_comm *comm)
{
	struct ha_comm_job *job;
	unsigned int rail;

	if (comm->registering || !comm->open ||
	    (!comm->renewing && !next_unregistered(comm, &rail)))
		return;
	job = ha_comm_job(comm, run_register);
	if (!job)
		return; /* without memory for the job, the next request of NCCL tries again */
	comm->registering = true;
	ha_worker_do(comm->plugin->worker, &job->job);
}

void ha_comm_free_region(struct ha_comm *comm, struct ha_comm_region *region)
{
	ha_region_release(&region->region);
	if (region->region.dmabuf_fd >= 0)
		close(region->region.dmabuf_fd);
	free(region);
}

/* ---- NCCL's part ----------------------------------------------------------------------------- */

int ha_register(struct ha_comm *comm, void *address, size_t bytes, int type, int dmabuf_fd,
		uint64_t dmabuf_offset, struct ha_region **out, struct inc_err *err)
{
	struct ha_comm_region *region = calloc(1, sizeof(*region));
	unsigned int rail;
	int ret;

	if (!region)
		return inc_err_set(err, ENOMEM, "%s: %s", comm->what, strerror(ENOMEM));
	/* NCCL's descriptor is copied, because NCCL may close it when this call returns, and the
	 * other rail registers later */
	region->region =
		(struct ha_region){.address = address,
				   .bytes = bytes,
				   .type = type,
				   .dmabuf_fd = dmabuf_fd < 0 ? -1 : inc_fd_high_copy(dmabuf_fd),
				   .dmabuf_offset = dmabuf_offset};
	if (dmabuf_fd >= 0 && region->region.dmabuf_fd < 0) {
		ret = inc_err_set(err, errno,
				  "%s: descriptor %d of the memory cannot be copied: %s",
				  comm->what, dmabuf_fd, strerror(errno));
		free(region);
		return ret;
	}
	pthread_mutex_lock(&comm->lock);
	rail = comm->rail;
	pthread_mutex_unlock(&comm->lock);
	ret = make_loop_for(comm, &region->region, rail, err);
	/* A rail may have no loop, for example while its port is down. The comm leaves the rail
	 * then. Its other rail may have one. */
	region->refused[rail] = ret && comm->dual;
	if (region->refused[rail])
		ha_log(comm->plugin, HA_LOG_WARN, "%s: %s", comm->what, err->msg);
	if (!ret)
		ret = ha_region_register(&region->region, comm->plugin->caches, comm->device->rail,
					 rail, err);
	if (ret && !region->refused[rail]) {
		ha_comm_free_region(comm, region);
		return ret;
	}
	region->registered[rail] = !ret;
	pthread_mutex_lock(&comm->lock);
	region->next = comm->regions;
	comm->regions = region;
	ha_comm_register_all(comm);
	pthread_mutex_unlock(&comm->lock);
	*out = &region->region;
	return 0;
}

/* Whether a request uses the region and may be posted with it, now or after a failover. */
static bool is_used(const struct ha_comm *comm, const struct ha_region *region)
{
	const struct ha_receiver *receiver = &comm->receiver;
	uint32_t i;

	if (ha_comm_flush_uses(comm, region))
		return true;
	if (comm->end->state == HA_FAILED || comm->end->state == HA_DONE)
		return false;
	if (comm->sends) {
		for (i = 0; i < HA_REQUESTS; i++)
			if (comm->sender.send[i].region == region &&
			    (comm->sender.send[i].state == HA_SEND_BOUND ||
			     comm->sender.send[i].state == HA_SEND_IN_FLIGHT))
				return true;
		return false;
	}
	for (i = receiver->first_open; i != receiver->next_sequence; i++)
		if (receiver->slot[i % HA_SLOTS].region == region &&
		    !receiver->slot[i % HA_SLOTS].complete)
			return true;
	return false;
}

/* Ends a comm whose memory may be freed while requests use it. An RDMA device keeps the memory that
 * is registered, but a path over UDP would access whatever has these addresses after the program
 * has freed them. */
static void end_use(struct ha_comm *comm)
{
	const uint64_t now_ns = inc_now_ns();

	HA_MACHINE_EVENT(comm, close, now_ns);
	ha_comm_do(comm, now_ns);
}

void ha_deregister(struct ha_comm *comm, struct ha_region *region)
{
	struct ha_comm_region *known = (struct ha_comm_region *)region, **at;

	pthread_mutex_lock(&comm->lock);
	while (known->busy)
		pthread_cond_wait(&comm->idle_region, &comm->lock);
	/* The region is kept until the comm ends, because a failover could post a request with it
	 * again. */
	if (is_used(comm, region)) {
		if (!comm->device->rail[0].device)
			end_use(comm);
		pthread_mutex_unlock(&comm->lock);
		return;
	}
	for (at = &comm->regions; *at != known; at = &(*at)->next)
		;
	*at = known->next;
	pthread_mutex_unlock(&comm->lock);
	ha_comm_free_region(comm, known);
}
