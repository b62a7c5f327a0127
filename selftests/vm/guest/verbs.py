#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""libinccl over verbs on rxe: the transport alone, then jobs through the switch, and the promises under faults. FULL=1:
every number of hosts by each mode, also with the longest vector, and every collective in each mode with a long vector, in
place and beside soft hosts."""
import contextlib
import itertools
import os
import re
import signal

from vmlab import BUILD, Background, Capture, case, command, expect, guest_lab, lab, libtest, \
    netem, perf, qdisc_stats, run
import promises

FULL = os.environ.get("FULL") == "1"
SIZES = [4, 12, 1024, 1028, 16 << 10, 65540, 1 << 20]
# a collective's longest vector has more packets than two windows
COLLECTIVE_SIZES = "0,16,4112,1M" if FULL else "0,16,4112,600K"
SHORTER_SIZES = COLLECTIVE_SIZES if FULL else "0,16,4112,65552"
LONG = 4 << 20
MODES = ("sendrecv", "write")


def alone():
    """The echo tests. Their own result lines count."""
    with lab(1, "--wires"):
        result = command(os.path.join(BUILD, "selftests/vm/verbs_loop"), "10.77.0.1", "h0",
                         timeout=240, check=False, env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
        print(result.out, result.err, sep="\n", flush=True)
        with case("transport_alone"):
            expect(result.code == 0, result.story())


def kernel_tools():
    with case("rxe_to_rxe"):
        gid = {}
        for i in (0, 1):
            base = f"/sys/class/infiniband/rxe{i}/ports/1"
            for index in os.listdir(base + "/gids"):
                with open(f"{base}/gids/{index}") as f:
                    if "ffff:" in f.read():
                        gid[i] = index
        script = f"ibv_rc_pingpong -n 100 -d rxe0 -g {gid[0]} & " \
            f"until ss -tln | grep -q :18515; do sleep 0.1; done; " \
            f"ibv_rc_pingpong -n 100 -d rxe1 -g {gid[1]} 10.77.0.1; wait $!"
        result = command("timeout", "60", "sh", "-c", script, timeout=70)
        print("#", result.out.splitlines()[-1])


def show(name, rows):
    for row in rows:
        print(f"# {name}: {row['bytes']} bytes {row['time_us']:.0f} us "
              f"algbw {row['algbw_gbps']:.3f} Gbit/s", flush=True)


def jobs():
    shapes = itertools.product((2, 3, 4), MODES) if FULL else ((2, "write"), (3, "sendrecv"), (4, "write"))
    for ranks, mode in shapes:
        name = f"{ranks}_hosts_{mode}"
        sizes = SIZES + [LONG] * FULL
        with case(name):
            rows = perf("--sizes", ",".join(map(str, sizes)), "-n", "2", "-w", "1", "--mode", mode, ranks=ranks,
                        timeout=200)
            expect([r["bytes"] for r in rows] == sizes, f"sizes {rows}")
            expect({r["transport"] for r in rows} == {"verbs"}, f"{rows}")
            show(name, rows)
    for packets, window, payload in ((4, 32, 1024), (64, 8, 2048), (4, 1, 1024), (1, 7, 512)):
        with case(f"messages_of_{packets}_window_{window}"):
            rows = perf("--sizes", "4,4100,262148", "-n", "2", "-w", "1", "--message-packets", packets,
                        "--window", window, "--payload", payload, "--mode", "write", ranks=2)
            show(f"{packets} x {payload}, window {window}", rows)
    with case("in_place"):
        perf("--sizes", "4,65536", "-n", "3", "--in-place", "--mode", "write", ranks=2)


def collectives():
    """Includes empty packets from and to a device, as SEND and as WRITE. Queues are deep enough for single packets in
    collectives that otherwise use messages."""
    names = ("reduce", "broadcast", "reducescatter", "allgather")
    for (i, collective), mode in itertools.product(enumerate(names), MODES):
        with case(f"{collective}_{mode}"):
            sizes = COLLECTIVE_SIZES if mode == MODES[i % 2] else SHORTER_SIZES
            rows = perf("--sizes", sizes, "-n", "2", "-w", "1", "--mode", mode, "--root", "2",
                        collective=collective, ranks=4, timeout=200)
            expect({r["transport"] for r in rows} == {"verbs"}, f"{rows}")
            show(f"{collective} {mode}", rows)
        # one of the two shapes for each mode; the next collective has the other one
        in_place = mode == MODES[i % 2]
        if FULL or in_place:
            with case(f"{collective}_{mode}_in_place_beside_messages_of_4"):
                perf("--sizes", "4112,262144", "-n", "2", "-w", "0", "--mode", mode, "--message-packets", "4",
                     "--window", "8", "--in-place", collective=collective, ranks=4, timeout=200)
        if FULL or not in_place:
            with case(f"{collective}_{mode}_soft_and_verbs"):
                perf("--sizes", "4112,262144", "-n", "2", "-w", "0", "--mode", mode, collective=collective,
                     ranks=4, transport="verbs,soft,verbs,soft", timeout=200)


def psn_wrap():
    with case("psn_wrap"):
        perf("--sizes", "600K", "-n", "2", "-w", "0", ranks=2, env={"INCCL_START_PSN": "16777200"})


def mixed():
    for mode in MODES:
        with case(f"soft_and_verbs_{mode}"):
            perf("--sizes", "4,1028,65540,262148", "-n", "2", "-w", "1", "--mode", mode, ranks=4,
                 transport="verbs,soft,verbs,soft", timeout=200)


def choice():
    with case("auto_takes_verbs_and_says_why"):
        result = run(os.path.join(BUILD, "inccl-perf"), "--sizes", "4", "-n", "1", "--check", "--json",
                     ranks=2, transport="auto", env={"INCCL_DEBUG": "1"})
        expect('"transport":"verbs"' in result.out.replace(" ", ""), result.story())
        expect("RoCE v2 GID" in result.err and "rxe0" in result.err, result.story())
    with case("wrong_setting_is_named"):
        result = run(os.path.join(BUILD, "inccl-perf"), "--sizes", "4", ranks=1,
                     env={"INCCL_VERBS": "timeut=3"}, check=False)
        expect(result.code == 1 and "timeut" in result.err, result.story())
    with case("no_such_device_is_named"):
        result = run(os.path.join(BUILD, "inccl-perf"), "--sizes", "4", ranks=1,
                     env={"INCCL_VERBS": "device=mlx5_7"}, check=False)
        expect(result.code == 1 and "mlx5_7" in result.err, result.story())


def mismatch():
    with case("mismatch_is_told"):
        result = run("sh", "-c", f"{BUILD}/inccl-perf --sizes $((4096 * (INCCL_RANK + 1))) -n 1 "
                     "--timeout-ms 20000", ranks=3, check=False, timeout=60)
        expect(result.code == 1, result.story())
        # The switch reports it to the controller, which reports the ranks that differ. The rank itself may get it
        # from its device first.
        for rank in range(3):
            expect(re.search(rf"^\[{rank}\].*(rank 0 called .* but rank [12] called|"
                             r"remote operation error \(ibv_wc_status 11)", result.err, re.M),
                   f"rank {rank} was not told: " + result.story())


def lossy():
    for direction in ("out", "in"):
        with case(f"loss_{direction}"), netem(0, direction, "loss", "1%"):
            lost, runs = 0, 0
            while not lost and runs < 5:  # one in three thousand runs of 800 packets loses none
                perf("--sizes", "4,4100,262144", "-n", "3", "-w", "0", "--message-packets", "4",
                     "--mode", "write" if direction == "in" else "sendrecv", ranks=3)
                lost = qdisc_stats("h0" if direction == "out" else "ifb0")["dropped"]
                runs += 1
            expect(lost > 0, "nothing was lost")


def endless(ranks):
    """Starts a job that would run for minutes."""
    return Background(os.path.join(BUILD, "inccl-perf"), "--sizes", "64K", "-n", "100000", "--check",
                      "--stats", "--timeout-ms", "8000", ranks=ranks)


def port_down():
    """Of the last host, because its routes are gone afterwards."""
    with case("port_down_is_told"):
        job = endless(4)
        command("ip", "link", "set", "h3", "down")
        result = job.end(40)
        expect(result.code == 1, result.story())
        # the event, or the failed completion if the device fails a send first
        expect(re.search(r"verbs rxe3/1: (port down for|.*ibv_wc_status)", result.err),
               result.story())


@contextlib.contextmanager
def silent_controller():
    """The controller stands still, so it reports nothing."""
    with open("/run/guest-lab/controller.pid", encoding="utf-8") as f:
        pid = int(f.read())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def switch_gone():
    """The ranks find by themselves that the switch is gone, because the controller does not report it."""
    with case("switch_gone_names_peer_and_status"):
        job = endless(2)
        with silent_controller():
            guest_lab("switch", "off")
            result = job.end(40)
        expect(result.code == 1, result.story())
        expect("s0 (10.77." in result.err and
               "transport retry counter exceeded (ibv_wc_status 12" in result.err, result.story())


def captured():
    """Captures packets, which test_verbs examines by tshark and scapy outside of the guest."""
    with case("capture"), Capture(0, "h0.pcapng"):
        for mode in MODES:
            perf("--sizes", "4,4100,40000", "-n", "1", "-w", "0", "--message-packets", "4",
                 "--payload", "1024", "--mode", mode, ranks=3)


def test():
    alone()
    with lab(4):
        kernel_tools()
        jobs()
        collectives()
        psn_wrap()
        mixed()
        choice()
        captured()
        mismatch()
        lossy()
        promises.every()
        port_down()
        switch_gone()


libtest.main(test)
