# SPDX-License-Identifier: BSD-2-Clause
"""Collectives that a switch computes on the way: libinccl for Python.

    import inccl
    with inccl.Group() as group, group.communicator() as comm:    # all from the environment, as in libinccl(3)
        comm.allreduce(vector)                                    # in place, on any buffer of numbers

The objects, options and errors are those of inccl.h, with its names and in its units. A call that fails raises Error, which
has the errno and the library's explanation. docs/python.md is the manual.
"""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ._library import (MIN_STACK_BYTES, STATISTICS, UNDEFINED, Collective, CollectiveOpts, CommunicatorInfo, CommunicatorOpts,
                       CommunicatorPointer, Dtype, GroupOpts, GroupPointer, LogFunction, Mode, Op, Order, RequestPointer,
                       Transport, lib, text)
from ._requests import Error, Explanation, Flight, Memory, Request, Collector, Shared, gone, interruptible, memory_of, strerror

__all__ = ["Collective", "Communicator", "Dtype", "Error", "Group", "Info", "MIN_STACK_BYTES", "Mode", "Op", "Order",
           "Request", "STATISTICS", "Transport", "UNDEFINED", "strerror", "version"]

def _c_int(name: str, value: int) -> int:
    """The number, which ctypes would shorten to the bits of a C int without an error."""
    if not -1 << 31 <= value < 1 << 31:
        raise ValueError(f"{name}: {value} is no number of 32 bits")
    return value


def version() -> str:
    """The version of libinccl."""
    return text(lib.inccl_version()) or ""


class Info(NamedTuple):
    """What a communicator is and what it has counted. inccl.h describes each member (inccl_communicator_info)."""
    rank: int
    world_size: int
    payload: int
    message_packets: int
    window: int
    slots: int
    number: int
    transport: str
    device: str
    peer: str
    packets_sent: int
    packets_resent: int
    results: int
    duplicates: int
    reordered: int
    bad_packets: int
    acks_sent: int
    acks_received: int
    naks_sent: int
    naks_received: int
    rnrs_received: int
    timeouts: int
    send_calls: int
    recv_calls: int
    congested: int
    float_bits: int
    tree: str
    mode: str
    floats: str
    channels: int
    choice: str


class Communicator(Shared):
    """Connections of the ranks through their switch, on which collectives run, in the same order on every rank. Made by
    Group.communicator(), split() and duplicate()."""
    _destroy = staticmethod(lib.inccl_communicator_destroy)

    def __init__(self, group: Group, pointer: CommunicatorPointer, options: Dict[str, Any]):
        super().__init__(pointer)
        self.group = group
        self._options = options
        self._flights: Set[Flight] = set()
        self._collector: Optional[Collector] = None
        self._reported = False  # an exception has had this communicator's error
        group._communicators.add(self)
        info = self.info()
        self.rank, self.size = info.rank, info.world_size

    def __enter__(self) -> Communicator:
        return self

    def __repr__(self) -> str:
        return f"<inccl.Communicator rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"

    def close(self) -> None:
        """Ends the communicator without waiting for other ranks. Requests under way are gone. Raises its error, if no call
        has."""
        if self._collector:
            self._collector.stop()
        code = self._close()
        if code and not self._reported:
            raise Error(-code, f"the communicator has failed: {strerror(code)}")

    def _give_away(self) -> None:
        """Closes this object, because a fallback has taken the library's communicator over."""
        with self._lock:
            self._pointer, self._closing = None, True
        self.group._communicators.discard(self)

    def _end(self) -> int:
        code = super()._end()
        for flight in list(self._flights):
            flight.finish(gone())
        self.group._end_late()
        return code

    def _after_fork(self) -> None:
        super()._after_fork()
        self._collector = None
        for flight in list(self._flights):
            flight.waiting, flight.callbacks = threading.Lock(), []
            flight.finish(gone())

    def _failure(self, pointer: CommunicatorPointer, code: int) -> Error:
        """The exception for an error of this communicator."""
        self._reported = True
        rank = lib.inccl_communicator_failed_rank(pointer)
        return Error(-code, text(lib.inccl_communicator_error(pointer)) or strerror(code), rank if rank >= 0 else None)

    def _watch(self, flight: Flight) -> None:
        with self._lock:
            if self._collector is None and not self._closing:
                self._collector = Collector()
        if self._collector:
            self._collector.add(flight)

    def _collect_orphans(self) -> None:
        """Collects what has ended of the requests that were dropped. What has not is looked at again by the next start."""
        for flight in [f for f in list(self._flights) if f.orphan]:
            flight.collect(0)

    # ---- properties ----

    def info(self) -> Info:
        """Properties and counters."""
        found = CommunicatorInfo()
        found.sz = ctypes.sizeof(found)
        with self._entered() as pointer:
            code = lib.inccl_communicator_info(pointer, found)
            if code:
                raise Error(-code, strerror(code))
            values = [getattr(found, name) for name in Info._fields]
            return Info(*(value.decode(errors="replace") if isinstance(value, bytes) else value for value in values))

    @property
    def error(self) -> Optional[str]:
        """Why the communicator has failed, or None."""
        with self._entered() as pointer:
            return text(lib.inccl_communicator_error(pointer))

    @property
    def summary(self) -> str:
        """A line that says whether the switch is used, and which."""
        info = self.info()
        if info.mode == "node":
            return f"{info.world_size} ranks of one machine share memory, and use no switch (INCCL_NODE=off: they use it)"
        return f"{info.world_size} ranks use the switch: tree {info.tree}, {info.mode} mode, {info.transport} transport"

    @property
    def failed_rank(self) -> Optional[int]:
        """The rank that caused the failure, or None."""
        with self._entered() as pointer:
            rank = int(lib.inccl_communicator_failed_rank(pointer))
        return rank if rank >= 0 else None

    # ---- further communicators ----

    def _derive(self, function: Any, numbers: Tuple[int, ...], options: Dict[str, Any]) -> Optional[Communicator]:
        if not options:  # those of this communicator, and the transport that it has
            kind = {"soft": Transport.SOFT, "verbs": Transport.VERBS}.get(self.info().transport)
            options = {**self._options, **({} if kind is None else {"transport": kind})}

        def make(opts: CommunicatorOpts, out: CommunicatorPointer) -> int:
            with self._entered() as pointer:
                return int(function(pointer, *numbers, opts, out))

        return self.group._make_communicator(make, options)

    def split(self, color: int, key: int = 0, **options: Any) -> Optional[Communicator]:
        """One communicator for each color, its ranks in the order of key. None for a negative color, such as UNDEFINED."""
        return self._derive(lib.inccl_communicator_split, (_c_int("color", color), _c_int("key", key)), options)

    def duplicate(self, **options: Any) -> Communicator:
        """Another communicator of the same ranks."""
        made = self._derive(lib.inccl_communicator_duplicate, (), options)
        assert made is not None
        return made

    # ---- collectives ----

    def _start(self, function: Any, send: Optional[Memory], recv: Optional[Memory], arguments: List[Any], result: Any,
               mode: int = 0, timeout_ms: int = 0, float_block: int = 0, float_exponent: Optional[int] = None) -> Request:
        """Starts a collective. The memory belongs to the flight from here on, or is released."""
        memory = [m for m in (send, recv) if m is not None]
        request = RequestPointer()
        flight = Flight(self, request, memory)
        try:
            opts = CollectiveOpts(mode=mode, timeout_ms=timeout_ms, float_block=float_block)
            if float_exponent is not None:
                opts.float_exponent = ctypes.pointer(ctypes.c_int(_c_int("float_exponent", float_exponent)))
            why = Explanation(opts)
            self._collect_orphans()
            with self._entered() as pointer:
                code = function(pointer, *arguments, opts, request)
                if code:
                    failed = lib.inccl_communicator_error(pointer) is not None
                    raise self._failure(pointer, code) if failed else why.error(code)
                self._flights.add(flight)
            return Request(flight, result)
        except BaseException:
            flight.orphan = True
            if not request.value:
                for m in memory:
                    m.release()
            elif not flight.done:  # Ctrl-C has come after the start, so the memory is in use
                self._flights.add(flight)
            raise

    def _vectors(self, send: Any, recv: Any, dtype: Optional[Dtype], count: Optional[int], send_blocks: int,
                 recv_blocks: int, op: Optional[Op] = None) -> Tuple[Optional[Memory], Optional[Memory], int, Dtype]:
        """The memory of both vectors, checked: each has room for so many blocks of count elements."""
        held: List[Memory] = []
        try:
            if send is not None or recv is None:
                held.append(memory_of("send", send, dtype, False))
            if recv is not None:
                held.append(memory_of("send, in place" if recv is send else "recv", recv, dtype, True))
            of = held[0].dtype
            if held[-1].dtype != of:
                raise TypeError(f"send has elements of {of.label}, and recv of {held[-1].dtype.label}")
            blocks = [send_blocks] * (send is not None) + [recv_blocks] * (recv is not None)
            if held[0].logical and op in (Op.SUM, Op.AVG):
                raise TypeError(f"{held[0].name}: its elements are of bool, of which there is no {op.label}; Op.LOR and Op.LAND fit")
            if count is None:
                count, rest = divmod(held[0].nbytes // of.size, blocks[0])
                if rest:
                    raise ValueError(f"{held[0].name}: {held[0].nbytes // of.size} elements are no multiple of {blocks[0]} ranks")
            if not isinstance(count, int) or count < 0:
                raise ValueError(f"count: {count!r} is no number of elements")
            for memory, n in zip(held, blocks):
                if count * n * of.size > memory.nbytes:
                    raise ValueError(f"{memory.name}: {memory.nbytes} bytes, but {n} x {count} elements of {of.label} need "
                                     f"{count * n * of.size}")
            return held[0] if send is not None else None, held[-1] if recv is not None else None, count, of
        except BaseException:
            for memory in held:
                memory.release()
            raise

    @staticmethod
    def _addresses(send: Optional[Memory], recv: Optional[Memory]) -> List[Optional[int]]:
        return [None if m is None else m.address for m in (send, recv)]

    def allreduce_start(self, send: Any, recv: Any = None, op: Op = Op.SUM, *, count: Optional[int] = None,
                        dtype: Optional[Dtype] = None, **options: Any) -> Request:
        """Starts allreduce(), and does not wait."""
        recv = send if recv is None else recv
        mine, result, n, of = self._vectors(send, recv, dtype, count, 1, 1, op)
        return self._start(lib.inccl_allreduce_start, mine, result, [*self._addresses(mine, result), n, of, op], recv, **options)

    def allreduce(self, send: Any, recv: Any = None, op: Op = Op.SUM, *, count: Optional[int] = None,
                  dtype: Optional[Dtype] = None, **options: Any) -> Any:
        """Combines the vectors of all ranks by the operator. The result is in recv on every rank, or in send if there is no
        recv. options: mode, timeout_ms, float_block, float_exponent."""
        return self.allreduce_start(send, recv, op, count=count, dtype=dtype, **options).wait()

    def reduce_start(self, send: Any, recv: Any = None, op: Op = Op.SUM, root: int = 0, *, count: Optional[int] = None,
                     dtype: Optional[Dtype] = None, **options: Any) -> Request:
        """Starts reduce(), and does not wait."""
        root = _c_int("root", root)
        recv = (send if recv is None else recv) if root == self.rank else None
        mine, result, n, of = self._vectors(send, recv, dtype, count, 1, 1, op)
        return self._start(lib.inccl_reduce_start, mine, result, [*self._addresses(mine, result), n, of, op, root], recv,
                           **options)

    def reduce(self, send: Any, recv: Any = None, op: Op = Op.SUM, root: int = 0, *, count: Optional[int] = None,
               dtype: Optional[Dtype] = None, **options: Any) -> Any:
        """Combines the vectors of all ranks. The result is in recv, or in send, on the root only. Other ranks return None."""
        return self.reduce_start(send, recv, op, root, count=count, dtype=dtype, **options).wait()

    def broadcast_start(self, recv: Any, root: int = 0, *, send: Any = None, count: Optional[int] = None,
                        dtype: Optional[Dtype] = None, **options: Any) -> Request:
        """Starts broadcast(), and does not wait."""
        root = _c_int("root", root)
        give = (recv if send is None else send) if root == self.rank else None
        mine, result, n, of = self._vectors(give, recv, dtype, count, 1, 1)
        return self._start(lib.inccl_broadcast_start, mine, result, [*self._addresses(mine, result), n, of, root], recv,
                           **options)

    def broadcast(self, recv: Any, root: int = 0, *, send: Any = None, count: Optional[int] = None,
                  dtype: Optional[Dtype] = None, **options: Any) -> Any:
        """recv of every rank becomes the root's send, or the root's recv if it has no send."""
        return self.broadcast_start(recv, root, send=send, count=count, dtype=dtype, **options).wait()

    def reduce_scatter_start(self, send: Any, recv: Any, op: Op = Op.SUM, *, count: Optional[int] = None,
                             dtype: Optional[Dtype] = None, **options: Any) -> Request:
        """Starts reduce_scatter(), and does not wait."""
        mine, result, n, of = self._vectors(send, recv, dtype, count, self.size, 1, op)
        return self._start(lib.inccl_reduce_scatter_start, mine, result, [*self._addresses(mine, result), n, of, op], recv,
                           **options)

    def reduce_scatter(self, send: Any, recv: Any, op: Op = Op.SUM, *, count: Optional[int] = None,
                       dtype: Optional[Dtype] = None, **options: Any) -> Any:
        """Combines the vectors of all ranks, each of `size` blocks. recv becomes this rank's block of the result."""
        return self.reduce_scatter_start(send, recv, op, count=count, dtype=dtype, **options).wait()

    def all_gather_start(self, send: Any, recv: Any, *, count: Optional[int] = None, dtype: Optional[Dtype] = None,
                         **options: Any) -> Request:
        """Starts all_gather(), and does not wait."""
        mine, result, n, of = self._vectors(send, recv, dtype, count, 1, self.size)
        return self._start(lib.inccl_all_gather_start, mine, result, [*self._addresses(mine, result), n, of], recv, **options)

    def all_gather(self, send: Any, recv: Any, *, count: Optional[int] = None, dtype: Optional[Dtype] = None,
                   **options: Any) -> Any:
        """recv, of `size` blocks, becomes the vectors of all ranks, one behind the other."""
        return self.all_gather_start(send, recv, count=count, dtype=dtype, **options).wait()

    def barrier_start(self, *, timeout_ms: int = 0) -> Request:
        """Starts barrier(), and does not wait."""
        return self._start(lib.inccl_barrier_start, None, None, [], None, timeout_ms=timeout_ms)

    def barrier(self, *, timeout_ms: int = 0) -> None:
        """Returns when every rank has called it."""
        self.barrier_start(timeout_ms=timeout_ms).wait()


_groups: weakref.WeakSet[Group] = weakref.WeakSet()


class Group(Shared):
    """The ranks of a job. What is not given comes from the environment (libinccl(3), "Environment"). log is called with each
    decision of the library, a line at a time, from any thread."""
    _destroy = staticmethod(lib.inccl_group_destroy)

    def __init__(self, *, job: Optional[str] = None, controller: Optional[str] = None, rank: Optional[int] = None,
                 world_size: Optional[int] = None, address: Optional[str] = None, interface: Optional[str] = None,
                 connect_timeout_ms: int = 0, create_timeout_ms: int = 0, log: Optional[Callable[[str], None]] = None,
                 join: bool = False, no_node: bool = False):
        self._closing = True  # there is nothing to close yet
        if (rank is None) != (world_size is None) or world_size == 0:
            raise ValueError("rank and world_size need each other")
        opts = GroupOpts(rank=rank or 0, world_size=world_size or 0, connect_timeout_ms=connect_timeout_ms,
                         create_timeout_ms=create_timeout_ms, join=join, no_node=no_node)
        for name, value in (("job", job), ("controller", controller), ("address", address), ("interface", interface)):
            setattr(opts, name, None if value is None else value.encode())
        self._make(opts, log, lib.inccl_group_create, [])

    def _make(self, opts: GroupOpts, log: Optional[Callable[[str], None]], create: Callable[..., int], keep: List[Any]) -> None:
        """Makes the group. keep: the callbacks of the group of which this one is made, because the library may call them."""
        why = Explanation(opts)
        if log is not None:
            call = log
            opts.log = LogFunction(lambda _, line: call(line.decode(errors="replace")))
            keep = [*keep, opts.log]

        def make() -> GroupPointer:
            pointer = GroupPointer()
            code = create(opts, pointer)
            if code:
                raise why.error(code)
            return pointer

        pointer = interruptible(make, lib.inccl_group_destroy)
        super().__init__(pointer)
        self._ending = threading.RLock()
        self._keep = keep
        self._communicators: weakref.WeakSet[Any] = weakref.WeakSet()  # lanes, too (_fallback.py)
        self.rank, self.size = int(lib.inccl_group_rank(pointer)), int(lib.inccl_group_size(pointer))
        _groups.add(self)

    def __enter__(self) -> Group:
        return self

    def __repr__(self) -> str:
        return f"<inccl.Group rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"

    def close(self) -> None:
        """Leaves the group, after closing its communicators. All of them are closed before the first error is raised."""
        first: Optional[BaseException] = None
        for comm in list(self._communicators):
            try:
                comm.close()
            except BaseException as e:
                first = first or e
        code = self._close()
        if first:
            raise first
        if code:
            raise Error(-code, f"the group was not left: {strerror(code)}")

    def _end(self) -> int:
        """A communicator of which a call is still inside the library keeps the group. Its end calls this again. Two of them
        may end together, and the second one waits here for what the first one finds."""
        with self._ending:
            pointer = self._pointer
            code = super()._end()
            if code == -errno.EBUSY:
                self._pointer, self._late, code = pointer, True, 0
        return code

    @property
    def error(self) -> Optional[str]:
        """Why nothing new can begin in the group, or None."""
        with self._entered() as pointer:
            return text(lib.inccl_group_error(pointer))

    def _derive(self, function: Callable[..., int], numbers: Tuple[int, ...], connect_timeout_ms: int, create_timeout_ms: int,
                log: Optional[Callable[[str], None]]) -> Group:
        made = Group.__new__(Group)
        made._closing = True

        def create(opts: GroupOpts, out: GroupPointer) -> int:
            with self._entered() as pointer:
                return function(pointer, *numbers, opts, out)

        made._make(GroupOpts(connect_timeout_ms=connect_timeout_ms, create_timeout_ms=create_timeout_ms), log, create, self._keep)
        return made

    def shrink(self, *, connect_timeout_ms: int = 0, create_timeout_ms: int = 0,
               log: Optional[Callable[[str], None]] = None) -> Group:
        """A new group of the ranks that are left. Each of them must call it."""
        return self._derive(lib.inccl_group_shrink, (), connect_timeout_ms, create_timeout_ms, log)

    def grow(self, world_size: int, *, connect_timeout_ms: int = 0, create_timeout_ms: int = 0,
             log: Optional[Callable[[str], None]] = None) -> Group:
        """A new group of world_size ranks. The further ranks are processes that call Group(join=True)."""
        return self._derive(lib.inccl_group_grow, (_c_int("world_size", world_size),), connect_timeout_ms, create_timeout_ms, log)

    def _make_communicator(self, create: Callable[[CommunicatorOpts, CommunicatorPointer], int],
                           options: Dict[str, Any]) -> Optional[Communicator]:
        opts = CommunicatorOpts(**{k: v.encode() if isinstance(v, str) else v for k, v in options.items()})
        why = Explanation(opts)

        def make() -> CommunicatorPointer:
            pointer = CommunicatorPointer()
            code = create(opts, pointer)
            if code:
                raise why.error(code)
            return pointer

        def undo(pointer: CommunicatorPointer) -> None:
            lib.inccl_communicator_destroy(pointer)
            self._end_late()

        pointer = interruptible(make, undo)
        return Communicator(self, pointer, options) if pointer else None

    def communicator(self, *, transport: Transport = Transport.AUTO, payload: int = 0, message_packets: int = 0, window: int = 0,
                     timeout_ms: int = 0, create_timeout_ms: int = 0, verbs: Optional[str] = None,
                     byte_order: Order = Order.LITTLE, channels: int = 0, use: Optional[str] = None,
                     silence_ms: int = 0, no_wait: bool = False) -> Communicator:
        """Connects the ranks through their switch. Every rank must call it, in the same order."""
        def create(opts: CommunicatorOpts, out: CommunicatorPointer) -> int:
            with self._entered() as pointer:
                return int(lib.inccl_communicator_create(pointer, opts, out))

        made = self._make_communicator(create, {
            "transport": transport, "payload": payload, "message_packets": message_packets, "window": window,
            "timeout_ms": timeout_ms, "create_timeout_ms": create_timeout_ms, "verbs": verbs, "byte_order": byte_order,
            "channels": channels, "use": use, "silence_ms": silence_ms, "no_wait": no_wait})
        assert made is not None
        return made


def _after_fork() -> None:
    """Closes all objects in a child of fork()."""
    for group in list(_groups):
        for shared in (group, *group._communicators):
            shared._after_fork()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _leave() -> None:
    """Leaves all groups at the end of the program, so that no other rank takes this one for dead."""
    for group in list(_groups):
        with contextlib.suppress(Error):
            group.close()
