package sqlite

import "github.com/loom-run/loom/core/entry"

// inBatch is how many rows are handed over at once: a scan of fewer decodes them itself.
const inBatch = 64

// decoder decodes the rows of a scan beside the connection that reads the next ones: a conversation that is resumed is read whole, and half of that is
// decoding. Entries and the first error are those that decoding each row at once would give.
type decoder struct {
	batch []undecoded
	queue chan []undecoded // nil until a batch is full
	done  chan struct{}    // closed when nothing more is decoded
	list  []entry.Entry
	err   error
}

// add takes a row. False: a row before it cannot be decoded, and no more are wanted.
func (d *decoder) add(u undecoded) bool {
	if d.batch = append(d.batch, u); len(d.batch) < inBatch {
		return true
	}
	if d.queue == nil {
		d.queue, d.done = make(chan []undecoded, 4), make(chan struct{})
		go d.run()
	}
	full := d.batch
	d.batch = make([]undecoded, 0, inBatch)
	select {
	case d.queue <- full:
		return true
	case <-d.done:
		return false
	}
}

// run decodes batches until there are no more, or a row cannot be decoded.
func (d *decoder) run() {
	defer close(d.done)
	for batch := range d.queue {
		if !d.decode(batch) {
			return
		}
	}
}

func (d *decoder) decode(batch []undecoded) bool {
	for _, u := range batch {
		var e entry.Entry
		if e, d.err = u.decode(); d.err != nil {
			return false
		}
		d.list = append(d.list, e)
	}
	return true
}

// finish waits for the rows that were added. An error of theirs comes before the one that ended the scan.
func (d *decoder) finish(scan error) ([]entry.Entry, error) {
	if d.queue != nil {
		close(d.queue)
		<-d.done
	}
	if d.err == nil {
		d.decode(d.batch)
	}
	if d.err == nil {
		d.err = scan
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.list, nil
}
