// Package jail runs one command in processes that do not outlive the harness.
//
// # Purpose
//
// An agent that is killed must not leave its tools running: a build or a
// deployment that goes on beside the resumed session is a side effect that
// nobody accounts for. So the harness never is the parent of a command. It
// starts its own binary again as a supervisor, and the supervisor starts the
// command, ends it when told to, and ends it when the harness is gone in
// whatever way, SIGKILL included.
//
// # Key types
//
// [Enter] turns a process into the supervisor when it was started as one; it
// must be the first call of main. [Run] runs a [Command] and returns its
// [Exit]. [Fence] is the lock file that tells a recovering harness when the last
// supervisor of a killed one is gone; [AwaitFence] waits for that. [Environment]
// builds the environment of a command from an allow list.
//
// # Relationships
//
// Imports nothing of this module. Only broker calls Run.
//
// # Traffic
//
// Harness and supervisor share four pipes, and a fifth when the command has an input. On the control pipe the harness
// writes the command as one frame, then at most the byte that ends it; the end
// of that pipe is the death of the harness. On the report pipe the supervisor
// answers started or failed, then exited. The next two are the output streams
// of the command, read by the harness alone, the last is what it reads. The fence is one more descriptor,
// held by the supervisor and never by the command.
//
// # Invariants
//
//   - When Run returns without [*LostError] and with Exit.Left == 0, no process
//     of the command is alive, also none that called setsid or forked twice.
//   - When the harness dies and the supervisor does not, every process of the
//     command gets SIGKILL, then the supervisor exits. Until then it holds the
//     fence.
//   - A command sees an environment built by [Environment], no terminal, no
//     standard input but one that it is given, and no descriptor of the harness but
//     the pipes of its streams.
//   - On Linux neither harness nor supervisor is dumpable: a command that runs as
//     an ordinary user cannot read their environment, memory or descriptors in
//     /proc. One that runs as root, or may trace any process, can.
//   - Output never blocks a command: what is beyond the limits is read, counted
//     and dropped.
//
// How the tree is found: the supervisor is a child subreaper, so that orphans
// become its own children and "no child left" means "no process left"; whom to
// signal is read from /proc, again and again until none is left, and each signal
// goes through a pidfd whose process was checked twice, so that a reused number
// is never hit. The direct child also has a parent death signal. Each process
// carries a mark in its environment, which finds the rest should the supervisor
// itself be killed.
//
// When the supervisor is killed, with the harness or alone, nothing holds the
// fence and there is no subreaper any more. The direct child then dies by its
// parent death signal, and its descendants are found by the mark, at recovery or
// by the harness that still lives. A descendant that took the mark out of its
// environment (env -i) is found by nobody: it survives and may run beside the
// resumed session. [AwaitFence] returns nil all the same.
//
// What else this does not stop: a process of another user (sudo) cannot be
// signalled, one stuck in the kernel does not die; both are counted in Exit.Left
// and keep the fence held. A process that asks a daemon outside (a service
// manager, a container engine) to run something is not followed. Limits on
// files, network and memory are not this package's yet.
//
// # Other systems
//
// Beyond Linux there is no subreaper and no /proc: the tree is the process
// group of the command, so that a process that calls setsid escapes the sweep
// and the fence does not speak for it. Where there are no Unix processes at all,
// Run returns [ErrUnsupported].
package jail
