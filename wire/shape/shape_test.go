package shape_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire/shape"
)

type place struct {
	Row int64 `wire:"row,min=1"`
	Col int   `wire:"col"`
}

// Check implements shape.Checked.
func (p place) Check() (field, expected string) {
	if p.Col > 100 {
		return "col", "a narrow page"
	}
	return "", ""
}

type base struct {
	Name string `wire:"name,word"`
}

type thing struct {
	base
	Note    string            `wire:"note,opt"`
	Short   string            `wire:"short,max=1K"`
	Mode    words.ToolClass   `wire:"mode"`
	At      *place            `wire:"at"`
	Hint    *place            `wire:"hint,lenient"`
	Places  []place           `wire:"places"`
	More    []string          `wire:"more,opt"`
	On      bool              `wire:"on,opt"`
	Raw     jsonv.Value       `wire:"raw"`
	Opaque  *jsonv.Value      `wire:"opaque"`
	Figure  figure            `wire:"figure"`
	Figures []figure          `wire:"figures,opt"`
	Classes []words.ToolClass `wire:"classes,opt"`
}

type figure interface{ figure() }

type circle struct {
	Radius int64 `wire:"radius"`
}

type dot struct{}

type odd struct {
	tag string
	raw jsonv.Value
}

func (circle) figure() {}
func (dot) figure()    {}
func (odd) figure()    {}

func init() {
	shape.Sum("is",
		func(tag string, raw jsonv.Value) figure { return odd{tag, raw} },
		func(f figure) (jsonv.Value, bool) { o, ok := f.(odd); return o.raw, ok },
		shape.Member[figure]{Tag: "circle", Zero: circle{}}, shape.Member[figure]{Tag: "dot", Zero: dot{}})
}

const whole = `{"name":"n","note":"x","short":"s","mode":"read","at":{"row":1,"col":2},"hint":{"row":3,"col":4},"places":[{"row":5,"col":6}],` +
	`"more":[],"on":true,"raw":null,"opaque":{"a":[1]},"figure":{"is":"circle","radius":9},"figures":[{"is":"dot"},{"is":"blob","x":[1]}],"classes":["exec"]}`

func parse(t interface{ Fatal(...any) }, text string) jsonv.Value {
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func encoded(v any) string {
	var w jsonv.Writer
	shape.AppendAny(&w, v)
	return string(w.Bytes())
}

func TestAValueReadsBackAsItWasWritten(t *testing.T) {
	got, err := shape.Decode[thing](parse(t, whole), "test")
	if err != nil {
		t.Fatal(err)
	}
	if text := encoded(got); text != whole {
		t.Errorf("%s\nis written as\n%s", whole, text)
	}
	if got.Name != "n" || got.At.Row != 1 || got.Figure != (circle{Radius: 9}) || got.More == nil || got.Opaque == nil {
		t.Errorf("%+v", got)
	}
	if o, ok := got.Figures[1].(odd); !ok || o.tag != "blob" {
		t.Errorf("a newer member is %#v", got.Figures[1])
	}
}

const least = `{"name":"n","short":"","mode":"read","places":[],"raw":1,"figure":{"is":"dot"}}`

func TestWhatIsAbsentIsNotZero(t *testing.T) {
	for _, text := range []string{least, strings.Replace(least, `"places"`, `"at":null,"note":null,"more":null,"on":null,"hint":null,"opaque":null,"places"`, 1)} {
		got, err := shape.Decode[thing](parse(t, text), "test")
		if err != nil {
			t.Fatal(err)
		}
		if got.At != nil || got.Note != "" || got.More != nil || got.On || got.Hint != nil || got.Opaque != nil {
			t.Errorf("%+v", got)
		}
		if again := encoded(got); again != least {
			t.Errorf("it is written as %s", again)
		}
	}
}

func TestWhatIsWrongIsRefusedWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct{ from, to, subject string }{
		"no object":                {least, `[]`, "value"},
		"a field is missing":       {`"short":"",`, ``, "short"},
		"a field is null":          {`"short":""`, `"short":null`, "short"},
		"another type":             {`"short":""`, `"short":{"a":1}`, "short"},
		"a word is empty":          {`"name":"n"`, `"name":""`, "name"},
		"a word is too long":       {`"name":"n"`, `"name":"` + strings.Repeat("n", shape.MaxWord+1) + `"`, "name"},
		"a text is too long":       {`"short":""`, `"short":"` + strings.Repeat("s", 1025) + `"`, "short"},
		"a number of a fraction":   {`"places":[]`, `"places":[{"row":1.0,"col":1}]`, "places.[0].row"},
		"a number too large":       {`"places":[]`, `"places":[{"row":9007199254740992,"col":1}]`, "places.[0].row"},
		"a number beyond 64 bits":  {`"places":[]`, `"places":[{"row":99999999999999999999999,"col":1}]`, "places.[0].row"},
		"a number beyond 32 bits":  {`"places":[]`, `"places":[{"row":1,"col":2147483648}]`, "places.[0].col"},
		"a number too small":       {`"places":[]`, `"places":[{"row":0,"col":1}]`, "places.[0].row"},
		"a number below zero":      {`"places":[]`, `"places":[{"row":1,"col":-1}]`, "places.[0].col"},
		"a part is wrong":          {`"places":[]`, `"places":[{"row":1,"col":1},{"row":1}]`, "places.[1].col"},
		"parts that do not agree":  {`"places":[]`, `"places":[{"row":1,"col":101}]`, "places.[0].col"},
		"no list":                  {`"places":[]`, `"places":{}`, "places"},
		"an optional part wrong":   {`"places":[]`, `"places":[],"at":{"row":0,"col":0}`, "at.row"},
		"no flag":                  {`"places":[]`, `"places":[],"on":1`, "on"},
		"a sum without its tag":    {`{"is":"dot"}`, `{"radius":1}`, "figure.is"},
		"a sum with an empty tag":  {`{"is":"dot"}`, `{"is":""}`, "figure.is"},
		"a sum that is no object":  {`{"is":"dot"}`, `"dot"`, "figure"},
		"a member that is broken":  {`{"is":"dot"}`, `{"is":"circle"}`, "figure.radius"},
		"a sum is null":            {`{"is":"dot"}`, `null`, "figure"},
		"an element of a sum":      {`"places":[]`, `"places":[],"figures":[{"is":"dot"},{}]`, "figures.[1].is"},
		"an element that is null":  {`"places":[]`, `"places":[null]`, "places.[0]"},
		"an element of words null": {`"places":[]`, `"places":[],"classes":[null]`, "classes.[0]"},
	} {
		text := strings.Replace(least, c.from, c.to, 1)
		if text == least {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := shape.Decode[thing](parse(t, text), "test")
		rep, ok := corrupt.As(err)
		if !ok || rep.Subject != c.subject {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyAnExactReaderRefusesWhatIsNew(t *testing.T) {
	for name, c := range map[string]struct{ from, to string }{
		"a field":                 {`"raw":1`, `"raw":1,"extra":1`},
		"a field of a part":       {`"places":[]`, `"places":[{"row":1,"col":1,"depth":1}]`},
		"a field of a member":     {`{"is":"dot"}`, `{"is":"dot","radius":1}`},
		"a member":                {`{"is":"dot"}`, `{"is":"blob"}`},
		"a word":                  {`"mode":"read"`, `"mode":"levitate"`},
		"a word in a list":        {`"places":[]`, `"places":[],"classes":["read","levitate"]`},
		"a word of another case":  {`"mode":"read"`, `"mode":"Read"`},
		"a word that is no word":  {`"mode":"read"`, `"mode":""`},
		"a field of a lenient":    {`"places":[]`, `"places":[],"hint":{"row":1,"col":1,"depth":1}`},
		"a field beside the tags": {`"raw":1`, `"raw":1,"is":"dot"`},
	} {
		v := parse(t, strings.Replace(least, c.from, c.to, 1))
		if _, err := shape.Decode[thing](v, "test"); err != nil {
			t.Errorf("%s: a reader refuses it: %v", name, err)
		}
		_, err := shape.Exact[thing](v, "test")
		if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: an exact reader takes it: %v", name, err)
		}
	}
	if _, err := shape.Exact[thing](parse(t, least), "test"); err != nil {
		t.Error(err)
	}
}

func TestALenientPartIsAbsentWhenItIsMalformed(t *testing.T) {
	for _, bad := range []string{`7`, `{}`, `{"row":0,"col":0}`, `{"row":1,"col":101}`, `"x"`, `[]`} {
		got, err := shape.Decode[thing](parse(t, strings.Replace(least, `"places":[]`, `"places":[],"hint":`+bad, 1)), "test")
		if err != nil || got.Hint != nil {
			t.Errorf("%s reads as %+v, %v", bad, got.Hint, err)
		}
		if _, err := shape.Exact[thing](parse(t, strings.Replace(least, `"places":[]`, `"places":[],"hint":`+bad, 1)), "test"); err == nil {
			t.Errorf("a request with %s is taken", bad)
		}
	}
}

type recursiveTag struct {
	Is string `wire:"is"`
}

func (recursiveTag) other() {}

type other interface{ other() }

func init() {
	shape.Sum("is", func(string, jsonv.Value) other { return nil }, func(other) (jsonv.Value, bool) { return jsonv.Value{}, false },
		shape.Member[other]{Tag: "t", Zero: recursiveTag{}})
}

func TestATypeThatIsNoShapeIsFoundAtOnce(t *testing.T) {
	for name, use := range map[string]func(){
		"a field without a name":   func() { shape.Of[struct{ A string }]() },
		"a field that is not seen": func() { shape.Of[struct{ a string }]() },
		"an empty name": func() {
			shape.Of[struct {
				A string `wire:""`
			}]()
		},
		"two of one name": func() {
			shape.Of[struct {
				A, B string `wire:"a"`
			}]()
		},
		"an unknown option": func() {
			shape.Of[struct {
				A string `wire:"a,omitempty"`
			}]()
		},
		"a bound that is no number": func() {
			shape.Of[struct {
				A string `wire:"a,max=big"`
			}]()
		},
		"a bound of a flag": func() {
			shape.Of[struct {
				A bool `wire:"a,max=1K"`
			}]()
		},
		"a least text": func() {
			shape.Of[struct {
				A string `wire:"a,min=1"`
			}]()
		},
		"lenient and no pointer": func() {
			shape.Of[struct {
				A place `wire:"a,lenient"`
			}]()
		},
		"a map": func() {
			shape.Of[struct {
				A map[string]int `wire:"a"`
			}]()
		},
		"a float": func() {
			shape.Of[struct {
				A float64 `wire:"a"`
			}]()
		},
		"an interface that is no sum": func() {
			shape.Of[struct {
				A error `wire:"a"`
			}]()
		},
		"a member with the sum's tag": func() {
			shape.Of[struct {
				A other `wire:"a"`
			}]()
		},
		"a value of no member": func() {
			encoded(struct {
				A figure `wire:"a"`
			}{&circle{}})
		},
		"a channel in a list of a part": func() {
			shape.Of[[]struct {
				A []chan int `wire:"a"`
			}]()
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: nobody noticed", name)
				}
			}()
			use()
		}()
	}
}

func TestADescriptionSaysWhatTheCodecDoes(t *testing.T) {
	d := shape.Of[thing]()
	byName := map[string]shape.Field{}
	for _, f := range d.Fields {
		byName[f.Name] = f
	}
	if len(d.Fields) != 14 || d.Fields[0].Name != "name" || d.Name != "thing" {
		t.Errorf("%d fields, first %+v", len(d.Fields), d.Fields[0])
	}
	if f := byName["name"]; f.Optional || f.Desc.Min != 1 || f.Desc.Max != shape.MaxWord {
		t.Errorf("name: %+v", f.Desc)
	}
	if f := byName["short"]; f.Desc.Max != 1024 {
		t.Errorf("short: %+v", f.Desc)
	}
	if f := byName["mode"]; strings.Join(f.Desc.Words, " ") != "read write exec" || f.Desc.Name != "ToolClass" {
		t.Errorf("mode: %+v", f.Desc)
	}
	if f := byName["at"]; !f.Optional || f.Desc.Kind != shape.KindObject {
		t.Errorf("at: %+v", f)
	}
	if f := byName["figure"]; f.Desc.Kind != shape.KindSum || f.Desc.Tag != "is" || len(f.Desc.Variants) != 2 {
		t.Errorf("figure: %+v", f.Desc)
	}
}

func TestAHostileListCostsNoMoreThanItsText(t *testing.T) {
	v := parse(t, strings.Replace(least, `"places":[]`, `"places":[0`+strings.Repeat(",0", 1<<20)+`]`, 1))
	bytes := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := shape.Decode[thing](v, "test"); err == nil {
				b.Fatal("it was taken")
			}
		}
	}).AllocedBytesPerOp()
	if bytes > 64<<10 {
		t.Errorf("refusing a list cost %d bytes", bytes)
	}
}

func TestALongListIsReadWhole(t *testing.T) {
	v := parse(t, strings.Replace(least, `"places":[]`, `"places":[{"row":1,"col":1}`+strings.Repeat(`,{"row":2,"col":3}`, 1000)+`]`, 1))
	got, err := shape.Decode[thing](v, "test")
	if err != nil || len(got.Places) != 1001 || got.Places[1000].Col != 3 || got.Places[0].Row != 1 {
		t.Errorf("%d places, %v", len(got.Places), err)
	}
}

func TestDecodingIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.Just(whole), rapid.Just(least),
			rapid.StringMatching(`\{("(name|short|mode|at|places|raw|figure)":(1|"x"|null|\[\]|\{\}),?){0,4}\}`),
		).Draw(t, "text")
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		for _, read := range []func(jsonv.Value, string) (thing, error){shape.Decode[thing], shape.Exact[thing]} {
			got, err := read(v, "test")
			if err != nil {
				if _, ok := corrupt.As(err); !ok {
					t.Fatalf("%v is no report", err)
				}
				continue
			}
			again, err := read(parse(t, encoded(got)), "test")
			if err != nil || encoded(again) != encoded(got) {
				t.Fatalf("%s reads back as %s, %v", encoded(got), encoded(again), err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(whole)
	f.Add(least)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		got, err := shape.Decode[thing](v, "test")
		if err != nil {
			if _, ok := corrupt.As(err); !ok {
				t.Fatalf("%v is no report", err)
			}
			return
		}
		if again, err := shape.Decode[thing](parse(t, encoded(got)), "test"); err != nil || encoded(again) != encoded(got) {
			t.Fatalf("%s reads back as %s, %v", encoded(got), encoded(again), err)
		}
	})
}
