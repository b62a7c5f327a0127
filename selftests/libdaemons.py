# SPDX-License-Identifier: BSD-2-Clause
"""Ends and restarts a lab's processes: switch daemons, the controller, cables. This is a base class of Lab
(libtest.py), which provides the nodes."""
import os
import signal
import subprocess

from libproc import expect, gone, wait_for


class Daemons:
    """Nodes have their names in the lab; the controller's is "controller"."""

    def __init__(self):
        self.restarted = {}  # node: its new process
        self.spaces = {}     # node: its network namespace, which exists as long as a process uses it

    def pid(self, name):
        """The number of the node's present process."""
        process = self.restarted.get(name)
        return process.pid if process else self.node(name)["pid"]

    def end_process(self, name, number=signal.SIGKILL):
        """Sends a node's process a signal that ends it, and waits for its end. Stores what start_process() needs to
        start it again."""
        node, pid = self.node(name), self.pid(name)
        process = self.restarted.get(name)
        if name not in self.spaces:
            self.spaces[name] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                node["argv"] = f.read().decode().split("\0")[:-1]
        os.kill(pid, number)
        if process:
            process.wait(20)
        else:
            wait_for("its end", lambda: gone(pid), 20)

    def start_process(self, name):
        """Starts a node's process again with its first arguments."""
        node, space = self.node(name), self.spaces[name]
        with open(node.get("log", os.devnull), "ab") as log:
            self.restarted[name] = subprocess.Popen(
                ["nsenter", f"--net=/proc/self/fd/{space}", *node["argv"]],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(space,))
        return self.restarted[name]

    def end_restarted(self):
        """Ends what start_process() has started, at the end of the lab. Returns {node: exit code} of those that did
        not end properly."""
        codes = {}
        for name, process in self.restarted.items():
            process.terminate()
            codes[name] = process.wait(20)
        for space in self.spaces.values():
            os.close(space)
        return {name: code for name, code in codes.items() if code not in (0, -signal.SIGKILL)}

    def switch_pid(self, name):
        return self.pid(name)

    def end_switch(self, name, number=signal.SIGKILL):
        self.end_process(name, number)

    def start_switch(self, name, connected=True):
        """Starts inc-switchd again with its first arguments."""
        process = self.start_process(name)
        if connected:
            wait_for("connected", lambda: process.poll() is not None or any(
                s["switch"] == name and s["state"] == "connected" for s in self.ask("switches")), 20)
            expect(process.poll() is None, f"exit code {process.poll()} of {name}")

    def start_controller(self):
        """Starts inc-controller again with its first arguments and its database. Waits until all switches are
        connected."""
        process = self.start_process("controller")
        wait_for("the switches", lambda: process.poll() is not None or
                 self.incctl("switches", "--json", check=False).code == 0 and
                 all(s["state"] == "connected" for s in self.ask("switches")), 20)
        expect(process.poll() is None, f"exit code {process.poll()} of the controller")

    def restart_controller(self, number=signal.SIGKILL):
        self.end_process("controller", number)
        self.start_controller()
