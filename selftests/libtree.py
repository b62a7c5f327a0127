# SPDX-License-Identifier: BSD-2-Clause
"""The files of this source tree, for tests that read it, and for tests that build a program with a changed copy of one source,
in which a fault is planted. Nothing in build/ changes: make's lines for the program are repeated with other paths."""
import os
import shlex
import shutil
import subprocess

from libtest import BUILD, TOP, expect


def text_of(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def tracked(*what):
    """The files that git has or would add, by their paths from the top. what: arguments of git ls-files."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "-co", "--exclude-standard", *what], capture_output=True,
                            text=True, check=True).stdout.splitlines()
    return [path for path in listed if os.path.isfile(os.path.join(TOP, path))]


# ---- planted faults ----

def build_lines(program):
    """Returns {file: the words of make's line that makes it} for a program (its path in build/) and everything that
    it consists of."""
    says = subprocess.run(["make", "-n", "-B", "V=1", "-j1", os.path.relpath(os.path.join(BUILD, program), TOP)],
                          cwd=TOP, capture_output=True, text=True, check=True).stdout
    lines = [shlex.split(x) for x in says.splitlines() if " -o " in x]
    return {words[words.index("-o") + 1]: words for words in lines}


def changed_tree(directory, path, changes):
    """Writes a copy of the file at `path` below directory, with each (old, new) exchanged. For a header of the XDP
    programs all of bpf/ is copied, because these include each other."""
    if path.startswith("bpf/"):
        shutil.copytree(os.path.join(TOP, "bpf"), os.path.join(directory, "bpf"))
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        text = f.read()
    for old, new in changes:
        expect(text.count(old) == 1, f"{path} has {text.count(old)} times: {old}")
        text = text.replace(old, new)
    os.makedirs(os.path.dirname(os.path.join(directory, path)), exist_ok=True)
    with open(os.path.join(directory, path), "w", encoding="utf-8") as f:
        f.write(text)


def planted(lines, program, directory, path, changes, of=None):
    """Builds the program with a changed copy of the file at `path`. `of` is the source that includes the file; None
    if the file is a source. Returns the new program's path."""
    changed_tree(directory, path, changes)
    of = of or path
    made, = [o for o, words in lines.items() if "-c" in words and of in words]
    words, and_then = list(lines[made]), []
    if "&&" in words:
        words, and_then = words[:words.index("&&")], words[words.index("&&") + 1:]
    out = os.path.join(directory, "changed.o")
    copy = os.path.join(directory, of)
    words = [copy if w == of and os.path.exists(copy) else out if w == made else w
             for w in words if w not in ("-MMD", "-MP")]
    beside = os.path.join(TOP, os.path.dirname(of))  # where an #include "x.h" of a copied source must be found
    options = next(i for i, word in enumerate(words) if word.startswith("-"))  # CC may be several words
    subprocess.run(words[:options] + ["-I" + directory, "-iquote", beside, "-w"] + words[options:], cwd=TOP, check=True)
    if and_then:
        subprocess.run([out if w == made else w for w in and_then], cwd=TOP, check=True)
    target = os.path.relpath(os.path.join(BUILD, program), TOP)
    new = os.path.join(directory, os.path.basename(program))
    link = [new if w == target else w for w in lines[target]]
    if made in link:
        link[link.index(made)] = out
    else:  # the file is in an archive: the linker uses the first definition
        link.insert(link.index(new) + 1, out)
    subprocess.run(link, cwd=TOP, check=True)
    return new
