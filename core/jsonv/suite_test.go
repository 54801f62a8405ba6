package jsonv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/internal/cases"
)

// Rules of ours that are stricter than the conformance suite: it accepts these.
var stricter = map[string]string{
	"y_object_duplicated_key.json":           "a name twice",
	"y_object_duplicated_key_and_value.json": "a name twice",
}

// What the suite leaves to each parser. What is accepted is written as the text given here; "" is a refusal.
var undefined = map[string]string{
	"i_number_double_huge_neg_exp.json":                "[123.456e-789]", // it underflows to 0 as a double and keeps its literal
	"i_number_huge_exp.json":                           "",
	"i_number_pos_double_huge_exp.json":                "",
	"i_number_too_big_neg_int.json":                    "[-123123123123123123123123123123]",
	"i_object_key_lone_2nd_surrogate.json":             "",
	"i_string_1st_valid_surrogate_2nd_invalid.json":    "",
	"i_string_UTF-16LE_with_BOM.json":                  "",
	"i_string_UTF-8_invalid_sequence.json":             "",
	"i_string_UTF8_surrogate_U+D800.json":              "",
	"i_string_incomplete_surrogate_pair.json":          "",
	"i_string_incomplete_surrogates_escape_valid.json": "",
	"i_string_invalid_utf-8.json":                      "",
	"i_string_inverted_surrogates_U+1D11E.json":        "",
	"i_string_iso_latin_1.json":                        "",
	"i_string_lone_second_surrogate.json":              "",
	"i_string_not_in_unicode_range.json":               "",
	"i_string_overlong_sequence_6_bytes.json":          "",
	"i_structure_500_nested_arrays.json":               "",
}

// What becomes of texts that parsers are known to transform.
var transforms = map[string]string{
	"number_-9223372036854775808.json":         "[-9223372036854775808]",
	"number_-9223372036854775809.json":         "[-9223372036854775809]",
	"number_1.0.json":                          "[1.0]",
	"number_1.000000000000000005.json":         "[1.000000000000000005]",
	"object_key_nfc_nfd.json":                  "{\"\u00e9\":\"NFC\",\"e\u0301\":\"NFD\"}",
	"object_same_key_same_value.json":          "",
	"object_same_key_unclear_values.json":      "",
	"string_2_invalid_codepoints.json":         "",
	"string_3_escaped_invalid_codepoints.json": "",
	"string_3_invalid_codepoints.json":         "",
	"string_with_escaped_NULL.json":            `["A\u0000B"]`,
}

// suite calls check for each file of one folder of the suite.
func suite(t *testing.T, folder string, check func(t *testing.T, name string, text []byte)) {
	files, err := filepath.Glob(filepath.Join(cases.Dir(t), "json", folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the cases have no json/%s: %v", folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) { check(t, filepath.Base(file), text) })
	}
}

// pinned demands the one outcome that is written down, "" for a refusal.
func pinned(t *testing.T, table map[string]string, name string, text []byte) {
	want, known := table[name]
	if !known {
		t.Fatal("nobody decided what becomes of this text")
	}
	v, err := jsonv.Parse(text)
	if err != nil {
		refused(t, err)
	}
	if accepted := want != ""; accepted != (err == nil) || accepted && v.String() != want {
		t.Errorf("%.80q reads as %s, %v; want %q", text, v, err, want)
	}
}

func TestConformanceSuite(t *testing.T) {
	suite(t, "test_parsing", func(t *testing.T, name string, text []byte) {
		agree(t, text)
		_, err := jsonv.Parse(text)
		switch _, ours := stricter[name]; {
		case strings.HasPrefix(name, "i_"):
			pinned(t, undefined, name, text)
		case strings.HasPrefix(name, "y_") && !ours:
			if err != nil {
				t.Error(err)
			}
		case err == nil:
			t.Errorf("%.80q was accepted", text)
		}
	})
}

func TestConformanceTransforms(t *testing.T) {
	suite(t, "test_transform", func(t *testing.T, name string, text []byte) { pinned(t, transforms, name, text) })
}
