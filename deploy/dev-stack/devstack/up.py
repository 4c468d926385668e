"""`up`: starts a stack and stays with it, in the foreground or in the background."""

import json
import os
import queue
import signal
import sys
import threading

from . import docker, doctor, jars
from .base import Ended, Ending, Failure, say
from .containers import ContainerStack
from .stack import Stack


def run(options):
    """Returns the exit code."""
    if not options.brokers and not options.cassandra:
        raise Failure("nothing to start", "ask for a server: --brokers 1 or --cassandra 1")
    if options.detour and len(options.detour) != options.brokers:
        raise Failure("--detour names %d ports for %d brokers" % (len(options.detour), options.brokers), "name one per broker")
    ending = Ending()
    _heed(ending)
    lines = queue.SimpleQueue()
    if not options.detach:
        threading.Thread(target=_read, args=(lines, ending), daemon=True).start()
    try:
        stack = _choose(options, ending)
        answers = _to_background(stack) if options.detach else sys.stdout
        failure = _serve(stack, lines, answers)
        if failure and options.servers == "auto" and isinstance(stack, ContainerStack) and not stack.announced:
            say("THE CONTAINERS DID NOT COME UP, so the servers run from jars: %s (logs: %s)" % (failure.wrong, stack.home))
            _heed(ending)
            containers, stack = failure, _from_jars(options, ending, failure)
            failure = _serve(stack, lines, answers)
            if failure and not stack.announced:
                failure = _neither(failure, containers)
    except Ended as reason:
        say("ended: %s" % reason)
        return 0
    if failure is None:
        return 0
    for line in failure.lines():
        say(line)
    if stack.ours:
        say("kept for its logs: %s" % stack.home)
    return 1


def _heed(ending):
    """Signals end us in order."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _frame: ending.ask(signal.Signals(n).name))


def _choose(options, ending):
    """A stack in containers where that can work, else one from jars."""
    if options.servers == "jars":
        return _from_jars(options, ending)
    why_not = docker.why_not(options)
    if why_not is None:
        return ContainerStack(options, ending)
    if options.servers == "docker":
        raise why_not
    say("from jars, not in containers: %s" % why_not.wrong)
    return _from_jars(options, ending, why_not)


def _from_jars(options, ending, containers=None):
    """`containers` is why those did not do."""
    try:
        doctor.require(options.brokers, options.cassandra)
        products = (["kafka"] if options.brokers else []) + (["cassandra"] if options.cassandra else [])
        libs = {product: jars.ensure(product, ending) for product in products}
    except Failure as failure:
        raise _neither(failure, containers) if containers else failure
    return Stack(options, ending, doctor.java(), libs)


def _neither(jars_failure, containers):
    return Failure("neither from jars nor in containers. Jars: %s. Containers: %s" % (jars_failure.wrong, containers.wrong),
                   "%s; or, for containers: %s" % (jars_failure.mend, containers.mend), jars_failure.detail)


def _serve(stack, lines, answers):
    """Until it is ended. Returns what went wrong, if anything did."""
    failed = True
    try:
        stack.prepare()
        stack.start()
        _answer(answers, stack.summary())
        stack.announced = True
        if stack.options.detach:
            _leave_terminal(stack, answers)
        _follow(stack, lines, answers)
    except Ended as reason:
        failed = False
        say("ending: %s" % reason)
    except Failure as failure:
        return failure
    finally:
        stack.end(failed)
    return None


def _follow(stack, lines, answers):
    """Until a request to end: does what the input asks, and reports servers that end on their own."""
    while True:
        stack.ending.pause(0)
        stack.report_deaths()
        try:
            text = lines.get(timeout=0.2)
        except queue.Empty:
            continue
        if text.strip():
            _answer(answers, stack.command(text))


def _answer(answers, value):
    try:
        answers.write(json.dumps(value) + "\n")
        answers.flush()
    except OSError:
        raise Ended("no process reads the standard output")


def _read(lines, ending):
    """The input's own thread. Not `sys.stdin`: its lock would be held when the interpreter ends."""
    rest = b""
    while True:
        try:
            part = os.read(0, 65536)
        except OSError:
            part = b""
        if not part:
            ending.ask("the standard input ended (with --detach it would run on without one)")
            return
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            lines.put(line.decode("utf-8", "replace"))


def _to_background(stack):
    """Goes on in a child. The parent waits until it serves or fails, passes its line on, and ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        return os.fdopen(writer, "w")
    os.close(writer)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _frame: os.kill(child, signal.SIGTERM))
    with os.fdopen(reader) as answers:
        line = answers.readline()
    if line:
        sys.stdout.write(line)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os._exit((os.WEXITSTATUS(status) or 1) if os.WIFEXITED(status) else 1)


def _leave_terminal(stack, answers):
    """Closes the caller's terminal and pipes, so that a process that waits for their end is not kept."""
    answers.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(str(stack.home / "dev-stack.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(log, 2)
