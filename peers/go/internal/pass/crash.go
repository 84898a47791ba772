// The worker's side of a crash test: it commits one by one until it is killed, or counts the
// commits that another worker left. The runner kills the worker, and judges the count.

package pass

import (
	"bytes"
	"fmt"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

const (
	crashKeyBytes = 16
	// crashVersion is the only version of a value.
	crashVersion = 1
)

var crashValues = data.Shape{Style: data.Marked, Bytes: 100, CompressiblePercent: 50}

// Commit commits, and reports each acknowledged commit. The database stays open, because closing
// would make durable what the commits did not.
func Commit(kind engine.Kind, test *job.CrashTest, tell func(*job.Progress)) error {
	db, err := kind.Open(test.Dir, &test.Config)
	if err != nil {
		return err
	}
	session, err := db.Session()
	if err != nil {
		return err
	}
	keys := data.NewKeyMaker(data.Sparse, crashKeyBytes)
	values := data.NewValueMaker(crashValues)
	for id := range test.Commits {
		if err := session.Put(keys.Key(id), values.Value(id, crashVersion)); err != nil {
			return err
		}
		tell(&job.Progress{Phase: "commit", Done: uint64(id) + 1, Total: uint64(test.Commits)})
	}
	return nil
}

// Count counts the commits that are present.
func Count(kind engine.Kind, test *job.CrashTest) (*job.Survived, error) {
	db, err := kind.Open(test.Dir, &test.Config)
	if err != nil {
		return nil, err
	}
	session, err := db.Session()
	if err != nil {
		return nil, err
	}
	survived := &job.Survived{Class: kind.Facts(&test.Config).Class}
	keys := data.NewKeyMaker(data.Sparse, crashKeyBytes)
	values := data.NewValueMaker(crashValues)
	isWhole, isRight := true, false
	seen := func(value []byte) {
		isRight = bytes.Equal(value, values.Current())
	}
	for id := range test.Commits {
		values.Value(id, crashVersion)
		isRight = false
		isThere, err := session.Get(keys.Key(id), seen)
		if err != nil {
			return nil, err
		}
		if isThere && !isRight {
			return nil, job.Verification(fmt.Sprintf("commit %d has another value", id))
		}
		isWhole = isWhole && isThere
		if isWhole {
			survived.Found++
		} else if isThere {
			survived.Beyond++
		}
	}
	return survived, inTurn(session.Close, db.Close)
}
