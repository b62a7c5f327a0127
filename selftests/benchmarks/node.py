# SPDX-License-Identifier: BSD-2-Clause
"""The part `node` of `bench`: AllReduce among eight ranks of one machine by shared memory, beside Open MPI's own. The two
run alternately. Open MPI uses its fastest algorithm for each size."""
import json
import statistics

import competitors
import costs
from libtest import Lab
from table import Table, size_text

RANKS = 8
SIZES = [4, 1 << 12, 1 << 16, 1 << 20, 1 << 24]
LIMIT_S = 120


class OpenMpi(competitors.OpenMpi):
    """Open MPI by shared memory."""

    def by(self, algorithm, sizes, iterations):
        options = {"pml": "ob1", "btl": "vader,self", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": 1,
                   "coll_tuned_use_dynamic_rules": 1,
                   "coll_tuned_allreduce_algorithm": competitors.ALGORITHMS.index(algorithm)}
        words = [competitors.openmpi("mpirun"), "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "-np", RANKS,
                 *(word for key, value in options.items() for word in ("--mca", key, value)),
                 self.path, costs.warmup(sizes), iterations, *sizes]
        result = self.lab.exec(self.lab.hosts[0]["name"], "timeout", LIMIT_S, *words, timeout=LIMIT_S + 20, check=False)
        took = competitors.printed(result, sizes)
        # inccl-perf measures the mean of all iterations, so the median is of no use
        for row in map(json.loads, result.out.splitlines()):
            took[row["bytes"]]["time_us"] = row["mean_us"]
        return took


class Node(costs.Program):
    """AllReduce by the library's shared memory."""

    def job(self, dtype, sizes, iterations):
        return costs.printed(self.lab.run(
            "inccl-perf", "allreduce", "--sizes", ",".join(map(str, sizes)), "--dtype", dtype, "-n", iterations,
            "-w", costs.warmup(sizes), "--json", options=("--no-prefix", "--only", "0", "--per-host", str(RANKS)),
            timeout=LIMIT_S))


def measure_node(how):
    with Lab("star1.yaml", "--controller-args", "--member-timeout-ms 0", books=False) as lab:
        ours, mpi = Node(lab), OpenMpi(lab)
        for size in how.size or SIZES:
            iterations = costs.enough(ours.job("float32", [size], 5)[size]["time_us"])
            rounds = []
            for _ in range(max(how.rounds, 3)):
                rounds.append({"ours_us": ours.job("float32", [size], iterations)[size]["time_us"],
                               "mpi_us": mpi.job("float32", [size], iterations)[size]["time_us"]})
            yield {"ranks": RANKS, "bytes": size, "algorithm": mpi.best[size], "rounds": rounds,
                   "ours_us": statistics.median(r["ours_us"] for r in rounds),
                   "mpi_us": statistics.median(r["mpi_us"] for r in rounds),
                   "ratio": statistics.median(r["mpi_us"] / r["ours_us"] for r in rounds)}


def show_node(rows):
    yield Table(f"AllReduce of {RANKS} ranks of one machine, float32, sum; medians of {len(rows[0]['rounds'])} rounds",
                ["vector", "shared memory, us", "Open MPI, us", "its algorithm", "speed beside Open MPI's"],
                [[size_text(r["bytes"]), f"{r['ours_us']:.1f}", f"{r['mpi_us']:.1f}", r["algorithm"], f"{r['ratio']:.2f}"]
                 for r in rows])
