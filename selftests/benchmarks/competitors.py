# SPDX-License-Identifier: BSD-2-Clause
"""Other implementations of AllReduce that the benchmark runs on the hosts of a lab, over their links: Open MPI by each of
its algorithms, and gloo's ring. A program that is missing is compiled, and its packages are installed."""
import os
import shutil
import subprocess
import tempfile

import costs
from libtest import BUILD, TOP, Failure, command

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 120
# Open MPI's algorithms, at the numbers that its component coll_tuned gives them.
ALGORITHMS = ("default", "linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner")


def openmpi(name):
    """A program of Open MPI, which has this name where another MPI is installed as well."""
    return shutil.which(f"{name}.openmpi") or name


def program(packages, source, *compiler):
    """Compiles a competitor unless that was done. Returns the path of the program."""
    source = os.path.join(HERE, source)
    path = os.path.join(BUILD, "competitors", os.path.splitext(os.path.basename(source))[0])
    install = command(os.path.join(TOP, "scripts/install-deps"), packages, timeout=600, check=False)
    if install.code:
        raise Failure(f"not here: {(install.err.strip().splitlines() or ['no package'])[-1]}")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        made = command(compiler[0], "-O2", "-Wall", "-o", path, source, *compiler[1:], timeout=300, check=False)
        if made.code:
            raise Failure(f"not here: {made.err.strip().splitlines()[0]}")
    return path


def printed(result, sizes):
    """The figures that a job printed: {bytes: {measure: figure per collective}}"""
    figures = costs.printed(result)
    if result.code or set(figures) != set(sizes):
        raise Failure("failed: " + (result.err.strip().splitlines() or [f"exit code {result.code}, no error"])[-1])
    return figures


class OpenMpi(costs.Program):
    """Open MPI by its fastest algorithm for each size."""

    def __init__(self, lab):
        super().__init__(lab)
        self.best = {}  # bytes: algorithm
        self.path = program("mpi", "mpi_allreduce.c", openmpi("mpicc"))
        self.files = tempfile.TemporaryDirectory()
        # All hosts of a lab have the machine's host name, by which Open MPI distinguishes nodes. So each host gets a name.
        self.agent = os.path.join(self.files.name, "agent")
        nodes = "\n".join(f"{h['addr']} | {h['name']}) node={h['name']} ;;" for h in lab.hosts)
        with open(self.agent, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\ncase $1 in\n{nodes}\nesac\nshift\n"
                    f"exec {lab.program} exec --name {lab.name} $node -- unshare --uts sh -c \"hostname $node; $*\"\n")
        os.chmod(self.agent, 0o755)

    def close(self):
        self.files.cleanup()

    def by(self, algorithm, sizes, iterations):
        first = self.lab.hosts[0]["name"]
        options = {"plm_rsh_agent": self.agent, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "eth0",
                   "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": 1, "coll_tuned_use_dynamic_rules": 1,
                   "coll_tuned_allreduce_algorithm": ALGORITHMS.index(algorithm)}
        words = [openmpi("mpirun"), "--allow-run-as-root", "--bind-to", "none", "--host",
                 ",".join(h["addr"] for h in self.lab.hosts), "-np", len(self.lab.hosts),
                 *(word for key, value in options.items() for word in ("--mca", key, value)),
                 self.path, costs.warmup(sizes), iterations, *sizes]
        return printed(self.lab.exec(
            first, "unshare", "--uts", "sh", "-c", f'hostname {first}; exec timeout {LIMIT_S} "$@"', "sh", *words,
            timeout=LIMIT_S + 20, check=False), sizes)

    def job(self, dtype, sizes, iterations):
        """The first call for a size runs all algorithms, later ones the fastest."""
        if new := [s for s in sizes if s not in self.best]:
            took = {a: self.by(a, new, iterations) for a in ALGORITHMS}
            self.best.update({s: min(ALGORITHMS, key=lambda a, s=s: took[a][s]["time_us"]) for s in new})
            return {**{s: took[self.best[s]][s] for s in new},
                    **(self.job(dtype, old, iterations) if (old := [s for s in sizes if s not in new]) else {})}
        took = {}
        for algorithm in {self.best[s] for s in sizes}:
            took.update(self.by(algorithm, [s for s in sizes if self.best[s] == algorithm], iterations))
        return took


class Gloo(costs.Program):
    """gloo's ring, over TCP."""

    def __init__(self, lab):
        super().__init__(lab)
        self.path = program("gloo", "gloo_allreduce.cc", "g++", "-lgloo")

    def job(self, dtype, sizes, iterations):
        with tempfile.TemporaryDirectory() as meet:
            return printed(self.lab.run(self.path, meet, costs.warmup(sizes), iterations, *sizes, timeout=LIMIT_S, check=False,
                                        options=("--no-prefix", "--only", "0")), sizes)
