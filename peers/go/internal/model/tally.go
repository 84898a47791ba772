// Package model has the version of each id, and the results that reads must therefore have, as
// bench/src/expect.rs does. It replays plans and never reads an engine.
package model

import "silt-bench-go/internal/data"

// Tally is the sum of what was read.
type Tally struct {
	// Sum is the sum of the contributions of the values and of the keys shown with them, wrapping.
	Sum uint64
	// Found is the number of keys found and entries scanned.
	Found uint64
	// ValueBytes are bytes of values, counted by length.
	ValueBytes uint64
}

// Add adds a value that was read.
func (t *Tally) Add(value []byte) {
	t.Sum += data.Fold(value)
	t.Found++
	t.ValueBytes += uint64(len(value))
}

// AddEntry adds an entry of which the key was read too.
func (t *Tally) AddEntry(key, value []byte) {
	t.Add(value)
	t.AddKey(key)
}

// AddKey adds a key that was read.
func (t *Tally) AddKey(key []byte) {
	t.Sum += data.FoldKey(key)
}

// Expect adds the expected result of reading an id in a version; 0 stands for an absent one.
func (t *Tally) Expect(values data.Shape, id, version uint32) {
	if version == 0 {
		t.Miss()
		return
	}
	t.Sum += values.FoldOf(id, version)
	t.Found++
	t.ValueBytes += uint64(values.Bytes)
}

// Miss adds a read that found nothing.
func (t *Tally) Miss() {
	t.Sum += data.Absent
}

// Merge adds the reads of another thread.
func (t *Tally) Merge(other Tally) {
	t.Sum += other.Sum
	t.Found += other.Found
	t.ValueBytes += other.ValueBytes
}
