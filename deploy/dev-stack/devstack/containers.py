"""`up` in containers: the settings of each container, and how it is handled like a process of ours."""

import json
import os
import shlex
import signal
import subprocess

from . import docker, secure
from .base import HOST, Failure, write_whole
from .cassandra import Node
from .kafka import HEAP, QUICK, Broker
from .process import Server
from .stack import Stack

# As in deploy/compose.yaml.
KAFKA = "apache/kafka:4.1.0"
SCYLLA = "scylladb/scylla:2025.1"

# Inside of containers, below every port that we publish.
INSIDE_PORT, CONTROLLER_PORT, CQL_PORT = 9092, 9093, 9042

# The image's own start script would not take a user for SCRAM; so the image's tools, with the settings of the jar way.
START_BROKER = """\
printf %%s "$PAYFOLD_BROKER" > /tmp/broker.properties &&
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --config /tmp/broker.properties --cluster-id %s &&
exec /opt/kafka/bin/kafka-server-start.sh /tmp/broker.properties"""

START_SCYLLA_WITH_KEY = """\
printf %s "$PAYFOLD_CHAIN" > /etc/scylla/payfold.pem && printf %s "$PAYFOLD_KEY" > /etc/scylla/payfold.key &&
exec /docker-entrypoint.py "$@\""""


class ContainerBroker(Broker):
    bound_to = ""

    def places(self, brokers):
        return {
            "controller.quorum.voters": ",".join("%d@%s:%d" % (b.node, b.name, CONTROLLER_PORT) for b in brokers),
            "inter.broker.listener.name": "INSIDE",
            "listeners": "PLAINTEXT://:%d,INSIDE://:%d,CONTROLLER://:%d" % (self.port, INSIDE_PORT, CONTROLLER_PORT),
            "advertised.listeners": "PLAINTEXT://%s:%d,INSIDE://%s:%d" % (HOST, self.port, self.name, INSIDE_PORT),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "/var/lib/kafka/data",  # A volume of the image's.
        }

    def service(self, brokers, cluster, full_speed):
        users = secure.format_arguments() if self.certificates else []
        ports = [self.port] + ([self.secure_port] if self.certificates else []) + ([self.detour[0]] if self.detour else [])
        return {
            "image": KAFKA,
            "hostname": self.name,
            "entrypoint": ["sh", "-c", START_BROKER % shlex.join([cluster, *users])],
            "environment": {
                "PAYFOLD_BROKER": self.text(brokers),
                "KAFKA_HEAP_OPTS": " ".join(HEAP),
                "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(["-server"] + ([] if full_speed else QUICK)),
                # A container that starts again may have another address.
                "KAFKA_OPTS": "-Djava.net.preferIPv4Stack=true -Dsun.net.inetaddr.ttl=1",
            },
            "ports": ["%s:%d:%d" % (HOST, port, port) for port in ports],
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
        }


class Scylla(Node):
    """The database of production. It has the name that commands know the database by."""

    def __init__(self, folder, ports, sync, certificates=None):
        super().__init__(folder, (*ports, None), sync, certificates)

    def service(self):
        service = {"image": SCYLLA, "command": self.arguments(), "ports": ["%s:%d:%d" % (HOST, self.port, CQL_PORT)]}
        if self.certificates:
            # One port speaks plain CQL or TLS here, never both.
            chain, key = ((self.certificates.folder / name).read_text() for name in ("server.pem", "server.key"))
            service["environment"] = {"PAYFOLD_CHAIN": chain, "PAYFOLD_KEY": key}
            service["entrypoint"] = ["sh", "-c", START_SCYLLA_WITH_KEY, "sh"]
        return service

    def arguments(self):
        arguments = [
            "--developer-mode=1", "--smp=1", "--memory=750M", "--overprovisioned=1",
            # Alone, and the same to itself wherever its container starts again.
            "--listen-address=127.0.0.1", "--rpc-address=0.0.0.0", "--broadcast-rpc-address=%s" % HOST,
            "--skip-wait-for-gossip-to-settle=0",
            # Tests drop their keyspaces; no test reads a snapshot of them.
            "--auto-snapshot=0",
            # Claims are conditional writes, which this version has on keyspaces without tablets only.
            "--tablets-mode-for-new-keyspaces=disabled",
            # Of the kernel's asynchronous I/O, which all ScyllaDBs of a machine share.
            "--max-networking-io-control-blocks=1000",
            "--commitlog-sync=%s" % self.sync,
        ]
        if self.sync == "periodic":
            arguments.append("--commitlog-sync-period-in-ms=100")
        if self.certificates:
            of_clients = ("enabled=true", "certificate=/etc/scylla/payfold.pem", "keyfile=/etc/scylla/payfold.key")
            arguments += ["--authenticator=PasswordAuthenticator"]
            arguments += ["--client-encryption-options=%s" % option for option in of_clients]
        return arguments

    def connect(self):
        return secure.connect(self.port, self.certificates.ca) if self.certificates else super().connect()


class Container(Server):
    """Its process is `docker start --attach`, which prints what the container prints and ends when it ends."""

    VERBS = {
        signal.SIGKILL: ["kill"],
        signal.SIGTERM: ["kill", "--signal", "SIGTERM"],
        signal.SIGSTOP: ["pause"],
        signal.SIGCONT: ["unpause"],
    }

    def __init__(self, name, folder, container, answers):
        super().__init__(name, folder, ["docker", "start", "--attach", container], answers)
        self.container = container

    def signal(self, number):
        if not self.runs() or number == signal.SIGCONT and not self.paused:
            return
        try:
            docker.ask(*self.VERBS[number], self.container, seconds=docker.ACT_SECONDS)
        except Failure:
            if not self._ends_within(2):  # Else it was faster than we.
                raise
        if number == signal.SIGKILL and not self._ends_within(docker.ACT_SECONDS):
            raise Failure("%s was killed and still runs" % self.name, "see `docker ps` and %s" % self.log)

    def _ends_within(self, seconds):
        try:
            self.process.wait(timeout=seconds)
            return True
        except subprocess.TimeoutExpired:
            return False


class ContainerStack(Stack):
    """Servers are Docker's children, and end with us by way of `docker.Project`."""

    broker_kind = ContainerBroker
    certificates_kind = secure.PemCertificates
    kept = "logs"

    def prepare(self):
        self.project = docker.Project("payfold-dev-stack-%d" % os.getpid(), self.home / "compose.json", self.home / "docker.log")
        for image in ([KAFKA] if self.options.brokers else []) + ([SCYLLA] if self.options.cassandra else []):
            docker.ensure_image(image, self.project.log, self.ending)
        super().prepare()

    def _node(self, layout):
        return Scylla(self.home / "cassandra", self._ports(layout, "cassandra", 1), self.options.cassandra_sync, self.certificates)

    def _configure(self):
        services = {broker.name: broker.service(self.brokers, self.cluster, self.options.full_speed) for broker in self.brokers}
        answers = {broker.name: broker.serves for broker in self.brokers}
        if self.node:
            services[self.node.name] = self.node.service()
            answers[self.node.name] = lambda _peers: self.node.serves()
        for name, service in services.items():
            service["container_name"] = "%s-%s" % (self.project.name, name)
            (self.home / name).mkdir()
            self.servers[name] = Container(name, self.home / name, service["container_name"], answers[name])
        write_whole(self.home / "compose.json", json.dumps(escaped({"services": services}), indent=1))

    def _spawn(self):
        self.project.create(self.lock, self.ending)
        for server in self.servers.values():
            server.spawn()

    def _end_servers(self, seconds):
        self.project.remove()
        for server in self.servers.values():
            if server.runs():
                server.process.kill()  # Docker does not end it: we no longer wait.

    def summary(self):
        return dict(super().summary(), project=self.project.name)


def escaped(value):
    """For Compose, which would put variables in place of what begins with a dollar."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: escaped(part) for key, part in value.items()}
    return [escaped(part) for part in value] if isinstance(value, list) else value
