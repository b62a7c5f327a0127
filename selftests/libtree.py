# SPDX-License-Identifier: BSD-2-Clause
"""The files of this source tree, for tests that read it."""
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def text_of(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def tracked(*what):
    """The files that git has or would add, by their paths from the top. what: arguments of git ls-files."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "-co", "--exclude-standard", *what], capture_output=True,
                            text=True, check=True).stdout.splitlines()
    return [path for path in listed if os.path.isfile(os.path.join(TOP, path))]
