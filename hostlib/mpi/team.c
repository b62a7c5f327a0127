// SPDX-License-Identifier: BSD-2-Clause
/* The teams: for each communicator of MPI, whether it goes through the switch, its nodes, its
 * leaders and their group of libinccl. All of that is agreed by collectives of MPI. */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/mpi/front.h"
#include "lib/base/random.h"
#include "lib/conf/messages.h"

/* Calls of a communicator before it gets a group, because a group costs more than a few calls
 * save. MPI_COMM_WORLD gets its group at the first call. */
#define CALLS_BEFORE 16
/* time until all leaders have joined; no leader comes late, because all have agreed before */
#define CREATE_TIMEOUT_MS  30000
#define CONNECT_TIMEOUT_MS 5000
/* pause between two calls of MPI while a group is created */
#define PAUSE_NS 1000000

bool front_on;
int front_fixed = -1;

static int key = MPI_KEYVAL_INVALID; /* of the attribute that points to a communicator's team */
static bool frees_teams;             /* with the attributes of their communicators */
static struct front_team *teams, **last_team = &teams;
/* protects the list of teams, because several threads may make teams */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void front_die(const char *what)
{
	fprintf(stderr, "inccl: %s\n", what);
	PMPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

__attribute__((format(printf, 1, 2))) static void say(const char *form, ...)
{
	char line[1024];
	va_list args;

	va_start(args, form);
	vsnprintf(line, sizeof(line), form, args);
	va_end(args);
	fprintf(stderr, "inccl: %s\n", line);
}

/* Returns true if no rank has a problem. Otherwise @text becomes that of the lowest rank that has
 * one, with its number and its host in front. shown: the number of this rank for the user */
static bool agree(MPI_Comm comm, int shown, char text[FRONT_TEXT_BYTES])
{
	char own[FRONT_TEXT_BYTES], host[64] = "?";
	int rank, mine, first;

	PMPI_Comm_rank(comm, &rank);
	mine = text[0] ? rank : INT_MAX;
	PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm);
	if (first == INT_MAX)
		return true;
	if (rank == first) {
		gethostname(host, sizeof(host) - 1);
		snprintf(own, sizeof(own), "%s", text);
		snprintf(text, FRONT_TEXT_BYTES, "rank %d (%s): %.220s", shown, host, own);
	}
	PMPI_Bcast(text, FRONT_TEXT_BYTES, MPI_CHAR, first, comm);
	return false;
}

void front_alone(bool prints, const char *name, const char *why)
{
	static char printed[FRONT_TEXT_BYTES];
	const char *required = getenv("INCCL_MPI_REQUIRE");
	const bool fatal = required && required[0] == '1';
	bool again;

	/* one line is enough for all communicators that lack the switch for the same reason */
	pthread_mutex_lock(&lock);
	again = !strcmp(printed, why);
	snprintf(printed, sizeof(printed), "%s", why);
	pthread_mutex_unlock(&lock);
	if (prints && !again)
		say("%s: MPI runs %s: %s", name, fatal ? "not alone (INCCL_MPI_REQUIRE)" : "alone",
		    why);
	if (prints && fatal)
		PMPI_Abort(MPI_COMM_WORLD, 1);
}

void front_describe(char text[FRONT_TEXT_BYTES])
{
	const char *controller = getenv("INCCL_CONTROLLER"), *choice = getenv("INCCL_MPI_CHOICE");

	snprintf(text, FRONT_TEXT_BYTES, "libinccl %s, INCCL_CONTROLLER=%.100s%s%.40s",
		 inccl_version(), controller ? controller : "", choice ? ", INCCL_MPI_CHOICE=" : "",
		 choice ? choice : "");
}

void front_read_choice(char why[FRONT_TEXT_BYTES])
{
	const char *choice = getenv("INCCL_MPI_CHOICE");

	if (!choice || !strcmp(choice, "measure"))
		front_fixed = -1;
	else if (!strcmp(choice, "switch"))
		front_fixed = FRONT_SWITCH;
	else if (!strcmp(choice, "mpi"))
		front_fixed = FRONT_MPI;
	else
		snprintf(why, FRONT_TEXT_BYTES,
			 "INCCL_MPI_CHOICE: '%.40s' is not measure, switch or mpi", choice);
}

void front_init(void)
{
	const char *controller = getenv("INCCL_CONTROLLER");
	char own[FRONT_TEXT_BYTES] = "", first[FRONT_TEXT_BYTES], why[FRONT_TEXT_BYTES] = "";
	int wants = controller && controller[0], any, rank;

	PMPI_Allreduce(&wants, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (!any)
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	front_describe(own);
	memcpy(first, own, sizeof(first));
	PMPI_Bcast(first, sizeof(first), MPI_CHAR, 0, MPI_COMM_WORLD);
	front_read_choice(why);
	if (!wants)
		snprintf(why, sizeof(why), "INCCL_CONTROLLER is not set");
	else if (strcmp(own, first))
		snprintf(why, sizeof(why), "it has \"%.90s\", but rank 0 has \"%.90s\"", own,
			 first);
	if (agree(MPI_COMM_WORLD, rank, why))
		front_begin(false);
	else
		front_alone(!rank, "MPI_COMM_WORLD", why);
}

/* Whether all ranks of a communicator are of MPI_COMM_WORLD, whose ranks alone have agreed on
 * anything. Others may have joined by MPI_Comm_spawn or MPI_Comm_connect. */
static bool is_in_world(MPI_Comm comm, int ranks)
{
	MPI_Group own, world;
	bool is_in = true;
	int there;

	PMPI_Comm_group(comm, &own);
	PMPI_Comm_group(MPI_COMM_WORLD, &world);
	for (int rank = 0; rank < ranks && is_in; rank++)
		is_in = !PMPI_Group_translate_ranks(own, 1, &rank, world, &there) &&
			there != MPI_UNDEFINED;
	PMPI_Group_free(&own);
	PMPI_Group_free(&world);
	return is_in;
}

/* Makes the team of a communicator. */
static struct front_team *new_team(MPI_Comm comm)
{
	struct front_team *team = calloc(1, sizeof(*team));
	int inter;

	if (!team)
		front_die("no memory for a communicator");
	team->node = team->leaders = MPI_COMM_NULL;
	PMPI_Comm_test_inter(comm, &inter);
	PMPI_Comm_rank(comm, &team->rank);
	PMPI_Comm_size(comm, &team->ranks);
	team->off = inter                             ? FRONT_INTER
		    : team->ranks < 2                 ? FRONT_ONE_RANK
		    : !is_in_world(comm, team->ranks) ? FRONT_FOREIGN
						      : FRONT_NO_REASON;
	team->use = team->off ? FRONT_OFF : FRONT_NEW;
	team->calls = comm == MPI_COMM_WORLD ? CALLS_BEFORE : 0;
	PMPI_Comm_set_attr(comm, key, team);
	pthread_mutex_lock(&lock);
	*last_team = team;
	last_team = &team->next;
	pthread_mutex_unlock(&lock);
	return team;
}

struct front_team *front_team(const struct front_call *c)
{
	struct front_team *team = c->team ? *c->team : NULL;
	int found = c->team && team;

	if (!c->team)
		PMPI_Comm_get_attr(c->comm, key, &team, &found);
	if (!found)
		team = new_team(c->comm);
	if (c->team)
		*c->team = team;
	if (team->use == FRONT_NEW && team->calls++ >= CALLS_BEFORE)
		front_attach(team, c->comm);
	return team;
}

static void name_job(char job[32], const char *suffix)
{
	uint64_t r = 0;

	if (inc_random_bytes(&r, sizeof(r), NULL))
		r = (uint64_t)getpid() << 32 | (uintptr_t)job;
	snprintf(job, 32, INC_CONTROL_MPI_JOB "%s%0*llx", suffix, INC_CONTROL_JOB_DIGITS,
		 (unsigned long long)r);
}

/* Finds how the ranks are spread over the nodes. */
static void find_order(struct front_team *team)
{
	const int each = team->ranks / team->nodes;

	team->even = each * team->nodes == team->ranks;
	for (int rank = 0; rank < team->ranks; rank++)
		team->even &= team->node_of[2 * rank + 1] < each;
	team->sorted = team->even;
	for (int rank = 0; rank < team->ranks; rank++)
		team->sorted &= team->node_of[2 * rank] == rank / each;
}

/* Finds the nodes of a communicator, and makes the communicators of the own node and of the
 * leaders. */
static void find_nodes(struct front_team *team, MPI_Comm comm)
{
	int mine[2] = {0, 0};

	PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, team->rank, MPI_INFO_NULL, &team->node);
	/* The program's communicator may have MPI_ERRORS_RETURN, which those made of it inherit.
	 * Nothing here reads error codes. */
	PMPI_Comm_set_errhandler(team->node, MPI_ERRORS_ARE_FATAL);
	PMPI_Comm_rank(team->node, &team->node_rank);
	PMPI_Comm_size(team->node, &team->node_ranks);
	PMPI_Comm_split(comm, team->node_rank ? MPI_UNDEFINED : 0, team->rank, &team->leaders);
	if (!team->node_rank) {
		PMPI_Comm_set_errhandler(team->leaders, MPI_ERRORS_ARE_FATAL);
		PMPI_Comm_rank(team->leaders, &mine[0]);
		PMPI_Comm_size(team->leaders, &mine[1]);
	}
	PMPI_Bcast(mine, 2, MPI_INT, 0, team->node);
	team->nodes = mine[1];
	mine[1] = team->node_rank;
	team->node_of = calloc(team->ranks, sizeof(mine));
	team->parts = calloc(team->node_ranks, sizeof(mine));
	if (!team->node_of || !team->parts)
		front_die("no memory for a communicator");
	PMPI_Allgather(mine, 2, MPI_INT, team->node_of, 2, MPI_INT, comm);
	find_order(team);
	/* all ranks know the name, because MPI_Finalize closes teams in the order of their names */
	name_job(team->job, "");
	if (!team->node_rank)
		PMPI_Bcast(team->job, sizeof(team->job), MPI_CHAR, 0, team->leaders);
	PMPI_Bcast(team->job, sizeof(team->job), MPI_CHAR, 0, team->node);
}

void front_leave(struct front_team *team)
{
	if (team->fallback)
		inccl_fallback_destroy(team->fallback);
	else
		inccl_communicator_destroy(team->comm);
	inccl_group_destroy(team->group);
	team->fallback = NULL;
	team->comm = NULL;
	team->group = NULL;
}

/* A group that a leader joins. */
struct joining {
	struct front_team *team;
	const char *job;
	int rank, size;
	char *why; /* the reason of a failure */
	bool done; /* the team has the group and its communicator, or the reason */
};

/* Joins a group, and connects to the switch. It makes no call of MPI. */
static void *join(void *arg)
{
	struct joining *j = arg;
	struct front_team *team = j->team;
	INCCL_OPTS(inccl_group_opts, group, .job = j->job, .rank = j->rank, .world_size = j->size,
		   .connect_timeout_ms = CONNECT_TIMEOUT_MS, .create_timeout_ms = CREATE_TIMEOUT_MS,
		   .error = j->why, .error_size = FRONT_TEXT_BYTES);
	INCCL_OPTS(inccl_communicator_opts, comm, .create_timeout_ms = CREATE_TIMEOUT_MS,
		   .error = j->why, .error_size = FRONT_TEXT_BYTES);
	int err = inccl_group_create(&group, &team->group);

	if (!err && j->size > 1)
		err = inccl_communicator_create(team->group, &comm, &team->comm);
	if (!err)
		j->why[0] = 0;
	else if (!j->why[0])
		snprintf(j->why, FRONT_TEXT_BYTES, "%s", inccl_strerror(err));
	if (err)
		front_leave(team);
	__atomic_store_n(&j->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Joins a group in a thread, while MPI moves messages of this process. Otherwise a large message
 * that is under way might hold up a message of agree() behind it, and its receiver would come late.
 * On failure @why gets the reason. */
static void join_group(struct front_team *team, const char *job, int rank, int size,
		       char why[FRONT_TEXT_BYTES])
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct joining joining = {team, job, rank, size, why, false};
	sigset_t all, before;
	pthread_t thread;
	int err;

	/* signals are for the threads of the program */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, join, &joining);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		join(&joining);
		return;
	}
	while (!__atomic_load_n(&joining.done, __ATOMIC_ACQUIRE)) {
		front_progress(MPI_COMM_WORLD);
		nanosleep(&pause, NULL);
	}
	pthread_join(thread, NULL);
}

/* Joins a group of this leader alone, once in a process. A wrong address, a missing key or another
 * version is found that way at once, and not after the time limit of a whole group. */
static void try_alone(char why[FRONT_TEXT_BYTES])
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static char result[FRONT_TEXT_BYTES];
	static bool tried;
	struct front_team none = {.rank = 0};
	char job[32];

	pthread_mutex_lock(&once);
	if (!tried) {
		name_job(job, "try-");
		join_group(&none, job, 0, 1, result);
		front_leave(&none);
		tried = true;
	}
	memcpy(why, result, sizeof(result));
	pthread_mutex_unlock(&once);
}

/* Prints that a communicator uses the switch, and for which calls. */
static void announce(const struct front_team *team)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	char calls[200] = "no call";
	int n = 0;

	for (int kind = 0; kind < FRONT_KINDS && front_fixed != FRONT_MPI; kind++)
		n += snprintf(calls + n, sizeof(calls) - n, "%s%s",
			      !kind                     ? ""
			      : kind + 1 == FRONT_KINDS ? " and "
							: ", ",
			      front_kind_names[kind]);
	inccl_communicator_info(team->comm, &info);
	say("%s: %d ranks use the switch: %d leaders, tree %s, %s mode, for %s%s%s", team->name,
	    team->ranks, team->nodes, info.tree, info.mode, calls,
	    front_fixed < 0 ? " where it is faster" : "",
	    team->native_floats ? "" : ", but not for PROD of floats");
}

/* Makes the group of the leaders. Returns false with a reason if that is impossible. */
static bool make_group(struct front_team *team, MPI_Comm comm, char why[FRONT_TEXT_BYTES])
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	int native = 0;

	if (!team->node_rank)
		try_alone(why);
	if (!agree(comm, team->rank, why))
		return false;
	if (!team->node_rank)
		join_group(team, team->job, team->node_of[2 * team->rank], team->nodes, why);
	if (!agree(comm, team->rank, why)) {
		front_leave(team);
		return false;
	}
	if (!team->node_rank)
		front_fallback(team, why);
	if (!agree(comm, team->rank, why)) {
		front_leave(team);
		return false;
	}
	if (!team->node_rank) {
		inccl_communicator_info(team->comm, &info);
		native = !strcmp(info.floats, "native");
	}
	PMPI_Bcast(&native, 1, MPI_INT, 0, comm);
	team->native_floats = native;
	return true;
}

void front_attach(struct front_team *team, MPI_Comm comm)
{
	char why[FRONT_TEXT_BYTES] = "";
	int length;

	PMPI_Comm_get_name(comm, team->name, &length);
	if (!length)
		snprintf(team->name, sizeof(team->name), "communicator of %d ranks", team->ranks);
	find_nodes(team, comm);
	if (team->nodes > 1 && make_group(team, comm, why)) {
		team->use = FRONT_ON;
		team->off = FRONT_LOST; /* the only reason for another use from here on */
		if (!team->rank)
			announce(team);
		return;
	}
	team->use = FRONT_OFF;
	team->off = team->nodes > 1 ? FRONT_NO_GROUP : FRONT_ONE_HOST;
	if (team->nodes > 1)
		front_alone(!team->rank, team->name, why);
	else if (comm == MPI_COMM_WORLD)
		front_alone(!team->rank, team->name, "all ranks run on one host");
}

void front_lost(struct front_team *team)
{
	char other[FRONT_TEXT_BYTES] = "";

	/* the cause on one leader explains more than what follows from it on the others */
	if (!strncmp(team->reason, INCCL_FALLBACK_ANOTHER, strlen(INCCL_FALLBACK_ANOTHER))) {
		memcpy(other, team->reason, sizeof(other));
		team->reason[0] = '\0';
	}
	if (agree(team->leaders, team->rank, team->reason)) {
		memcpy(team->reason, other, sizeof(other));
		agree(team->leaders, team->rank, team->reason);
	}
	if (!team->rank)
		say("%s: the switch is lost, and MPI goes on alone: %s", team->name, team->reason);
	front_leave(team);
	team->use = FRONT_OFF;
}

/* Frees what the team has. Leaders wait for each other in front_leave(), because one may still ask
 * the others for a result. */
static void close_team(struct front_team *team)
{
	if (team->closed)
		return;
	team->closed = true;
	team->use = FRONT_OFF;
	if (team->leaders != MPI_COMM_NULL) {
		front_leave(team);
		PMPI_Comm_free(&team->leaders);
	}
	if (team->node != MPI_COMM_NULL)
		PMPI_Comm_free(&team->node);
	free(team->node_of);
	free(team->parts);
	for (int i = 0; i < 2; i++)
		free(team->room[i]);
	team->node_of = team->parts = NULL;
}

/* Frees the team of a communicator that is freed, together with all its ranks. */
static void forget(struct front_team *team)
{
	struct front_team **p;

	close_team(team);
	pthread_mutex_lock(&lock);
	for (p = &teams; *p != team; p = &(*p)->next)
		;
	*p = team->next;
	if (!*p)
		last_team = p;
	pthread_mutex_unlock(&lock);
	free(team);
}

void front_forget(MPI_Comm comm)
{
	struct front_team *team;
	int found;

	if (!front_on || comm == MPI_COMM_NULL)
		return;
	PMPI_Comm_get_attr(comm, key, &team, &found);
	if (!found)
		return;
	forget(team);
	PMPI_Comm_delete_attr(comm, key);
}

/* MPI deletes the attributes of a communicator. Where front_forget() is called as well, it has
 * freed the team, or a function that the front end does not replace has freed the communicator.
 * Such a team stays for MPI_Finalize, because nothing collective may happen here. */
static int on_delete(MPI_Comm comm, int keyval, void *attribute, void *extra)
{
	if (front_on && frees_teams)
		forget(attribute);
	return MPI_SUCCESS;
}

void front_begin(bool frees)
{
	frees_teams = frees;
	front_types_init();
	PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
	front_on = true;
}

/* Returns the team whose group has the least name of those that are not closed, or NULL. */
static struct front_team *first_open(void)
{
	struct front_team *first = NULL;

	for (struct front_team *team = teams; team; team = team->next)
		if (!team->closed && (!first || strcmp(team->job, first->job) < 0))
			first = team;
	return first;
}

void front_finalize(void)
{
	struct front_team *team;

	if (!front_on)
		return;
	/* In the order of the groups' names, which is the same on all ranks. The order in which
	 * teams were made may differ between ranks that have several threads. */
	while ((team = first_open()))
		close_team(team);
	front_report();
	front_on = false;
}
