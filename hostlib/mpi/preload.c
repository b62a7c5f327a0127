// SPDX-License-Identifier: BSD-2-Clause
/*
 * The functions that replace those of MPI, if this library is preloaded. Every other function of
 * MPI stays as it is.
 *
 * Open MPI's functions for Fortran call PMPI names, which no library can replace. So this library
 * has the Fortran names as well, with each number of underscores. The module mpi_f08 of Open MPI
 * calls functions such as ompi_allreduce_f, which have the same arguments. MPICH's functions for
 * Fortran call MPI's functions for C by their MPI names, so this library replaces these for
 * Fortran, too. Its module mpi_f08 does so only for functions with a buffer.
 */
/* the functions of MPI are this library's, too */
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop
#include "hostlib/mpi/front.h"

/* The component of Open MPI serves the calls, so this library does not. */
__attribute__((visibility("default"))) bool inccl_mpi_inert;

/* Runs a call by MPI. */
static int pass(const struct front_call *c)
{
	switch (c->kind) {
	case FRONT_ALLREDUCE:
		return PMPI_Allreduce(c->send, c->recv, c->count, c->type, c->op, c->comm);
	case FRONT_REDUCE:
		return PMPI_Reduce(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm);
	case FRONT_BCAST:
		return PMPI_Bcast(c->recv, c->count, c->type, c->root, c->comm);
	case FRONT_REDUCE_SCATTER:
		return PMPI_Reduce_scatter(c->send, c->recv, c->counts, c->type, c->op, c->comm);
	case FRONT_REDUCE_SCATTER_BLOCK:
		return PMPI_Reduce_scatter_block(c->send, c->recv, c->count, c->type, c->op,
						 c->comm);
	case FRONT_ALLGATHER:
		return PMPI_Allgather(c->send, c->send_count, c->send_type, c->recv, c->count,
				      c->type, c->comm);
	case FRONT_ALLGATHERV:
		return PMPI_Allgatherv(c->send, c->send_count, c->send_type, c->recv, c->counts,
				       c->displs, c->type, c->comm);
	case FRONT_BARRIER:
	default:
		return PMPI_Barrier(c->comm);
	}
}

/* Whether collectives may go through the switch is agreed once MPI runs. */
static int begin(int err)
{
	if (!err && !inccl_mpi_inert)
		front_init();
	return err;
}

int MPI_Init(int *argc, char ***argv)
{
	return begin(PMPI_Init(argc, argv));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return begin(PMPI_Init_thread(argc, argv, required, provided));
}

int MPI_Finalize(void)
{
	front_finalize();
	return PMPI_Finalize();
}

int MPI_Comm_free(MPI_Comm *comm)
{
	front_forget(*comm);
	return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	front_forget(*comm);
	return PMPI_Comm_disconnect(comm);
}

/* The struct is made only after the test of front_on, so without INCCL_CONTROLLER a call costs one
 * test. */

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Allreduce(send, recv, count, type, op, comm);
	return front_call(&(struct front_call){.kind = FRONT_ALLREDUCE,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .op = op,
					       .comm = comm,
					       .pass = pass});
}

int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
	       MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Reduce(send, recv, count, type, op, root, comm);
	return front_call(&(struct front_call){.kind = FRONT_REDUCE,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .op = op,
					       .root = root,
					       .comm = comm,
					       .pass = pass});
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Bcast(buffer, count, type, root, comm);
	return front_call(&(struct front_call){.kind = FRONT_BCAST,
					       .recv = buffer,
					       .count = count,
					       .type = type,
					       .root = root,
					       .comm = comm,
					       .pass = pass});
}

int MPI_Barrier(MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Barrier(comm);
	return front_call(&(struct front_call){.kind = FRONT_BARRIER, .comm = comm, .pass = pass});
}

int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type,
		       MPI_Op op, MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
	return front_call(&(struct front_call){.kind = FRONT_REDUCE_SCATTER,
					       .send = send,
					       .recv = recv,
					       .counts = counts,
					       .type = type,
					       .op = op,
					       .comm = comm,
					       .pass = pass});
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
			     MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
	return front_call(&(struct front_call){.kind = FRONT_REDUCE_SCATTER_BLOCK,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .op = op,
					       .comm = comm,
					       .pass = pass});
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int count,
		  MPI_Datatype type, MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Allgather(send, send_count, send_type, recv, count, type, comm);
	return front_call(&(struct front_call){.kind = FRONT_ALLGATHER,
					       .send = send,
					       .send_count = send_count,
					       .send_type = send_type,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .comm = comm,
					       .pass = pass});
}

int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
		   const int counts[], const int displs[], MPI_Datatype type, MPI_Comm comm)
{
	if (!front_on)
		return PMPI_Allgatherv(send, send_count, send_type, recv, counts, displs, type,
				       comm);
	return front_call(&(struct front_call){.kind = FRONT_ALLGATHERV,
					       .count = counts ? counts[0] : 0,
					       .send = send,
					       .send_count = send_count,
					       .send_type = send_type,
					       .recv = recv,
					       .counts = counts,
					       .displs = displs,
					       .type = type,
					       .comm = comm,
					       .pass = pass});
}

/* ---- nonblocking collectives, which MPI runs ---- */

int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		   MPI_Comm comm, MPI_Request *request)
{
	front_nonblocking(FRONT_IALLREDUCE);
	return PMPI_Iallreduce(send, recv, count, type, op, comm, request);
}

int MPI_Ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
		MPI_Comm comm, MPI_Request *request)
{
	front_nonblocking(FRONT_IREDUCE);
	return PMPI_Ireduce(send, recv, count, type, op, root, comm, request);
}

int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
	       MPI_Request *request)
{
	front_nonblocking(FRONT_IBCAST);
	return PMPI_Ibcast(buffer, count, type, root, comm, request);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
	front_nonblocking(FRONT_IBARRIER);
	return PMPI_Ibarrier(comm, request);
}

/* ---- Fortran, of Open MPI ---- */

#ifdef OPEN_MPI

/* Fortran's MPI_IN_PLACE and MPI_BOTTOM are variables, which stand for themselves by their
 * addresses. */
extern MPI_Fint mpi_fortran_in_place_, mpi_fortran_bottom_;

static void *address(void *p)
{
	if (p == &mpi_fortran_in_place_)
		return MPI_IN_PLACE;
	return p == &mpi_fortran_bottom_ ? MPI_BOTTOM : p;
}

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "arrays of Fortran are arrays of C");

/* mpi_f08 may leave the error code out. */
static void set_error(MPI_Fint *err, int value)
{
	if (err)
		*err = value;
}

#pragma GCC visibility push(default)

#define ALIAS(name, target) extern __typeof__(target) name __attribute__((alias(#target)))
/* Declares all names of a Fortran function, which the function's definition follows. */
#define FORTRAN(name, upper, ...)              \
	void mpi_##name##_(__VA_ARGS__);       \
	ALIAS(mpi_##name, mpi_##name##_);      \
	ALIAS(mpi_##name##__, mpi_##name##_);  \
	ALIAS(MPI_##upper, mpi_##name##_);     \
	ALIAS(ompi_##name##_f, mpi_##name##_); \
	void mpi_##name##_(__VA_ARGS__)

FORTRAN(init, INIT, MPI_Fint *err)
{
	set_error(err, MPI_Init(NULL, NULL));
}

FORTRAN(init_thread, INIT_THREAD, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *err)
{
	int level = 0;

	set_error(err, MPI_Init_thread(NULL, NULL, *required, &level));
	*provided = level;
}

FORTRAN(finalize, FINALIZE, MPI_Fint *err)
{
	set_error(err, MPI_Finalize());
}

FORTRAN(comm_free, COMM_FREE, MPI_Fint *comm, MPI_Fint *err)
{
	MPI_Comm c = PMPI_Comm_f2c(*comm);

	set_error(err, MPI_Comm_free(&c));
	*comm = PMPI_Comm_c2f(c);
}

FORTRAN(comm_disconnect, COMM_DISCONNECT, MPI_Fint *comm, MPI_Fint *err)
{
	MPI_Comm c = PMPI_Comm_f2c(*comm);

	set_error(err, MPI_Comm_disconnect(&c));
	*comm = PMPI_Comm_c2f(c);
}

FORTRAN(allreduce, ALLREDUCE, void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
	MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err, MPI_Allreduce(address(send), address(recv), *count, PMPI_Type_f2c(*type),
				     PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

FORTRAN(reduce, REDUCE, void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
	MPI_Fint *root, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err, MPI_Reduce(address(send), address(recv), *count, PMPI_Type_f2c(*type),
				  PMPI_Op_f2c(*op), *root, PMPI_Comm_f2c(*comm)));
}

FORTRAN(bcast, BCAST, void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root, MPI_Fint *comm,
	MPI_Fint *err)
{
	set_error(err, MPI_Bcast(address(buffer), *count, PMPI_Type_f2c(*type), *root,
				 PMPI_Comm_f2c(*comm)));
}

FORTRAN(reduce_scatter, REDUCE_SCATTER, void *send, void *recv, MPI_Fint *counts, MPI_Fint *type,
	MPI_Fint *op, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err,
		  MPI_Reduce_scatter(address(send), address(recv), counts, PMPI_Type_f2c(*type),
				     PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

FORTRAN(reduce_scatter_block, REDUCE_SCATTER_BLOCK, void *send, void *recv, MPI_Fint *count,
	MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err, MPI_Reduce_scatter_block(address(send), address(recv), *count,
						PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
						PMPI_Comm_f2c(*comm)));
}

FORTRAN(allgather, ALLGATHER, void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv,
	MPI_Fint *count, MPI_Fint *type, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err,
		  MPI_Allgather(address(send), *send_count, PMPI_Type_f2c(*send_type),
				address(recv), *count, PMPI_Type_f2c(*type), PMPI_Comm_f2c(*comm)));
}

FORTRAN(allgatherv, ALLGATHERV, void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv,
	MPI_Fint *counts, MPI_Fint *displs, MPI_Fint *type, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err, MPI_Allgatherv(address(send), *send_count, PMPI_Type_f2c(*send_type),
				      address(recv), counts, displs, PMPI_Type_f2c(*type),
				      PMPI_Comm_f2c(*comm)));
}

FORTRAN(barrier, BARRIER, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}

FORTRAN(iallreduce, IALLREDUCE, void *send, void *recv, MPI_Fint *count, MPI_Fint *type,
	MPI_Fint *op, MPI_Fint *comm, MPI_Fint *request, MPI_Fint *err)
{
	MPI_Request r = MPI_REQUEST_NULL;

	set_error(err, MPI_Iallreduce(address(send), address(recv), *count, PMPI_Type_f2c(*type),
				      PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm), &r));
	*request = PMPI_Request_c2f(r);
}

FORTRAN(ireduce, IREDUCE, void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
	MPI_Fint *root, MPI_Fint *comm, MPI_Fint *request, MPI_Fint *err)
{
	MPI_Request r = MPI_REQUEST_NULL;

	set_error(err, MPI_Ireduce(address(send), address(recv), *count, PMPI_Type_f2c(*type),
				   PMPI_Op_f2c(*op), *root, PMPI_Comm_f2c(*comm), &r));
	*request = PMPI_Request_c2f(r);
}

FORTRAN(ibcast, IBCAST, void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root,
	MPI_Fint *comm, MPI_Fint *request, MPI_Fint *err)
{
	MPI_Request r = MPI_REQUEST_NULL;

	set_error(err, MPI_Ibcast(address(buffer), *count, PMPI_Type_f2c(*type), *root,
				  PMPI_Comm_f2c(*comm), &r));
	*request = PMPI_Request_c2f(r);
}

FORTRAN(ibarrier, IBARRIER, MPI_Fint *comm, MPI_Fint *request, MPI_Fint *err)
{
	MPI_Request r = MPI_REQUEST_NULL;

	set_error(err, MPI_Ibarrier(PMPI_Comm_f2c(*comm), &r));
	*request = PMPI_Request_c2f(r);
}

#pragma GCC visibility pop

#else

/* ---- the module mpi_f08, of MPICH ---- */

/* Functions without a buffer call PMPI names, so this library has their Fortran names as well. A
 * handle is a structure of one integer, and the error code may be left out. */

#pragma GCC visibility push(default)

#define FORTRAN(name, ...)                   \
	void mpi_##name##_f08_(__VA_ARGS__); \
	void mpi_##name##_f08_(__VA_ARGS__)

static void set_error(MPI_Fint *err, int value)
{
	if (err)
		*err = value;
}

FORTRAN(init, MPI_Fint *err)
{
	set_error(err, MPI_Init(NULL, NULL));
}

FORTRAN(init_thread, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *err)
{
	int level = 0;

	set_error(err, MPI_Init_thread(NULL, NULL, *required, &level));
	*provided = level;
}

FORTRAN(finalize, MPI_Fint *err)
{
	set_error(err, MPI_Finalize());
}

FORTRAN(comm_free, MPI_Fint *comm, MPI_Fint *err)
{
	MPI_Comm c = PMPI_Comm_f2c(*comm);

	set_error(err, MPI_Comm_free(&c));
	*comm = PMPI_Comm_c2f(c);
}

FORTRAN(comm_disconnect, MPI_Fint *comm, MPI_Fint *err)
{
	MPI_Comm c = PMPI_Comm_f2c(*comm);

	set_error(err, MPI_Comm_disconnect(&c));
	*comm = PMPI_Comm_c2f(c);
}

FORTRAN(barrier, MPI_Fint *comm, MPI_Fint *err)
{
	set_error(err, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}

FORTRAN(ibarrier, MPI_Fint *comm, MPI_Fint *request, MPI_Fint *err)
{
	MPI_Request r = MPI_REQUEST_NULL;

	set_error(err, MPI_Ibarrier(PMPI_Comm_f2c(*comm), &r));
	*request = PMPI_Request_c2f(r);
}

#pragma GCC visibility pop

#endif
