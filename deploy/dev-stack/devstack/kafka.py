"""Brokers: their properties, the format of their storage, and the question whether they serve."""

import base64
import socket
import struct
import uuid

from . import secure
from .base import HERE, HOST, write_whole
from .process import Server

METADATA = 3
HEAP = ["-Xms96m", "-Xmx512m", "-XX:+UseSerialGC", "-Xss512k"]
# A third less work until a server serves, and less memory; its peak is lower, which tests don't reach.
QUICK = ["-XX:TieredStopAtLevel=1"]
# Less memory kept by the C library's allocator for each of a server's many threads.
ENV = {"MALLOC_ARENA_MAX": "2"}


def new_cluster_id():
    text = "-"
    while text.startswith("-"):  # Kafka's tool would take it for an option.
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return text


class Broker:
    bound_to = HOST

    def __init__(self, node, folder, ports, certificates=None):
        self.node = node
        self.detour = None  # (Port of a further listener, port it is advertised at): somebody's proxy stands between.
        self.certificates = certificates  # With them, a further listener for TLS and SASL.
        self.name = "kafka-%d" % node
        self.folder = folder
        self.port, self.controller_port, self.secure_port = ports
        self.properties = folder / "server.properties"

    def address(self):
        return "%s:%d" % (HOST, self.port)

    def secure_address(self):
        return "%s:%d" % (HOST, self.secure_port)

    def detour_address(self):
        return "%s:%d" % (HOST, self.detour[0])

    def is_formatted(self):
        return (self.folder / "data" / "meta.properties").exists()

    def write(self, brokers):
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.properties, self.text(brokers))

    def text(self, brokers):
        """Its server.properties."""
        text = (HERE / "kafka" / "server.properties").read_text() + "\n# This broker.\n"
        return text + "".join("%s=%s\n" % pair for pair in self.values(brokers).items())

    def values(self, brokers):
        count = len(brokers)
        replicas, in_sync = (3, 2) if count == 3 else (1, 1)
        values = {
            "node.id": self.node,
            **self.places(brokers),
            # A killed broker is let back in only after this long. Three get enough to outlast a busy machine's hiccup;
            # a single broker has no other to take over, and it is to be back soon.
            "broker.session.timeout.ms": 6000 if count == 3 else 3000,
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
        }
        if count == 1:
            # A member of a group that stalls on a busy machine is not gone.
            values.update({
                "group.consumer.heartbeat.interval.ms": 3000,
                "group.consumer.session.timeout.ms": 20000,
            })
        if self.certificates:
            # At every broker: who enters by this listener is shown only brokers that have it.
            self._listen(values, "SECURE:SASL_SSL", self.secure_port, self.secure_port)
            values.update(secure.broker_properties(self.certificates))
        if self.detour:
            self._listen(values, "DETOUR:PLAINTEXT", *self.detour)
        return values

    def places(self, brokers):
        """Where it listens, where it is found, where its data is."""
        return {
            "controller.quorum.voters": ",".join("%d@%s:%d" % (b.node, HOST, b.controller_port) for b in brokers),
            "listeners": "PLAINTEXT://%s:%d,CONTROLLER://%s:%d" % (HOST, self.port, HOST, self.controller_port),
            "advertised.listeners": "PLAINTEXT://%s:%d" % (HOST, self.port),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.folder / "data",
        }

    def _listen(self, values, protocol, port, advertised):
        """One listener more: NAME:PROTOCOL."""
        name = protocol.partition(":")[0]
        values["listeners"] += ",%s://%s:%d" % (name, self.bound_to, port)
        values["advertised.listeners"] += ",%s://%s:%d" % (name, HOST, advertised)
        values["listener.security.protocol.map"] += "," + protocol

    def format_command(self, java, libs, cluster):
        return [
            java, *QUICK, "-XX:+UseSerialGC", "-cp", "%s/*" % libs,
            "-Dlog4j2.configurationFile=%s" % (HERE / "kafka" / "log4j2-tools.xml"),
            "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", self.properties,
            *(secure.format_arguments() if self.certificates else []),
        ]

    def server(self, java, libs, jit):
        command = [
            java, *HEAP, *jit, "-cp", "%s/*" % libs, "-Djava.net.preferIPv4Stack=true",
            "-Dlog4j2.configurationFile=%s" % (HERE / "kafka" / "log4j2.xml"),
            "kafka.Kafka", self.properties,
        ]
        return Server(self.name, self.folder, command, lambda peers: self.serves(peers), env=ENV)

    def serves(self, peers):
        """The broker itself names every one of `peers` (node ids) as alive; it does so once it let them register."""
        try:
            if not set(peers) <= metadata_nodes(self.port):
                return False
            return self.certificates is None or secure.handshakes(self.secure_port, self.certificates.ca)
        except (OSError, struct.error):
            return False


def metadata_nodes(port):
    """The node ids in a broker's answer to Metadata version 1 for no topics (KIP-4's layout)."""
    client = b"dev-stack"
    request = struct.pack(">hhih", METADATA, 1, 1, len(client)) + client + struct.pack(">i", 0)
    with socket.create_connection((HOST, port), timeout=2) as link:
        link.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", read_exactly(link, 4))
        answer = read_exactly(link, size)
    (count,) = struct.unpack_from(">i", answer, 4)
    nodes, at = set(), 8
    for _ in range(count):
        node, host = struct.unpack_from(">ih", answer, at)
        at += 6 + host + 4
        (rack,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(rack, 0)
        nodes.add(node)
    return nodes


def read_exactly(link, size):
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise OSError("the connection ended early")
        data += part
    return data
