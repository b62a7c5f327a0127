# SPDX-License-Identifier: BSD-2-Clause
"""Parts of `bench` that consist of one program each. The program measures and prints JSON, of which a table is made
here."""
import json
import os
import statistics
import subprocess

from libtest import BUILD, command, expect
from table import Table, pivot, size_text


def run(name, *args):
    out = command(os.path.join(BUILD, "bench", name), *args, "--json", timeout=300).out
    return [json.loads(line) for line in out.splitlines()]


CHILDREN = (2, 4, 8, 16, 32)
CPUS = "cpus"
CONTRIBUTION, LAST, COPY = "contribution, not the last", "last contribution, sum, ICRC of result", "one copy with its ICRC"


def measure_costs(payloads, counts):
    """What packets cost. counts: of children"""
    for payload in payloads:
        for children in counts:
            yield from run("bench_xdp", "--payload", payload, "--children", children)


def measure_xdp(how):
    yield from measure_costs((1024, 2048), CHILDREN)
    yield from run("bench_xdp", "--communicators", 1000)
    if os.cpu_count() > 1:
        for payload in (1024, 2048):
            yield from run("bench_xdp", "--payload", payload, "--cpus", ",".join(
                str(1 << i) for i in range(1, min(64, os.cpu_count()).bit_length())))


def xdp_least(rows, bench, payload, children=4, communicators=1, figure="min_ns"):
    """The least nanoseconds of a benchmark, or another figure of it; None if it was not measured."""
    wanted = (bench, payload, children, communicators)
    its = [r[figure] for r in rows if "min_ns" in r and (r["bench"], r["payload"], r["children"], r["communicators"]) == wanted]
    return min(its, default=None)


def xdp_ratio(rows, bench, payload):
    """The ratio to zlib's crc32 of the same bytes in the same rounds, with 4 children; or None."""
    return xdp_least(rows, bench, payload, figure="zlib_ratio")


def xdp_each(rows, payload, children):
    """Nanoseconds per contribution, if all children contribute to one sum and the switch sends the result; or
    None."""
    first, last = (xdp_least(rows, bench, payload, children) for bench in (CONTRIBUTION, LAST))
    return None if first is None or last is None else ((children - 1) * first + last) / children


def xdp_gbps(rows, payload, children=4):
    """Gbit/s of payload that the programs of one core receive. A contribution costs its share of the sum, and the
    copy of the result that its child gets."""
    each, copy = xdp_each(rows, payload, children), xdp_least(rows, COPY, payload, children)
    return None if each is None or copy is None else payload * 8 / (each + copy)


def show_xdp(rows):
    yield Table("XDP programs, ns a packet (BPF_PROG_TEST_RUN), 4 children", ["what", "least", "median", "of zlib's crc32"], [
        [f"{r['bench']}, {r['payload']} bytes" + (f", {r['communicators']} communicators" if r["communicators"] > 1 else ""),
         str(r["min_ns"]), str(r["median_ns"]), f"{r['zlib_ratio']:.2f}"]
        for r in rows if r["children"] == 4 and "min_ns" in r])
    lines = [[f"{what}, {payload} bytes"] + ["-" if ns is None else f"{ns:.0f}" for ns in its]
             for payload in (1024, 2048) for what, its in (
                 (CONTRIBUTION, [xdp_least(rows, CONTRIBUTION, payload, n) for n in CHILDREN]),
                 ("each contribution to a sum, all and sum", [xdp_each(rows, payload, n) for n in CHILDREN]))]
    yield Table("The same by children, ns, least", ["what"] + [str(n) for n in CHILDREN], lines)
    yield Table("Payload that the programs of one core receive, sum up and send to all children, Gbit/s",
                ["payload"] + [str(n) for n in CHILDREN],
                [[str(payload)] + ["-" if gbps is None else f"{gbps:.1f}" for gbps in (
                    xdp_gbps(rows, payload, n) for n in CHILDREN)] for payload in (1024, 2048)])


    its = [r for r in rows if r["bench"] == CPUS]
    if its:
        yield Table("Contributions on several CPUs at the same time, each with a communicator of its own",
                    ["CPUs", "million/s", "of one CPU", "zlib's crc32, of one CPU"], [
                        [f"{r['cpus']}, {r['payload']} bytes", f"{r['million_per_s']:.2f}", f"{r['ratio']:.2f}",
                         f"{r['zlib_ratio']:.2f}"] for r in its])


def measure_reduce(how):
    yield from run("bench_reduce")


def show_reduce(rows):
    for kinds, what in ((8, "of integers"), (3, "of floats")):
        heads, lines = pivot([r for r in rows if ("float" in r["type"]) == (kinds == 3)],
                             lambda r: f"{r['set']} {r['loop']}", lambda r: r["type"],
                             lambda r: f"{r['gigabytes_per_s']:.2f}")
        yield Table(f"Reductions on a host {what}, GB/s of the elements", ["loop"] + heads, lines)


def measure_many(how):
    yield from run("bench_many", "--rounds", 5 if how.quick else 20)


def of_copy(row):
    return row["gigabytes_per_s"] / row["copy_gigabytes_per_s"]


def show_many(rows):
    heads, lines = pivot(rows, lambda r: f"{r['set']}, {r['sources']} of {size_text(r['source_bytes'])}, "
                         f"copy {r['copy_gigabytes_per_s']:.1f}", lambda r: r["type"],
                         lambda r: f"{r['gigabytes_per_s']:.1f} {100 * of_copy(r):3.0f}%")
    yield Table("SUMs of many sources, GB/s read and written, and in percent of the best copy of as many bytes",
                ["sources"] + heads, lines)


def pair_gbps(cpus, seconds):
    """The payload of pairs of soft endpoints, each pair in a process on a CPU of its own, in Gbit/s of all."""
    path = os.path.join(BUILD, "bench", "bench_soft")
    own, peer = (lambda cpu: f"127.0.{cpu}.1"), (lambda cpu: f"127.0.{cpu}.2")
    jobs = [subprocess.Popen(["taskset", "--cpu-list", str(cpu), path, "--json", "--seconds", str(seconds), "--own", own(cpu),
                              "--peer", peer(cpu)], stdout=subprocess.PIPE, text=True) for cpu in range(cpus)]
    outs = [job.communicate(timeout=300)[0] for job in jobs]
    expect(not any(job.returncode for job in jobs), f"bench_soft on {cpus} CPUs: exit codes {[j.returncode for j in jobs]}")
    row = [next(r for r in map(json.loads, out.splitlines()) if r["what"] == "one channel, both ways") for out in outs]
    return sum(r["there_gbps"] + r["back_gbps"] for r in row)


def measure_soft(how):
    seconds = 1 if how.quick else 2
    yield from run("bench_soft", "--seconds", seconds)
    if (cpus := os.cpu_count()) > 1:  # as workers of a switch do, pairs share nothing
        ratios = [pair_gbps(cpus, seconds) / pair_gbps(1, seconds) for _ in range(how.rounds)]
        yield {"cpus": cpus, "ratio": statistics.median(ratios), "rounds": ratios}


def show_soft(rows):
    yield Table("A pair of soft endpoints over loopback, messages of 60 KiB, payload 1,024",
                ["what", "Gbit/s there", "back", "CPU ns a KiB, one end", "the other", "sent again"],
                [[r["what"], f"{r['there_gbps']:.2f}", f"{r['back_gbps']:.2f}", *(
                    f"{r[end]:.0f}" for end in ("one_ns_per_kib", "other_ns_per_kib")), str(r["retransmits"])]
                 for r in rows if "what" in r],
                [f"A pair on each of {r['cpus']} CPUs moves {r['ratio']:.2f} times what one pair on one CPU moves."
                 for r in rows if "ratio" in r])


def measure_route(how):
    yield from run("bench_route", "--runs", 1 if how.quick else 3)


def show_route(rows):
    seconds = ("route_s", "configure_s", "print_s", "total_s")
    yield Table("Routes and configurations of 1,000 communicators, computed without daemons, seconds",
                ["what", "ranks", "switches", "connections", *(s[:-2] for s in seconds)],
                [[r["bench"], *(str(r[k]) for k in ("ranks", "switches", "connections")),
                  *(f"{r[k]:.3f}" for k in seconds)] for r in rows])
