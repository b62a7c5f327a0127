# SPDX-License-Identifier: BSD-2-Clause
"""Faults planted in copies of the product's sources, each with a simulation of its own (test_planted,
test_planted_cluster): what builds, and what looks for the seed that shows it."""
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from libtest import BUILD, TOP, Skip, case, expect, scratch  # noqa: E402

HERE = os.path.join(TOP, "selftests/sim")


def build_lines(name):
    """What make does to build a simulation from nothing."""
    says = subprocess.run(["make", "-n", "-B", "V=1", "-C", HERE,
                           os.path.relpath(os.path.join(BUILD, name), HERE)],
                          capture_output=True, text=True, check=True).stdout
    lines = [shlex.split(x) for x in says.splitlines() if " -o " in x]
    return {words[words.index("-o") + 1]: words for words in lines}


def compile_copy(lines, path, directory):
    """The object of a file, or of the data path where it is one of its headers, with the changed
    files before the tree's. Returns which object it stands for, and itself."""
    objects = os.path.relpath(os.path.join(BUILD, "selftests/sim"), HERE)
    if path.startswith("bpf/"):
        of, source = os.path.join(objects, "xdp.o"), "xdp.c"
        words = list(lines[of])
    else:
        of = os.path.relpath(os.path.join(BUILD, path[:-2] + ".o"), HERE)
        source = os.path.join(directory, path)
        words = list(lines[os.path.join(objects, "sim.o")])
    out = os.path.join(directory, "changed.o")
    words[words.index("-o") + 1] = out
    words[words.index("-c") + 1 if path.startswith("bpf/") and words[-1] == "-c" else -1] = source
    words = [w for w in words if w not in ("-MMD", "-MP")]
    subprocess.run(words[:1] + ["-I" + directory, "-I" + HERE, "-w"] + words[1:], cwd=HERE,
                   check=True)
    return of, out


def plant(name, lines, directory, path, old, new):
    """The simulation with a changed copy of one file."""
    if path.startswith("bpf/"):
        shutil.copytree(os.path.join(TOP, "bpf"), os.path.join(directory, "bpf"))
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        text = f.read()
    expect(text.count(old) == 1, f"{path} has {text.count(old)} times: {old}")
    os.makedirs(os.path.dirname(os.path.join(directory, path)), exist_ok=True)
    with open(os.path.join(directory, path), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    of, changed = compile_copy(lines, path, directory)
    program = os.path.join(directory, name)
    words = list(lines[os.path.relpath(os.path.join(BUILD, name), HERE)])
    words[words.index("-o") + 1] = program
    if of in words:
        words[words.index(of)] = changed
    else:  # one of the library's: the first one wins
        words.insert(words.index("-o") + 2, changed)
    subprocess.run(words, cwd=HERE, check=True)
    return program


def run(program, *args):
    try:
        return subprocess.run([program, *map(str, args)], capture_output=True, text=True,
                              check=False, timeout=120, errors="replace")
    except subprocess.TimeoutExpired:
        expect(False, "nothing was found in time")


def find_all(name, faults, seeds):
    """A case for each fault: what is wrong then, the file, what stands there, what in its place."""
    if not os.path.exists(os.path.join(BUILD, name)):
        with case("all"):
            raise Skip(name + " is not there")
        return
    lines = build_lines(name)
    for what, path, old, new in faults:
        with case(what), scratch() as directory:
            program = plant(name, lines, directory, path, old, new)
            done = run(program, "--seeds", seeds)
            found = re.search(r"^seed (\d+)( at .* us)?: .*$", done.stdout, re.M)
            expect(done.returncode == 1 and found, "nothing was found:\n" + done.stdout[-2000:])
            again = run(program, "--seed", found[1])
            expect(again.returncode == 1 and found[0] in again.stdout,
                   f"not again: {found[0]}\n{again.stdout[-2000:]}")
            print(f"# {found[0]}", flush=True)
