// SPDX-License-Identifier: BSD-2-Clause
/* The windows of MPI in which leaders keep their last results. A leader that has failed reads the
 * others' windows while these compute or wait in any call of MPI. docs/mpi.md ("A failure during a
 * call") has the reasons. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "hostlib/mpi/front.h"

/* RESULT_WORD is 2 * N + 1 if the leader has the result of collective N, and 2 * N if it lacks the
 * result for good. BEGUN_WORD counts the collectives that the leader has begun. LEFT_WORD is 1 once
 * the leader has left the group. All of them only grow. Results alternate between the two rooms
 * behind the words, so collective N + 1 leaves the result of N as it is. */
#define HEADER_BYTES 64
enum { RESULT_WORD, BEGUN_WORD, LEFT_WORD, WORDS };
#define WINDOW_BYTES (HEADER_BYTES + 2 * FRONT_WINDOW_BYTES)
/* pause between two looks at the other leaders' windows */
#define PAUSE_NS 500000
/* A leader that has waited for so long looks whether the others have begun, and again after a
 * while. Once all have, a collective may take STALL_S, and a second more for each of SLOW_BYTES. */
#define LOOK_AFTER_S 1.0
#define LOOK_AGAIN_S 0.2
#define STALL_S      10.0
#define SLOW_BYTES   1e6
/* Whether windows work if several threads call MPI. Those of Open MPI over TCP do not. */
#ifdef OPEN_MPI
#define WINDOWS_OF_THREADS false
#else
#define WINDOWS_OF_THREADS true
#endif
/* number of times that MPI makes progress in one go */
#define PROGRESS_TIMES 4

static uint64_t has(uint64_t number)
{
	return 2 * number + 1;
}

static uint64_t lacks(uint64_t number)
{
	return 2 * number;
}

static size_t result_offset(uint64_t number)
{
	return HEADER_BYTES + (number & 1) * FRONT_WINDOW_BYTES;
}

static uint64_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

	for (; text && *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3;
	return h >> 1;
}

/* Whether all leaders can open a window. Some of them would wait for ever in MPI_Win_create if
 * others could not, which depends on settings and on the level of threads. */
static bool all_can(const struct front_team *team)
{
	const int64_t setting = hash(getenv("OMPI_MCA_osc"));
	int64_t mine[3] = {0, setting, -setting}, least[3];
	int level;

	PMPI_Query_thread(&level);
	mine[0] = team->window && (level < MPI_THREAD_MULTIPLE || WINDOWS_OF_THREADS);
	PMPI_Allreduce(mine, least, 3, MPI_INT64_T, MPI_MIN, team->leaders);
	return least[0] && least[1] == -least[2];
}

void front_window_open(struct front_team *team)
{
	int good = 0, all_good;

	if (posix_memalign((void **)&team->window, 64, WINDOW_BYTES))
		team->window = NULL;
	else
		memset(team->window, 0, WINDOW_BYTES);
	team->look = MPI_REQUEST_NULL;
	if (!all_can(team))
		return;
	/* an MPI without one-sided communication returns an error here instead of ending the job */
	PMPI_Comm_set_errhandler(team->leaders, MPI_ERRORS_RETURN);
	team->win = MPI_WIN_NULL;
	good = !PMPI_Win_create(team->window, WINDOW_BYTES, 1, MPI_INFO_NULL, team->leaders,
				&team->win);
	PMPI_Comm_set_errhandler(team->leaders, MPI_ERRORS_ARE_FATAL);
	PMPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, team->leaders);
	team->has_window = all_good;
	/* one epoch lasts as long as the window, so that any leader may read at any time */
	if (all_good)
		PMPI_Win_lock_all(MPI_MODE_NOCHECK, team->win);
}

void front_window_close(struct front_team *team)
{
	if (team->has_window) {
		PMPI_Wait(&team->look, MPI_STATUS_IGNORE);
		PMPI_Win_unlock_all(team->win);
		PMPI_Win_free(&team->win);
	}
	team->has_window = false;
	free(team->window);
	team->window = NULL;
}

uint8_t *front_window_result(const struct front_team *team, uint64_t number)
{
	return team->window + result_offset(number);
}

static void set_word(struct front_team *team, int word, uint64_t value)
{
	__atomic_store_n((uint64_t *)team->window + word, value, __ATOMIC_RELEASE);
}

void front_window_leave(struct front_team *team)
{
	if (team->has_window)
		set_word(team, LEFT_WORD, 1);
}

void front_window_publish(struct front_team *team, uint64_t number, bool has_result)
{
	set_word(team, RESULT_WORD, has_result ? has(number) : lacks(number));
}

void front_window_begin(struct front_team *team)
{
	if (!team->has_window)
		return;
	set_word(team, BEGUN_WORD, ++team->begun);
	team->begun_s = PMPI_Wtime();
	team->look_at = 0;
	team->look_again_s = 0;
}

/* Looks at the others without waiting for them, up to the first that has not begun. Returns true if
 * one has left. */
static bool one_has_left(struct front_team *team, double now_s)
{
	int done;

	while (team->look_at < team->nodes) {
		if (team->look == MPI_REQUEST_NULL) {
			if (now_s < team->look_again_s)
				return false;
			PMPI_Rget(team->seen, sizeof(team->seen), MPI_BYTE, team->look_at, 0,
				  sizeof(team->seen), MPI_BYTE, team->win, &team->look);
			team->look_begun = team->begun;
		}
		PMPI_Test(&team->look, &done, MPI_STATUS_IGNORE);
		if (!done)
			return false;
		if (team->seen[LEFT_WORD])
			return true;
		/* the request of an earlier collective may have asked another leader */
		if (team->look_begun != team->begun)
			continue;
		if (team->seen[BEGUN_WORD] < team->begun) {
			team->look_again_s = now_s + LOOK_AGAIN_S;
			return false;
		}
		if (++team->look_at == team->nodes)
			team->all_begun_s = now_s;
	}
	return false;
}

const char *front_window_stalled(struct front_team *team, size_t bytes)
{
	const double now_s = PMPI_Wtime();

	if (!team->has_window || now_s - team->begun_s < LOOK_AFTER_S)
		return NULL;
	if (one_has_left(team, now_s))
		return "another rank has failed in this call or in the one before";
	if (team->look_at < team->nodes || now_s - team->all_begun_s < STALL_S + bytes / SLOW_BYTES)
		return NULL;
	return "a call makes no progress, although all ranks have begun it";
}

static void read_window(struct front_team *team, int leader, size_t offset, void *to, size_t bytes)
{
	PMPI_Get(to, bytes, MPI_BYTE, leader, offset, bytes, MPI_BYTE, team->win);
	PMPI_Win_flush(leader, team->win);
}

bool front_window_fetch(struct front_team *team, uint64_t number, size_t bytes)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int self, n, lacking;

	PMPI_Comm_rank(team->leaders, &self);
	PMPI_Comm_size(team->leaders, &n);
	front_window_publish(team, number, false);
	do {
		lacking = 1;
		for (int i = 0; i < n; i++) {
			uint64_t word = 0;

			if (i == self)
				continue;
			read_window(team, i, 0, &word, sizeof(word));
			if (word >= has(number)) {
				read_window(team, i, result_offset(number),
					    front_window_result(team, number), bytes);
				front_window_publish(team, number, true);
				return true;
			}
			lacking += word == lacks(number);
		}
		if (lacking < n)
			nanosleep(&pause, NULL);
	} while (lacking < n);
	return false;
}

void front_progress(MPI_Comm comm)
{
	int found;

	for (int i = 0; i < PROGRESS_TIMES; i++)
		PMPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &found, MPI_STATUS_IGNORE);
}
