// Package plan draws the operations of each thread, step by step, before any clock starts, as
// bench/src/plan.rs does. A thread writes and gets only ids of its own (t modulo T), so that
// replaying its plan alone gives the version of every value. It does not use an engine.
package plan

import (
	"silt-bench-go/internal/data"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/order"
)

// ycsbRangeMax is the longest range of YCSB E.
const ycsbRangeMax = 100

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
)

// Plan is the operations of one thread in one phase.
type Plan struct {
	// IDs has one id for each operation.
	IDs []uint32
	// each holds the steps if they differ; otherwise all are of the same kind.
	each []Step
	all  Step
	// rangeFixed is the length of ranges; rangeUpTo, unless 0, makes them 1 to this.
	rangeFixed uint32
	rangeUpTo  uint32
	// Batch is the number of writes of a commit.
	Batch uint32
	// InTransactions: a commit is one of a transaction, not of a plain batch.
	InTransactions bool
	// FirstVersion is the version that the first operation writes; each later one is higher by one.
	FirstVersion uint32
}

// Step is the operation at an index.
func (p *Plan) Step(index int) Step {
	if p.each != nil {
		return p.each[index]
	}
	return p.all
}

// Version is the version that the operation at an index writes.
func (p *Plan) Version(index int) uint32 {
	return p.FirstVersion + uint32(index)
}

// Range is the largest number of entries that the range at an index reads.
func (p *Plan) Range(index int) uint64 {
	if p.rangeUpTo > 0 {
		return 1 + data.Splitmix64(uint64(index))%uint64(p.rangeUpTo)
	}
	return uint64(p.rangeFixed)
}

// Truncate removes all operations but the first done.
func (p *Plan) Truncate(done int) {
	p.IDs = p.IDs[:min(done, len(p.IDs))]
	if p.each != nil {
		p.each = p.each[:min(done, len(p.each))]
	}
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
		case Delete:
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

// ID is its own id at an index.
func (t Thread) ID(own uint32) uint32 {
	return own*t.Count + t.Index
}

// Seed is a seed phase of one thread.
func Seed(work *job.Work, seed *job.Seed, thread Thread, firstVersion uint32) *Plan {
	own := thread.Share(uint64(work.Keys))
	count := own * uint64(seed.Percent) / 100
	salt := uint64(thread.Index) ^ 0x5eed
	step := Put
	if seed.Op == job.SeedDelete {
		step = Delete
	}
	return &Plan{
		IDs:          ownIDs(thread, order.Draw(seed.Order, uint32(own), count, salt)),
		all:          step,
		rangeFixed:   1,
		Batch:        seed.Batch,
		FirstVersion: firstVersion,
	}
}

// Run is the measured phase of one thread, for operations that are made of steps.
func Run(work *job.Work, thread Thread, firstVersion uint32) *Plan {
	run := &work.Run
	count := thread.Share(run.Ops)
	salt := uint64(thread.Index) ^ 0x00d0_17e5
	plan := &Plan{rangeFixed: run.Range, Batch: run.Batch, FirstVersion: firstVersion}
	plan.InTransactions = run.Op == job.TransactionPut
	if run.Op == job.YcsbE {
		plan.rangeUpTo = ycsbRangeMax
	}
	plan.drawSteps(run, count, salt)
	own := thread.Share(uint64(work.Keys))
	switch run.Op {
	case job.YcsbD, job.YcsbE, job.MixedInsert:
		plan.IDs = inserting(work, thread, plan.each, salt)
	case job.Delete:
		// A deleted key is not deleted again.
		plan.IDs = ownIDs(thread, order.Draw(run.Order, uint32(own), min(count, own), salt))
	case job.Scan, job.ScanReverse, job.Queue, job.RangeDelete, job.Open, job.Compact,
		job.Increment, job.RangeIncrement, job.Transfer, job.InsertAbsent:
	case job.Seek, job.Range:
		plan.IDs = order.Draw(run.Order, work.Keys, count, salt)
	default:
		plan.IDs = ownIDs(thread, order.Draw(run.Order, uint32(own), count, salt))
	}
	return plan
}

func ownIDs(thread Thread, own []uint32) []uint32 {
	for index, id := range own {
		own[index] = thread.ID(id)
	}
	return own
}

// drawSteps interleaves as the workload says, from a random stream of its own.
func (p *Plan) drawSteps(run *job.Run, count, salt uint64) {
	var first, second Step
	percent := uint32(50)
	switch run.Op {
	case job.Mixed, job.MixedInsert:
		first, percent, second = Get, run.ReadsPercent, Put
	case job.PutDelete:
		first, second = Delete, Put
	case job.YcsbA:
		first, second = Get, Put
	case job.YcsbB, job.YcsbD:
		first, percent, second = Get, 95, Put
	case job.YcsbE:
		first, percent, second = Range, 95, Put
	case job.YcsbF:
		first, second = Get, Modify
	default:
		p.all = alike(run.Op)
		return
	}
	share := float64(percent) / 100
	stream := salt ^ 1<<32
	p.each = make([]Step, count)
	for i := range count {
		p.each[i] = second
		if order.Uniform(stream, i) < share {
			p.each[i] = first
		}
	}
}

// alike is the step of operations whose steps are all the same; the others have no plan.
func alike(op job.Op) Step {
	switch op {
	case job.Delete:
		return Delete
	case job.Get, job.YcsbC:
		return Get
	case job.GetMiss:
		return Miss
	case job.Seek:
		return Seek
	case job.Range:
		return Range
	}
	return Put
}

// inserting draws ids. Puts take new ids; gets read any present id, in YCSB D mostly the latest;
// ranges stay within the seeded ids.
func inserting(work *job.Work, thread Thread, steps []Step, salt uint64) []uint32 {
	own := uint32(thread.Share(uint64(work.Keys)))
	rangeStarts := uint32(1)
	if work.Keys > ycsbRangeMax {
		rangeStarts = work.Keys - ycsbRangeMax
	}
	latest := order.NewZipf(max(own, 1))
	ranges := order.Draw(job.Zipfian, rangeStarts, uint64(len(steps)), salt)
	next := own
	ids := make([]uint32, len(steps))
	for index, step := range steps {
		switch step {
		case Range:
			ids[index] = ranges[index]
		case Put:
			next++
			ids[index] = thread.ID(next - 1)
		default:
			number := order.Uniform(salt, uint64(index))
			back := uint32(number * float64(next))
			if work.Run.Op == job.YcsbD {
				back = latest.Rank(number)
			}
			ids[index] = thread.ID(next - 1 - min(back, next-1))
		}
	}
	return ids
}
