# SPDX-License-Identifier: BSD-2-Clause
"""The part `mpi` of `bench`: AllReduces of one MPI program, with the preloaded library and without it. The two run
alternately. The library measures both paths in its first calls, which do not count, and then uses the faster one."""
import json
import statistics

import competitors
import costs
from libtest import Failure, command
from table import Table, size_text

LIMIT_S = 300
WARMUP = 9  # calls after which the library has chosen
SIZES = [4 << 2 * i for i in range(13)]  # 4 B to 64 MiB
QUICK_SIZES = [4, 1 << 12, 1 << 16, 1 << 20, 1 << 24]
PER_HOST, QUICK_PER_HOST = (1, 4, 8), (1, 4)
RATES = (None, 1000)
QUICK_HOSTS = [8]


class Program:
    """Runs a program by Open MPI on the hosts of a lab."""

    def __init__(self, lab, path, hosts, per_host):
        self.words = ["inc-lab", "mpirun", "--name", lab.name, "--timeout", LIMIT_S, "-n", hosts * per_host, "--per-host", per_host]
        self.path = path

    def time_us(self, size, iterations, *options):
        """Returns the median time of an AllReduce."""
        result = command(*map(str, [*self.words, *options, "--", self.path, WARMUP, iterations, size]), timeout=LIMIT_S + 20, check=False)
        rows = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
        if result.code or len(rows) != 1:
            raise Failure("failed: " + (result.err.strip().splitlines() or [f"exit code {result.code}"])[-1])
        return rows[0]["time_us"]


def measure_place(how, program, size):
    """Measures one figure. Returns its row."""
    iterations = costs.enough(program.time_us(size, 3, "--no-switch"))
    rounds = []
    for _ in range(how.rounds):
        mpi = program.time_us(size, iterations, "--no-switch")
        rounds.append({"mpi_us": mpi, "ours_us": program.time_us(size, iterations, "--env", "INCCL_MPI_REQUIRE=1")})
    return {"bytes": size, "rounds": rounds, **{m: statistics.median(r[m] for r in rounds) for m in ("mpi_us", "ours_us")},
            "ratio": statistics.median(r["mpi_us"] / r["ours_us"] for r in rounds)}


def measure_mpi(how):
    path = competitors.program("mpi", "mpi_allreduce.c", competitors.openmpi("mpicc"))
    for rate in (how.rate,) if how.rate else RATES:
        for hosts in how.hosts if how.full or how.some_hosts else QUICK_HOSTS:
            with costs.rated_lab(f"star{hosts}.yaml", rate, "--controller-args", "--member-timeout-ms 0") as lab:
                for per_host in PER_HOST if how.full else QUICK_PER_HOST:
                    program = Program(lab, path, hosts, per_host)
                    for size in how.size or (SIZES if how.full else QUICK_SIZES):
                        yield {"hosts": hosts, "per_host": per_host, "rate_mbit": rate, **measure_place(how, program, size)}


def show_mpi(rows):
    yield Table(f"AllReduce of an MPI program, float32, sum, by the choice of the library beside Open MPI alone; "
                f"medians of {len(rows[0]['rounds'])} rounds",
                ["hosts", "ranks per host", "links", "vector", "with the library, us", "Open MPI, us", "speed beside Open MPI's"],
                [[str(r["hosts"]), str(r["per_host"]), f"{r['rate_mbit']:g} Mbit/s" if r["rate_mbit"] else "unshaped", size_text(r["bytes"]),
                  f"{r['ours_us']:.1f}", f"{r['mpi_us']:.1f}", f"{r['ratio']:.2f}"] for r in rows])
