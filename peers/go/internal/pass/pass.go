// Package pass runs the passes over a row, as bench/src/pass.rs does: throughput without clocks
// around calls, latency with them, verification.
//
//  1. Throughput on a fresh database: seed, bring it to the row's state, run, settle. What was read
//     must add up to what the model says. A cold row is opened within the run.
//  2. Rows that write: close, reopen, compare every key and value; then all again on a second
//     database with a clock around each call.
//  3. Rows that read: the same with clocks, then once more with everything compared in full.
//  4. Size on disk, after closing and after compacting.
//
// If only throughput is requested, nothing has clocks, reads are not compared in full, and nothing
// is compacted at the end. Sums must still be equal, and written data is compared.
//
// A mismatch is an error, and the row then has no figure. It does not know engines.
package pass

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

// course is the state shared by all passes over a row.
type course struct {
	kind  engine.Kind
	job   *job.Job
	maker *maker
	seeds [][]*plan.Plan
	// plans has the measured phase of each thread.
	plans []*plan.Plan
	// model is the contents of the database after seeding.
	model *model.Model
	live  *model.Live
	watch *measure.Watch
	// taken are the operations that threads which compete have taken so far.
	taken atomic.Uint64
}

// place is an open database and its directory.
type place struct {
	db  engine.Engine
	dir string
}

// Run runs one row on one engine, by the plan that was told.
func Run(
	kind engine.Kind, row *job.Job, told *plan.Told, watch *measure.Watch,
) (*job.Report, error) {
	seeded := seededBy(&row.Work, told)
	c := &course{
		kind:  kind,
		job:   row,
		maker: newMaker(&row.Work, row.Config.Families),
		seeds: told.Seeds,
		plans: told.Plans,
		model: seeded,
		live:  model.NewLive(seeded),
		watch: watch,
	}
	if err := checkTold(&row.Work, told, c.live); err != nil {
		return nil, err
	}
	if kind.MeasuresHarness {
		return c.harness()
	}
	if err := checkLeft(row); err != nil {
		return nil, err
	}
	report, err := c.report()
	if err != nil && c.fresh() != "" {
		return nil, c.told(job.FailureOf(err))
	}
	return report, err
}

// harness is the cost of a row's loops on an engine that does nothing. Nothing is verified, because
// the engine holds nothing. It has the throughput pass only.
func (c *course) harness() (*job.Report, error) {
	meter := measure.StartMeter(c.job.Dir, measure.AtProcess, measure.ResidentBytes())
	db, err := c.kind.Open(c.job.Dir, &c.job.Config)
	if err != nil {
		return nil, err
	}
	ran, err := c.measured(&place{db, c.job.Dir}, "throughput", c.noClocks())
	if err != nil {
		return nil, err
	}
	return &job.Report{
		Facts:        c.kind.Facts(&c.job.Config),
		Seed:         []job.Phase{},
		Throughput:   c.throughput(ran, 0),
		LogicalBytes: c.logicalBytes(ran),
		Usage:        meter.Stop(ran.paced.Aside),
	}, nil
}

func (c *course) report() (*job.Report, error) {
	harness := measure.ResidentBytes()
	place, seed, err := c.prepared("throughput")
	if err != nil {
		return nil, err
	}
	if c.job.Work.WarmUp {
		if err := c.warmUp(place); err != nil {
			return nil, err
		}
	}
	meter := measure.StartMeter(place.dir, c.countAt(), harness)
	ran, err := c.measured(place, "throughput", c.noClocks())
	if err != nil {
		return nil, err
	}
	clock := time.Now()
	var quiet time.Time
	err = c.unwatched("settle", func() error {
		quiet, err = place.db.Settle()
		return err
	})
	if err != nil {
		return nil, err
	}
	settling := max(quiet.Sub(clock), 0).Seconds()
	usage := meter.Stop(ran.paced.Aside)
	report := &job.Report{Facts: c.kind.Facts(&c.job.Config), Seed: seed, Usage: usage}
	c.shorten(ran)
	after, verified, err := c.sumsHold(ran)
	if err != nil {
		return nil, err
	}
	report.Verified = verified
	report.Throughput = c.throughput(ran, settling)
	report.LogicalBytes = c.logicalBytes(ran)
	report.Transactions = c.transactions(ran)
	report.LiveBytes = uint64(model.NewLive(after).Len()) * c.job.Work.EntryBytes()
	return report, c.rest(place, after, report)
}

// warmUps is the number of warm-up runs of a warm row. Two, because a cache may keep only what is
// read twice.
const warmUps = 2

// warmUp runs the throughput pass without counting it; its reads are verified all the same.
func (c *course) warmUp(place *place) error {
	for range warmUps {
		ran, err := c.ran(place, "warm up", c.noClocks())
		if err != nil {
			return err
		}
		if _, _, err := c.sumsHold(ran); err != nil {
			return err
		}
	}
	return nil
}

// rest is everything after the throughput pass.
func (c *course) rest(place *place, after *model.Model, report *job.Report) error {
	writes, isFull := c.job.Work.Run.Op.Writes(), c.job.Extent == job.ExtentFull
	var err error
	switch {
	case writes:
		err = c.unwatched("verify", func() error { return c.reopened(place, after, report) })
	case isFull:
		err = c.readAgain(place, report)
	default:
		err = place.db.Close()
	}
	if err != nil {
		return err
	}
	if report.DBBytes, err = measure.DiskBytes(place.dir); err != nil {
		return err
	}
	if isFull {
		if report.DBBytesCompacted, err = c.compactedBytes(place.dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(place.dir); err != nil {
		return err
	}
	if isFull && writes {
		return c.secondDatabase(report)
	}
	return nil
}

// reopened closes a database, reopens it, and compares its whole contents.
func (c *course) reopened(place *place, after *model.Model, report *job.Report) error {
	if err := place.db.Close(); err != nil {
		return err
	}
	db, err := c.kind.Open(place.dir, &c.job.Config)
	if err != nil {
		return err
	}
	verified, err := c.holds(db, model.NewLive(after), after.IDs())
	if err != nil {
		return err
	}
	report.Verified.Add(verified)
	return db.Close()
}

// readAgain is the latency pass of a row that only reads, and a comparison of all that it reads.
func (c *course) readAgain(place *place, report *job.Report) error {
	after, err := c.clocked(place, report)
	if err != nil {
		return err
	}
	if err := c.compared(place.db, after, report); err != nil {
		return err
	}
	return place.db.Close()
}

// secondDatabase is the latency pass of a row that writes, with its reads compared. They are
// compared on the same database, or on a third one if the repetition would find its own inserts.
func (c *course) secondDatabase(report *job.Report) error {
	place, _, err := c.prepared("latency")
	if err != nil {
		return err
	}
	after, err := c.clocked(place, report)
	if err != nil {
		return err
	}
	op := c.job.Work.Run.Op
	if op.Reads() && !op.Inserts() {
		if err := c.compared(place.db, after, report); err != nil {
			return err
		}
	}
	if err := errors.Join(place.db.Close(), os.RemoveAll(place.dir)); err != nil || !op.Inserts() {
		return err
	}
	place, _, err = c.prepared("verify")
	if err != nil {
		return err
	}
	if err := c.compared(place.db, c.model, report); err != nil {
		return err
	}
	return errors.Join(place.db.Close(), os.RemoveAll(place.dir))
}

func (c *course) countAt() measure.CountAt {
	if c.job.Config.Durability == job.Synced {
		return measure.AtDevice
	}
	return measure.AtProcess
}

// prepared is a separate database, seeded and in the state of the row.
func (c *course) prepared(name string) (*place, []job.Phase, error) {
	dir := filepath.Join(c.job.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	if c.job.Store == "" {
		db, phases, err := c.seededIn(dir)
		return &place{db, dir}, phases, err
	}
	fill := func(dir string) ([]job.Phase, error) {
		db, phases, err := c.seededIn(dir)
		if err != nil {
			return nil, err
		}
		return phases, db.Close()
	}
	phases, err := copyTo(dir, c.job.Store, fill)
	if err != nil {
		return nil, nil, err
	}
	db, err := c.kind.Open(dir, &c.job.Config)
	return &place{db, dir}, phases, err
}

// fresh is the store that is copied before each opening; empty if an opening finds the files that
// the last close left.
func (c *course) fresh() string {
	if c.job.Work.State == job.Killed {
		return c.job.Store
	}
	return ""
}

// seededIn seeds a database in a directory and brings it to the state of the row.
func (c *course) seededIn(dir string) (engine.Engine, []job.Phase, error) {
	db, phases, err := c.seeded(dir)
	if err != nil {
		return nil, nil, err
	}
	err = c.unwatched("prepare", func() error {
		db, err = c.toState(db, dir)
		return err
	})
	return db, phases, err
}

// unwatched runs work without a count, and reports that it is running.
func (c *course) unwatched(phase string, body func() error) error {
	what := measure.Watched{Phase: phase, Threads: 1}
	_, err := what.Run(c.watch, func(*measure.Pace) error { return body() })
	return err
}

// compactedBytes is the size of a database after a full compaction.
func (c *course) compactedBytes(dir string) (*uint64, error) {
	err := c.unwatched("compact", func() error {
		db, err := c.kind.Open(dir, &c.job.Config)
		if err != nil {
			return err
		}
		return inTurn(db.Compact, settled(db), db.Close)
	})
	if err != nil {
		return nil, err
	}
	bytes, err := measure.DiskBytes(dir)
	return &bytes, err
}
