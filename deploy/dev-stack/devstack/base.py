"""What every part shares: how failures and messages look, and where things are."""

import fcntl
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = HERE.parent.parent
WORK = REPOSITORY / "target" / "dev-stack"
HOST = "127.0.0.1"


class Failure(Exception):
    """Something is wrong: what, and how to mend it. Ends the command with exit code 1."""

    def __init__(self, wrong, mend=None, detail=()):
        super().__init__(wrong)
        self.wrong = wrong
        self.mend = mend
        self.detail = list(detail)

    def lines(self):
        out = [self.wrong] + ["  | " + line for line in self.detail]
        return out + (["  mend: " + self.mend] if self.mend else [])


class Ended(Exception):
    """A request to end (signal, end of input) came before the work was done."""


def say(text):
    """One line for humans. Standard output belongs to the machine-readable lines."""
    try:
        sys.stderr.write("dev-stack: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # The reader of this line is gone; an orderly end matters more than the line.


class Ending:
    """Why we have to end, once there is a reason. Set by signals and by the thread that reads the input."""

    def __init__(self):
        self.reason = None

    def ask(self, reason):
        self.reason = self.reason or reason

    def pause(self, seconds):
        """Sleeps a little, or raises `Ended`: every wait of ours goes through here."""
        if self.reason:
            raise Ended(self.reason)
        time.sleep(seconds)


def locked(path):
    """Takes the lock file at `path`: the open file (it holds the lock, and dies with the process), or None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except BlockingIOError:
        file.close()
        return None


def wait_locked(path, notice, ending):
    """As `locked`, but waits for who holds it, and says so."""
    lock = locked(path)
    if lock is None:
        say(notice)
    while lock is None:
        ending.pause(0.2)
        lock = locked(path)
    return lock


def write_whole(path, text):
    """Writes a file so that readers see the old one or the new one."""
    partial = path.with_name("%s.partial-%d" % (path.name, os.getpid()))
    partial.write_text(text)
    os.replace(partial, path)


def last_lines(path, count, since=0):
    """The end of a log, of what was written to it after its first `since` bytes."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(since, file.tell() - 65536))
            return file.read().decode("utf-8", "replace").splitlines()[-count:]
    except OSError:
        return []
