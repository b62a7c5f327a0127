# SPDX-License-Identifier: BSD-2-Clause
"""The figures of `bench` that have a goal, and whether they reach it. Figures in nanoseconds require an idle
machine."""
import costs
import jobs
import modes
import programs
from table import Table, size_text


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
    for r in rows:
        if r["bench"] == programs.CPUS and r["cpus"] == 2:
            yield at_least(f"contributions on 2 CPUs, {r['payload']} bytes, beside one", r["ratio"], 1.9, "{:.2f}")
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


# How much faster than Open MPI the better mode shall be: {hosts: {bytes: ratio}}
BESIDE_MPI = {4: {4: 1, 1 << 12: 1, 1 << 24: 1.3}, 8: {4: 1, 1 << 12: 1, 1 << 16: 0.8, 1 << 20: 1, 1 << 24: 1}}


def of_soft(rows):
    for r in rows:
        if r.get("cpus") == 2:
            yield at_least("pairs of soft endpoints on 2 CPUs beside one", r["ratio"], 1.9, "{:.2f}")


def of_modes(rows):
    took = {(r["hosts"], r["mode"], r["dtype"], r["bytes"]): r for r in rows if "time_us" in r}

    def better(hosts, dtype, size):
        """The row of the better mode and that of Open MPI, or None."""
        both = [took[hosts, m, dtype, size] for m in modes.MODES if (hosts, m, dtype, size) in took]
        mpi = took.get((hosts, modes.MPI, "float32", size))
        return (min(both, key=lambda r: r["time_us"]), mpi) if both and mpi else None

    for (hosts, mode, dtype, size), row in took.items():
        if (hosts, mode, dtype, size) == (2, modes.TERMINATION, "float32", 1 << 24) and "rate_mbit" not in row:
            yield at_least("2 hosts, termination, float32, 16 MiB, Gbit/s", row["gbps"], 6, "{:.2f}")
    for hosts, goals in BESIDE_MPI.items():
        for size, goal in goals.items():
            for dtype in modes.DTYPES:
                if pair := better(hosts, dtype, size):
                    yield from of_pair(*pair, goal)
    yield from of_plan(rows)


def of_node(rows):
    for r in rows:
        yield at_least(f"{r['ranks']} ranks of one machine, {size_text(r['bytes'])}, speed beside Open MPI's", r["ratio"], 0.9,
                       "{:.2f}")


def of_mpi(rows):
    worst = min(rows, key=lambda r: r["ratio"])
    yield at_least(f"an MPI program with the library beside Open MPI alone, worst of {len(rows)} "
                   f"({worst['hosts']} hosts, {worst['per_host']} ranks each, {size_text(worst['bytes'])})", worst["ratio"], 0.95, "{:.2f}")
    for r in rows:
        if (r["hosts"], r["bytes"]) == (8, 1 << 24) and r["rate_mbit"] and r["per_host"] < 8:
            yield at_least(f"an MPI program, 8 hosts, {r['per_host']} ranks each, links of {r['rate_mbit']:g} Mbit/s, 16 MiB, "
                           f"{r['idle_cpus']:.1f} CPUs idle, beside Open MPI alone",
                           r["ratio"], 1.6, "{:.2f}")


def of_collnet(rows):
    for (hosts, rate, size), us in jobs.collnet_cells(rows).items():
        for ring in jobs.RINGS:
            better = us[ring] / min(us[mode] for mode in costs.MODES)
            if (hosts, rate, size) == (4, 1000, 16 << 20):
                yield at_least(f"CollNet of 4 nodes, links of 1 Gbit/s, 16 MiB, beside the {ring}", better, 1.6, "{:.2f}")
            if (hosts, rate, size) == (8, None, 4 << 10):
                yield at_most(f"CollNet of 8 nodes, 4 KiB, its latency beside that of the {ring}", 1 / better, 0.7, "{:.2f}")


def of_plan(rows):
    """Judges the predictions of inc-controller --plan."""
    ratios = [r["plan_us"] / r["time_us"] for r in rows if "plan_us" in r]
    if ratios:
        within = sum(1 / 1.3 <= ratio <= 1.3 for ratio in ratios)
        yield at_least(f"figures of {len(ratios)} that inc-controller --plan predicts within 30 percent", within, len(ratios))


def of_pair(row, mpi, goal):
    """Judges the better mode beside Open MPI."""
    what = f"{row['hosts']} hosts, {row['mode']}, {row['dtype']}, {size_text(row['bytes'])}"
    if "rate_mbit" in row:
        if row["rate_mbit"] == 1000 and (row["hosts"], row["bytes"]) == (8, 1 << 24):
            yield at_least(f"{what}, links of 1 Gbit/s, Gbit/s, or 1.7 times Open MPI's", row["gbps"],
                           min(0.55, 1.7 * mpi["gbps"]), "{:.2f}")
        return
    yield at_least(f"{what}, speed beside Open MPI's", mpi["time_us"] / row["time_us"], goal, "{:.2f}")
    if row["hosts"] == 8 and row["bytes"] >= 1 << 20:
        yield at_most(f"{what}, hosts' CPU beside Open MPI's", row["hosts_cpu_us"] / mpi["hosts_cpu_us"], 0.6, "{:.2f}")


def tables(rows):
    """The table of those measured figures that have a goal."""
    lines = []
    for part, judge in (("xdp", of_xdp), ("soft", of_soft), ("many", of_many), ("modes", of_modes), ("node", of_node), ("mpi", of_mpi),
                        ("collnet", of_collnet)):
        its = of_part(rows, part)
        if its:
            lines += judge(its)
    if lines:
        yield Table("Goals", ["figure", "measured", "goal", "reached"], lines)
