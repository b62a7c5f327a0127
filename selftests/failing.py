# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs in which the n-th system call fails, for every n, by strace. A program must not crash, hang or leave
anything behind. If it gives up, it must report the failure in one line."""
import os
import random
import re
import select
import signal
import subprocess

from libtest import Failure, expect, wait_for

# The calls that programs make at their start and that can fail on a machine in trouble. Not unlink, because a file
# that cannot be deleted remains.
CALLS = ("openat,socket,bind,listen,connect,setsockopt,getsockopt,getsockname,epoll_create1,epoll_ctl,eventfd2,timerfd_create,"
         "pipe2,mmap,mremap,ioctl,fcntl,clone3,mkdir,mkdirat,fsync,fdatasync,ftruncate,pread64,pwrite64,getrandom,newfstatat,"
         "rename,flock,bpf,perf_event_open,sendto,sendmsg,sendmmsg,recvfrom,recvmsg,recvmmsg,read,prctl,capset,prlimit64,signalfd4,getdents64")
LOOPS = "epoll_wait,epoll_pwait"
# A kernel without BTF cannot load the XDP programs. It finds that out after 12 s, or longer on a busy machine.
LIMIT_S = 180
ALL = os.environ.get("FULL") == "1"
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))


class Attempt:
    """A program that runs until it reports that it is ready, or to its end."""

    def __init__(self, directory, words, ready, fail=None, error="ENOMEM", prefix=()):
        """fail: (name of the call, which one of a thread's calls of that name)."""
        trace = os.path.join(directory, "trace")
        inject = ["-e", f"inject={fail[0]}:error={error}:when={fail[1]}"] if fail else []
        process = subprocess.Popen(
            [*prefix, "strace", "-f", "-qq", "-o", trace, "-e", f"trace={CALLS},{LOOPS}", "-e", "signal=none", *inject, *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.ready = self._wait_ready(process, ready)
            if self.ready:
                self._ask_to_end(process)
            self.out, self.err = (text.decode(errors="replace") for text in process.communicate(timeout=LIMIT_S))
        except subprocess.TimeoutExpired:
            raise Failure(f"not at its end after {LIMIT_S} s") from None
        finally:
            self._kill(process)
        self.code = process.returncode
        with open(trace, errors="replace") as f:
            lines = f.read().splitlines()
        self.calls = self._calls(lines)
        self.injected = next((line.split(maxsplit=1)[1] for line in lines if "(INJECTED)" in line), None)

    @staticmethod
    def _calls(lines):
        """Returns [(name, index among the calls of that name)] of the main thread, because strace counts per thread.
        Calls of the dynamic linker are separated, because its failures are not the program's concern."""
        found, counts, linked, loops, main = [], {}, False, False, None
        for line in lines:
            match = re.match(r"(\d+) +(\w+)\(", line)
            main = main or (match and match[1])
            if not match or match[1] != main:
                continue
            name = match[2]
            counts[name] = counts.get(name, 0) + 1
            loops = loops or name in LOOPS.split(",")
            # libevent aborts a process that cannot read its own wake-up pipe, as it does for each signal
            if linked and name in CALLS.split(",") and not (loops and name == "read"):
                found.append((name, counts[name]))
            linked = linked or "RLIMIT_STACK" in line
        return found

    @staticmethod
    def _wait_ready(process, ready):
        """Whether the program's report arrived before its end."""
        if not ready:
            return False
        seen = b""
        while not re.search(ready.encode(), seen, re.M):
            expect(select.select([process.stdout], [], [], LIMIT_S)[0], f"neither ready nor at its end after {LIMIT_S} s")
            more = os.read(process.stdout.fileno(), 4096)
            if not more:
                return False
            seen += more
        return True

    @staticmethod
    def tracees(process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as f:
            return [int(pid) for pid in f.read().split()]

    def _ask_to_end(self, process):
        for pid in self.tracees(process):
            os.kill(pid, signal.SIGTERM)

    def _kill(self, process):
        if process.poll() is None:
            for pid in self.tracees(process):
                os.kill(pid, signal.SIGKILL)
            process.kill()
        process.wait()


def one_line(attempt):
    """The one line in which the program reports why it gave up."""
    errors = [line for line in attempt.err.splitlines() if re.search(r" error [\w-]+: |^[\w-]+: ", line)]
    # 2: the value of an option is unusable
    expect(attempt.code in (1, 2), f"exit code {attempt.code}\n{attempt.err}")
    expect(len(errors) == 1, f"{len(errors)} lines of errors:\n{attempt.err}")
    return errors[0]


def for_each(directory, words, ready, leaves_nothing, few=1000, **more):
    """Runs the program with each failure. few: this many calls, chosen at random; FULL=1: all. ready: the text that a
    daemon prints when it has started; None: a program that runs to its end."""
    whole = Attempt(directory, words(), ready, **more)
    expect(whole.ready == bool(ready) and whole.code == 0, f"it does not run: exit code {whole.code}\n{whole.err}")
    leaves_nothing()
    targets = sorted(set(whole.calls))
    if not ALL:
        targets = random.Random(SEED).sample(targets, min(few, len(targets)))
    failed = gave_up = 0
    for name, which in targets:
        try:
            attempt = Attempt(directory, words(), ready, (name, which), **more)
            if attempt.injected:
                failed += 1
                if not attempt.ready and (attempt.code or ready):
                    one_line(attempt)
                    gave_up += 1
                else:
                    expect(attempt.code in (0, 1), f"exit code {attempt.code}\n{attempt.err}")
            wait_for("nothing to be left", lambda: leaves_nothing() or True, 5)
        except Failure as e:
            raise Failure(f"{name} number {which} fails: {e}") from None
    print(f"# {failed} of {len(set(whole.calls))} calls failed, {gave_up} times it gave up; SEED={SEED}", flush=True)
    expect(failed, "no call has failed")
