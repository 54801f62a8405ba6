package sqlite

// Version is the storage version that this build writes and reads.
const Version = 1

// applicationID marks a database as a session: "Loom".
const applicationID = 0x4C6F6F6D

// schema creates the tables of an empty database. The format page explains the
// columns; a test pins the two together.
var schema = []string{
	`CREATE TABLE session (
  one               INTEGER PRIMARY KEY CHECK (one = 1),
  created_at        INTEGER NOT NULL,
  session_id        BLOB,
  parent_session_id BLOB,
  generation        INTEGER NOT NULL,
  fence             INTEGER NOT NULL,
  next_seq          INTEGER NOT NULL,
  message_count     INTEGER NOT NULL,
  usage             BLOB NOT NULL,
  digest            INTEGER NOT NULL
) STRICT`,
	`CREATE TABLE writer_lease (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  owner      TEXT NOT NULL,
  fence      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  since      INTEGER NOT NULL,
  pid        INTEGER NOT NULL,
  host       TEXT NOT NULL,
  started    TEXT NOT NULL,
  digest     INTEGER NOT NULL
) STRICT`,
	`CREATE TABLE ids (
  id  BLOB PRIMARY KEY,
  seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID`,
	`CREATE TABLE entries (
  seq         INTEGER PRIMARY KEY,
  id          BLOB NOT NULL,
  parent_seq  INTEGER,
  depth       INTEGER NOT NULL,
  jump_seq    INTEGER,
  marks       INTEGER NOT NULL,
  type        TEXT NOT NULL,
  custom_type TEXT,
  ts          INTEGER NOT NULL,
  payload_digest INTEGER NOT NULL,
  digest      INTEGER NOT NULL,
  shares      BLOB,
  payload     BLOB NOT NULL
) STRICT`,
	`CREATE TABLE usage_ledger (
  seq     INTEGER PRIMARY KEY,
  id      BLOB NOT NULL,
  digest  INTEGER NOT NULL,
  payload BLOB NOT NULL
) STRICT`,
	`CREATE TABLE registers (
  ns     TEXT NOT NULL,
  key    TEXT NOT NULL,
  seq    INTEGER NOT NULL,
  digest INTEGER NOT NULL,
  shares BLOB,
  value  BLOB NOT NULL,
  PRIMARY KEY (ns, key)
) STRICT`,
}
