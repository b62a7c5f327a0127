# SPDX-License-Identifier: BSD-2-Clause
"""`bench compare`: AllReduce by another build of the project and by this one, on the same machine in turn. Every build
and variant gets a fresh lab in each round. This build is measured twice, and the ratio of the two measurements is the
noise floor."""
import argparse
import contextlib
import json
import os
import re
import shlex
import statistics
import sys

import costs
from costs import MEASURES
from libtest import BUILD, TOP, Failure, expect
from table import Table, size_text

OLD, NEW, SAME = "old", "new", "same"
LISTED = list(MEASURES)[:-1]  # softirqs of the whole machine are too noisy for lines of their own
LEAST = 1.0   # the ratio of smaller figures is meaningless
SLOWER = 0.97
PROGRAMS = ("inc-lab", "inc-controller", "inc-switchd", "inccl-perf")

SIZES, QUICK_SIZES = [4, 1 << 12, 1 << 16, 1 << 20], [4, 1 << 16]
PRIORITY = 1  # of switches and ranks with --real-time


class Build:
    """A build of the project, or a variant of this build."""

    def __init__(self, label, tree, programs, changes=()):
        """changes: (switches or ranks, text of an option or variable)"""
        self.label, self.tree, self.programs = label, tree, programs
        of = {where: [text for place, text in changes if place == where] for where in ("switch", "ranks")}
        words = {where: [t for t in texts if t.startswith("--")] for where, texts in of.items()}
        env = {where: dict(t.split("=", 1) for t in texts if not t.startswith("--")) for where, texts in of.items()}
        self.perf_args, self.rank_env = words["ranks"], env["ranks"]
        self.up_args = ("--switch-args", shlex.join(words["switch"])) if words["switch"] else ()
        self.daemon_env = {**os.environ, **env["switch"]}

    def check(self):
        if not os.path.exists(os.path.join(self.tree, "topo", "inc-lab.c")):
            raise Failure(f"{self.tree} is not a source tree of this project: it has no topo/inc-lab.c")
        for program in PROGRAMS:
            if not os.access(path := os.path.join(self.programs, program), os.X_OK):
                raise Failure(f"{self.tree} has no build: {path} is missing (run make there)")


def wrong(text, what):
    return argparse.ArgumentTypeError(f"'{text}' is not {what}")


def variant(text):
    """Parses LABEL:ITEM,ITEM. Returns (label, changes)."""
    match = re.fullmatch(r"([\w.-]+):(.+)", text)
    if not match or match[1] in (OLD, NEW, SAME):
        raise wrong(text, f"LABEL:ITEM,.. with a label other than {OLD}, {NEW}, {SAME}")
    changes = []
    for item in match[2].split(","):
        words = re.fullmatch(r"(?:(switch|ranks)\.)?(--[\w-]+(?:=.*)?|[A-Za-z_]\w*=.*)", item)
        if not words:
            raise wrong(item, "[switch.|ranks.]VARIABLE=VALUE or [switch.|ranks.]--option[=value]")
        places = [words[1]] if words[1] else ["ranks"] if words[2].startswith("--") else ["switch", "ranks"]
        changes += [(place, words[2]) for place in places]
    return match[1], changes


def size(text):
    match = re.fullmatch(r"([1-9]\d{0,9})([KMG]?)", text)
    if not match or (size_bytes := int(match[1]) << " KMG".index(match[2] or " ") * 10) % 4 or size_bytes > 1 << 30:
        raise wrong(text, "a multiple of 4 bytes, at most 1G")
    return size_bytes


def positive(text):
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < 1e6:
            return value
    raise wrong(text, "a positive number")


def add_options(parser):
    parser.add_argument("old", nargs="?", metavar="OLD_TREE", help="another source tree of this project, built")
    parser.add_argument("--size", type=size, action="append", metavar="BYTES",
                        help="of the vector, such as 64K (4, 4K, 64K, 1M); repeatable, as the next three")
    parser.add_argument("--ranks", type=int, choices=(1, 2, 4, 8), action="append", help="of the job (2, 4)")
    parser.add_argument("--mode", choices=costs.MODES, action="append", help="of the switch (both)")
    parser.add_argument("--type", choices=costs.DTYPES, action="append", help="of the elements (both)")
    parser.add_argument("--rounds", type=int, choices=range(1, 100), metavar="R",
                        help="in each of which every build gets a new lab (3)")
    parser.add_argument("--repeats", type=int, choices=range(1, 100), metavar="M", help="of each figure in each lab (3)")
    parser.add_argument("--variant", type=variant, action="append", default=[], metavar="LABEL:ITEM,..",
                        help="this build with VARIABLE=VALUE of switches and ranks, or with --option=value of inccl-perf; "
                        "switch. or ranks. before an item restricts it to either; repeatable")
    parser.add_argument("--rate", type=positive, metavar="MBIT", help="of links, which are wires then (veths alone)")
    parser.add_argument("--real-time", action="store_true", help="run switches and ranks in SCHED_FIFO")
    parser.add_argument("--limit", type=positive, default=60, metavar="SECONDS", help="after which a run is killed (60)")
    parser.add_argument("--quick", action="store_true", help="2 ranks, int32, 4 B and 64 KiB, one round, one repeat")
    parser.add_argument("--json", action="store_true", help="an object a line and figure, with all runs, instead of tables")
    parser.add_argument("--markdown", action="store_true", help="tables as documents have them")
    parser.add_argument("--from", dest="source", metavar="FILE", help="print what --json has written there, measure nothing")


def arguments(parser, words):
    """Parses the words behind `compare`."""
    add_options(parser)
    how = parser.parse_args(words)
    if (how.old is None) == (how.source is None):
        parser.error("compare requires either OLD_TREE or --from FILE")
    labels = [label for label, _ in how.variant]
    if len(set(labels)) < len(labels):
        parser.error("argument --variant: the same label twice")
    how.size = how.size or (QUICK_SIZES if how.quick else SIZES)
    how.ranks = how.ranks or ([2] if how.quick else [2, 4])
    how.mode = how.mode or list(costs.MODES)
    how.type = how.type or list(costs.DTYPES)[:1 if how.quick else None]
    how.rounds = how.rounds or (1 if how.quick else 3)
    how.repeats = how.repeats or (1 if how.quick else 3)
    return how


class Place(costs.Program):
    """A lab of a build, in which figures are measured."""

    def __init__(self, lab, build, how, where):
        super().__init__(lab)
        self.build, self.how, self.where = build, how, where
        if how.real_time:
            for switch in lab.switches:
                for thread in os.listdir(f"/proc/{switch['pid']}/task"):
                    os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(PRIORITY))
        self.run(how.type[0], how.size[0], 1)  # the first job of a lab costs the switch more than others

    def job(self, dtype, sizes, iterations):
        """Runs a job. A failure names the figure."""
        what = f"{self.where}, {dtype}, {', '.join(map(size_text, sizes))}"
        limit = f"killed after {self.how.limit:g} s (--limit)"
        try:
            result = costs.allreduce(self.lab, dtype, sizes, iterations, *self.build.perf_args,
                                     before=("chrt", "--fifo", PRIORITY) if self.how.real_time else (), env=self.build.rank_env,
                                     timeout=self.how.limit, check=False)
        except Failure as e:  # inc-lab did not end by itself
            raise Failure(f"{what}: {limit}: {e}") from None
        if result.code:
            why = limit if result.seconds >= self.how.limit else f"exit code {result.code}"
            raise Failure(f"{what}: {why}: {result.err.strip() or 'it printed no error'}")
        return costs.printed(result)

    def iterations(self, dtype, size_bytes):
        """The number of iterations that take as long as a figure shall take."""
        n = min(300, costs.FEWEST + (1 << 20) // size_bytes)
        while (us := self.job(dtype, [size_bytes], n)[size_bytes]["time_us"]) * n < costs.GO_S * 1e5 and n < costs.MOST:
            n *= 10
        return costs.enough(us)


@contextlib.contextmanager
def place(build, how, mode, hosts):
    """Starts a lab of this build."""
    where = f"{build.label}, {mode}, {hosts} hosts"
    with contextlib.ExitStack() as stack:
        try:
            lab = stack.enter_context(costs.rated_lab(
                f"star{hosts}.yaml", how.rate, *build.up_args, mode=mode, env=build.daemon_env,
                program=os.path.join(build.programs, "inc-lab")))
        except Failure as e:
            raise Failure(f"{where}: no lab: {e}") from None
        yield Place(lab, build, how, where)


class Comparison:
    """All runs so far."""

    def __init__(self, how):
        self.how = how
        this = (TOP, BUILD)
        old = os.path.abspath(how.old)
        self.builds = [Build(OLD, old, os.path.join(old, "build")), Build(NEW, *this), Build(SAME, *this)] + \
            [Build(label, *this, changes) for label, changes in how.variant]
        self.iterations = {}  # (mode, hosts, dtype, size): of every build
        self.runs = {}        # (mode, hosts, dtype, size, label): the runs

    def measure_lab(self, at, mode, hosts, number):
        kinds = [(dtype, size_bytes) for dtype in self.how.type for size_bytes in self.how.size]
        for repeat in range(1, self.how.repeats + 1):
            for kind in kinds:
                key = (mode, hosts, *kind)
                if key not in self.iterations:
                    self.iterations[key] = at.iterations(*kind)
                figure = at.figure(*kind, self.iterations[key])
                self.runs.setdefault((*key, at.build.label), []).append({"round": number, "repeat": repeat, **figure})

    def measure(self):
        for number in range(1, self.how.rounds + 1):
            first = (number - 1) % len(self.builds)
            for mode in self.how.mode:
                for hosts in self.how.ranks:
                    for build in self.builds[first:] + self.builds[:first]:
                        with place(build, self.how, mode, hosts) as at:
                            print(f"bench: round {number} of {self.how.rounds}: {at.where}", file=sys.stderr, flush=True)
                            self.measure_lab(at, mode, hosts, number)

    def rows(self):
        """A row for each figure and build."""
        trees = {b.label: b.tree for b in self.builds}
        for (mode, hosts, dtype, size_bytes, label), runs in self.runs.items():
            yield {"part": "compare", "mode": mode, "hosts": hosts, "dtype": dtype, "bytes": size_bytes, "build": label,
                   "tree": trees[label], "iterations": self.iterations[mode, hosts, dtype, size_bytes],
                   **medians(runs), "runs": runs}


def medians(runs):
    return {m: statistics.median(r[m] for r in runs) for m in MEASURES}


def ratio(one, other):
    return {m: one[m] / other[m] if min(one[m], other[m]) >= LEAST else None for m in MEASURES}


def by_round(one, other):
    """The ratio in each round of which both have runs: {measure: ratios}"""
    rounds = [{number: medians([r for r in row["runs"] if r["round"] == number]) for number in {r["round"] for r in row["runs"]}}
              for row in (one, other)]
    each = [ratio(rounds[0][n], rounds[1][n]) for n in sorted(set(rounds[0]) & set(rounds[1]))]
    return {m: [r[m] for r in each] for m in MEASURES}


def ratios(rows):
    """Compares rows of builds: old with new, and new with each variant. Yields a row for each figure and pair."""
    figures = {}
    for r in rows:
        figures.setdefault((r["mode"], r["hosts"], r["dtype"], r["bytes"]), {})[r["build"]] = r

    for (mode, hosts, dtype, size_bytes), of in figures.items():
        for first, second in [(OLD, NEW)] + [(NEW, label) for label in of if label not in (OLD, NEW, SAME)]:
            if {first, second, NEW, SAME} <= set(of):
                yield {"part": "compare", "mode": mode, "hosts": hosts, "dtype": dtype, "bytes": size_bytes,
                       "first": first, "second": second, "ratios": ratio(of[first], of[second]),
                       "noise": ratio(of[NEW], of[SAME]), "rounds": by_round(of[first], of[second]),
                       "noise_rounds": by_round(of[NEW], of[SAME])}


def number_text(figure):
    return f"{figure:.0f}" if figure >= 1000 else f"{figure:.1f}"


def ratio_text(value, noise):
    return "-" if value is None else f"{value:.3f} ({'-' if noise is None else f'{noise:.3f}'})"


def rounds_text(values):
    return " ".join("-" if v is None else f"{v:.2f}" for v in values)


def figure_text(row):
    return f"{row['hosts']} hosts, {row['dtype']}, {size_text(row['bytes'])}"


def mean_of(rows, measure):
    """The geometric means of a ratio and of its noise, as text."""
    means = []
    for key in ("ratios", "noise"):
        values = [r[key][measure] for r in rows if r[key][measure] is not None]
        means.append(statistics.geometric_mean(values) if values else None)
    return ratio_text(*means)


def show_pair(rows, figures, first, second):
    """Yields the tables of two builds. figures: {(mode, figure as text, build): row}"""
    its = [r for r in rows if (r["first"], r["second"]) == (first, second)]
    pair = f"{first} / {second}"
    for mode in dict.fromkeys(r["mode"] for r in its):
        lines = []
        for r in [r for r in its if r["mode"] == mode]:
            text = figure_text(r)
            one, other = (figures[mode, text, label] for label in (first, second))
            lines.append([text] + [cell for m in LISTED for cell in (
                number_text(one[m]), number_text(other[m]), ratio_text(r["ratios"][m], r["noise"][m]))])
        yield Table(f"{pair}, {mode}, of each AllReduce", ["figure"] + [
            head for m in LISTED for head in (f"{MEASURES[m]} {first}", second, pair)], lines)
    means = []
    for mode in dict.fromkeys(r["mode"] for r in its):
        of_mode = [r for r in its if r["mode"] == mode]
        for name, part in [(size_text(s), [r for r in of_mode if r["bytes"] == s]) for s in sorted(
                {r["bytes"] for r in its})] + [("all sizes", of_mode)]:
            means.append([f"{mode}, {name}"] + [mean_of(part, m) for m in MEASURES])
    yield Table(f"Geometric means of {pair}", ["figures"] + [text.removesuffix(" us") for text in MEASURES.values()], means)
    slower = [[f"{r['mode']}, {figure_text(r)}", MEASURES[m].removesuffix(" us"), ratio_text(r["ratios"][m], r["noise"][m]),
               rounds_text(r["rounds"][m]), rounds_text(r["noise_rounds"][m])]
              for r in its for m in LISTED if (r["ratios"][m] or 1) < SLOWER]
    yield Table(f"Figures of {pair} below {SLOWER}", ["figure", "what", pair, "in each round", f"{NEW} / {SAME} in each round"],
                slower, [] if slower else ["There are none."])


def show(rows):
    """Yields the tables of rows of --json."""
    rows = [r for r in rows if "build" in r]
    compared = list(ratios(rows))
    trees = {r["build"]: r["tree"] for r in rows}
    figures = {(r["mode"], figure_text(r), r["build"]): r for r in rows}
    yield Table("AllReduce by builds of the project", ["build", "tree"], [[label, tree] for label, tree in trees.items()], [
        f"Medians of {max((len(r['runs']) for r in rows), default=0)} runs. In parentheses: {NEW} / {SAME}, which are the same "
        "programs in labs of their own.",
        "A ratio within the noise of its line, or on both sides of 1 in different rounds, means nothing. '-' is the ratio of "
        "figures below 1.",
        "The kernel's work for a packet counts for the process whose system call causes it, often a host.",
        "Softirqs are those of the whole machine, with all other load."])
    for first, second in dict.fromkeys((r["first"], r["second"]) for r in compared):
        yield from show_pair(compared, figures, first, second)


def measure(how):
    """Measures. Returns rows, which lack builds after a failure, and whether it succeeded."""
    if os.geteuid():
        raise Failure("needs root (network namespaces, XDP)")
    comparison, ok = Comparison(how), True
    for build in comparison.builds:
        build.check()
    if how.real_time:
        with open("/proc/sys/kernel/sched_rt_runtime_us", encoding="ascii") as f:
            expect(int(f.read()) > 0, "--real-time could hang this machine, because kernel.sched_rt_runtime_us is -1")
    try:
        comparison.measure()
    except Failure as e:
        print(f"bench: compare: {e}", file=sys.stderr, flush=True)
        ok = False
    return list(comparison.rows()), ok


def run(how):
    """Measures, or reads what was measured. Returns rows for --json and whether it succeeded."""
    try:
        if how.source:
            with open(how.source, encoding="utf-8") as f:
                rows, ok = [r for r in map(json.loads, f) if "build" in r], True
        else:
            rows, ok = measure(how)
    except (Failure, OSError) as e:
        print(f"bench: compare: {e}", file=sys.stderr, flush=True)
        return [], False
    return rows + list(ratios(rows)), ok
