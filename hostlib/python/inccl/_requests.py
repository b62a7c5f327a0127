# SPDX-License-Identifier: BSD-2-Clause
"""What groups, communicators and requests have in common: errors, the memory of callers, calls that may be interrupted, objects
that several threads use, and collectives under way."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import errno
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, Callable, Deque, Generator, Iterator, List, Optional, Set, TypeVar

from ._library import Dtype, RequestPointer, lib, stopwatch, text

if TYPE_CHECKING:
    from . import Communicator

# The library's waits last so long. Between two of them a signal, such as that of Ctrl-C, and close() are noticed.
SLICE_MS = 50
# The thread of a communicator that collects requests looks at each of them so often.
LOOK_MS = 5
# close() waits so long for calls of other threads. A creation that was interrupted may last longer, and ends the object later.
CLOSE_S = 1.0
_ERROR_BYTES = 512
_Result = TypeVar("_Result")


def strerror(code: int) -> str:
    """The library's explanation of an errno."""
    return text(lib.inccl_strerror(code)) or ""


class Error(OSError):
    """A call of the library has failed. errno is positive, strerror is the explanation, and failed_rank is the rank that
    caused the failure of a communicator, or None."""

    def __init__(self, code: int, explanation: str, failed_rank: Optional[int] = None):
        super().__init__(code, explanation)
        self.failed_rank = failed_rank


class Explanation:
    """The members error and error_size of an options struct, and the exception made of them."""

    def __init__(self, opts: Any):
        self.room = ctypes.create_string_buffer(_ERROR_BYTES)
        opts.sz = ctypes.sizeof(opts)
        opts.error, opts.error_size = ctypes.addressof(self.room), _ERROR_BYTES

    def error(self, code: int) -> Error:
        return Error(-code, text(self.room.value) or strerror(code))


class _PyBuffer(ctypes.Structure):
    """Py_buffer of CPython."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_PyBuffer)], None

# {(class of a format's letter, bytes of an element): its type}
_DTYPES = {("i", 4): Dtype.INT32, ("u", 4): Dtype.UINT32, ("i", 8): Dtype.INT64, ("u", 8): Dtype.UINT64,
           ("i", 2): Dtype.INT16, ("u", 2): Dtype.UINT16, ("i", 1): Dtype.INT8, ("u", 1): Dtype.UINT8,
           ("f", 4): Dtype.FLOAT32, ("f", 2): Dtype.FLOAT16, ("f", 8): Dtype.FLOAT64}
_CLASSES = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN?", "u"), **dict.fromkeys("efd", "f")}
# Elements of 2 bytes may hold values of these types, because array.array has neither, and numpy has no bfloat16.
_HALVES = (Dtype.FLOAT16, Dtype.BFLOAT16)
_NATIVE = "@=" + ("<" if sys.byteorder == "little" else ">!")


class Memory:
    """Memory of a caller, at an address. It stays where it is until release()."""

    logical = False  # whether its elements are True and False

    def __init__(self, name: str, address: int, nbytes: int, dtype: Dtype):
        self.name, self.address, self.nbytes, self.dtype = name, address, nbytes, dtype

    def release(self) -> None:
        pass


class _Buffer(Memory):
    """Memory of an object that has Python's buffer protocol. The object can neither be freed nor change its size until
    release()."""

    def __init__(self, name: str, thing: Any, dtype: Optional[Dtype], writable: bool):
        try:
            view = memoryview(thing)
        except TypeError:
            raise TypeError(f"{name}: a {type(thing).__name__} is no buffer, as an array of numpy, an array.array, a bytearray "
                            "and a memoryview are") from None
        if not view.c_contiguous:
            raise ValueError(f"{name}: its elements do not lie one behind the other (not C-contiguous)")
        if writable and view.readonly:
            raise ValueError(f"{name}: it is read-only")
        self._held, self._holds = _PyBuffer(), False
        super().__init__(name, 0, view.nbytes, self._dtype(name, view, dtype))
        self.logical = dtype is None and view.format == "?"
        _get_buffer(thing, self._held, 1 if writable else 0)
        self.address = self._held.buf or 0
        self._holds = True

    @staticmethod
    def _dtype(name: str, view: memoryview, dtype: Optional[Dtype]) -> Dtype:
        letters = view.format.lstrip(_NATIVE)
        found = _DTYPES.get((_CLASSES.get(letters, ""), view.itemsize))
        if dtype is None:
            if found is None:
                raise TypeError(f"{name}: elements of the format '{view.format}' have no type of the library; dtype= says one")
            return found
        # other types, such as bfloat16, lie in elements of their size that have no type of their own, or in bytes
        fits = found in (None, dtype) or view.itemsize == 1 or dtype in _HALVES and found in (Dtype.INT16, Dtype.UINT16)
        if not fits or view.itemsize not in (1, dtype.size) or view.nbytes % dtype.size or letters[:1] in "<>!":
            raise TypeError(f"{name}: {view.nbytes} bytes of the format '{view.format}' are no elements of {dtype.label}")
        return dtype

    def release(self) -> None:
        holds, self._holds = self._holds, False
        if holds:
            _release_buffer(self._held)

    def __del__(self) -> None:
        if getattr(self, "_holds", False):
            self.release()


def memory_of(name: str, thing: Any, dtype: Optional[Dtype], writable: bool) -> Memory:
    return thing if isinstance(thing, Memory) else _Buffer(name, thing, dtype, writable)


def interruptible(make: Callable[[], _Result], undo: Callable[[_Result], None]) -> _Result:
    """Runs a call that may wait for long. In the main thread, where Ctrl-C arrives, the call runs on another thread. If the
    wait for it is interrupted, its result is undone when it comes."""
    if threading.current_thread() is not threading.main_thread():
        return make()
    lock, ended = threading.Lock(), threading.Event()
    made: List[_Result] = []
    unwanted: List[_Result]
    failed: List[BaseException] = []
    given_up = False

    def run() -> None:
        try:
            result = make()
        except BaseException as e:
            failed.append(e)
        else:
            with lock:
                late = given_up
                if not late:
                    made.append(result)
            if late:
                undo(result)
        ended.set()

    threading.Thread(target=run, name="inccl-create", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        with lock:
            given_up = True
            unwanted, made = made, []
        for result in unwanted:
            undo(result)
        raise
    if failed:
        raise failed[0]
    return made[0]


def store_result(place: List[Any], function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a function of C, whose result is in place[0] even if Ctrl-C comes at the end of the call: Python raises
    KeyboardInterrupt between two instructions, and one instruction both calls the function and stores its result."""
    place[:] = map(function, *([argument] for argument in arguments))


class Closed(ValueError):
    """A call on an object that is closed."""


class Shared:
    """A group or a communicator. It counts the calls that are inside the library, because no object may be destroyed under
    one. If such a call outlives close(), its end destroys the object."""
    _destroy: Any

    def __init__(self, pointer: Any):
        self._pointer: Any = pointer
        self._inside: Set[object] = set()  # one for each call
        self._lock = threading.RLock()  # a lock of C, whose `with` Ctrl-C cannot leave without a release
        self._state = threading.Condition(self._lock)
        self._closing = self._late = False

    @contextlib.contextmanager
    def _entered(self) -> Iterator[Any]:
        call = object()
        try:
            with self._lock:
                if self._closing:
                    raise Closed(f"this {type(self).__name__} is closed")
                self._inside.add(call)
            yield self._pointer
        finally:
            self._inside.discard(call)
            with self._lock:
                self._state.notify_all()
            if self._late:
                self._end_late()

    @property
    def closed(self) -> bool:
        return self._closing

    def _end(self) -> int:
        """Destroys the object, if no other thread does. Returns 0 or a negative errno."""
        with self._lock:
            pointer, self._pointer = self._pointer, None
        return 0 if pointer is None else int(self._destroy(pointer))

    def _end_late(self) -> None:
        with self._lock:
            if not self._late or self._inside:
                return
        self._end()

    def _close(self) -> int:
        with self._lock:
            if self._closing:
                return 0
            self._closing = True
            try:  # calls of other threads notice that at the end of their slice
                self._state.wait_for(lambda: not self._inside, CLOSE_S)
            except BaseException:  # Ctrl-C ends the wait for them only
                self._late = True
                self._end_late()
                raise
            self._late = bool(self._inside)
        return 0 if self._late else self._end()

    def _after_fork(self) -> None:
        """Closes the object in a child of fork(), where the library refuses it, and other threads' locks have no owner."""
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        self._pointer, self._closing, self._late = None, True, False

    def close(self) -> None:
        raise NotImplementedError

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Error):  # the block's own exception counts
            self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closing", True):
            with contextlib.suppress(Error):
                self.close()


class Flight:
    """A collective under way: the library's request, and the memory that it reads and writes. The communicator keeps it until
    it has ended, so that the memory lives even if its Request is garbage."""

    def __init__(self, comm: Communicator, pointer: RequestPointer, memory: List[Memory]):
        self.comm, self.pointer, self.memory = comm, pointer, memory
        self.waiting = threading.Lock()  # held by the thread that is in inccl_wait()
        self.codes: List[int] = []  # what the last inccl_wait() returned. Unless it is -EAGAIN, the request is freed.
        self.done = False
        self.orphan = False
        self.error: Optional[Error] = None
        self.callbacks: List[Callable[[], None]] = []

    def collect(self, timeout_ms: int) -> bool:
        """Waits so long for the end, and returns whether it has come."""
        if self.done:
            self._call_back()
            return True
        held: List[bool] = []
        try:
            store_result(held, self.waiting.acquire, True, timeout_ms / 1000)
            if held[0] and not self.done:  # otherwise another thread waits for it, or has done so
                with self.comm._entered() as pointer:
                    if self.codes in ([], [-errno.EAGAIN]):
                        store_result(self.codes, *((lib.inccl_wait, self.pointer, timeout_ms) if timeout_ms else
                                                   (lib.inccl_test, self.pointer)))
                    code = self.codes[0]
                    error = self.comm._failure(pointer, code) if code not in (0, -errno.EAGAIN) else None
                if code != -errno.EAGAIN:
                    self.finish(error)
        except Closed:  # the communicator is being closed, and ends all flights
            pass
        finally:
            if held and held[0]:
                self.waiting.release()
        return self.done

    def finish(self, error: Optional[Error]) -> None:
        """Notes the end, and calls the callbacks. If Ctrl-C comes meanwhile, another call of this completes it."""
        with self.comm._lock:
            if not self.done:
                self.error = error
                for memory in self.memory:
                    memory.release()
                self.memory = []
                self.comm._flights.discard(self)
                self.done = True
                self.comm._state.notify_all()
        self._call_back()

    def _call_back(self) -> None:
        """Calls the callbacks that no thread has called yet. If one raises an exception, it is printed, and the others run."""
        while self.callbacks:
            with self.comm._lock:
                callbacks = self.callbacks[:1]
                del self.callbacks[:1]
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    traceback.print_exc()


class Collector(threading.Thread):
    """Collects the requests of a communicator that an event loop, or another caller that does not wait, wants to hear of."""

    def __init__(self) -> None:
        super().__init__(name="inccl-collector", daemon=True)
        self.flights: Deque[Flight] = collections.deque()
        self.changed = threading.Condition()
        self.over = False
        self.start()

    def add(self, flight: Flight) -> None:
        with self.changed:
            self.flights.append(flight)
            self.changed.notify()

    def stop(self) -> None:
        with self.changed:
            self.over = True
            self.changed.notify()

    def run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.flights or self.over)
                if self.over:
                    return
                flights = list(self.flights)
            flights[0].collect(LOOK_MS)
            ended = [flight for flight in flights if flight.collect(0)]
            with self.changed:
                for flight in ended:
                    self.flights.remove(flight)
            del flights, ended


class Request:
    """A collective that was started. wait() returns its result, `await request` does so in an event loop, and test() says
    whether it has ended. The buffers must not change before. A request that is dropped runs to its end."""

    def __init__(self, flight: Flight, result: Any):
        self._flight, self._result = flight, result

    def test(self) -> bool:
        """Whether the collective has ended. Raises Error if it has failed."""
        if self._flight.collect(0) and self._flight.error:
            raise self._flight.error
        return self._flight.done

    def wait(self, timeout_ms: Optional[float] = None) -> Any:
        """Waits for the end, or so long, and returns the buffer with the result. KeyboardInterrupt ends the wait, and the
        collective goes on."""
        flight = self._flight
        watch = stopwatch()
        while not flight.collect(SLICE_MS if timeout_ms is None else max(0, min(SLICE_MS, int(timeout_ms - watch() * 1000 + 1)))):
            if timeout_ms is not None and watch() * 1000 >= timeout_ms:
                raise TimeoutError(f"the collective has not ended within {timeout_ms:g} ms")
            if flight.comm.closed and not flight.done:
                with flight.comm._lock:
                    if not flight.comm._state.wait_for(lambda: flight.done, CLOSE_S):
                        raise gone()
        if flight.error:
            raise flight.error
        return self._result

    def add_done_callback(self, callback: Callable[[Request], None]) -> None:
        """Calls callback(request) when the collective has ended, on any thread."""
        flight = self._flight
        with flight.comm._lock:
            flight.callbacks.append(lambda: callback(self))
        if flight.done:
            flight._call_back()
        else:
            flight.comm._watch(flight)

    def __await__(self) -> Generator[Any, None, Any]:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def settle() -> None:
            if not ended.done():  # it may have been cancelled
                ended.set_result(None)

        def wake(_: Request) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(settle)

        self.add_done_callback(wake)
        yield from ended
        return self.wait()

    def __del__(self) -> None:
        self._flight.orphan = True


def gone() -> Error:
    return Error(errno.ECANCELED, "the communicator was closed before the collective had ended")
