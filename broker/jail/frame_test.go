package jail

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrdersAndReportsReadBackAsWritten(t *testing.T) {
	bytesText := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
	rapid.Check(t, func(t *rapid.T) {
		want := order{
			path: bytesText.Draw(t, "path"), dir: bytesText.Draw(t, "dir"),
			grace: time.Duration(rapid.Int64Min(0).Draw(t, "grace")),
			args:  rapid.SliceOfN(bytesText, 1, 5).Draw(t, "args"),
			env:   rapid.SliceOfN(bytesText, 1, 5).Draw(t, "env"),
		}
		fields, err := readFrame(bytes.NewReader(want.frame()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeOrder(fields)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(order{})); d != "" {
			t.Fatal(d)
		}
	})
	for _, want := range []report{&started{}, &failed{NoDirectory, "text\x00\xff"}, &exited{code: 3}, &exited{signal: 9, interrupted: true, swept: 4, left: 1}} {
		fields, err := readFrame(bytes.NewReader(reportFrame(want)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeReport(fields); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("wrote %#v, read %#v, %v", want, got, err)
		}
	}
}

func TestACutFrameIsNeverAWholeOne(t *testing.T) {
	whole := appendFrame(nil, "started")
	for n := range whole {
		_, err := readFrame(bytes.NewReader(whole[:n]))
		if err == nil || n == 0 && !errors.Is(err, io.EOF) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, "started"))
	f.Add(reportFrame(&exited{code: 1}))
	f.Add(order{path: "/bin/sh", dir: "/", args: []string{"sh"}, env: []string{"A=b"}}.frame())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		fields, err := readFrame(bytes.NewReader(in))
		if err != nil {
			return
		}
		if again := appendFrame(nil, fields...); !bytes.Equal(again, in[:len(again)]) {
			t.Errorf("%x reads as %q, which writes %x", in, fields, again)
		}
		if o, err := decodeOrder(fields); err == nil {
			back, err := decodeOrder(mustRead(t, o.frame()))
			if err != nil || !slices.Equal(back.args, o.args) {
				t.Errorf("order %+v reads back as %+v, %v", o, back, err)
			}
		}
		if r, err := decodeReport(fields); err == nil {
			if back, err := decodeReport(mustRead(t, reportFrame(r))); err != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("report %+v reads back as %+v, %v", r, back, err)
			}
		}
	})
}

func mustRead(t *testing.T, frame []byte) []string {
	t.Helper()
	fields, err := readFrame(bytes.NewReader(frame))
	if err != nil {
		t.Fatal(err)
	}
	return fields
}
