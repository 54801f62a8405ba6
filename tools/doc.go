// Package tools holds the built-in tools and runs them.
//
// # Purpose
//
// A tool is a description for the model and a function for the harness. This
// package describes the built-in ones, and runs any tool so that whatever
// happens (bad arguments, a refusal, a missing file, a crash of the tool) comes
// back as a result that the model can read.
//
// # Key types
//
// [Tool] is the record of one tool, [Registry] all tools of a session,
// [Call] what is run, [Outcome] what comes back. [New] builds a registry from its
// [Deps]. [Asking] is what a call asks a person by itself. [Change] is what a call did to a file, [History] what many did, and [Rewind]
// takes it back.
//
// # Relationships
//
// Imports core, machine/agency for what agents say, policy for classes, blob for
// large outputs, and broker with broker/jail for everything that runs. The engine
// reaches it through a port, and is reached through [Agency].
//
// # Traffic
//
// Files of the workspace, through one os.Root; commands, through the broker;
// blobs of the session. A tool touches nothing else.
//
// # Invariants
//
//   - Run never panics, never fails out of band, and does nothing without a permit
//     for exactly this call.
//   - A path is confined to the workspace twice: it is resolved link by link, so
//     that the refusal can say what is wrong, and used through os.Root, so that a
//     link changed in between leads nowhere. Files are written whole: under
//     another name, flushed, renamed.
//   - Texts are valid UTF-8 without NUL. Bytes that are neither are replaced one by
//     one with U+FFFD, their number is named in the text, and the bytes themselves
//     are kept as a blob. Text beyond [TextLimit] is kept as a blob with its ends in
//     the text.
//   - A secret that the broker names is in no text, no details, no progress and no
//     blob; a marker stands in its place. An encoding of it is not recognised.
//   - Before a file is changed, what it holds is kept as a blob of the result, unless
//     there is a secret in it, or no room; then that is noted.
//   - What the model needs is in the text: details are for programs.
//   - Of equal inputs the same text: no time, no temporary name, no order of a map.
package tools
