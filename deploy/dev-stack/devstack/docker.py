"""Docker's engine: whether it can be used, its commands within bounds, and what removes containers when we are gone."""

import os
import shutil
import subprocess
import time

from .base import Failure, last_lines, say
from .process import spawn

ASK_SECONDS = 15
ACT_SECONDS = 60
CREATE_SECONDS = 120
PULL_SECONDS = 900
REMOVE_SECONDS = 30
REPORT_SECONDS = 30

MEND = "install and start Docker with its Compose plugin (`docker info` and `docker compose version` have to work)"


def why_not(options):
    """The failure that keeps these options from containers on this machine; None if nothing does."""
    for flag, wanted in (("--dir", options.dir), ("--keep", options.keep)):
        if wanted:
            return Failure("containers' data ends with them, and %s is to keep it" % flag, "leave %s out" % flag)
    if options.secure and not shutil.which("openssl"):
        return Failure("no `openssl` on the PATH to make certificates for containers with", "install openssl")
    try:
        check()
    except Failure as failure:
        return failure
    return None


def check():
    """The versions of engine and Compose, in words; raises if either does not answer."""
    engine = ask("info", "--format", "{{.ServerVersion}}")
    if not engine:
        raise Failure("no Docker engine answers", MEND)
    compose = ask("compose", "version", "--short")
    where = ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    if not where.startswith(("unix:", "npipe:")):
        raise Failure("the Docker engine is at %s: its ports would not be on this machine" % where,
                      "use an engine of this machine (`docker context ls`, DOCKER_HOST)")
    return "engine %s, Compose %s" % (engine, compose)


def ask(*arguments, seconds=ASK_SECONDS):
    """What a short command prints."""
    shown = "`docker %s`" % " ".join(part for part in arguments if not part.startswith(("--", "{{")))
    try:
        # In a session of its own: Ctrl-C in a terminal is for us.
        done = subprocess.run(["docker", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=seconds, start_new_session=True)
    except subprocess.TimeoutExpired:
        raise Failure("%s does not answer within %d s" % (shown, seconds), MEND)
    except OSError as error:
        raise Failure("no `docker` that runs on the PATH (%s)" % error.strerror, MEND)
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["exit code %d" % done.returncode]
        raise Failure("%s fails: %s" % (shown, said[0]), MEND)
    return done.stdout.strip()


def run(arguments, log, seconds, ending):
    """Runs a command that may take long: reports that it goes on, and can be ended in the middle."""
    shown, begun, reported = "`docker %s`" % " ".join(arguments), time.monotonic(), 0
    process = spawn(["docker", *arguments], log)
    try:
        while process.poll() is None:
            ending.pause(0.1)
            took = time.monotonic() - begun
            if took > seconds:
                raise Failure("%s takes longer than %d s" % (shown, seconds), "see %s" % log, last_lines(log, 5))
            if took > reported + REPORT_SECONDS:
                reported = took
                say("%s goes on (%.0f s)" % (shown, took))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        lines = last_lines(log, 5)
        raise Failure("%s fails: %s" % (shown, lines[-1] if lines else "exit code %d" % process.returncode),
                      "see %s" % log, lines)


def ensure_image(image, log, ending):
    """Pulls what is not here yet; what is here needs no registry."""
    try:
        ask("image", "inspect", "--format", "{{.Id}}", image)
        return
    except Failure:
        begun = time.monotonic()
    say("pulling %s, as it is not on this machine yet; this may take minutes" % image)
    run(["pull", "--quiet", image], log, PULL_SECONDS, ending)
    say("pulled %s in %.0f s" % (image, time.monotonic() - begun))


class Project:
    """The containers of one stack, as Compose knows them. Docker keeps containers when we die, however we do; so a process
    of its own waits for the end of a pipe that only we hold open, and then removes them with all they have."""

    def __init__(self, name, file, log):
        self.name = name
        self.log = log
        self.compose = ["compose", "--project-name", name, "--file", str(file)]
        self.remover = None

    def create(self, lock, ending):
        """All containers, none started. `lock` stays held for as long as any may be there."""
        reader, self.writer = os.pipe()
        down = ["docker", *self.compose, "down", "--volumes", "--timeout", "5"]
        with open(self.log, "ab") as out:
            self.remover = subprocess.Popen(["sh", "-c", 'read -r line; exec "$@"', "sh", *down], stdin=reader, stdout=out,
                                            stderr=out, start_new_session=True, pass_fds=(lock.fileno(),))
        os.close(reader)
        run([*self.compose, "create"], self.log, CREATE_SECONDS, ending)

    def remove(self):
        """Bounded; the remover goes on by itself if it takes longer."""
        if self.remover is None:
            return
        os.close(self.writer)
        by_hand = "`docker compose --project-name %s down --volumes` does it by hand" % self.name
        try:
            code = self.remover.wait(timeout=REMOVE_SECONDS)
        except subprocess.TimeoutExpired:
            say("the containers are not removed after %d s; %s" % (REMOVE_SECONDS, by_hand))
            return
        if code != 0:
            say("the containers could not be removed (exit code %d, see %s); %s" % (code, self.log, by_hand))
