# SPDX-License-Identifier: BSD-2-Clause
"""The costs that inc-controller --plan uses, as the figures of the part `modes` yield them, and what the plan predicts
for these figures."""
import json
import os

from costs import DTYPES, MODES, PASSTHROUGH
from libtest import TOP, command
from table import Table, size_text

# In passthrough mode the kernel's work for the switch counts for the hosts' processes. A profile of 4 hosts with 16 MiB
# found this part of their CPU time in the switch's XDP programs and its ports' receive path.
SWITCH_SHARE = 0.34
PAYLOAD = 2048
WHEN = ("alone", "crowded", "packed")  # the cases that have costs of their own, as in controller/core/plan.h


def line(points):
    """The line through (x, y, weight) whose weighted errors are smallest. Returns (y at 0, slope), neither negative."""
    total = sum(w for _, _, w in points)
    mean_x, mean_y = (sum(p[2] * p[i] for p in points) / total for i in (0, 1))
    spread = sum(w * (x - mean_x) ** 2 for x, _, w in points)
    slope = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in points) / spread if spread else 0
    return max(mean_y - slope * mean_x, 0), max(slope, 0)


def costs_of(rows, cores):
    """The costs of a mode and type. rows: of modes"""
    passthrough = rows[0]["mode"] == PASSTHROUGH
    share = SWITCH_SHARE if passthrough else 0
    points = {"host": [], "child": [], "rest": []}
    for r in rows:
        hosts_us, switch_us = r["hosts_cpu_us"] * (1 - share), r["hosts_cpu_us"] * share + r["switch_cpu_us"]
        for end, us in (("host", hosts_us), ("child", switch_us), ("rest", cores * r["time_us"] - hosts_us - switch_us)):
            points[end].append((-(-r["bytes"] // PAYLOAD) if passthrough else r["bytes"], us * 1e3 / r["hosts"],
                                r["time_us"] ** -2))  # so that relative errors of times count
    out = {}
    for end, its in points.items():
        call_ns, unit_ns = line(its)
        out[end] = {"call_ns": round(call_ns), "packet_ns": round(unit_ns) if passthrough else 0,
                    "byte_ns": 0 if passthrough else round(unit_ns, 3)}
    return out


def when_of(hosts, cores):
    return WHEN[(hosts > cores) + (hosts > 2 * cores)]


def fit(rows, cores):
    """The table of costs, as inc-controller --costs reads it. rows: of modes"""
    table = {}
    for mode in MODES:
        for dtype in DTYPES:
            its = [r for r in rows if (r["mode"], r["dtype"]) == (mode, dtype)]
            for when in WHEN:
                if part := [r for r in its if when_of(r["hosts"], cores) == when]:
                    table[f"{when}_{mode}_{dtype}"] = costs_of(part, cores)
    return table


def predict(row, cores, costs=None):
    """What inc-controller predicts for a row of modes, in us."""
    out = command("inc-controller", "--plan", os.path.join(TOP, "topo", f"star{row['hosts']}.yaml"), "--bytes", row["bytes"],
                  "--type", row["dtype"], "--mode", row["mode"], "--cores", cores, "--json",
                  *(("--costs", costs) if costs else ())).out
    return json.loads(out)["time_us"]


def show(rows, cores):
    """Yields the tables of rows of `modes` that have a prediction."""
    its = [r for r in rows if "plan_us" in r]
    columns = list(dict.fromkeys((r["mode"], r["dtype"]) for r in its))
    took = {(r["hosts"], r["bytes"], r["mode"], r["dtype"]): r for r in its}

    def cell(job, column):
        r = took.get((*job, *column))
        return f"{r['plan_us']:.0f} us ({r['plan_us'] / r['time_us']:.2f})" if r else "-"

    if its:
        yield Table(f"Time that inc-controller --plan --cores {cores} predicts, and its ratio to the measured one",
                    ["job"] + [f"{m}, {d}" for m, d in columns], [
                        [f"{hosts} hosts, {size_text(size)}"] + [cell((hosts, size), c) for c in columns]
                        for hosts, size in sorted({(r["hosts"], r["bytes"]) for r in its})])
        yield Table("Costs of this machine, a file for inc-controller --costs", ["key", "value"], [
            [f"{key}:", json.dumps(value).replace('"', "")] for key, value in fit(its, cores).items()])
