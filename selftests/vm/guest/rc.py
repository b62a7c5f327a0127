#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""rxe's RC state machine as a judge of the switch: hosts with raw verbs, and a static configuration of the switch."""
import contextlib
import dataclasses
import itertools
import typing

from rc_judge import judges, Load
from vmlab import Failure, case, connections, counters, expect, guest_lab, kernel_drops, lab, libtest, netem, \
    qdisc_stats, rxe_total, wait_for


@dataclasses.dataclass
class Run:
    """One case: a run of Judge with this load."""
    name: str
    load: Load
    fault: tuple = ()     # arguments of netem
    direction: str = ""   # direction of the fault
    check: typing.Callable[[dict, dict, list], None] = lambda rxe, switch, conns: None


def all_known(communicator, before):
    """Whether every result and every contribution is acknowledged, and nothing is in flight."""
    conns, now = connections(communicator), counters(before)
    return all(c["results"] == c["acknowledged"] for c in conns) and \
        (conns, now) == (connections(communicator), counters(before)) and (now, conns)


def lost(run, direction):
    """How many packets netem has dropped in a run. None: it also changes their number in ways that it does not
    count."""
    if run.direction != direction:
        return 0
    if run.fault[0] != "loss":
        return None
    return qdisc_stats("h0" if direction == "out" else "ifb0")["dropped"]


def agree(run, communicator, rxe_before, switch_before, drops_before):
    """The switch must have received what rxe sent, less what netem dropped and what the kernel had no room for; and
    the reverse."""
    ours, conns = wait_for("all results acknowledged",
                           lambda: all_known(communicator, switch_before), 20)
    rxe, drops = rxe_total(run.load.hosts, rxe_before), kernel_drops(run.load.hosts, drops_before)
    story = f"rxe {rxe}\nswitch {ours}\nconnections {conns}\nkernel {drops}"
    received = ours["rx"] - ours["pass_not_roce"] - ours["pass_no_connection"]
    sent = ours["copies_sent"] + sum(v for k, v in ours.items() if k.startswith("answered_")) + \
        sum(c["retransmits"] + c["acks_paid"] for c in conns)
    for way, gone in (("out", rxe["sent_pkts"] - received), ("in", sent - rxe["rcvd_pkts"])):
        taken = lost(run, way)
        if taken is not None:
            least = taken + drops[way]
            expect(least <= gone <= least + drops["either"],
                   f"{way}: {gone} packets have gone, {taken} in netem, {drops} in the kernel\n{story}")
    expect(not any(c["error"] for c in conns), f"a connection has failed\n{story}")
    expect(len(conns) == run.load.hosts and len({c["results"] for c in conns}) == 1,
           f"not the same results\n{story}")
    return rxe, ours, conns


def judged(run, judge):
    """A run that must succeed."""
    before = rxe_total(run.load.hosts), counters(), kernel_drops(run.load.hosts)
    try:
        seconds = judge.run()
    except Failure as failure:
        raise Failure(f"{failure}\n{connections(judge.communicator)}\n{counters()}") from None
    rxe, ours, conns = agree(run, judge.communicator, *before)
    print(f"# {run.name}: {judge.hosts[0].total} messages in {seconds:.3f} s; rxe "
          f"{dict((k, v) for k, v in rxe.items() if v)}; switch "
          f"{dict((k, v) for k, v in ours.items() if v)}; resent "
          f"{[c['retransmits'] for c in conns]}, ACKs paid {[c['acks_paid'] for c in conns]}",
          flush=True)
    run.check(rxe, ours, conns)
    judge.end()


def shapes():
    for write, packets in itertools.product((False, True), (1, 4, 64)):
        yield Run(f"{'write' if write else 'send'}_messages_of_{packets}",
                  Load(write=write, message_packets=packets, bytes=300004, window=max(1, 128 // packets),
                       psn=0xffff00, result_psn=0xfffffe))
    for payload in (256, 512, 2048):
        yield Run(f"payload_{payload}", Load(payload=payload, bytes=100000, write=True, message_packets=2, window=32))
    yield Run("window_1", Load(window=1, bytes=40000))


def check_loss_out(rxe, ours, conns):
    expect(ours["answered_nak_sequence"] > 0, f"no NAK sent: {ours}")
    expect(0 < rxe["rcvd_seq_err"] <= ours["answered_nak_sequence"],
           f"rxe counts more NAKs than were sent: {rxe} {ours}")


def check_loss_in(rxe, ours, conns):
    expect(conns[0]["retransmits"] > 0, f"nothing resent: {conns}")
    naks = sum(c["naks_received"] for c in conns)
    expect(0 < naks <= rxe["out_of_seq_request"],
           f"the switch counts more NAKs than rxe sent: {rxe} {conns}")


def check_duplicate_out(rxe, ours, conns):
    expect(ours["answered_duplicate"] > 0, f"no duplicate seen: {ours}")


def check_duplicate_in(rxe, ours, conns):
    expect(rxe["duplicate_request"] > 0, f"rxe saw no duplicate: {rxe}")


def check_corrupt_out(rxe, ours, conns):
    expect(ours["drop_bad_icrc"] > 0, f"nothing was damaged: {ours}")


def check_corrupt_in(rxe, ours, conns):
    expect(conns[0]["retransmits"] > 0, f"nothing resent: {conns}")


FAULTS = [
    ("loss", ("loss", "2%"), check_loss_out, check_loss_in),
    ("duplicate", ("duplicate", "5%"), check_duplicate_out, check_duplicate_in),
    ("corrupt", ("corrupt", "1%"), check_corrupt_out, check_corrupt_in),
    ("reorder", ("delay", "1ms", "reorder", "90%", "50%"), Run.check, Run.check),
]


def faults():
    for (name, what, *checks), direction in itertools.product(FAULTS, ("out", "in")):
        yield Run(f"{name}_{direction}",
                  Load(write=direction == "in", message_packets=4, bytes=400000, window=16, psn=0xffff80,
                       result_psn=0xffff80),
                  fault=what, direction=direction, check=checks[direction == "in"])


def check_late_receives(rxe, ours, conns):
    expect(rxe["send_rnr_err"] > 0, f"rxe sent no RNR NAK: {rxe}")
    expect(conns[0]["retransmits"] > 0, f"nothing was resent: {conns}")


def silent_switch(judge):
    guest_lab("switch", "off")
    watch, end = libtest.stopwatch(), "no failure"
    try:
        judge.run()
    except Failure as failure:
        end = str(failure)
    expect("IBV_WC_RETRY_EXC_ERR" in end and watch() < 20, f"{end} after {watch()} s")


def test():
    runs = [*shapes(), *faults(),
            Run("receives_posted_late", Load(late_us=3000, min_rnr_timer=12, window=8, bytes=100000),
                check=check_late_receives),
            Run("four_hosts", Load(hosts=4, bytes=200000, write=True, message_packets=4, window=16))]
    with lab(4, "--wires"), judges([*(run.load for run in runs), Load(timeout=10, retry_cnt=3, limit_s=30)]) as found:
        for run, judge in zip(runs, found):
            fault = netem(0, run.direction, *run.fault) if run.fault else contextlib.nullcontext()
            with case(run.name), fault:
                judged(run, judge)
        with case("retry_exhausted"):
            silent_switch(found[-1])


libtest.main(test)
