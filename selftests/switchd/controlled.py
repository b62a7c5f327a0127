# SPDX-License-Identifier: BSD-2-Clause
"""A switch with a scripted controller, and communicators of either mode that it makes there."""
import contextlib

from switchd import Daemon, ScriptedController, command, expect
from terminated import COMM, PAYLOAD, addressed


def forget_addresses(net):
    for port in net.ports:
        command("ip", "-n", net.switch, "addr", "flush", "dev", port)


@contextlib.contextmanager
def controlled(*args, ranks=2, prefix=(), addresses=True):
    """A switch with a scripted controller, hosts that are not configured yet, and the switch's hello."""
    with addressed(ranks) as (directory, net, peers):
        if not addresses:
            forget_addresses(net)
        controller = ScriptedController(net.switch)
        try:
            with Daemon(net.switch, directory, "--controller", f"127.0.0.1:{controller.port}",
                        "--name", "s7", "--rto-min-ms", "20", "--rto-max-ms", "100",
                        *(x for p in net.ports for x in ("--port", p)), *args, prefix=prefix) as d:
                yield d, net, peers, controller, controller.welcome()
        finally:
            controller.close()


def passing(peers, communicator):
    """The configuration of a communicator in passthrough mode."""
    return {"communicator": communicator, "group": 7, "root": True, "payload": 1024, "slots": 8,
            "connections": [h.config() for h in peers]}


def terminated(peers, communicator=COMM, **more):
    return {"communicator": communicator, "group": 7, "root": True, "payload": PAYLOAD, "slots": 16,
            "mode": "termination", "messages": 4, "message_packets": 4,
            "connections": [h.config(peer_port=5000, own_endpoint="soft", peer_endpoint="soft")
                            for h in peers], **more}


def made(controller, conf):
    got = controller.ask(type="configure", seq=1, config=conf)
    expect(got["type"] == "configured", f"{got}")


def not_made(controller, conf, errno, *words):
    got = controller.ask(type="configure", seq=1, config=conf)
    expect(got["type"] == "error" and got["errno"] == errno and "\n" not in got["message"] and
           all(word in got["message"] for word in words), f"{got}")


def removed(controller, communicator):
    got = controller.ask(type="remove", seq=2, communicator=communicator)
    expect(got["type"] == "removed", f"{got}")


def usage(d):
    return {k: v for k, v in d.ask("status")["usage"].items() if not k.endswith("_limit")}
