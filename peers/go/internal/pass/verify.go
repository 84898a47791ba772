// Compares the results of an engine in full with the model. It is not timed.

package pass

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

// verifier compares the results of a session in full with the model. It is not timed, and ends at
// the first difference.
type verifier struct {
	session engine.Session
	maker   *maker
	live    *model.Live
}

// steps runs a plan and compares everything that it reads.
func (v *verifier) steps(
	thread plan.Thread, steps *plan.Plan, pace *measure.Pace, own model.Own,
) (job.Verified, error) {
	var verified job.Verified
	var pending []model.Entry
	batch := v.maker.batch()
	if err := v.session.Refresh(); err != nil {
		return verified, err
	}
	for index, id := range steps.IDs {
		// A verification is never cut off, so the result is ignored.
		pace.GoesOn(thread.Index, uint64(index))
		if err := v.maker.choose(v.session, id); err != nil {
			return verified, err
		}
		one, err := v.read(steps, index, id, &own)
		if err != nil {
			return verified, err
		}
		verified.Add(one)
		switch steps.Step(index) {
		case plan.Put, plan.Modify:
			pending = append(pending, model.Entry{ID: id, Version: steps.Version(index)})
		case plan.Delete:
			pending = append(pending, model.Entry{ID: id})
		}
		isLast := index+1 == len(steps.IDs)
		if len(pending) >= int(steps.Batch) || isLast && len(pending) > 0 {
			for _, entry := range pending {
				batch.Push(entry.ID, entry.Version)
			}
			if err := v.session.Write(batch); err != nil {
				return verified, err
			}
			batch.Clear()
			pending = own.Apply(pending)
			if err := v.session.Refresh(); err != nil {
				return verified, err
			}
		}
	}
	return verified, nil
}

// read does the reading part of a step.
func (v *verifier) read(
	steps *plan.Plan, index int, id uint32, own *model.Own,
) (job.Verified, error) {
	switch steps.Step(index) {
	case plan.Get, plan.Modify:
		return v.get(id, own.Committed(id))
	case plan.Miss:
		return v.miss(id)
	case plan.Seek:
		return v.seek(id)
	case plan.Range:
		limit := steps.Range(index)
		from := slices.Clone(v.maker.keys.Key(id))
		walk := walk{from: from, limit: limit, way: engine.Forward}
		return v.scan(walk, slices.Values(v.live.From(id, limit)))
	}
	return job.Verified{}, nil
}

// get compares the value of a key with the expected version; 0 stands for an absent one.
func (v *verifier) get(id, version uint32) (job.Verified, error) {
	same := version == 0
	found, err := v.session.Get(v.maker.keys.Key(id), func(value []byte) {
		same = version != 0 && bytes.Equal(value, v.maker.values.Value(id, version))
	})
	switch {
	case err != nil:
		return job.Verified{}, err
	case found && version == 0:
		return job.Verified{}, wrong("get", id, "a value of a key that was deleted")
	case !found && version != 0:
		return job.Verified{}, wrong("get", id, "nothing")
	case !same:
		return job.Verified{}, wrong("get", id, "another value than was written last")
	}
	return job.AllVerified(1), nil
}

func (v *verifier) miss(id uint32) (job.Verified, error) {
	found, err := v.session.Get(v.maker.keys.Missing(id), func([]byte) {})
	if err != nil {
		return job.Verified{}, err
	}
	if found {
		return job.Verified{}, wrong("get-miss", id, "a value of a key that never was")
	}
	return job.AllVerified(1), nil
}

func (v *verifier) seek(id uint32) (job.Verified, error) {
	target := slices.Clone(v.maker.keys.Key(id))
	expected := v.live.From(id, 1)
	same := false
	found, err := v.session.Seek(target, func(key, value []byte) {
		same = len(expected) > 0 && v.isEntry(expected[0], key, value)
	})
	switch {
	case err != nil:
		return job.Verified{}, err
	case !found && len(expected) > 0:
		return job.Verified{}, wrong("seek", id, "nothing")
	case found && !same:
		return job.Verified{}, wrong("seek", id, "another entry than the next")
	}
	return job.AllVerified(1), nil
}

func (v *verifier) isEntry(entry model.Entry, key, value []byte) bool {
	return bytes.Equal(key, v.maker.keys.Key(entry.ID)) &&
		bytes.Equal(value, v.maker.values.Value(entry.ID, entry.Version))
}

// walk is a scan to compare.
type walk struct {
	from  []byte
	limit uint64
	way   engine.Direction
}

// scan compares every entry of a scan, their order and their number.
func (v *verifier) scan(walk walk, expected iter.Seq[model.Entry]) (job.Verified, error) {
	next, stop := iter.Pull(expected)
	defer stop()
	var checked, shown uint64
	wrongAt := ""
	said, err := v.session.Scan(walk.from, walk.limit, walk.way, func(key, value []byte) {
		entry, ok := next()
		switch {
		case ok && v.isEntry(entry, key, value):
			checked++
		case wrongAt == "" && ok:
			wrongAt = fmt.Sprintf("id %d. position=%d", entry.ID, shown)
		case wrongAt == "":
			wrongAt = fmt.Sprintf("the end. position=%d", shown)
		}
		shown++
	})
	if err != nil {
		return job.Verified{}, err
	}
	if wrongAt != "" {
		return job.Verified{}, job.Verification("scan: another entry than " + wrongAt)
	}
	if said != shown {
		message := fmt.Sprintf("scan: counted other entries. said=%d, shown=%d", said, shown)
		return job.Verified{}, job.Verification(message)
	}
	wanted := shown
	for _, ok := next(); ok; _, ok = next() {
		wanted++
	}
	if wanted > shown {
		const missing = "scan: entries are missing. expected=%d, found=%d"
		return job.Verified{}, job.Verification(fmt.Sprintf(missing, wanted, shown))
	}
	return job.AllVerified(checked), nil
}

// holds compares the whole contents of a database. Of ids ids the absent ones are checked, too.
func (c *course) holds(db engine.Engine, live *model.Live, ids uint32) (job.Verified, error) {
	var verified job.Verified
	session, err := db.Session()
	if err != nil {
		return verified, err
	}
	v := verifier{session: session, maker: c.maker.again(), live: live}
	for family := range v.maker.families {
		one, err := v.holdsFamily(family)
		if err != nil {
			// The difference that was found matters more than the end of the session.
			_ = session.Close()
			return verified, err
		}
		verified.Add(one)
	}
	verified.Add(job.AllVerified(uint64(ids) - uint64(live.Len())))
	return verified, session.Close()
}

func (v *verifier) holdsFamily(family uint32) (job.Verified, error) {
	if err := v.maker.choose(v.session, family); err != nil {
		return job.Verified{}, err
	}
	if err := v.session.Refresh(); err != nil {
		return job.Verified{}, err
	}
	own := func(yield func(model.Entry) bool) {
		for _, entry := range v.live.Entries() {
			if entry.ID%v.maker.families == family && !yield(entry) {
				return
			}
		}
	}
	return v.scan(walk{limit: math.MaxUint64, way: engine.Forward}, own)
}

func wrong(what string, id uint32, found string) error {
	return job.Verification(fmt.Sprintf("%s: found %s. id=%d", what, found, id))
}
