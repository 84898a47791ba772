// Plans for tests, with every step and any order; the runner's own orders do not matter here.

package pass_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"silt-bench-go/internal/job"
	"silt-bench-go/internal/pass"
	"silt-bench-go/internal/plan"
)

// steps are those of the operations that are made of them, in turn.
var steps = map[job.Op][]plan.Step{
	job.Put: {plan.Put}, job.Delete: {plan.Delete}, job.PutDelete: {plan.Delete, plan.Put},
	job.Get: {plan.Get}, job.GetMiss: {plan.Miss}, job.Seek: {plan.Seek},
	job.Range: {plan.Range}, job.Mixed: {plan.Get, plan.Put}, job.MixedInsert: {plan.Get, plan.Put},
	job.YcsbA: {plan.Get, plan.Put}, job.YcsbB: {plan.Get, plan.Get, plan.Put},
	job.YcsbC: {plan.Get}, job.YcsbD: {plan.Get, plan.Put}, job.YcsbE: {plan.Range, plan.Put},
	job.YcsbF: {plan.Get, plan.Modify}, job.TransactionPut: {plan.Put},
}

// draw draws the plan of a job.
func draw(work *job.Work) *plan.Told {
	told := &plan.Told{}
	version := uint32(1)
	for _, seed := range work.Seed {
		step := []plan.Step{plan.Put}
		if seed.Op == job.SeedDelete {
			step[0] = plan.Delete
		}
		var plans []*plan.Plan
		most := uint32(0)
		for _, thread := range plan.Threads(work.Threads) {
			own := uint32(thread.Share(uint64(work.Keys)))
			count := own * seed.Percent / 100
			one := &plan.Plan{
				IDs: shuffled(thread, own, count, version), Steps: step,
				Lengths: []uint32{1}, Batch: seed.Batch, FirstVersion: version,
			}
			if seed.Op == job.SeedDeleteRange {
				one.IDs, one.Steps = []uint32{0}, []plan.Step{plan.DeleteRange}
				one.Lengths[0] = count
			}
			most = max(most, one.NextVersion())
			plans = append(plans, one)
		}
		version = most
		told.Seeds = append(told.Seeds, plans)
	}
	for _, thread := range plan.Threads(work.Threads) {
		told.Plans = append(told.Plans, drawRun(work, thread, version))
	}
	told.Witness = pass.WitnessOf(work, told)
	return told
}

// shuffled has each own id once before any twice; fewer are the first of more.
func shuffled(thread plan.Thread, own, count, salt uint32) []uint32 {
	random := rand.New(rand.NewPCG(uint64(thread.Index), uint64(salt)))
	var ids []uint32
	for uint32(len(ids)) < count {
		for _, index := range random.Perm(int(own)) {
			ids = append(ids, uint32(index)*thread.Count+thread.Index)
		}
	}
	return ids[:count]
}

func drawRun(work *job.Work, thread plan.Thread, version uint32) *plan.Plan {
	run := &work.Run
	drawn := &plan.Plan{
		Lengths: []uint32{run.Range}, Batch: run.Batch, FirstVersion: version,
		InTransactions: run.Op == job.TransactionPut,
	}
	own := uint32(thread.Share(uint64(work.Keys)))
	count := uint32(thread.Share(run.Ops))
	inTurn, isMade := steps[run.Op]
	switch {
	case run.Op == job.Open && thread.Index == 0:
		drawn.IDs = shuffled(plan.Thread{Count: 1}, work.Keys, uint32(run.Ops), version)
	case run.Op == job.RangeDelete:
		for _, slot := range shuffled(thread, work.Keys/run.Range/thread.Count, count, version) {
			drawn.IDs = append(drawn.IDs, slot*run.Range)
		}
	case isMade && run.Op == job.Delete:
		drawn.IDs = shuffled(thread, own, min(own, count), version)
	case isMade:
		drawn.IDs = shuffled(thread, own, count, version)
	}
	for index := range drawn.IDs {
		if !isMade {
			break
		}
		step := inTurn[index%len(inTurn)]
		drawn.Steps = append(drawn.Steps, step)
		switch {
		case run.Op.Inserts() && step == plan.Put:
			drawn.IDs[index] = own*thread.Count + thread.Index
			own++
		case run.Op == job.YcsbE:
			// The longest range ends before what is inserted.
			drawn.IDs[index] %= work.Keys - 100
		}
	}
	if run.Op == job.YcsbE {
		drawn.Lengths = nil
		for index := range drawn.IDs {
			drawn.Lengths = append(drawn.Lengths, uint32(1+index%100))
		}
	}
	return drawn
}

// written are the bytes of a plan, as bench/src/told.rs writes them.
func written(told *plan.Told) *bytes.Buffer {
	out := &bytes.Buffer{}
	write := func(what any) { _ = binary.Write(out, binary.LittleEndian, what) }
	for _, plans := range append(told.Seeds, told.Plans) {
		for _, one := range plans {
			commit := uint32(0)
			if one.InTransactions {
				commit = 2
			}
			counts := []int{len(one.IDs), len(one.Steps), len(one.Lengths)}
			write([]uint32{uint32(counts[0]), one.FirstVersion, one.Batch, commit})
			write([]uint32{uint32(counts[1]), uint32(counts[2])})
			write(one.IDs)
			write(one.Steps)
			write(one.Lengths)
		}
	}
	write(told.Witness)
	return out
}
