#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""rxe hosts below two levels of switches: every collective with SEND and WRITE, beside soft hosts, and with loss
between the switches. Then the same leaves below a root in termination mode on rxe. Last, a star whose ports have two
receive queues, of which one CPU handles a communicator's packets, also when a CPU goes offline."""
import contextlib
import itertools
import os
import signal
import subprocess

from vmlab import BUILD, NAPI, OUT, Failure, case, command, expect, guest_lab, libtest, perf, rxe_counters, wait_for

MODES = ("sendrecv", "write")
WINDOWS = (1, 64)
FULL = os.environ.get("FULL") == "1"
COLLECTIVES = ("allreduce", "reduce", "broadcast", "reducescatter", "allgather")
SIZES = "0,16,4112,65552"  # blocks of 1, 257 and 4,097 elements, and empty ones
LOSS = 0.01


@contextlib.contextmanager
def tree(directory):
    """A root and two leaves with two rxe hosts each, and a wire between one leaf and the root. One CPU serves all
    ports of a switch, because only then results keep their order."""
    path, _ = libtest.with_wires(directory, "tree-2x2.yaml", only=["s0-r"])
    with contextlib.ExitStack() as stack:
        stack.callback(guest_lab, "down", timeout=60)
        lab = stack.enter_context(libtest.Lab(path, "--napi", NAPI, *libtest.PATIENT))
        guest_lab("adopt", lab.name, timeout=60)
        yield lab


def checked(collective, *args, transport="verbs", sizes=SIZES):
    rows = perf("--sizes", sizes, "-n", "2", "-w", "0", "--root", "2", *args, collective=collective,
                transport=transport, timeout=200)
    expect({row["transport"] for row in rows} == {transport.split(",")[0]}, f"{rows}")


def every():
    shapes = list(itertools.product(MODES, WINDOWS))
    for i, collective in enumerate(COLLECTIVES):
        # each mode with one of the two windows; the next collective has the other window
        for mode, window in shapes if FULL else (shapes[i % 2], shapes[3 - i % 2]):
            with case(f"{collective}_{mode}_window_{window}"):
                checked(collective, "--mode", mode, "--window", window)
    with case("barrier"):
        perf("-n", "20", collective="barrier")
    with case("allreduce_messages_of_4"):
        checked("allreduce", "--mode", "write", "--message-packets", "4", "--window", "8")


def mixed():
    """Each leaf has one rxe host and one soft host."""
    for collective, mode in (("allreduce", "sendrecv"), ("reduce", "write"),
                             ("broadcast", "sendrecv"), ("allgather", "write")):
        with case(f"{collective}_{mode}_soft_and_verbs"):
            checked(collective, "--mode", mode, transport="verbs,soft,verbs,soft")


def until_lost(lab, which, run):
    """Runs a job on a lossy cable between switches until frames were lost in which (any, all) of its directions. One
    in two hundred runs of 500 frames loses none in one of them."""
    before = lab.wire_stats("s0-r")
    lab.wire("s0-r", f"loss={LOSS}")
    for _ in range(5):
        run()
        after = lab.wire_stats("s0-r")
        if which(after[d]["lost"] > before[d]["lost"] for d in ("up", "down")):
            break
    else:
        raise Failure(f"nothing was lost: {after}")
    lab.wire("s0-r", "loss=0")


def lossy(lab):
    for collective, mode, window in (("allreduce", "sendrecv", 64), ("allreduce", "write", 1),
                                     ("reduce", "write", 64), ("broadcast", "sendrecv", 64)):
        with case(f"{collective}_{mode}_window_{window}_loss_between_switches"):
            until_lost(lab, any, lambda c=collective, m=mode, w=window: checked(
                c, "--mode", m, "--window", w, sizes="4112,262160"))


ROOT_DEVICES = (8, 9)  # behind the hosts' devices


@contextlib.contextmanager
def root_terminates(lab):
    """Moves the root's ports to the namespace where rxe works, with a device each, and its daemon as well. The
    switches below stay as they are."""
    root, leaves = lab.node("r"), {"d0": "10.78.0.1/24", "d1": "10.78.1.1/24"}
    controller = lab.node("controller")["mgmt"]
    os.kill(root["pid"], signal.SIGTERM)
    wait_for("the root's end", lambda: not os.path.exists(f"/proc/{root['pid']}"), 20)
    for device, (name, address) in zip(ROOT_DEVICES, leaves.items()):
        command("ip", "-n", root["netns"], "link", "set", "dev", name, "netns", "1")
        command("ip", "addr", "add", address, "dev", name)
        command("ip", "link", "set", name, "up")
        command("rdma", "link", "add", f"rxe{device}", "type", "rxe", "netdev", name)
    with open(os.path.join(OUT, "root.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [os.path.join(BUILD, "inc-switchd"), "--controller", controller, "--key", f"/run/inc-lab/{lab.name}/r.key",
             "--name", "r", "--port", "d0", "--port", "d1", "--mode", "termination"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for("the root", lambda: lab.incctl("switches", "--json").out.count('"connected"') == 3, 60)
        lab.incctl("mode", "r", "termination")
        yield
    finally:
        process.terminate()
        process.wait(20)


def mixed_modes(lab):
    """The leaves are in passthrough mode, so messages above them are single packets."""
    def below(*args, **more):
        before = [rxe_counters(i)["sent_pkts"] for i in ROOT_DEVICES]
        checked(*args, **more)
        expect(all(rxe_counters(i)["sent_pkts"] > n for i, n in zip(ROOT_DEVICES, before)),
               "a device of the root has sent nothing")

    with root_terminates(lab):
        for collective in COLLECTIVES:
            with case(f"{collective}_below_a_root_that_terminates"):
                below(collective)
        with case("barrier_below_a_root_that_terminates"):
            perf("-n", "20", collective="barrier")
        with case("soft_and_verbs_below_a_root_that_terminates"):
            below("allreduce", transport="verbs,soft,verbs,soft")
        with case("loss_below_a_root_that_terminates"):
            until_lost(lab, all, lambda: below("allreduce", sizes="4112,262160"))


def steered():
    """Ports receive on both CPUs. A device would answer results that overtake each other with NAKs."""
    with contextlib.ExitStack() as stack:
        stack.callback(guest_lab, "down", timeout=60)
        lab = stack.enter_context(libtest.Lab("star4.yaml", "--queues", "2", *libtest.PATIENT))
        guest_lab("adopt", lab.name, timeout=60)
        with case("steering_is_on"):
            status = lab.switch_local("status")
            expect(status["steering"], f"{status['steering_reason']}")
        for mode in MODES:
            with case(f"allreduce_{mode}_steered"):
                before = lab.cpu_counters()
                checked("allreduce", "--mode", mode, "--window", "64", sizes="16,262160")
                now = lab.cpu_counters()
                steered_now, naks, full = (sum(now[cpu][what] - before[cpu][what] for cpu in now)
                                           for what in ("steered", "absorbed_slowpath", "drop_queue_full"))
                print(f"# CPU {lab.workers(before)}, {steered_now} packets from another one, {naks} NAKs")
                expect(len(lab.workers(before)) == 1, "several CPUs have handled the communicator")
                expect(steered_now, "every packet arrived on the CPU of its communicator")
                expect(not full, "a queue was full")


def set_online(cpu, online):
    with open(f"/sys/devices/system/cpu/cpu{cpu}/online", "w", encoding="ascii") as f:
        f.write("1" if online else "0")


def logged(lab):
    with open(lab.node("s0")["log"], encoding="utf-8") as f:
        return f.read()


def offline():
    """The kernel moves the thread of a queue when its CPU goes offline."""
    with libtest.Lab("star2.yaml", "--queues", "2", *libtest.PATIENT) as lab, case("a CPU goes offline and comes back"):
        job = lab.traffic("--channels", "2", "--sizes", "4194304", "--pause-ms", "0")

        def cpus():
            return sorted(c["cpu"] for c in lab.switch_local("communicators"))

        def goes_on(wanted):
            now = lab.results()
            wait_for(f"communicators on {wanted}", lambda: cpus() == wanted or not job.running(), 20)
            wait_for("results", lambda: lab.results() > now + 10000 or not job.running(), 60)
            expect(job.running(), job.text())

        goes_on([0, 1])
        set_online(1, False)
        try:
            goes_on([0, 0])
        finally:
            set_online(1, True)
        wait_for("the queue", lambda: "CPU 1 is online again" in logged(lab), 20)
        goes_on(cpus())
        job.stop()


def test():
    with libtest.scratch() as directory, tree(directory) as lab:
        every()
        mixed()
        lossy(lab)
        with case("the_books_balance"):
            lab.check_books()
        lab.books = False  # a daemon that has ended has lost its counters
        mixed_modes(lab)
    steered()
    offline()


libtest.main(test)
