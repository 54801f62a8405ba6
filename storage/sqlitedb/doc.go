// Package sqlitedb opens SQLite databases.
//
// # Purpose
//
// One place has the driver and its pitfalls: which locks a process takes, which
// PRAGMAs hold for a connection, and what SQLite's errors mean. Who stands on it
// brings a schema and statements.
//
// # Key types
//
// [Conn] is one connection, made by [Open], or by [Dial] where the PRAGMAs come
// apart. [CheckPath] refuses what SQLite must not be let near. [Classify] makes a
// [Fault] of an error.
//
// # Relationships
//
// A leaf. Nothing else imports the driver. Each file has one package that opens it:
// storage/sqlite the session files, events/search the search index, and events/projection
// the index of sessions. Any other open and close of a file, by anybody in this process,
// can drop the locks that keep other processes away.
//
// # Traffic
//
// None of its own: it runs the statements that it is given.
//
// # Invariants
//
// Every PRAGMA of a connection was read back. No statement has a context that can
// end. A connection that could not be set up is closed. Open-file-description locks
// and fdatasync are switched on before the first database of the process.
package sqlitedb
