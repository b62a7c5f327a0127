# SPDX-License-Identifier: BSD-2-Clause
"""Processes of this machine, for tests: one run to its end, conditions waited for, expectations. What
libtest.py and libdaemons.py stand on; tests import all of it from libtest."""
import contextlib
import os
import signal
import subprocess
import time


class Failure(Exception):
    """A test's expectation that did not hold; the message is the reason."""


def expect(condition, reason):
    if not condition:
        raise Failure(reason)


def stopwatch():
    """A function that says how many seconds ago this was called."""
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


def wait_for(what, condition, seconds=10.0):
    """Waits until condition() is true and returns its value; fails at the deadline."""
    watch = stopwatch()
    while True:
        value = condition()
        if value:
            return value
        if watch() > seconds:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def gone(pid):
    """A process has ended, whoever is to hear of it."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


# Longer than the silence after which a switch calls a peer unresponsive (INC_UNRESPONSIVE_S).
STANDSTILL_S = 11


@contextlib.contextmanager
def stopped(pid):
    """A process is stopped meanwhile, and then goes on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stands_still(pid, seconds=STANDSTILL_S):
    """A process is stopped for so long, and goes on."""
    with stopped(pid):
        since = stopwatch()
        wait_for("the end of the stop", lambda: since() > seconds, seconds + 5)


class Result:
    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    def story(self):
        return f"{' '.join(map(str, self.args))}\nexit code {self.code} after " \
            f"{self.seconds:.1f} s\n{self.out[-6000:]}\n{self.err[-6000:]}"

    def ok(self):
        expect(self.code == 0, f"exit code {self.code} of " + self.story())
        return self


def command(*args, timeout=60, check=True, stdin=subprocess.DEVNULL, **popen):
    """Runs a program to its end."""
    args = [str(a) for a in args]
    watch = stopwatch()
    process = subprocess.Popen(args, stdin=stdin, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", **popen)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            out, err = process.communicate(timeout=10)
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
