package tools

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

func TestReadShowsNumberedLines(t *testing.T) {
	r := newRig(t)
	r.put(t, "f", "one\n\ttwo\n\nfour")
	r.put(t, "crlf", "a\r\nb\r\n")
	r.put(t, "empty", "")
	for _, c := range []struct {
		args []jsonv.Member
		want string
	}{
		{[]jsonv.Member{str("path", "f")}, "f: lines 1 to 4 of 4\n1\tone\n2\t\ttwo\n3\t\n4\tfour"},
		{[]jsonv.Member{str("path", "f"), num("offset", 2), num("limit", 2)}, "f: lines 2 to 3 of 4\n2\t\ttwo\n3\t\n[1 line left; next offset 4]"},
		{[]jsonv.Member{str("path", "f"), num("offset", 4)}, "f: lines 4 to 4 of 4\n4\tfour"},
		{[]jsonv.Member{str("path", "crlf")}, "crlf: lines 1 to 2 of 2 (with CRLF line endings)\n1\ta\n2\tb"},
		{[]jsonv.Member{str("path", "empty")}, "empty is empty"},
	} {
		if got := r.ok(t, "read", c.args...); got != c.want {
			t.Errorf("%v:\n got %q\nwant %q", jsonv.Obj(c.args...), got, c.want)
		}
	}
	if text := r.refused(t, "read", str("path", "f"), num("offset", 5)); text != "offset 5 is past the end: f has 4 lines" {
		t.Error(text)
	}
}

// TestFollowingTheNextOffsetReadsTheWholeFile: the windows join without a gap,
// and none is larger than allowed.
func TestFollowingTheNextOffsetReadsTheWholeFile(t *testing.T) {
	r := newRig(t)
	next := regexp.MustCompile(`(?m)^\[\d+ lines? left; next offset (\d+)\]$`)
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Custom(func(t *rapid.T) string {
			text := rapid.StringMatching(`[a-zé€ \t]{0,20}`).Draw(t, "line")
			return strings.Repeat(text, rapid.SampledFrom([]int{1, 1, 100, 1000}).Draw(t, "times"))
		})
		lines := rapid.SliceOfN(line, 1, 60).Draw(t, "lines")
		if err := os.WriteFile(filepath.Join(r.dir, "f"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		limit := rapid.Int64Range(1, 80).Draw(t, "limit")
		var got []string
		for offset := int64(1); offset > 0; {
			out := r.registry.runReadForTest(offset, limit)
			text := textOf(out)
			if out.IsError || len(text) > TextLimit {
				t.Fatalf("offset %d: error %v, %d bytes: %.200s", offset, out.IsError, len(text), text)
			}
			_, body, _ := strings.Cut(text, "\n")
			offset = 0
			if m := next.FindStringSubmatch(body); m != nil {
				offset, _ = strconv.ParseInt(m[1], 10, 64)
				body = strings.TrimSuffix(strings.TrimSuffix(body, m[0]), "\n")
			}
			for _, l := range strings.Split(body, "\n") {
				if strings.HasPrefix(l, "[line ") {
					continue
				}
				number, rest, _ := strings.Cut(l, "\t")
				if n, _ := strconv.Atoi(number); n != len(got)+1 {
					t.Fatalf("line %q follows %d lines", number, len(got))
				}
				got = append(got, rest)
			}
		}
		if len(got) != len(lines) {
			t.Fatalf("read %d lines of %d", len(got), len(lines))
		}
		for i := range got {
			if got[i] != lines[i] && (len(lines[i]) < TextLimit/2 || !strings.HasPrefix(lines[i], got[i])) {
				t.Fatalf("line %d: %d bytes of %d", i+1, len(got[i]), len(lines[i]))
			}
		}
	})
}

// runReadForTest reads the file f without a broker, for properties that read
// thousands of windows.
func (r *Registry) runReadForTest(offset, limit int64) Outcome {
	return toolkit{room: r.room}.runRead(jsonv.Obj(str("path", "f"), num("offset", offset), num("limit", limit)))
}

func TestALineThatIsTooLongIsCutAndSaysSo(t *testing.T) {
	r := newRig(t)
	r.put(t, "min.js", strings.Repeat("é", 100_000)+"\nlast\n")
	text := r.ok(t, "read", str("path", "min.js"))
	if len(text) > TextLimit || !utf8.ValidString(text) {
		t.Errorf("%d bytes, valid %v", len(text), utf8.ValidString(text))
	}
	if !regexp.MustCompile(`\n\[line 1 has 200000 bytes, the first \d+ are shown\]\n\[1 line left; next offset 2\]$`).MatchString(text) {
		t.Errorf("ends with %q", text[len(text)-120:])
	}
}

func TestReadRefusesWhatIsNoText(t *testing.T) {
	r := newRig(t)
	r.put(t, "nul", "abc\x00def")
	r.put(t, "latin1", "caf\xe9\n")
	r.put(t, "both", "\xff\x00")
	large := r.put(t, "large", "")
	if err := os.Truncate(large, fileLimit+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nul":    `"nul" is not UTF-8 text: the byte at offset 3 is 0x00. It has 7 bytes`,
		"latin1": `"latin1" is not UTF-8 text: the byte at offset 3 is 0xe9. It has 5 bytes`,
		"both":   `"both" is not UTF-8 text: the byte at offset 0 is 0xff. It has 2 bytes`,
		"large":  `"large" has 8388609 bytes; files of at most 8388608 are read. Use grep to find the part that matters`,
	} {
		if got := r.refused(t, "read", str("path", path)); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestImagesAreShownAndBrokenOnesAreNot(t *testing.T) {
	r := newRig(t)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	r.put(t, "shot.txt", picture.String()) // known by its content, not its name
	out := r.run(t, "read", jsonv.Obj(str("path", "shot.txt")))
	if out.IsError || len(out.Content) != 2 {
		t.Fatalf("%+v", out)
	}
	if want := fmt.Sprintf("shot.txt: image/png, %d bytes, 3 x 2 pixels", picture.Len()); textOf(out) != want {
		t.Errorf("caption %q, want %q", textOf(out), want)
	}
	block, ok := out.Content[1].(message.Image)
	if !ok || block.MimeType != "image/png" {
		t.Fatalf("%T", out.Content[1])
	}
	if data, err := base64.StdEncoding.DecodeString(block.Data); err != nil || !bytes.Equal(data, picture.Bytes()) {
		t.Errorf("not the file: %v", err)
	}
	r.put(t, "webp", "RIFF\x00\x00\x00\x00WEBPVP8 ")
	if out := r.run(t, "read", jsonv.Obj(str("path", "webp"))); out.IsError || len(out.Content) != 2 {
		t.Errorf("%s", textOf(out))
	}
	r.put(t, "broken", picture.String()[:20])
	if text := r.refused(t, "read", str("path", "broken")); !strings.Contains(text, "cannot be decoded") {
		t.Error(text)
	}
	r.put(t, "heavy", picture.String()+strings.Repeat("x", imageLimit))
	if text := r.refused(t, "read", str("path", "heavy")); !strings.Contains(text, "can be shown") {
		t.Error(text)
	}
}

func TestWriteReplacesAFileWhole(t *testing.T) {
	r := newRig(t)
	if text := r.ok(t, "write", str("path", "new/dir/f"), str("content", "héllo\r\n")); text != "wrote 8 bytes to new/dir/f, a new file" {
		t.Error(text)
	}
	path := filepath.Join(r.dir, "new/dir/f")
	if got := content(t, path); got != "héllo\r\n" {
		t.Errorf("holds %q", got)
	}
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	if text := r.ok(t, "write", str("path", "new/dir/f"), str("content", "")); text != "wrote 0 bytes to new/dir/f, replacing 8" {
		t.Error(text)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 || info.Mode().Perm() != 0o751 {
		t.Errorf("%v, %v", info, err)
	}
	r.link(t, "new/dir/f", "link")
	r.ok(t, "write", str("path", "link"), str("content", "through"))
	if info, err := os.Lstat(filepath.Join(r.dir, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 || content(t, path) != "through" {
		t.Errorf("the link became %v; the file holds %q", info.Mode(), content(t, path))
	}
	r.link(t, "new/dir/later", "dangling")
	r.ok(t, "write", str("path", "dangling"), str("content", "made"))
	if got := content(t, filepath.Join(r.dir, "new/dir/later")); got != "made" {
		t.Errorf("holds %q", got)
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "new/dir"))
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestWriteRefusesAndLeavesEverythingAsItWas(t *testing.T) {
	r := newRig(t)
	r.put(t, "file", "kept")
	r.put(t, "dir/", "")
	ro := r.put(t, "ro", "kept")
	if err := os.Chmod(ro, 0o400); err != nil {
		t.Fatal(err)
	}
	before := tree(t, r.dir)
	for path, want := range map[string]string{
		"dir":    `"dir" is a folder`,
		".":      `"." is a folder`,
		"file/x": `"file/x" leads through something that is no folder`,
		"ro":     `"ro" is read-only`,
	} {
		if text := r.refused(t, "write", str("path", path), str("content", "x")); text != want {
			t.Errorf("%q: %s", path, text)
		}
	}
	if after := tree(t, r.dir); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("was %q, is %q", before, after)
	}
}

func TestEditNeedsExactlyOneMatch(t *testing.T) {
	for _, c := range []struct {
		name, file, old, new string
		all                  bool
		want, says           string // want is "" when the file must stay
	}{
		{"one match", "a b c", "b", "x", false, "a x c", "replaced 1 occurrence in f; it has 5 bytes now"},
		{"deletion", "a b c", " b", "", false, "a c", "replaced 1 occurrence in f; it has 3 bytes now"},
		{"none", "a b c", "d", "x", false, "", `f does not hold "old_text" (0 matches): it must match exactly, with its indentation; nothing was changed`},
		{"other white space", "if x {\n\treturn\n}", "if x {\n    return\n}", "y", false, "", `f does not hold "old_text" (0 matches): it must match exactly, with its indentation. It does occur with other white space; nothing was changed`},
		{"three", "b b b", "b", "x", false, "", `f holds "old_text" 3 times: give more of the text around it, or set replace_all; nothing was changed`},
		{"three, all", "b b b", "b", "x", true, "x x x", "replaced 3 occurrences in f; it has 5 bytes now"},
		{"overlapping", "aaa", "aa", "x", false, "", `f holds "old_text" 2 times: give more of the text around it, or set replace_all; nothing was changed`},
		{"CRLF kept", "a\r\nb\r\nc\r\n", "a\nb", "a\nx\ny", false, "a\r\nx\r\ny\r\nc\r\n", "replaced 1 occurrence in f; it has 12 bytes now"},
		{"CRLF given", "a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n", "replaced 1 occurrence in f; it has 6 bytes now"},
		{"mixed endings are left alone", "a\r\nb\nc\n", "b\nc", "x\ny", false, "a\r\nx\ny\n", "replaced 1 occurrence in f; it has 7 bytes now"},
		{"byte order mark kept", "\ufeffa", "a", "b", false, "\ufeffb", "replaced 1 occurrence in f; it has 4 bytes now"},
		{"no final newline", "a\nb", "b", "c", false, "a\nc", "replaced 1 occurrence in f; it has 3 bytes now"},
		{"not text", "a\xff", "a", "b", false, "", "f is not UTF-8 text: the byte at offset 1 is 0xff; nothing was changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			path := r.put(t, "f", c.file)
			out := r.run(t, "edit", jsonv.Obj(str("path", "f"), str("old_text", c.old), str("new_text", c.new), jsonv.F("replace_all", jsonv.Boolean(c.all))))
			want, fails := c.want, false
			if c.says[:8] != "replaced" {
				want, fails = c.file, true
			}
			if textOf(out) != c.says || out.IsError != fails {
				t.Errorf("says %s", textOf(out))
			}
			if got := content(t, path); got != want {
				t.Errorf("holds %q, want %q", got, want)
			}
		})
	}
	r := newRig(t)
	if text := r.refused(t, "edit", str("path", "none"), str("old_text", "a"), str("new_text", "b")); text != `"none" does not exist` {
		t.Error(text)
	}
}

func TestSpliceChangesTheMatchAndNothingElse(t *testing.T) {
	text := rapid.StringMatching(`[ab\n ]{0,30}`)
	rapid.Check(t, func(t *rapid.T) {
		file, old := text.Draw(t, "file"), rapid.StringMatching(`[ab\n ]{1,4}`).Draw(t, "old")
		replacement := text.Draw(t, "new")
		starts := 0
		for i := range file {
			if strings.HasPrefix(file[i:], old) {
				starts++
			}
		}
		after, n, fault := splice([]byte(file), old, replacement, false)
		if (fault == "") != (starts == 1) {
			t.Fatalf("%q begins %d times in %q: %s", old, starts, file, fault)
		}
		if fault != "" {
			return
		}
		at := strings.Index(file, old)
		if want := file[:at] + replacement + file[at+len(old):]; n != 1 || string(after) != want {
			t.Fatalf("got %q, want %q", after, want)
		}
	})
}

func TestAnEditThatRacesWithAnotherWriterGivesWay(t *testing.T) {
	r := newRig(t)
	path := r.put(t, "f", "old text")
	w := r.registry.room
	at, err := w.resolve("f")
	if err != nil {
		t.Fatal(err)
	}
	_, was, err := w.load(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, was.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	now, err := w.existing(at)
	if err != nil || unchanged(was, now) {
		t.Errorf("a change goes unnoticed: %v", err)
	}
	if unchanged(was, nil) || !unchanged(was, was) {
		t.Error("a removed file counts as unchanged, or an unchanged one as changed")
	}
}

func TestLsListsByName(t *testing.T) {
	r := newRig(t)
	r.put(t, "b/", "")
	r.put(t, "a.txt", "123")
	r.put(t, ".hidden", "")
	r.link(t, "a.txt", "c")
	r.put(t, "new\nline", "")
	r.put(t, "esc\x1b[31m", "")
	r.put(t, "bad\xff", "")
	if got, want := r.ok(t, "ls"), ".: 7 entries\n.hidden 0\na.txt 3\nb/\n\"bad\\xff\" 0\nc -> a.txt\n\"esc\\x1b[31m\" 0\n\"new\\nline\" 0"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := r.ok(t, "ls", num("limit", 2)), ".: 7 entries, the first 2 are listed\n.hidden 0\na.txt 3"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := r.ok(t, "ls", str("path", "b")), "b: 0 entries"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if text := r.refused(t, "ls", str("path", "a.txt")); text != `"a.txt" is a file, not a folder; use read` {
		t.Error(text)
	}
}
