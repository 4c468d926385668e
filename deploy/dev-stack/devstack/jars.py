"""The servers' jars: fetched by Maven once, then a folder per version that is whole or not there."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import time

from .base import HERE, WORK, Failure, last_lines, say, wait_locked, write_whole
from .process import spawn

MANIFEST = "manifest.json"
# With its version: Maven would take whichever is the newest that day.
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def root():
    return pathlib.Path(os.environ.get("PAYFOLD_DEV_STACK_LIBS") or WORK).absolute()


def folder(product):
    """Named by version, and by the pom's content: a changed list of jars is another folder."""
    pom = (HERE / product / "pom.xml").read_bytes()
    version = re.search(rb"<server\.version>([^<]+)<", pom).group(1).decode()
    return root() / ("libs-%s-%s-%s" % (product, version, hashlib.sha256(pom).hexdigest()[:8]))


def is_whole(libs):
    """The manifest is written last and names every jar with its size, so a damaged cache is noticed too."""
    try:
        sizes = json.loads((libs / MANIFEST).read_text())
        return bool(sizes) and all((libs / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def ensure(product, ending):
    """The folder of a product's jars, fetched if need be."""
    libs = folder(product)
    if is_whole(libs):
        return libs
    lock = libs.with_name(libs.name + ".lock")
    with wait_locked(lock, "waiting for another dev-stack that fetches the jars of %s (%s)" % (product, lock), ending):
        if not is_whole(libs):
            _fetch(product, libs, ending)
    return libs


def _fetch(product, libs, ending):
    begun = time.monotonic()
    say("fetching %s with Maven into %s" % (libs.name[len("libs-"):].rpartition("-")[0], libs))
    # We hold the lock, so no process works on what is left half done.
    for leftover in libs.parent.glob(libs.name + ".partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = libs.with_name("%s.partial-%d" % (libs.name, os.getpid()))
    partial.mkdir(parents=True)
    log = libs.with_name(libs.name + ".maven.log")
    log.write_bytes(b"")
    try:
        _run_maven(product, partial, log, ending)
        sizes = {jar.name: jar.stat().st_size for jar in sorted(partial.glob("*.jar"))}
        write_whole(partial / MANIFEST, json.dumps(sizes, indent=1))
        shutil.rmtree(libs, ignore_errors=True)
        os.rename(partial, libs)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    size = sum(sizes.values()) / 1e6
    say("%s: %d jars, %.0f MB, in %.1f s" % (product, len(sizes), size, time.monotonic() - begun))


def _run_maven(product, partial, log, ending):
    command = [
        "mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", HERE / product / "pom.xml",
        "%s:copy-dependencies" % PLUGIN, "-DincludeScope=runtime", "-DoutputDirectory=%s" % partial,
    ]
    process = spawn(command, log)
    try:
        while process.poll() is None:
            ending.pause(0.1)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0 or not any(partial.glob("*.jar")):
        raise Failure(
            "Maven could not fetch the jars of %s (exit code %s)" % (product, process.returncode),
            "see that Maven reaches its registry (a mirror or proxy goes into Maven's settings.xml), then try again; "
            "the log is %s" % log,
            last_lines(log, 20),
        )
