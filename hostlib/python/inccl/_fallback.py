# SPDX-License-Identifier: BSD-2-Clause
"""Collectives that end without the switch if need be (inccl_fallback.h), for a framework that has collectives of its own.

A Lane is a communicator with its fallback, and a thread that runs collectives one after the other, because a fallback has one
under way at a time. A Lanes object has several lanes. Collective number n runs on lane n modulo their number, which is the same
on all ranks. inccl.torch is the caller.

Each lane measures whether the switch or the framework is faster, for each collective and each class of sizes (Choice).
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import queue
import socket
import statistics
import struct
import threading
import time
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._library import (Collective, Dtype, FallbackCall, FallbackOpts, FallbackPointer, GatherFunction, LostFunction, Op,
                       RepeatFunction, lib, stopwatch, text)
from ._requests import Closed, Error, Explanation, gone, strerror

# Leaving a group waits so long for collectives that are under way, and for ranks that need a result of this one.
LEAVE_S = 1.0
LAST_RESULT_S = 30.0
REASON_BYTES = 512
ANOTHER = "another rank"  # INCCL_FALLBACK_ANOTHER, with which a reason begins that another rank knows better
# An error of the framework waits so long for that of the group, which names the rank that is the cause.
CAUSE_S = 2.5
CAUSE_LOOK_S = 0.02
# The choice of a path has the numbers of hostlib/mpi/decide.c, which has the reasons.
COUNTED = 3
FIRST_REST = 256
LONGEST_REST = 1 << 20
MOST_OF_FRAMEWORK = 0.95
Figures = Dict[Tuple[Collective, bool], Tuple[int, int, float]]


class Framework:
    """The framework's own collectives, among the same ranks, for one lane. Their exceptions are those of the collective."""

    def gather(self, mine: bytes) -> bytes:
        """The bytes of all ranks, in the order of the ranks."""
        raise NotImplementedError

    def repeat(self, call: FallbackCall) -> None:
        """Runs a collective of call.send and call.recv, which are addresses."""
        raise NotImplementedError


class Choice:
    """The path of collectives of one kind and class of sizes: the switch, or the framework. The first calls alternate. Then all ranks
    agree on the faster path, and measure again after a while."""

    def __init__(self) -> None:
        self.by_switch = True
        self.rest = 0  # calls until the next trial begins; 0: a trial runs
        self._next_rest = FIRST_REST
        self._took_s: List[float] = []  # the calls of the trial, by the switch and by the framework in turn

    def path(self) -> bool:
        """Whether the next call goes through the switch."""
        return self.by_switch if self.rest else len(self._took_s) % 2 == 0

    def note(self, took_s: float, slowest: Callable[[List[float]], List[float]]) -> None:
        """Notes the time of a call. slowest: returns the maximum of each number over all ranks."""
        if self.rest:
            self.rest -= 1
            return
        self._took_s.append(took_s)
        # Each of the two paths has one call that does not count, because connections may be new, and COUNTED others.
        if len(self._took_s) < 2 * (1 + COUNTED):
            return
        # Calls 0, 2, 4 and so on went through the switch, and 1, 3, 5 and so on by the framework. Calls 0 and 1 do not count.
        switch_s, framework_s = slowest([statistics.median(self._took_s[first::2]) for first in (2, 3)])
        self.by_switch = switch_s <= MOST_OF_FRAMEWORK * framework_s
        self._took_s = []
        self.rest, self._next_rest = self._next_rest, min(2 * self._next_rest, LONGEST_REST)


class Job:
    """A collective under way. `keep` is what its addresses lie in."""

    def __init__(self, call: FallbackCall, keep: Any):
        self.call, self.keep = call, keep
        self.error: Optional[Exception] = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: List[Callable[[], None]] = []
        self._settled = False

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def end(self, error: Optional[Exception]) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self.error, self.keep = error, None
            self._ended.set()

    def wait(self, timeout_ms: Optional[float] = None) -> None:
        """Waits for the end, or so long, and raises the collective's error."""
        if not self._ended.wait(None if timeout_ms is None else timeout_ms / 1000):
            raise TimeoutError(f"the collective has not ended within {timeout_ms:g} ms")
        self.settle()
        if self.error:
            raise self.error

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Calls callback() once after the end, on any thread."""
        with self._lock:
            self._callbacks.append(callback)
            settled = self._settled
        if settled:
            self.settle()

    def settle(self) -> None:
        """Calls the callbacks that no thread has called yet, after the end."""
        self._ended.wait()
        with self._lock:
            self._settled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                traceback.print_exc()


class Lane:
    """A communicator that the library takes over, and its thread. group.close() closes it."""

    def __init__(self, comm: Any, framework: Framework, lost: Callable[[int, str], None], left: Callable[[], None],
                 timeout_ms: int, address: Optional[str], by_switch: Optional[bool]):
        self._framework, self._lost, self._left = framework, lost, left
        self._by_switch = by_switch
        self._choices: Dict[Tuple[int, int], Choice] = {}  # by collective and class of sizes
        self.figures: Figures = {}
        self._raised: Optional[BaseException] = None
        self._jobs: "queue.SimpleQueue[Optional[Job]]" = queue.SimpleQueue()
        self._running: Optional[Job] = None
        self._group = weakref.ref(comm.group)
        self._lock = threading.Lock()  # put() adds nothing behind the end of the queue
        self._leaving = self._closing = False  # takes no further job, and runs no further one
        self.reason: Optional[str] = None  # why the switch is lost
        self.repeated = 0  # collectives that the framework has repeated
        # the library calls these as long as the fallback lives
        self._functions = (GatherFunction(self._gather), RepeatFunction(self._repeat), LostFunction(self._note_loss))
        opts = FallbackOpts(gather=self._functions[0], repeat=self._functions[1], lost=self._functions[2],
                            timeout_ms=timeout_ms, leave_early=1, address=None if address is None else address.encode())
        why = Explanation(opts)
        self._pointer = FallbackPointer()
        with comm._entered() as pointer:
            code = lib.inccl_fallback_create(pointer, opts, self._pointer)
        if code:
            if self._raised and not isinstance(self._raised, Exception):  # Ctrl-C
                raise self._raised
            raise Error(-code, str(self._raised)) if self._raised else why.error(code)
        comm._give_away()
        comm.group._communicators.add(self)
        self._thread = threading.Thread(target=self._work, name="inccl-lane", daemon=True)
        self._thread.start()

    # ---- what the library calls ----

    def _guarded(self, function: Callable[[], None]) -> int:
        try:
            function()
        except BaseException as e:  # run() or __init__() raises it
            self._raised = e
            return -errno.EIO
        return 0

    def _gather(self, _: Any, mine: int, everything: int, nbytes: int) -> int:
        def run() -> None:
            found = self._framework.gather(ctypes.string_at(mine, nbytes))
            ctypes.memmove(everything, found, len(found))

        return self._guarded(run)

    def _repeat(self, _: Any, call: Any) -> int:
        def run() -> None:
            self.repeated += 1
            if self.repeated == 1:
                self._report_loss()
            self._framework.repeat(call.contents)

        return self._guarded(run)

    def _report_loss(self) -> None:
        """All ranks repeat the same collective, so each of them can give its reason here."""
        mine = f"({socket.gethostname()}) {self.reason}".encode()[:REASON_BYTES]
        given = self._framework.gather(mine.ljust(REASON_BYTES, b"\0"))
        reasons = [given[k:k + REASON_BYTES].rstrip(b"\0").decode(errors="replace") for k in range(0, len(given), REASON_BYTES)]
        rank = next((k for k, reason in enumerate(reasons) if f") {ANOTHER}" not in reason), 0)
        self._lost(rank, reasons[rank])

    def _note_loss(self, _: Any, reason: bytes) -> None:
        self.reason = text(reason)

    # ---- the thread ----

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                break
            self._running = job
            job.end(gone() if self._closing else self._run(job, job.keep))
            self._running = job = None
        lib.inccl_fallback_destroy(self._pointer)
        del self._framework  # with its threads and connections
        group = self._group()
        if group:
            group._end_late()

    def _run(self, job: Job, _keep: Any) -> Optional[Exception]:
        """Runs a collective, during which its memory lives, even if close() ends the job."""
        self._raised = None
        nbytes, before = job.call.count * Dtype(job.call.dtype).size, self.repeated
        # Without elements a call ends at once in the library. The framework's path needs an address, which an empty tensor lacks.
        is_empty = not job.call.count and job.call.collective != Collective.BARRIER
        choice = None
        if self._by_switch is None and not before and not is_empty:
            choice = self._choices.setdefault((job.call.collective, nbytes.bit_length()), Choice())
        by_switch = choice.path() if choice else is_empty or self._by_switch is not False
        watch = stopwatch()
        if by_switch:
            code = lib.inccl_fallback_run(self._pointer, job.call)
        else:
            code = self._guarded(lambda: self._framework.repeat(job.call))
        took_s = watch()
        if not code and not is_empty:
            self._count(Collective(job.call.collective), by_switch and self.repeated == before, nbytes, took_s)
        # all ranks have repeated the same collective, so they end the measurements together
        if not code and choice and not self.repeated:
            code = self._guarded(functools.partial(choice.note, took_s, self._slowest))
        return self._explain(code, by_switch) if code else None

    def _count(self, collective: Collective, by_switch: bool, nbytes: int, took_s: float) -> None:
        calls, total, seconds = self.figures.get((collective, by_switch), (0, 0, 0.0))
        self.figures[collective, by_switch] = calls + 1, total + nbytes, seconds + took_s

    def _slowest(self, mine: List[float]) -> List[float]:
        form = f"<{len(mine)}d"
        return [max(column) for column in zip(*struct.iter_unpack(form, self._framework.gather(struct.pack(form, *mine))))]

    def _explain(self, code: int, by_switch: bool) -> Exception:
        if not self._raised:
            return Error(-code, text(lib.inccl_fallback_reason(self._pointer)) or strerror(code))
        if by_switch and self.reason:
            return Error(-code, f"{self._raised}, after the loss of the switch ({self.reason})")
        return Error(-code, f"{self._raised}{self._cause()}")

    def _cause(self) -> str:
        """The group's error, which names a rank that is lost. It comes a moment after the framework's."""
        watch, error = stopwatch(), None
        with contextlib.suppress(Exception):  # of a group that is closed meanwhile
            while not error and watch() < CAUSE_S:
                time.sleep(CAUSE_LOOK_S)
                group = self._group()
                error = group.error if group else None
                del group
        return f" ({error})" if error else ""

    def put(self, job: Job) -> None:
        with self._lock:
            if self._leaving:
                raise Closed("this Group is closed")
            self._jobs.put(job)

    @property
    def closed(self) -> bool:
        return self._leaving

    def close(self) -> None:
        """Ends the communicator, once no other rank needs a result of this one. A collective that still waits for another rank
        is gone for its caller, and so are those behind it. Its thread lives until the collective ends."""
        with self._lock:
            if self._leaving:
                return
            self._leaving = True
            self._jobs.put(None)
        try:
            self._thread.join(LEAVE_S)
        finally:  # also after Ctrl-C
            is_running = self._give_up()
        if not is_running:
            self._thread.join(LAST_RESULT_S)

    def _give_up(self) -> bool:
        """Ends all jobs for their callers. Returns whether one is under way."""
        self._closing = True
        running = self._running
        if running:
            running.end(gone())
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job:
                    job.end(gone())
        self._jobs.put(None)  # the thread still needs the end of the queue
        self._left()
        return running is not None

    def _after_fork(self) -> None:
        """In a child of fork() the thread does not exist, and the lock may have no owner."""
        self._lock = threading.Lock()
        self._leaving = self._closing = True


class Lanes:
    """The lanes of a group. frameworks: one for each communicator. lost: called once, when the framework repeats a collective for
    the first time, with the rank that has lost the switch, and its reason. by_switch: whether jobs go through the switch or by the
    framework, or None if measurements choose. Jobs end on the threads of their lanes, and one
    further thread calls their callbacks in the order in which the jobs were started, which is the same on all ranks."""

    def __init__(self, comms: Sequence[Any], frameworks: Sequence[Framework], lost: Callable[[int, str], None],
                 timeout_ms: int, address: Optional[str], by_switch: Optional[bool] = True):
        self.info, self.summary = comms[0].info(), comms[0].summary
        self.rank, self.size = comms[0].rank, comms[0].size
        self.together = 0  # the most jobs that have been under way at once
        self._lost = lost
        self._lock = threading.Lock()
        self._number = 0
        self._started: "queue.SimpleQueue[Optional[Job]]" = queue.SimpleQueue()
        self._under_way: List[Job] = []
        self._open = len(comms)
        self.lanes = [Lane(comm, framework, self._report_once, self._note_end, timeout_ms, address, by_switch)
                      for comm, framework in zip(comms, frameworks)]
        threading.Thread(target=self._settle, name="inccl-settle", daemon=True).start()

    @property
    def repeated(self) -> int:
        """Collectives that the framework has repeated."""
        return sum(lane.repeated for lane in self.lanes)

    @property
    def figures(self) -> Figures:
        """Calls, bytes and seconds of each collective, by the switch (True) and by the framework (False)."""
        found: Figures = {}
        for lane in self.lanes:
            for key, (calls, nbytes, took_s) in list(lane.figures.items()):
                before = found.get(key, (0, 0, 0.0))
                found[key] = before[0] + calls, before[1] + nbytes, before[2] + took_s
        return found

    def _report_once(self, rank: int, reason: str) -> None:
        with self._lock:
            lost, self._lost = self._lost, lambda _, __: None
        lost(rank, reason)

    def _note_end(self) -> None:
        """A lane has closed, and has ended its jobs. After the last one the thread of the callbacks has nothing more to do."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._started.put(None)

    def _settle(self) -> None:
        for job in iter(self._started.get, None):
            job.settle()

    def start(self, collective: Collective, send: Optional[int], recv: Optional[int], count: int, dtype: Dtype, op: Op, root: int,
              keep: Any) -> Job:
        """Starts a collective. Its memory lies in `keep`. All ranks start the same ones in the same order."""
        call = FallbackCall(collective=collective, send=send, recv=recv, count=count, dtype=dtype, op=op, root=root)
        call.sz = ctypes.sizeof(call)
        job = Job(call, keep)
        with self._lock:
            lane = self.lanes[self._number % len(self.lanes)]
            lane.put(job)
            self._number += 1
            self._started.put(job)
            self._under_way = [other for other in self._under_way if not other.ended] + [job]
            self.together = max(self.together, len(self._under_way))
        return job
