# SPDX-License-Identifier: BSD-2-Clause
"""What a collective costs: wall time, CPU time of the hosts, of the switch and of softirqs, and bytes on the hosts'
links."""
import contextlib
import ctypes
import json
import os
import resource
import time

from libtest import Lab, expect, inside, libc, scratch, with_wires

PASSTHROUGH, TERMINATION = "passthrough", "termination"
MODES = (PASSTHROUGH, TERMINATION)
DTYPES = ("int32", "float32")
# What is measured of each collective: {key of JSON: name in tables}.
MEASURES = {"time_us": "wall us", "hosts_cpu_us": "hosts' CPU us", "switch_cpu_us": "switch's CPU us",
            "link_bytes": "link bytes", "softirq_us": "softirq us"}
GO_S = float(os.environ.get("INC_BENCH_S", 0.5))  # the iterations of a figure shall take so long; tools/test_bench needs no good figures
FEWEST, MOST = 5, 100000
LARGE_BYTES = 1 << 20  # a few iterations with such a vector take longer than all other work of a job


def process_us(pid):
    """The CPU time that all threads of a process have used."""
    clock = ctypes.c_int()
    expect(libc.clock_getcpuclockid(pid, ctypes.byref(clock)) == 0, f"a switch has ended: no process {pid}")
    return time.clock_gettime_ns(clock.value) / 1e3


def softirq_us():
    with open("/proc/stat", encoding="ascii") as f:
        return int(f.readline().split()[7]) * 1e6 / os.sysconf("SC_CLK_TCK")


def link_bytes(netns):
    """The bytes that a host's link has carried in both directions, as the kernel counts them."""
    with inside(netns), open("/proc/thread-self/net/dev", encoding="ascii") as f:
        fields = next(line for line in f if line.lstrip().startswith("eth0:")).split(":")[1].split()
    return int(fields[0]) + int(fields[8])


def totals(lab):
    """What was used since some fixed instant: {measure: figure}. Ranks count when they have ended, with the programs
    that started them."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"hosts_cpu_us": (children.ru_utime + children.ru_stime) * 1e6,
            "switch_cpu_us": sum(process_us(s["pid"]) for s in lab.switches),
            "softirq_us": softirq_us(),
            "link_bytes": sum(link_bytes(h["netns"]) for h in lab.hosts)}


def enough(us):
    """How many iterations of so many us each take as long as a figure shall take."""
    return int(max(FEWEST, min(MOST, GO_S * 1e6 / us)))


@contextlib.contextmanager
def rated_lab(topology, rate_mbit, *up_args, **more):
    """A lab, whose links are wires of this rate if it is not None."""
    with contextlib.ExitStack() as stack:
        wires = ()
        if rate_mbit:
            topology, wires = with_wires(stack.enter_context(scratch()), topology)
        lab = stack.enter_context(Lab(topology, *up_args, books=False, **more))
        for wire in wires:
            lab.wire(wire, f"rate={rate_mbit:g}")
        yield lab


def warmup(sizes):
    """How many iterations are not timed. The CPU time of a job includes them, so they are few where they cost much."""
    return 1 if max(sizes) >= LARGE_BYTES else 5


def allreduce(lab, dtype, sizes, iterations, *args, before=(), **more):
    """Measures AllReduces of several sizes by the lab's switch. Returns the result of the command. before: words before the
    program"""
    return lab.run(*before, "inccl-perf", "allreduce", "--sizes", ",".join(map(str, sizes)), "--dtype", dtype, "-n", iterations,
                   "-w", warmup(sizes), "--json", *args, options=("--no-prefix", "--only", "0"), **more)


def printed(result):
    """The figures that a job printed: {bytes: {measure: figure per collective}}"""
    rows = [r for r in map(json.loads, result.out.splitlines()) if "time_us" in r]
    return {r["bytes"]: {m: r[m] for m in MEASURES if m in r} for r in rows}


class Program:
    """A program that performs AllReduces on the hosts of a lab."""

    def __init__(self, lab):
        self.lab = lab
        self.started = {}  # (dtype, size): the run with one iteration

    def close(self):
        """Frees what the program has, after the last job."""

    def job(self, dtype, sizes, iterations):
        """Runs a job that measures several sizes. Returns {bytes: {measure: figure per collective}}. The figures are
        time_us, and hosts_cpu_us if the program measures it."""
        raise NotImplementedError

    def run(self, dtype, size_bytes, iterations):
        """Runs a job of one size. Returns what the job printed, and {measure: figure} of all that was used."""
        before = totals(self.lab)
        printed = self.job(dtype, [size_bytes], iterations)[size_bytes]
        return printed, {m: figure - before[m] for m, figure in totals(self.lab).items()}

    def figure(self, dtype, size_bytes, iterations, start_bytes=None):
        """Measures one figure: {measure: figure per collective}. A run of one iteration measures the start and the end of
        a job, which are subtracted. Small vectors may share such a run, which has the size start_bytes. A large vector has
        a run of its own each time, because the difference belongs to a few iterations."""
        key = dtype, start_bytes or size_bytes
        if key not in self.started or size_bytes >= LARGE_BYTES:
            self.started[key] = self.run(*key, 1)[1]
        printed, used = self.run(dtype, size_bytes, iterations)
        return {**{m: (used[m] - self.started[key][m]) / (iterations - 1) for m in used}, **printed}
