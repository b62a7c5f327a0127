# SPDX-License-Identifier: BSD-2-Clause
"""The part `modes` of `bench`: AllReduce by switches in passthrough mode, by switches in termination mode with soft
endpoints, and by Open MPI on the links of the termination switch. They run alternately. The result is the size from
which on each mode is better."""
import contextlib
import json
import os
import statistics
import subprocess

from libtest import TOP, Failure, Lab
from table import Table, size_text

PASSTHROUGH, TERMINATION, MPI = "passthrough", "termination", "Open MPI"
MODES = (PASSTHROUGH, TERMINATION)
DTYPES = ("int32", "float32")
COLUMNS = [(mode, dtype) for dtype in DTYPES for mode in MODES] + [(MPI, "float32")]

SIZES = [4 << 2 * i for i in range(13)]  # 4 B to 64 MiB
QUICK_SIZES = [4, 1 << 12, 1 << 16, 1 << 20, 1 << 24]
# Sizes that are measured by one job share its number of iterations. The largest size determines it by the time GO_S.
GO_BYTES = (1 << 12, 1 << 18, 1 << 22, 1 << 26)
GO_S = 0.5
FEWEST, MOST = 3, 100
SKIP_CODE = 77  # exit code of the program mpi if Open MPI cannot be installed


def gos(sizes):
    """Groups of sizes that one job measures: [[bytes, ..], ..]"""
    edges = (0,) + GO_BYTES
    return [part for low, high in zip(edges, edges[1:]) if (part := [s for s in sizes if low < s <= high])]


def by_switch(lab, dtype, sizes):
    """Measures a lab's switch. Returns {bytes: us}."""
    took = {}
    iterations = MOST
    for go in gos(sizes):
        if took:  # assume the time per byte of the largest size so far; it is usually less
            last = max(took)
            iterations = int(max(FEWEST, min(MOST, GO_S * 1e6 / (took[last] * go[-1] / last))))
        rows = lab.run("inccl-perf", "allreduce", "--sizes", ",".join(map(str, go)), "--dtype", dtype, "-n",
                       iterations, "-w", 1 + iterations // 10, "--json",
                       options=("--no-prefix", "--only", "0"), timeout=300)
        took.update({r["bytes"]: r["time_us"] for r in map(json.loads, rows.out.splitlines()) if "time_us" in r})
    return took


class OpenMpi:
    """Open MPI's fastest algorithm for each size. The first round runs all algorithms, later rounds only the fastest
    one."""

    def __init__(self):
        self.best = {}  # bytes: algorithm

    def run(self, lab, algorithm, sizes):
        result = subprocess.run(
            [os.path.join(TOP, "selftests/benchmarks/mpi"), lab.name, algorithm, *map(str, sizes)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=900, check=False)
        if result.returncode:
            raise Failure(f"{'not here' if result.returncode == SKIP_CODE else 'failed'}: " +
                          (result.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return [json.loads(line) for line in result.stdout.splitlines()]

    def measure(self, lab, sizes):
        """Measures one round. Returns {bytes: us}."""
        if not self.best:
            rows = self.run(lab, "all", sizes)
            rows = {s: min((r for r in rows if r["bytes"] == s), key=lambda r: r["time_us"]) for s in sizes}
            self.best = {s: r["algorithm"] for s, r in rows.items()}
            return {s: r["time_us"] for s, r in rows.items()}
        took = {}
        for algorithm in set(self.best.values()):
            its = [s for s in sizes if self.best[s] == algorithm]
            took.update({r["bytes"]: r["time_us"] for r in self.run(lab, algorithm, its)})
        return took


def open_labs(stack, hosts, mtu):
    """Starts the labs. mtu: of the links of the switch in termination mode, if it is not the topology's. Returns
    {mode: lab}, and {mode: reason} of those that could not start."""
    labs, missing = {}, {}
    for mode in MODES:
        try:
            labs[mode] = stack.enter_context(
                Lab(f"star{hosts}.yaml", mode=mode, books=False, mtu=mtu if mode == TERMINATION else None))
        except Failure as e:
            missing[mode] = str(e).strip().splitlines()[-1]
    return labs, missing


def measure_hosts(how, hosts):
    sizes = QUICK_SIZES if how.quick else SIZES
    mpi, took = OpenMpi(), {}
    with contextlib.ExitStack() as stack:
        labs, missing = open_labs(stack, hosts, how.mtu)
        for _ in range(how.rounds):
            for mode, dtype in COLUMNS:
                if mode in missing or (mode == MPI and TERMINATION in missing):
                    continue
                try:
                    figures = mpi.measure(labs[TERMINATION], sizes) if mode == MPI else \
                        by_switch(labs[mode], dtype, sizes)
                except Failure as e:
                    if mode != MPI:
                        raise
                    missing[mode] = str(e)
                    continue
                for size, us in figures.items():
                    took.setdefault((mode, dtype, size), []).append(us)
    for mode, why in missing.items():
        yield {"hosts": hosts, "mode": mode, "skipped": why}
    for (mode, dtype, size), us in took.items():
        yield {"hosts": hosts, "mode": mode, "dtype": dtype, "bytes": size, "time_us": statistics.median(us),
               "gbps": size * 8 / statistics.median(us) / 1e3, "each_us": us,
               **({"algorithm": mpi.best[size]} if mode == MPI else {})}


def measure_modes(how):
    for hosts in how.hosts:
        yield from measure_hosts(how, hosts)


def verdict(took, dtype):
    """A line that states from which size on termination is the better mode."""
    sizes = [s for s in sorted({size for _, _, size in took})
             if (PASSTHROUGH, dtype, s) in took and (TERMINATION, dtype, s) in took]
    better = [took[TERMINATION, dtype, s]["time_us"] < took[PASSTHROUGH, dtype, s]["time_us"] for s in sizes]
    if not sizes:
        return f"{dtype}: the modes cannot be compared."
    if all(better):
        return f"{dtype}: termination is quicker at every size."
    last = len(better) - better[::-1].index(False)  # index behind the last size at which termination is not better
    odd = [size_text(s) for s, b in zip(sizes[:last], better) if b]
    return f"{dtype}: termination is quicker " + (
        f"from {size_text(sizes[last])} on" if last < len(sizes) else "at no large size") + (
        f", and at {', '.join(odd)}." if odd else ".")


def cell(took, column, size):
    """The text of a cell: microseconds up to 64 KiB, from there on Gbit/s. The better mode is in bold."""
    row = took.get((*column, size))
    if not row:
        return "-"
    text = f"{row['time_us']:.0f} us" if size <= 1 << 16 else f"{row['gbps']:.2f} Gbit/s"
    other = took.get(({PASSTHROUGH: TERMINATION, TERMINATION: PASSTHROUGH}.get(column[0]), column[1], size))
    return f"**{text}**" if other and row["time_us"] < other["time_us"] else text


def show_modes(rows):
    for hosts in sorted({r["hosts"] for r in rows}):
        its = [r for r in rows if r["hosts"] == hosts]
        took = {(r["mode"], r["dtype"], r["bytes"]): r for r in its if "time_us" in r}
        rounds = max((len(r["each_us"]) for r in took.values()), default=0)
        yield Table(f"AllReduce of {hosts} hosts, sum, medians of {rounds} rounds; Gbit/s of the vector",
                    ["vector"] + [f"{mode}, {dtype}" for mode, dtype in COLUMNS],
                    [[size_text(s)] + [cell(took, c, s) for c in COLUMNS] for s in sorted({k[2] for k in took})],
                    [verdict(took, dtype) for dtype in DTYPES] +
                    [f"No {r['mode']}: {r['skipped']}" for r in its if "skipped" in r])
