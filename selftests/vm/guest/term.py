#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Termination mode on rxe: jobs through a root and two leaves whose ports are rxe devices, failures below them, and
the endpoints alone (whose own result lines count)."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

from vmlab import BUILD, OUT, Background, case, command, expect, lab, libtest, perf, run, \
    rxe_counters, wait_for

# rxe works in the initial namespace only, so the switches are there like the hosts, at the ends of wires. The
# namespace between these routes. One leaf has one device for its children and one for its parent.
HOSTS = 4
SWITCHES = {"s0": (4, 7), "s1": (5,), "r": (6,)}
ENDS = 8
TOPOLOGY = """\
name: term
hosts:
  - {name: h0, ip: 10.77.0.1}
  - {name: h1, ip: 10.77.1.1}
  - {name: h2, ip: 10.77.2.1}
  - {name: h3, ip: 10.77.3.1}
switches:
  - name: r
    root: true
    mode: termination
    ports:
      - {name: h6, ip: 10.77.6.1, peers: [s0, s1], bridge: b0}
  - name: s0
    mode: termination
    ports:
      - {name: h4, ip: 10.77.4.1, peers: [h0, h1], bridge: b0}
      - {name: h7, ip: 10.77.7.1, peer: r, bridge: b0}
  - name: s1
    mode: termination
    ports:
      - {name: h5, ip: 10.77.5.1, peers: [r, h2, h3], bridge: b0}
bridges:
  - {name: b0}
defaults: {prefix: 16, mtu: 4200}
"""
SOFT_TOO = "verbs,soft,verbs,soft"
SOON_S = 10  # errors must be reported within this time


@contextlib.contextmanager
def daemon(name, program, *args):
    with open(os.path.join(OUT, name + ".log"), "w") as log:
        process = subprocess.Popen([os.path.join(BUILD, program), *args], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def daemon_log(name):
    with open(os.path.join(OUT, name + ".log"), encoding="utf-8") as f:
        return f.read().splitlines()


def incctl(*args, **more):
    return command(os.path.join(BUILD, "incctl"), *args, **more)


def ask(switch, what):
    return json.loads(incctl("--switch", switch, what, "--json").out)[0]["data"]


@contextlib.contextmanager
def switches():
    """Starts the controller and a daemon for each switch. Returns {switch: process}."""
    topology = "/run/guest-lab/topology.yaml"
    with open(topology, "w") as f:
        f.write(TOPOLOGY)
    with open("/run/guest-lab/controller", "w") as f:
        f.write("127.0.0.1")
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon("controller", "inc-controller", "--listen", "127.0.0.1", "--database", "none",
                                   "--topology", topology, "--switch-timeout-ms", "30000", "--member-timeout-ms", "0"))
        wait_for("the controller", lambda: incctl("switches", check=False).code == 0, 60)
        processes = {}
        for name, ends in SWITCHES.items():
            ports = [word for i in ends for word in ("--port", f"h{i}")]
            processes[name] = stack.enter_context(
                daemon(name, "inc-switchd", "--controller", "127.0.0.1", "--name", name, *ports,
                       "--mode", "termination"))
        wait_for("the switches", lambda: incctl("switches", "--json").out.count('"connected"')
                 == len(SWITCHES), 60)
        yield processes


def empty():
    wait_for("empty switches", lambda: not any(ask(s, "communicators") for s in SWITCHES), 20)


def job(name, *args, ranks=HOSTS, collective="allreduce", transport="verbs"):
    with case(name):
        before = {i: rxe_counters(i)["sent_pkts"] for i in (4, 5, 6, 7)}
        rows = perf("-n", "2", "-w", "1", *args, collective=collective, ranks=ranks, timeout=200,
                    transport=transport)
        expect({row["transport"] for row in rows} == {transport.split(",")[0]}, f"{rows}")
        sent = {i for i, n in before.items() if rxe_counters(i)["sent_pkts"] > n}
        expect(sent == {4, 5, 6, 7} or ranks < 3 and 4 in sent,
               f"devices of switches that have sent: {sent}")
        for row in rows:
            print(f"# {name}: {row['bytes']} bytes {row['time_us']:.0f} us, {row['algbw_gbps']:.3f} Gbit/s",
                  flush=True)


# Most jobs have short messages and few of them, because registering memory is slow on an emulated machine.
FEW = ("--message-packets", "4", "--window", "16")


def jobs():
    """Contents are checked. Sizes: empty, one element, a short last packet, a short last message."""
    job("allreduce", "--sizes", "0,4,1028,65540,1M")
    with case("packets of 4096 bytes, which the MTU of 4200 has room for"):
        made = next(line for line in daemon_log("controller") if "communicator" in line and "payload" in line)
        expect("payload 4096," in made, made)
    job("allreduce_2048", "--payload", "2048", "--sizes", "4,65540")
    job("allreduce_of_1", *FEW, "--sizes", "0,4,65540", ranks=1)
    job("max_of_float16_of_3", *FEW, "--dtype", "float16", "--op", "max", "--sizes", "4,1028,65540",
        ranks=3)  # one leaf has only one child
    for collective, transport in (("reduce", "verbs"), ("broadcast", SOFT_TOO), ("reducescatter", "verbs"),
                                  ("allgather", "verbs")):
        job(collective, *FEW, "--sizes", "0,16,4112,65552", "--root", "2", collective=collective,
            transport=transport)
    job("barrier", *FEW, collective="barrier")
    job("sum_of_float32_soft_and_verbs", *FEW, "--dtype", "float32", "--sizes", "4,65540",
        transport=SOFT_TOO)


def members():
    """Returns {rank: pid} of a job's processes."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                if f.read().strip() != "inccl-perf":
                    continue
            with open(f"/proc/{pid}/environ", "rb") as f:
                found[int(re.search(rb"INCCL_RANK=(\d+)", f.read())[1])] = int(pid)
    return found


def endless():
    return Background(os.path.join(BUILD, "inccl-perf"), *FEW, "--sizes", "64K", "-n", "100000", "--check",
                      "--timeout-ms", "60000", ranks=HOSTS, packets=100)


def told(result, pattern, ranks):
    """Checks that the job has failed, and that each of these ranks has a line that matches the pattern."""
    expect(result.code != 0, result.story())
    for rank in ranks:
        expect(re.search(rf"^\[{rank}\] .*(?:{pattern})", result.out + result.err, re.M),
               f"rank {rank} is not told: " + result.story())


def events(switch, since=0):
    return [e["event"] for e in ask(switch, "events")[since:]]


def own_kib(process):
    """Its memory without pages of files, because code becomes resident when it first runs."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read())[1])


def stands_for_a_second(processes):
    """Whether no process needs more memory a second later."""
    before, since = {name: own_kib(p) for name, p in processes.items()}, libtest.stopwatch()
    wait_for("a second", lambda: since() > 1)
    return all(own_kib(p) <= before[name] for name, p in processes.items())


def slow_and_killed(processes):
    work = endless()
    pids = wait_for("the job's processes", lambda: len(members()) == HOSTS and members(), 10)
    with case("a_slow_child_is_named_and_nothing_grows"):
        os.kill(pids[3], signal.SIGSTOP)
        try:
            seen = wait_for("an entry that misses rank 3", lambda: next(
                (e for e in ask("s1", "waiting") if [m["rank"] for m in e["missing"]] == [3]
                 and e["missing"][0]["since_ms"] >= 300), None), 15)
            expect(seen["arrived"] == [2] and seen["chunk"] > 0, f"{seen}")
            # Memory that is touched for the first time counts as growth. So the test waits for a second without
            # growth, which a steady leak never has.
            wait_for("a second in which nothing grows", lambda: stands_for_a_second(processes), 15)
            missing = [m["rank"] for e in ask("s1", "waiting") for m in e["missing"]]
            expect(3 in missing, f"{missing}")
            above = ask("r", "waiting")
            expect(above and [m["rank"] for m in above[0]["missing"]] == [2],
                   f"the root does not wait for the leaf of ranks 2 and 3: {above}")
        finally:
            os.kill(pids[3], signal.SIGCONT)
        wait_for("to go on", lambda: not any(m["since_ms"] >= 300 for e in ask("s1", "waiting")
                                             for m in e["missing"]), 15)
        expect(work.process.poll() is None, "the job ended")
    with case("a_killed_member_is_named"):
        killed = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        result = work.end(40)
        seconds = time.monotonic() - killed
        expect(seconds < SOON_S, f"{seconds:.1f} s: " + result.story())
        told(result, r"rank 1\b", {0, 2, 3})
        empty()


def mismatch():
    with case("mismatch_is_told"):
        result = run("sh", "-c", f"{BUILD}/inccl-perf --sizes $((4096 * (1 + (INCCL_RANK == 2)))) -n 1 "
                     "--timeout-ms 20000", ranks=HOSTS, check=False, timeout=60)
        told(result, "rank 2 called", range(HOSTS))
        expect("mismatch" in events("s1"), f"{events('s1')}")
        empty()


def breaks(name, switch, pattern, down, up):
    """Something of a switch fails during a job, and is restored for the next one."""
    with case(name):
        work = endless()
        seen = len(ask(switch, "events"))
        since = time.monotonic()
        down()
        result = work.end(60)
        seconds = time.monotonic() - since
        told(result, "rank|s0|s1", range(HOSTS))
        expect(seconds < SOON_S, f"{seconds:.1f} s: " + result.story())
        text = "\n".join(daemon_log(switch))
        expect(re.search(pattern, text), f"{switch} does not say why: {text[-3000:]}")
        print(f"# {name}: {seconds:.1f} s, events {events(switch, seen)}", flush=True)
        up()
        empty()
    job("after_" + name, *FEW, "--sizes", "4,65540")


def port(end, state):
    def change():
        command("ip", "-n", "sw", "link", "set", f"p{end}", state)
        want = "ACTIVE" if state == "up" else "DOWN"
        wait_for(f"rxe{end} to be {want}", lambda: want in command("rdma", "link", "show",
                                                                 f"rxe{end}/1").out, 20)
    return change


def removed():
    command("rdma", "link", "delete", "rxe4")


def added():
    command("rdma", "link", "add", "rxe4", "type", "rxe", "netdev", "h4")


def endpoints():
    ends = [word for i in (0, 1) for word in (f"rxe{i}", f"h{i}", f"10.77.{i}.1")]
    result = command(os.path.join(BUILD, "selftests/vm/term_verbs"), *ends, timeout=900, check=False,
                     env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
    print(result.out, result.err, sep="\n", flush=True)
    with case("endpoints"):
        expect(result.code == 0, result.story())


def test():
    with lab(ENDS, "--wires", "--mtu", "4200"):
        with switches() as processes:
            jobs()
            slow_and_killed(processes)
            mismatch()
            breaks("port_down", "s1", "port down for", port(5, "down"), port(5, "up"))
            breaks("device_removed", "s0", "device is gone", removed, added)
        endpoints()


libtest.main(test)
