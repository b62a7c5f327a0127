#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The promises of docs/promises.md under faults, with hosts on verbs: deaths of ranks and of the switch's daemon, and
ranks that fork (see e2e/test_programs)."""
import glob
import os
import re
import signal

from vmlab import BUILD, Background, case, counters, expect, guest_lab, lab, libtest, perf, run, wait_for

RANKS = 3
PERF = os.path.join(BUILD, "inccl-perf")
LIVE = os.path.join(BUILD, "selftests/e2e/live")
FORKED = os.path.join(BUILD, "selftests/e2e/forked")


def started(count, *args):
    return Background(PERF, "--sizes", "64K", "-n", count, "-w", "0", "--check", "--json", *args, ranks=RANKS)


def member(rank, program=PERF):
    """The process of a rank."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        directory = os.path.dirname(path)
        try:
            with open(path, "rb") as f:
                ours = f"INCCL_RANK={rank}".encode() in f.read().split(b"\0")
            if ours and os.readlink(directory + "/exe") == program:
                return int(os.path.basename(directory))
        except OSError:
            continue
    raise libtest.Failure(f"rank {rank} does not run")


def nothing_left():
    wait_for("no connection to be left", lambda: not libtest.ask_switch("s0", "connections"), 20)


def killed():
    with case("killed_rank_is_named"):
        job = started("100000")
        since = libtest.stopwatch()
        os.kill(member(1), signal.SIGKILL)
        result = job.end(60)
        print(f"# all have ended after {since():.1f} s", flush=True)
        expect(result.code != 0, result.story())
        for rank in (0, 2):
            expect(re.search(rf"^\[{rank}\].*rank 1 \(h1?.*left the group", result.err, re.M),
                   f"rank {rank} was not told: " + result.story())
        nothing_left()
    with case("the_next_job_works"):
        perf("--sizes", "4,64K", "-n", "2", ranks=RANKS)


def stopped():
    with case("rank_that_stands_still_is_waited_for"):
        job = started("60")
        pid = member(2)
        os.kill(pid, signal.SIGSTOP)
        since = libtest.stopwatch()
        try:
            wait_for("time", lambda: since() > 2, 10)
        finally:
            os.kill(pid, signal.SIGCONT)
        libtest.perf_rows(job.end(120), ["--sizes", "64K"])
        nothing_left()


def switch_killed():
    with case("killed_daemon_is_followed_by_another"):
        # pauses between its collectives, so the next daemon has the CPUs, and runs until it is asked to end
        job = Background(LIVE, "600", "20", "0", ranks=RANKS)
        before = counters()["multicast_result"]
        since = libtest.stopwatch()
        guest_lab("kill-switch", timeout=240)
        print(f"# there is another one after {since():.1f} s", flush=True)
        expect(counters()["multicast_result"] > before, "no result has left meanwhile")
        now = counters()["multicast_result"]
        wait_for("results of the next daemon", lambda: counters()["multicast_result"] > now, 60)
        os.kill(member(0, LIVE), signal.SIGTERM)
        result = job.end(60)
        expect(result.code == 0 and "bad packets" in result.out, result.story())
        nothing_left()


def forked():
    with case("children_that_destroy_what_they_inherited"):
        result = run(FORKED, ranks=RANKS, env={"INCCL_DEBUG": "1"})
        expect(result.out.count("went on") == RANKS, result.story())
        expect(result.err.count("transport verbs on rxe") >= RANKS, result.story())
        nothing_left()


def every():
    """For a lab of RANKS hosts and more, because each start of a switch costs ten seconds on an emulated machine."""
    forked()
    killed()
    stopped()
    switch_killed()


def test():
    with lab(RANKS):
        every()


if __name__ == "__main__":
    libtest.main(test)
