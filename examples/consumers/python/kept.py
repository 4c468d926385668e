"""What is kept of orders, in SQLite: the newest event's word on each.

Invariant: (generation, version) of an order only ever rises, whatever comes, however often and in whatever order.
"""

import json
import sqlite3
import sys

TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    key TEXT PRIMARY KEY, generation INTEGER NOT NULL, version INTEGER NOT NULL, data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), position TEXT NOT NULL) STRICT;
"""
UPSERT = """
INSERT INTO orders VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, version = excluded.version, data = excluded.data
WHERE (excluded.generation, excluded.version) > (generation, version)
"""


class Kept:
    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(TABLE)

    def keep(self, events, position=None, gaps=True):
        """Takes (key, data) pairs in one transaction, with the place they were read up to if it is kept here.

        Returns the data of those that were news. Where only the last event of an order stands, no gap is told.
        """
        news = []
        self.db.execute("BEGIN IMMEDIATE")
        for key, data in events:
            if gaps:
                self.tell_gap(key, data)
            taken = self.db.execute(UPSERT, (key, data["generation"], data["version"], json.dumps(data)))
            if taken.rowcount:
                news.append(data)
        if position is not None:
            self.db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", (position,))
        self.db.execute("COMMIT")
        return news

    def tell_gap(self, key, data):
        known = self.db.execute("SELECT generation, version FROM orders WHERE key = ?", (key,)).fetchone()
        generation, version = known or (data["generation"], 0)
        if generation == data["generation"] and data["version"] > version + 1:
            print(f"gap: {key} goes from version {version} to {data['version']}", file=sys.stderr)

    def position(self):
        """The place that was kept; none at first."""
        row = self.db.execute("SELECT position FROM place").fetchone()
        return row and row[0]

    def show(self):
        for key, data in self.db.execute("SELECT key, data FROM orders ORDER BY key"):
            data = json.loads(data)
            fields = {name: data[name] for name in ("generation", "version", "state", "fulfil")}
            print(json.dumps({"order": key, **fields}))
