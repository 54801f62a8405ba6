package engine

import (
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
)

// branchCache keeps the decoded branch of a strand between requests, so that the
// next one reads only what is new.
type branchCache struct {
	leaf   id.EntryID
	branch []entry.Entry // newest first, cut at the newest compaction
}

// messages projects the branch at leaf.
func (c *branchCache) messages(s *session.Session, leaf id.EntryID, p projection.Policy) ([]message.Message, error) {
	branch, err := c.at(s, leaf)
	if err != nil {
		return nil, err
	}
	return projection.Project(branch, p), nil
}

// at reads the branch at leaf.
func (c *branchCache) at(s *session.Session, leaf id.EntryID) ([]entry.Entry, error) {
	if leaf != c.leaf || c.branch == nil {
		rows, err := s.Rows().ScanBranch(storage.BranchQuery{
			Start: leaf, Order: storage.NewestFirst, StopAtKind: entry.KindCompaction, StopAtID: c.leaf,
		})
		if err != nil {
			return nil, err
		}
		if n := len(rows); n > 0 && rows[n-1].ID == c.leaf && !c.leaf.IsZero() {
			rows = slices.Concat(rows[:n-1], c.branch)
		}
		c.leaf, c.branch = leaf, rows
	}
	return c.branch, nil
}
