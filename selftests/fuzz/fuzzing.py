# SPDX-License-Identifier: BSD-2-Clause
"""What test_fuzz and `make fuzz` share: which targets there are, a target's kept corpus, and a run of one."""
import glob
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("INC_BUILD", os.path.join(TOP, "build"))
INPUT_S = 120  # limit for one input, whose few milliseconds become seconds at low priority on a busy machine
PROGRAMS = os.path.join(BUILD, "selftests/fuzz")
FOUND = os.path.join(PROGRAMS, "found")  # inputs that made a target fail
GROWN = os.path.join(PROGRAMS, "grown")  # new inputs of long runs


def targets():
    return sorted(re.sub(r".*/fuzz_|\.c$", "", path)
                  for path in glob.glob(os.path.join(HERE, "fuzz_*.c")))


def program(target):
    return os.path.join(PROGRAMS, "fuzz_" + target)


# The file in which the repository keeps the corpora, each in a folder with its target's name.
ARCHIVE = os.path.join(HERE, "corpora.tar.xz")


def corpora():
    """A directory with the kept corpora, which is unpacked once for each version of the archive."""
    with open(ARCHIVE, "rb") as f:
        data = f.read()
    directory = os.path.join(PROGRAMS, "corpora", hashlib.sha256(data).hexdigest()[:16])
    if not os.path.isdir(directory):
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        fresh = tempfile.mkdtemp(dir=os.path.dirname(directory))
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(fresh)
        try:
            os.rename(fresh, directory)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
    return directory


def corpus(target):
    """A directory with the target's kept corpus, which is empty if there is none yet."""
    directory = os.path.join(corpora(), target)
    os.makedirs(directory, exist_ok=True)
    return directory


def copy(target, scratch):
    """A directory in scratch with the kept corpus."""
    return shutil.copytree(corpus(target), os.path.join(scratch, target))


def pack(target, directory):
    """Makes the directory's files the target's kept corpus. The same files make the same archive."""
    kept = {name: os.path.join(corpora(), name) for name in os.listdir(corpora())} | {target: directory}
    with tarfile.open(ARCHIVE + ".new", "w:xz", preset=9) as tar:
        for folder in sorted(kept):
            for name in sorted(os.listdir(kept[folder])):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size = os.path.getsize(os.path.join(kept[folder], name))
                with open(os.path.join(kept[folder], name), "rb") as f:
                    tar.addfile(entry, f)
    os.rename(ARCHIVE + ".new", ARCHIVE)


def usual_runs(target):
    """The executions of `make test-all`, as the target's source says; `make test` has one of 32."""
    with open(os.path.join(HERE, f"fuzz_{target}.c"), encoding="utf-8") as f:
        return int(re.search(r"RUNS: (\d+)", f.read(2000)).group(1))


class Outcome:
    """The result of a finished run."""

    def __init__(self, target, returncode, text):
        self.target, self.text = target, text
        count = re.search(r"stat::number_of_executed_units:\s+(\d+)", text)
        self.executions = int(count.group(1)) if count else 0
        self.ok = returncode == 0
        artifact = re.search(r"Test unit written to (\S+)", text)
        self.artifact = artifact.group(1) if artifact else None

    def reason(self):
        lines = [x for x in self.text.splitlines() if re.search(
            r"\.[ch]:\d+: |: runtime error: |ERROR: |libFuzzer: ", x)]
        line = lines[0].strip() if lines else "it failed without a word"
        if self.artifact:
            line += f"; replay: {program(self.target)} {self.artifact}"
        return line


def start(target, learn, *options):
    """Starts a run from the kept corpus; new inputs are written to the directory learn."""
    found = os.path.join(FOUND, target)
    os.makedirs(found, exist_ok=True)
    os.makedirs(learn, exist_ok=True)
    return subprocess.Popen(
        [program(target), "-print_final_stats=1", f"-timeout={INPUT_S}", "-rss_limit_mb=3000",
         f"-artifact_prefix={found}/", *options, learn, corpus(target)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=TOP,
        text=True, errors="replace")


def finish(target, process):
    text = process.communicate()[0]
    return Outcome(target, process.returncode, text)
