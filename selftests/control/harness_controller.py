# SPDX-License-Identifier: BSD-2-Clause
"""A real controller on ephemeral loopback ports, whose members and switches are scripted (fakes/control_peers.py)."""
import contextlib
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from fakes.control_peers import TIMEOUT_S, Line, Member, Switch  # noqa: E402
from libtest import BUILD, TOP, Failure, expect, scratch  # noqa: E402


class Controller:
    """A running controller: `with Controller() as c: c.member(), c.switch()`. At the end checks that it still runs
    and stops cleanly.
    """

    def __init__(self, *args, topology="star4.yaml", program=None, ports=(0, 0), through=(),
                 database="none", stderr=None):
        """through: a command that starts it. stderr: a descriptor; without one the log is a file."""
        self.stderr = stderr
        if "/" not in topology:
            topology = os.path.join(TOP, "topo", topology)
        self.args = [*through, program or os.path.join(BUILD, "inc-controller"),
                     "--topology", topology, "--database", database,
                     "--listen", "127.0.0.1", "--member-port", str(ports[0]),
                     "--switch-port", str(ports[1]),
                     # scripted members answer no pings unless the test asks for them
                     *([] if "--member-timeout-ms" in args else ["--member-timeout-ms", "0"]),
                     *map(str, args)]

    def __enter__(self):
        self.lines = []
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.stderr or self.log, text=True,
                                        # freed memory counts in tests that measure memory, so a sanitizer may hold
                                        # only a little of it
                                        env=dict(os.environ, ASAN_OPTIONS=":".join((
                                            os.environ.get("ASAN_OPTIONS", ""),
                                            "quarantine_size_mb=4")).strip(":")))
        words = self.process.stdout.readline().split()
        if len(words) != 5 or words[0] != "ready":
            self.stop()
            raise Failure(f"the controller says '{' '.join(words)}'")
        self.member_port = int(words[2].rsplit(":", 1)[1])
        self.switch_port = int(words[4].rsplit(":", 1)[1])
        return self

    def __exit__(self, kind, value, trace):
        died = self.process.poll()
        code = self.stop()
        for line in self.lines:
            line.close()
        if kind is None:
            expect(died is None, f"the controller died, exit code {died}")
            expect(code == 0, f"exit code {code} of the controller")
            expect("is no step" not in self.logged(), "a state machine left its table")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        sys.stderr.write(self.logged())
        return self.process.returncode

    def logged(self):
        # read() would move the file offset, which is also that of the controller
        log = self.log.fileno()
        return os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace")

    def _add(self, line):
        self.lines.append(line)
        return line

    def member(self, source=None):
        return self._add(Member(self.member_port, source))

    def switch(self, **hello):
        """A switch that is connected and welcomed."""
        return self._add(Switch(self.switch_port)).hello(**hello).welcome()

    def raw_switch(self):
        return self._add(Switch(self.switch_port))

    def group(self, job, n, **more):
        """A formed group of n members."""
        members = [self.member().join(job, rank, n, **more) for rank in range(n)]
        return [m.joined() for m in members]

    def derive(self, old, how, round=0, **more):
        """Asks for a derived group on a new connection of each old member. The answers have not been received yet."""
        return [self.member().derive(m, how, round, **more) for m in old]

    def started(self, switch, members, comm=0, **changes):
        """Starts a communicator of these members and returns its number."""
        return self.started_on([switch], members, comm, **changes)

    def started_on(self, switches, members, comm=0, **changes):
        """The same on several switches."""
        for m in members:
            m.ask(comm, **changes)
        number = [s.configure() for s in switches][0]["communicator"]
        for m in members:
            m.want("C", comm=comm, communicator=number)
            m.send(type="ready", communicator=number)
        for m in members:
            m.want("start", communicator=number)
        return number

    def ask(self, what, **more):
        """All pages of the controller's answer to incctl's question; of a switch's answer only the first page."""
        tool = Line(self.member_port)
        data = []
        try:
            while True:
                tool.send(type="A", what=what, **more)
                got = tool.want("A", what=what)
                data += got["data"]
                if "next" not in got:
                    return data
                more["from"] = got["next"]
        finally:
            tool.close()

    def memory_kb(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(next(x for x in f if x.startswith("VmRSS:")).split()[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def until(what, condition, seconds=TIMEOUT_S):
    from libtest import wait_for
    return wait_for(what, condition, seconds)


@contextlib.contextmanager
def file_with(text):
    with scratch() as path:
        name = os.path.join(path, "topology.yaml")
        with open(name, "w") as f:
            f.write(text)
        yield name
