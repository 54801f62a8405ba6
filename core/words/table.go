package words

import (
	"iter"
	"reflect"
	"slices"
)

// Row is one word of a table.
type Row[W ~string] struct {
	Word W
	// MintedBy names the packages, by their path in this module, whose code says
	// the word. Empty: the contract has it, and nothing of this build mints it.
	MintedBy []string
}

// Table is a closed set of words. Only this package makes one.
type Table[W ~string] struct {
	name string
	rows []Row[W]
}

// Parse reads a word of the set, byte for byte.
func (t *Table[W]) Parse(s string) (W, bool) {
	for i := range t.rows {
		if string(t.rows[i].Word) == s {
			return t.rows[i].Word, true
		}
	}
	return "", false
}

// Has reports whether w is in the set.
func (t *Table[W]) Has(w W) bool {
	_, ok := t.Parse(string(w))
	return ok
}

// Len is the number of words.
func (t *Table[W]) Len() int { return len(t.rows) }

// All yields the words in the order of the table.
func (t *Table[W]) All() iter.Seq[W] {
	return func(yield func(W) bool) {
		for i := range t.rows {
			if !yield(t.rows[i].Word) {
				return
			}
		}
	}
}

// Words returns the words in the order of the table.
func (t *Table[W]) Words() []W { return slices.Collect(t.All()) }

// Name says in plain words what the set is about.
func (t *Table[W]) Name() string { return t.name }

// Type is the type of the words.
func (t *Table[W]) Type() reflect.Type { return reflect.TypeFor[W]() }

// Rows yields each word as a string, with the packages that mint it.
func (t *Table[W]) Rows() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for _, r := range t.rows {
			if !yield(string(r.Word), slices.Clone(r.MintedBy)) {
				return
			}
		}
	}
}

// Set is a table whatever the type of its words.
type Set interface {
	Name() string
	Type() reflect.Type
	Len() int
	Rows() iter.Seq2[string, []string]
}

// of makes a table.
func of[W ~string](name string, rows ...Row[W]) *Table[W] { return &Table[W]{name: name, rows: rows} }

// minted is a row of a word that packages of this build say.
func minted[W ~string](w W, by ...string) Row[W] { return Row[W]{Word: w, MintedBy: by} }

// planned is a row of a word that the contract has and nothing mints yet.
func planned[W ~string](w W) Row[W] { return Row[W]{Word: w} }

// Tables returns every table of this package.
func Tables() []Set {
	return []Set{
		Causes, RowEndings, PauseReasons, BlockedKinds, HookBlocks, LimitBlocks, Expiries, CancelCauses, SessionStatuses,
		Dispositions, Settlements, DeniedBys, AskOrigins, Mandates, SettledBys, UnsettledCauses, UndecidedCauses, Decisions, GrantLifetimes, ApproverPostures,
		PermissionModes, ToolClasses, RuleBehaviors, RuleDestinations, RuleOfferAbsences, RuleIssues, RuleLivenesses,
		NoticeCodes, Audiences, Minters,
		TaskKinds, BackgroundStatuses, RegistrationStates,
		QueueLanes, UnusedCauses, PlanVerdicts,
		CompactionTriggers, HookPhases, HookOutcomes, MountConditions, MCPDeliveries, Severities, FileChanges,
		Healths, Activities, MemoryCaptures, ThinkingLevels, SearchRoles, ErasureOutcomes,
	}
}
