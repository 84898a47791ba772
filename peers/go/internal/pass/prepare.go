// Brings a database to the state before the measured phase: seed phases, then a row's state. A seed
// phase has its own clock; its plan says what it wrote.

package pass

import (
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/plan"
)

// seeded opens a database and runs the seed phases, each to its end. A row needs all of its data,
// so only the time limit of the row as a whole stops a slow engine.
func (c *course) seeded(dir string) (engine.Engine, []job.Phase, error) {
	db, err := c.kind.Open(dir, &c.job.Config)
	if err != nil {
		return nil, nil, err
	}
	phases := []job.Phase{}
	for _, plans := range c.seeds {
		ops := uint64(0)
		for _, one := range plans {
			ops += uint64(len(one.IDs))
		}
		what := measure.Watched{Phase: "seed", Total: ops, Threads: c.job.Work.Threads}
		var seconds float64
		_, err := what.Run(c.watch, func(pace *measure.Pace) error {
			drive := func(thread plan.Thread, session engine.Session) (outcome, error) {
				return c.drive(session, thread, plans[thread.Index], pace, nil)
			}
			_, taken, err := onThreads(db, what.Threads, drive)
			seconds = taken
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		phases = append(phases, job.Phase{Ops: ops, Seconds: seconds})
	}
	return db, phases, nil
}

// toState brings a database into the state of the row.
func (c *course) toState(db engine.Engine, dir string) (engine.Engine, error) {
	switch c.job.Work.State {
	case job.AsIs:
		if !chargesDebt(&c.job.Work) {
			return db, nil
		}
		return db, settled(db)()
	case job.Settled, job.Cold:
		return db, settled(db)()
	case job.Compacted:
		return db, inTurn(db.Compact, settled(db))
	case job.Reopened:
		return c.reopen(db, dir)
	case job.Killed:
		return nil, job.Refused("a process cannot go on once it is killed")
	default:
		return nil, job.Refused("no such state: " + string(c.job.Work.State))
	}
}

// chargesDebt says whether the measured phase would pay for background work of the seed. For rows
// that measure compaction, that work is part of the compaction.
func chargesDebt(work *job.Work) bool {
	op := work.Run.Op
	return len(work.Seed) > 0 && op.Writes() && op != job.Compact
}

func (c *course) reopen(db engine.Engine, dir string) (engine.Engine, error) {
	if err := db.Close(); err != nil {
		return nil, err
	}
	return c.kind.Open(dir, &c.job.Config)
}

// settled waits until background work is done, and drops the time of that.
func settled(db engine.Engine) func() error {
	return func() error {
		_, err := db.Settle()
		return err
	}
}

// inTurn does steps up to the first that fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
