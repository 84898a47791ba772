// Measured phases that are not made of steps: scans, queues, range deletes, openings. Each reports
// its operations; a separate expected function gives the sum that it must have read.

package pass

import (
	"math"
	"slices"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

// queueVersion is the version of values that a queue puts; seeds have lower versions.
const queueVersion = math.MaxUint32

// part is the part of all entries that a thread scans, by position.
func part(live *model.Live, thread plan.Thread) (start, end int) {
	at := func(index uint32) int { return live.Len() * int(index) / int(thread.Count) }
	return at(thread.Index), at(thread.Index + 1)
}

// rounds is the number of times that a thread scans its part.
func rounds(work *job.Work, live *model.Live) uint64 {
	entries := max(uint64(live.Len()), 1)
	return max((work.Run.Ops+entries-1)/entries, 1)
}

func direction(work *job.Work) engine.Direction {
	if work.Run.Op == job.ScanReverse {
		return engine.Reverse
	}
	return engine.Forward
}

// bounds is the start of a thread's scan and the number of entries that it may read. The last part
// has no end, so that an extra entry is noticed.
func (c *course) bounds(thread plan.Thread) walk {
	start, end := part(c.live, thread)
	way := direction(&c.job.Work)
	first, last := uint32(0), thread.Count-1
	begin := start
	if way == engine.Reverse {
		first, last = last, first
		begin = max(end, 1) - 1
	}
	bounds := walk{limit: uint64(end - start), way: way}
	if thread.Index == last {
		bounds.limit = math.MaxUint64
	}
	if thread.Index != first && begin < c.live.Len() {
		keys := newKeys(&c.job.Work)
		bounds.from = slices.Clone(keys.Key(c.live.Entries()[begin].ID))
	}
	return bounds
}

// scan scans everything; each thread scans its part.
func (c *course) scan(
	session engine.Session, thread plan.Thread, pace *measure.Pace, clock *measure.Clock,
) (outcome, error) {
	bounds := c.bounds(thread)
	tally := &model.Tally{}
	seen := tally.AddEntry
	done := uint64(0)
	if err := session.Refresh(); err != nil {
		return outcome{}, err
	}
	clock.Begin()
	for done < rounds(&c.job.Work, c.live) && pace.GoesOn(thread.Index, tally.Found) {
		start := clock.Start()
		_, err := session.Scan(bounds.from, bounds.limit, bounds.way, seen)
		if err := wrote(clock, start, err); err != nil {
			return outcome{}, err
		}
		done++
	}
	return outcome{tally: *tally, done: done}, nil
}

// expectedScan is the expected sum of a thread's scans.
func expectedScan(
	work *job.Work, live *model.Live, thread plan.Thread, done uint64,
) model.Tally {
	start, end := part(live, thread)
	once := live.Between(start, end, work.ValueBytes)
	return model.Tally{
		Sum: once.Sum * done, Found: once.Found * done, ValueBytes: once.ValueBytes * done,
	}
}

// verifyScan scans everything once and compares it.
func (c *course) verifyScan(db engine.Engine) (job.Verified, error) {
	compare := func(thread plan.Thread, session engine.Session) (job.Verified, error) {
		if err := session.Refresh(); err != nil {
			return job.Verified{}, err
		}
		start, end := part(c.live, thread)
		entries := slices.Clone(c.live.Entries()[start:end])
		if direction(&c.job.Work) == engine.Reverse {
			slices.Reverse(entries)
		}
		v := verifier{session: session, maker: c.maker.again(), live: c.live}
		return v.scan(c.bounds(thread), slices.Values(entries))
	}
	each, _, err := onThreads(db, c.job.Work.Threads, compare)
	var verified job.Verified
	for _, one := range each {
		verified.Add(one)
	}
	return verified, err
}

// queue puts at the end, finds the first key from the very beginning, deletes it.
func (c *course) queue(
	session engine.Session, thread plan.Thread, pace *measure.Pace, clock *measure.Clock,
) (outcome, error) {
	maker := c.maker.again()
	tally := &model.Tally{}
	seen := tally.AddEntry
	beginning := slices.Clone(maker.keys.Key(0))
	done := uint64(0)
	clock.Begin()
	for done < c.job.Work.Run.Ops && pace.GoesOn(thread.Index, done) {
		clock.Next()
		tail, head := c.job.Work.Keys+uint32(done), uint32(done)
		value := maker.values.Value(tail, queueVersion)
		start := clock.Start()
		err := session.Put(maker.keys.Key(tail), value)
		if err == nil {
			err = session.Refresh()
		}
		found := false
		if err == nil {
			found, err = session.Seek(beginning, seen)
		}
		if err == nil {
			err = session.Delete(maker.keys.Key(head))
		}
		if err := wrote(clock, start, err); err != nil {
			return outcome{}, err
		}
		if !found {
			tally.Miss()
		}
		done++
	}
	return outcome{tally: *tally, done: done}, nil
}

// expectedQueue is the expected sum of a queue's reads; it applies the queue's writes to the model.
func expectedQueue(work *job.Work, holds *model.Model, done uint64) model.Tally {
	var tally model.Tally
	keys := newKeys(work)
	for head := range uint32(done) {
		holds.Set(work.Keys+head, queueVersion)
		holds.Get(head, &tally)
		if holds.Version(head) != 0 {
			tally.AddKey(keys.Key(head))
		}
		holds.Set(head, 0)
	}
	return tally
}

// rangeEnd is the end of a range that begins at an id.
func rangeEnd(work *job.Work, start uint32) uint32 {
	return uint32(min(uint64(start)+uint64(work.Run.Range), math.MaxUint32))
}

// rangeDelete deletes ranges that do not overlap.
func (c *course) rangeDelete(
	session engine.Session, thread plan.Thread, pace *measure.Pace, clock *measure.Clock,
) (outcome, error) {
	from, to := newKeys(&c.job.Work), newKeys(&c.job.Work)
	done := uint64(0)
	clock.Begin()
	for _, id := range c.plans[thread.Index].IDs {
		if !pace.GoesOn(thread.Index, done) {
			break
		}
		clock.Next()
		first, end := from.Key(id), to.Key(rangeEnd(&c.job.Work, id))
		start := clock.Start()
		err := session.DeleteRange(first, end)
		if err := wrote(clock, start, err); err != nil {
			return outcome{}, err
		}
		done++
	}
	return outcome{done: done}, nil
}

// expectRangeDelete applies the range deletes of a thread to the model.
func (c *course) expectRangeDelete(holds *model.Model, thread plan.Thread, done uint64) {
	work := &c.job.Work
	for _, start := range c.plans[thread.Index].IDs[:done] {
		for id := start; id < min(rangeEnd(work, start), work.Keys); id++ {
			holds.Set(id, 0)
		}
	}
}

// open closes, opens and reads a key, and leaves another database open. Before each opening it
// copies a database left by a kill again, and drops a cold one from the page cache.
func (c *course) open(
	place *place, pace *measure.Pace, clock *measure.Clock,
) (outcome, float64, error) {
	maker := c.maker.again()
	tally := &model.Tally{}
	done, seconds := uint64(0), 0.0
	clock.Begin()
	for _, id := range c.plans[0].IDs {
		if !pace.GoesOn(0, done) {
			break
		}
		if err := place.db.Close(); err != nil {
			return outcome{}, 0, err
		}
		if before := c.beforeOpening(place.dir); before != nil {
			if err := pace.Aside(place.dir, before); err != nil {
				return outcome{}, 0, err
			}
		}
		key := maker.keys.Key(id)
		begun := time.Now()
		start := clock.Start()
		found, err := c.openAndGet(place, key, tally)
		if err := wrote(clock, start, err); err != nil {
			return outcome{}, 0, err
		}
		seconds += time.Since(begun).Seconds()
		if !found {
			tally.Miss()
		}
		done++
	}
	return outcome{tally: *tally, done: done}, seconds, nil
}

// beforeOpening is the work before each opening; nil for none.
func (c *course) beforeOpening(dir string) func() error {
	switch store := c.fresh(); {
	case store != "":
		return func() error { return copyAnew(dir, store) }
	case c.job.Work.State == job.Cold:
		return func() error { return measure.DropFromPageCache(dir) }
	}
	return nil
}

func (c *course) openAndGet(place *place, key []byte, tally *model.Tally) (bool, error) {
	db, err := c.kind.Open(place.dir, &c.job.Config)
	if err != nil {
		return false, err
	}
	place.db = db
	session, err := db.Session()
	if err != nil {
		return false, err
	}
	found, err := session.Get(key, tally.Add)
	if closed := session.Close(); err == nil {
		err = closed
	}
	return found, err
}

// expectedOpen is the expected sum of the reads after openings.
func (c *course) expectedOpen(done uint64) model.Tally {
	var tally model.Tally
	for _, id := range c.plans[0].IDs[:done] {
		c.model.Get(id, &tally)
	}
	return tally
}
