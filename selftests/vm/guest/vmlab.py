# SPDX-License-Identifier: BSD-2-Clause
"""Shared parts of the tests in the virtual machine: the lab, rxe's counters, captures.

A test that imports this module runs in the virtual machine. Elsewhere the import executes in-guest, which runs the
same test there. So a test imports this module before it imports what only the guest has. `GUEST: OPTION` near the top
of the test's source gives an option to in-guest."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import libtest  # noqa: E402
from libtest import BUILD, TOP, Failure, case, command, expect, perf_rows, wait_for  # noqa: E402,F401

SWITCH_NETNS = "sw"
GUEST_LAB = os.path.join(TOP, "topo", "vm", "guest-lab")
ENDING_S = 30  # time for in-guest's own clean-up before selftests/run ends it


def enter_guest(test):
    """Executes in-guest instead of this process, with a limit shortly below that of selftests/run."""
    with open(test, encoding="utf-8") as f:
        head = f.read(4096)
    limit_s = int(re.search(r"^# TIMEOUT: (\d+)$", head, re.M)[1]) - ENDING_S
    options = re.findall(r"^# GUEST: (.+)$", head, re.M)
    name = os.path.basename(test).partition("_")[2]
    more = [f"{key}={os.environ.get(key, '')}" for key in ("FULL", "SEED")]
    at = os.path.join(TOP, "selftests", "vm")
    os.execv(os.path.join(at, "in-guest"),
             ["in-guest", *options, name, str(limit_s), "env", *more, os.path.abspath(test), *sys.argv[1:]])


if "INC_VM_OUT" not in os.environ:
    enter_guest(sys.argv[0])
OUT = os.environ["INC_VM_OUT"]
# Results keep their order only when one CPU serves all ports (docs/protocol.md, P-84).
NAPI = f"threaded:{max(os.sched_getaffinity(0))}"


def guest_lab(*args, **more):
    return command(GUEST_LAB, *args, **more)


@contextlib.contextmanager
def lab(hosts, *args):
    guest_lab("up", hosts, *args, timeout=120)
    try:
        yield
    finally:
        guest_lab("down", timeout=60)


def run(*args, ranks=None, transport="verbs", timeout=120, check=True, env=None):
    """Runs a command on every host to its end. Lines have a rank prefix."""
    options = ["--transport", transport, "--limit", str(timeout)]
    if ranks:
        options += ["--ranks", str(ranks)]
    return guest_lab("run", *options, "--", *args, timeout=timeout + 20, check=check,
                     env=dict(os.environ, **(env or {})))


class Background:
    """A command on every host that runs in the background. The constructor returns once host 0 has sent this many
    packets. LIMIT_S ends it if the test does not. It is longer than any test waits for it."""
    LIMIT_S = 600

    def __init__(self, *args, ranks, transport="verbs", packets=1000):
        before = rxe_counters(0)["sent_pkts"]
        self.args = [GUEST_LAB, "run", "--ranks", str(ranks), "--transport", transport,
                     "--limit", str(self.LIMIT_S), "--", *args]
        self.process = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            wait_for("data to flow", lambda: rxe_counters(0)["sent_pkts"] > before + packets, 90)
        except BaseException:
            self.process.terminate()
            print(self.process.communicate()[1], flush=True)
            raise

    def end(self, seconds):
        watch = libtest.stopwatch()
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            out, err = self.process.communicate()
            raise Failure(f"not done after {seconds} s\n{out[-3000:]}\n{err[-3000:]}") from None
        return libtest.Result(self.args, self.process.returncode, out, err, watch())


def perf(*args, collective="allreduce", **more):
    result = run(os.path.join(BUILD, "inccl-perf"), collective, *args, "--check", "--json", **more)
    return perf_rows(result, args)


def gid_of(address):
    """The GID of an IPv4 address, in the kernel's form."""
    return "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))


def rxe_counters(host):
    """The hw_counters of rxeI."""
    out = {}
    path = f"/sys/class/infiniband/rxe{host}/ports/1/hw_counters"
    for name in os.listdir(path):
        with contextlib.suppress(OSError, ValueError), open(os.path.join(path, name)) as f:
            out[name] = int(f.read())
    return out


def rxe_total(hosts, before=None):
    """The sum over the hosts, less `before`."""
    total = {}
    for host in range(hosts):
        for name, value in rxe_counters(host).items():
            total[name] = total.get(name, 0) + value
    return {k: v - (before or {}).get(k, 0) for k, v in total.items()}


def device_drops(process="self"):
    """Returns {name: (received, sent) packets that the interface dropped for lack of room} in the process's
    namespace."""
    with open(f"/proc/{process}/net/dev") as f:
        rows = [line.replace(":", " ").split() for line in f.readlines()[2:]]
    return {row[0]: (int(row[4]), int(row[12])) for row in rows}


def kernel_drops(hosts, before=None):
    """Packets that rings and queues between rxe and the switch have dropped on a busy machine, less `before`: {out:
    from hosts to the switch, in: the other way, either: unknown direction}."""
    with open("/run/guest-lab/switchd.pid") as f:
        switch = device_drops(f.read().strip())
    now, own = {"out": 0, "in": 0, "either": 0}, device_drops()
    for i in range(hosts):
        for drops, received, sent in ((own[f"h{i}"], "in", "out"), (switch[f"p{i}"], "out", "in")):
            now[received] += drops[0]
            now[sent] += drops[1]
    with open("/proc/net/softnet_stat") as f:
        now["either"] = sum(int(line.split()[1], 16) for line in f)
    return {k: v - (before or {}).get(k, 0) for k, v in now.items()}


def counters(before=None):
    """The switch's counters, less `before`."""
    return {c["name"]: c["value"] - (before or {}).get(c["name"], 0)
            for c in libtest.ask_switch("s0", "counters")["counters"]}


def connections(communicator):
    return sorted((c for c in libtest.ask_switch("s0", "connections")
                   if c["communicator"] == communicator), key=lambda c: c["rank"])


def qdisc_stats(dev):
    """Returns {sent, dropped} of the netem on dev: the packets that it has sent, with repeated ones, and dropped."""
    text = command("tc", "-s", "-j", "qdisc", "show", "dev", dev).out
    for q in json.loads(text):
        if q["kind"] == "netem":
            return {"sent": q["packets"], "dropped": q["drops"]}
    raise Failure(f"no netem on {dev}: {text}")


@contextlib.contextmanager
def netem(host, direction, *what):
    guest_lab("loss", host, direction, *what)
    try:
        yield
    finally:
        guest_lab("loss", host, direction, "off")


class Capture:
    """Captures all RoCEv2 frames of a host's wire, in both directions, into $INC_VM_OUT/NAME."""

    def __init__(self, host, name):
        self.host = host
        self.before = self.frames()
        self.process = subprocess.Popen(
            ["dumpcap", "-i", f"h{host}", "-f", "udp port 4791", "-w", os.path.join(OUT, name)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.set_blocking(self.process.stderr.fileno(), False)
        self.text = ""

    def frames(self):
        c = rxe_counters(self.host)
        return c["sent_pkts"] + c["rcvd_pkts"]

    def says(self, pattern):
        self.text += (self.process.stderr.read() or b"").decode()
        return re.findall(pattern, self.text)

    def __enter__(self):
        wait_for("dumpcap to start", lambda: self.says("File: "), 30)
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                # everything that rxe has sent and received must be in the file before dumpcap stops
                wait_for("dumpcap to have all", lambda: int((self.says(r"Packets: (\d+)") or [0])[-1])
                         >= self.frames() - self.before, 20)
        finally:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
        lost = self.says(r"dropped on interface '[^']*': \d+/(\d+)")
        expect(kind or lost == ["0"], "dumpcap lost frames: " + self.text[-500:])
