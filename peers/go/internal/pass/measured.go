// The measured phase, with or without clocks, and its results.

package pass

import (
	"fmt"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

// ran is a measured phase.
type ran struct {
	// outcomes has the outcome of each thread.
	outcomes []outcome
	// seconds is the duration.
	seconds float64
	paced   measure.Seconds
}

// total is the sum of all threads' reads.
func (r *ran) total() model.Tally {
	var total model.Tally
	for _, one := range r.outcomes {
		total.Merge(one.tally)
	}
	return total
}

// done are operations done by all threads.
func (r *ran) done() uint64 {
	done := uint64(0)
	for _, one := range r.outcomes {
		done += one.done
	}
	return done
}

// noClocks are the clocks of the throughput pass.
func (c *course) noClocks() []*measure.Clock {
	return make([]*measure.Clock, c.job.Work.Threads)
}

// measured does the measured phase, with a clock for each thread. For a cold row the opening of the
// database counts as time, but not as a call.
func (c *course) measured(place *place, phase string, clocks []*measure.Clock) (*ran, error) {
	if c.job.Work.State != job.Cold || c.job.Work.Run.Op == job.Open {
		return c.ran(place, phase, clocks)
	}
	seconds, aside, err := c.openCold(place)
	if err != nil {
		return nil, err
	}
	did, err := c.ran(place, phase, clocks)
	if err != nil {
		return nil, err
	}
	did.seconds += seconds
	did.paced.Aside.Add(aside)
	return did, nil
}

// openCold closes a database and drops it from the page cache, outside the measured time. Then it
// opens it, and returns the time of that. An opening is never cut off: the time limit is for the
// operations after it.
func (c *course) openCold(place *place) (float64, measure.Counted, error) {
	what := measure.Watched{Phase: "open", Threads: 1}
	var seconds float64
	paced, err := what.Run(c.watch, func(pace *measure.Pace) error {
		drop := func() error { return measure.DropFromPageCache(place.dir) }
		away := func() error { return inTurn(place.db.Close, drop) }
		if err := pace.Aside(place.dir, away); err != nil {
			return err
		}
		clock := time.Now()
		db, err := c.kind.Open(place.dir, &c.job.Config)
		seconds = time.Since(clock).Seconds()
		place.db = db
		return err
	})
	return seconds, paced.Aside, err
}

// ran does the measured phase on an open database.
func (c *course) ran(place *place, phase string, clocks []*measure.Clock) (*ran, error) {
	work := &c.job.Work
	if work.Run.Op == job.Queue && work.Threads != 1 {
		return nil, job.Refused("a queue has one thread")
	}
	if work.Run.Held > 0 {
		return nil, c.cannotHold()
	}
	if work.Run.Op == job.Compact && c.kind.NoCompaction {
		return nil, job.Unsupported("no compaction in place")
	}
	what := measure.Watched{
		Phase: phase, Total: work.Run.Ops, Threads: work.Threads, Cap: c.watch.Cap,
	}
	c.taken.Store(0)
	var did ran
	paced, err := what.Run(c.watch, func(pace *measure.Pace) error {
		var err error
		switch work.Run.Op {
		case job.Open:
			did.outcomes = make([]outcome, 1)
			did.outcomes[0], did.seconds, err = c.open(place, pace, clocks[0])
		case job.Compact:
			did.outcomes = []outcome{{done: 1}}
			did.seconds, err = compact(place.db, clocks[0])
		default:
			body := func(thread plan.Thread, session engine.Session) (outcome, error) {
				return c.onThread(session, thread, pace, clocks[thread.Index])
			}
			did.outcomes, did.seconds, err = onThreads(place.db, work.Threads, body)
		}
		return err
	})
	did.paced = paced
	return &did, err
}

// onThread does the work of one thread.
func (c *course) onThread(
	session engine.Session, thread plan.Thread, pace *measure.Pace, clock *measure.Clock,
) (outcome, error) {
	switch c.job.Work.Run.Op {
	case job.Scan, job.ScanReverse, job.Iterate:
		return c.scan(session, thread, pace, clock)
	case job.Queue:
		return c.queue(session, thread, pace, clock)
	case job.RangeDelete:
		return c.rangeDelete(session, thread, pace, clock)
	case job.Increment, job.RangeIncrement, job.Transfer, job.InsertAbsent:
		return c.compete(session, thread, pace, clock)
	}
	if err := session.Refresh(); err != nil {
		return outcome{}, err
	}
	return c.drive(session, thread, c.plans[thread.Index], pace, clock)
}

func compact(db engine.Engine, clock *measure.Clock) (float64, error) {
	begun := time.Now()
	clock.Begin()
	start := clock.Start()
	err := wrote(clock, start, db.Compact())
	return time.Since(begun).Seconds(), err
}

// sumsHold compares the sums of reads with the expected ones, thread by thread. It returns the
// expected contents of the database.
func (c *course) sumsHold(did *ran) (*model.Model, job.Verified, error) {
	after := c.model.Clone()
	var verified job.Verified
	for _, thread := range plan.Threads(uint32(len(did.outcomes))) {
		one := did.outcomes[thread.Index]
		expected := c.expected(after, thread, one.done)
		if one.tally != expected {
			return nil, verified, wrongSum(thread, expected, one.tally)
		}
		verified.Add(job.AllVerified(expected.Found + one.history.checked))
	}
	return after, verified, applyHistories(did.outcomes, after)
}

// expected is the expected sum of a thread's reads; it applies the thread's writes to the model.
func (c *course) expected(after *model.Model, thread plan.Thread, done uint64) model.Tally {
	work := &c.job.Work
	switch work.Run.Op {
	case job.Scan, job.ScanReverse, job.Iterate:
		return expectedScan(work, c.live, thread, done)
	case job.Queue:
		return expectedQueue(work, after, done)
	case job.RangeDelete:
		c.expectRangeDelete(after, thread, done)
		return model.Tally{}
	case job.Open:
		return c.expectedOpen(done)
	case job.Compact, job.Increment, job.RangeIncrement, job.Transfer, job.InsertAbsent:
		return model.Tally{}
	}
	own := after.Part(thread.Index)
	return own.Replay(c.plans[thread.Index], int(done), c.live)
}

// clocked does the measured phase with a clock around each call. It returns the contents of the
// database after it.
func (c *course) clocked(place *place, report *job.Report) (*model.Model, error) {
	run := &c.job.Work.Run
	var rate *float64
	var period time.Duration
	if run.OpenLoopPercent > 0 || run.OpenLoopPerS > 0 {
		peak := float64(report.Throughput.Ops) / max(report.Throughput.SettledSeconds, 1e-9)
		asked := peak * float64(run.OpenLoopPercent) / 100
		if run.OpenLoopPerS > 0 {
			asked = float64(run.OpenLoopPerS)
		}
		rate = &asked
		each := max(asked/float64(c.job.Work.Threads), 0.01)
		period = max(time.Duration(float64(time.Second)/each), 1)
	}
	clocks := c.noClocks()
	for index := range clocks {
		clocks[index] = measure.NewClock(period)
	}
	did, err := c.measured(place, "latency", clocks)
	if err != nil {
		return nil, err
	}
	c.shorten(did)
	after, _, err := c.sumsHold(did)
	if err != nil {
		return nil, err
	}
	all := measure.Merged(clocks)
	opsPerCall := uint64(1)
	switch run.Op {
	case job.Scan, job.ScanReverse, job.Iterate, job.Compact:
		opsPerCall = report.Throughput.Ops / max(uint64(all.TotalCount()), 1)
	case job.Put, job.Delete, job.PutDelete, job.TransactionPut:
		opsPerCall = uint64(run.Batch)
	}
	report.Latency = measure.Latency(all, opsPerCall, rate)
	return after, nil
}

// shorten limits later passes to the steps that a pass did before it was cut off.
func (c *course) shorten(did *ran) {
	if c.job.Work.Run.Op.IsSpecial() {
		return
	}
	for index, one := range c.plans {
		if index < len(did.outcomes) {
			one.Truncate(int(did.outcomes[index].done))
		}
	}
}

// compared repeats the operations of the pass with clocks, and compares everything that it reads.
func (c *course) compared(db engine.Engine, after *model.Model, report *job.Report) error {
	switch c.job.Work.Run.Op {
	case job.Scan, job.ScanReverse, job.Iterate:
		return c.unwatched("verify", func() error {
			verified, err := c.verifyScan(db)
			report.Verified.Add(verified)
			return err
		})
	case job.Queue, job.RangeDelete, job.Compact:
		return nil
	case job.Open:
		verified, err := c.holds(db, c.live, c.model.IDs())
		report.Verified.Add(verified)
		return err
	case job.Increment, job.RangeIncrement, job.Transfer, job.InsertAbsent:
		return c.unwatched("verify", func() error {
			verified, err := c.holds(db, model.NewLive(after), after.IDs())
			report.Verified.Add(verified)
			return err
		})
	}
	holds := after.Clone()
	total := uint64(0)
	for _, one := range c.plans {
		total += uint64(len(one.IDs))
	}
	what := measure.Watched{Phase: "verify", Total: total, Threads: c.job.Work.Threads}
	_, err := what.Run(c.watch, func(pace *measure.Pace) error {
		compare := func(thread plan.Thread, session engine.Session) (job.Verified, error) {
			again := c.plans[thread.Index].Again()
			v := verifier{session: session, maker: c.maker.again(), live: c.live}
			return v.steps(thread, again, pace, holds.Part(thread.Index))
		}
		each, _, err := onThreads(db, what.Threads, compare)
		for _, one := range each {
			report.Verified.Add(one)
		}
		return err
	})
	return err
}

func (c *course) throughput(did *ran, settling float64) job.Throughput {
	return job.Throughput{
		Ops:            c.ops(did),
		Seconds:        did.seconds,
		SettledSeconds: did.seconds + settling,
		Samples:        did.paced.Samples,
		Capped:         did.paced.Capped,
	}
}

// ops is the number of operations, as the row counts them.
func (c *course) ops(did *ran) uint64 {
	switch c.job.Work.Run.Op {
	case job.Scan, job.ScanReverse, job.Iterate:
		return did.total().Found
	case job.Compact:
		return uint64(c.live.Len())
	}
	return did.done()
}

// logicalBytes are bytes of keys and values that were written; in rows that only read, that were
// read.
func (c *course) logicalBytes(did *ran) uint64 {
	work := &c.job.Work
	key := uint64(work.KeyBytes)
	op := work.Run.Op
	switch {
	case op == job.Queue:
		return did.done() * (work.EntryBytes() + key)
	case op == job.RangeDelete:
		return did.done() * key * 2
	case op == job.Compact:
		return uint64(c.live.Len()) * work.EntryBytes()
	case op.Competes():
		writes := 0
		for _, one := range did.outcomes {
			writes += len(one.history.changes)
		}
		return uint64(writes) * work.EntryBytes()
	case op.Writes():
		bytes := uint64(0)
		for _, one := range c.plans {
			puts, deletes := one.Writes()
			bytes += puts*work.EntryBytes() + deletes*key
		}
		return bytes
	}
	read := did.total()
	return read.Found*key + read.ValueBytes
}

func wrongSum(thread plan.Thread, expected, found model.Tally) error {
	what := "the values read do not add up"
	if expected.Found != found.Found {
		what = fmt.Sprintf(
			"other entries were found. expected=%d, found=%d", expected.Found, found.Found,
		)
	}
	return job.Verification(fmt.Sprintf("%s. thread=%d", what, thread.Index))
}
