#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""rxe as the judge of the switch's RC: raw verbs hosts against a static configuration."""
import itertools
import os

from vmlab import Judge, case, connections, counters, expect, guest_lab, lab, libtest, netem, \
    qdisc_stats, rxe_total, wait_for

HOSTS = 2


def settle():
    """Until the switch owes nothing and resends nothing: two equal readings of its books."""
    last = [None]

    def still():
        now = counters()
        same, last[0] = now == last[0], now
        return same

    wait_for("the switch to settle", still, 20)


def agree(hosts, before, losses=None):
    """What rxe sent is what the switch received, less what netem took, and the reverse."""
    settle()
    rxe, ours, conns = rxe_total(hosts, before), counters(), connections()
    story = f"rxe {rxe}\nswitch {ours}\nconnections {conns}\nnetem {losses}"
    roce_in = ours["rx"] - ours["pass_not_roce"] - ours["pass_no_connection"]
    if losses is None:
        expect(rxe["sent_pkts"] == roce_in,
               f"rxe sent {rxe['sent_pkts']} packets, the switch received {roce_in}\n{story}")
        answered = sum(v for k, v in ours.items() if k.startswith("answered_"))
        # what the slow path sends by itself: owed ACKs and resends
        extra = rxe["rcvd_pkts"] - answered - ours["copies_sent"]
        resent = sum(c["retransmits"] for c in conns)
        expect(0 <= extra <= resent + sum(c["received"] for c in conns),
               f"{extra} packets came from nowhere\n{story}")
    for c in conns:
        expect(c["error"] == 0 or c["error"] == "", f"a connection has failed\n{story}")
    return rxe, ours, conns


def judged(name, *args, hosts=HOSTS, lossless=False, timeout=90):
    with case(name):
        before = rxe_total(8 if os.path.exists("/sys/class/infiniband/rxe7") else hosts)
        judge = Judge("--hosts", hosts, *args)
        result = judge.run(timeout)
        rxe, ours, conns = agree(hosts, before, None if lossless else "some")
        print(f"# {name}: {result['messages']} messages in {result['seconds']} s; rxe "
              f"{dict((k, v) for k, v in rxe.items() if v)}; switch "
              f"{dict((k, v) for k, v in ours.items() if v)}", flush=True)
        for c in conns:
            expect(c["results"] == conns[0]["results"] == c["acknowledged"],
                   f"results are not all acknowledged: {conns}")
        return rxe, ours, conns
    return {}, {}, []


def shapes():
    for mode, packets in itertools.product(("send", "write"), (1, 4, 64)):
        judged(f"{mode}_messages_of_{packets}", "--mode", mode, "--message-packets", packets,
               "--bytes", 300004, "--window", max(1, 128 // packets), "--psn", 0xffff00,
               "--result-psn", 0xfffffe, lossless=True)
    for payload in (256, 512, 2048):
        judged(f"payload_{payload}", "--payload", payload, "--bytes", 100000, "--mode", "write",
               "--message-packets", 2, "--window", 32, lossless=True)
    judged("window_1", "--window", 1, "--bytes", 40000, lossless=True)


def losses():
    for direction, what in itertools.product(
            ("out", "in"), (("loss", "2%"), ("duplicate", "5%"),
                            ("delay", "1ms", "reorder", "90%", "50%"), ("corrupt", "1%"))):
        name = f"{what[0] if what[0] != 'delay' else 'reorder'}_{direction}"
        mode = "write" if direction == "in" else "send"
        with netem(0, direction, *what):
            rxe, ours, conns = judged(
                f"{name}", "--mode", mode, "--message-packets", 4, "--bytes", 400000,
                "--window", 16, "--psn", 0xffff80, "--result-psn", 0xffff80)
            with case(f"{name}_happened"):
                if what[0] in ("loss", "duplicate"):
                    print("# netem", qdisc_stats("h0" if direction == "out" else "ifb0"))
                if what[0] == "loss" and direction == "out":
                    expect(ours["answered_nak_sequence"] > 0, f"no NAK sent: {ours}")
                    expect(ours["answered_nak_sequence"] >= rxe["rcvd_seq_err"],
                           f"rxe counts more NAKs than were sent: {rxe} {ours}")
                if what[0] == "loss" and direction == "in":
                    expect(conns[0]["retransmits"] > 0, f"nothing resent: {conns}")
                    expect(rxe["out_of_seq_request"] >= conns[0]["naks_received"],
                           f"the switch counts more NAKs than were sent: {rxe} {conns}")
                if what[0] == "duplicate" and direction == "out":
                    expect(ours["answered_duplicate"] > 0, f"no duplicate seen: {ours}")
                if what[0] == "duplicate" and direction == "in":
                    expect(rxe["duplicate_request"] > 0, f"rxe saw no duplicate: {rxe}")
                if what[0] == "corrupt" and direction == "out":
                    expect(ours["drop_bad_icrc"] + ours["drop_bad_length"] +
                           ours["drop_truncated"] > 0, f"nothing was damaged: {ours}")


def late_receives():
    rxe, _, conns = judged("receives_posted_late", "--late-us", 3000, "--min-rnr-timer", 12,
                           "--window", 8, "--bytes", 100000)
    with case("receives_posted_late_made_rnr"):
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
        losses()
        late_receives()
        silent_switch()
    with lab(4, "--wires"):
        judged("four_hosts", "--bytes", 200000, "--mode", "write", "--message-packets", 4,
               "--window", 16, hosts=4, lossless=True)


libtest.main(test)
