// Brings a database to the state before the measured phase: seed phases, then a row's state. A seed
// phase has its own clock; its plan says what it wrote.

package pass

import (
	"math"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/order"
	"silt-bench-go/internal/plan"
)

// Drawn is all operations to be done, and the contents that the seed phases leave.
type Drawn struct {
	// Seeds are the seed phases, each with a plan for each thread.
	Seeds [][]*plan.Plan
	// Plans has the measured phase of each thread.
	Plans []*plan.Plan
	// Model is the contents of the database after seeding.
	Model *model.Model
}

// Draw draws all phases of a workload.
func Draw(work *job.Work) (*Drawn, error) {
	if err := check(work); err != nil {
		return nil, err
	}
	drawn := &Drawn{Model: model.New(work)}
	versions := make([]uint32, work.Threads)
	for index := range versions {
		versions[index] = 1
	}
	none := &model.Live{}
	for index := range work.Seed {
		var plans []*plan.Plan
		for _, thread := range plan.Threads(work.Threads) {
			seed := plan.Seed(work, &work.Seed[index], thread, versions[thread.Index])
			versions[thread.Index] = seed.NextVersion()
			own := drawn.Model.Part(thread.Index)
			own.Replay(seed, len(seed.IDs), none)
			plans = append(plans, seed)
		}
		drawn.Seeds = append(drawn.Seeds, plans)
	}
	for _, thread := range plan.Threads(work.Threads) {
		drawn.Plans = append(drawn.Plans, plan.Run(work, thread, versions[thread.Index]))
	}
	return drawn, nil
}

// check checks a workload.
func check(work *job.Work) error {
	why := ""
	switch {
	case work.Threads == 0 || work.Threads > work.Keys:
		why = "there are no threads, or more than keys"
	case work.IDs() > math.MaxUint32/2 || work.Run.Ops > math.MaxUint32/2:
		why = "more keys or operations than fit"
	case !work.KeyStyle.Fits(work.KeyBytes):
		why = "keys are 8, if they are sparse, or at least 16 bytes long"
	case work.ValueBytes < data.ValueBytesMin || work.ValueBytes > data.ValueBytesMax:
		why = "values are 16 to 1,048,575 bytes long"
	case work.KeyStyle != data.Sparse && ordersIDs(work.Run.Op):
		why = "a queue, a range of ids and ranges beside inserts need sparse keys"
	case work.Run.Batch == 0 || work.Run.Range == 0:
		why = "an empty batch or range"
	case !order.IsOrder(work.Run.Order):
		why = "no such order: " + string(work.Run.Order)
	}
	if why == "" && work.Run.Op.Competes() {
		why = checkCompeting(work)
	}
	for _, seed := range work.Seed {
		if seed.Batch == 0 || !order.IsOrder(seed.Order) {
			why = "an empty batch or no such order in a seed"
		}
	}
	if why == "" {
		return nil
	}
	return job.Refused("the workload makes no sense: " + why)
}

// checkCompeting says why threads cannot compete in a workload; nothing if they can.
func checkCompeting(work *job.Work) string {
	switch {
	case work.Run.Order != job.Uniform || work.ValueStyle != data.Marked:
		return "threads that compete draw uniform ids, and count in marked values"
	case work.Keys < 2 || work.KeyStyle != data.Sparse:
		return "a transfer needs two accounts, and a range of counters sparse keys"
	case work.Run.Op == job.RangeIncrement && work.Run.Range >= work.Keys:
		return "a range is shorter than all keys"
	}
	return ""
}

// ordersIDs says whether an operation needs keys in the order of ids.
func ordersIDs(op job.Op) bool {
	return op == job.Queue || op == job.RangeDelete || op == job.YcsbE
}

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
