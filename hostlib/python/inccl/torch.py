# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch over the switch: the backend "inccl" of torch.distributed, and a hook for DistributedDataParallel.

    import inccl.torch
    torch.distributed.init_process_group("inccl")

`python3 -m inccl.torch PROGRAM` runs a program that has only the second of these lines, if its ranks are not started by
torch.multiprocessing.spawn.

Each process group has an inccl.Group of its own, whose name its ranks agree on by the store, and a process group of gloo for
what the switch does not do. docs/pytorch.md is the manual, and lists the calls that DistributedDataParallel makes.

Each lane measures whether the switch or gloo is faster. If a lane loses the switch, gloo repeats what no rank has a result of, and
serves all that follows on this lane (_fallback.py).

Threads: a collective starts on the thread of its caller, which may be one of autograd's, and runs on that of a lane. A further
thread copies results and completes futures. All ranks must start collectives in the same order, which PyTorch asks for as well.
"""
import collections
import contextlib
import ctypes
import datetime
import hashlib
import os
import re
import runpy
import secrets
import socket
import sys
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist
from torch.futures import Future

from . import Collective, Communicator, Dtype, Error, Group, Op, version
from ._fallback import Framework, Job, Lanes
from ._requests import Closed

DTYPES = {torch.float32: Dtype.FLOAT32, torch.float64: Dtype.FLOAT64, torch.float16: Dtype.FLOAT16,
          torch.bfloat16: Dtype.BFLOAT16, torch.int8: Dtype.INT8, torch.uint8: Dtype.UINT8, torch.int16: Dtype.INT16,
          torch.int32: Dtype.INT32, torch.int64: Dtype.INT64}
# Pairs, because not every version of PyTorch can hash an operator. Those of the second list are of integers only.
OPS = [(dist.ReduceOp.SUM, Op.SUM), (dist.ReduceOp.AVG, Op.AVG), (dist.ReduceOp.MIN, Op.MIN), (dist.ReduceOp.MAX, Op.MAX)]
INTEGER_OPS = [(dist.ReduceOp.BAND, Op.AND), (dist.ReduceOp.BOR, Op.OR), (dist.ReduceOp.BXOR, Op.XOR)]
GLOO_OPS = {Op.SUM: dist.ReduceOp.SUM, Op.AVG: dist.ReduceOp.SUM, Op.MIN: dist.ReduceOp.MIN, Op.MAX: dist.ReduceOp.MAX,
            Op.PROD: dist.ReduceOp.PRODUCT, Op.AND: dist.ReduceOp.BAND, Op.OR: dist.ReduceOp.BOR, Op.XOR: dist.ReduceOp.BXOR}
# gloo has no sums of some types, and float16 is more exact in float32
GLOO_KINDS = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.int16: torch.int32}
LANES = 2  # collectives of a process group that are on the switch at once
# The ranks have met in the store before they create a group, so they come to it within a moment.
CREATE_TIMEOUT_MS = 20000
MAX_TIMEOUT_MS = (1 << 31) - 1
NO_TIMEOUT = datetime.timedelta(0)
OLDER = "an older inccl.torch"
HOOK_TIMEOUT = datetime.timedelta(minutes=30)  # of the hook in a process group of another backend
COLLECTIVES = {"allreduce": Collective.ALLREDUCE, "reduce": Collective.REDUCE, "broadcast": Collective.BROADCAST,
               "allgather": Collective.ALL_GATHER, "reduce_scatter": Collective.REDUCE_SCATTER, "barrier": Collective.BARRIER}
# The values of INCCL_TORCH_CHOICE, and whether collectives go through the switch. None: measurements choose.
CHOICES: Dict[str, Optional[bool]] = {"measure": None, "switch": True, "gloo": False}
ALL_CALLS = "for allreduce, reduce, broadcast, allgather, reduce_scatter and barrier"
SCOPES = {None: f"{ALL_CALLS} where it is faster", True: ALL_CALLS, False: "for no call (INCCL_TORCH_CHOICE)"}
# A process group keeps so many of its last works, for callers in C++ that wait for a Work after the collective's end. Those of
# PyTorch wait before they have started so many others.
KEPT_WORKS = 16
Tensors = List[torch.Tensor]


def say(line: str) -> None:
    """Prints a line, if stderr takes it. An exception here would end the collective of this rank, and the others would wait."""
    with contextlib.suppress(Exception):
        print(f"inccl: torch: {line}", file=sys.stderr, flush=True)


def _start(switch: Lanes, collective: Collective, send: Optional[torch.Tensor], recv: Optional[torch.Tensor], count: int,
           op: Op = Op.SUM, root: int = 0) -> Job:
    """Starts a collective of contiguous tensors on the CPU. Its error is a RuntimeError, as that of other backends is."""
    kind = next((t.dtype for t in (send, recv) if t is not None), torch.uint8)
    addresses = [None if t is None else t.data_ptr() for t in (send, recv)]
    try:
        return switch.start(collective, addresses[0], addresses[1], count, DTYPES[kind], op, root, (send, recv))
    except Closed as e:
        raise RuntimeError(str(e)) from e


def _future(job: Job, result: Callable[[], Any], owner: Any = None) -> "Future[Any]":
    """A future that has result() when the job has ended, until when it keeps its owner. Its error is one for C++ callers,
    too, which an exception that is set directly is not."""
    first: "Future[Any]" = Future()
    inference = torch.is_inference_mode_enabled()  # which is a property of each thread

    def finish(_: Any) -> Any:
        if job.error:
            raise job.error
        with torch.inference_mode(inference), torch.no_grad():  # autograd records no collective
            return result()

    following = first.then(finish)

    def ended(_owner: Any = owner) -> None:
        first.set_result(None)

    job.add_done_callback(ended)
    return following


class Work(dist._Work):  # type: ignore[misc]
    """A collective of the switch. Its wait() raises the collective's error, which that of PyTorch's Work of a future does not.
    C++ finds these functions in the Python object, so its process group keeps the object."""

    def __init__(self, job: Job, result: Callable[[], Any], kept: Deque[Any]):
        super().__init__()
        self._job, self._kept = job, kept
        kept.append(self)
        self._future = _future(job, result, self)

    def wait(self, timeout: datetime.timedelta = NO_TIMEOUT) -> bool:
        try:
            self._job.wait(timeout.total_seconds() * 1000 if timeout > NO_TIMEOUT else None)
        except OSError as e:
            raise RuntimeError(str(e)) from e
        self._future.wait()  # for the copies of results
        with contextlib.suppress(ValueError):
            self._kept.remove(self)
        return True

    def get_future(self) -> "Future[Any]":
        return self._future

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def is_success(self) -> bool:
        return self.is_completed() and self._job.error is None

    def result(self) -> Any:
        return self._future.wait()

    def synchronize(self) -> None:
        self.wait()


def reduce_in_place(switch: Lanes, tensor: torch.Tensor, op: Op, result: Callable[[], Any]) -> "Future[Any]":
    """Starts an AllReduce of a tensor, which is contiguous."""
    _check_device([tensor])
    return _future(_start(switch, Collective.ALLREDUCE, tensor, tensor, tensor.numel(), op), result)


def _check_device(tensors: Tensors) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise RuntimeError(f"inccl: a tensor is on {tensor.device}, and the backend reads tensors of the CPU only")


# ---- how ranks meet ----

def _agree(store: Any, key: str, rank: int, size: int, mine: str) -> Optional[str]:
    """Tells all ranks whether this one has a reason not to use the switch ("": none). Returns the first reason, by rank, which is
    the same on all ranks. It is a reason, too, that a rank has other settings than rank 0. A rank without a reason gives its
    settings, so that ranks of any versions find the difference. One that only gives "-" has an older inccl.torch."""
    store.set(f"{key}/{rank}", mine or "-" + _settings())
    first = ""
    for other in range(size):
        value = store.get(f"{key}/{other}").decode(errors="replace")
        if not value.startswith("-"):
            return f"rank {other}: {value}"
        first = first or value
        if value != first:
            return f"rank {other}: it has {value[1:] or OLDER}, and rank 0 has {first[1:] or OLDER}"
    return None


def _here(reason: str) -> str:
    return f"({socket.gethostname()}) {reason}"


def _choice() -> str:
    return os.environ.get("INCCL_TORCH_CHOICE", "measure")


def _settings() -> str:
    """What must be equal on all ranks."""
    return f"libinccl {version()}, INCCL_TORCH_CHOICE={_choice()}"


def _hindrance() -> str:
    """Why this rank cannot use the switch, as far as it knows that by itself before it asks the controller, or ""."""
    if not os.environ.get("INCCL_CONTROLLER"):
        return _here("INCCL_CONTROLLER is not set")
    if _choice() not in CHOICES:
        return _here(f"INCCL_TORCH_CHOICE: '{_choice()[:40]}' is not {', '.join(CHOICES)}")
    return ""


class Met(NamedTuple):
    """What the ranks of a store have in common: the switch, or the reason why there is none."""
    group: Optional[Group]
    switch: Optional[Lanes]
    reason: Optional[str]


def meet(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Met:
    """Makes a group of the ranks of a store, and its lanes. All ranks return the same, because they have agreed on it."""
    if rank == 0:
        store.set("inccl/job", f"{os.environ.get('INCCL_JOB', 'torch')[:40]}-{secrets.token_hex(8)}")
    reason = _agree(store, "inccl/ready", rank, size, _hindrance())
    group: Optional[Group] = None
    comms: List[Communicator] = []
    fewer: Optional[str] = None
    if not reason:
        mine = ""
        try:
            group = Group(job=store.get("inccl/job").decode(), rank=rank, world_size=size, create_timeout_ms=CREATE_TIMEOUT_MS)
            while len(comms) < LANES:
                comms.append(group.communicator(create_timeout_ms=CREATE_TIMEOUT_MS))
        except Error as e:
            mine = _here(e.strerror)
        reason = _agree(store, "inccl/made", rank, size, "" if comms else mine)
        fewer = _agree(store, "inccl/lanes", rank, size, mine)
    switch: Optional[Lanes] = None
    if not reason:
        try:
            if fewer:
                _leave_one(comms)
            gloos = _gloos(store, rank, size, timeout, comms[0].info().device, [f"gloo-{n}" for n in range(len(comms))])
            switch = _lanes(comms, gloos, rank, timeout)
        except Error as e:  # which is one on all ranks
            reason = _here(e.strerror)
    if not reason and fewer and rank == 0:
        say(f"one collective at a time is on the switch, and not {LANES}, because of {fewer}")
    if reason and group:
        with contextlib.suppress(Error):  # of a communicator that has failed meanwhile
            group.close()
    return Met(None if reason else group, switch, reason)


def _leave_one(comms: List[Communicator]) -> None:
    """Closes all communicators but the first, because a rank has no further one."""
    while len(comms) > 1:
        with contextlib.suppress(Error):  # it may have failed, as that of the other rank has
            comms.pop().close()


def _lanes(comms: List[Communicator], gloos: List[Any], rank: int, timeout: datetime.timedelta) -> Lanes:
    def lost(by: int, reason: str) -> None:
        if rank == 0:
            say(f"the switch is lost, and gloo goes on: rank {by}: {reason}")

    return Lanes(comms, [Gloo(gloo) for gloo in gloos], lost, min(int(timeout.total_seconds() * 1000), MAX_TIMEOUT_MS), None,
                 CHOICES[_choice()])


def _gloos(store: Any, rank: int, size: int, timeout: datetime.timedelta, device: str, names: List[str]) -> List[Any]:
    """Process groups of gloo, at this rank's address on the fabric. Without one gloo chooses an address by itself."""
    address = os.environ.get("INCCL_ADDR") or (re.match(r"[\d.]+(?=:)", device) or [""])[0]
    stores = [dist.PrefixStore(name, store) for name in names]
    if not address or os.environ.get("GLOO_SOCKET_IFNAME"):
        return [dist.ProcessGroupGloo(prefixed, rank, size, timeout) for prefixed in stores]
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
    options._timeout = timeout
    return [dist.ProcessGroupGloo(prefixed, rank, size, options) for prefixed in stores]


def _tensor_at(address: int, count: int, kind: torch.dtype) -> torch.Tensor:
    room = (ctypes.c_char * (count * torch.empty(0, dtype=kind).element_size())).from_address(address)
    return torch.frombuffer(room, dtype=kind)


class Gloo(Framework):
    """The collectives of gloo, for one lane. It has a process group of its own, because the order of the lanes' calls differs
    from rank to rank."""

    def __init__(self, gloo: Any):
        self.gloo = gloo

    def gather(self, mine: bytes) -> bytes:
        found = [torch.empty(len(mine), dtype=torch.uint8) for _ in range(self.gloo.size())]
        self.gloo.allgather([found], [torch.tensor(list(mine), dtype=torch.uint8)]).wait()
        return b"".join(bytes(part.tolist()) for part in found)

    def repeat(self, call: Any) -> None:
        count, size, rank = call.count, self.gloo.size(), self.gloo.rank()
        if call.collective == Collective.BARRIER:
            self.gloo.allreduce([torch.zeros(1)]).wait()
            return
        kind = next(theirs for theirs, ours in DTYPES.items() if ours == call.dtype)
        nbytes = count * torch.empty(0, dtype=kind).element_size()
        if call.collective == Collective.ALL_GATHER:
            mine = _tensor_at(call.send, nbytes, torch.uint8).clone()
            found = _tensor_at(call.recv, nbytes * size, torch.uint8)
            self.gloo.allgather([list(found.reshape(size, nbytes).unbind())], [mine]).wait()
        elif call.collective == Collective.BROADCAST:
            whole = _tensor_at(call.send if call.root == rank else call.recv, nbytes, torch.uint8)
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = call.root, 0
            self.gloo.broadcast([whole], options).wait()
            if call.root == rank and call.recv and call.recv != call.send:
                _tensor_at(call.recv, nbytes, torch.uint8).copy_(whole)
        else:
            self._reduce(call, kind, count * (size if call.collective == Collective.REDUCE_SCATTER else 1))

    def _reduce(self, call: Any, kind: torch.dtype, count: int) -> None:
        """A Reduce and a ReduceScatter are AllReduces of which a rank drops what is not its own."""
        rank, size = self.gloo.rank(), self.gloo.size()
        whole = _tensor_at(call.send, count, kind).clone().to(GLOO_KINDS.get(kind, kind))
        options = dist.AllreduceOptions()
        options.reduceOp = GLOO_OPS[Op(call.op)]
        self.gloo.allreduce([whole], options).wait()
        if call.op == Op.AVG:
            # A sum of integers wraps in its own type before the division, as the library's does. int64, because int8 may not have size.
            whole = whole / size if kind.is_floating_point else torch.div(whole.to(kind).long(), size, rounding_mode="trunc")
        if call.collective == Collective.REDUCE_SCATTER:
            whole = whole[rank * call.count:(rank + 1) * call.count]
        if call.collective != Collective.REDUCE or call.root == rank:
            _tensor_at(call.recv, whole.numel(), kind).copy_(whole)


# ---- the backend ----

class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The process group of the backend "inccl". calls counts the calls by their way: "switch" for those that could go through the
    switch, and "gloo" for those that only gloo can do. figures says which path the former took."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta):
        super().__init__(rank, size)
        self._mine, self._size, self._name = rank, size, ""
        self.calls: Dict[Tuple[str, str], int] = {}
        self._reported: set[str] = set()
        self._kept: Deque[Work] = collections.deque(maxlen=KEPT_WORKS)
        self.group, self.switch, self.reason = meet(store, rank, size, timeout)
        if self.reason and os.environ.get("INCCL_TORCH_REQUIRE") == "1":
            raise RuntimeError(f"inccl: not without the switch (INCCL_TORCH_REQUIRE): {self.reason}")
        self._native = self.switch is not None and self.switch.info.floats == "native"
        # after an error of INCCL_TORCH_REQUIRE, because gloo's ranks wait for each other
        self.gloo, = _gloos(store, rank, size, timeout, self.switch.info.device if self.switch else "", ["gloo"])
        if rank == 0:
            say(f"gloo runs alone: {self.reason}" if self.switch is None else
                f"{self.switch.summary}, {SCOPES[CHOICES[_choice()]]}")

    @property
    def figures(self) -> Dict[Tuple[str, str], Tuple[int, int, float]]:
        """Calls, bytes and seconds by call and path, such as {("allreduce", "switch"): (4, 4096, 0.01)}."""
        found = self.switch.figures if self.switch else {}
        return {(collective.label, "switch" if by_switch else "gloo"): sums for (collective, by_switch), sums in found.items()}

    def getBackendName(self) -> str:
        return "inccl"

    # PyTorch 2 gives each process group a name, and asks for it at the end. Its own class has one only if it has backends.

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    group_name = property(getGroupName)

    def _count(self, call: str, way: str) -> None:
        self.calls[call, way] = self.calls.get((call, way), 0) + 1

    def _by_gloo(self, call: str, why: str, *args: Any) -> Any:
        """Gives a call to gloo. The first of its kind is reported, by the rank that calls if only two ranks do."""
        self._count(call, "gloo")
        if self.switch is not None and call not in self._reported and (self._mine == 0 or call in ("send", "recv", "recv_anysource")):
            say(f"{call} goes through gloo, because {why}")
        self._reported.add(call)
        return getattr(self.gloo, call)(*args)

    def _cannot(self, tensors: Tensors, op: Any = None) -> Tuple[str, Op]:
        """Why the switch cannot do a call, or "", and its operator. All ranks find the same, as they have the same types."""
        kind = tensors[0].dtype
        offered = OPS + (INTEGER_OPS if not kind.is_floating_point else [])
        if not kind.is_floating_point or self._native:
            offered = offered + [(dist.ReduceOp.PRODUCT, Op.PROD)]
        found = [ours for theirs, ours in offered if op is not None and op == theirs]
        if self.switch is None:
            return self.reason or "there is no switch", Op.SUM
        _check_device(tensors)
        if any(t.layout != torch.strided for t in tensors):
            return "the switch takes no sparse tensors", Op.SUM
        if kind not in DTYPES or any(t.dtype != kind for t in tensors):
            return f"the switch has no {str(kind).replace('torch.', '')}", Op.SUM
        if op is not None and not found:
            return f"the switch does not compute {op} of {str(kind).replace('torch.', '')}", Op.SUM
        return "", found[0] if found else Op.SUM

    def _by_switch(self, call: str, result: Callable[[], Any], send: Optional[torch.Tensor] = None,
                   recv: Optional[torch.Tensor] = None, count: int = 0, op: Op = Op.SUM, root: int = 0) -> Any:
        """Starts a collective of libinccl, and returns a Work that has result() when it has ended."""
        assert self.switch is not None
        self._count(call, "switch")
        return Work(_start(self.switch, COLLECTIVES[call], send, recv, count, op, root), result, self._kept)

    def _check_sizes(self, blocks: Tensors, count: int) -> None:
        """Checks that there is a block of so many elements for each rank."""
        found = [t.numel() for t in blocks]
        if found != [count] * self._size:
            raise ValueError(f"inccl: tensors of {found} elements, and not {self._size} of {count}")

    def _check_size(self, whole: torch.Tensor, block: torch.Tensor) -> None:
        if whole.numel() != block.numel() * self._size:
            raise ValueError(f"inccl: a tensor of {whole.numel()} elements, and not of {self._size} x {block.numel()}")

    # Each function has the arguments that torch.distributed and the C++ of DistributedDataParallel pass.

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        tensors = tensors if isinstance(tensors, list) else [tensors]
        opts = opts or dist.AllreduceOptions()
        why, op = self._cannot(tensors, opts.reduceOp)
        if why or len(tensors) > 1:
            return self._by_gloo("allreduce", why or "it has several tensors", tensors, opts)
        tensor, = tensors
        whole = tensor.contiguous()
        return self._by_switch("allreduce", lambda: self._back(tensors, [whole]), whole, whole, whole.numel(), op)

    @staticmethod
    def _back(tensors: Tensors, results: Tensors) -> Tensors:
        """Copies results to tensors, unless they are their memory."""
        for tensor, result in zip(tensors, results):
            if tensor.data_ptr() != result.data_ptr():
                tensor.copy_(result.view_as(tensor))
        return tensors

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        why, op = self._cannot(tensors, opts.reduceOp)
        if why or len(tensors) > 1:
            return self._by_gloo("reduce", why or "it has several tensors", tensors, opts)
        whole, root = tensors[0].contiguous(), opts.rootRank
        return self._by_switch("reduce", lambda: self._back(tensors, [whole] if root == self._mine else []),
                               whole, whole if root == self._mine else None, whole.numel(), op, root)

    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        why, _ = self._cannot(tensors)
        if why or len(tensors) > 1:
            return self._by_gloo("broadcast", why or "it has several tensors", tensors, opts)
        whole, root = tensors[0].contiguous(), opts.rootRank
        return self._by_switch("broadcast", lambda: self._back(tensors, [whole]),
                               whole if root == self._mine else None, whole, whole.numel(), Op.SUM, root)

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        why, _ = self._cannot(inputs + outputs[0])
        if why or len(inputs) > 1:
            return self._by_gloo("allgather", why or "it has several tensors", outputs, inputs, *([opts] if opts else []))
        self._check_sizes(outputs[0], inputs[0].numel())
        mine = inputs[0].contiguous()
        room = torch.empty((self._size, mine.numel()), dtype=mine.dtype)

        def result() -> List[Tensors]:
            self._back(outputs[0], list(room))
            return outputs

        return self._by_switch("allgather", result, mine, room, mine.numel())

    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Any:
        why, _ = self._cannot([given, output])
        if why:
            return self._by_gloo("_allgather_base", why, output, given)
        self._check_size(output, given)
        mine, room = given.contiguous(), output.contiguous()
        return self._by_switch("allgather", lambda: self._back([output], [room]), mine, room, mine.numel())

    all_gather_single = _allgather_base

    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Any:
        why, op = self._cannot(outputs + inputs[0], opts.reduceOp)
        if why or len(outputs) > 1:
            return self._by_gloo("reduce_scatter", why or "it has several tensors", outputs, inputs, opts)
        self._check_sizes(inputs[0], outputs[0].numel())
        parts = torch.cat([t.reshape(-1) for t in inputs[0]])
        room = outputs[0].contiguous()
        return self._by_switch("reduce_scatter", lambda: self._back(outputs, [room]), parts, room, room.numel(), op)

    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any) -> Any:
        why, op = self._cannot([output, given], opts.reduceOp)
        if why:
            return self._by_gloo("_reduce_scatter_base", why, output, given, opts)
        self._check_size(given, output)
        parts, room = given.contiguous(), output.contiguous()
        return self._by_switch("reduce_scatter", lambda: self._back([output], [room]), parts, room, room.numel(), op)

    reduce_scatter_single = _reduce_scatter_base

    def barrier(self, opts: Any = None) -> Any:
        if self.switch is None:
            return self._by_gloo("barrier", self.reason or "", *([opts] if opts else []))
        return self._by_switch("barrier", list)

    def shutdown(self) -> None:
        """Leaves the inccl.Group."""
        if self.group is not None:
            self.group.close()

    abort = shutdown


def _through_gloo(call: str) -> Callable[..., Any]:
    def function(self: ProcessGroup, *args: Any, **more: Any) -> Any:
        if more:
            return getattr(self.gloo, call)(*args, **more)
        return self._by_gloo(call, "libinccl has no such call", *args)

    function.__name__ = call
    return function


for _call in ("send", "recv", "recv_anysource", "gather", "scatter", "alltoall", "alltoall_base", "allreduce_coalesced",
              "allgather_coalesced", "monitored_barrier"):
    setattr(ProcessGroup, _call, _through_gloo(_call))


def _register() -> None:
    try:  # PyTorch 2 keeps a list of the devices of each backend
        dist.Backend.register_backend("inccl", ProcessGroup, devices=["cpu"])
    except TypeError:
        dist.Backend.register_backend("inccl", ProcessGroup)


if __name__ != "__main__":
    _register()


# ---- the hook of DistributedDataParallel ----

class HookState:
    """What allreduce_hook() needs: model.register_comm_hook(HookState(), allreduce_hook). The gradients take the lanes' path
    (INCCL_TORCH_CHOICE), whatever backend the process group has. wire: torch.float16 or torch.bfloat16, the type in which gradients
    are summed. The ranks of a process group must make its states in the same order, because they meet in the store by a number."""

    def __init__(self, group: Any = None, wire: Optional[torch.dtype] = None):
        if wire not in (None, torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(f"wire: {wire}, and not float32, float16 or bfloat16")
        self.wire = wire
        self.buckets = 0
        process_group = group if group is not None else dist.distributed_c10d._get_default_group()
        self.size = dist.get_world_size(process_group)
        met: Any = process_group if isinstance(process_group, ProcessGroup) else self._meet(process_group)
        self.group, self.switch = met.group, met.switch
        if self.switch is None:
            raise RuntimeError(f"inccl: the hook has no switch: {met.reason}")
        if dist.get_rank(process_group) == 0:
            say(f"{self.switch.summary}, for gradients in {str(wire or torch.float32).replace('torch.', '')}")

    @staticmethod
    def _meet(process_group: Any) -> Met:
        size = dist.get_world_size(process_group)
        ranks = ",".join(str(dist.distributed_c10d.get_global_rank(process_group, k)) for k in range(size))
        name = hashlib.sha256(ranks.encode()).hexdigest()[:16]
        number = HookState._made[name] = HookState._made.get(name, 0) + 1
        store = dist.PrefixStore(f"inccl-hook-{name}-{number}", dist.distributed_c10d._get_default_store())
        return meet(store, dist.get_rank(process_group), size, HOOK_TIMEOUT)

    _made: Dict[str, int] = {}  # states, by a hash of the global ranks that made them


# DistributedDataParallel refuses a hook whose argument has another annotation than its own, so this one has none.
def allreduce_hook(state, bucket):  # type: ignore[no-untyped-def]
    """Divides the gradients of a bucket by the number of ranks, and sums them over all ranks."""
    gradients = bucket.buffer()
    state.buckets += 1
    if state.wire in (None, gradients.dtype):
        gradients.div_(state.size)
        return reduce_in_place(state.switch, gradients, Op.SUM, lambda: gradients)
    narrow = (gradients / state.size).to(state.wire)
    return reduce_in_place(state.switch, narrow, Op.SUM, lambda: gradients.copy_(narrow))


# ---- programs that do not import this module ----

def _run_program(arguments: List[str]) -> None:
    """Runs PROGRAM ARGUMENTS, or -m MODULE ARGUMENTS, as python3 does."""
    if not arguments or arguments[0] == "-m" and len(arguments) == 1 or arguments[0] in ("-h", "--help"):
        print("usage: python3 -m inccl.torch {PROGRAM | -m MODULE} [ARGUMENT]...", file=sys.stderr)
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    import inccl.torch  # this file once more, by the name that programs import
    inccl.torch._run_program(sys.argv[1:])
