#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Termination mode on rxe: a switch's endpoints alone (their own result lines count), then jobs of
hosts through a switch whose port is an rxe device."""
import contextlib
import os
import subprocess

from vmlab import BUILD, OUT, ask, case, command, expect, lab, libtest, perf, rxe_counters, wait_for

# rxe works in the initial namespace only, so the switch is where its hosts are: at the end of one more
# wire. What is between them routes.
SWITCH = 3
TOPOLOGY = """\
name: term
hosts:
  - {name: h0, ip: 10.77.0.1}
  - {name: h1, ip: 10.77.1.1}
  - {name: h2, ip: 10.77.2.1}
switches:
  - name: s0
    root: true
    mode: termination
    ports:
      - {name: h3, ip: 10.77.3.1, peers: [h0, h1, h2], bridge: b0}
bridges:
  - {name: b0}
defaults: {prefix: 16, mtu: 2200}
"""


def endpoints():
    with lab(2, "--wires"):
        ends = [word for i in range(2) for word in (f"rxe{i}", f"h{i}", f"10.77.{i}.1")]
        result = command(os.path.join(BUILD, "selftests/vm/term_verbs"), *ends, timeout=900, check=False,
                         env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
        print(result.out, result.err, sep="\n", flush=True)
        with case("endpoints"):
            expect(result.code == 0, result.story())


@contextlib.contextmanager
def daemon(name, *args):
    with open(os.path.join(OUT, name + ".log"), "w") as log:
        process = subprocess.Popen([os.path.join(BUILD, name), *args], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


def incctl(*args):
    return command(os.path.join(BUILD, "incctl"), *args, check=False)


@contextlib.contextmanager
def switch():
    topology = "/run/guest-lab/topology.yaml"
    with open(topology, "w") as f:
        f.write(TOPOLOGY)
    with open("/run/guest-lab/controller", "w") as f:
        f.write("127.0.0.1")
    with daemon("inc-controller", "--topology", topology):
        wait_for("the controller", lambda: incctl("switches").code == 0, 60)
        with daemon("inc-switchd", "--controller", "127.0.0.1", "--name", "s0", "--port", "h3",
                    "--mode", "termination"):
            wait_for("the switch", lambda: '"connected"' in incctl("switches", "--json").out, 60)
            yield


def job(name, *args, ranks=3, collective="allreduce"):
    with case(name):
        before = rxe_counters(SWITCH)["sent_pkts"]
        rows = perf(*args, "-n", "2", "-w", "1", collective=collective, ranks=ranks, timeout=200)
        expect({row["transport"] for row in rows} == {"verbs"}, f"{rows}")
        expect(rxe_counters(SWITCH)["sent_pkts"] > before, "the switch's device has sent nothing")
        for row in rows:
            print(f"# {name}: {row['bytes']} bytes {row['time_us']:.0f} us, {row['algbw_gbps']:.3f} Gbit/s",
                  flush=True)


def jobs():
    with lab(SWITCH + 1, "--wires"), switch():
        for ranks in (1, 2, 3):
            job(f"allreduce_of_{ranks}", "--sizes", "0,4,1028,65540,1M,4M", ranks=ranks)
        for collective in ("reduce", "broadcast", "reducescatter", "allgather"):
            job(collective, "--sizes", "0,12,4104,65544", collective=collective)  # blocks of 3 ranks
        job("floats", "--dtype", "float16", "--op", "max", "--sizes", "1028,65540")
        expect(not ask("connections"), "a communicator is left")


def test():
    endpoints()
    jobs()


libtest.main(test)
