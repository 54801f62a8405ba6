package admin

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

// Receipt says what became of every place. It does not say what was erased.
type Receipt struct {
	At      int64 // Unix ms
	DryRun  bool
	All     bool
	Session id.SessionID // absent with All
	// Coded reports that base64 was looked for as well: the text was long enough.
	Coded    bool
	Accounts []Account
}

// Outside is what no erasure of ours can look into; it stands in every receipt.
var Outside = []string{
	"the directories that sessions work in",
	"copies and exports that loom was not told of, such as backups",
	"what was sent to providers of models, and what terminals and other programs have kept",
}

// Worst is the outcome that the caller should know first: unreachable before not
// searched before found before clean.
func (r Receipt) Worst() Outcome {
	worst := Clean
	for _, a := range r.Accounts {
		if worse(a.Outcome, worst) {
			worst = a.Outcome
		}
	}
	return worst
}

// worse reports whether a should be known before b.
func worse(a, b Outcome) bool {
	order := []Outcome{Clean, Present, NotSearched, Unreachable}
	return slices.Index(order, a) > slices.Index(order, b)
}

// Erased is how many occurrences are gone.
func (r Receipt) Erased() (n int64) {
	for _, a := range r.Accounts {
		n += a.Erased
	}
	return n
}

// WouldErase is how many occurrences a dry run found that would go.
func (r Receipt) WouldErase() (n int64) {
	for _, a := range r.Accounts {
		if a.Outcome == Present {
			n += a.Found.Texts
		}
	}
	return n
}

// Append writes the receipt as JSON: see the format page.
func (r Receipt) Append(dst []byte) []byte {
	w := jsonv.NewWriter(dst)
	w.Begin()
	w.Str("format", "loom-erasure")
	w.Num("version", 1)
	w.Num("at", r.At)
	w.Flag("dryRun", r.DryRun)
	if r.All {
		w.Str("scope", "all")
	} else {
		w.Str("scope", r.Session.String())
	}
	w.Str("outcome", string(r.Worst()))
	w.Num("erased", r.Erased())
	w.Flag("base64", r.Coded)
	w.Name("stores")
	w.BeginArray()
	for _, a := range r.Accounts {
		a.append(w)
	}
	w.EndArray()
	w.Strs("outside", Outside)
	w.End()
	return w.Bytes()
}

func (a Account) append(w *jsonv.Writer) {
	w.Begin()
	w.Str("store", a.Store)
	w.Str("subject", a.Subject)
	w.Str("outcome", string(a.Outcome))
	w.Name("found")
	w.Begin()
	w.Num("texts", a.Found.Texts)
	w.Num("names", a.Found.Names)
	w.Num("numbers", a.Found.Numbers)
	w.Num("keys", a.Found.Keys)
	w.Num("ids", a.Found.IDs)
	w.Flag("bytes", a.Found.Bytes)
	w.End()
	w.Num("erased", a.Erased)
	if a.Reason != "" {
		w.Str("reason", a.Reason)
	}
	w.End()
}

// receiptFolder is where receipts lie in the root.
const receiptFolder = "receipts"

// Write keeps the receipt in the root and returns its path. A dry run keeps none.
func (r Receipt) Write(root Root) (path string, err error) {
	var unique [4]byte
	_, _ = rand.Read(unique[:]) // never fails
	dir := filepath.Join(root.Dir, receiptFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("the receipt cannot be kept: %w", err)
	}
	name := "erase-" + time.UnixMilli(r.At).UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(unique[:]) + ".json"
	path = filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("the receipt cannot be kept: %w", err)
	}
	_, err = f.Write(append(r.Append(nil), '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("the receipt cannot be kept: %w", err)
	}
	return path, nil
}
