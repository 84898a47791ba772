// Transactions of threads that change the same keys, as bench/src/pass/transactions.rs does them.
// The version of a value is what is counted, so each value that is read is checked at once. Each
// thread logs what its transactions changed, once they have committed; the seed and the sum of all
// logs are what the database must hold then.

package pass

import (
	"bytes"
	"fmt"
	"math"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

const (
	// amountMax is the most that one transfer moves.
	amountMax = 5
	// competeSalt makes the stream of ids differ from those of plans.
	competeSalt = 0x7a5c_0001
	// inserted is the version of a value that is inserted; that of all counters of the null engine.
	inserted = 2
)

// change is one of the version of an id.
type change struct {
	id uint32
	by int32
}

// history is what one thread's transactions did.
type history struct {
	// changes are in the order of their commits.
	changes []change
	// checked are values that were read, and checked.
	checked uint64
}

// transactor is a session whose transactions are driven here.
func transactor(session engine.Session) (engine.Transactor, error) {
	if transactor, ok := session.(engine.Transactor); ok {
		return transactor, nil
	}
	return nil, job.Unsupported("its transactions are not driven here")
}

// cannotHold is why no transactions are held open: engines of this program have one writer, or
// their transactions are not driven.
func (c *course) cannotHold() error {
	if c.kind.Isolation == "" {
		return job.Unsupported("its transactions are not driven here")
	}
	return job.Unsupported("an open transaction that may write excludes all other writers")
}

// transactions says how the transactions of a row went; nil if it has none.
func (c *course) transactions(did *ran) *job.Transactions {
	op := c.job.Work.Run.Op
	if !op.Competes() && op != job.TransactionPut {
		return nil
	}
	found := &job.Transactions{Isolation: c.kind.Isolation}
	least, total := uint64(math.MaxUint64), uint64(0)
	for _, one := range did.outcomes {
		found.Retries += one.retries
		least, total = min(least, one.done), total+one.done
	}
	if op.Competes() && total > 0 {
		share := float64(least) * float64(len(did.outcomes)) / float64(total)
		found.SlowestShare = &share
	}
	return found
}

// applyHistories puts into a model what was committed.
func applyHistories(outcomes []outcome, after *model.Model) error {
	sums := make(map[uint32]int64)
	for _, one := range outcomes {
		for _, change := range one.history.changes {
			sums[change.id] += int64(change.by)
		}
	}
	for id, sum := range sums {
		version := int64(after.Version(id)) + sum
		if version < 0 || version > math.MaxUint32 {
			const what = "more was taken than there can have been. id=%d"
			return job.Verification(fmt.Sprintf(what, id))
		}
		after.Set(id, uint32(version))
	}
	return nil
}

// compete does transactions on keys that all threads change.
func (c *course) compete(
	session engine.Session, thread plan.Thread, pace *measure.Pace, clock *measure.Clock,
) (outcome, error) {
	if c.maker.families > 1 {
		return outcome{}, job.Refused("transactions of threads that compete use one family")
	}
	transactor, err := transactor(session)
	if err != nil {
		return outcome{}, err
	}
	if err := session.Refresh(); err != nil {
		return outcome{}, err
	}
	task := newTask(&c.job.Work, c.maker.again())
	done := uint64(0)
	clock.Begin()
	for pace.GoesOn(thread.Index, done) {
		number := c.taken.Add(1) - 1
		if number >= c.job.Work.Run.Ops {
			break
		}
		clock.Next()
		task.choose(number)
		start := clock.Start()
		if err := wrote(clock, start, transactor.Transact(task.body)); err != nil {
			return outcome{}, err
		}
		task.committed()
		done++
	}
	return outcome{done: done, retries: task.attempts - done, history: task.history}, nil
}

// task is one thread's transaction, and its log.
type task struct {
	work  *job.Work
	maker *maker
	// end makes the end of a range, within the keys in it.
	end, within data.KeyMaker
	// id is where the transaction takes from, or what it changes; it gives to other.
	id, other uint32
	// amount is how much it moves at most.
	amount uint32
	// pending is what the attempt under way changes.
	pending  []change
	attempts uint64
	history  history
	// body is the method attempt; made once, so that calls do not allocate, as the others.
	body      func(engine.Transaction) error
	seenValue func(value []byte)
	seenEntry func(key, value []byte)
	// What was seen of a value: its version, if it is whole and of the id that is asked for.
	asked, version uint32
	isRight        bool
	// What was seen of a range: the version of its first entry, and the next id.
	first, next uint32
}

func newTask(work *job.Work, maker *maker) *task {
	t := &task{work: work, maker: maker, end: newKeys(work), within: newKeys(work)}
	t.body, t.seenValue, t.seenEntry = t.attempt, t.seeValue, t.seeEntry
	return t
}

// choose draws what the operation of a number does.
func (t *task) choose(number uint64) {
	drawn := data.Splitmix64(data.Splitmix64(competeSalt) ^ number)
	more := data.Splitmix64(drawn)
	keys := uint64(t.work.Keys)
	if t.work.Run.Op == job.RangeIncrement {
		keys -= uint64(t.work.Run.Range)
	}
	t.id = uint32(drawn % keys)
	step := 1 + more%max(keys-1, 1)
	t.other = uint32((uint64(t.id) + step) % keys)
	t.amount = uint32(1 + more>>32%amountMax)
}

// committed: what was pending has been committed.
func (t *task) committed() {
	t.history.changes = append(t.history.changes, t.pending...)
}

func (t *task) attempt(transaction engine.Transaction) error {
	t.attempts++
	t.pending = t.pending[:0]
	switch t.work.Run.Op {
	case job.RangeIncrement:
		return t.incrementRange(transaction)
	case job.Transfer:
		return t.transfer(transaction)
	case job.InsertAbsent:
		return t.insert(transaction)
	}
	version, err := t.readSeeded(transaction, t.id)
	if err != nil {
		return err
	}
	return t.change(transaction, t.id, version, 1)
}

func (t *task) seeValue(value []byte) {
	id, version, ok := data.ReadMark(value)
	t.version, t.isRight = version, ok && id == t.asked && version > 0
}

// read is the counter of an id; 0 if there is none.
func (t *task) read(transaction engine.Transaction, id uint32) (uint32, error) {
	t.asked, t.isRight = id, false
	found, err := transaction.Get(t.maker.keys.Key(id), t.seenValue)
	if err != nil {
		return 0, err
	}
	t.history.checked++
	switch {
	case !found:
		return 0, nil
	case !t.isRight:
		return 0, wrongRead("a value of another key or none that was written", id)
	}
	return t.version, nil
}

func (t *task) readSeeded(transaction engine.Transaction, id uint32) (uint32, error) {
	version, err := t.read(transaction, id)
	if err == nil && version == 0 {
		return 0, wrongRead("nothing", id)
	}
	return version, err
}

// change changes a counter that stands at a version.
func (t *task) change(transaction engine.Transaction, id, version uint32, by int32) error {
	changed := uint32(int64(version) + int64(by))
	if changed >= data.MarkVersions {
		return job.Refused("more changes than a value can count")
	}
	t.pending = append(t.pending, change{id, by})
	return transaction.Put(t.maker.keys.Key(id), t.maker.values.Value(id, changed))
}

func (t *task) transfer(transaction engine.Transaction) error {
	balance, err := t.readSeeded(transaction, t.id)
	if err != nil {
		return err
	}
	others, err := t.readSeeded(transaction, t.other)
	if err != nil {
		return err
	}
	// An account keeps one: a key at zero would not exist.
	amount := int32(min(t.amount, balance-1))
	if amount == 0 {
		return nil
	}
	if err := t.change(transaction, t.id, balance, -amount); err != nil {
		return err
	}
	return t.change(transaction, t.other, others, amount)
}

func (t *task) insert(transaction engine.Transaction) error {
	version, err := t.read(transaction, t.id)
	switch {
	case err != nil || version == inserted:
		return err
	case version != 0:
		return wrongRead("another value than one that was inserted", t.id)
	}
	return t.change(transaction, t.id, 0, inserted)
}

func (t *task) seeEntry(key, value []byte) {
	id, version, ok := data.ReadMark(value)
	isNext := ok && id == t.next && bytes.Equal(key, t.within.Key(t.next))
	t.isRight = t.isRight && isNext
	if t.next == t.id {
		t.first = version
	}
	t.next++
}

func (t *task) incrementRange(transaction engine.Transaction) error {
	id, length := t.id, t.work.Run.Range
	t.first, t.next, t.isRight = 0, id, true
	from, to := t.maker.keys.Key(id), t.end.Key(id+length)
	count, err := transaction.Scan(from, to, t.seenEntry)
	if err != nil {
		return err
	}
	t.history.checked += count
	if !t.isRight || count != uint64(length) || t.first == 0 {
		return wrongRead("other entries in a range than there must be", id)
	}
	return t.change(transaction, id, t.first, 1)
}

func wrongRead(found string, id uint32) error {
	return job.Verification(fmt.Sprintf("a transaction read %s. id=%d", found, id))
}
