# SPDX-License-Identifier: BSD-2-Clause
"""What the end-to-end tests share: labs, jobs, named cases, time limits."""
import contextlib
import ctypes
import itertools
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

from libproc import (QUICK_MPI, Daemons, Failure, Result, at_terminal, awake_stopwatch, command, ends_within, expect, gone, runtime_of, stands_still, stopped,  # noqa: F401
                     stopwatch, wait_for)

TOP = os.environ.get("INC_TOP") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("INC_BUILD") or os.path.join(TOP, "build")
os.environ["PATH"] = BUILD + ":" + os.environ["PATH"]

# The mode of labs' switches, for tests that run in several modes (`MODES:`, selftests/run).
MODE = os.environ.get("INC_TEST_MODE", "passthrough")
TERMINATION = MODE == "termination"
# Values for inccl-perf --mode. A switch in termination mode has no memory that a host could WRITE to.
SEND_MODES = ("sendrecv",) if TERMINATION else ("sendrecv", "write")
SENDS_OR_WRITES = SEND_MODES[-1]

# For labs in which a test stops a rank for a long time, so that it does not count as dead.
PATIENT = ("--controller-args", "--member-timeout-ms 0")
PAUSE_MS = 5  # pause of a job between its collectives, where the test needs a running job rather than a busy one
# For labs with many more processes than CPUs. A rank or switch that gets no CPU for seconds must not count as dead.
CROWDED = ("--controller-args", "--member-timeout-ms 0 --switch-timeout-ms 60000")

libc = ctypes.CDLL(None, use_errno=True)

failures = 0
open_labs = []


class Skip(Exception):
    """The reason why a case cannot run here."""


def show_labs():
    """Prints the state of all labs, to help to understand a failure."""
    for lab in open_labs:
        try:
            lab.show()
        except Exception as e:  # a broken lab must not hide its own cause
            print(f"--- {lab.name}: {e}", flush=True)


@contextlib.contextmanager
def case(name):
    """Prints one result line. A failure does not end the test's other cases."""
    global failures
    try:
        yield
    except Skip as e:
        print(f"skip {name}: {e}", flush=True)
    except Failure as e:
        failures += 1
        print(f"not ok {name}: {str(e).strip().splitlines()[0]}", flush=True)
        print(str(e), flush=True)
        show_labs()
    except Exception as e:
        failures += 1
        print(f"not ok {name}: {type(e).__name__}: {e}".splitlines()[0], flush=True)
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        show_labs()
    else:
        print(f"ok {name}", flush=True)


def main(test):
    """Runs test(), cleans up at every kind of end, and exits."""
    def stop(number, frame):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(128 + number)

    if os.geteuid():
        print(f"skip {os.path.basename(sys.argv[0])}: needs root (network namespaces, XDP)")
        sys.exit(0)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with case("the test itself"):
        test()
        raise SystemExit(1 if failures else 0)
    sys.exit(1)


def ask_switch(instance, what):
    """The answer of a local inc-switchd, from its socket. Many communicators come in pages."""
    pages, more = [], {}
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(f"/run/inc/{instance}.sock")
        with s.makefile("rw") as f:
            while more is not None:
                f.write(json.dumps({"type": "query", "seq": 1, "what": what, **more}) + "\n")
                f.flush()
                line = f.readline()
                expect('"answer"' in line, f"{what}: {line}")
                answer = json.loads(line)
                pages.append(answer["data"])
                more = {"from": answer["next"]} if "next" in answer else None
    return pages[0] if len(pages) == 1 else [entry for page in pages for entry in page]


METRIC = re.compile(r'([a-z_]+)(?:\{(.*)\})? ([0-9.]+)')
SERIES = {"counter": {""}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}


def check_histogram(values, family):
    """Checks that each histogram has growing buckets, and that the last one, +Inf, equals the count."""
    counts = {labels: n for (name, labels), n in values.items() if name == family + "_count"}
    for labels, n in counts.items():
        buckets = {float(dict(with_le)["le"]): value for (name, with_le), value in values.items()
                   if name == family + "_bucket" and
                   tuple(l for l in with_le if l[0] != "le") == labels}
        row = [buckets[le] for le in sorted(buckets)]
        expect(row == sorted(row) and buckets[math.inf] == n, f"{family} {labels}: {buckets}")
        expect((family + "_sum", labels) in values, f"{family} {labels}: no sum")


def parse_metrics(text):
    """Returns {(name, ((label, value), ...)): value} of Prometheus text. Checks that each family occurs once, with
    HELP and TYPE before its samples. Labels stay escaped."""
    values, seen, family, kind = {}, set(), None, None
    for line in text.splitlines():
        word = line.split(" ")
        if word[:2] == ["#", "HELP"]:
            family = word[2]
            expect(family not in seen and len(word) > 4, f"again, or without a text: {line}")
            seen.add(family)
        elif word[:2] == ["#", "TYPE"]:
            kind = word[3]
            expect(word[2] == family and kind in SERIES, line)
            expect((kind == "counter") == family.endswith("_total"), line)
        else:
            match = METRIC.fullmatch(line)
            expect(match and match[1] in {family + end for end in SERIES[kind]},
                   f"no sample of {family}: {line}")
            labels = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")))
            expect((match[1], labels) not in values, f"twice: {line}")
            values[match[1], labels] = float(match[3])
    for family in seen:
        check_histogram(values, family)
    return values


@contextlib.contextmanager
def inside(netns):
    """Moves the calling thread to a network namespace for the duration of a with block."""
    with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{netns}") as other:
        expect(libc.setns(other.fileno(), 0x40000000) == 0, f"setns {netns}")
        try:
            yield
        finally:
            libc.setns(own.fileno(), 0x40000000)


@contextlib.contextmanager
def scratch():
    """A directory for the duration of a test."""
    path = tempfile.mkdtemp(prefix="inc-test-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def full_pipe():
    """Both ends of a pipe that is full and not read."""
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writer, bytes(size))
        os.set_blocking(writer, True)
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


def read_now(reader):
    """What is in the pipe, without the zeros that filled it."""
    os.set_blocking(reader, False)
    text = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(reader, 1 << 16):
            text += part
    return text.replace(b"\0", b"").decode(errors="replace")


def topology_ports(topology):
    """Returns (switch, {"name", "ip", "peer"}) for each port in a file of topo/, in its order."""
    ports, switch = [], None
    with open(os.path.join(TOP, "topo", topology), encoding="utf-8") as f:
        for line in f:
            fields = dict(re.findall(r"(\w+): ([^\s,{}]+)", line))
            if "peer" in fields:
                ports.append((switch, fields))
            elif line.startswith("  - name: "):
                switch = fields["name"]
    return ports


ONE_PERCENT = "loss: 0.01, duplicate: 0.01, corrupt: 0.01, reorder: 0.01"


def with_wires(directory, topology, faults="", only=None):
    """Writes a copy of the topology in which every link is a wire with these faults; `only`: the named links. Returns
    its path and the wires' names."""
    with open(os.path.join(TOP, "topo", topology)) as f:
        text = f.read()
    expect("links:" not in text, f"{topology} says something of links")
    wires = {}
    lines = ["links:"]
    for n, (own, port) in enumerate(topology_ports(topology), 1):
        peer = port["peer"]
        if (own, peer) in wires.values() or (peer, own) in wires.values() or \
                only and f"{peer}-{own}" not in only:
            continue
        wires[f"{peer}-{own}"] = (peer, own)
        lines.append(f"  - between: [{peer}, {own}]\n"
                     f"    wire: {{{faults}{', ' if faults else ''}seed: {n}}}")
    path = os.path.join(directory, topology)
    with open(path, "w") as f:
        f.write(text.rstrip() + "\n" + "\n".join(lines) + "\n")
    return path, list(wires)


def with_mode(path, mode, directory):
    """Writes a copy of a topology whose switches are all in this mode. Returns its path."""
    with open(path, encoding="utf-8") as f:
        hosts, switches, rest = re.split(r"^(switches:\n)", f.read(), maxsplit=1, flags=re.M)
    rest = re.sub(r"^(  - name: .*\n)", rf"\1    mode: {mode}\n", rest, flags=re.M)
    out = os.path.join(directory, os.path.basename(path))
    with open(out, "w", encoding="utf-8") as f:
        f.write(hosts + switches + rest)
    return out


def with_mtu(path, mtu, directory):
    """Writes a copy of a topology whose links have this MTU, if they have none of their own. Returns its path."""
    with open(path, encoding="utf-8") as f:
        text, n = re.subn(r"^(defaults: .*mtu: )\d+", rf"\g<1>{mtu}", f.read(), flags=re.M)
    expect(n == 1, f"{path} has {n} default MTUs")
    out = os.path.join(directory, os.path.basename(path))
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)
    return out


def with_modes(path, modes, directory):
    """Writes a copy of a topology with these modes of switches, {name: mode}. Returns its path."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for name, mode in modes.items():
        text, n = re.subn(rf"^(  - name: {name}\n)", rf"\1    mode: {mode}\n", text, flags=re.M)
        expect(n == 1, f"{path} has {n} switches {name}")
    out = os.path.join(directory, "-".join(modes) + "-" + os.path.basename(path))
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)
    return out


def sizes(*elements):
    return [4 * n for n in elements]


class Job:
    """A command on all hosts that runs in the background."""

    def __init__(self, args):
        self.args = args
        self.out = tempfile.TemporaryFile("w+", errors="replace")
        self.watch = stopwatch()
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.out, text=True)

    def text(self):
        self.out.seek(0)
        return self.out.read()

    def running(self):
        return self.process.poll() is None

    def wait(self, seconds, check=True):
        if not ends_within(self.process, seconds):
            self.stop()
            raise Failure(f"not done after {seconds} s: {' '.join(self.args)}\n" + self.text()[-6000:])
        result = Result(self.args, self.process.returncode, self.text(), "", self.watch())
        return result.ok() if check else result

    def stop(self):
        if self.running():
            self.process.terminate()
            if not ends_within(self.process, 10):
                self.process.kill()
                self.process.wait()


class Lab(Daemons):
    """with Lab("star4.yaml") as lab: a lab that is removed at the end. Its switches are in the test's mode;
    mode=None: in those of the file. mtu: of all links, instead of the file's. Unless books is False, the switch's
    packet counters must balance at the end. program: the inc-lab of another build. env: the environment of the
    lab's daemons."""

    def __init__(self, topology, *up_args, books=True, mode=MODE, mtu=None, program="inc-lab", env=None):
        self.topology = topology if "/" in topology else os.path.join(TOP, "topo", topology)
        self.up_args = up_args
        self.books = books
        self.program, self.env = program, env
        self.files = None
        if mtu or mode not in (None, "passthrough"):
            self.files = tempfile.TemporaryDirectory(prefix="inc-test-")
        if mtu:
            self.topology = with_mtu(self.topology, mtu, self.files.name)
        if mode not in (None, "passthrough"):
            self.topology = with_mode(self.topology, mode, self.files.name)
        self.name = "t" + os.urandom(3).hex()
        self.jobs = []
        super().__init__()

    def __enter__(self):
        command(self.program, "up", self.topology, "--name", self.name, *self.up_args, timeout=180, env=self.env)
        try:
            with open(f"/run/inc-lab/{self.name}.json", encoding="utf-8") as f:
                self.state = json.load(f)
            self.hosts = [n for n in self.state["nodes"] if n["role"] == "host"]
            self.switches = [n for n in self.state["nodes"] if n["role"] == "switch"]
        except BaseException:
            self.down()
            raise
        open_labs.append(self)
        return self

    def __exit__(self, kind, value, trace):
        try:
            for job in self.jobs:
                job.stop()
            if kind is None and self.books:
                with case(f"{os.path.basename(self.topology)}: the books balance"):
                    self.check_books()
        finally:
            open_labs.remove(self)
            failed = self.end_restarted()
            self.down()
            if kind is None:
                expect(not failed, f"exit codes of daemons that were started again: {failed}")

    def down(self):
        command(self.program, "down", "--name", self.name, timeout=60, check=False)
        if self.files:
            self.files.cleanup()

    def show(self):
        """Prints the lab's state, to help to understand a failure."""
        for args in (("counters",), ("connections",), ("waiting",), ("events",)):
            result = self.incctl(*args, check=False)
            print(f"--- incctl {' '.join(args)}\n{result.out}{result.err}")
        for node in self.state["nodes"]:
            if "log" in node:
                with contextlib.suppress(OSError), open(node["log"], errors="replace") as f:
                    print(f"--- log of {node['name']}\n{f.read()[-4000:]}")
        sys.stdout.flush()

    def node(self, name):
        return next(n for n in self.state["nodes"] if n["name"] == name)

    def exec(self, node, *args, **more):
        return command(self.program, "exec", "--name", self.name, node, "--", *args, **more)

    def _run_args(self, args, options, env, timeout):
        """The command line of a run. Its own limit only ends a run whose test has been killed, because inc-lab does not
        know how many programs share the CPUs (awake_stopwatch()). A limit among the options replaces it."""
        out = [self.program, "run", "--name", self.name]
        if timeout and "--timeout" not in options:
            out += ["--timeout", str(10 * timeout)]
        for key, value in (env or {}).items():
            out += ["--env", f"{key}={value}"]
        return out + list(options) + ["--"] + [str(a) for a in args]

    def run(self, *args, options=(), env=None, timeout=60, check=True):
        """Runs a command on every host to its end."""
        return command(*self._run_args(args, options, env, timeout), timeout=timeout, check=check)

    def start(self, *args, options=(), env=None, timeout=300):
        """Starts a command on every host in the background."""
        job = Job(self._run_args(args, options, env, timeout))
        self.jobs.append(job)
        return job

    def traffic(self, *args, options=(), env=None, timeout=300):
        """Starts AllReduces that go on until the job is stopped. The ranks pause between them, because a job that only
        has to run needs no whole CPU."""
        return self.start("inccl-perf", "allreduce", "--sizes", "65536", "-n", "1000000", "--pause-ms", PAUSE_MS, *args,
                          options=options, env=env, timeout=timeout)

    def perf(self, *args, options=(), env=None, timeout=60, collective="allreduce"):
        """Runs inccl-perf --check on every host. Returns rank 0's rows, of which none may be wrong."""
        result = self.run("inccl-perf", collective, *args, "--check", "--json",
                          options=("--no-prefix", "--only", "0", *options), env=env,
                          timeout=timeout)
        return perf_rows(result, args)

    def members(self, job=None):
        """Returns {rank: pid} of a job's running processes (None: of any job), found by their environment."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
            except OSError:
                continue
            if env.get(b"INC_LAB") == self.name.encode() and b"INCCL_RANK" in env and \
                    job in (None, env.get(b"INCCL_JOB", b"").decode()):
                found[int(env[b"INCCL_RANK"])] = int(pid)
        return found

    def incctl(self, *args, check=True, env=None, **more):
        """Runs incctl beside the controller as `inc-lab exec` does. inc-lab itself is not started, because that would take
        as much CPU time as the question, and tests ask often."""
        if self.program != "inc-lab":
            return self.exec("controller", "incctl", *args, check=check, env=env, **more)
        node, key = self.node("controller"), f"/run/inc-lab/{self.name}/admin.identity"
        env = {**(env or os.environ), "INCCL_CONTROLLER": node["mgmt"], "INC_LAB": self.name}
        env.pop("INCCL_KEY", None)
        if os.path.exists(key):
            env["INCCL_KEY"] = key
        with inside(node["netns"]):
            return command("incctl", *args, check=check, env=env, **more)

    def ask(self, *args):
        """incctl's answer as JSON."""
        result = self.incctl(*args, "--json")
        try:
            return json.loads(result.out)
        except ValueError as e:
            raise Failure(f"not JSON ({e}): {result.story()}") from None

    def switch_data(self, what):
        """The answer of a switch; with several switches, that of the first one."""
        data = self.ask(what)
        return data[0]["data"]

    def switch_local(self, what):
        """The first switch's answer on its own socket, without the controller and without a process of incctl."""
        try:
            return ask_switch(self.switches[0]["instance"], what)
        except OSError as e:
            raise Failure(f"{self.switches[0]['name']} does not answer: {e}") from None

    def counters(self):
        """Returns {name: value} of the first switch's counters."""
        return {c["name"]: c["value"] for c in self.switch_local("counters")["counters"]}

    def cpu_counters(self):
        """The first switch's counters for each CPU, in passthrough mode: {CPU: {counter: value}}."""
        def number(octets):
            return int.from_bytes(bytes(int(o, 16) for o in octets), sys.byteorder)

        names = [c["name"] for c in self.switch_local("counters")["counters"]]
        path = f"/sys/fs/bpf/inc/{self.switches[0]['instance']}/inc_counter"
        found = {}
        for row in json.loads(command("bpftool", "-j", "map", "dump", "pinned", path).out):
            for value in row["values"]:
                found.setdefault(value["cpu"], {})[names[number(row["key"])]] = number(value["value"])
        return found

    def workers(self, before=None):
        """The CPUs that have handled contributions on the first switch since this answer of cpu_counters()."""
        kinds = ("absorbed_stored", "absorbed_ahead", "answered_ack", "multicast_result")
        return {cpu for cpu, now in self.cpu_counters().items()
                if any(now[k] > (before[cpu][k] if before else 0) for k in kinds)}

    def results(self):
        """How many results the first switch has made: messages in termination mode, else packets. An engine has
        counters only since its first communicator."""
        return self.counters().get("multicast_result", 0)

    def wait_standstill(self, seconds=0.5, limit_s=20):
        """Waits until the first switch has made no result for this time."""
        last, since = None, stopwatch()

        def unchanged():
            nonlocal last, since
            if (now := self.results()) != last:
                last, since = now, stopwatch()
            return since() > seconds
        wait_for("standstill", unchanged, limit_s)

    def check_books(self):
        result = self.incctl("counters", "--check", check=False)
        expect(result.code == 0, "the books do not balance: " + result.story())

    def wire(self, wire, *specs):
        return command(self.program, "wire", "--name", self.name, wire, *specs)

    def wire_stats(self, wire):
        return json.loads(self.wire(wire, "stats").out)

    def changes(self, wire, run):
        """Returns {direction: {counter: increase}} of the wire during this run."""
        before = self.wire_stats(wire)
        run()
        after = self.wire_stats(wire)
        return {d: {k: after[d][k] - before[d][k] for k in after[d]} for d in after}

    def count_packets(self, wire, run):
        """The data packets of one undisturbed run per direction, which tells where "last" is. It is the least of
        several runs, because on a busy machine a timer may cause a retransmission."""
        counts = []
        while len(counts) < 10 and (not counts or counts.count(min(counts)) < 2):
            seen = self.changes(wire, run)
            counts.append((seen["up"]["data"], seen["down"]["data"]))
        return dict(zip(("up", "down"), map(min, zip(*counts))))

    def strike(self, wire, direction, fault, n, run, fault_too="clear"):
        """Runs with fault(n) until the fault has hit a packet, and returns the changes of that run. n is the number
        of data packets that an undisturbed run sends in this direction. Several runs may be necessary: not every run
        sends an ACK, because a result may replace it; and n may have been counted in a run with a retransmission."""
        for _ in range(20):
            spec = fault(n)
            self.wire(wire, "clear", fault_too, spec)
            seen = self.changes(wire, run)[direction]
            if self.wire_stats(wire)[direction]["armed"] == 0:
                return seen
            n = min(n, seen["data"])
        raise Failure(f"{spec} did not strike: {seen}")

    def expect_faults(self, wires, *kinds):
        """Checks that each of these faults has occurred on at least one of the wires."""
        directions = [d for wire in wires for d in self.wire_stats(wire).values()]
        for kind in kinds:
            expect(sum(d[kind] for d in directions) > 0, f"nothing {kind}: {directions}")


def perf_sizes(args):
    """The sizes in bytes that inccl-perf's arguments request, one per row; None: its default sizes."""
    given = {args[i]: args[i + 1] for i in range(len(args) - 1) if str(args[i]).startswith("-")}

    def number(text):
        text = str(text)
        return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] \
            if text[-1] in "KMG" else int(text)

    if "--sizes" in given:
        return [number(x) for x in str(given["--sizes"]).split(",")]
    if not {"-b", "-e", "-f"} <= set(given):
        return None
    out = [number(given["-b"])]
    while out[-1] * int(given["-f"]) <= number(given["-e"]):
        out.append(out[-1] * int(given["-f"]))
    return out


def json_rows(result):
    """The rows of an inccl-perf --json, unchecked."""
    rows = []
    for line in result.out.splitlines():
        line = re.sub(r"^\[\d+\] ", "", line)
        if line.startswith("{"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                raise Failure(f"not JSON: '{line}' from {result.story()}") from None
    return rows


def perf_rows(result, args=()):
    """The rows of an inccl-perf --json, checked. With its arguments given, the rows must be those requested.
    inccl-perf itself counts wrong elements; selftests/hostlib tests that it does."""
    rows = json_rows(result)
    expect(rows, "no rows from " + result.story())
    sizes = perf_sizes(args)
    if sizes is not None and "all" in args:
        # Each type has rows of all sizes, which inccl-perf cuts down to whole elements or blocks of that type.
        units = [row["bytes"] // row["count"] for row in rows]
        sizes = [size // unit * unit for size, unit in zip(itertools.cycle(sizes), units)]
    expect(sizes is None or [row["bytes"] for row in rows] == sizes,
           f"rows of {[row['bytes'] for row in rows]} bytes where {sizes} were asked for: "
           + result.story())
    for row in rows:
        expect(row["wrong"] == 0, f"{row['wrong']} wrong elements at {row['bytes']} bytes: "
               + result.story())
    return rows
