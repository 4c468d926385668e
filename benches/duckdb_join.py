#!/usr/bin/env python3
"""A full outer join of two files in DuckDB: what `payfold bench reconcile --beside` compares with.

Usage: duckdb_join.py OURS.csv THEIRS.csv
Prints {"seconds", "memoryPeakKib", "findings"} as JSON. DuckDB comes from PyPI, into a folder beside the files
that is used again. It reads, joins and compares; it keeps nothing, and knows of no days, refunds or decisions.
"""

import json
import pathlib
import subprocess
import sys

VERSION = "1.4.1"
QUERY = """
SELECT count(*) FROM (
    SELECT coalesce(o.order, t.order) AS name, o.status AS os, t.status AS ts, count(*) AS lines,
           any_value(o.amount) AS oa, any_value(t.amount) AS ta, any_value(o.currency) AS oc,
           any_value(t.currency) AS tc, any_value(o.ref) AS orf, any_value(t.ref) AS tr,
           any_value(abs(epoch_ms(o.time) - epoch_ms(t.time))) AS apart
    FROM read_csv(?) o FULL OUTER JOIN read_csv(?) t ON o.order = t.order
    GROUP BY ALL
)
WHERE os IS NULL OR ts IS NULL OR os <> ts OR lines > 1 OR oa <> ta OR oc <> tc OR orf <> tr OR apart > 300000
"""
MEASURE = """
import json, resource, sys, time
import duckdb
duckdb.execute("SET enable_progress_bar = false")
begun = time.perf_counter()
findings = duckdb.execute(sys.argv[1], sys.argv[2:4]).fetchone()[0]
seconds = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "memoryPeakKib": peak, "findings": findings}))
"""


def main() -> None:
    ours, theirs = sys.argv[1:3]
    home = pathlib.Path(ours).parent / "duckdb"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"duckdb=={VERSION}"]
        subprocess.run(install, check=True, stdout=sys.stderr)
    measured = subprocess.run(
        [str(python), "-c", MEASURE, QUERY, ours, theirs], check=True, capture_output=True, text=True
    )
    print(json.dumps(json.loads(measured.stdout)))


if __name__ == "__main__":
    main()
