package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
)

// await answers questions at once and reports effects that nobody runs.
func (d *Driver) await(l loaded, key machine.Key) (Pass, error) {
	switch k := key.(type) {
	case machine.AdmissionKey:
		return d.answer(&report{op: l.op.ID, what: d.admission(k.Context)}, nil)
	case machine.ClearanceKey:
		return d.answer(d.clear(l, k), nil)
	case machine.PollAdmissionKey:
		return d.answer(&report{op: l.op.ID, what: d.admitPoll(k)}, nil)
	case machine.SummaryAdmissionKey:
		return d.answer(&report{op: l.op.ID, what: d.admitSummary(k.Context)}, nil)
	case machine.VerdictKey:
		return d.answer(&report{op: l.op.ID, what: d.verdict(l, k)}, nil)
	case machine.MeasureKey:
		return d.measure(l, k)
	case machine.RunStartKey:
		return d.answer(&report{op: l.op.ID, what: d.runStart(l.op)}, nil)
	case machine.RunEndKey:
		return d.answer(&report{op: l.op.ID, what: d.runEnd(l.op, k)}, nil)
	case machine.SummaryKey:
		if d.lost(summaryKey(k)) < 0 {
			return Pass{Progress: Waiting}, nil
		}
		return d.answer(&report{op: l.op.ID, what: machine.OrphanedSummary(k)}, nil)
	case machine.ResponseKey:
		if d.lost(k.ResponseID.String()) < 0 {
			return Pass{Progress: Waiting}, nil
		}
		return d.answer(&report{op: l.op.ID, what: machine.OrphanedResponse(k)}, nil)
	case machine.CallsKey:
		keys := make([]string, len(k.SourceIndexes))
		for n, i := range k.SourceIndexes {
			keys[n] = callKey(k.StepID, i)
		}
		n := d.lost(keys...)
		if n < 0 {
			return Pass{Progress: Waiting}, nil
		}
		return d.answer(d.orphan(l, k.StepID, k.SourceIndexes[n]))
	}
	return Pass{}, fmt.Errorf("machine awaits %T, which this engine does not know", key)
}

func (d *Driver) answer(r *report, err error) (Pass, error) {
	if err != nil {
		return Pass{}, err
	}
	d.report(r)
	return Pass{Progress: Moved}, nil
}

// lost finds the first of some effects that neither runs nor has reported; -1 for
// none. One that reported since this pass began has rung the bell: nothing is lost
// before that is heard.
func (d *Driver) lost(keys ...string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.reports) > 0 {
		return -1
	}
	return slices.IndexFunc(keys, func(key string) bool { return d.flights[key] == nil })
}

// start runs an effect whose intent is durable. clearance belongs to a tool call.
func (d *Driver) start(spawn func(func()), l loaded, effect machine.Effect, clearance Clearance) {
	op := l.op.ID
	switch f := effect.(type) {
	case machine.Generate:
		key := f.ResponseID.String()
		ctx := d.takeOff(op, key)
		leaf := l.in.Leaf
		spawn(func() {
			got, fault := d.generate(ctx, op, f, leaf)
			d.land(key, &report{op: op, what: got, fault: fault})
		})
	case machine.Poll:
		key := f.ResponseID.String()
		ctx := d.takeOff(op, key)
		spawn(func() {
			m := d.poll(ctx, f)
			d.land(key, &report{op: op, what: machine.Responded{ResponseID: f.ResponseID, Message: m}})
		})
	case machine.Summarize:
		key := summaryKey(machine.SummaryKey{TaskID: f.Context.TaskID, Attempt: f.Attempt, Index: f.Index})
		ctx := d.takeOff(op, key)
		spawn(func() {
			d.land(key, &report{op: op, what: d.summarize(ctx, op, f)})
		})
	case machine.RunTool:
		key := callKey(f.StepID, f.SourceIndex)
		ctx := d.takeOff(op, key)
		var place *ticket
		if clearance != nil {
			place = d.gate.take(clearance.Exclusive()) // before spawning: source order
		}
		spawn(func() {
			result, terminate := d.runTool(ctx, op, f, clearance, place)
			d.land(key, &report{op: op, what: machine.ToolSettled{SourceIndex: f.SourceIndex, Result: result, Terminate: terminate}})
		})
	}
}

func summaryKey(k machine.SummaryKey) string {
	return fmt.Sprintf("%s/%d/%d", k.TaskID, k.Attempt, k.Index)
}

func (d *Driver) takeOff(op id.OpID, key string) context.Context {
	ctx, cancel := context.WithCancel(d.e.ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flights[key] = &flight{op, cancel}
	if d.aborted == op || d.grounded { // that came between the commit and here
		cancel()
	}
	return ctx
}

// land ends a flight with its report. Both are one step, so that no pass sees an
// effect that neither flies nor has reported. Once the engine closes, an outcome
// may be that of the closing itself and not of the effect: nobody hears it, and
// the next opening finds the effect without a worker, as after a crash.
func (d *Driver) land(key string, r *report) {
	r.landed = true
	d.mu.Lock()
	d.flights[key].cancel()
	delete(d.flights, key)
	if d.e.ctx.Err() == nil {
		d.reports = append(d.reports, r)
	}
	d.mu.Unlock()
	d.Ring()
}

// abort cancels what flies for op, now and from now on.
func (d *Driver) abort(op id.OpID) {
	d.mu.Lock()
	d.aborted = op
	for _, f := range d.flights {
		if f.op == op {
			f.cancel()
		}
	}
	d.mu.Unlock()
	if d.e.cfg.Tools != nil {
		d.e.cfg.Tools.Abort(op)
	}
	d.Ring()
}

// ending reports that what flies for op is being cancelled. Flights are cancelled one
// after the other: a call that waited for its turn may get it from one that was
// cancelled first.
func (d *Driver) ending(op id.OpID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.aborted == op || d.grounded
}

// ground cancels what flies, now and from now on.
func (d *Driver) ground() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.grounded = true
	for _, f := range d.flights {
		f.cancel()
	}
}
