# SPDX-License-Identifier: BSD-2-Clause
"""Kills and stops a lab's processes at random moments. There is a function for each kind, which starts a job, causes
the fault, and checks the job's outcome. Other functions check what is left and which resources the lab's processes
use. For e2e/test_soak and e2e/test_endurance, whose labs have a process for the cable of each link (with_wires())."""
import os
import re
import shutil
import signal
import sqlite3

from libtest import BUILD, TERMINATION, Failure, command, expect, scratch, stands_still, stopwatch, \
    wait_for

JOB = "struck"  # the job that is hit; other jobs run beside it
RANKS = range(4)
DEATH_S = 3  # inc-controller --member-timeout-ms
DERIVE = os.path.join(BUILD, "selftests/e2e/derive")
LIVE = os.path.join(BUILD, "selftests/e2e/live")
MORE = 20  # further collectives, of which some began after the job's last report
CHURN = os.path.join(BUILD, "selftests/e2e/churn")
FATAL = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT)


def wait(seconds):
    """Waits. The random moment of a fault is the purpose."""
    since = stopwatch()
    wait_for("time", lambda: since() >= seconds, seconds + 5)


def cables(lab):
    return [n["name"] for n in lab.state["nodes"] if n["role"] == "wire"]


def switches(lab):
    return [n["name"] for n in lab.switches]


def begin(lab, *args):
    return lab.start(*args, env={"INCCL_JOB": JOB}, timeout=60)


def compute(lab):
    """A job that computes with short pauses, until more() has seen enough."""
    return begin(lab, LIVE, 60, 20, 0)


def collectives(job):
    """How many collectives such a job has done."""
    said = re.findall(r"^\[0\] (\d+) collectives$", job.text(), re.M)
    return int(said[-1]) if said else 0


def more(lab, job):
    """Whether the job computes on, and ends properly when it is asked to. Otherwise it has ended by itself."""
    now = collectives(job)
    wait_for("collectives", lambda: collectives(job) > now + MORE or not job.running(), 40)
    if not job.running():
        return False
    os.kill(lab.members(JOB)[0], signal.SIGTERM)
    job.wait(20)
    return True


def goes_on(lab, job):
    expect(more(lab, job), job.text())


def formed(lab, job):
    wait_for("the group", lambda: len(lab.members(JOB)) == len(RANKS) and any(
        g["state"] == "COMM_READY" and g["job"] == JOB for g in lab.ask("groups"))
        or not job.running(), 20)
    expect(job.running(), job.text())


def told(result):
    """Checks that every rank that could not go on has reported why, and that none has a wrong result."""
    expect("element" not in result.out, result.story())
    for rank in RANKS if result.code else ():
        expect(re.search(rf"^\[{rank}\] rank {rank}: |^\[{rank}\] rank 0: group: ", result.out, re.M),
               f"rank {rank} is not told: {result.story()}")


def told_or_right(lab, job):
    """Checks a job that may go on or fail."""
    if not more(lab, job):
        told(job.wait(20, check=False))


def rank_killed(lab, rng):
    """The other ranks must get an error that names the dead rank, and compute on without it."""
    victim, number = rng.choice(RANKS), rng.choice(FATAL)
    job = begin(lab, DERIVE, "survive")
    formed(lab, job)
    wait(rng.uniform(0, 0.5))
    os.kill(lab.members(JOB)[victim], number)
    result = job.wait(DEATH_S + 10, check=False)
    said = re.findall(r"^\[(\d)\] survived as \d of 3 after (\d+) ms", result.out, re.M)
    expect(sorted(int(r) for r, _ in said) == [r for r in RANKS if r != victim] and
           all(int(ms) < 3000 for _, ms in said), result.story())
    return f"rank {victim} by {number.name}"


def rank_stopped(lab, rng):
    victim, seconds = rng.choice(RANKS), rng.uniform(0.05, 1.8)
    job = compute(lab)
    formed(lab, job)
    stands_still(lab.members(JOB)[victim], seconds)
    goes_on(lab, job)
    return f"rank {victim} for {seconds:.2f} s"


def switch_killed(lab, rng):
    """At any moment, also while the daemon configures a communicator. Existing communicators go on; one that was
    being made may fail."""
    name = rng.choice(switches(lab))
    number = signal.SIGKILL if TERMINATION else rng.choice((signal.SIGKILL, signal.SIGUSR1))
    job = compute(lab)
    begun = rng.random() < 0.5
    if begun:
        formed(lab, job)
    moment, away = rng.uniform(0, 0.4), rng.uniform(0, 0.5)
    wait(moment)
    lab.end_switch(name, number)
    wait(away)
    lab.start_switch(name)
    if begun and not TERMINATION:
        goes_on(lab, job)
    else:
        told_or_right(lab, job)
    return f"{name} by {number.name} {'in the job' if begun else 'anywhere'} + {moment:.2f} s, " \
        f"away for {away:.2f} s"


def switch_stopped(lab, rng):
    name, seconds = rng.choice(switches(lab)), rng.uniform(0.05, 1)
    job = compute(lab)
    formed(lab, job)
    stands_still(lab.switch_pid(name), seconds)
    goes_on(lab, job)
    return f"{name} for {seconds:.2f} s"


def controller_killed(lab, rng):
    """Running jobs go on, and end normally."""
    number = rng.choice((signal.SIGKILL, signal.SIGTERM))
    job = compute(lab)
    formed(lab, job)
    moment, away = rng.uniform(0, 0.4), rng.uniform(0, 0.5)
    wait(moment)
    lab.end_process("controller", number)
    wait(away)
    lab.start_controller()
    goes_on(lab, job)
    return f"by {number.name} + {moment:.2f} s, away for {away:.2f} s"


def controller_killed_making(lab, rng):
    """The controller is killed while a group is made, or while a job makes communicators all the time. What is being
    made is completed, or every rank gets an error."""
    job = begin(lab, CHURN, "150", "2")
    moment, away = rng.uniform(0, 0.8), rng.uniform(0, 0.5)
    wait(moment)
    lab.end_process("controller")
    wait(away)
    lab.start_controller()
    result = job.wait(25, check=False)  # shorter than the library's own timeout of 30 s
    told(result)
    return f"after {moment:.2f} s, away for {away:.2f} s: exit code {result.code}"


def controller_stopped(lab, rng):
    seconds = rng.uniform(0.05, 1.8)
    job = compute(lab)
    formed(lab, job)
    stands_still(lab.pid("controller"), seconds)
    goes_on(lab, job)
    return f"for {seconds:.2f} s"


def cable_killed(lab, rng):
    name, seconds = rng.choice(cables(lab)), rng.uniform(0, 1)
    job = compute(lab)
    formed(lab, job)
    wait(rng.uniform(0, 0.3))
    lab.end_process(name)
    wait(seconds)
    lab.start_process(name)
    goes_on(lab, job)
    return f"{name}, away for {seconds:.2f} s"


def cable_stopped(lab, rng):
    """Packets that arrive meanwhile are queued for the cable's process, as far as there is room."""
    name, seconds = rng.choice(cables(lab)), rng.uniform(0.05, 1.8)
    job = compute(lab)
    formed(lab, job)
    wait(rng.uniform(0, 0.3))
    stands_still(lab.pid(name), seconds)
    goes_on(lab, job)
    return f"{name} for {seconds:.2f} s"


def cables_lossy(lab, rng):
    """All cables lose, repeat, damage and reorder packets at random, up to 3 % each. Another job checks its sums
    meanwhile."""
    percent = {fault: rng.uniform(0.1, 3) for fault in ("loss", "duplicate", "corrupt", "reorder")}
    job = compute(lab)
    formed(lab, job)
    try:
        for name in cables(lab):
            lab.wire(name, *(f"{fault}={p / 100:.5f}" for fault, p in percent.items()))
        lab.perf("--sizes", f"{4 * rng.randrange(1, 65536)}", "-n", rng.randrange(2, 50), "-w", 0)
        goes_on(lab, job)
    finally:
        for name in cables(lab):
            lab.wire(name, *(f"{fault}=0" for fault in percent))
    return ", ".join(f"{fault} {p:.2f} %" for fault, p in percent.items())


# Faults after which everything except the job's own processes is as before.
HARMLESS = (rank_killed, rank_stopped, switch_stopped, controller_stopped, cable_killed,
            cable_stopped, cables_lossy)
KINDS = (*HARMLESS, switch_killed, controller_killed, controller_killed_making)


def kinds_of(text):
    """The kinds with these names, as in "rank_killed cable_stopped"; an empty text means all."""
    named = {kind.__name__: kind for kind in KINDS}
    for name in text.split():
        expect(name in named, f"no kind {name}: there are {' '.join(named)}")
    return [named[name] for name in text.split()] or list(KINDS)


def used(pid):
    """Returns (descriptors, KiB of memory, seconds of CPU) of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        kib = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        ticks = sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
    return len(os.listdir(f"/proc/{pid}/fd")), kib, ticks / os.sysconf("SC_CLK_TCK")


def daemons_use(lab):
    """Returns {process: used()} of the daemons."""
    return {name: used(lab.pid(name)) for name in [*switches(lab), "controller"]}


def kept(lab):
    """Returns {table: its rows' keys} of the controller's database, without the numbers that it has assigned. The
    controller has locked the database, so a copy is read."""
    with open(f"/proc/{lab.pid('controller')}/cmdline", "rb") as f:
        argv = f.read().decode().split("\0")
    path = argv[argv.index("--database") + 1]
    with scratch() as directory:
        copy = os.path.join(directory, "db")
        for end in ("", "-wal"):
            if os.path.exists(path + end):
                shutil.copyfile(path + end, copy + end)
        db = sqlite3.connect(copy)
        try:
            tables = [row[0] for row in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'numbers'")]
            expect(len(tables) >= 5, f"tables {tables}")
            return {t: sorted(row[0] for row in db.execute(f"SELECT * FROM {t}")) for t in tables}
        finally:
            db.close()


def processes(netns):
    """The programs that run in a network namespace."""
    pids = command("ip", "netns", "pids", netns).out.split()
    names = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                names.append(f.read().strip())
        except OSError:
            continue
    return sorted(names)


def things(lab):
    """The lab's objects outside of its daemons' memory."""
    out = {"namespaces": sorted(n for n in os.listdir("/run/netns") if n.startswith(lab.name)),
           "files": sorted(n for n in os.listdir("/run/inc") if n.startswith(lab.name)),
           "rows": kept(lab), "groups": sorted(g["group"] for g in lab.ask("groups"))}
    for netns in out["namespaces"]:
        out["processes in " + netns] = processes(netns)
    for switch in lab.switches:
        path = "/sys/fs/bpf/inc/" + switch["instance"]
        out[switch["name"]] = sorted(os.listdir(path)) if os.path.isdir(path) else []
        links = command("ip", "-n", switch["netns"], "-o", "link").out
        out["links of " + switch["name"]] = sorted(re.findall(r"^\d+: ([^:@]+)", links, re.M))
    for answer in lab.ask("connections"):
        out["connections of " + answer["switch"]] = len(answer.get("data", []))
    return out


def nothing_left(lab, before):
    """Waits until everything is as it was before a round."""
    differences = []

    def same():
        now = things(lab)
        differences[:] = [f"{k}: {now.get(k)}, {before.get(k)} before"
                          for k in {**before, **now} if now.get(k) != before.get(k)]
        return not differences
    try:
        wait_for("all as before", same, 10)
    except Failure:
        expect(False, "; ".join(differences))
