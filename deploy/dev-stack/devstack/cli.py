"""The verbs and their help."""

import argparse
import sys

from . import doctor, running, tools, up
from .base import Failure, say

OVERVIEW = """\
A real Kafka and a real CQL database on 127.0.0.1, for developers and tests: Kafka and ScyllaDB in containers where Docker
with Compose works, else Kafka and Cassandra from their published jars (Java 17, and Maven for the first download)."""

UP = """\
Starts the servers and waits until they serve. Then prints one line of JSON on standard output:

  {"kafka": ["127.0.0.1:PORT", ...], "cql": ["127.0.0.1:PORT"], "dir": "...", "pids": {"kafka-1": ..., ...}}

Everything for humans goes to standard error. In the foreground it ends everything on SIGINT, on SIGTERM and when its
standard input ends, and does what the lines of that input ask, each answered by one line of JSON with "ok":

  kill X     SIGKILL                       start X    again, with its data, at its ports; answers once it serves
  stop X     SIGTERM, and wait             pause X    SIGSTOP
  status     every server's state          resume X   SIGCONT
  end        as the end of the input

X is one or several of kafka-1 .. kafka-3 and cassandra (in containers that is ScyllaDB). Three brokers that are all down
have to be started together (`start kafka-1 kafka-2 kafka-3`): one alone has no quorum and would never serve.

--secure adds a listener SASL_SSL to the brokers (SCRAM-SHA-512 and PLAIN), and to Cassandra TLS for clients that ask for it
and passwords for all. The line of JSON then also has "kafkaSecure" (an address), "ca" (a PEM file that clients are to
trust), "user", "password", "cqlUser" and "cqlPassword": test secrets, the same on every machine.

In containers, "project" is Compose's name of them, the pids are of the `docker` commands attached to them, and with
--secure the database takes TLS only. They, their data and their network are removed at the end, also if we are killed."""


DOWN = """\
Ends a stack, in the background or not. A process is ended by its id, and only if it still is the one that was started.
Nothing to end is no error."""

ENV = """\
Prints `export` lines for a shell, `eval "$(dev-stack env)"`:
PAYFOLD_TEST_KAFKA and PAYFOLD_TEST_CQL for `cargo test`, PAYFOLD_LOG and PAYFOLD_ORDERS for payfold itself."""

DOCTOR = """\
Asks what `up` needs: Docker; or Java, Maven (while jars are missing), disk, memory, ports. Exit code 0 if `up` can work."""

KAFKA = """\
Runs one of Kafka's own command line tools, from the jars or in a broker's container. --bootstrap-server is filled in from the stack that runs, if it
is not among the arguments. For example:

  dev-stack kafka topics --create --topic t --partitions 4
  dev-stack kafka console-consumer --topic t --from-beginning --property print.key=true --property print.headers=true
  dev-stack kafka consumer-groups --describe --all-groups"""


def main(arguments):
    options = parser().parse_args(arguments)
    try:
        code = options.run(options)
    except Failure as failure:
        for line in failure.lines():
            say(line)
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def parser():
    top = argparse.ArgumentParser(prog="dev-stack", description=OVERVIEW,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    add_up(verbs)
    add_others(verbs)
    return top


def add_verb(verbs, name, run, help_line, description=None):
    verb = verbs.add_parser(name, help=help_line, description=description or help_line,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    verb.set_defaults(run=run)
    return verb


def add_sizes(verb):
    verb.add_argument("--brokers", type=int, choices=(0, 1, 3), default=1, help="Kafka brokers (default: 1); 3 replicate")
    verb.add_argument("--cassandra", type=int, choices=(0, 1), default=1, help="Cassandra nodes (default: 1)")


def add_up(verbs):
    verb = add_verb(verbs, "up", up.run, "start the servers", UP)
    add_sizes(verb)
    verb.add_argument("--servers", choices=("auto", "docker", "jars"), default="auto",
                      help="docker: in containers; jars: as processes; auto (default): in containers if Docker can do what is "
                           "asked and gets them up, else from jars")
    verb.add_argument("--dir", help="folder for data, configuration and logs; stays at the end, and may be used again "
                                    "(default: a new one under target/dev-stack, removed at the end)")
    verb.add_argument("--keep", action="store_true", help="don't remove the default folder at the end")
    verb.add_argument("--detach", action="store_true", help="once they serve, go on in the background until `down`")
    verb.add_argument("--secure", action="store_true", help="TLS and passwords too: see above")
    verb.add_argument("--cassandra-sync", choices=("periodic", "batch"), default="periodic",
                      help="periodic (default): Cassandra confirms before its commit log is synced, and forgets the last 0.1 s "
                           "if it is killed; batch: it syncs before each answer, and forgets nothing")
    verb.add_argument("--detour", type=int, nargs="+", metavar="PORT",
                      help="a further listener of each broker, advertised at these ports (one per broker): a proxy that listens "
                           "there stands between the brokers and the clients that connect through it")
    verb.add_argument("--full-speed", action="store_true",
                      help="all of the JVM's compiler, for measuring throughput: serves later, needs more memory")
    verb.add_argument("--wait", type=int, default=180, metavar="SECONDS",
                      help="how long a server may take to serve (default: 180)")


def add_others(verbs):
    verb = add_verb(verbs, "down", running.down, "end a stack, by its process ids", DOWN)
    add_dir(verb)
    verb = add_verb(verbs, "status", running.status, "what runs, where: JSON on standard output, words on standard error")
    add_dir(verb)
    verb = add_verb(verbs, "env", running.env, "the addresses as `export` lines: eval \"$(dev-stack env)\"", ENV)
    add_dir(verb)
    verb = add_verb(verbs, "doctor", doctor.run, "what is there, what is missing, and how to mend it", DOCTOR)
    add_sizes(verb)
    verb = add_verb(verbs, "kafka", tools.run, "run one of Kafka's own command line tools", KAFKA)
    add_dir(verb)
    verb.add_argument("tool", metavar="TOOL", help="its name, with or without `kafka-`: " + ", ".join(sorted(tools.TOOLS)))
    verb.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the tool's own (none: its help)")


def add_dir(verb):
    verb.add_argument("--dir", help="the stack's folder (default: the only stack started from this repository)")
