# SPDX-License-Identifier: BSD-2-Clause
"""Plants faults in copies of the product's sources, and builds a simulation with each (test_planted,
test_planted_cluster). Then it searches the seed that shows the fault.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from libtest import BUILD, Skip, case, expect, scratch  # noqa: E402
from libtree import build_lines, planted  # noqa: E402

SCENARIO_SEEDS = 200


def run(program, *args):
    try:
        return subprocess.run([program, *map(str, args)], capture_output=True, text=True,
                              check=False, timeout=300, errors="replace")
    except subprocess.TimeoutExpired:
        expect(False, "nothing was found in time")


def search_scenario(program, text, path):
    """Runs a scenario with its seed and the seeds that follow, until one shows the fault. A change of the traffic moves
    a fault to other seeds, but one seed in some dozen shows it. Returns the last run, and the arguments that repeat it.
    """
    first = int(re.match(r"seed (\d+)\n", text)[1])
    for seed in range(first, first + SCENARIO_SEEDS):
        with open(path, "w", encoding="utf-8") as f:
            f.write(re.sub(r"^seed \d+", f"seed {seed}", text))
        done = run(program, "--scenario", path)
        if done.returncode:
            break
    return done, ("--scenario", path)


def find_all(name, faults, seeds):
    """Runs a case for each fault: what is wrong, the file, the text there, the text in its place, and perhaps the
    first seed to try, or a scenario, for a fault that few random scenarios show.
    """
    if not os.path.exists(os.path.join(BUILD, name)):
        with case("all"):
            raise Skip(name + " is not there")
        return
    lines = build_lines(name)
    for what, path, old, new, *first in faults:
        with case(what), scratch() as directory:
            of = "selftests/sim/xdp.c" if path.startswith("bpf/") else None
            program = planted(lines, name, directory, path, [(old, new)], of)
            if first and isinstance(first[0], str):
                done, search = search_scenario(program, first[0], os.path.join(directory, "scenario"))
            else:
                search = ("--seed", *(first or [1]), "--seeds", seeds)
                done = run(program, *search)
            found = re.search(r"^seed (\d+)( at .* us)?: .*$", done.stdout, re.M)
            expect(done.returncode == 1 and found, "nothing was found:\n" + done.stdout[-2000:])
            again_by = search if "--scenario" in search else ("--seed", found[1])
            sound = run(os.path.join(BUILD, name), *again_by)
            expect(sound.returncode == 0, f"without the fault as well: {sound.stdout[-2000:]}")
            again = run(program, *again_by)
            expect(again.returncode == 1 and found[0] in again.stdout,
                   f"not again: {found[0]}\n{again.stdout[-2000:]}")
            print(f"# {found[0]}", flush=True)
