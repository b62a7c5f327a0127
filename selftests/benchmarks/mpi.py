# SPDX-License-Identifier: BSD-2-Clause
"""The parts `mpi` and `mpi-off` of `bench`: AllReduces of one MPI program, with the preloaded library and without it. The two run
alternately, and each run measures all sizes. The library measures both paths in the first calls of each size, which do not
count, and then uses the faster one."""
import json
import os
import statistics

import competitors
import costs
from libtest import BUILD, Failure, command
from table import Table, size_text

LIMIT_S = 900
WARMUP = 9  # calls of a size after which the library has chosen
SIZES = [4 << 2 * i for i in range(13)]  # 4 B to 64 MiB
QUICK_SIZES = [4, 1 << 12, 1 << 16, 1 << 20, 1 << 24]
PER_HOST, QUICK_PER_HOST = (1, 4, 8), (1, 4)
RATES = (None, 1000, 100)  # 100 Mbit/s, because the CPUs of a small machine cannot fill eight links of 1 Gbit/s
QUICK_HOSTS = [8]
WITHOUT, WITH = ("--no-switch",), ("--env", "INCCL_MPI_REQUIRE=1")  # options of inc-lab mpirun


class Program:
    """Runs a program by Open MPI on the hosts of a lab."""

    def __init__(self, lab, path, hosts, per_host):
        self.words = ["inc-lab", "mpirun", "--name", lab.name, "--timeout", LIMIT_S, "-n", hosts * per_host, "--per-host", per_host]
        self.path = path

    def measure(self, sizes, *options):
        """Runs the program once. Returns for each size, in their order, the median time of an AllReduce and the number of
        idle CPUs."""
        result = command(*map(str, [*self.words, *options, "--", self.path, WARMUP, f"{costs.GO_S}s", *sizes]),
                         timeout=LIMIT_S + 20, check=False)
        rows = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
        if result.code or [r["bytes"] for r in rows] != list(sizes):
            raise Failure("failed: " + (result.err.strip().splitlines() or [f"exit code {result.code}"])[-1])
        return [(r["time_us"], r["idle_cpus"]) for r in rows]


def measure_place(how, program, sizes):
    """Measures all sizes of one place. Returns a row for each."""
    rounds = [list(zip(program.measure(sizes, *WITHOUT), program.measure(sizes, *WITH))) for _ in range(how.rounds)]
    for size, pairs in zip(sizes, zip(*rounds)):
        rounds_of_size = [{"mpi_us": m, "ours_us": o, "idle_cpus": idle} for (m, _), (o, idle) in pairs]
        yield {"bytes": size, "rounds": rounds_of_size, "ratio": statistics.median(r["mpi_us"] / r["ours_us"] for r in rounds_of_size),
               **{what: statistics.median(r[what] for r in rounds_of_size) for what in ("mpi_us", "ours_us", "idle_cpus")}}


def measure_mpi(how):
    path = competitors.program("mpi", "mpi_allreduce.c", competitors.openmpi("mpicc"))
    sizes = how.size or (SIZES if how.full else QUICK_SIZES)
    for rate in (how.rate,) if how.rate else RATES:
        for hosts in how.hosts if how.full or how.some_hosts else QUICK_HOSTS:
            with costs.rated_lab(f"star{hosts}.yaml", rate, "--controller-args", "--member-timeout-ms 0") as lab:
                for per_host in PER_HOST if how.full else QUICK_PER_HOST:
                    for row in measure_place(how, Program(lab, path, hosts, per_host), sizes):
                        yield {"hosts": hosts, "per_host": per_host, "rate_mbit": rate, **row}


def show_mpi(rows):
    yield Table(f"AllReduce of an MPI program, float32, sum, by the choice of the library beside Open MPI alone; "
                f"medians of {len(rows[0]['rounds'])} rounds",
                ["hosts", "ranks per host", "links", "vector", "with the library, us", "idle CPUs", "Open MPI, us", "speed beside Open MPI's"],
                [[str(r["hosts"]), str(r["per_host"]), f"{r['rate_mbit']:g} Mbit/s" if r["rate_mbit"] else "unshaped", size_text(r["bytes"]),
                  f"{r['ours_us']:.1f}", f"{r['idle_cpus']:.2f}", f"{r['mpi_us']:.1f}", f"{r['ratio']:.2f}"] for r in rows])


# ---- the preloaded library without INCCL_CONTROLLER ----

OFF_ROUNDS = 15
OFF_CALLS = {1: 5000000, 2: 200000}  # by the number of ranks


def cpu_ns(path, ranks, library):
    """The CPU time of an MPI_Allreduce of one float. Two ranks of this machine share memory."""
    start = [competitors.openmpi("mpirun"), "--allow-run-as-root", "--oversubscribe", "-n", "2"] if ranks == 2 else []
    result = command(*start, "env", "-u", "INCCL_CONTROLLER", *([f"LD_PRELOAD={library}"] if library else []), path, "loop",
                     str(OFF_CALLS[ranks]), timeout=LIMIT_S, check=False)
    if result.code:
        raise Failure("failed: " + (result.err.strip().splitlines() or [f"exit code {result.code}"])[-1])
    return json.loads(result.out)["cpu_ns"]


def measure_off(how):
    path = competitors.program("mpi", "mpi_allreduce.c", competitors.openmpi("mpicc"))
    library = os.path.join(BUILD, "libinccl-mpi.so")
    for ranks in OFF_CALLS:
        rounds = []
        for n in range(max(how.rounds, 1 if how.quick else OFF_ROUNDS)):
            pair = {with_it: cpu_ns(path, ranks, library if with_it else None) for with_it in ((True, False) if n % 2 else (False, True))}
            rounds.append({"alone_ns": pair[False], "loaded_ns": pair[True]})
        yield {"ranks": ranks, "rounds": rounds, "ratio": statistics.median(r["loaded_ns"] / r["alone_ns"] for r in rounds),
               **{what: statistics.median(r[what] for r in rounds) for what in ("alone_ns", "loaded_ns")}}


def show_off(rows):
    yield Table(f"MPI_Allreduce of 4 B by Open MPI, with the library preloaded but without INCCL_CONTROLLER; medians of "
                f"{len(rows[0]['rounds'])} pairs",
                ["ranks on this machine", "alone, ns of CPU time", "with the library, ns", "with / alone"],
                [[str(r["ranks"]), f"{r['alone_ns']:.1f}", f"{r['loaded_ns']:.1f}", f"{r['ratio']:.4f}"] for r in rows])
