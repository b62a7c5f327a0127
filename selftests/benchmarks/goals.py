# SPDX-License-Identifier: BSD-2-Clause
"""The figures of `bench` that have a goal, and whether they reach it. Figures in nanoseconds require an idle
machine."""
import modes
import programs
from table import Table


def of_part(rows, part):
    return [r for r in rows if r["part"] == part and "skipped" not in r and "failed" not in r]


def at_most(what, measured, goal, form="{:.0f}"):
    return [what, form.format(measured), "<= " + form.format(goal), "yes" if measured <= goal else "no"]


def at_least(what, measured, goal, form="{:.0f}"):
    return [what, form.format(measured), ">= " + form.format(goal), "yes" if measured >= goal else "no"]


def of_xdp(rows):
    for what, payload, goal in ((programs.CONTRIBUTION, 1024, 0.75), (programs.CONTRIBUTION, 2048, 0.75),
                                (programs.LAST, 1024, 1.7)):
        ratio = programs.xdp_ratio(rows, what, payload)
        if ratio is not None:
            yield at_most(f"{what}, 4 children, {payload} bytes, beside zlib's crc32", ratio, goal, "{:.2f}")
    ns = programs.xdp_least(rows, programs.COPY, 1024)
    if ns is not None:
        yield at_most(f"{programs.COPY}, 4 children, 1024 bytes, ns", ns, 80)
    for payload in (1024, 2048):
        for what, cost in ((programs.CONTRIBUTION, lambda n, p=payload: programs.xdp_least(rows, programs.CONTRIBUTION, p, n)),
                           ("each contribution to a sum, all and sum", lambda n, p=payload: programs.xdp_each(rows, p, n))):
            its = [cost(n) for n in programs.CHILDREN]
            if None not in its:
                yield at_most(f"{what}, {payload} bytes, worst of 4 to 32 children beside 2", max(its[1:]) / its[0], 1.1,
                              "{:.2f}")


def of_many(rows):
    rows = [r for r in rows if r["set"] == rows[0]["set"]]  # the fastest set of loops that this CPU runs
    for types, goal in ((("float32",), 80), (("float16", "bfloat16"), 50)):
        for sources in (2, 4, 8):
            its = [r for r in rows if r["type"] in types and r["sources"] == sources]
            if its:
                worst = min(its, key=programs.of_copy)
                yield at_least(f"{' and '.join(types)}, {sources} sources, percent of a copy, at worst "
                               f"({worst['source_bytes'] >> 10} KiB)", 100 * programs.of_copy(worst), goal)


def of_modes(rows):
    gbps = {(r["hosts"], r["mode"]): r["gbps"] for r in rows if r.get("bytes") == 1 << 24 and r["dtype"] == "float32"}
    if (2, modes.TERMINATION) in gbps:
        yield at_least("2 hosts, termination, float32, 16 MiB, Gbit/s", gbps[2, modes.TERMINATION], 6, "{:.2f}")
    if (8, modes.TERMINATION) in gbps and (8, modes.MPI) in gbps:
        yield at_least("8 hosts, the same, beside Open MPI", gbps[8, modes.TERMINATION], gbps[8, modes.MPI], "{:.2f}")


def tables(rows):
    """The table of those measured figures that have a goal."""
    lines = []
    for part, judge in (("xdp", of_xdp), ("many", of_many), ("modes", of_modes)):
        its = of_part(rows, part)
        if its:
            lines += judge(its)
    if lines:
        yield Table("Goals", ["figure", "measured", "goal", "reached"], lines)
