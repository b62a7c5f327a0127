#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The NCCL network plugin over two rxe rails per host. ha-nccl-perf plays NCCL's part, and detects duplicate, lost,
swapped, torn and late messages itself. FULL=1: a thousand failovers, and longer sweeps. Arguments: groups of cases,
by the names of their functions."""
import contextlib
import itertools
import os
import random
import signal
import sys
import time

import halab
from halab import ACKS, PAYLOADS, RAILS
from ranks import RECEIVER, SENDER, WINDOW_S, Ranks
from vmlab import Failure, case, expect, libtest, wait_for

FULL = os.environ.get("FULL") == "1"
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
# More packets than control messages and heartbeats during a test's wait. A rail that sends so many carries the
# stream.
STREAMING_PACKETS = 1500
GAP_MS = 30  # longer gaps between complete messages are listed
STREAM_S = 3600  # for a run that the test ends itself
# Limit from a fault that no device reports until data flows again: the device's window, and time for an emulated
# machine.
SLOW_S = WINDOW_S + 20


def stream(*args, seconds=STREAM_S, size=32768, **more):
    """A pair of ranks that sends until the test ends it, with the data checked."""
    return Ranks("pair", "--bytes", size, "--seconds", seconds, "--in-flight", "8", "--iters", "50", *args, **more)


def longest_call_us(report):
    """Returns (us, function) of the longest call that must not block."""
    return max((us, name) for name, us in report["max_call_us"].items()
               if name in ("connect", "accept", "isend", "irecv", "iflush", "test"))


def one_failover(run, cause=None):
    """Checks that the sender has logged exactly one failover, and returns it."""
    story = run.wait_failovers(1, seconds=SLOW_S)[0]
    expect(story["epoch"] == 1, f"{story}")
    expect(cause is None or cause in story["cause"], f"{story}: the cause is not '{cause}'")
    print(f"# {story}", flush=True)
    return story


# --- no fault ---------------------------------------------------------------------------------

def plain(lab):
    for api in (8, 9, 10, 11):
        with case(f"handle_and_functions_of_v{api}"), \
                Ranks("pair", "--api", api, "--bytes", "4096", "--iters", "50") as run:
            run.end()
            expect(not run.failovers(), f"{run.failovers()}")
    for ranks, channels in ((3, 1), (2, 4)):
        with case(f"ring_of_{ranks}_with_{channels}_channels"), \
                Ranks("ring", "--bytes", "262144", "--iters", "3", "--channels", channels, ranks=ranks) as run:
            run.end(90)
    with case("grouped_receives"), \
            Ranks("group", "--group", "8", "--bytes", "4096", "--iters", "30") as run:
        run.end()
    with case("optional_completion"), \
            Ranks("group", "--group", "4", "--bytes", "4096", "--iters", "30", "--optional-completion") as run:
        run.end()
    with case("several_comms_on_one_listen"), \
            Ranks("pair", "--channels", "8", "--one-listen", "--bytes", "16384", "--iters", "20") as run:
        run.end()
    with case("several_comms_of_a_ring_on_one_listen"), \
            Ranks("ring", "--channels", "4", "--one-listen", "--bytes", "65536", "--iters", "5", ranks=3) as run:
        run.end(90)


def patience(lab):
    """A peer that starts late or stands still must block no call, and must not count as failed."""
    for who, name in ((RECEIVER, "receiver"), (SENDER, "sender")):
        with case(f"late_{name}_blocks_nobody"), \
                Ranks("pair", "--bytes", "4096", "--iters", "20") as run:
            with run.stopped(who):
                time.sleep(2)  # the peer's delay
            us, function = longest_call_us(run.end()[1 - who])
            expect(us < 1e6, f"{function} took {us} us")
        with case(f"{name}_that_stands_still_is_no_failure"), stream() as run:
            run.flows("a")
            with run.stopped(who):
                time.sleep(4)  # longer than any timer of the plugin
            us, function = longest_call_us(run.finish()[1 - who])
            expect(us < 1e6, f"{function} took {us} us")
            expect(not run.failovers(SENDER) and not run.failovers(RECEIVER), run.story())


# --- exactly once -----------------------------------------------------------------------------

def acks_lost(lab):
    """The receiver has the messages, but the sender gets no acknowledgement."""
    with case("ack_only_loss"), stream() as run:
        run.flows("a")
        with lab.drop(SENDER, "a", "in", ACKS) as lost:
            story = one_failover(run)
            run.flows("b", 20)
            expect(lost.packets() > 0, "no ACK was lost")
        expect(story["delivered"] > 0, f"{story}: nothing had been delivered")
        run.finish()
    with case("ack_of_the_only_message_lost"), \
            lab.drop(SENDER, "a", "in", ACKS), \
            Ranks("pair", "--bytes", "4096", "--iters", "1", "--warmup", "0", "--in-flight", "1") as run:
        run.end()
        story = one_failover(run)
        expect((story["replayed"], story["delivered"]) == (0, 1), f"{story}")


def payloads_lost(lab):
    with case("data_only_loss"), stream() as run:
        run.flows("a")
        with lab.drop(SENDER, "a", "out", PAYLOADS) as lost:
            story = one_failover(run)
            run.flows("b", 20)
            expect(lost.packets() > 0, "nothing was lost")
        expect(story["replayed"] > 0, f"{story}: nothing was replayed")
        run.finish()
    with case("short_loss_is_no_failure"), stream() as run:
        run.flows("a")
        with lab.netem(SENDER, "a", "out", "loss", "1%") as counts:
            run.flows("a", 500)
            run.finish()
            expect(counts()[1] > 0, "nothing was lost")
        expect(not run.failovers(), f"{run.failovers()}")


def late_packets(lab):
    """Payloads of the old epoch arrive after the new one has delivered their messages."""
    with case("late_packet_after_the_switch"), stream() as run:
        run.flows("a")
        with lab.hold(SENDER, "a", "out", PAYLOADS) as held:
            one_failover(run)
            run.flows("b", 100)
            expect(held.release() > 0, "no packet was held")
            run.flows("b", 100)
        run.finish()
    with case("late_ack_after_the_switch"), stream() as run:
        run.flows("a")
        with lab.hold(SENDER, "a", "in", ACKS) as held:
            one_failover(run)
            expect(held.release() > 0, "no packet was held")
            run.flows("b", 100)
        run.finish()


def both_see_it(lab):
    with case("simultaneous_detection"), stream() as run:
        run.flows("a")
        halab.batch("ip", [f"link set {halab.interface(host, 'a')} down" for host in (SENDER, RECEIVER)])
        one_failover(run)
        for host in (SENDER, RECEIVER):
            lab.repair(host, "a")
        run.finish()
    for host, how in itertools.product((SENDER, RECEIVER), ("near", "far", "dark")):
        with case(f"link_of_{'sender' if host == SENDER else 'receiver'}_cut_{how}"), stream() as run:
            run.flows("a")
            with lab.cut_for(host, "a", how):
                one_failover(run)
                run.flows("b", 20)
            run.finish()


def failure_during_the_replay(lab):
    with case("failure_during_the_replay"), stream() as run:
        run.flows("a")
        with lab.drop(SENDER, "b", "out", PAYLOADS) as second:
            with lab.drop(SENDER, "a", "out", PAYLOADS):
                wait_for("the replay", second.packets, SLOW_S)
            stories = run.wait_failovers(2, seconds=SLOW_S)
            run.flows("a", 20)
        expect([s["epoch"] for s in stories[:2]] == [1, 2], f"{stories}")
        print(f"# {stories}", flush=True)
        run.finish()


# --- an error, in bounded time ----------------------------------------------------------------

def told(run, seconds):
    """Checks that both ranks end with an error of one line."""
    elapsed = libtest.stopwatch()
    codes = run.codes(seconds)
    expect(codes == [1] * len(codes), f"exit codes {codes}\n{run.story()}")
    print(f"# told after {elapsed():.1f} s", flush=True)


def both_dead(lab):
    for how in ("near", "dark"):
        with case(f"both_paths_cut_{how}"), stream() as run:
            run.flows("a")
            with lab.cut_for(SENDER, "a", how), lab.cut_for(SENDER, "b", how):
                told(run, SLOW_S + 20)
    with case("single_path_says_so"), \
            stream(env={"HA_NCCL_ENABLE_BACKUP": "0"}) as run:
        run.flows("a")
        with lab.cut_for(SENDER, "a", "near"):
            told(run, SLOW_S + 20)


def killed(lab):
    for who, name in ((SENDER, "sender"), (RECEIVER, "receiver")):
        with case(f"{name}_killed"), stream() as run:
            run.flows("a")
            run.signal(who, signal.SIGKILL)
            codes = run.codes(SLOW_S + 20)
            expect(codes[1 - who] == 1, f"exit codes {codes}\n{run.story()}")


def closed_in_flight(lab):
    """A rank closes its comms with all requests in flight. The other one must get an error, and neither may hang."""
    for who, name in ((SENDER, "sender"), (RECEIVER, "receiver")):
        for rail, cut in (("a", False), ("b", True)):
            with case(f"close_in_flight_by_the_{name}{'_after_a_failover' * cut}"), \
                    Ranks("group", "--channels", "4", "--group", "4", "--bytes", "16384", "--seconds", STREAM_S) as run:
                run.flows("a")
                with lab.cut_for(SENDER, "a", "near") if cut else contextlib.nullcontext():
                    run.flows(rail)
                    run.signal(who, signal.SIGTERM)
                    told(run, SLOW_S + 20)


# --- many ---------------------------------------------------------------------------------------

FAULTS = {
    "interface of the sender": lambda lab, rail: lab.cut_for(SENDER, rail, "near"),
    "interface of the receiver": lambda lab, rail: lab.cut_for(RECEIVER, rail, "near"),
    "cable of the sender": lambda lab, rail: lab.cut_for(SENDER, rail, "far"),
    "cable of the receiver": lambda lab, rail: lab.cut_for(RECEIVER, rail, "far"),
    "ACKs lost": lambda lab, rail: lab.drop(SENDER, rail, "in", ACKS),
    "payloads lost": lambda lab, rail: lab.drop(SENDER, rail, "out", PAYLOADS),
}


def strike(lab, run, rng):
    """Causes a fault on the path in use until the sender has logged one more failover. Returns the fault and its time
    span (s since 1970). None: the path had failed by itself before."""
    rail, fault, n = run.rail(), rng.choice(list(FAULTS)), len(run.failovers()) + 1
    other = RAILS[1 - RAILS.index(rail)]
    broken, begin = run.without_standby(), time.time()
    with FAULTS[fault](lab, rail):
        before = run.sent(SENDER, other)

        def seen():
            flows = run.sent(SENDER, other) - before > STREAMING_PACKETS
            return len(run.failovers()) >= n or (flows and "elsewhere")
        try:
            how = wait_for(f"failover {n}", seen, SLOW_S)
        except Failure as e:
            raise Failure(f"{fault} on rail {rail}: {e}\n{run.story()}") from None
        if how == "elsewhere":
            return None
        return fault + ", without a standby" * (run.without_standby() > broken), begin, time.time()


def pauses(strikes, report):
    """Returns {fault: how long no message was complete at the receiver while the fault lasted, in ms, ascending}."""
    size, found = report["sizes"][0], {}
    gaps = [(report["started_at_ms"] + gap["start_ms"], gap["ms"]) for gap in size["gaps"]]
    expect(not size["gaps_not_listed"], f"{size['gaps_not_listed']} gaps are not listed")
    for fault, begin, end in strikes:
        during = [ms for start, ms in gaps if start <= end * 1e3 and start + ms >= begin * 1e3]
        found.setdefault(fault, []).append(max(during, default=GAP_MS))
    return {fault: sorted(values) for fault, values in sorted(found.items())}


def tell_pauses(strikes, report):
    """Prints the time from the fault until data flows, in the form of docs/nccl.md."""
    print(f"# fault: times, least, median, 95th of 100, most, in ms; {GAP_MS}: not more than that", flush=True)
    for fault, ms in pauses(strikes, report).items():
        print(f"# {fault}: {len(ms)}, {ms[0]:.0f}, {ms[len(ms) // 2]:.0f}, {ms[len(ms) * 95 // 100]:.0f}, "
              f"{ms[-1]:.0f}", flush=True)


def many_failovers(lab):
    """Random faults at random moments, during one stream with a sequence of its own."""
    n = 1000 if FULL else 12
    rng = random.Random(SEED)
    with case(f"{n}_failovers_in_one_stream"), \
            stream("--gap-ms", GAP_MS, size=8192) as run:
        strikes, held = [], []
        while len(strikes) < n:
            time.sleep(rng.random() * 0.3)  # a random moment
            struck = strike(lab, run, rng)
            if not struck:
                continue
            strikes.append(struck)
            if len(strikes) % 100 == 0:
                print(f"# {len(strikes)} strikes", flush=True)
            if len(strikes) in (n // 4, n):
                run.flows(run.rail(), 50)
                held.append([run.resources(rank) for rank in (SENDER, RECEIVER)])
        stories = run.failovers()
        # an epoch that fails before data flows in it has no line in the log
        epochs = [s["epoch"] for s in stories]
        expect(epochs == sorted(set(epochs)) and epochs[-1] >= n, f"{epochs[:5]} ... {epochs[-5:]}")
        print(f"# {n} strikes, {epochs[-1]} epochs; {sum(s['replayed'] for s in stories)} replayed, "
              f"{sum(s['delivered'] for s in stories)} already delivered; held {held}", flush=True)
        for early, late in zip(*held):
            for kind, count in late.items():
                expect(count <= early[kind] + 4, f"{kind}: {early[kind]} early, {count} at the end")
        tell_pauses(strikes, run.finish()[RECEIVER])


def groups_and_rings_under_faults(lab):
    for name, args, ranks in (("grouped_receives", ("group", "--group", "8", "--bytes", "8192"), 2),
                              ("channels", ("pair", "--channels", "4", "--bytes", "16384"), 2),
                              ("ring_of_3", ("ring", "--bytes", "98304"), 3)):
        with case(f"{name}_through_a_failover"), Ranks(*args, "--iters", "10", "--seconds", STREAM_S, ranks=ranks) as run:
            run.flows("a", 50)
            with lab.cut_for(SENDER, "a", "near"):
                run.wait_failovers(1)
                run.flows("b", 50)
            run.finish(90)


# --- the path that was repaired -----------------------------------------------------------------

def taken_back(lab):
    """HA_NCCL_FAILBACK: the better path is used again as soon as it is ready, whichever fault it had."""
    def nothing():
        pass

    for name, meanwhile in (("", nothing), ("_with_a_gid_that_moved", lambda: lab.move_gid(SENDER, "a")),
                            ("_after_flaps", lambda: lab.flap(SENDER, "a", 5))):
        with case(f"repaired_path_is_taken_back{name}"), \
                stream(env={"HA_NCCL_FAILBACK": "1"}) as run:
            run.flows("a")
            lab.cut(SENDER, "a", "near")
            try:
                run.flows("b", 20)
                if name == "_with_a_gid_that_moved":
                    lab.repair(SENDER, "a", wait=False)
                meanwhile()
            finally:
                lab.repair(SENDER, "a")
            elapsed = libtest.stopwatch()
            run.flows("a", 20)
            waited = elapsed()
            print(f"# data on the repaired path after {waited:.2f} s", flush=True)
            expect(waited < 5, f"not within 5 s of an emulated machine: {waited:.2f} s")
            run.finish()


def standby_again(lab):
    with case("repaired_path_stands_by"), stream() as run:
        for n, rail in enumerate("abab", 1):
            run.flows(rail)
            with lab.cut_for(SENDER, rail, "near"):
                run.wait_failovers(n)
        run.flows("a")
        run.finish()


# --- sweeps -------------------------------------------------------------------------------------

def resources(lab):
    for channels in (8, 20) if not FULL else (8, 12, 16, 20):
        with case(f"{channels}_channels"), \
                Ranks("pair", "--channels", channels, "--bytes", "8192", "--iters", "10") as run:
            run.end(90)
    for in_flight in (1, 32) if not FULL else (1, 4, 8, 16, 32):
        with case(f"{in_flight}_in_flight"), \
                Ranks("pair", "--in-flight", in_flight, "--bytes", "8192", "--iters", "100") as run:
            run.end()
    for n in (4, 8) if not FULL else (2, 3, 4, 5, 8):
        with case(f"groups_of_{n}"), \
                Ranks("group", "--group", n, "--in-flight", "8", "--bytes", "2048", "--iters", "50") as run:
            run.end()


def timeouts(lab):
    """A healthy path that loses a packet now and then must not be abandoned: less than one unnecessary failover in a
    hundred messages that lost a packet."""
    for timeout in (13, 16) if not FULL else (12, 13, 14, 15, 16):
        with case(f"timeout_{timeout}_without_false_switches"), \
                lab.netem(SENDER, "a", "out", "loss", "0.5%") as counts, \
                stream(seconds=20 if FULL else 4, env={"HA_NCCL_QP_TIMEOUT": str(timeout)}) as run:
            run.end(120)
            false, lost = len(run.failovers()), counts()[1]
            print(f"# timeout {timeout}: {lost} packets lost, {false} false switches", flush=True)
            expect(false <= lost / 100, f"{false} false switches by {lost} losses")


def slowdown(lab):
    """Standby and heartbeat must not cost more than noise. All variants run alternately, so that the machine's other
    load affects them alike."""
    gbps = {"1": [], "0": []}
    with case("standby_and_heartbeat_cost_nothing"):
        for _ in range(7 if FULL else 3):
            for backup, values in gbps.items():
                with stream(seconds=2, env={"HA_NCCL_ENABLE_BACKUP": backup}) as run:
                    values.append(bandwidth(run.end()[RECEIVER]))
        on, off = (sorted(gbps[backup])[len(gbps[backup]) // 2] for backup in "10")
        print(f"# median of {len(gbps['1'])}: with {on / off:.3f} of the bandwidth without; {gbps}", flush=True)
        expect(on > 0.8 * off, f"with standby {gbps['1']}, without {gbps['0']}")


def bandwidth(report):
    return report["sizes"][0]["gbit_s"]


GROUPS = (plain, patience, acks_lost, payloads_lost, late_packets, both_see_it, failure_during_the_replay,
          both_dead, killed, closed_in_flight, standby_again, taken_back, groups_and_rings_under_faults, many_failovers,
          resources)
MEASUREMENTS = (timeouts, slowdown)  # these need an idle machine, so they run with FULL=1 or by name


def test():
    print(f"# SEED={SEED}", flush=True)
    with halab.lab(3) as lab:
        for group in GROUPS + MEASUREMENTS:
            if group.__name__ in sys.argv[1:] or (not sys.argv[1:] and (FULL or group in GROUPS)):
                group(lab)


libtest.main(test)
