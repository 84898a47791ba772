// Package plan has the operations of each thread, step by step, as the runner tells them before any
// clock starts; bench/src/plan.rs draws them. A thread writes and gets only ids of its own (t modulo
// T), so that replaying its plan alone gives the version of every value. It does not use an engine.
package plan

// Step is one operation.
type Step uint8

// The steps, in the order of bench/src/plan.rs.
const (
	Put Step = iota
	Delete
	Get
	Miss
	Seek
	Range
	Modify
	DeleteRange
	// unknown is the first that this program does not know.
	unknown
)

// Plan is the operations of one thread in one phase.
type Plan struct {
	// IDs has one id for each operation.
	IDs []uint32
	// Steps has the step of each operation, or the one of all.
	Steps []Step
	// Lengths has the number of entries that each range reads at most, or of ids that it deletes; or
	// the one of all.
	Lengths []uint32
	// Batch is the number of writes of a commit.
	Batch uint32
	// InTransactions: a commit is one of a transaction, not of a plain batch.
	InTransactions bool
	// FirstVersion is the version that the first operation writes; each later one is higher by one.
	FirstVersion uint32
}

// Step is the operation at an index.
func (p *Plan) Step(index int) Step {
	if len(p.Steps) == 1 {
		return p.Steps[0]
	}
	return p.Steps[index]
}

// Version is the version that the operation at an index writes.
func (p *Plan) Version(index int) uint32 {
	return p.FirstVersion + uint32(index)
}

// Range is the length of the range at an index.
func (p *Plan) Range(index int) uint64 {
	if len(p.Lengths) == 1 {
		return uint64(p.Lengths[0])
	}
	return uint64(p.Lengths[index])
}

// Truncate removes all operations but the first done.
func (p *Plan) Truncate(done int) {
	p.IDs = p.IDs[:min(done, len(p.IDs))]
}

// Again is the same operations again, with later versions.
func (p *Plan) Again() *Plan {
	again := *p
	again.FirstVersion = p.NextVersion()
	return &again
}

// Writes is the number of puts and the number of deletes.
func (p *Plan) Writes() (puts, deletes uint64) {
	for index := range p.IDs {
		switch p.Step(index) {
		case Put, Modify:
			puts++
		case Delete, DeleteRange:
			deletes++
		}
	}
	return puts, deletes
}

// NextVersion is the first version of the phase after this one.
func (p *Plan) NextVersion() uint32 {
	return p.FirstVersion + uint32(len(p.IDs))
}

// Thread is one of several threads, counted from 0.
type Thread struct {
	Index, Count uint32
}

// Threads are count threads.
func Threads(count uint32) []Thread {
	threads := make([]Thread, count)
	for index := range threads {
		threads[index] = Thread{Index: uint32(index), Count: count}
	}
	return threads
}

// Share is the number of its own ids below ids.
func (t Thread) Share(ids uint64) uint64 {
	return (ids + uint64(t.Count) - 1 - uint64(t.Index)) / uint64(t.Count)
}
