#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""rxe as the judge of the switch's RC: raw verbs hosts against a static configuration."""
import itertools

from vmlab import Judge, case, connections, counters, expect, guest_lab, kernel_drops, lab, \
    libtest, netem, qdisc_stats, rxe_total, wait_for

HOSTS = 2


def all_known():
    """Every result acknowledged, every contribution too, and nothing on its way."""
    conns, now = connections(), counters()
    return all(c["results"] == c["acknowledged"] for c in conns) and \
        (conns, now) == (connections(), counters()) and (now, conns)


def agree(hosts, before, drops_before, lost_out=0, lost_in=0):
    """What rxe sent is what the switch received, less what netem took on the way and what the
    kernel had no room for, and the reverse. None: netem changes the number in ways that it does
    not count."""
    ours, conns = wait_for("all results acknowledged", all_known, 20)
    rxe, drops = rxe_total(hosts, before), kernel_drops(hosts, drops_before)
    story = f"rxe {rxe}\nswitch {ours}\nconnections {conns}\nkernel {drops}"
    received = ours["rx"] - ours["pass_not_roce"] - ours["pass_no_connection"]
    sent = ours["copies_sent"] + sum(v for k, v in ours.items() if k.startswith("answered_")) + \
        sum(c["retransmits"] + c["acks_paid"] for c in conns)
    for way, lost, gone in (("out", lost_out, rxe["sent_pkts"] - received),
                            ("in", lost_in, sent - rxe["rcvd_pkts"])):
        if lost is not None:
            least = lost + drops[way]
            expect(least <= gone <= least + drops["either"],
                   f"{way}: {gone} packets have gone, {lost} in netem, {drops} in the kernel\n{story}")
    expect(not any(c["error"] for c in conns), f"a connection has failed\n{story}")
    expect(len({c["results"] for c in conns}) == 1, f"not the same results\n{story}")
    return rxe, ours, conns


def judged(name, *args, hosts=HOSTS, lost_out=lambda: 0, lost_in=lambda: 0):
    """A run that must end well; then, where given, check(rxe, switch, connections)."""
    judge = Judge("--hosts", hosts, *args)
    before, drops = rxe_total(hosts), kernel_drops(hosts)
    result = judge.run()
    rxe, ours, conns = agree(hosts, before, drops, lost_out(), lost_in())
    print(f"# {name}: {result['messages']} messages in {result['seconds']} s; rxe "
          f"{dict((k, v) for k, v in rxe.items() if v)}; switch "
          f"{dict((k, v) for k, v in ours.items() if v)}; resent "
          f"{[c['retransmits'] for c in conns]}, ACKs paid {[c['acks_paid'] for c in conns]}",
          flush=True)
    return rxe, ours, conns


def shapes():
    for mode, packets in itertools.product(("send", "write"), (1, 4, 64)):
        name = f"{mode}_messages_of_{packets}"
        with case(name):
            judged(name, "--mode", mode, "--message-packets", packets, "--bytes", 300004,
                   "--window", max(1, 128 // packets), "--psn", 0xffff00, "--result-psn", 0xfffffe)
    for payload in (256, 512, 2048):
        with case(f"payload_{payload}"):
            judged(f"payload_{payload}", "--payload", payload, "--bytes", 100000, "--mode", "write",
                   "--message-packets", 2, "--window", 32)
    with case("window_1"):
        judged("window_1", "--window", 1, "--bytes", 40000)


def dropped(direction):
    return lambda: qdisc_stats("h0" if direction == "out" else "ifb0")["dropped"]


def unknown():
    return None


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
    ("reorder", ("delay", "1ms", "reorder", "90%", "50%"), None, None),
]


def faults():
    for (fault, what, *checks), direction in itertools.product(FAULTS, ("out", "in")):
        name, check = f"{fault}_{direction}", checks[direction == "in"]
        counted = dropped(direction) if fault == "loss" else unknown
        with case(name), netem(0, direction, *what):
            out = judged(name, "--mode", "write" if direction == "in" else "send",
                         "--message-packets", 4, "--bytes", 400000, "--window", 16,
                         "--psn", 0xffff80, "--result-psn", 0xffff80,
                         lost_out=counted if direction == "out" else lambda: 0,
                         lost_in=counted if direction == "in" else lambda: 0)
            if check:
                check(*out)


def late_receives():
    with case("receives_posted_late"):
        rxe, _, conns = judged("receives_posted_late", "--late-us", 3000, "--min-rnr-timer", 12,
                               "--window", 8, "--bytes", 100000)
        expect(rxe["send_rnr_err"] > 0, f"rxe sent no RNR NAK: {rxe}")
        expect(conns[0]["retransmits"] > 0, f"nothing was resent: {conns}")


def silent_switch():
    with case("retry_exhausted"):
        judge = Judge("--hosts", HOSTS, "--timeout", 10, "--retry-cnt", 3, "--limit", 30)
        guest_lab("switch", "off")
        judge.start()
        result = judge.result(60)
        expect("transport retry counter exceeded" in result["error"], f"{result}")
        expect(result["seconds"] < 20, f"{result}")


def test():
    with lab(HOSTS, "--wires"):
        shapes()
        faults()
        late_receives()
        silent_switch()
    with lab(4, "--wires"), case("four_hosts"):
        judged("four_hosts", "--bytes", 200000, "--mode", "write", "--message-packets", 4,
               "--window", 16, hosts=4)


libtest.main(test)
