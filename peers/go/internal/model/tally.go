// Package model says which version each id has, and what reading must therefore give, as
// bench/src/expect.rs does. It replays plans; it never looks at an engine.
package model

import "silt-bench-go/internal/data"

// Tally is what was read, folded.
type Tally struct {
	// Sum of what the values contribute, and the keys that were shown with them, wrapping.
	Sum uint64 `json:"sum"`
	// Found counts keys that were found and entries that were walked over.
	Found uint64 `json:"found"`
	// ValueBytes are bytes of values, counted by length.
	ValueBytes uint64 `json:"value_bytes"`
}

// Add: a value was read.
func (t *Tally) Add(value []byte) {
	t.Sum += data.Fold(value)
	t.Found++
	t.ValueBytes += uint64(len(value))
}

// AddEntry: an entry was read; its key was shown, too.
func (t *Tally) AddEntry(key, value []byte) {
	t.Add(value)
	t.AddKey(key)
}

// AddKey: the key of what was read was shown.
func (t *Tally) AddKey(key []byte) {
	t.Sum += data.FoldKey(key)
}

// Expect adds what reading an id in a version, 0 for none, must give.
func (t *Tally) Expect(values data.Shape, id, version uint32) {
	if version == 0 {
		t.Miss()
		return
	}
	t.Sum += values.FoldOf(id, version)
	t.Found++
	t.ValueBytes += uint64(values.Bytes)
}

// Miss: nothing was found.
func (t *Tally) Miss() {
	t.Sum += data.Absent
}

// Merge takes in what another thread read.
func (t *Tally) Merge(other Tally) {
	t.Sum += other.Sum
	t.Found += other.Found
	t.ValueBytes += other.ValueBytes
}
