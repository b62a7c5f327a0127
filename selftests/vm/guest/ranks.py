# SPDX-License-Identifier: BSD-2-Clause
"""Ranks of ha-nccl-perf, one per host of halab, each with the plugin on its own two devices. As a program
(`ranks.py`): many comms of one process, with both of their ends."""
import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import halab
from halab import RAILS, sent_packets
from vmlab import BUILD, Failure, command, expect, libtest, wait_for

DRIVER = os.path.join(BUILD, "ha-nccl-perf")
PLUGIN = os.path.join(BUILD, "libnccl-net-ha.so")
# Each end logs one line per failover.
FAILOVER = re.compile(r"failover: cause (?P<cause>[^,]+), epoch (?P<epoch>\d+), (?P<ms>\d+) ms, "
                      r"(?P<replayed>\d+) replayed, (?P<delivered>\d+) already delivered")
# An emulated machine is slow to answer, so a device with a shorter timeout would give up on a healthy wire. rxe
# retries for ever if the count is 7.
TIMEOUT, RETRIES = 15, 6
# The window of docs/nccl.md, and the timeout of the last attempt.
WINDOW_S = 4.096e-6 * 2 ** TIMEOUT * (RETRIES + 1)
SETTINGS = {"HA_NCCL_QP_TIMEOUT": str(TIMEOUT), "HA_NCCL_QP_RETRY_CNT": str(RETRIES),
            "HA_NCCL_RTO_MS": "4000", "HA_NCCL_HEARTBEAT_MS": "300", "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_DEBUG": "INFO"}
LIMIT_MS = 60000  # longer than the plugin may take to report an error
SENDER, RECEIVER = 0, 1  # the ranks of a pair
OUT, ERR = "out", "err"
next_port = 20000


class Ranks:
    """Ranks that run until end(). All are gone after the with block."""

    def __init__(self, mode, *args, ranks=2, env=None, check=True):
        global next_port
        next_port += 1
        self.directory = tempfile.TemporaryDirectory()
        self.processes = []
        self.before = [[sent_packets(host, rail) for rail in RAILS] for host in range(ranks)]
        options = ["--check"] if check else []
        for rank in range(ranks):
            line = [DRIVER, "--plugin", PLUGIN, "--rank", rank, "--ranks", ranks, "--limit-ms", LIMIT_MS,
                    "--root", f"127.0.0.1:{next_port}", "--json", *options, *args, mode]
            with open(self.path(rank, OUT), "ab") as out, open(self.path(rank, ERR), "ab") as err:
                self.processes.append(subprocess.Popen(
                    [str(word) for word in line], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    env=halab.environment(rank, **{**SETTINGS, **(env or {})})))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(30)
        if kind:
            print(self.story(), flush=True)
        self.directory.cleanup()

    def path(self, rank, which):
        return os.path.join(self.directory.name, f"{which}{rank}")

    def text(self, rank, which):
        with open(self.path(rank, which), errors="replace") as file:
            return file.read()

    def story(self):
        return "\n".join(f"--- rank {rank}, exit code {process.poll()}\n{self.text(rank, OUT)[-1500:]}\n"
                         f"{self.text(rank, ERR)[-3000:]}" for rank, process in enumerate(self.processes))

    def alive(self):
        return all(process.poll() is None for process in self.processes)

    def sent(self, host, rail):
        """Packets since the start."""
        return sent_packets(host, rail) - self.before[host][RAILS.index(rail)]

    def flows(self, rail, packets=100, seconds=30, host=SENDER):
        """Waits until this many further packets have left by this rail."""
        goal = self.sent(host, rail) + packets

        def there():
            expect(self.alive(), "a rank has ended\n" + self.story())
            return self.sent(host, rail) >= goal
        wait_for(f"{packets} packets on rail {rail}", there, seconds)

    def rail(self):
        """The rail that the sender uses, on which most packets leave."""
        before = {rail: self.sent(SENDER, rail) for rail in RAILS}

        def more():
            expect(self.alive(), "a rank has ended\n" + self.story())
            now = {rail: self.sent(SENDER, rail) - before[rail] for rail in RAILS}
            return max(now.values()) >= 50 and now
        now = wait_for("packets", more, 30)
        return max(RAILS, key=now.get)

    def failovers(self, rank=SENDER):
        """The failovers that a rank has logged so far, over all its comms."""
        return [{key: value if key == "cause" else int(value) for key, value in match.groupdict().items()}
                for match in FAILOVER.finditer(self.text(rank, ERR))]

    def wait_failovers(self, n, rank=SENDER, seconds=20):
        def there():
            expect(self.alive() or len(self.failovers(rank)) >= n, "a rank has ended\n" + self.story())
            return len(self.failovers(rank)) >= n
        wait_for(f"failover {n}", there, seconds)
        return self.failovers(rank)

    def without_standby(self):
        """How often an end had to wait for another path."""
        return sum(self.text(rank, ERR).count("no other path is ready") for rank in range(len(self.processes)))

    def signal(self, rank, number):
        self.processes[rank].send_signal(number)

    @contextlib.contextmanager
    def stopped(self, rank):
        process = self.processes[rank]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def codes(self, seconds=60):
        """The exit codes, when all ranks have ended."""
        try:
            wait_for("all ranks to end",
                     lambda: all(process.poll() is not None for process in self.processes), seconds)
        except Failure as e:
            raise Failure(f"{e}\n{self.story()}") from None
        return [process.returncode for process in self.processes]

    def end(self, seconds=60):
        """The reports of all ranks, whose run must be good."""
        codes = self.codes(seconds)
        expect(not any(codes), f"exit codes {codes}\n{self.story()}")
        return [libtest.json_rows(libtest.Result(["rank", rank], 0, self.text(rank, OUT), "", 0))[-1]
                for rank in range(len(codes))]

    def finish(self, seconds=60):
        """Ends a stream when all messages are delivered. Returns the reports."""
        self.signal(SENDER, signal.SIGINT)
        return self.end(seconds)

    def resources(self, rank):
        """Returns {kind: count} of the resources of the devices of a rank's host, and of its descriptors."""
        own = [halab.device(rank, rail) for rail in RAILS]
        rows = [row for row in json.loads(command("rdma", "-j", "resource", "show").out) if row["ifname"] in own]
        found = {kind: sum(row[kind] for row in rows) for kind in ("qp", "cq", "mr", "pd")}
        expect(found["qp"] >= len(RAILS) and found["mr"], f"{rows}")
        found["fd"] = len(os.listdir(f"/proc/{self.processes[rank].pid}/fd"))
        return found


# --- many comms of one process -----------------------------------------------------------------

CROWD = os.path.abspath(__file__)
COMMS, HANDLE_BYTES, PROPERTIES_BYTES = 32, 128, 256
FIRST_S = 2  # for the first comm to be up before the others begin
POLL_S = 0.001
WRITE, IOCTL = "1", "16"  # system calls of x86-64, by which libibverbs modifies a queue pair
NET_V8 = ("name init devices getProperties listen connect accept regMr regMrDmaBuf deregMr isend irecv iflush test closeSend "
          "closeRecv closeListen getDeviceMr irecvConsumed").split()
INT, POINTER = ctypes.c_int, ctypes.c_void_p


class Comm:
    """A comm of one process, which is its own peer."""

    def __init__(self, call, dev, handle, listener):
        self.call, self.dev, self.listener = call, dev, listener
        self.handle = ctypes.create_string_buffer(handle.raw, HANDLE_BYTES)  # connect writes to it
        self.send, self.receive, self.device = POINTER(), POINTER(), POINTER()

    def is_up(self):
        if not self.send:
            self.call("connect", INT(self.dev), self.handle, ctypes.byref(self.send), ctypes.byref(self.device))
        if not self.receive:
            self.call("accept", self.listener, ctypes.byref(self.receive), ctypes.byref(self.device))
        return bool(self.send and self.receive)


def waits():
    """The threads of this process that wait in a system call for a device, each with the number of its waits so far."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/syscall", encoding="ascii") as call, \
                open(f"/proc/self/task/{thread}/status", encoding="ascii") as status:
            if call.read().split()[0] in (WRITE, IOCTL):
                found.add((thread, re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status.read(), re.M)[1]))
    return found


def crowd():
    """A comm of host 0 to host 2, and beside it the others to host 1, one after the other. Prints how long each has taken,
    how many were connected during a single wait of another thread, and whether the first one was up before and after them."""
    table = (POINTER * len(NET_V8)).in_dll(ctypes.CDLL(PLUGIN), "ncclNetPlugin_v8")
    n, properties, numbers, seconds, within = INT(), ctypes.create_string_buffer(PROPERTIES_BYTES), {}, [], 0

    def call(name, *args):
        code = ctypes.CFUNCTYPE(INT, *(type(a) if isinstance(a, INT) else POINTER for a in args))(table[NET_V8.index(name)])(*args)
        expect(code == 0, f"{name}: {code}")

    def listen(host):
        handle, listener = ctypes.create_string_buffer(HANDLE_BYTES), POINTER()
        call("listen", INT(numbers[halab.device(host, "a")]), handle, ctypes.byref(listener))
        return numbers[halab.device(0, "a")], handle, listener

    call("init", None)
    call("devices", ctypes.byref(n))
    for dev in range(n.value):
        call("getProperties", INT(dev), properties)
        numbers[ctypes.cast(properties, ctypes.POINTER(ctypes.c_char_p))[0].decode()] = dev
    first, at = Comm(call, *listen(2)), listen(1)
    watch = libtest.stopwatch()
    while not first.is_up() and watch() < FIRST_S:
        time.sleep(POLL_S)
    was_up = first.is_up()
    for _ in range(COMMS - 1):
        before, watch, other = waits(), libtest.stopwatch(), Comm(call, *at)
        while not other.is_up():
            first.is_up()
            time.sleep(POLL_S)
            expect(watch() < 60, f"{len(seconds)} comms are up")
        seconds.append(watch())
        within += bool(before & waits())
    print(json.dumps({"seconds": seconds, "within": within, "first": [was_up, first.is_up()]}), flush=True)
    os._exit(0)  # a step in the kernel may still wait


if __name__ == "__main__":
    crowd()
