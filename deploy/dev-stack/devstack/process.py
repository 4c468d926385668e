"""One server process: started so that it cannot outlive us, ended by its id, never by a name."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

from .base import Failure, last_lines

PR_SET_PDEATHSIG = 1
# Looked up before any fork: the child of a fork should do as little as it can.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def _die_with(parent):
    """Runs in the child: the kernel kills it when the thread that started it ends (so only the main thread may)."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # The parent went between fork and prctl.


def spawn(command, log, env=None, cwd=None):
    """Starts `command` with its output added to `log`, in its own process group: Ctrl-C in a terminal is for us."""
    parent = os.getpid()
    with open(log, "ab") as out:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, **(env or {})),
            cwd=cwd,
            preexec_fn=(lambda: _die_with(parent)) if _LIBC else None,
        )


def started_at(pid):
    """When `pid` started, in the kernel's own words; None if there is no such process (or only its zombie).

    A pid together with this names one process for good, while a pid alone may come to mean another."""
    try:
        stat = pathlib.Path("/proc/%d/stat" % pid).read_text()
    except FileNotFoundError:
        if pathlib.Path("/proc/self/stat").exists():
            return None
        found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
        return found.stdout.strip() or None
    except ProcessLookupError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


class Server:
    """A server with its folder and log, across its lives."""

    def __init__(self, name, folder, command, answers, env=None):
        self.name = name
        self.folder = folder
        self.log = folder / "server.log"
        self.command = command
        self.answers = answers  # Asks the server itself; true once it serves.
        self.env = env
        self.process = None
        self.paused = False
        self.serves = False
        self.wanted = False  # We started it and have not ended it: if it is gone, that is news.
        self.log_start = 0  # Where this life's part of the log begins.

    def spawn(self):
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        self.process = spawn(self.command, self.log, env=self.env, cwd=self.folder)
        self.paused, self.serves, self.wanted = False, False, True

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def pid(self):
        return self.process.pid if self.runs() else None

    def state(self):
        if not self.runs():
            return "dead"
        return "paused" if self.paused else "serving" if self.serves else "starting"

    def signal(self, number):
        if self.runs():
            self.process.send_signal(number)

    def check_alive(self):
        """Raises with the end of the server's own output if it is gone."""
        if not self.runs():
            self._fail("%s ended (%s) before it served" % (self.name, exit_words(self.process.returncode)))

    def too_late(self, seconds):
        self._fail("%s does not serve after %d s" % (self.name, seconds))

    def _fail(self, wrong):
        raise Failure(wrong, "see the whole log: %s" % self.log, last_lines(self.log, 20, self.log_start))

    def kill(self):
        self.wanted = False
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        self.paused = False

    def pause(self):
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        self.signal(signal.SIGCONT)
        self.paused = False


def exit_words(code):
    return "signal %d" % -code if code is not None and code < 0 else "exit code %s" % code


def end_all(servers, seconds):
    """Asks all at once, waits for all together, kills what is left; returns the names of those.

    With 0 seconds no server is asked: all are killed."""
    for server in servers:
        server.wanted = False
        if seconds:
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGCONT)  # A paused one would keep the request for later.
    deadline = time.monotonic() + seconds
    while any(s.runs() for s in servers) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [server.name for server in servers if server.runs()]
    for server in servers:
        server.kill()
    return left
