"""The Cassandra node: its configuration, and the question whether it serves CQL."""

import json
import socket
import struct

from . import secure
from .base import HERE, HOST, write_whole
from .kafka import ENV, read_exactly
from .process import Server

# Frames of the native protocol, version 4.
ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED = 0x00, 0x01, 0x02, 0x03, 0x05, 0x06
AUTH_RESPONSE, AUTH_SUCCESS = 0x0F, 0x10


class Node:
    name = "cassandra"

    def __init__(self, folder, ports, sync, certificates=None):
        self.folder = folder
        self.certificates = certificates  # With them: TLS for those who ask, and passwords for all.
        self.port, self.storage_port = ports
        self.sync = sync
        self.yaml = folder / "cassandra.yaml"

    def address(self):
        return "%s:%d" % (HOST, self.port)

    def write(self):
        data = self.folder / "data"
        lines = [
            "storage_port: %d" % self.storage_port,
            "native_transport_port: %d" % self.port,
            "commitlog_sync: %s" % self.sync,
            "commitlog_directory: %s" % quoted(data / "commitlog"),
            "saved_caches_directory: %s" % quoted(data / "saved_caches"),
            "hints_directory: %s" % quoted(data / "hints"),
            "cdc_raw_directory: %s" % quoted(data / "cdc_raw"),
            "data_file_directories: [ %s ]" % quoted(data / "tables"),
            "seed_provider:",
            "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider",
            "    parameters: [ { seeds: '%s:%d' } ]" % (HOST, self.storage_port),
        ]
        if self.sync == "periodic":
            lines.append("commitlog_sync_period: 10000ms")
        if self.certificates:
            lines += secure.cassandra_lines(self.certificates, quoted)
        (self.folder / "triggers").mkdir(parents=True, exist_ok=True)
        text = (HERE / "cassandra" / "cassandra.yaml").read_text() + "\n# This run.\n"
        write_whole(self.yaml, text + "\n".join(lines) + "\n")

    def server(self, java, libs, jit):
        (jamm,) = libs.glob("jamm-*.jar")
        command = [
            java, "@%s" % (HERE / "cassandra" / "jvm.options"), *jit, "-javaagent:%s" % jamm, "-cp", "%s/*" % libs,
            "-Dcassandra.config=%s" % self.yaml.as_uri(),
            "-Dcassandra.storagedir=%s" % (self.folder / "data"),
            "-Dcassandra.logdir=%s" % self.folder,
            "-Dcassandra.triggers_dir=%s" % (self.folder / "triggers"),
            "-Dlogback.configurationFile=%s" % (HERE / "cassandra" / "logback.xml"),
            "-XX:ErrorFile=%s/hs_err.log" % self.folder,
            "-Djava.io.tmpdir=%s" % self.folder,
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        return Server(self.name, self.folder, command, lambda _peers: self.serves(), env=ENV)

    def connect(self):
        return socket.create_connection((HOST, self.port), timeout=2)

    def serves(self):
        try:
            with self.connect() as link:
                if ask(link, OPTIONS, b"")[0] != SUPPORTED:
                    return False
                answer = ask(link, STARTUP, string_map({"CQL_VERSION": "3.0.0"}))[0]
                if answer != AUTHENTICATE:
                    return answer == READY
                # The first user is made some time after the first connection is taken.
                token = ("\0%s\0%s" % (secure.CQL_USER, secure.CQL_PASSWORD)).encode()
                return ask(link, AUTH_RESPONSE, struct.pack(">i", len(token)) + token)[0] == AUTH_SUCCESS
        except (OSError, struct.error):
            return False


def quoted(path):
    """JSON's strings are YAML's too."""
    return json.dumps(str(path))


def ask(link, opcode, body):
    link.sendall(struct.pack(">BBhBi", 0x04, 0, 0, opcode, len(body)) + body)
    _version, _flags, _stream, answer, size = struct.unpack(">BBhBi", read_exactly(link, 9))
    return answer, read_exactly(link, size)


def string_map(values):
    out = struct.pack(">h", len(values))
    for text in (part for pair in values.items() for part in pair):
        out += struct.pack(">h", len(text)) + text.encode()
    return out
