package catalogue

import (
	"strings"
	"testing"

	"github.com/loom-run/loom/config"
)

func TestTheListIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vendors() {
		if _, ok := v.fact(v.standard); !ok || v.key == "" || v.base == "" || v.baseName == "" {
			t.Errorf("the vendor %s: %+v", v.name, v)
		}
		known := false
		for _, d := range config.Dialects() {
			known = known || d == v.dialect
		}
		if !known || vendorTwice(v.name) {
			t.Errorf("the vendor %s has the dialect %s", v.name, v.dialect)
		}
		for _, f := range v.models {
			if seen[f.name] || f.output > f.window {
				t.Errorf("%+v is there twice, or cannot be", f)
			}
			seen[f.name] = true
		}
	}
	if len(seen) == 0 {
		t.Error("the list is empty")
	}
}

func vendorTwice(name string) bool {
	n := 0
	for _, v := range vendors() {
		if v.name == name {
			n++
		}
	}
	return n != 1
}

func TestAPriceOfTheListSaysWhereItStands(t *testing.T) {
	list := func(price string) string {
		return `{"vendors":[{"name":"v","dialect":"openai","base":"https://h","key":"K","base_variable":"B","default":"m","models":[{"name":"m","context_window":2,"max_output_tokens":1,"price":` + price + `}]}]}`
	}
	got, err := readVendors([]byte(list(`{"input":1.25,"output":10,"cache_read":0.125,"source":"https://h/prices","date":"2026-11-30"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if card := got[0].models[0].price; card == nil || card.Source != "https://h/prices" || card.Rates.Input.Literal() != "1.25" {
		t.Errorf("%+v", card)
	}
	for _, price := range []string{
		`{"input":1,"output":1}`, `{"input":1,"output":1,"source":"https://h","date":"yesterday"}`, `{"input":1,"output":1,"source":"","date":"2026-11-30"}`,
		`{"input":1,"source":"https://h","date":"2026-11-30"}`, `{"input":-1,"output":1,"source":"https://h","date":"2026-11-30"}`, `{"input":1,"output":1,"source":"https://h","date":"2026-11-30","free":true}`,
	} {
		if _, err := readVendors([]byte(list(price))); err == nil || !strings.Contains(err.Error(), "vendors[0]") {
			t.Errorf("%s: %v", price, err)
		}
	}
}
