package machine

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// moving is a navigation that summarises the branch it leaves.
type moving struct {
	p    *plan
	work Navigation
}

func (m moving) reason() CompactionReason { return ReasonManual }
func (m moving) instructions() *string    { return m.work.CustomInstructions }
func (m moving) at(s Structural) Work {
	m.work.Structural = &s
	return &m.work
}

func (m moving) publish(_ Step, text string, supplied *SupplySummary, i id.EntryID) Action {
	p := m.p
	if _, ok := p.in.Preparation.(*BranchPreparation); !ok {
		return p.foreignPreparation()
	}
	body := entry.BranchSummary{FromID: p.op.SourceLeaf, Summary: text, FromHook: supplied != nil}
	if supplied != nil && supplied.Usage != nil {
		body.Usage = supplied.Usage
		p.writes = append(p.writes, tx.InsertUsage{Row: entry.UsageRow{ID: p.mintUsage(), EntryID: i, Usage: *supplied.Usage}})
	}
	p.leaf = m.work.TargetID
	p.add(i, body)
	return p.arrive(m.work, i)
}

func (m moving) decline() Action {
	return m.p.finish(StepFinishDeclined, LastResult{Outcome: OutcomeDeclined, OldLeafID: m.p.op.SourceLeaf})
}

func (m moving) fail(_ Step, e OperationError) Action {
	return m.p.finish(StepFinishFailed, LastResult{Outcome: OutcomeFailed, Error: &e, OldLeafID: m.p.op.SourceLeaf})
}

// navigate moves the leaf, after a summary where one is wanted.
func (p *plan) navigate(n Navigation) Action {
	if p.cancelled() && (n.Structural == nil || !summaryInFlight(*n.Structural)) {
		return p.finish(StepFinishAborted, LastResult{Outcome: OutcomeAborted, OldLeafID: p.op.SourceLeaf})
	}
	if n.Structural != nil {
		return p.structural(*n.Structural, moving{p, n})
	}
	p.leaf = n.TargetID
	return p.arrive(n, id.EntryID{})
}

// arrive writes the leaf and the label, and ends the navigation.
func (p *plan) arrive(n Navigation, summary id.EntryID) Action {
	p.moveLeaf()
	if n.Label != nil {
		p.writes = append(p.writes, tx.Set(register.FactLabel, n.TargetID.String(), jsonv.Str(*n.Label)))
	}
	return p.finish(StepFinishNavigation, LastResult{Outcome: OutcomeCompleted, OldLeafID: p.op.SourceLeaf, SummaryEntryID: summary})
}
