"""One running stack: its folder, its servers, and the commands about them."""

import json
import os
import pathlib
import shutil
import signal
import tempfile
import time

from . import secure
from .base import WORK, Failure, last_lines, locked, say, write_whole
from .cassandra import Node
from .kafka import QUICK, Broker, new_cluster_id
from .ports import Ports
from .process import end_all, exit_words, spawn, started_at

STATE = "stack.json"  # While it runs: addresses, and every pid with its start time.
LAYOUT = "layout.json"  # For as long as the data: who is in it, and at which ports.
DISPOSABLE = "disposable"  # Marks a folder that we made and may remove; says so if its start failed.
FAILED = "failed"
RUNNING = WORK / "running"  # A link per running stack, so that the other verbs find it.
STOP_SECONDS = 30


class Stack:
    """From jars: its servers are our children."""

    broker_kind = Broker
    certificates_kind = secure.Certificates
    kept = "logs and data"

    def __init__(self, options, ending, java=None, libs=None):
        self.options = options
        self.ending = ending
        self.java, self.libs = java, libs
        self.announced = False  # Whether the summary line was written: the stack serves.
        self.servers = {}
        self.ports = Ports()
        self.link = None
        self.home, self.ours = _make_home(options.dir)
        self.lock = locked(self.home / "lock")
        if self.lock is None:
            mend = "`dev-stack down --dir %s`, or another --dir" % self.home
            raise Failure("a dev stack already runs in %s" % self.home, mend)
        if self.ours and not options.keep:
            (self.home / DISPOSABLE).touch()

    # Before the start.

    def prepare(self):
        """Everything short of a process: ports, folders, configuration."""
        layout = self._layout()
        self.cluster = layout["cluster"]
        self.certificates = self.certificates_kind(self.home) if self.options.secure else None
        self.brokers = [self._broker(layout, n) for n in range(1, self.options.brokers + 1)]
        self.node = self._node(layout) if self.options.cassandra else None
        write_whole(self.home / LAYOUT, json.dumps(layout))
        if self.certificates:
            self.certificates.make()
        self._configure()

    def _node(self, layout):
        ports = self._ports(layout, "cassandra", 2)
        return Node(self.home / "cassandra", ports, self.options.cassandra_sync, self.certificates)

    def _configure(self):
        jit = [] if self.options.full_speed else QUICK
        for broker in self.brokers:
            broker.write(self.brokers)
            self.servers[broker.name] = broker.server(self.java, self.libs["kafka"], jit)
        if self.node:
            self.node.write()
            self.servers["cassandra"] = self.node.server(self.java, self.libs["cassandra"], jit)

    def _layout(self):
        try:
            layout = json.loads((self.home / LAYOUT).read_text())
        except OSError:
            wanted = self.options
            return {"cluster": new_cluster_id(), "brokers": wanted.brokers, "secure": wanted.secure, "ports": {}}
        before = layout["brokers"]
        if before and self.options.brokers and before != self.options.brokers:
            raise Failure("%s holds the data of %d broker(s), not %d" % (self.home, before, self.options.brokers),
                          "use --brokers %d, or another --dir" % before)
        if layout["secure"] != self.options.secure:
            raise Failure("%s was made %s --secure" % (self.home, "with" if layout["secure"] else "without"),
                          "start it the same way (its users are part of its data), or use another --dir")
        layout["brokers"] = before or self.options.brokers
        return layout

    def _broker(self, layout, node):
        name = "kafka-%d" % node
        broker = self.broker_kind(node, self.home / name, self._ports(layout, name, 3), self.certificates)
        if self.options.detour:
            (port,) = self._ports(layout, name + "-detour", 1)
            broker.detour = (port, self.options.detour[node - 1])
        return broker

    def _ports(self, layout, name, count):
        """Those it had, so that addresses written down stay true, unless others hold them now."""
        old = layout["ports"].get(name, [None] * count)
        layout["ports"][name] = [self.ports.take(port) for port in old]
        return layout["ports"][name]

    # The start.

    def start(self):
        begun = time.monotonic()
        RUNNING.mkdir(parents=True, exist_ok=True)
        self.link = RUNNING / str(os.getpid())
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(self.home)
        self._spawn()
        self._publish()
        everyone = [broker.node for broker in self.brokers]
        self._wait({server: everyone for server in self.servers.values()}, begun)
        self._publish()
        say("all of it serves after %.1f s; %s are in %s" % (time.monotonic() - begun, self.kept, self.home))

    def _spawn(self):
        if self.node:
            self.servers["cassandra"].spawn()
        self._publish()
        self._format()
        for broker in self.brokers:
            self.servers[broker.name].spawn()

    def _format(self):
        """All at once: each is a Java start of its own."""
        tools = []
        for broker in self.brokers:
            if not broker.is_formatted():
                log = broker.folder / "format.log"
                tools.append((broker, log, spawn(broker.format_command(self.java, self.libs["kafka"], self.cluster), log)))
        try:
            while any(tool.poll() is None for _, _, tool in tools):
                self.ending.pause(0.05)
        finally:
            for _, _, tool in tools:
                if tool.poll() is None:
                    tool.kill()
                    tool.wait()
        for broker, log, tool in tools:
            if tool.returncode != 0:
                raise Failure("the storage of %s could not be formatted (%s)" % (broker.name, exit_words(tool.returncode)),
                              "see the whole log: %s" % log, last_lines(log, 20))

    def _wait(self, waiting, begun):
        """Until each answers as a client would want it to; raises with the log's end if one gives up.

        `waiting` has the node ids that each server has to know of as alive."""
        while waiting:
            for server, peers in list(waiting.items()):
                server.check_alive()
                if server.answers(peers):
                    server.serves = True
                    del waiting[server]
                    say("%s serves after %.1f s (%s)" % (server.name, time.monotonic() - begun, self._address(server.name)))
                elif time.monotonic() - begun > self.options.wait:
                    server.too_late(self.options.wait)
            if waiting:
                self.ending.pause(0.05)

    # What is reported of the stack.

    def _address(self, name):
        return self.node.address() if name == "cassandra" else self.brokers[int(name[-1]) - 1].address()

    def pids(self):
        return dict({"dev-stack": os.getpid()}, **{s.name: s.pid() for s in self.servers.values()})

    def summary(self):
        extra = secure.summary(self.certificates, self.brokers, self.node) if self.certificates else {}
        if self.options.detour:
            extra["kafkaDetour"] = [broker.detour_address() for broker in self.brokers]
        return {
            "kafka": [broker.address() for broker in self.brokers],
            "cql": [self.node.address()] if self.node else [],
            "dir": str(self.home),
            "pids": self.pids(),
            **extra,
        }

    def _publish(self):
        started = {name: started_at(pid) for name, pid in self.pids().items() if pid}
        state = {name: server.state() for name, server in self.servers.items()}
        try:
            write_whole(self.home / STATE, json.dumps(dict(self.summary(), started=started, servers=state)) + "\n")
        except OSError as error:
            raise Failure("%s cannot be written: %s" % (self.home / STATE, error.strerror),
                          "see whether the folder was removed or its disk is full, then start again")

    # Commands.

    def command(self, text):
        """Does what one line asks. Always an answer, with `ok`; never an exception but `Ended`."""
        words = text.split()
        begun = time.monotonic()
        try:
            answer = dict({"ok": True}, **self._do(words[0], words[1:]))
        except Failure as failure:
            answer = {"ok": False, "error": failure.wrong, "mend": failure.mend, "detail": failure.detail}
        self._publish()
        return dict(answer, command=" ".join(words), ms=round(1000 * (time.monotonic() - begun)), pids=self.pids())

    def _do(self, verb, names):
        if verb == "status":
            return {"servers": {s.name: {"state": s.state(), "pid": s.pid()} for s in self.servers.values()}}
        if verb == "end":
            self.ending.ask("`end`")
            return {}
        actions = {"kill": self._kill, "stop": self._stop, "start": self._start,
                   "pause": self._pause, "resume": self._resume}
        if verb not in actions:
            raise Failure("there is no command `%s`" % verb, "say one of: %s, status, end" % ", ".join(actions))
        return actions[verb](self._named(verb, names)) or {}

    def _named(self, verb, names):
        known = list(self.servers)
        unknown = sorted(set(names) - set(known))
        if unknown or not names:
            wrong = "there is no %s" % ", ".join(unknown) if unknown else "`%s` names no server" % verb
            raise Failure(wrong, "name one or several of: %s" % ", ".join(known))
        return [self.servers[name] for name in names]

    def _running(self, servers):
        for server in servers:
            if not server.runs():
                raise Failure("%s does not run" % server.name, "`start %s` first" % server.name)

    def _kill(self, servers):
        self._running(servers)
        for server in servers:
            server.kill()

    def _stop(self, servers):
        self._running(servers)
        forced = end_all(servers, STOP_SECONDS)
        return {"forced": forced} if forced else {}

    def _start(self, servers):
        for server in servers:
            if server.runs():
                raise Failure("%s runs already" % server.name, "`kill` or `stop` it first")
        begun = time.monotonic()
        for server in servers:
            server.spawn()
        self._publish()
        try:
            # Others may be down on purpose: each has to see itself, not the whole cluster.
            self._wait({server: [self._node_id(server)] for server in servers}, begun)
        except Failure:
            for server in servers:
                if not server.serves:
                    server.kill()
            raise

    @staticmethod
    def _node_id(server):
        return int(server.name[-1]) if server.name.startswith("kafka-") else 0

    def _pause(self, servers):
        self._running(servers)
        for server in servers:
            server.pause()

    def _resume(self, servers):
        self._running(servers)
        for server in servers:
            server.resume()

    # The end.

    def report_deaths(self):
        for server in self.servers.values():
            if server.wanted and not server.runs():
                server.wanted = False
                how = exit_words(server.process.returncode)
                say("%s ended on its own (%s); its log: %s" % (server.name, how, server.log))
                self._publish()

    def end(self, failed=False):
        """Ends the servers, then removes what only this run needed. Data worth keeping gets a proper shutdown."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        disposable = self.ours and not self.options.keep
        self._end_servers(0 if disposable or failed else STOP_SECONDS)
        (self.home / STATE).unlink(missing_ok=True)
        if self.link:
            self.link.unlink(missing_ok=True)
        if disposable and failed:
            (self.home / DISPOSABLE).write_text(FAILED)
        elif disposable:
            shutil.rmtree(self.home, ignore_errors=True)
        self.ports.close()
        self.lock.close()

    def _end_servers(self, seconds):
        end_all([s for s in self.servers.values() if s.process], seconds)


def _make_home(wanted):
    """The folder, and whether it is ours to remove."""
    if wanted:
        home = pathlib.Path(wanted).absolute()
        home.mkdir(parents=True, exist_ok=True)
        return home, False
    WORK.mkdir(parents=True, exist_ok=True)
    _sweep()
    return pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=WORK)), True


def _sweep():
    """Removes the folders of runs that were killed, and a day later those of starts that failed (kept for their logs)."""
    for home in WORK.glob("run-*"):
        mark = home / DISPOSABLE
        try:
            if not mark.exists():
                continue
            if mark.read_text() == FAILED and time.time() - mark.stat().st_mtime < 86400:
                continue
            lock = locked(home / "lock")  # Held by a run that lives.
            if lock:
                shutil.rmtree(home, ignore_errors=True)
                lock.close()
        except OSError:
            pass  # Another dev-stack sweeps the same.
