#!/usr/bin/env python3
"""Prints the branch of a strand of a session file, newest entry last.

    read_session.py FILE [STRAND]

Written from session-file.md alone: it shows that the page is enough. It checks what
it reads: the header, the digest of each row, and that every link leads to an older row.
The file must not be open elsewhere.
"""

import json
import sqlite3
import struct
import sys


def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


TABLE = crc32c_table()


def digest(kind, *columns):
    """The digest of a row: a byte for the table, then each column with its tag."""
    framed = bytearray(kind)
    for c in columns:
        if c is None:
            framed += b"\x00"
        elif isinstance(c, int):
            framed += b"\x01" + struct.pack(">q", c)
        else:
            raw = c.encode() if isinstance(c, str) else c
            framed += (b"\x02" if isinstance(c, str) else b"\x03") + struct.pack(">Q", len(raw)) + raw
    crc = 0xFFFFFFFF
    for b in framed:
        crc = TABLE[(crc ^ b) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def damaged(what):
    sys.exit(f"read_session: {what}")


class Session:
    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        application, version = (self.db.execute(f"PRAGMA {p}").fetchone()[0] for p in ("application_id", "user_version"))
        if application != 0x4C6F6F6D:
            damaged("this is no session of loom")
        if version != 1:
            damaged(f"this is a session of format {version}, and only format 1 is read here")

    def register(self, ns, key):
        row = self.db.execute("SELECT seq, digest, shares, value FROM registers WHERE ns = ? AND key = ?", (ns, key)).fetchone()
        if row is None:
            return None
        seq, want, shares, value = row
        if digest(b"r", ns, key, seq, shares, value) != want:
            damaged(f"the register {ns}/{key} is damaged")
        return json.loads(self.whole(seq, shares, value))

    def stored(self, seq):
        """One row of entries, verified: its parent's seq, and the payload as it is stored."""
        row = self.db.execute(
            "SELECT id, parent_seq, depth, jump_seq, marks, type, custom_type, ts, payload_digest, digest, shares, payload"
            " FROM entries WHERE seq = ?", (seq,)).fetchone()
        if row is None:
            damaged(f"there is no entry at seq {seq}")
        *head, want, shares, payload = row
        if digest(b"e", seq, *head) != want or digest(b"p", shares, payload) != head[-1]:
            damaged(f"the entry at seq {seq} is damaged")
        return head[1], shares, payload

    def whole(self, seq, shares, payload):
        """A payload with its gaps filled."""
        text, done = b"", 0
        for at, source, start, length in struct.iter_unpack(">qqqq", shares or b""):
            if not done <= at <= len(payload) or source >= seq:
                damaged(f"a share of the row at seq {seq} leads astray")
            part = self.stored(source)[2][start:start + length]
            if len(part) != length:
                damaged(f"a share of the row at seq {seq} leads beyond the entry at seq {source}")
            text, done = text + payload[done:at] + part, at
        return text + payload[done:]

    def branch(self, leaf):
        """The entries from the root to a leaf."""
        (seq,) = self.db.execute("SELECT seq FROM ids WHERE id = ?", (bytes.fromhex(leaf.replace("-", "")),)).fetchone() or (None,)
        path = []
        while seq is not None:
            parent, shares, payload = self.stored(seq)
            path.append(json.loads(self.whole(seq, shares, payload)))
            if parent is not None and parent >= seq:
                damaged(f"the entry at seq {seq} has a parent that is not older")
            seq = parent
        return path[::-1]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    session = Session(sys.argv[1])
    leaf = session.register("strand.leaf", sys.argv[2] if len(sys.argv) == 3 else "main")
    for entry in session.branch(leaf) if leaf else []:
        print(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))


main()
