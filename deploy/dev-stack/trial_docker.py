#!/usr/bin/env python3
"""Tries what dev-stack does with containers, in half a minute and without Docker: `python3 deploy/dev-stack/trial_docker.py`.
A stand-in for the `docker` command starts processes that answer as brokers and a database do. So this shows what is asked
of Docker, when, and what becomes of its answers; not that the images do what they are asked."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

from devstack import containers  # noqa: E402
from devstack.process import started_at  # noqa: E402

DEV_STACK = str(HERE / "dev-stack")


class Box:
    """A PATH with the stand-in and little else, so no Java; what it was asked is in `asked`."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dev-stack docker "))
        self.asked = self.folder / "asked"
        self.asked.touch()
        for tool in ("python3", "sh", "openssl"):
            (self.folder / tool).symlink_to(sys.executable if tool == "python3" else shutil.which(tool))
        (self.folder / "docker").symlink_to(HERE / "trial_engine.py")
        self.env = {"PATH": str(self.folder), "STAND_IN": str(self.folder), "PAYFOLD_DEV_STACK_LIBS": str(self.folder)}

    def up(self, *arguments):
        return subprocess.Popen([DEV_STACK, "up", *arguments], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def fails_at(self, verb, words):
        (self.folder / ("fail-" + verb)).write_text(words)

    def containers(self):
        return [int(path.read_text()) for path in self.folder.glob("*.pid")]


def ask_stack(stack, command):
    stack.stdin.write(command + "\n")
    stack.stdin.flush()
    return json.loads(stack.stdout.readline())


class Commands(unittest.TestCase):
    def setUp(self):
        self.box = Box()
        self.addCleanup(self.end_containers)

    def end_containers(self):
        for pid in self.box.containers():
            if started_at(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.box.folder)

    def up(self, *arguments):
        stack = self.box.up(*arguments)
        self.addCleanup(self.end, stack)
        self.addCleanup(stack.kill)
        line = stack.stdout.readline()
        self.assertTrue(line, "it did not start")
        return stack, json.loads(line)

    def end(self, stack):
        """What it said to people."""
        if stack.stderr.closed:
            return ""
        stack.stdin.close()
        said = stack.stderr.read()
        stack.wait(60)
        stack.stdout.close()
        stack.stderr.close()
        return said

    def refused(self, *arguments):
        up = self.box.up(*arguments)
        said, out = up.stderr.read(), up.stdout.read()
        up.communicate()  # Only now does its input end.
        self.assertEqual((up.returncode, out), (1, ""), said)
        return said

    def gone(self, pids):
        deadline = time.monotonic() + 10
        while any(started_at(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, "containers outlive dev-stack")
            time.sleep(0.02)

    def test_every_command_reaches_its_container_and_the_end_removes_all(self):
        stack, line = self.up("--brokers", "3", "--detour", "1", "2", "3")
        self.assertEqual((len(line["kafka"]), len(line["kafkaDetour"]), len(line["cql"])), (3, 3, 1))
        self.assertTrue(line["project"].startswith("payfold-dev-stack-"))
        steps = [("pause cassandra", "paused"), ("resume cassandra", "serving"), ("kill cassandra", "dead"),
                 ("start cassandra", "serving"), ("stop cassandra", "dead"), ("start cassandra", "serving"),
                 ("pause cassandra", "paused"), ("kill cassandra", "dead"), ("start cassandra", "serving")]
        for command, state in steps:
            answer = ask_stack(stack, command)
            self.assertTrue(answer["ok"], answer)
            self.assertEqual(ask_stack(stack, "status")["servers"]["cassandra"]["state"], state, command)
        self.assertTrue(ask_stack(stack, "kill kafka-1 kafka-2 kafka-3")["ok"])
        self.assertFalse(ask_stack(stack, "kill kafka-1")["ok"])
        self.assertTrue(ask_stack(stack, "start kafka-1 kafka-2 kafka-3")["ok"])
        pids = self.box.containers()
        self.assertEqual(len(pids), 4)
        self.end(stack)
        self.assertEqual(stack.returncode, 0)
        self.gone(pids)
        self.assertFalse(os.path.exists(line["dir"]))
        asked = self.box.asked.read_text().splitlines()
        self.assertTrue(asked[-1].endswith("down --volumes --timeout 5"), asked[-1])
        self.assertIn("kill %s-kafka-2" % line["project"], asked)
        self.assertIn("kill --signal SIGTERM %s-cassandra" % line["project"], asked)
        self.assertNotIn("pull", self.box.asked.read_text())

    def test_containers_end_with_us_even_if_we_are_killed(self):
        stack, line = self.up("--secure")
        self.assertEqual((line["user"], line["cqlUser"]), ("payfold", "cassandra"))
        pids = self.box.containers()
        stack.send_signal(signal.SIGKILL)
        self.gone(pids)

    def test_a_container_that_ends_on_its_own_is_reported(self):
        stack, _ = self.up("--brokers", "1", "--cassandra", "0")
        os.kill(self.box.containers()[0], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while ask_stack(stack, "status")["servers"]["kafka-1"]["state"] != "dead":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        ask_stack(stack, "status")  # It looks between two commands.
        self.assertIn("kafka-1 ended on its own (exit code 137)", self.end(stack))

    def test_what_is_missing_is_pulled_first(self):
        self.box.fails_at("image", "no such image")
        stack, _ = self.up()
        self.assertEqual([line for line in self.box.asked.read_text().splitlines() if line.startswith("pull")],
                         ["pull --quiet " + image for image in (containers.KAFKA, containers.SCYLLA)])
        self.assertIn("pulling apache/kafka", self.end(stack))

    def test_what_does_not_come_up_is_given_up_for_jars(self):
        self.box.fails_at("image", "no such image")
        self.box.fails_at("pull", "registry: no route to host")
        said = self.refused()
        self.assertIn("THE CONTAINERS DID NOT COME UP, so the servers run from jars", said)
        self.assertIn("neither from jars nor in containers", said)
        for part in ("no route to host", "no `java`", "install a JDK 17"):
            self.assertIn(part, said)
        self.assertNotIn("jars", self.refused("--servers", "docker"))

    def test_a_container_that_does_not_serve_is_removed(self):
        self.box.fails_at("serving", "it ends at once")
        said = self.refused("--servers", "docker")
        self.assertIn("before it served", said)
        self.assertIn("it ends at once", said)
        self.assertTrue(self.box.asked.read_text().splitlines()[-1].endswith("down --volumes --timeout 5"))

    def test_what_containers_cannot_do_is_refused(self):
        said = self.refused("--servers", "docker", "--dir", str(self.box.folder / "kept"))
        self.assertIn("containers' data ends with them, and --dir is to keep it", said)
        self.box.fails_at("info", "Cannot connect to the Docker daemon")
        self.assertIn("`docker info` fails: Cannot connect", self.refused("--servers", "docker"))
        self.assertIn("from jars, not in containers: `docker info` fails", self.refused())
        (self.box.folder / "docker").unlink()
        self.assertIn("no `docker` that runs", self.refused("--servers", "docker"))

    def test_the_background_and_the_tools_know_containers(self):
        def run(*arguments):
            return subprocess.run([DEV_STACK, *arguments], env=self.box.env, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        up = run("up", "--detach")
        self.assertEqual(up.returncode, 0, up.stderr)
        line = json.loads(up.stdout)
        status = json.loads(run("status", "--dir", line["dir"]).stdout)
        self.assertEqual(status["servers"]["cassandra"]["state"], "serving")
        self.assertEqual(run("kafka", "--dir", line["dir"], "topics", "--list").returncode, 0)
        self.assertEqual(run("down", "--dir", line["dir"]).returncode, 0)
        self.gone(self.box.containers())
        tool = "exec --interactive %s-kafka-1 /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka-1:9092 --list"
        self.assertIn(tool % line["project"], self.box.asked.read_text().splitlines())


class Settings(unittest.TestCase):
    """The settings that containers get."""

    def brokers(self, count):
        made = [containers.ContainerBroker(n, pathlib.Path("x"), (20000 + n, 21000 + n, 22000 + n)) for n in range(1, count + 1)]
        for broker in made:
            broker.detour = (23000 + broker.node, 24000 + broker.node)
        return made

    def test_a_broker_has_the_settings_of_the_jars(self):
        brokers = self.brokers(3)
        service = brokers[1].service(brokers, "id", False)
        settings = service["environment"]["PAYFOLD_BROKER"]
        self.assertTrue(settings.startswith((HERE / "kafka" / "server.properties").read_text()))
        last = dict(line.split("=", 1) for line in settings.splitlines() if "=" in line)
        self.assertEqual(last["controller.quorum.voters"], "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093")
        self.assertEqual(last["advertised.listeners"],
                         "PLAINTEXT://127.0.0.1:20002,INSIDE://kafka-2:9092,DETOUR://127.0.0.1:24002")
        self.assertEqual(last["inter.broker.listener.name"], "INSIDE")
        self.assertEqual(service["ports"], ["127.0.0.1:20002:20002", "127.0.0.1:23002:23002"])

    def test_the_database_has_the_commit_log_sync_it_is_given(self):
        batch, periodic = (containers.Scylla(pathlib.Path("x"), (20000,), sync).service() for sync in ("batch", "periodic"))
        self.assertIn("--commitlog-sync=batch", batch["command"])
        self.assertIn("--commitlog-sync-period-in-ms=100", periodic["command"])
        self.assertEqual(batch["ports"], ["127.0.0.1:20000:9042"])

    def test_images_are_those_of_the_laptop(self):
        text = (HERE.parent / "compose.yaml").read_text()
        for image in (containers.KAFKA, containers.SCYLLA):
            self.assertIn("image: %s\n" % image, text)

    def test_dollars_are_left_alone_by_compose(self):
        self.assertEqual(containers.escaped({"a": ["$x", 1, True]}), {"a": ["$$x", 1, True]})


if __name__ == "__main__":
    unittest.main()
