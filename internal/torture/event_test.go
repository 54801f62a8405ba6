//go:build linux

package torture

// orders is what a life is told to do.
type orders struct {
	Home, Workspace, Script string
	Number                  int      // of the life on its stage, from 1
	Prompts                 []string // sent if the session does not hold them yet
	AbortOn                 string   // the call whose first output makes it abort; "" for none
	DieAt                   int      // the commit after which it kills itself, from 1; 0: it does not
}

// event is one line of what a life says.
type event struct {
	Kind kind
	At   int64 // Unix ms

	Strays      []string         `json:",omitempty"` // opened: processes of earlier lives that still run
	Session     string           `json:",omitempty"` // commit: the session that it belongs to
	First, Last int64            `json:",omitempty"` // commit: its seqs; Last is below First when it had no write
	Rows        map[int64]string `json:",omitempty"` // commit: the entries and ledger rows that it placed
	Whole       string           `json:",omitempty"` // commit: the whole store, when the life dies at it
	Prompt      *acknowledged    `json:",omitempty"` // prompt
	Error       string           `json:",omitempty"` // failed
}

// kind is the kind of an event.
type kind string

const (
	opened    kind = "opened" // the session is open, nothing of it runs yet
	committed kind = "commit" // durable; nobody in the process was told
	prompted  kind = "prompt" // the receipt is there
	aborted   kind = "abort"  // the abort was acknowledged
	done      kind = "done"   // the run and its prompts are over and the session is closed
	failed    kind = "failed" // it could not go on
)

// acknowledged is a prompt with a receipt.
type acknowledged struct {
	Text, Entry string
	Seq         int64
	Queued      bool
}
