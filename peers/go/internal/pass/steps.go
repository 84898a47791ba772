// Runs plans on an engine, on threads, with or without a clock around each call. Reads are added to
// a sum; the caller judges the sum.

package pass

import (
	"slices"
	"sync"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

// outcome is the work of one thread.
type outcome struct {
	// tally is the sum of its reads.
	tally model.Tally
	// done is the number of finished operations of its plan.
	done uint64
	// retries are attempts of transactions beyond the first of each.
	retries uint64
	// history is what its transactions changed, where threads compete.
	history history
}

// onThreads runs body on count threads, each with a session. It returns their results, and the time
// from the first start, once all have a session, to the last end. The threads read the clock
// themselves, because a waiting thread may wake up late. A goroutine is not bound to a system
// thread, because each handover to one of the engine's goroutines would then switch threads.
func onThreads[T any](
	db engine.Engine,
	count uint32,
	body func(thread plan.Thread, session engine.Session) (T, error),
) ([]T, float64, error) {
	results, failures := make([]T, count), make([]error, count)
	starts, ends := make([]time.Time, count), make([]time.Time, count)
	var ready, over sync.WaitGroup
	begin := make(chan struct{})
	for _, thread := range plan.Threads(count) {
		ready.Add(1)
		over.Go(func() {
			session, err := db.Session()
			ready.Done()
			<-begin
			if err == nil {
				starts[thread.Index] = time.Now()
				results[thread.Index], err = body(thread, session)
				ends[thread.Index] = time.Now()
				if closed := session.Close(); err == nil {
					err = closed
				}
			}
			failures[thread.Index] = err
		})
	}
	ready.Wait()
	close(begin)
	over.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, 0, err
		}
	}
	first, last := slices.MinFunc(starts, time.Time.Compare), slices.MaxFunc(ends, time.Time.Compare)
	return results, last.Sub(first).Seconds(), nil
}

// drive runs a plan.
func (c *course) drive(
	session engine.Session,
	thread plan.Thread,
	steps *plan.Plan,
	pace *measure.Pace,
	clock *measure.Clock,
) (outcome, error) {
	maker := c.maker.again()
	driver := newDriver(session, maker, steps, clock)
	done := uint64(0)
	clock.Begin()
	for index, id := range steps.IDs {
		if !pace.GoesOn(thread.Index, done) {
			break
		}
		clock.Next()
		if err := driver.step(index, id); err != nil {
			return outcome{}, err
		}
		done++
	}
	if err := driver.commit(); err != nil {
		return outcome{}, err
	}
	return outcome{tally: *driver.tally, done: done, retries: driver.retries}, nil
}

// driver is a thread and its position in a plan.
type driver struct {
	session engine.Session
	maker   *maker
	plan    *plan.Plan
	clock   *measure.Clock
	batch   *engine.Batch
	tally   *model.Tally
	// seenValue and seenEntry add to the tally; they are made once, so that calls do not allocate.
	seenValue func(value []byte)
	seenEntry func(key, value []byte)
	// isStale says whether it has written since it last renewed its read transaction.
	isStale bool
	// retries are attempts of transactions beyond the first of each.
	retries uint64
}

func newDriver(
	session engine.Session, maker *maker, steps *plan.Plan, clock *measure.Clock,
) *driver {
	tally := &model.Tally{}
	return &driver{
		session:   session,
		maker:     maker,
		plan:      steps,
		clock:     clock,
		batch:     maker.batch(),
		tally:     tally,
		seenValue: tally.Add,
		seenEntry: tally.AddEntry,
		isStale:   true,
	}
}

func (d *driver) step(index int, id uint32) error {
	if err := d.maker.choose(d.session, id); err != nil {
		return err
	}
	switch d.plan.Step(index) {
	case plan.Put:
		return d.write(id, d.plan.Version(index))
	case plan.Delete:
		return d.write(id, 0)
	case plan.Get:
		return d.get(id)
	case plan.Miss:
		return d.look(d.maker.keys.Missing(id))
	case plan.Seek:
		return d.seek(id)
	case plan.Range:
		return d.readRange(id, d.plan.Range(index))
	case plan.DeleteRange:
		return d.deleteRange(id, uint32(d.plan.Range(index)))
	default:
		if err := d.get(id); err != nil {
			return err
		}
		return d.write(id, d.plan.Version(index))
	}
}

func (d *driver) lookAnew() error {
	if !d.isStale {
		return nil
	}
	d.isStale = false
	return d.session.Refresh()
}

func (d *driver) get(id uint32) error {
	if err := d.lookAnew(); err != nil {
		return err
	}
	return d.look(d.maker.keys.Key(id))
}

func (d *driver) look(key []byte) error {
	start := d.clock.Start()
	found, err := d.session.Get(key, d.seenValue)
	return d.called(start, found, err)
}

func (d *driver) seek(id uint32) error {
	if err := d.lookAnew(); err != nil {
		return err
	}
	key := d.maker.keys.Key(id)
	start := d.clock.Start()
	found, err := d.session.Seek(key, d.seenEntry)
	return d.called(start, found, err)
}

func (d *driver) readRange(id uint32, limit uint64) error {
	if err := d.lookAnew(); err != nil {
		return err
	}
	key := d.maker.keys.Key(id)
	start := d.clock.Start()
	count, err := d.session.Scan(key, limit, engine.Forward, d.seenEntry)
	return d.called(start, count > 0, err)
}

func (d *driver) deleteRange(id, length uint32) error {
	d.isStale = true
	from := slices.Clone(d.maker.keys.Key(id))
	to := d.maker.keys.Key(id + length)
	start := d.clock.Start()
	err := d.session.DeleteRange(from, to)
	return wrote(d.clock, start, err)
}

// called ends a call that read.
func (d *driver) called(start time.Duration, found bool, err error) error {
	if failed := d.clock.Stop(start); failed != nil {
		return failed
	}
	if !found {
		d.tally.Miss()
	}
	return err
}

func (d *driver) write(id, version uint32) error {
	d.isStale = true
	if d.plan.Batch > 1 || d.plan.InTransactions {
		d.batch.Push(id, version)
		if d.batch.Len() < int(d.plan.Batch) {
			return nil
		}
		return d.commit()
	}
	key := d.maker.keys.Key(id)
	var err error
	if version == 0 {
		start := d.clock.Start()
		err = d.session.Delete(key)
		return wrote(d.clock, start, err)
	}
	value := d.maker.values.Value(id, version)
	start := d.clock.Start()
	err = d.session.Put(key, value)
	return wrote(d.clock, start, err)
}

func (d *driver) commit() error {
	if d.batch.Len() == 0 {
		return nil
	}
	d.isStale = true
	start := d.clock.Start()
	err := d.writeBatch()
	d.batch.Clear()
	return wrote(d.clock, start, err)
}

func (d *driver) writeBatch() error {
	if !d.plan.InTransactions {
		return d.session.Write(d.batch)
	}
	transactor, err := transactor(d.session)
	if err != nil {
		return err
	}
	attempts := uint64(0)
	err = transactor.Transact(func(transaction engine.Transaction) error {
		attempts++
		for index := range d.batch.Len() {
			key, value := d.batch.At(index)
			if err := transaction.Put(key, value); err != nil {
				return err
			}
		}
		return nil
	})
	d.retries += max(attempts, 1) - 1
	return err
}

// wrote ends a call that wrote.
func wrote(clock *measure.Clock, start time.Duration, err error) error {
	if failed := clock.Stop(start); failed != nil {
		return failed
	}
	return err
}
