"""The verbs about a stack that another process runs: found by its folder, ended by its process ids."""

import json
import os
import pathlib
import shlex
import signal
import time

from .base import Failure, say
from .process import started_at
from .stack import DISPOSABLE, RUNNING, STATE, STOP_SECONDS

SECURE_NAMES = {
    "kafkaSecure": "PAYFOLD_TEST_KAFKA_SECURE",
    "ca": "PAYFOLD_TEST_CA",
    "user": "PAYFOLD_TEST_KAFKA_USER",
    "password": "PAYFOLD_TEST_KAFKA_PASSWORD",
    "cqlUser": "PAYFOLD_TEST_CQL_USER",
    "cqlPassword": "PAYFOLD_TEST_CQL_PASSWORD",
}


class Found:
    """What `stack.json` says, as far as it is still true."""

    def __init__(self, home):
        self.home = home
        self.state = json.loads((home / STATE).read_text())

    def alive(self):
        """The pids that still are the processes we started: a number may long be somebody else's."""
        started = self.state["started"]
        return {name: pid for name, pid in self.state["pids"].items() if pid and started_at(pid) == started.get(name)}


def read(home):
    """The stack of this folder, or None."""
    try:
        return Found(home)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, OSError) as error:
        mend = "if no server of it runs, remove the folder %s" % home
        raise Failure("%s cannot be read: %s" % (home / STATE, error), mend)


def find(wanted):
    """The stack in `wanted`; without it the only one that runs. None if there is none."""
    if wanted:
        return read(pathlib.Path(wanted).absolute())
    found = []
    for link in sorted(RUNNING.glob("*")) if RUNNING.is_dir() else []:
        stack = read(link.resolve())
        if stack and stack.alive():
            found.append(stack)
        else:
            link.unlink(missing_ok=True)  # Its process was killed and could not do it.
    if len(found) > 1:
        raise Failure("%d stacks run" % len(found), "say which: " + ", ".join("--dir %s" % s.home for s in found))
    return found[0] if found else None


def require(wanted):
    stack = find(wanted)
    if stack is None or not stack.alive():
        where = "in %s" % pathlib.Path(wanted).absolute() if wanted else "that was started from this repository"
        raise Failure("no dev stack runs %s" % where, "start one: `dev-stack up --detach`")
    return stack


def status(options):
    stack = require(options.dir)
    alive = stack.alive()
    pids = {name: alive.get(name) for name in stack.state["pids"]}
    # A container's process is not ours to see: what was written down is what our last command made of it.
    written = stack.state["servers"] if "project" in stack.state else {}
    servers = {name: {"state": written.get(name) if pid and name in written else server_state(pid), "pid": pid}
               for name, pid in pids.items() if name != "dev-stack"}
    for name, server in servers.items():
        say("%-10s %-8s %s" % (name, server["state"], "pid %d" % server["pid"] if server["pid"] else ""))
    known = {key: value for key, value in stack.state.items() if key not in ("started", "pids", "servers")}
    print(json.dumps(dict(known, pids=pids, servers=servers)))
    return 0


def server_state(pid):
    if pid is None:
        return "dead"
    try:
        stopped = pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] == "T"
        return "paused" if stopped else "running"
    except OSError:
        return "running"


def env(options):
    state = require(options.dir).state
    kafka, cql = ",".join(state["kafka"]), ",".join(state["cql"])
    lines = []
    if kafka:
        lines += [("PAYFOLD_TEST_KAFKA", kafka), ("PAYFOLD_LOG", "kafka://%s/dev" % kafka)]
    if cql:
        lines += [("PAYFOLD_TEST_CQL", cql), ("PAYFOLD_ORDERS", "cql://%s/payfold" % cql)]
    lines += [(name, state[key]) for key, name in SECURE_NAMES.items() if key in state]
    for name, value in lines:
        print("export %s=%s" % (name, shlex.quote(value)))
    return 0


def down(options):
    stack = find(options.dir)
    if stack is None:
        say("nothing to end: no dev stack runs")
        return 0
    alive = stack.alive()
    begun = time.monotonic()
    if "dev-stack" in alive:
        # It ends its servers, each in order, and cleans up.
        os.kill(alive["dev-stack"], signal.SIGTERM)
        wait_gone(stack, STOP_SECONDS + 10)
    for name, pid in stack.alive().items():
        say("%s (pid %d) is left over: killing it" % (name, pid))
        os.kill(pid, signal.SIGKILL)
    if not wait_gone(stack, 10):
        left = ", ".join("%s (pid %d)" % pair for pair in stack.alive().items())
        raise Failure("these do not end: %s" % left, "they hang in the kernel or are another user's: see `ps -fp PID`")
    (stack.home / STATE).unlink(missing_ok=True)
    if "dev-stack" in stack.state["pids"]:
        (RUNNING / str(stack.state["pids"]["dev-stack"])).unlink(missing_ok=True)
    say("ended %s in %.1f s" % (", ".join(alive) or "what was left", time.monotonic() - begun))
    if stack.home.exists() and not (stack.home / DISPOSABLE).exists():
        say("data and logs stay in %s" % stack.home)
    return 0


def wait_gone(stack, seconds):
    deadline = time.monotonic() + seconds
    while stack.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
