# SPDX-License-Identifier: BSD-2-Clause
"""The functions, structs and enums of inccl.h and inccl_fallback.h as ctypes declares them. selftests/python/test_prototypes compares each with
the headers. The rest of the package calls the library through `lib`, and ctypes releases the GIL during a call."""
from __future__ import annotations

import ctypes
import enum
import os
import pathlib
import time
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, Tuple

SONAME = "libinccl.so.0"
MIN_STACK_BYTES = 64 << 10
UNDEFINED = -1


class Transport(enum.IntEnum):
    AUTO = 0
    SOFT = 1
    VERBS = 2


class Order(enum.IntEnum):
    """The byte order of elements on the wire (enum inccl_byte_order)."""
    LITTLE = 0
    NETWORK = 1


class Dtype(enum.IntEnum):
    """The type of elements. inccl.h describes each."""
    INT32 = 0
    UINT32 = 1
    INT64 = 2
    UINT64 = 3
    INT16 = 4
    UINT16 = 5
    INT8 = 6
    UINT8 = 7
    FLOAT32 = 8
    FLOAT16 = 9
    BFLOAT16 = 10
    FLOAT64 = 11
    INT32_INDEX = 12
    FLOAT32_INDEX = 13
    INT64_INDEX = 14
    FLOAT64_INDEX = 15

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return int(lib.inccl_dtype_size(self))

    @property
    def label(self) -> str:
        """The library's name of the type, such as "bfloat16"."""
        return text(lib.inccl_dtype_name(self)) or "?"

    @classmethod
    def parse(cls, name: str) -> Dtype:
        return cls(_parsed(lib.inccl_dtype_parse, name))


class Op(enum.IntEnum):
    SUM = 0
    MIN = 1
    MAX = 2
    PROD = 3
    AND = 4
    OR = 5
    XOR = 6
    AVG = 7
    LAND = 8
    LOR = 9
    LXOR = 10
    MINLOC = 11
    MAXLOC = 12

    @property
    def label(self) -> str:
        """The library's name of the operator, such as "sum"."""
        return text(lib.inccl_op_name(self)) or "?"

    @classmethod
    def parse(cls, name: str) -> Op:
        return cls(_parsed(lib.inccl_op_parse, name))


class Mode(enum.IntEnum):
    DEFAULT = 0
    SENDRECV = 1
    WRITE = 2


class Collective(enum.IntEnum):
    ALLREDUCE = 0
    REDUCE = 1
    BROADCAST = 2
    BARRIER = 3
    REDUCE_SCATTER = 4
    ALL_GATHER = 5

    @property
    def label(self) -> str:
        """The library's name of the collective, such as "allgather"."""
        return text(lib.inccl_collective_name(self)) or "?"

    @classmethod
    def parse(cls, name: str) -> Collective:
        return cls(_parsed(lib.inccl_collective_parse, name))


# Each enum of the header: its Python class, and what its values begin with.
ENUMS: Dict[str, Tuple[Any, str]] = {
    "inccl_transport_kind": (Transport, "INCCL_TRANSPORT_"),
    "inccl_byte_order": (Order, "INCCL_ORDER_"),
    "inccl_dtype": (Dtype, "INCCL_"),
    "inccl_op": (Op, "INCCL_"),
    "inccl_mode": (Mode, "INCCL_MODE_"),
    "inccl_collective": (Collective, "INCCL_"),
}


# The pointers have types of their own, so that ctypes refuses one in the place of another.
class GroupPointer(c_void_p):
    pass


class CommunicatorPointer(c_void_p):
    pass


class RequestPointer(c_void_p):
    pass


class FallbackPointer(c_void_p):
    pass


LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class _Options(ctypes.Structure):
    """A struct of options, which refuses numbers that ctypes would shorten to the bits of their member without an error."""

    def __setattr__(self, name: str, value: Any) -> None:
        kind = dict(self._fields_).get(name)
        if isinstance(value, int) and kind in (c_int, c_uint, c_size_t) and kind(value).value != value:
            raise ValueError(f"{name}: {value} is no number of type {kind.__name__[2:]}")
        super().__setattr__(name, value)


class GroupOpts(_Options):
    _fields_ = [("sz", c_size_t), ("job", c_char_p), ("controller", c_char_p), ("rank", c_int), ("world_size", c_int),
                ("address", c_char_p), ("interface", c_char_p), ("connect_timeout_ms", c_uint), ("create_timeout_ms", c_uint),
                ("error", c_void_p), ("error_size", c_size_t), ("log", LogFunction), ("log_ctx", c_void_p), ("join", c_int),
                ("no_node", c_int)]


class CommunicatorOpts(_Options):
    _fields_ = [("sz", c_size_t), ("transport", c_int), ("payload", c_uint), ("message_packets", c_uint), ("window", c_uint),
                ("timeout_ms", c_uint), ("create_timeout_ms", c_uint), ("error", c_void_p), ("error_size", c_size_t),
                ("verbs", c_char_p), ("byte_order", c_int), ("unused", c_uint), ("channels", c_uint),
                ("use", c_char_p), ("silence_ms", c_uint), ("no_wait", c_uint)]


class CollectiveOpts(_Options):
    _fields_ = [("sz", c_size_t), ("mode", c_int), ("timeout_ms", c_uint), ("error", c_void_p), ("error_size", c_size_t),
                ("float_block", c_uint), ("float_exponent", POINTER(c_int))]


STATISTICS = ("packets_sent", "packets_resent", "results", "duplicates", "reordered", "bad_packets", "acks_sent",
              "acks_received", "naks_sent", "naks_received", "rnrs_received", "timeouts", "send_calls", "recv_calls",
              "congested")


class CommunicatorInfo(ctypes.Structure):
    _fields_ = [("sz", c_size_t), ("rank", c_int), ("world_size", c_int), ("payload", c_uint), ("message_packets", c_uint),
                ("window", c_uint), ("slots", c_uint), ("number", c_uint), ("transport", c_char_p), ("device", c_char_p),
                ("peer", c_char_p), *((name, c_uint64) for name in STATISTICS), ("float_bits", c_uint), ("tree", c_char_p),
                ("mode", c_char_p), ("floats", c_char_p), ("channels", c_uint), ("choice", c_char_p)]


class FallbackCall(_Options):
    _fields_ = [("sz", c_size_t), ("collective", c_int), ("send", c_void_p), ("recv", c_void_p), ("count", c_size_t),
                ("dtype", c_int), ("op", c_int), ("root", c_int)]


GatherFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)
RepeatFunction = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(FallbackCall))
ProgressFunction = ctypes.CFUNCTYPE(None, c_void_p)
LostFunction = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class FallbackOpts(_Options):
    _fields_ = [("sz", c_size_t), ("context", c_void_p), ("gather", GatherFunction), ("repeat", RepeatFunction),
                ("progress", ProgressFunction), ("lost", LostFunction), ("keep_bytes", c_size_t), ("address", c_char_p),
                ("error", c_void_p), ("error_size", c_size_t), ("unreachable_ms", c_uint), ("timeout_ms", c_uint),
                ("leave_early", c_int)]


STRUCTS = {"inccl_group_opts": GroupOpts, "inccl_communicator_opts": CommunicatorOpts,
           "inccl_collective_opts": CollectiveOpts, "inccl_communicator_info": CommunicatorInfo,
           "inccl_fallback_opts": FallbackOpts, "inccl_fallback_call": FallbackCall}

_VECTOR = [CommunicatorPointer, c_void_p, c_void_p, c_size_t, c_int]  # communicator, send, recv, count, type
_OPTS = POINTER(CollectiveOpts)
_START = [_OPTS, POINTER(RequestPointer)]
_INT32S = [CommunicatorPointer, POINTER(c_int32), c_size_t, POINTER(c_int32)]

# {name: (type of the result, types of the arguments)}
PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "inccl_group_create": (c_int, [POINTER(GroupOpts), POINTER(GroupPointer)]),
    "inccl_group_destroy": (c_int, [GroupPointer]),
    "inccl_group_shrink": (c_int, [GroupPointer, POINTER(GroupOpts), POINTER(GroupPointer)]),
    "inccl_group_grow": (c_int, [GroupPointer, c_int, POINTER(GroupOpts), POINTER(GroupPointer)]),
    "inccl_group_rank": (c_int, [GroupPointer]),
    "inccl_group_size": (c_int, [GroupPointer]),
    "inccl_group_error": (c_char_p, [GroupPointer]),
    "inccl_communicator_create": (c_int, [GroupPointer, POINTER(CommunicatorOpts), POINTER(CommunicatorPointer)]),
    "inccl_communicator_destroy": (c_int, [CommunicatorPointer]),
    "inccl_communicator_split": (c_int, [CommunicatorPointer, c_int, c_int, POINTER(CommunicatorOpts),
                                         POINTER(CommunicatorPointer)]),
    "inccl_communicator_duplicate": (c_int, [CommunicatorPointer, POINTER(CommunicatorOpts), POINTER(CommunicatorPointer)]),
    "inccl_communicator_info": (c_int, [CommunicatorPointer, POINTER(CommunicatorInfo)]),
    "inccl_communicator_error": (c_char_p, [CommunicatorPointer]),
    "inccl_communicator_failed_rank": (c_int, [CommunicatorPointer]),
    "inccl_allreduce": (c_int, [*_VECTOR, c_int, _OPTS]),
    "inccl_allreduce_start": (c_int, [*_VECTOR, c_int, *_START]),
    "inccl_allreduce_sendrecv": (c_int, _INT32S),
    "inccl_allreduce_write": (c_int, _INT32S),
    "inccl_reduce": (c_int, [*_VECTOR, c_int, c_int, _OPTS]),
    "inccl_reduce_start": (c_int, [*_VECTOR, c_int, c_int, *_START]),
    "inccl_broadcast": (c_int, [*_VECTOR, c_int, _OPTS]),
    "inccl_broadcast_start": (c_int, [*_VECTOR, c_int, *_START]),
    "inccl_reduce_scatter": (c_int, [*_VECTOR, c_int, _OPTS]),
    "inccl_reduce_scatter_start": (c_int, [*_VECTOR, c_int, *_START]),
    "inccl_all_gather": (c_int, [*_VECTOR, _OPTS]),
    "inccl_all_gather_start": (c_int, [*_VECTOR, *_START]),
    "inccl_barrier": (c_int, [CommunicatorPointer, _OPTS]),
    "inccl_barrier_start": (c_int, [CommunicatorPointer, *_START]),
    "inccl_test": (c_int, [RequestPointer]),
    "inccl_wait": (c_int, [RequestPointer, c_int]),
    "inccl_dtype_size": (c_size_t, [c_int]),
    "inccl_collective_name": (c_char_p, [c_int]),
    "inccl_op_name": (c_char_p, [c_int]),
    "inccl_dtype_name": (c_char_p, [c_int]),
    "inccl_collective_parse": (c_int, [c_char_p, POINTER(c_int)]),
    "inccl_op_parse": (c_int, [c_char_p, POINTER(c_int)]),
    "inccl_dtype_parse": (c_int, [c_char_p, POINTER(c_int)]),
    "inccl_strerror": (c_char_p, [c_int]),
    "inccl_version": (c_char_p, []),
    "inccl_fallback_create": (c_int, [CommunicatorPointer, POINTER(FallbackOpts), POINTER(FallbackPointer)]),
    "inccl_fallback_destroy": (c_int, [FallbackPointer]),
    "inccl_fallback_run": (c_int, [FallbackPointer, POINTER(FallbackCall)]),
    "inccl_fallback_reason": (c_char_p, [FallbackPointer]),
}


def text(value: Any) -> str | None:
    """A text of the library, as a copy that lives on without it."""
    return None if value is None else value.decode(errors="replace")


def _parsed(function: Any, name: str) -> int:
    value = c_int()
    if function(name.encode(), ctypes.byref(value)):
        raise ValueError(f"libinccl knows no '{name}'")
    return value.value


def _load() -> Any:
    """Loads the library: the file that INCCL_LIBRARY names, or the one that was installed or built with this package, or
    the one that the loader finds."""
    top = pathlib.Path(__file__).resolve().parents[3]  # PREFIX/lib of an installed package, or the top of a source tree
    given = os.environ.get("INCCL_LIBRARY")
    beside = [str(path) for path in (top / SONAME, top / "build" / SONAME) if path.exists()]
    path = given or (beside + [SONAME])[0]
    try:
        loaded = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"inccl needs {SONAME} (package libinccl0 or libinccl), or INCCL_LIBRARY with its path: {e}") from None
    for name, (result, arguments) in PROTOTYPES.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise ImportError(f"{path} has no {name}: it is older than this package") from None
        function.restype, function.argtypes = result, arguments
    return loaded


def stopwatch() -> Callable[[], float]:
    """Returns a function that returns the seconds since this call."""
    since = time.monotonic()
    return lambda: time.monotonic() - since


lib = _load()
