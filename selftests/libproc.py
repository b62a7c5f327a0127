# SPDX-License-Identifier: BSD-2-Clause
"""Processes of this machine and of a lab: runs, ends and restarts programs, waits for conditions, checks
expectations. Tests import all of it from libtest."""
import contextlib
import os
import pty
import re
import resource
import signal
import subprocess
import time


AWAKE_STEP_S = 1.0  # what one reading of awake_stopwatch() adds at most
# For programs of an MPI. The launcher, its daemon on each host and each rank explore the machine, which takes a fifth of a
# job's CPU time. With this description they do not. PMIx would fill 8 MB of shared memory on each host, which causes two
# fifths of the page faults. And each of them allocates memory in many small steps, which would extend its heap.
QUICK_MPI = {"HWLOC_SYNTHETIC": "pack:1 core:2 pu:1", "HWLOC_PLUGINS_PATH": "/nonexistent", "PMIX_MCA_gds": "hash",
             "MALLOC_TOP_PAD_": str(1 << 20)}


class Failure(Exception):
    """An expectation of a test that was not fulfilled. The message is the reason."""


def expect(condition, reason):
    if not condition:
        raise Failure(reason)


def stopwatch():
    """Returns a function that returns the seconds since this call."""
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


def cpu_share():
    """The part of a CPU that each program which wants to run gets at this moment, as far as Linux counts them."""
    with open("/proc/loadavg", encoding="ascii") as f:
        runnable = int(f.read().split()[3].split("/")[0])
    return min(1, len(os.sched_getaffinity(0)) / max(runnable, 1))


def awake_stopwatch(shared=True):
    """Like stopwatch(), but it counts only the time in which the programs under test run, for limits that end what would
    wait for ever. A virtual machine may stand still for a minute and more, so a reading adds AWAKE_STEP_S at most, and
    a loop that waits must read more often than that. On a machine with many tests each program has a part of a CPU, so
    the watch is slower by that part, unless shared is False."""
    last, awake_s = time.monotonic(), 0.0

    def read():
        nonlocal last, awake_s
        now = time.monotonic()
        awake_s += min(now - last, AWAKE_STEP_S) * (cpu_share() if shared else 1)
        last = now
        return awake_s
    return read


def cpu_used_s():
    """The CPU time of this process, and of the processes whose end it has waited for."""
    times = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(t.ru_utime + t.ru_stime for t in times)


def wait_for(what, condition, seconds=60.0):
    """Waits until condition() is true and returns its value; fails at the deadline. The deadline only ends a test that
    would wait for ever, so it is measured by awake_stopwatch(). A busy machine needs more than 10 s to start a few
    programs, so it is long by default. A condition that starts programs is examined less often, so that it uses a fifth
    of a CPU at most."""
    watch = awake_stopwatch()
    while True:
        used_s = cpu_used_s()
        value = condition()
        if value:
            return value
        if watch() > seconds:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(min(max(0.02, 4 * (cpu_used_s() - used_s)), 0.5))


def gone(pid):
    """Whether a process has ended, even if its parent has not collected its exit status yet."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


# Longer than the time after which a switch calls a silent peer unresponsive (INC_UNRESPONSIVE_S).
STANDSTILL_S = 11


@contextlib.contextmanager
def stopped(pid):
    """Stops a process for the duration of a with block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stands_still(pid, seconds=STANDSTILL_S):
    """Stops a process for this time."""
    with stopped(pid):
        since = stopwatch()
        wait_for("the end of the stop", lambda: since() > seconds, seconds + 5)


class Result:
    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    def story(self):
        return f"{' '.join(map(str, self.args))}\nexit code {self.code} after " \
            f"{self.seconds:.1f} s\n{self.out[-6000:]}\n{self.err[-6000:]}"

    def reason(self):
        """The last line that the program wrote to stderr, or to stdout. A runner such as inc-lab only adds which job has
        failed, so the lines of its job come first. The summary has only the first line of a failure."""
        for text in (self.err, self.out):
            lines = [line for line in text.splitlines() if line.strip()]
            if lines:
                return ([line for line in lines if not line.startswith("inc-lab:")] or lines)[-1]
        return "(it printed nothing)"

    def ok(self):
        expect(self.code == 0, f"exit code {self.code}: {self.reason()}: " + self.story())
        return self


def output_of(process, limit_s):
    """Waits for the end of a process and returns what it has written to stdout and stderr. The limit is measured by
    awake_stopwatch()."""
    watch = awake_stopwatch()
    while True:
        try:
            return process.communicate(timeout=AWAKE_STEP_S / 2)
        except subprocess.TimeoutExpired:
            if watch() > limit_s:
                raise


def ends_within(process, limit_s):
    """Waits for the end of a process. Returns whether it came within the limit, by awake_stopwatch()."""
    watch = awake_stopwatch()
    while watch() <= limit_s:
        try:
            process.wait(AWAKE_STEP_S / 2)
            return True
        except subprocess.TimeoutExpired:
            pass
    return False


def command(*args, timeout=60, check=True, stdin=subprocess.DEVNULL, **popen):
    """Runs a program to its end."""
    args = [str(a) for a in args]
    watch = stopwatch()
    process = subprocess.Popen(args, stdin=stdin, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", **popen)
    try:
        out, err = output_of(process, timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            out, err = output_of(process, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        raise Failure(f"not done after {timeout} s: " + Result(
            args, process.returncode, out, err, timeout).story()) from None
    except BaseException:
        process.terminate()
        process.wait(10)
        raise
    result = Result(args, process.returncode, out, err, watch())
    return result.ok() if check else result


def runtime_of(library):
    """The environment in which Python can load a library. If the library was built with a sanitizer, the sanitizer's runtime
    must be there first. Python keeps memory until it ends, so leaks are not looked for."""
    found = re.search(r"lib[at]san\S* => (\S+)", command("ldd", library).out)
    return {"LD_PRELOAD": found[1], "ASAN_OPTIONS": "detect_leaks=0"} if found else {}


def at_terminal(*args, timeout=60, **popen):
    """Runs a program to its end whose stderr is a terminal. Returns its exit code, its output and what the terminal
    shows."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave,
                              **popen) as process:
            os.close(slave)
            out, shown = b"", b""
            with contextlib.suppress(OSError):  # a terminal that no process has open any more
                while more := os.read(master, 65536):
                    shown += more
            out, _ = process.communicate(timeout=timeout)
    finally:
        os.close(master)
    return process.returncode, out.decode(), shown.decode()


class Daemons:
    """Ends and restarts a lab's processes: switch daemons, the controller, cables. This is a base class of Lab
    (libtest.py), which provides the nodes. Nodes have their names in the lab; the controller's is "controller"."""

    def __init__(self):
        self.restarted = {}  # node: its new process
        self.spaces = {}     # node: its network namespace, which exists as long as a process uses it

    def pid(self, name):
        """The number of the node's present process."""
        process = self.restarted.get(name)
        return process.pid if process else self.node(name)["pid"]

    def end_process(self, name, number=signal.SIGKILL):
        """Sends a node's process a signal that ends it, and waits for its end. Stores what start_process() needs to
        start it again."""
        node, pid = self.node(name), self.pid(name)
        process = self.restarted.get(name)
        if name not in self.spaces:
            self.spaces[name] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                node["argv"] = f.read().decode().split("\0")[:-1]
        os.kill(pid, number)
        if process:
            expect(ends_within(process, 20), f"{name} has not ended within 20 s")
        else:
            wait_for("its end", lambda: gone(pid), 20)

    def start_process(self, name):
        """Starts a node's process again with its first arguments."""
        node, space = self.node(name), self.spaces[name]
        with open(node.get("log", os.devnull), "ab") as log:
            self.restarted[name] = subprocess.Popen(
                ["nsenter", f"--net=/proc/self/fd/{space}", *node["argv"]],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(space,))
        return self.restarted[name]

    def end_restarted(self):
        """Ends what start_process() has started, at the end of the lab. Returns {node: exit code} of those that did
        not end properly."""
        codes = {}
        for name, process in self.restarted.items():
            process.terminate()
            codes[name] = process.wait(20)
        for space in self.spaces.values():
            os.close(space)
        return {name: code for name, code in codes.items() if code not in (0, -signal.SIGKILL)}

    def switch_pid(self, name):
        return self.pid(name)

    def end_switch(self, name, number=signal.SIGKILL):
        self.end_process(name, number)

    def start_switch(self, name, connected=True):
        """Starts inc-switchd again with its first arguments."""
        process = self.start_process(name)
        if connected:
            wait_for("connected", lambda: process.poll() is not None or any(
                s["switch"] == name and s["state"] == "connected" for s in self.ask("switches")), 20)
            expect(process.poll() is None, f"exit code {process.poll()} of {name}")

    def start_controller(self):
        """Starts inc-controller again with its first arguments and its database. Waits until all switches are
        connected."""
        process = self.start_process("controller")
        wait_for("the switches", lambda: process.poll() is not None or
                 self.incctl("switches", "--json", check=False).code == 0 and
                 all(s["state"] == "connected" for s in self.ask("switches")), 20)
        expect(process.poll() is None, f"exit code {process.poll()} of the controller")

    def restart_controller(self, number=signal.SIGKILL):
        self.end_process("controller", number)
        self.start_controller()
