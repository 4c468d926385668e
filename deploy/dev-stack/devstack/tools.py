"""Kafka's own command line tools: from the jars, or in a broker's container where that is what runs."""

import os

from . import doctor, jars, running
from .base import HERE, Ending, Failure
from .containers import INSIDE_PORT
from .kafka import QUICK

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "configs": "kafka.admin.ConfigCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "dump-log": "kafka.tools.DumpLogSegments",
}
WITHOUT_SERVER = {"dump-log"}
SERVER = "--bootstrap-server"


def run(options):
    """Becomes the tool: its input, output, signals and exit code are the caller's."""
    name = options.tool[len("kafka-"):] if options.tool.startswith("kafka-") else options.tool
    if name not in TOOLS:
        raise Failure("there is no tool `%s`" % options.tool, "use one of: %s" % ", ".join(sorted(TOOLS)))
    arguments = list(options.arguments)
    stack = None if names_server(arguments) else running.find(options.dir)
    if stack and "project" in stack.state and stack.alive():
        become_in_container(stack, name, arguments)
    check = doctor.java_check()
    if not check.ok:
        raise Failure("%s: %s" % (check.name, check.found), check.mend)
    if name not in WITHOUT_SERVER and not asks_for_help(arguments) and not names_server(arguments):
        arguments = [SERVER, bootstrap(options.dir)] + arguments  # First: some have subcommands, with options of their own.
    command = [
        doctor.java(), *QUICK, "-XX:+UseSerialGC", "-Xmx256m", "-cp", "%s/*" % jars.ensure("kafka", Ending()),
        "-Dlog4j2.configurationFile=%s" % (HERE / "kafka" / "log4j2-tools.xml"), TOOLS[name], *arguments,
    ]
    os.execv(command[0], [str(part) for part in command])


def become_in_container(stack, name, arguments):
    """In a broker that serves, which knows the others by names of its own."""
    serving = [broker for broker, state in stack.state["servers"].items() if broker.startswith("kafka-") and state == "serving"]
    if not serving:
        raise Failure("no broker of the dev stack serves", "`start` one, or start a stack with `--brokers 1`")
    if name not in WITHOUT_SERVER and not asks_for_help(arguments):
        arguments = [SERVER, "%s:%d" % (serving[0], INSIDE_PORT)] + arguments
    container = "%s-%s" % (stack.state["project"], serving[0])
    os.execvp("docker", ["docker", "exec", "--interactive", container, "/opt/kafka/bin/kafka-%s.sh" % name, *arguments])


def bootstrap(home):
    addresses = running.require(home).state["kafka"]
    if not addresses:
        raise Failure("the dev stack that runs has no Kafka", "start one with it: `dev-stack up --brokers 1 --detach`")
    return ",".join(addresses)


def names_server(arguments):
    return any(a.partition("=")[0] in (SERVER, "--bootstrap-controller") for a in arguments)


def asks_for_help(arguments):
    return not arguments or "--help" in arguments or "--version" in arguments
