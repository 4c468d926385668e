"""What is kept of orders, in SQLite: the newest event's word on each.

Invariant: (epoch, version) of an order only ever rises, whatever comes, however often and in whatever order.
"""

import json
import sqlite3
import sys

TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    key TEXT PRIMARY KEY, epoch INTEGER NOT NULL, version INTEGER NOT NULL, data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), position TEXT NOT NULL) STRICT;
"""
UPSERT = """
INSERT INTO orders VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, version = excluded.version, data = excluded.data
WHERE (excluded.epoch, excluded.version) > (epoch, version)
"""


class Kept:
    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(TABLE)

    def keep(self, events, position=None, gaps=True):
        """Takes (key, data) pairs in one transaction, with the place they were read up to if it is kept here.

        Returns the data of those that were new. Without `gaps` no gap is reported: a compacted topic has only last events.
        """
        news = []
        self.db.execute("BEGIN IMMEDIATE")
        for key, data in events:
            if gaps:
                self.report_gap(key, data)
            taken = self.db.execute(UPSERT, (key, data["epoch"], data["version"], json.dumps(data)))
            if taken.rowcount:
                news.append(data)
        if position is not None:
            self.db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", (position,))
        self.db.execute("COMMIT")
        return news

    def report_gap(self, key, data):
        known = self.db.execute("SELECT epoch, version FROM orders WHERE key = ?", (key,)).fetchone()
        epoch, version = known or (data["epoch"], 0)
        if epoch == data["epoch"] and data["version"] > version + 1:
            print(f"gap: {key} goes from version {version} to {data['version']}", file=sys.stderr)

    def position(self):
        """The place that was kept; none at first."""
        row = self.db.execute("SELECT position FROM place").fetchone()
        return row and row[0]

    def show(self):
        for key, data in self.db.execute("SELECT key, data FROM orders ORDER BY key"):
            data = json.loads(data)
            fields = {name: data[name] for name in ("epoch", "version", "state", "fulfil")}
            print(json.dumps({"order": key, **fields}))
