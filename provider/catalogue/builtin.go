package catalogue

import (
	_ "embed"
	"regexp"
	"sync"
	"time"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider/price"
)

//go:embed models.json
var modelsJSON []byte

// vendor is a provider of models that is known without a file.
type vendor struct {
	name     string
	dialect  config.Dialect
	base     string // its own address
	key      string // the variable that holds its key
	baseName string // the variable that names another address
	standard string // the name of its default model
	models   []fact
}

// fact is what is known of a model.
type fact struct {
	name           string
	window, output int64
	price          *price.Card // with its source and date, or nil
}

// vendors is the built-in list, read at its first use. It cannot fail: a test reads the same bytes. The order is that in which the default is chosen.
var vendors = sync.OnceValue(func() []vendor {
	list, err := readVendors(modelsJSON)
	if err != nil {
		panic("catalogue: the embedded list: " + err.Error())
	}
	return list
})

func readVendors(raw []byte) ([]vendor, error) {
	v, err := jsonv.Parse(raw)
	if err != nil {
		return nil, err
	}
	r := jsonv.Read(v, "catalogue.readVendors")
	r.Exact("vendors")
	return jsonv.Each(r, "vendors", readVendor), r.Err()
}

func readVendor(v jsonv.Value) (vendor, error) {
	r := jsonv.Read(v, "catalogue.readVendor")
	r.Exact("name", "dialect", "base", "key", "base_variable", "default", "models")
	return vendor{
		name: r.Str("name"), dialect: config.Dialect(r.Str("dialect")), base: r.Str("base"), key: r.Str("key"), baseName: r.Str("base_variable"),
		standard: r.Str("default"), models: jsonv.Each(r, "models", readFact),
	}, r.Err()
}

func readFact(v jsonv.Value) (fact, error) {
	r := jsonv.Read(v, "catalogue.readFact")
	r.Exact("name", "context_window", "max_output_tokens", "price")
	f := fact{name: r.Str("name"), window: r.Num("context_window"), output: r.Num("max_output_tokens"), price: jsonv.OptOne(r, "price", readPrice)}
	if r.Err() == nil && (f.window <= 0 || f.output <= 0) {
		r.Fail("context_window", "positive numbers of tokens", v)
	}
	return f, r.Err()
}

// readPrice reads a price, which is one only where it says where it stands and when it was read there.
func readPrice(v jsonv.Value) (price.Card, error) {
	r := jsonv.Read(v, "catalogue.readPrice")
	r.Exact("input", "output", "cache_read", "cache_write", "cache_write_1h", "source", "date")
	amount := func(name string) *usage.Amount {
		n := r.Maybe(name)
		if n == nil {
			return nil
		}
		a, ok := usage.ParseAmount(*n)
		if !ok || a.Sign() < 0 {
			r.Fail(name, "US dollars for a million tokens", *n)
		}
		return &a
	}
	c := price.Card{
		Rates:  price.Rates{CacheRead: amount("cache_read"), CacheWrite: amount("cache_write"), CacheWrite1h: amount("cache_write_1h")},
		Source: r.Str("source"), Date: r.Str("date"),
	}
	input, output := amount("input"), amount("output")
	if input == nil || output == nil || c.Source == "" || !isDate(c.Date) {
		r.Fail("price", "input, output, a source and the date on which it was read", v)
		return c, r.Err()
	}
	c.Rates.Input, c.Rates.Output = *input, *output
	return c, r.Err()
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// versioned is how providers name a fixed version of a model.
var versioned = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8})$`) })

// fact is what the list knows about an id, or about the model that it is a dated version of.
func (v vendor) fact(id string) (fact, bool) {
	named := versioned().ReplaceAllString(id, "")
	for _, f := range v.models {
		if f.name == id || f.name == named {
			return f, true
		}
	}
	return fact{}, false
}

func vendorNamed(name string) (vendor, bool) {
	for _, v := range vendors() {
		if v.name == name {
			return v, true
		}
	}
	return vendor{}, false
}

// listed finds the vendor of a model of the list.
func listed(name string) (vendor, bool) {
	for _, v := range vendors() {
		for _, f := range v.models {
			if f.name == name {
				return v, true
			}
		}
	}
	return vendor{}, false
}
