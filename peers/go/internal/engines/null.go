package engines

import (
	"time"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

// Null does nothing: its figures are the cost of the benchmark itself, on Go. It accepts every
// write, stores nothing, and always returns the same entry.
var Null = engine.Kind{
	ID: "go-null",
	Facts: func(*job.Config) job.Facts {
		const options = "does nothing: measures the benchmark itself"
		return job.Facts{Version: "1", Class: job.ClassMemory, Options: options}
	},
	Open: func(_ string, config *job.Config) (engine.Engine, error) {
		return null{config.EntriesMax}, nil
	},
	MeasuresHarness: true,
}

type null struct {
	entries uint64
}

func (n null) Session() (engine.Session, error) {
	return &nullSession{entries: n.entries, key: make([]byte, 8), value: make([]byte, 100)}, nil
}

func (null) Settle() (time.Time, error) { return time.Now(), nil }
func (null) Compact() error             { return nil }
func (null) Close() error               { return nil }

type nullSession struct {
	entries    uint64
	key, value []byte
}

func (*nullSession) Put(_, _ []byte) error         { return nil }
func (*nullSession) Delete(_ []byte) error         { return nil }
func (*nullSession) DeleteRange(_, _ []byte) error { return nil }
func (*nullSession) SelectFamily(uint32) error     { return nil }
func (*nullSession) Refresh() error                { return nil }
func (*nullSession) Close() error                  { return nil }

func (*nullSession) Write(batch *engine.Batch) error {
	for index := range batch.Len() {
		batch.At(index)
	}
	return nil
}

// Transact: each counter that it reads is there.
func (s *nullSession) Transact(body func(engine.Transaction) error) error {
	return body((*nullTransaction)(s))
}

type nullTransaction nullSession

// nullVersion is that of all counters.
const nullVersion = 2

func (t *nullTransaction) Get(key []byte, seen func([]byte)) (bool, error) {
	data.WriteMark(t.value, data.IDOfSparse(key), nullVersion)
	seen(t.value)
	return true, nil
}

func (t *nullTransaction) Scan(from, to []byte, seen func(_, _ []byte)) (uint64, error) {
	keys := data.NewKeyMaker(data.Sparse, uint32(len(from)))
	first, end := data.IDOfSparse(from), data.IDOfSparse(to)
	for id := first; id < end; id++ {
		data.WriteMark(t.value, id, nullVersion)
		seen(keys.Key(id), t.value)
	}
	return uint64(end - first), nil
}

func (*nullTransaction) Put(_, _ []byte) error { return nil }

func (s *nullSession) Get(_ []byte, seen func([]byte)) (bool, error) {
	seen(s.value)
	return true, nil
}

func (s *nullSession) Seek(key []byte, seen func(_, _ []byte)) (bool, error) {
	seen(key, s.value)
	return true, nil
}

func (s *nullSession) Scan(
	_ []byte, limit uint64, _ engine.Direction, seen func(_, _ []byte),
) (uint64, error) {
	count := min(limit, s.entries)
	for range count {
		seen(s.key, s.value)
	}
	return count, nil
}
