package admin_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

func TestATextGoesFromEveryPlaceOfASession(t *testing.T) {
	for _, text := range []string{secret, `pa"ss\word` + "\n🔑", "ключ от дома", strings.Repeat("0123456789abcde ", 1<<16)} {
		w := newWorld(t)
		places := 0
		s := w.story(func(place string) string {
			if places++; len(text) > 1<<19 && places%20 != 0 {
				return place // a megabyte in each would make the test slow
			}
			return place + " <" + text + ">"
		})
		n := needleOf(t, text)
		if len(w.raw(n)) == 0 && len(text) < 1000 {
			t.Fatalf("%.20q was never there", text)
		}
		r := w.erase(admin.Erasure{Needle: n, Session: s.Self})
		a := w.wants(r, s.Self, admin.Clean)
		if a.Erased < 50 && len(text) < 1<<19 || a.Erased < 3 || a.Erased != a.Found.Texts || r.Worst() != admin.Clean {
			t.Errorf("%.20q: %+v", text, a)
		}
		if left := w.raw(n); left != nil {
			t.Errorf("%.20q is left in %v", text, left)
		}
		w.sound()
		if g := w.generation(s.Self); g != 1 {
			t.Errorf("the generation is %d", g)
		}
		if again := w.erase(admin.Erasure{Needle: n, All: true}); again.Erased() != 0 || again.Worst() != admin.Clean || w.generation(s.Self) != 1 {
			t.Errorf("a second time: %s", again.Append(nil))
		}
	}
}

func (w *world) generation(s id.SessionID) int64 {
	w.t.Helper()
	sum, err := sqlite.Peek(w.place(s).File)
	if err != nil {
		w.t.Fatal(err)
	}
	return sum.Generation
}

func TestADryRunCountsAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.story(func(place string) string { return place + " " + secret })
	fork := w.fork(s.Self)
	ref := w.kept(s.Self, "output with "+secret)
	before := w.digest()
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true, DryRun: true})
	a, b := w.wants(r, s.Self, admin.Present), w.wants(r, fork, admin.Present)
	if o := account(t, r, admin.OutputStore, s.Self); o.Outcome != admin.Present || o.Found.Texts != 1 || o.Erased != 0 {
		t.Errorf("outputs: %+v", o)
	}
	if d := cmp.Diff(before, w.digest()); d != "" {
		t.Errorf("it changed %s", d)
	}
	if r.Erased() != 0 || r.WouldErase() != a.Found.Texts+b.Found.Texts+1 {
		t.Errorf("it counts %d, and %d that would go", r.Erased(), r.WouldErase())
	}
	did := w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true})
	if did.Erased() != r.WouldErase() {
		t.Errorf("%d were foreseen and %d went", r.WouldErase(), did.Erased())
	}
	if _, err := blob.Open(w.place(s.Self).Outputs).Open(ref); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the output is there: %v", err)
	}
	w.sound()
}

func TestForksOfForksAreFollowedAndOthersLeftAlone(t *testing.T) {
	w := newWorld(t)
	above := w.plain("prompt " + secret)
	s := w.fork(above)
	child := w.fork(s)
	grandchild := w.fork(child)
	orphan := w.fork(w.fork(s))
	stranger, sibling := w.plain("also "+secret), w.fork(above)
	// The fork between is gone; its own fork is known by its entries.
	for _, p := range must(w.sessions()) {
		if is := must(sqlite.Peek(p.File)); is.ID == must(sqlite.Peek(w.place(orphan).File)).Parent {
			if err := os.Remove(p.File); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	for _, x := range []id.SessionID{s, child, grandchild, orphan} {
		if a := w.wants(r, x, admin.Clean); a.Erased != 1 {
			t.Errorf("%s: %d erased", x, a.Erased)
		}
	}
	// What it comes from was looked at, and is named.
	if a := w.wants(r, above, admin.Unreachable); !strings.Contains(a.Reason, "--session "+above.String()) {
		t.Error(a.Reason)
	}
	if r.Worst() != admin.Unreachable {
		t.Errorf("the worst is %s", r.Worst())
	}
	for _, x := range []id.SessionID{stranger, sibling} {
		if slices.ContainsFunc(r.Accounts, func(a admin.Account) bool { return a.Subject == x.String() }) || w.generation(x) != 0 {
			t.Errorf("%s was touched", x)
		}
	}
	r = w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true})
	if left := w.raw(needleOf(t, secret)); left != nil || r.Worst() != admin.Clean {
		t.Errorf("left in %v: %s", left, r.Append(nil))
	}
	w.sound()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAForkThatIsMadeMeanwhileIsErasedToo(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt " + secret)
	var late id.SessionID
	copied := filepath.Join(t.TempDir(), "copy")
	w.listed = func(n int) {
		switch n {
		case 2: // the first was to know that there is such a session; now nothing is erased yet
			if err := os.CopyFS(copied, os.DirFS(w.dir)); err != nil {
				t.Fatal(err)
			}
		case 3: // the session is erased, and a fork that read it before comes to an end
			other := *w
			other.dir, other.listed = copied, nil
			late = other.fork(s)
			w.ids = other.ids
			if err := os.Rename(other.place(late).File, w.place(late).File); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	w.listed = nil
	if a := w.wants(r, late, admin.Clean); a.Erased != 1 {
		t.Errorf("%+v", a)
	}
	if left := w.raw(needleOf(t, secret)); left != nil {
		t.Errorf("left in %v", left)
	}
}

func TestASessionThatSomebodyHoldsIsSearchedAndLeftAlone(t *testing.T) {
	for name, found := range map[string]bool{"with the text": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			text := "prompt"
			if found {
				text += " " + secret
			}
			s := w.plain(text)
			store := w.open(s)
			defer store.Close()
			r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
			if found {
				if a := w.wants(r, s, admin.Unreachable); !strings.Contains(a.Reason, "pid ") || a.Found.Texts != 1 || a.Erased != 0 {
					t.Errorf("%+v", a)
				}
			} else {
				w.wants(r, s, admin.Clean)
			}
			if w.generation(s) != 0 {
				t.Error("it was rewritten")
			}
		})
	}
}

func TestASessionThatRunsHereIsNotSearched(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt " + secret)
	w.borrow = func(id.SessionID) error { return errRunning }
	if a := w.wants(w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s}), s, admin.NotSearched); a.Reason != errRunning.Error() {
		t.Errorf("%+v", a)
	}
}

// A fork in the making has no parent yet. It might be one of the session that is erased.
func TestASessionThatIsBeingMadeIsTold(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt " + secret)
	var making id.SessionID
	making, w.ids = w.ids.Session()
	store := w.open(making)
	for _, e := range []admin.Erasure{{Session: s}, {All: true}} {
		e.Needle = needleOf(t, secret)
		if a := w.wants(w.erase(e), making, admin.NotSearched); !strings.Contains(a.Reason, "being made") {
			t.Error(a.Reason)
		}
	}
	w.close(store)
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	if r.Worst() != admin.Clean {
		t.Errorf("whoever made it is gone: %s", r.Append(nil))
	}
}

// corrupted overwrites a text in the file of a session.
func (w *world) corrupted(s id.SessionID, old, with string) {
	w.t.Helper()
	b := must(os.ReadFile(w.place(s).File))
	i := bytes.Index(b, []byte(old))
	if i < 0 || len(old) != len(with) {
		w.t.Fatal("there is no such text to overwrite")
	}
	copy(b[i:], with)
	if err := os.WriteFile(w.place(s).File, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestADamagedSessionIsNeverCalledClean(t *testing.T) {
	for name, c := range map[string]struct {
		texts []string
		want  admin.Outcome
	}{
		"with the text":    {[]string{"overwrite", secret}, admin.Unreachable},
		"without the text": {[]string{"overwrite", "other"}, admin.NotSearched},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dry := range []bool{true, false} {
				w := newWorld(t)
				s := w.plain(c.texts...)
				w.corrupted(s, "overwrite", "overwrote")
				a := w.wants(w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true, DryRun: dry}), s, c.want)
				if !strings.Contains(a.Reason, "damaged") || w.generation(s) != 0 {
					t.Errorf("dry %v: %+v", dry, a)
				}
			}
		})
	}
	w := newWorld(t)
	s, bad := w.plain(secret), w.plain("x")
	if err := os.WriteFile(w.place(bad).File, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	w.wants(r, bad, admin.NotSearched)
	w.wants(r, s, admin.Clean)
	w.wants(w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true}), bad, admin.NotSearched)
}

// A text that the session is built of: it is not taken out, and the receipt says so.
func TestWhatHoldsTheSessionTogetherIsLeftAndTold(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		says string
	}{
		"a word of the format": {"message", "part of what holds the session together"},
		"a part of one":        {"essag", "part of what holds the session together"},
		"a kind of block":      {"toolCall", "part of what holds the session together"},
		"an id":                {"019b76da-a800-7", "part of what holds the session together"},
		"a part of an id":      {"019b76da", "part of what holds the session together"},
		"one character":        {"e", "part of what holds the session together"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dry := range []bool{true, false} {
				w := newWorld(t)
				s := w.story(func(place string) string { return place })
				before := w.rows(s.Self)
				r, err := admin.Erase(w.root, admin.Erasure{Needle: needleOf(t, c.text), Session: s.Self, DryRun: dry})
				if err != nil {
					t.Fatal(err)
				}
				var a admin.Account
				for _, x := range r.Accounts {
					if x.Store == admin.SessionStore {
						a = x
					}
				}
				said, _ := needleOf(t, c.text).Marked().Erase(c.says)
				if a.Outcome != admin.Unreachable || !strings.Contains(a.Reason, said) || !a.Found.Bytes {
					t.Errorf("dry %v: %+v", dry, a)
				}
				if d := cmp.Diff(before, w.rows(s.Self)); d != "" {
					t.Errorf("dry %v: it changed %s", dry, d)
				}
				w.sound()
			}
		})
	}
}

// rows is what a session holds.
func (w *world) rows(s id.SessionID) []string {
	w.t.Helper()
	r := must(sqlite.OpenReader(w.place(s).File))
	defer r.Close()
	var l listing
	if err := r.Walk(&l); err != nil {
		w.t.Fatal(err)
	}
	return l.rows
}

type listing struct{ rows []string }

func (l *listing) Session(storage.Stats, int64) {}
func (l *listing) Entry(e entry.Entry)          { l.rows = append(l.rows, string(entry.Encode(e))) }
func (l *listing) Usage(u entry.UsageRow) {
	var w jsonv.Writer
	entry.AppendUsageRow(&w, u)
	l.rows = append(l.rows, string(w.Bytes()))
}
func (l *listing) Register(ns, key string, c register.Cell) {
	l.rows = append(l.rows, ns+"/"+key+" "+c.Value.String())
}
func (l *listing) Damage(d storage.Damage) { l.rows = append(l.rows, d.String()) }

func TestNamesKeysAndNumbersAreLeftAndTold(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt " + secret)
	store := w.open(s)
	u, ids := w.ids.Usage()
	w.ids = ids
	w.commit(store,
		tx.InsertEntry{Entry: entry.Entry{ID: w.entry(), Body: entry.Custom{Type: "x", Data: new(jsonv.Obj(jsonv.F("of "+secret, jsonv.Num(1)), jsonv.F("b", jsonv.Str(secret))))}}},
		tx.Set(register.FactName, secret, jsonv.Str("value")),
		tx.Set(register.FactName, "a", jsonv.Str(secret)),
		tx.InsertUsage{Row: entry.UsageRow{ID: u, Usage: usage.Zero(), Adjustment: true, Details: new(jsonv.Obj(jsonv.F("note", jsonv.Str(secret)), jsonv.F(secret, jsonv.Num(2))))}},
	)
	w.close(store)
	for _, dry := range []bool{true, false} {
		a := w.wants(w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s, DryRun: dry}), s, admin.Unreachable)
		if a.Found != (admin.Found{Texts: 4, Names: 2, Keys: 1, Bytes: true}) || !strings.Contains(a.Reason, "2 names of a field, 1 key of a register") {
			t.Errorf("dry %v: %+v", dry, a)
		}
		if !dry && a.Erased != 4 {
			t.Errorf("%d were erased", a.Erased)
		}
	}
	for _, row := range w.rows(s) {
		if strings.Count(row, secret) > strings.Count(row, `"of `+secret)+strings.Count(row, secret+`":2`)+strings.Count(row, "fact.name/"+secret) {
			t.Errorf("left in %s", row)
		}
	}
	// A number that the text is the digits of.
	w = newWorld(t)
	s = w.plain("pin 8675309")
	store = w.open(s)
	w.commit(store, tx.Set(register.FactName, "pin", jsonv.Num(8675309)))
	w.close(store)
	if a := w.wants(w.erase(admin.Erasure{Needle: needleOf(t, "8675309"), All: true}), s, admin.Unreachable); a.Found.Numbers != 1 || a.Erased != 1 {
		t.Errorf("%+v", a)
	}
}

// What was deleted or replaced is in no row, and in the free pages of the file or in its log all the same.
func TestTextInFreePagesGoes(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt")
	store := w.open(s)
	for range 20 {
		w.commit(store, tx.Set(register.FactCustom, "agent/x", jsonv.Str(strings.Repeat(secret+" ", 1000))))
		w.commit(store, tx.Delete(register.FactCustom, "agent/x"))
	}
	w.close(store)
	if w.raw(needleOf(t, secret)) == nil {
		t.Fatal("it was never there")
	}
	a := w.wants(w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s}), s, admin.Clean)
	if a.Found != (admin.Found{Bytes: true}) {
		t.Errorf("%+v", a)
	}
	if left := w.raw(needleOf(t, secret)); left != nil {
		t.Errorf("left in %v", left)
	}
	w.sound()
}

func TestOutputsAreReplacedUnderTheirNewNames(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt")
	clean := w.kept(s, "a clean output")
	dirty := w.kept(s, "\x00\x01binary "+secret+"\xff and "+in64("x"+secret)+" end")
	pure := w.kept(s, strings.Repeat(secret, 40_000)) // over several windows
	outputs := blob.Open(w.place(s).Outputs)
	idle := must(outputs.PutBytes([]byte("nobody refers to " + secret)))
	half := filepath.Join(w.place(s).Outputs, "put-123")
	if err := os.WriteFile(half, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	w.wants(r, s, admin.Clean)
	if o := account(t, r, admin.OutputStore, s); o.Outcome != admin.Clean || o.Found.Texts != 3 || o.Erased != 3 {
		t.Errorf("%+v", o)
	}
	if left := w.raw(needleOf(t, secret)); left != nil {
		t.Errorf("left in %v", left)
	}
	w.sound() // each reference leads to its output, and nothing is idle
	list := must(outputs.List())
	if len(list) != 3 || !slices.Contains(list, clean) {
		t.Errorf("the outputs are %v", list)
	}
	for _, gone := range []blob.Ref{dirty, pure, idle} {
		if slices.Contains(list, gone) {
			t.Errorf("%v is there", gone)
		}
	}
	rows := strings.Join(w.rows(s), "\n")
	for _, ref := range list {
		if strings.Count(rows, ref.SHA256) != 2 { // in the details and in the text
			t.Errorf("%s is named %d times", ref.SHA256, strings.Count(rows, ref.SHA256))
		}
	}
	if !strings.Contains(rows, `"stream":"stdout"`) {
		t.Error("what the tool keeps beside a reference is gone")
	}
	if strings.Contains(rows, dirty.SHA256) || strings.Contains(rows, pure.SHA256) {
		t.Error("an old name is left")
	}
	for _, ref := range list {
		if r, err := outputs.Open(ref); err != nil {
			t.Error(err)
		} else if b, err := io.ReadAll(r); err != nil || ref != clean && !bytes.Contains(b, []byte("[erased]")) {
			t.Errorf("%.100q, %v", b, err)
		}
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Error("the half of an output is left")
	}
}

func TestOutputsThatForksShareGoFromBoth(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt")
	ref := w.kept(s, "output "+secret)
	fork := w.fork(s)
	if err := blob.Open(w.place(fork).Outputs).Adopt(ref, blob.Open(w.place(s).Outputs)); err != nil {
		t.Fatal(err)
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	if left := w.raw(needleOf(t, secret)); left != nil || r.Worst() != admin.Clean {
		t.Errorf("left in %v: %s", left, r.Append(nil))
	}
	w.sound()
}

func TestWhatElseLiesInTheRootIsAccountedFor(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt")
	var gone id.SessionID
	gone, w.ids = w.ids.Session()
	orphan := must(blob.Open(w.place(gone).Outputs).PutBytes([]byte("of a session that is gone " + secret)))
	for name, text := range map[string]string{"notes " + secret + ".txt": secret, "clean.txt": "x", "search.db": secret, "sessions/stray": in64(secret)} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(w.dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	got := map[string]admin.Outcome{}
	for _, a := range r.Accounts {
		if a.Store != admin.SessionStore {
			got[a.Store+" "+a.Subject] = a.Outcome
		}
	}
	want := map[string]admin.Outcome{
		"other notes [erased].txt": admin.Unreachable, "other search.db": admin.NotSearched, "other sessions/stray": admin.Unreachable,
		"other link": admin.NotSearched, "other 1 further files": admin.Clean,
		"outputs sessions/" + gone.String() + ".blobs/" + orphan.SHA256: admin.Clean,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := os.Stat(filepath.Join(w.place(gone).Outputs, orphan.SHA256)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the output of a session that is gone is left")
	}
}

func TestAnUnknownSessionIsRefused(t *testing.T) {
	w := newWorld(t)
	var s id.SessionID
	s, w.ids = w.ids.Session()
	_, err := admin.Erase(w.root, admin.Erasure{Needle: needleOf(t, secret), Session: s})
	if unknown, ok := errors.AsType[*admin.ErrUnknownSession](err); !ok || unknown.ID != s {
		t.Errorf("%v", err)
	}
	broken := errors.New("broken")
	w.root.Sessions = func() ([]admin.Place, error) { return nil, broken }
	if _, err := admin.Erase(w.root, admin.Erasure{Needle: needleOf(t, secret), All: true}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestAReceiptIsKeptForItsOwnerAlone(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt " + secret)
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	for range 2 { // each has a file of its own
		path, err := r.Write(w.root)
		if err != nil {
			t.Fatal(err)
		}
		st := must(os.Stat(path))
		if st.Mode().Perm() != 0o600 || filepath.Dir(path) != filepath.Join(w.dir, "receipts") {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		if _, err := jsonv.Parse(must(os.ReadFile(path))); err != nil {
			t.Error(err)
		}
	}
	if list := must(os.ReadDir(filepath.Join(w.dir, "receipts"))); len(list) != 2 {
		t.Errorf("%d receipts", len(list))
	}
	if again := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s}); again.Worst() != admin.Clean {
		t.Errorf("%s", again.Append(nil))
	}
	blocked := w.root
	blocked.Dir = w.place(s).File
	if _, err := r.Write(blocked); err == nil {
		t.Error("a receipt was kept in a file")
	}
}

// The errors of a damaged session show what they saw; an account does not.
func TestNoAccountQuotesARow(t *testing.T) {
	w := newWorld(t)
	s := w.plain(secret)
	store := w.open(s)
	w.commit(store, tx.Set(register.FactCustom, session.ParentKey, jsonv.Str(secret+" is no id")))
	w.close(store)
	for _, e := range []admin.Erasure{{Session: s}, {All: true}, {All: true, DryRun: true}} {
		e.Needle = needleOf(t, secret+" is no id, and longer than what is shown of it")
		for _, a := range w.erase(e).Accounts {
			if strings.Contains(a.Reason, "sk-") {
				t.Errorf("%+v", a)
			}
		}
	}
}

// index is a store of a package above.
type index struct {
	path    string
	reached []id.SessionID
	of      []id.SessionID
}

func (x *index) Keeps(within string) bool { return within == x.path }

func (x *index) Erase(w *admin.Work) []admin.Account {
	for _, s := range x.of {
		if w.Reaches(s) {
			x.reached = append(x.reached, s)
		}
	}
	erased, times := w.Eraser().Erase("a row about " + secret)
	return []admin.Account{{Store: "index", Subject: x.path, Outcome: admin.Clean, Erased: int64(times), Found: admin.Found{Texts: int64(len(erased))}}}
}

func TestAStoreOfAPackageAboveIsAsked(t *testing.T) {
	w := newWorld(t)
	s, other := w.plain("prompt "+secret), w.plain("other")
	fork := w.fork(s)
	x := &index{path: "search.db", of: []id.SessionID{s, other, fork}}
	w.root.Stores = []admin.Store{x}
	if err := os.WriteFile(filepath.Join(w.dir, "search.db"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	if !slices.Equal(x.reached, []id.SessionID{s, fork}) || r.Worst() != admin.Clean {
		t.Errorf("it was told of %v: %s", x.reached, r.Append(nil))
	}
}
