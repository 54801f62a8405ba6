package coretest

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

// Entry generates rows of every kind, roots and stamped or not.
func Entry() *rapid.Generator[entry.Entry] {
	stamp := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1<<53))
	return rapid.Custom(func(t *rapid.T) entry.Entry {
		return entry.Entry{
			ID: EntryID().Draw(t, "id"), Parent: MaybeEntryID().Draw(t, "parentId"),
			Seq: stamp.Draw(t, "seq"), Timestamp: stamp.Draw(t, "timestamp"), Body: Body().Draw(t, "body"),
		}
	})
}

// Body generates the payload of every kind of row.
func Body() *rapid.Generator[entry.Body] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) entry.Body {
			m := Message().Draw(t, "message")
			_, result := m.(*message.ToolResult)
			return entry.Message{Message: m, Terminate: result && rapid.Bool().Draw(t, "terminate")}
		}),
		rapid.Custom(func(t *rapid.T) entry.Body {
			return entry.Compaction{
				Summary: Text().Draw(t, "summary"), RetainedTail: rapid.SliceOfN(Message(), 0, 3).Draw(t, "retainedTail"),
				TokensBefore: rapid.Int64Range(0, 1<<40).Draw(t, "tokensBefore"), FromHook: rapid.Bool().Draw(t, "fromHook"),
				Usage: maybe(Usage()).Draw(t, "usage"),
			}
		}),
		rapid.Custom(func(t *rapid.T) entry.Body {
			return entry.BranchSummary{
				FromID: MaybeEntryID().Draw(t, "fromId"), Summary: Text().Draw(t, "summary"), FromHook: rapid.Bool().Draw(t, "fromHook"),
				Usage: maybe(Usage()).Draw(t, "usage"),
			}
		}),
		rapid.Custom(func(t *rapid.T) entry.Body {
			return entry.Custom{Type: Text().Draw(t, "customType"), Data: maybe(Value()).Draw(t, "data")}
		}),
	)
}

// UsageRow generates rows of the ledger; only an adjustment is signed.
func UsageRow() *rapid.Generator[entry.UsageRow] {
	return rapid.Custom(func(t *rapid.T) entry.UsageRow {
		row := entry.UsageRow{
			ID: UsageID().Draw(t, "id"), Seq: rapid.Int64Range(0, 1<<53).Draw(t, "seq"), EntryID: MaybeEntryID().Draw(t, "entryId"),
			Adjustment: rapid.Bool().Draw(t, "adjustment"), Details: maybe(Value()).Draw(t, "details"),
		}
		if row.Adjustment {
			row.Usage = SignedUsage().Draw(t, "usage")
		} else {
			row.Usage = Usage().Draw(t, "usage")
		}
		return row
	})
}
