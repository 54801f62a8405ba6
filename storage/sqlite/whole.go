package sqlite

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/loom-run/loom/core/corrupt"
)

// whole refuses a session file that was cut. SQLite rounds the size up to pages and
// takes what is missing of the last one for zeros, so it would read, and write over,
// rows that are gone.
//
// It runs inside the transaction that is open, so that the state it asks about stays
// put. That state has page_count pages. Either the log holds nothing that the file
// lacks: then each page is in the file, because a checkpoint ends by giving the file
// its full size before the log is given up. Or there are pages that only the log
// holds (of a live writer, or of one that died before or during a checkpoint): then
// the file may rightly end early, also within a page, where the log has the pages
// from there on; and while this transaction lasts the log is not written anew.
//
// The size is asked of the system and never by opening the file, which could drop
// locks; the log carries none.
func whole(c *conn) error {
	var pages, pageSize int64
	for text, into := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA page_size": &pageSize} {
		if err := c.Once(text, func(r row) { *into = read(r, text).num() }); err != nil {
			return err
		}
	}
	file, err := os.Stat(c.Path())
	if err != nil {
		return err
	}
	if file.Size() >= pages*pageSize {
		return nil
	}
	logged, err := loggedPages(c.Path()+"-wal", pageSize)
	if err != nil {
		return err
	}
	if n := missingPage(file.Size()/pageSize+1, pages, pageSize, logged); n != 0 {
		return damagedSession(corrupt.New("sqlite.whole", "session file", fmt.Sprintf("%d bytes", pages*pageSize),
			fmt.Sprintf("%d bytes, and page %d nowhere else: the file was cut", file.Size(), n)))
	}
	return nil
}

// missingPage is the first page from the first to the last that is not in the log,
// or 0. The page at 1 GiB holds SQLite's locks and is never written.
func missingPage(first, last, pageSize int64, logged map[int64]bool) int64 {
	for n := first; n <= last; n++ {
		if !logged[n] && n != 1<<30/pageSize+1 {
			return n
		}
	}
	return 0
}

// Sizes in bytes and the magic number of a log: see the file format of SQLite.
const (
	logHeaderSize   = 32
	frameHeaderSize = 24
	logMagic        = 0x377f0682 // the low bit: checksums are over big-endian words
)

// loggedPages lists the pages in the committed frames of a log. A log that is not
// there, or whose header is not one, has none.
func loggedPages(path string, pageSize int64) (map[int64]bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return committedPages(bufio.NewReaderSize(f, 1<<16), pageSize)
}

// committedPages reads a log up to its first frame that is torn or of an earlier
// round, as recovery does.
func committedPages(log io.Reader, pageSize int64) (map[int64]bool, error) {
	header := make([]byte, logHeaderSize)
	if _, err := io.ReadFull(log, header); err != nil {
		return nil, atEnd(err)
	}
	word := func(b []byte, n int) uint32 { return binary.BigEndian.Uint32(b[4*n:]) }
	sum := logSum{order: binary.LittleEndian}
	if word(header, 0)&1 == 1 {
		sum.order = binary.BigEndian
	}
	sum.add(header[:24])
	if word(header, 0)&^1 != logMagic || int64(word(header, 2)) != pageSize || !sum.is(word(header, 6), word(header, 7)) {
		return nil, nil
	}
	var open []int64 // of the transaction that has not ended yet
	committed := make(map[int64]bool)
	frame := make([]byte, frameHeaderSize+pageSize)
	for {
		if _, err := io.ReadFull(log, frame); err != nil {
			return committed, atEnd(err)
		}
		sum.add(frame[:8])
		sum.add(frame[frameHeaderSize:])
		if word(frame, 2) != word(header, 4) || word(frame, 3) != word(header, 5) || !sum.is(word(frame, 4), word(frame, 5)) {
			return committed, nil
		}
		open = append(open, int64(word(frame, 0)))
		if word(frame, 1) != 0 { // the size after a commit
			for _, n := range open {
				committed[n] = true
			}
			open = open[:0]
		}
	}
}

func atEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// logSum is the running checksum of a log.
type logSum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

// add takes a multiple of 8 bytes.
func (s *logSum) add(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		s.s0 += s.order.Uint32(b) + s.s1
		s.s1 += s.order.Uint32(b[4:]) + s.s0
	}
}

func (s *logSum) is(s0, s1 uint32) bool { return s.s0 == s0 && s.s1 == s1 }
