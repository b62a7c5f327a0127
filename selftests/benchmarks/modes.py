# SPDX-License-Identifier: BSD-2-Clause
"""The part `modes` of `bench`: AllReduce by switches in passthrough mode, by switches in termination mode with soft
endpoints, and by Open MPI and gloo on the links of the termination switch. They run alternately. The result is what each
costs, and the size from which on each mode is better."""
import contextlib
import os
import statistics

import competitors
import costs
import plan
from costs import DTYPES, MEASURES, MODES, PASSTHROUGH, TERMINATION
from libtest import Failure
from table import Table, size_text

MPI, GLOO = "Open MPI", "gloo"
COMPETITORS = {MPI: competitors.OpenMpi, GLOO: competitors.Gloo}
COLUMNS = [(mode, dtype) for dtype in DTYPES for mode in MODES] + [(name, "float32") for name in COMPETITORS]

SIZES = [4 << 2 * i for i in range(13)]  # 4 B to 64 MiB
QUICK_SIZES = [4, 1 << 12, 1 << 16, 1 << 20, 1 << 24]
SMALL_BYTES = 1 << 16  # the start of a job with smaller vectors costs as much whatever their size
# One job estimates the times of sizes that are alike: {largest size: iterations}
ESTIMATES = {1 << 14: 100, 1 << 19: 10, 1 << 30: 2}


class Switch(costs.Program):
    """AllReduce by a lab's switch."""

    def job(self, dtype, sizes, iterations):
        return costs.printed(costs.allreduce(self.lab, dtype, sizes, iterations, timeout=300))


def estimate(program, dtype, sizes):
    """Determines how many iterations a figure takes. Returns {bytes: iterations}."""
    took, low = {}, 0
    for high, iterations in ESTIMATES.items():
        if part := [s for s in sizes if low < s <= high]:
            took.update(program.job(dtype, part, iterations))
        low = high
    return {s: costs.enough(row["time_us"]) for s, row in took.items()}


class Job:
    """The figures of a column of the table in the labs of one number of hosts."""

    def __init__(self, program, dtype, sizes):
        self.program, self.dtype = program, dtype
        self.iterations = estimate(program, dtype, sizes)
        self.rounds = {s: [] for s in sizes}

    def measure(self):
        """Measures one round."""
        for size, its in self.rounds.items():
            its.append(self.program.figure(self.dtype, size, self.iterations[size],
                                           min(self.rounds) if size < SMALL_BYTES else size))


def open_labs(stack, how, hosts):
    """Starts the labs. Returns {mode: lab}, and {mode: reason} of those that could not start."""
    labs, missing = {}, {}
    for mode in MODES:
        try:
            labs[mode] = stack.enter_context(costs.rated_lab(
                f"star{hosts}.yaml", how.rate, mode=mode, mtu=how.mtu if mode == TERMINATION else None))
        except Failure as e:
            missing[mode] = str(e).strip().splitlines()[-1]
    return labs, missing


def open_programs(stack, labs, missing):
    """Makes {mode or competitor: program}. Competitors that cannot run join the missing ones."""
    programs = {mode: Switch(lab) for mode, lab in labs.items()}
    for name, competitor in COMPETITORS.items() if TERMINATION in labs else ():
        try:
            programs[name] = stack.enter_context(contextlib.closing(competitor(labs[TERMINATION])))
        except Failure as e:
            missing[name] = str(e)
    return programs


def measure_hosts(how, hosts):
    sizes, jobs = how.size or (QUICK_SIZES if how.quick else SIZES), {}
    with contextlib.ExitStack() as stack:
        labs, missing = open_labs(stack, how, hosts)
        programs = open_programs(stack, labs, missing)
        for _ in range(how.rounds):
            for name, dtype in COLUMNS:
                if name not in programs or name in missing:
                    continue
                try:
                    job = jobs[name, dtype] = jobs.get((name, dtype)) or Job(programs[name], dtype, sizes)
                    job.measure()
                except Failure as e:
                    if name not in COMPETITORS:
                        raise
                    missing[name] = str(e)
    for name, why in missing.items():
        jobs.pop((name, "float32"), None)
        yield {"hosts": hosts, "mode": name, "skipped": why}
    rate = {"rate_mbit": how.rate} if how.rate else {}
    for (name, dtype), job in jobs.items():
        best = getattr(programs[name], "best", {})
        for size, its in job.rounds.items():
            of = {m: statistics.median(r[m] for r in its) for m in MEASURES}
            row = {"hosts": hosts, "mode": name, "dtype": dtype, "bytes": size, **rate, **of,
                   "gbps": size * 8 / of["time_us"] / 1e3, "rounds": its, **({"algorithm": best[size]} if best else {})}
            # a wire takes time of the cores, too, of which the plan knows nothing
            if name in MODES and not how.rate and not how.mtu:
                row.update(cores=os.cpu_count(), plan_us=plan.predict(row, os.cpu_count()))
            yield row


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


def time_cell(took, column, size):
    """The text of a cell: microseconds up to 64 KiB, from there on Gbit/s. The better mode is in bold."""
    row = took[(*column, size)]
    text = f"{row['time_us']:.0f} us" if size <= 1 << 16 else f"{row['gbps']:.2f} Gbit/s"
    other = took.get(({PASSTHROUGH: TERMINATION, TERMINATION: PASSTHROUGH}.get(column[0]), column[1], size))
    return f"**{text}**" if other and row["time_us"] < other["time_us"] else text


def cpu_cell(took, column, size):
    row = took[(*column, size)]
    # hosts of a competitor do not use the switch, which only forwards their frames
    return f"{row['hosts_cpu_us']:.0f}" + (f" + {row['switch_cpu_us']:.0f}" if column[0] in MODES else "")


def link_cell(took, column, size):
    row = took[(*column, size)]
    each = row["link_bytes"] / row["hosts"]
    return f"{each:.0f} B" if size < 1 << 12 else f"{each / size:.2f}"


def table(title, took, cell, notes=()):
    return Table(title, ["vector"] + [f"{name}, {dtype}" for name, dtype in COLUMNS], [
        [size_text(s)] + [cell(took, c, s) if (*c, s) in took else "-" for c in COLUMNS]
        for s in sorted({size for _, _, size in took})], notes)


def show_modes(rows):
    for hosts in sorted({r["hosts"] for r in rows}):
        its = [r for r in rows if r["hosts"] == hosts]
        took = {(r["mode"], r["dtype"], r["bytes"]): r for r in its if "time_us" in r}
        rounds = max((len(r["rounds"]) for r in took.values()), default=0)
        rates = {r["rate_mbit"] for r in took.values() if "rate_mbit" in r}
        links = f", links of {min(rates):g} Mbit/s" if rates else ""
        yield table(f"AllReduce of {hosts} hosts{links}, sum, medians of {rounds} rounds; Gbit/s of the vector", took, time_cell,
                    [verdict(took, dtype) for dtype in DTYPES] +
                    [f"No {r['mode']}: {r['skipped']}" for r in its if "skipped" in r])
        yield table(f"CPU time of all {hosts} hosts + of the switch, us per AllReduce", took, cpu_cell,
                    ["The kernel's work for a packet counts for the process whose system call causes it, often a host. So an XDP "
                     "program's time counts for the hosts."])
        yield table(f"Bytes on the link of one of {hosts} hosts, both directions; from 4 KiB on in lengths of the vector", took,
                    link_cell)
    yield from plan.show(rows, max((r["cores"] for r in rows if "plan_us" in r), default=0))
