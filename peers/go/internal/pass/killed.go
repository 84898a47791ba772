// A database left by a killed process: the worker's side of leaving one, and the message of a row
// that misses acknowledged data in it. The runner kills the worker.

package pass

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/plan"
)

// mayLose is the reason why an engine has no figure if its acknowledged commits need not survive a
// kill: it opens less data than the others do.
const mayLose = "may lose acknowledged commits when it is killed"

// Leave seeds a database into the store of a job, where a kill will leave it: still open, neither
// settled nor closed.
func Leave(
	kind engine.Kind, row *job.Job, told *plan.Told, watch *measure.Watch,
) (engine.Engine, *job.Left, error) {
	if row.Work.State != job.Killed {
		return nil, nil, job.Refused("a kill leaves no database in another state")
	}
	if row.Store == "" || isFilled(row.Store) {
		return nil, nil, job.Refused("there is no empty store to leave a database in")
	}
	if kind.Facts(&row.Config).Class == job.ClassMemory {
		return nil, nil, job.Unsupported(mayLose + ", by its own claim")
	}
	maker := newMaker(&row.Work, row.Config.Families)
	c := &course{kind: kind, job: row, maker: maker, seeds: told.Seeds, watch: watch}
	var db engine.Engine
	left := &job.Left{}
	err := fill(row.Store, func(dir string) ([]job.Phase, error) {
		opened, phases, err := c.seeded(dir)
		db = opened
		for _, phase := range phases {
			left.Acknowledged += phase.Ops
		}
		if err == nil && left.Acknowledged == 0 {
			err = job.Refused("nothing was seeded that a kill could take")
		}
		return phases, err
	})
	return db, left, err
}

// checkLeft checks that the database of a job has been left, if the job needs that: the measuring
// process cannot be killed for it.
func checkLeft(row *job.Job) error {
	if row.Work.State != job.Killed || row.Store != "" && isFilled(row.Store) {
		return nil
	}
	return job.Refused("no process that was killed has left a database in the store")
}

// told is the failure of a row on a database that a kill left: if commits are missing, with their
// number.
func (c *course) told(failure *job.Failure) error {
	message := failure.Message
	switch failure.Kind {
	case job.KindError:
		message = "after kill -9: " + message
	case job.KindVerification:
		missing, other, err := c.gone()
		switch {
		case err != nil:
			message = fmt.Sprintf("after kill -9: %s; %v", message, err)
		case missing == 0 && other == 0:
			message = "after kill -9: " + message
		default:
			message = fmt.Sprintf(
				"kill -9 took %d of %d acknowledged entries, "+
					"%d have another value than was acknowledged",
				missing, c.live.Len(), other,
			)
		}
	}
	return &job.Failure{Kind: failure.Kind, Message: message}
}

// gone looks up each entry in a fresh copy of the database that was left. It returns how many are
// missing, and how many have another value.
func (c *course) gone() (missing, other uint64, err error) {
	dir := filepath.Join(c.job.Dir, "left")
	if err := copyAnew(dir, c.fresh()); err != nil {
		return 0, 0, err
	}
	db, err := c.kind.Open(dir, &c.job.Config)
	if err != nil {
		return 0, 0, err
	}
	session, err := db.Session()
	if err != nil {
		return 0, 0, err
	}
	maker := c.maker.again()
	isRight := false
	seen := func(value []byte) { isRight = bytes.Equal(value, maker.values.Current()) }
	what := measure.Watched{Phase: "count", Total: uint64(c.live.Len()), Threads: 1}
	_, err = what.Run(c.watch, func(pace *measure.Pace) error {
		for index, entry := range c.live.Entries() {
			// Without a time limit the answer is always yes; the call reports progress.
			_ = pace.GoesOn(0, uint64(index))
			if err := maker.choose(session, entry.ID); err != nil {
				return err
			}
			maker.values.Value(entry.ID, entry.Version)
			isRight = false
			isThere, err := session.Get(maker.keys.Key(entry.ID), seen)
			switch {
			case err != nil:
				return err
			case !isThere:
				missing++
			case !isRight:
				other++
			}
		}
		return nil
	})
	if err != nil {
		return missing, other, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	return missing, other, inTurn(session.Close, db.Close, remove)
}
