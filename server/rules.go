package server

import (
	"net/http"
	"slices"

	"github.com/loom-run/loom/wire"
)

func (s *Server) getRules(r *http.Request, _ struct{}) (list wire.RuleList, err error) {
	h, err := s.session(r)
	if err != nil {
		return list, err
	}
	rules, err := h.resident.Rules(r.Context())
	if err != nil {
		return list, err
	}
	rows := make([]wire.RuleRow, len(rules))
	for i, rule := range rules {
		rows[i] = s.ruleRow(rule)
	}
	list.Rules = wire.FactOf(rows)
	return list, nil
}

func (s *Server) changeRule(r *http.Request, q wire.RuleChoice, remove bool) (receipt wire.RuleReceipt, err error) {
	h, err := s.session(r)
	if err != nil {
		return receipt, err
	}
	got, err := h.resident.WriteRule(r.Context(), Rule{Text: q.Rule, Behavior: q.Behavior, Place: q.Destination}, remove)
	if err != nil {
		return receipt, err
	}
	return wire.RuleReceipt{Rule: s.ruleRow(got.Rule), StillLive: got.Live}, nil
}

func (s *Server) ruleRow(r Rule) wire.RuleRow {
	return wire.RuleRow{
		Rule: shown(r.Text), Behavior: r.Behavior, Destination: r.Place, InEffect: r.InEffect,
		Writable: new(slices.Contains(s.host.About().Rules, r.Place)),
	}
}

func ruleProblems(issues []RuleProblem) []wire.RuleProblem {
	out := make([]wire.RuleProblem, len(issues))
	for i, issue := range issues {
		out[i] = wire.RuleProblem{Code: issue.Code, Rule: new(shown(issue.Rule)), Prose: new(shown(issue.Prose))}
	}
	return out
}
