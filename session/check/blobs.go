package check

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/storage"
)

// The rules about outputs that are kept beside the rows.
const (
	BlobKept       storage.Invariant = "blob-kept"       // what a row refers to is there, byte for byte
	BlobReferenced storage.Invariant = "blob-referenced" // what is there is referred to
)

// Harmless reports a rule whose breach loses and hides nothing: an output that no row
// refers to is what a process leaves that was killed between keeping it and saying so.
func Harmless(i storage.Invariant) bool { return i == BlobReferenced }

// pageBytes bounds the rows that are read at a time.
const pageBytes = 8 << 20

// Blobs compares the outputs that the results of a session refer to with those of
// its folder, and reads every one. live says that somebody may be writing the session:
// an output is kept before the row that refers to it, so none is then called idle.
func Blobs(rows storage.Reader, kept *blob.Store, live bool) ([]storage.Finding, error) {
	there, err := kept.List() // first, so that what comes meanwhile is not looked for
	if err != nil {
		return nil, err
	}
	wanted, findings, err := references(rows)
	if err != nil {
		return nil, err
	}
	for _, ref := range slices.SortedFunc(maps.Keys(wanted), func(a, b blob.Ref) int { return int(wanted[a] - wanted[b]) }) {
		if err := readable(kept, ref); err != nil {
			findings = append(findings, storage.Finding{Invariant: BlobKept, Subject: "output " + ref.SHA256,
				Detail: fmt.Sprintf("the result at seq %d refers to it, and it does not read back: %v", wanted[ref], err)})
		}
	}
	for _, ref := range there {
		if _, ok := wanted[ref]; !ok && !live {
			findings = append(findings, storage.Finding{Invariant: BlobReferenced, Subject: "output " + ref.SHA256,
				Detail: fmt.Sprintf("no result refers to its %d bytes; a run that was killed leaves such outputs", ref.Size)})
		}
	}
	return findings, nil
}

// references lists what the rows refer to, with the seq of the first that does.
func references(rows storage.Reader) (map[blob.Ref]int64, []storage.Finding, error) {
	wanted := make(map[blob.Ref]int64)
	var findings []storage.Finding
	q := storage.EntryQuery{Kind: entry.KindMessage, Bytes: pageBytes}
	for {
		page, err := rows.ScanEntries(q)
		if err != nil || len(page) == 0 {
			return wanted, findings, err
		}
		for _, e := range page {
			m, _ := e.Body.(entry.Message)
			result, ok := m.Message.(*message.ToolResult)
			if !ok {
				continue
			}
			refs, err := blob.InDetails(result.Details)
			if err != nil {
				findings = append(findings, storage.Finding{Invariant: BlobKept, Subject: "entry " + e.ID.String(), Detail: err.Error()})
			}
			for _, ref := range refs {
				if _, known := wanted[ref]; !known {
					wanted[ref] = e.Seq
				}
			}
		}
		q.FromSeq = new(page[len(page)-1].Seq + 1)
	}
}

// readable reads a blob to its end, which verifies it.
func readable(kept *blob.Store, ref blob.Ref) error {
	r, err := kept.Open(ref)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	_, err = io.Copy(io.Discard, r)
	return err
}
