// SPDX-License-Identifier: BSD-2-Clause
/*
 * A component of Open MPI's framework "coll": it gives collectives to the switch, and no library is
 * preloaded. Open MPI loads mca_coll_inccl.so from its directory of plugins. docs/mpi.md, "Inside
 * Open MPI", has the order of Open MPI's calls.
 *
 * Open MPI asks each component for a module of each communicator. It enables the modules from the
 * lowest priority to the highest, and a module replaces the functions of those below it. So this
 * module keeps the functions that it replaces, and calls them for what the switch does not serve.
 *
 * Collectives that the front end itself calls come back to these functions, if they are on a
 * communicator of the program. While a thread runs the front end, they go to the kept functions.
 */
#include <ompi_config.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ompi/mca/coll/coll.h>
#include <ompi/mca/coll/base/base.h>
#include <ompi/communicator/communicator.h>
#include <ompi/group/group.h>
#if OMPI_MAJOR_VERSION >= 5
#include <opal/mca/pmix/pmix-internal.h>
#else
#include <opal/mca/pmix/pmix.h>
#endif
#include "hostlib/mpi/front.h"

#if OMPI_MAJOR_VERSION >= 5
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#define GLOBAL_SCOPE PMIX_GLOBAL
#else
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#define GLOBAL_SCOPE OPAL_PMIX_GLOBAL
#endif

/* Among the components of Open MPI only "monitoring" has a higher priority. */
#define PRIORITY 90
/* the name under which each rank publishes its host and its settings */
#define KEY "inccl.settings"

typedef struct mca_coll_inccl_module_t {
	mca_coll_base_module_t super;
	mca_coll_base_comm_coll_t below; /* the functions that this module replaces */
	struct front_team *team;
} mca_coll_inccl_module_t;

/* The settings of this rank, or "" without INCCL_CONTROLLER. The component does nothing then. */
static char settings[FRONT_TEXT_BYTES];
/* This thread runs the front end. */
static __thread bool inside;
/* It is there if libinccl-mpi.so is preloaded, too. */
extern bool inccl_mpi_inert __attribute__((weak));

/* ---- the modules ---- */

/* The module below that has the function of a kind. */
static mca_coll_base_module_t **below(mca_coll_inccl_module_t *m, enum front_kind kind)
{
	mca_coll_base_module_t **const modules[FRONT_COUNTED_KINDS] = {
		[FRONT_ALLREDUCE] = &m->below.coll_allreduce_module,
		[FRONT_REDUCE] = &m->below.coll_reduce_module,
		[FRONT_BCAST] = &m->below.coll_bcast_module,
		[FRONT_BARRIER] = &m->below.coll_barrier_module,
		[FRONT_REDUCE_SCATTER] = &m->below.coll_reduce_scatter_module,
		[FRONT_REDUCE_SCATTER_BLOCK] = &m->below.coll_reduce_scatter_block_module,
		[FRONT_ALLGATHER] = &m->below.coll_allgather_module,
		[FRONT_ALLGATHERV] = &m->below.coll_allgatherv_module,
		[FRONT_IALLREDUCE] = &m->below.coll_iallreduce_module,
		[FRONT_IREDUCE] = &m->below.coll_ireduce_module,
		[FRONT_IBCAST] = &m->below.coll_ibcast_module,
		[FRONT_IBARRIER] = &m->below.coll_ibarrier_module,
	};

	return modules[kind];
}

static void construct(mca_coll_inccl_module_t *m)
{
	memset(&m->below, 0, sizeof(m->below));
	m->team = NULL;
}

static void destruct(mca_coll_inccl_module_t *m)
{
	for (int kind = 0; kind < FRONT_COUNTED_KINDS; kind++)
		if (*below(m, kind))
			OBJ_RELEASE(*below(m, kind));
}

static OBJ_CLASS_INSTANCE(mca_coll_inccl_module_t, mca_coll_base_module_t, construct, destruct);

static int enable(mca_coll_base_module_t *module, MPI_Comm comm)
{
	mca_coll_inccl_module_t *m = (mca_coll_inccl_module_t *)module;

	m->below = *comm->c_coll;
	/* all of them must live as long as this module, also where another module replaces them */
	for (int kind = 0; kind < FRONT_COUNTED_KINDS; kind++)
		if (*below(m, kind))
			OBJ_RETAIN(*below(m, kind));
	return OMPI_SUCCESS;
}

/* Runs a call by the functions below. */
static int pass(const struct front_call *c)
{
	mca_coll_inccl_module_t *m = c->module;
	const mca_coll_base_comm_coll_t *b = &m->below;
	mca_coll_base_module_t *module = *below(m, c->kind);

	switch (c->kind) {
	case FRONT_ALLREDUCE:
		return b->coll_allreduce(c->send, c->recv, c->count, c->type, c->op, c->comm,
					 module);
	case FRONT_REDUCE:
		return b->coll_reduce(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm,
				      module);
	case FRONT_BCAST:
		return b->coll_bcast(c->recv, c->count, c->type, c->root, c->comm, module);
	case FRONT_REDUCE_SCATTER:
		return b->coll_reduce_scatter(c->send, c->recv, c->counts, c->type, c->op, c->comm,
					      module);
	case FRONT_REDUCE_SCATTER_BLOCK:
		return b->coll_reduce_scatter_block(c->send, c->recv, c->count, c->type, c->op,
						    c->comm, module);
	case FRONT_ALLGATHER:
		return b->coll_allgather(c->send, c->send_count, c->send_type, c->recv, c->count,
					 c->type, c->comm, module);
	case FRONT_ALLGATHERV:
		return b->coll_allgatherv(c->send, c->send_count, c->send_type, c->recv, c->counts,
					  c->displs, c->type, c->comm, module);
	case FRONT_BARRIER:
	default:
		return b->coll_barrier(c->comm, module);
	}
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else. */
static int on_finalize(MPI_Comm self, int keyval, void *attribute, void *extra)
{
	front_finalize();
	return MPI_SUCCESS;
}

static void begin(void)
{
	int key;

	front_begin(true);
	PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, NULL);
	PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
}

/* Whether the front end may serve calls. Open MPI itself calls collectives in MPI_Init, where the
 * front end can call no function of MPI. */
static bool is_ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int initialized;

	PMPI_Initialized(&initialized);
	if (initialized)
		pthread_once(&once, begin);
	return initialized;
}

static int serve(mca_coll_base_module_t *module, struct front_call c)
{
	mca_coll_inccl_module_t *m = (mca_coll_inccl_module_t *)module;
	int err;

	c.pass = pass;
	c.module = m;
	c.team = &m->team;
	if (inside || !is_ready())
		return pass(&c);
	inside = true;
	err = front_call(&c);
	inside = false;
	return err;
}

static int allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		     MPI_Comm comm, mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_ALLREDUCE,
						 .send = send,
						 .recv = recv,
						 .count = count,
						 .type = type,
						 .op = op,
						 .comm = comm});
}

static int reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
		  MPI_Comm comm, mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_REDUCE,
						 .send = send,
						 .recv = recv,
						 .count = count,
						 .type = type,
						 .op = op,
						 .root = root,
						 .comm = comm});
}

static int bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
		 mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_BCAST,
						 .recv = buffer,
						 .count = count,
						 .type = type,
						 .root = root,
						 .comm = comm});
}

static int barrier(MPI_Comm comm, mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_BARRIER, .comm = comm});
}

static int reduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type,
			  MPI_Op op, MPI_Comm comm, mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_REDUCE_SCATTER,
						 .send = send,
						 .recv = recv,
						 .counts = counts,
						 .type = type,
						 .op = op,
						 .comm = comm});
}

static int reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type,
				MPI_Op op, MPI_Comm comm, mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_REDUCE_SCATTER_BLOCK,
						 .send = send,
						 .recv = recv,
						 .count = count,
						 .type = type,
						 .op = op,
						 .comm = comm});
}

static int allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
		     int count, MPI_Datatype type, MPI_Comm comm, mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_ALLGATHER,
						 .send = send,
						 .send_count = send_count,
						 .send_type = send_type,
						 .recv = recv,
						 .count = count,
						 .type = type,
						 .comm = comm});
}

static int allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
		      const int *counts, const int *displs, MPI_Datatype type, MPI_Comm comm,
		      mca_coll_base_module_t *module)
{
	return serve(module, (struct front_call){.kind = FRONT_ALLGATHERV,
						 .send = send,
						 .send_count = send_count,
						 .send_type = send_type,
						 .recv = recv,
						 .count = counts[0],
						 .counts = counts,
						 .displs = displs,
						 .type = type,
						 .comm = comm});
}

/* ---- nonblocking collectives, which the functions below run ---- */

/* Counts a call of the program. Returns the functions below. */
static mca_coll_inccl_module_t *note(mca_coll_base_module_t *module, enum front_kind kind)
{
	if (!inside)
		front_nonblocking(kind);
	return (mca_coll_inccl_module_t *)module;
}

static int iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		      MPI_Comm comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
	mca_coll_inccl_module_t *m = note(module, FRONT_IALLREDUCE);

	return m->below.coll_iallreduce(send, recv, count, type, op, comm, request,
					m->below.coll_iallreduce_module);
}

static int ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
		   MPI_Comm comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
	mca_coll_inccl_module_t *m = note(module, FRONT_IREDUCE);

	return m->below.coll_ireduce(send, recv, count, type, op, root, comm, request,
				     m->below.coll_ireduce_module);
}

static int ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
		  ompi_request_t **request, mca_coll_base_module_t *module)
{
	mca_coll_inccl_module_t *m = note(module, FRONT_IBCAST);

	return m->below.coll_ibcast(buffer, count, type, root, comm, request,
				    m->below.coll_ibcast_module);
}

static int ibarrier(MPI_Comm comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
	mca_coll_inccl_module_t *m = note(module, FRONT_IBARRIER);

	return m->below.coll_ibarrier(comm, request, m->below.coll_ibarrier_module);
}

/* ---- the component ---- */

/* Publishes the host and the settings of this rank. MPI_Init exchanges what is published before it
 * asks components for modules. */
static int open_component(void)
{
	const char *controller = getenv("INCCL_CONTROLLER");
	char host[64] = "?", text[sizeof(settings) + sizeof(host)];
	int err, n;

	if (controller && controller[0])
		front_describe(settings);
	gethostname(host, sizeof(host) - 1);
	n = snprintf(text, sizeof(text), "%s\n%s", host, settings);
	OPAL_MODEX_SEND_STRING(err, GLOBAL_SCOPE, KEY, text, n + 1);
	/* to the others this rank has no component then */
	if (err)
		settings[0] = '\0';
	return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads)
{
	return OMPI_SUCCESS;
}

/* Copies what a rank has published. Returns false if it has published nothing. */
static bool get_published(MPI_Comm world, int rank, char host[64], char text[FRONT_TEXT_BYTES])
{
	opal_process_name_t name = ompi_group_get_proc_name(world->c_remote_group, rank);
	uint8_t *data = NULL;
	size_t size = 0;
	bool found;
	int err;

	host[0] = text[0] = '\0';
	OPAL_MODEX_RECV_STRING(err, KEY, &name, &data, &size);
	found = !err && size && !data[size - 1];
	if (found)
		sscanf((char *)data, "%63[^\n]\n%319[^\n]", host, text);
	free(data);
	return found;
}

/* Whether all ranks have the same settings. All ranks that have INCCL_CONTROLLER find the same, and
 * the first of them prints the reason if it is false. */
static bool all_agree(MPI_Comm world)
{
	char host[64], text[FRONT_TEXT_BYTES], first[FRONT_TEXT_BYTES],
		what[FRONT_TEXT_BYTES] = "", why[2 * FRONT_TEXT_BYTES] = "";
	int speaker = -1;

	front_read_choice(what);
	for (int rank = 0; rank < ompi_comm_size(world); rank++) {
		if (!get_published(world, rank, host, text))
			snprintf(what, sizeof(what), "Open MPI has no component inccl there");
		else if (!text[0])
			snprintf(what, sizeof(what), "INCCL_CONTROLLER is not set");
		else if (speaker < 0)
			speaker = rank;
		if (!rank)
			memcpy(first, text, sizeof(first));
		else if (text[0] && strcmp(text, first) && !what[0])
			snprintf(what, sizeof(what), "it has \"%.90s\", but rank 0 has \"%.90s\"",
				 text, first);
		if (what[0] && !why[0])
			snprintf(why, sizeof(why), "rank %d (%s): %s", rank, host[0] ? host : "?",
				 what);
	}
	if (why[0])
		front_alone(ompi_comm_rank(world) == speaker, "MPI_COMM_WORLD", why);
	return !why[0];
}

static mca_coll_base_module_t *comm_query(MPI_Comm comm, int *priority)
{
	static bool agreed;
	mca_coll_inccl_module_t *m;

	/* The front end's own communicators need no module. */
	if (!settings[0] || inside || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2)
		return NULL;
	/* MPI_Init asks for the module of MPI_COMM_WORLD first */
	if (comm == MPI_COMM_WORLD) {
		agreed = all_agree(comm);
		if (agreed && &inccl_mpi_inert)
			inccl_mpi_inert = true;
	}
	if (!agreed)
		return NULL;
	m = OBJ_NEW(mca_coll_inccl_module_t);
	if (!m)
		front_die("no memory for a communicator");
	m->super.coll_module_enable = enable;
	m->super.coll_allreduce = allreduce;
	m->super.coll_reduce = reduce;
	m->super.coll_bcast = bcast;
	m->super.coll_barrier = barrier;
	m->super.coll_reduce_scatter = reduce_scatter;
	m->super.coll_reduce_scatter_block = reduce_scatter_block;
	m->super.coll_allgather = allgather;
	m->super.coll_allgatherv = allgatherv;
	m->super.coll_iallreduce = iallreduce;
	m->super.coll_ireduce = ireduce;
	m->super.coll_ibcast = ibcast;
	m->super.coll_ibarrier = ibarrier;
	*priority = PRIORITY;
	return &m->super;
}

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_inccl_component = {
	.collm_version =
		{
			COLL_VERSION,
			.mca_component_name = "inccl",
			MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
					      OMPI_RELEASE_VERSION),
			.mca_open_component = open_component,
		},
	.collm_data = {MCA_BASE_METADATA_PARAM_NONE},
	.collm_init_query = init_query,
	.collm_comm_query = comm_query,
};
