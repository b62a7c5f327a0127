# SPDX-License-Identifier: BSD-2-Clause
"""Processes of this machine: runs programs, waits for conditions, checks expectations. libtest.py and libdaemons.py
use this; tests import all of it from libtest."""
import contextlib
import os
import signal
import subprocess
import time


class Failure(Exception):
    """An expectation of a test that was not fulfilled. The message is the reason."""


def expect(condition, reason):
    if not condition:
        raise Failure(reason)


def stopwatch():
    """Returns a function that returns the seconds since this call."""
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


def wait_for(what, condition, seconds=60.0):
    """Waits until condition() is true and returns its value; fails at the deadline. The deadline only ends a test that
    would wait for ever. A busy machine needs more than 10 s to start a few programs, so it is long by default."""
    watch = stopwatch()
    while True:
        value = condition()
        if value:
            return value
        if watch() > seconds:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.02)


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
