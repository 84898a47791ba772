// Tests of the checks: each check meets a bbolt with the fault that it must detect.

package pass_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
)

// The faults of a liar; most occur once in lieEvery calls.
type lie string

const (
	dropsWrites     lie = "acknowledges puts that it drops"
	staleValues     lie = "returns what was there before"
	bentValues      lie = "returns values whose middle is wrong"
	truncatesScans  lie = "ends a scan one entry early"
	swapsEntries    lie = "shows two entries of a scan the wrong way round"
	swallowsDeletes lie = "acknowledges deletes that it does not do"
	seeksPast       lie = "goes to the entry after the one asked for"
	findsMissing    lie = "finds keys that never were"
	returnsErrors   lie = "returns an error"
	wrongKeys       lie = "shows the wrong key with the right value"
	losesUpdates    lie = "commits what another transaction overwrote unread"
)

const lieEvery = 97

// liar is bbolt with a fault.
func liar(told lie) engine.Kind {
	kind := engines.Bbolt
	kind.Open = func(dir string, config *job.Config) (engine.Engine, error) {
		db, err := engines.Bbolt.Open(dir, config)
		return &lyingEngine{Engine: db, lie: told}, err
	}
	return kind
}

type lyingEngine struct {
	engine.Engine
	lie   lie
	calls atomic.Uint64
}

func (e *lyingEngine) Session() (engine.Session, error) {
	session, err := e.Engine.Session()
	return &lyingSession{Session: session, engine: e}, err
}

// lies says whether the fault occurs in this call, if lie is its fault.
func (e *lyingEngine) lies(lie lie) bool {
	return e.lie == lie && e.calls.Add(1)%lieEvery == 0
}

type lyingSession struct {
	engine.Session
	engine *lyingEngine
}

func (s *lyingSession) Put(key, value []byte) error {
	switch {
	case s.engine.lies(returnsErrors):
		return errors.New("the disk is on fire")
	case s.engine.lies(dropsWrites):
		return nil
	case s.engine.lies(staleValues):
		found, err := s.Session.Get(key, func([]byte) {})
		if found || err != nil {
			return err
		}
	}
	return s.Session.Put(key, value)
}

func (s *lyingSession) Delete(key []byte) error {
	if s.engine.lies(swallowsDeletes) {
		return nil
	}
	return s.Session.Delete(key)
}

func (s *lyingSession) Get(key []byte, seen func([]byte)) (bool, error) {
	if s.engine.lies(returnsErrors) {
		return false, errors.New("the disk is on fire")
	}
	bends := s.engine.lies(bentValues)
	found, err := s.Session.Get(key, func(value []byte) {
		if bends {
			value = append([]byte(nil), value...)
			value[len(value)/2] ^= 1
		}
		seen(value)
	})
	return found || s.engine.lies(findsMissing), err
}

func (s *lyingSession) Seek(key []byte, seen func(_, _ []byte)) (bool, error) {
	if s.engine.lies(seeksPast) {
		key = append(append([]byte(nil), key...), 0)
	}
	return s.Session.Seek(key, func(key, value []byte) {
		if s.engine.lie == wrongKeys {
			key = key[:8]
		}
		seen(key, value)
	})
}

func (s *lyingSession) Scan(
	from []byte, limit uint64, way engine.Direction, seen func(_, _ []byte),
) (uint64, error) {
	type entry struct{ key, value []byte }
	var entries []entry
	_, err := s.Session.Scan(from, limit, way, func(key, value []byte) {
		entries = append(entries, entry{
			append([]byte(nil), key...), append([]byte(nil), value...),
		})
	})
	switch {
	case s.engine.lie == truncatesScans && len(entries) > 0:
		entries = entries[:len(entries)-1]
	case s.engine.lie == swapsEntries && len(entries) > 1:
		entries[0], entries[1] = entries[1], entries[0]
	}
	for _, one := range entries {
		if s.engine.lie == wrongKeys {
			one.key = one.key[:8]
		}
		seen(one.key, one.value)
	}
	return uint64(len(entries)), err
}

// Transact is lost as if another transaction had read the same and committed after it.
func (s *lyingSession) Transact(body func(engine.Transaction) error) error {
	isLost := s.engine.lies(losesUpdates)
	return s.Session.(engine.Transactor).Transact(func(transaction engine.Transaction) error {
		if isLost {
			transaction = lostTransaction{transaction}
		}
		return body(transaction)
	})
}

type lostTransaction struct {
	engine.Transaction
}

func (lostTransaction) Put(_, _ []byte) error { return nil }

func TestLiesAreRefused(t *testing.T) {
	cases := []struct {
		lie     lie
		op      job.Op
		message string
	}{
		{dropsWrites, job.Put, "scan: another entry"},
		{dropsWrites, job.Mixed, ""},
		{staleValues, job.Put, "scan: another entry"},
		{staleValues, job.YcsbA, "do not add up"},
		{bentValues, job.Get, "get: found another value"},
		{truncatesScans, job.Scan, "other entries were found"},
		{truncatesScans, job.ScanReverse, "other entries were found"},
		{truncatesScans, job.Range, "other entries were found"},
		{swapsEntries, job.Scan, "scan: another entry"},
		{swapsEntries, job.Range, "scan: another entry"},
		{swallowsDeletes, job.Delete, "scan: another entry"},
		{swallowsDeletes, job.Queue, ""},
		{seeksPast, job.Seek, "do not add up"},
		{findsMissing, job.GetMiss, "do not add up"},
		{wrongKeys, job.Seek, "do not add up"},
		{wrongKeys, job.Scan, "do not add up"},
		{wrongKeys, job.Range, "do not add up"},
		{wrongKeys, job.Queue, "do not add up"},
		{losesUpdates, job.TransactionPut, "scan: another entry"},
		{losesUpdates, job.Increment, "scan: another entry"},
		{losesUpdates, job.RangeIncrement, "scan: another entry"},
		{losesUpdates, job.Transfer, "scan: another entry"},
		{losesUpdates, job.InsertAbsent, "scan: another entry"},
	}
	for _, one := range cases {
		t.Run(string(one.op)+"/"+string(one.lie), func(t *testing.T) {
			// One thread, so that the fault always occurs in the same call.
			_, err := runRow(liar(one.lie), row(t, one.op, func(row *job.Job) {
				row.Work.Threads = 1
			}))
			if err == nil {
				t.Fatal("the lie went through")
			}
			failure := job.FailureOf(err)
			if failure.Kind != job.KindVerification {
				t.Errorf("refused for another reason: %v", failure)
			}
			if !strings.Contains(failure.Message, one.message) {
				t.Errorf("refused with %q", failure.Message)
			}
		})
	}
}

func TestErrorsFailWithTheirMessage(t *testing.T) {
	for _, op := range []job.Op{job.Put, job.Get, job.Mixed} {
		_, err := runRow(liar(returnsErrors), row(t, op, nil))
		if err == nil {
			t.Fatalf("%s: the error was swallowed", op)
		}
		failure := job.FailureOf(err)
		if failure.Kind != job.KindError || failure.Message != "the disk is on fire" {
			t.Errorf("%s: %v", op, failure)
		}
	}
}

func TestAnHonestEngineBehindTheLiarPasses(t *testing.T) {
	for _, op := range []job.Op{job.Put, job.Get, job.Scan, job.Queue} {
		if _, err := runRow(liar("nothing"), row(t, op, nil)); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}
