#!/usr/bin/env python3
"""The stand-in for the `docker` command in trial_docker.py. STAND_IN is its folder: what it was asked (`asked`), what is to
fail (`fail-VERB`), its containers' process ids (`NAME.pid`). Containers outlive their client, as Docker's do."""

import json
import os
import pathlib
import signal
import socketserver
import ssl
import struct
import sys
import threading
import time

FOLDER = pathlib.Path(os.environ["STAND_IN"])
SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "unpause": signal.SIGCONT}
PRINTED = {"info": "28.0", "context": "unix:///var/run/docker.sock", "version": "2.40.0", "image": "sha256:x"}


def main(arguments):
    with open(FOLDER / "asked", "a") as asked:
        asked.write(" ".join(arguments) + "\n")
    verb = arguments[1] if arguments[:2] == ["compose", "version"] else arguments[0]
    if (FOLDER / ("fail-" + verb)).exists():
        sys.exit((FOLDER / ("fail-" + verb)).read_text())
    if verb in PRINTED:
        print(PRINTED[verb])
    elif verb == "compose" and arguments[-1] == "create":
        (FOLDER / "compose").write_text(pathlib.Path(arguments[4]).read_text())
    elif verb == "compose":
        for path in FOLDER.glob("*.pid"):
            strike(path.name[:-len(".pid")], signal.SIGKILL)
    elif verb == "start":
        start(arguments[-1])
    elif verb in SIGNALS:
        strike(arguments[-1], signal.SIGTERM if "SIGTERM" in arguments else SIGNALS[verb])


def strike(container, number):
    try:
        os.kill(int((FOLDER / (container + ".pid")).read_text()), number)
    except ProcessLookupError:
        pass


def start(container):
    """The container is a grandchild, with a client that waits for it."""
    if (FOLDER / "fail-serving").exists():
        sys.exit((FOLDER / "fail-serving").read_text())
    services = json.loads((FOLDER / "compose").read_text())["services"]
    (service,) = (service for service in services.values() if service["container_name"] == container)
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        child = os.fork()
        if child == 0:
            (FOLDER / (container + ".pid")).write_text(str(os.getpid()))
            serve(service, [int(name[-1]) for name in services if name.startswith("kafka-")])
        _, status = os.waitpid(child, 0)
        os.write(writer, bytes([128 + os.WTERMSIG(status)]))
        os._exit(0)
    os.close(writer)
    sys.exit(os.read(reader, 1)[0])


def serve(service, nodes):
    environment = service.get("environment", {})
    database = "PAYFOLD_BROKER" not in environment
    for number, port in enumerate(int(text.split(":")[1]) for text in service["ports"]):
        secure = "PAYFOLD_CHAIN" in environment or number == 1 and "SECURE" in environment["PAYFOLD_BROKER"]
        context = tls(environment) if secure else None
        handler = type("Handler", (socketserver.BaseRequestHandler,), {
            "handle": lambda self: answer(self.request, database, nodes, self.server.context)})
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        server = socketserver.ThreadingTCPServer(("127.0.0.1", port), handler)
        server.context = context
        threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        time.sleep(60)


def tls(environment):
    """With the key and chain that the container was given."""
    if "PAYFOLD_CHAIN" in environment:
        chain, key = environment["PAYFOLD_CHAIN"], environment["PAYFOLD_KEY"]
    else:
        settings = dict(line.split("=", 1) for line in environment["PAYFOLD_BROKER"].splitlines() if "=" in line)
        prefix = "listener.name.secure.ssl.keystore."
        chain, key = (settings[prefix + name].replace("\\n", "\n") for name in ("certificate.chain", "key"))
    path = FOLDER / ("pem-%d" % os.getpid())
    path.write_text(chain + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def answer(link, database, nodes, context):
    try:
        if context:
            link = context.wrap_socket(link, server_side=True)
        while True:
            if database:
                kind, size = struct.unpack(">xxxxBi", link.recv(9))
                link.recv(size)
                reply = {5: 6, 1: 3 if context else 2, 15: 16}[kind]
                link.sendall(struct.pack(">BBhBi", 0x84, 0, 0, reply, 0))
            else:
                link.recv(struct.unpack(">i", link.recv(4))[0])
                body = struct.pack(">ii", 1, len(nodes))
                body += b"".join(struct.pack(">ih1sih", node, 1, b"x", 1, -1) for node in nodes)
                link.sendall(struct.pack(">i", len(body)) + body)
    except (OSError, struct.error):
        pass


main(sys.argv[1:])
