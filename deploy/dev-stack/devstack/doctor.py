"""What this machine has and lacks. `up` asks the same questions before it starts servers from jars."""

import collections
import os
import pathlib
import re
import shutil
import subprocess

from . import docker, jars
from .base import HOST, WORK, Failure
from .ports import Ports

Check = collections.namedtuple("Check", "name ok found mend")

JAVA_MIN = 17
DISK_MIN_GB = 2.0


def all_checks(brokers, cassandra):
    products = (["kafka"] if brokers else []) + (["cassandra"] if cassandra else [])
    return [
        java_check(),
        maven_check(products),
        disk_check(jars.root()),
        memory_check(brokers, cassandra),
        ports_check(),
    ]


def require(brokers, cassandra):
    """The first thing that is missing ends `up`, before anything is started."""
    for check in all_checks(brokers, cassandra):
        if not check.ok:
            raise Failure("%s: %s" % (check.name, check.found), check.mend)


def docker_check():
    try:
        return Check("Docker", True, docker.check(), "")
    except Failure as failure:
        return Check("Docker", False, failure.wrong, failure.mend)


def java():
    home = os.environ.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return os.path.join(home, "bin", "java")
    return shutil.which("java")


def java_check():
    mend = "install a JDK 17 (Debian: `apt-get install openjdk-17-jdk-headless`) or let JAVA_HOME name one"
    path = java()
    if path is None:
        return Check("Java", False, "no `java`, neither in JAVA_HOME nor on the PATH", mend)
    try:
        said = subprocess.run([path, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", False, "%s does not run: %s" % (path, error), mend)
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', said.stdout)
    if not version:
        return Check("Java", False, "%s does not print its version" % path, mend)
    found = "%s%s (%s)" % (version.group(1), version.group(2), path)
    if int(version.group(1)) > JAVA_MIN:
        found += "; Cassandra 5.0 is made for 17: if it does not start, let JAVA_HOME name a JDK 17"
    if int(version.group(1)) < JAVA_MIN:
        return Check("Java", False, "%s is too old, 17 is needed" % found, mend)
    return Check("Java", True, found, mend)


def maven_check(products):
    """Maven is only needed for jars that are not there yet."""
    missing = [product for product in products if not jars.is_whole(jars.folder(product))]
    where = "jars of %s: to fetch" % " and ".join(missing) if missing else "all jars are there"
    found = "%s; %s in %s" % (shutil.which("mvn") or "no `mvn` on the PATH", where, jars.root())
    mend = (
        "install Maven (Debian: `apt-get install maven`), or let PAYFOLD_DEV_STACK_LIBS name a folder that another "
        "dev-stack filled"
    )
    return Check("Maven", bool(shutil.which("mvn")) or not missing, found, mend)


def disk_check(path):
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free / 1e9
    mend = "free some space there (%s may hold old runs), or use --dir and PAYFOLD_DEV_STACK_LIBS on another disk" % WORK
    return Check("disk", free >= DISK_MIN_GB, "%.1f GB free at %s (needed: %.0f)" % (free, path, DISK_MIN_GB), mend)


def memory_check(brokers, cassandra):
    need = 1.0 + 0.6 * brokers + 1.4 * cassandra
    free = available_gb()
    if free is None:
        return Check("memory", True, "unknown here (needed: %.1f GB)" % need, "")
    mend = "end something else, or start less: `--brokers 1`, `--cassandra 0`"
    return Check("memory", free >= need, "%.1f GB available (needed: %.1f)" % (free, need), mend)


def available_gb():
    """What the kernel could give, or the container's limit where that is less."""
    found = []
    try:
        text = pathlib.Path("/proc/meminfo").read_text()
        found.append(int(re.search(r"MemAvailable:\s+(\d+)", text).group(1)) * 1024)
    except (OSError, AttributeError):
        pass
    try:
        group = pathlib.Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.M)
        used = int((group / "memory.current").read_text()) - (int(cache.group(1)) if cache else 0)
        found.append(int(limit) - used)
    except (OSError, ValueError):
        pass  # No limit ("max"), or not this kind of group.
    return min(found) / 1e9 if found else None


def ports_check():
    ports = Ports()
    try:
        for _ in range(8):
            ports.take()
    except Failure as failure:
        return Check("ports", False, failure.wrong, failure.mend)
    finally:
        ports.close()
    return Check("ports", True, "free ones on %s" % HOST, "")


def run(options):
    """The verb: every check, then exit code 0 if `up` can work here."""
    engine = docker_check()
    checks = [engine] + all_checks(options.brokers, options.cassandra)
    for check in checks:
        print("%-8s %-7s %s" % (check.name, "ok" if check.ok else "MISSING", check.found))
        if not check.ok:
            print("%17smend: %s" % ("", check.mend))
    from_jars = all(check.ok for check in checks[1:])
    print("`up` starts %s" % ("containers" if engine.ok else "servers from jars" if from_jars else "nothing"))
    return 0 if engine.ok or from_jars else 1
