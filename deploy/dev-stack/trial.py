#!/usr/bin/env python3
"""Tries dev-stack on this machine, in a minute or two: `python3 deploy/dev-stack/trial.py`. Every server is real, from jars;
with DEV_STACK_TRIAL=docker in containers. What is asked of Docker is tried without it by trial_docker.py."""

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

from devstack.cassandra import READY, STARTUP, ask, string_map  # noqa: E402
from devstack.kafka import metadata_nodes  # noqa: E402
from devstack.process import started_at  # noqa: E402

DEV_STACK = str(HERE / "dev-stack")
SERVERS = os.environ.get("DEV_STACK_TRIAL", "jars")
QUERY = 0x07
ONE = 0x0001


class Child:
    """`up` as a test holds it."""

    def __init__(self, *arguments, pass_fds=()):
        self.process = subprocess.Popen(
            [DEV_STACK, "up", "--servers", SERVERS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            pass_fds=pass_fds
        )
        self.line = json.loads(self.process.stdout.readline())

    def ask_stack(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def servers(self):
        return [pid for name, pid in self.ask_stack("status")["pids"].items() if pid and name != "dev-stack"]

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


def run(*arguments, env=None, text=None):
    return subprocess.run([DEV_STACK, *arguments], env=env, input=text or "", text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def port(address):
    return int(address.rpartition(":")[2])


def cql(address, *statements):
    """Each statement in turn; the last one's answer."""
    with socket.create_connection(("127.0.0.1", port(address)), timeout=20) as link:
        assert ask(link, STARTUP, string_map({"CQL_VERSION": "3.0.0"}))[0] == READY
        for statement in statements:
            text = statement.encode()
            kind, body = ask(link, QUERY, struct.pack(">i", len(text)) + text + struct.pack(">HB", ONE, 0))
            assert kind != 0, body
        return body


class Trial(unittest.TestCase):
    def up(self, *arguments):
        stack = Child(*arguments)
        self.addCleanup(stack.process.kill)  # Of no effect once it has ended.
        return stack

    def gone(self, pids):
        deadline = time.monotonic() + 5
        while any(started_at(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, "servers outlive dev-stack")
            time.sleep(0.02)

    @unittest.skipIf(SERVERS == "docker", "containers' data ends with them")
    def test_data_outlives_kills_and_even_our_own(self):
        folder = tempfile.mkdtemp(prefix="dev-stack trial ")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        # Periodic sync would forget the last 0.1 s.
        stack = self.up("--dir", folder, "--cassandra-sync", "batch")
        addresses = stack.line["kafka"], stack.line["cql"]
        cql(addresses[1][0],
            "create keyspace k with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "create table k.t (id int primary key)", "insert into k.t (id) values (1)")
        run("kafka", "--dir", folder, "topics", "--create", "--topic", "t")
        run("kafka", "--dir", folder, "console-producer", "--topic", "t", "--property", "parse.key=true",
            "--property", "parse.headers=true", text="h:v\tkey\tvalue\n")
        self.assertTrue(stack.ask_stack("kill kafka-1 cassandra")["ok"])
        self.assertEqual({s["state"] for s in stack.ask_stack("status")["servers"].values()}, {"dead"})
        self.assertTrue(stack.ask_stack("start kafka-1 cassandra")["ok"])
        cql(addresses[1][0], "insert into k.t (id) values (2)")

        pids = stack.servers()
        stack.process.send_signal(signal.SIGKILL)
        self.gone(pids)
        stack.end()

        stack = self.up("--dir", folder, "--cassandra-sync", "batch")
        self.assertEqual((stack.line["kafka"], stack.line["cql"]), addresses)
        count = cql(addresses[1][0], "select count(*) from k.t")
        self.assertEqual(struct.unpack(">q", count[-8:])[0], 2)
        read = run("kafka", "--dir", folder, "console-consumer", "--topic", "t", "--from-beginning", "--max-messages", "1",
                   "--property", "print.key=true", "--property", "print.headers=true", "--timeout-ms", "20000")
        self.assertEqual(read.stdout, "h:v\tkey\tvalue\n")
        pids = stack.servers()
        self.assertEqual(stack.end(), 0)
        self.gone(pids)

    def test_the_end_of_the_input_ends_all_and_cleans_up(self):
        stack = self.up("--cassandra", "0")
        self.assertTrue(stack.ask_stack("pause kafka-1")["ok"])
        self.assertEqual(stack.ask_stack("status")["servers"]["kafka-1"]["state"], "paused")
        self.assertTrue(stack.ask_stack("resume kafka-1")["ok"])
        for nonsense in ("kill", "kill unknown", "dance", "start kafka-1"):
            self.assertFalse(stack.ask_stack(nonsense)["ok"], nonsense)
        pids = stack.servers()
        self.assertEqual(stack.end(), 0)
        self.gone(pids)
        self.assertFalse(os.path.exists(stack.line["dir"]))

    def test_three_brokers_are_one_cluster(self):
        stack = self.up("--brokers", "3", "--cassandra", "0")
        self.assertTrue(stack.ask_stack("kill kafka-2")["ok"])
        deadline = time.monotonic() + 30
        while metadata_nodes(port(stack.line["kafka"][0])) != {1, 3}:
            self.assertLess(time.monotonic(), deadline, "no broker missed the dead one")
            time.sleep(0.2)
        self.assertTrue(stack.ask_stack("start kafka-2")["ok"])
        self.assertTrue(stack.ask_stack("kill kafka-1 kafka-2 kafka-3")["ok"])
        self.assertTrue(stack.ask_stack("start kafka-1 kafka-2 kafka-3")["ok"])
        self.assertEqual(stack.end(), 0)

    def test_the_background_is_ended_by_down(self):
        up = run("up", "--detach", "--servers", SERVERS, "--cassandra", "0")
        self.assertEqual(up.returncode, 0, up.stderr)
        line = json.loads(up.stdout)
        self.assertIn("PAYFOLD_TEST_KAFKA=%s" % line["kafka"][0], run("env", "--dir", line["dir"]).stdout)
        self.assertEqual(json.loads(run("status", "--dir", line["dir"]).stdout)["pids"], line["pids"])
        self.assertEqual(run("down", "--dir", line["dir"]).returncode, 0)
        self.gone(line["pids"].values())
        self.assertEqual(run("status", "--dir", line["dir"]).returncode, 1)

    def test_what_was_inherited_is_closed(self):
        reader, writer = os.pipe()
        stack = Child("--cassandra", "0", pass_fds=[writer])
        os.close(writer)
        os.set_blocking(reader, False)
        self.assertEqual(os.read(reader, 1), b"", "the end of what the stack no longer holds open")
        os.close(reader)
        self.assertEqual(stack.end(), 0)

    def test_what_is_missing_is_said(self):
        bare = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, bare)
        os.symlink(sys.executable, os.path.join(bare, "python3"))
        up = run("up", env={"PATH": bare})
        self.assertEqual((up.returncode, up.stdout), (1, ""))
        self.assertIn("no `java`", up.stderr)
        self.assertIn("no `docker`", up.stderr)
        self.assertIn("mend: install a JDK 17", up.stderr)


if __name__ == "__main__":
    unittest.main()
