// Operations to commit together. This file does not know how an engine commits them.

package engine

import "silt-bench-go/internal/data"

// pending is a write to make: version 0 deletes.
type pending struct {
	id, version uint32
}

// Batch holds operations to commit together. Keys and values are made on demand, so that an engine
// copies them only once, into its own batch.
type Batch struct {
	keys    data.KeyMaker
	values  data.ValueMaker
	pending []pending
}

// NewBatch is an empty batch with these makers of keys and values, which it owns.
func NewBatch(keys data.KeyMaker, values data.ValueMaker) *Batch {
	return &Batch{keys: keys, values: values}
}

// Push adds a put, or with version 0 a delete.
func (b *Batch) Push(id, version uint32) {
	b.pending = append(b.pending, pending{id, version})
}

// Len is the number of operations.
func (b *Batch) Len() int {
	return len(b.pending)
}

// Clear removes all operations.
func (b *Batch) Clear() {
	b.pending = b.pending[:0]
}

// At is an operation: a key and its value, which is nil for a delete. Both are valid until the next
// call.
func (b *Batch) At(index int) (key, value []byte) {
	operation := b.pending[index]
	key = b.keys.Key(operation.id)
	if operation.version == 0 {
		return key, nil
	}
	return key, b.values.Value(operation.id, operation.version)
}
