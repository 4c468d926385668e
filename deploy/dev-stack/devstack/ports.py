"""Ports on 127.0.0.1 that stay ours while their server is down.

A port is taken from below the range out of which the kernel serves outgoing connections, so that no process gets it by chance
between a kill and the next start. Its lock file keeps other dev stacks off it for as long as this process lives."""

import os
import pathlib
import random
import re
import socket
import tempfile

from .base import HOST, Failure, locked

LOCKS = pathlib.Path(tempfile.gettempdir()) / ("payfold-dev-stack-ports-%d" % os.getuid())


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _candidates():
    low, high = 32768, 60999
    try:
        found = re.findall(r"\d+", pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text())
        low, high = int(found[0]), int(found[1])
    except (OSError, IndexError):
        pass
    quiet = [p for p in range(20000, 65536) if not low <= p <= high]
    ports = quiet if len(quiet) >= 1000 else list(range(20000, 65536))
    random.shuffle(ports)
    return ports


class Ports:
    def __init__(self):
        self._locks = {}

    def take(self, wanted=None):
        """`wanted` if it is free (a stack that comes back keeps its addresses), else any."""
        for port in ([wanted] if wanted else []) + _candidates():
            if port in self._locks:
                continue
            lock = locked(LOCKS / str(port))
            if lock is None:
                continue
            if is_free(port):
                self._locks[port] = lock
                return port
            lock.close()
        self.close()
        raise Failure("no free port on %s above 20000" % HOST, "end what holds them: `ss -ltnp` lists it")

    def close(self):
        for lock in self._locks.values():
            lock.close()
        self._locks = {}
