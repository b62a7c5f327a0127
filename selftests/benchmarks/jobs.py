# SPDX-License-Identifier: BSD-2-Clause
"""Parts of `bench` that run jobs in labs: a switch compared with a ring over TCP on the same links, and the cost of a
level of a tree. Compared jobs run alternately, so that the machine's other load affects all alike."""
import json
import os
import statistics

from libtest import BUILD, Lab
from table import Table, pivot, size_text


def first_row(lab, *args):
    return json.loads(lab.run(*args, options=("--no-prefix", "--only", "0"), timeout=300).out.splitlines()[0])


def perf(lab, size, iterations, warmup, *more):
    return first_row(lab, "inccl-perf", "allreduce", "-b", size, "-e", size, "-n", iterations, "-w", warmup,
                     "--json", *more)


def measure_ring(how):
    for hosts in [n for n in how.hosts if n < 8]:
        with Lab(f"star{hosts}.yaml", mode="passthrough", books=False) as lab:
            addresses = [h["addr"] for h in lab.hosts]
            for size in (1 << 16, 1 << 20, 1 << 24):
                iterations = 5 if size > 1 << 22 else 20
                took = {}
                for _ in range(how.rounds):
                    for payload in (1024, 2048):
                        took.setdefault(f"switch, payload {payload}", []).append(
                            perf(lab, size, iterations, 2, "--payload", payload)["algbw_gbps"])
                    took.setdefault("ring over TCP", []).append(
                        first_row(lab, os.path.join(BUILD, "bench", "ring"), size, iterations,
                                  *addresses)["algbw_gbps"])
                for what, rates in took.items():
                    yield {"hosts": hosts, "bytes": size, "what": what, "rounds": how.rounds,
                           "gbps": statistics.median(rates)}


def show_ring(rows):
    heads, lines = pivot(rows, lambda r: f"{r['hosts']} hosts, {size_text(r['bytes'])}", lambda r: r["what"],
                         lambda r: f"{r['gbps']:.3f}")
    yield Table(f"AllReduce by an XDP switch, int32 sum, Gbit/s of the vector, median of {rows[0]['rounds']} rounds",
                ["job"] + heads, lines,
                ["Links of MTU 2200: payload 2048 and TCP's segments of 2148 bytes compare; 1024 is what 1500 allows."])


def measure_tree(how):
    with Lab("star4.yaml", mode="passthrough", books=False) as star, \
            Lab("tree-2x2.yaml", mode="passthrough", books=False) as tree:
        took = {}
        for _ in range(how.rounds):
            for what, lab in (("four hosts, one switch", star), ("four hosts, two levels", tree)):
                took.setdefault(what, []).append(
                    perf(lab, 4096, 500 if how.quick else 2000, 100)["time_us"])
    for what, times in took.items():
        yield {"what": what, "bytes": 4096, "rounds": how.rounds, "time_us": statistics.median(times)}


def show_tree(rows):
    yield Table(f"What a level of tree costs: AllReduce of 4 KiB, median of {rows[0]['rounds']} rounds",
                ["where", "us", "of the first"],
                [[r["what"], f"{r['time_us']:.1f}", f"{r['time_us'] / rows[0]['time_us']:.2f}"] for r in rows])
