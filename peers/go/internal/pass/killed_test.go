// Rows on databases left by a kill. These tests kill nothing: a database that is still open while
// its directory is copied leaves the same files.

package pass_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/pass"
)

// killedRow is a small row on a database that a kill left in a store.
func killedRow(t *testing.T, op job.Op, change func(*job.Job)) *job.Job {
	return row(t, op, func(row *job.Job) {
		row.Work.State = job.Killed
		row.Store = filepath.Join(t.TempDir(), "store")
		if change != nil {
			change(row)
		}
	})
}

// leave leaves the database of a row, which stays open until the test ends.
func leave(t *testing.T, kind engine.Kind, row *job.Job) error {
	watch := &measure.Watch{Tell: func(*job.Progress) {}, Cap: time.Minute}
	db, left, err := pass.Leave(kind, row, draw(&row.Work), watch)
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	seeded := uint64(row.Work.Keys) * uint64(row.Work.Seed[0].Percent) / 100
	if seeded != left.Acknowledged {
		t.Errorf("left %d of %d", left.Acknowledged, seeded)
	}
	return nil
}

func mustLeave(t *testing.T, kind engine.Kind, row *job.Job) {
	t.Helper()
	if err := leave(t, kind, row); err != nil {
		t.Fatal(err)
	}
}

// opensOnce is bbolt, which refuses a directory where it was opened before.
func opensOnce() engine.Kind {
	kind := engines.Bbolt
	kind.Open = func(dir string, config *job.Config) (engine.Engine, error) {
		mark := filepath.Join(dir, "opened")
		if _, err := os.Stat(mark); err == nil {
			return nil, errors.New("it was opened before")
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return nil, err
		}
		return engines.Bbolt.Open(dir, config)
	}
	return kind
}

func TestRowsMeasureAndVerifyWhatAKillLeft(t *testing.T) {
	synced := func(row *job.Job) { row.Config.Durability = job.Synced }
	changes := map[string]func(*job.Job){"bbolt": nil, "badger": nil, "pebble": synced}
	for _, kind := range []engine.Kind{engines.Bbolt, engines.Badger, engines.Pebble} {
		for _, op := range []job.Op{job.Open, job.Scan, job.Delete} {
			t.Run(kind.ID+"/"+string(op), func(t *testing.T) {
				one := killedRow(t, op, changes[kind.ID])
				mustLeave(t, kind, one)
				report, err := runRow(kind, one)
				if err != nil {
					t.Fatal(err)
				}
				checkReport(t, op, report)
				if len(report.Seed) != 1 || report.Seed[0].Ops != 500 {
					t.Errorf("%+v", report.Seed)
				}
			})
		}
	}
}

func TestEachOpeningFindsAFreshCopy(t *testing.T) {
	one := killedRow(t, job.Open, func(row *job.Job) { row.Extent = job.ExtentThroughput })
	mustLeave(t, engines.Bbolt, one)
	report, err := runRow(opensOnce(), one)
	if err != nil || report.Throughput.Ops != 3 {
		t.Fatal(report, err)
	}
	one.Work.State = job.Settled
	if _, err := runRow(opensOnce(), one); err == nil || err.Error() != "it was opened before" {
		t.Fatal("what the last opening left was not found:", err)
	}
}

func TestWhatAKillTookIsCounted(t *testing.T) {
	cases := []struct {
		left, asked uint32
		message     string
	}{
		{98, 100, "kill -9 took 10 of 500 acknowledged entries, 0 have another value"},
		{100, 150, "kill -9 took 0 of 500 acknowledged entries, 250 have another value"},
	}
	for _, one := range cases {
		row := killedRow(t, job.Open, func(row *job.Job) { row.Work.Seed[0].Percent = one.left })
		mustLeave(t, engines.Bbolt, row)
		row.Work.Seed[0].Percent = one.asked
		_, err := runRow(engines.Bbolt, row)
		if err == nil {
			t.Fatal("the loss went through")
		}
		failure := job.FailureOf(err)
		if failure.Kind != job.KindVerification || !strings.Contains(failure.Message, one.message) {
			t.Error(failure)
		}
	}
}

func TestAnEngineThatDoesNotRecoverSaysThatItWasKilled(t *testing.T) {
	one := killedRow(t, job.Open, nil)
	// It finds its own mark in the copy.
	mustLeave(t, opensOnce(), one)
	_, err := runRow(opensOnce(), one)
	if err == nil || job.FailureOf(err).Message != "after kill -9: it was opened before" {
		t.Fatal(err)
	}
}

func TestAnEngineThatPromisesNothingIsUnsupported(t *testing.T) {
	one := killedRow(t, job.Open, nil)
	err := leave(t, engines.Pebble, one)
	if !isUnsupported(err) || !strings.Contains(err.Error(), "may lose acknowledged commits") {
		t.Fatal(err)
	}
	if _, err := os.Stat(one.Store); err == nil {
		t.Error("it was seeded before it was refused")
	}
}

func TestAWorkerDoesNotDoWhatTakesAKillItself(t *testing.T) {
	one := killedRow(t, job.Open, nil)
	for _, store := range []string{"", one.Store} {
		one.Store = store
		_, err := runRow(engines.Bbolt, one)
		if err == nil || !strings.Contains(err.Error(), "no process that was killed") {
			t.Error(err)
		}
		if entries, err := os.ReadDir(one.Dir); err != nil || len(entries) > 0 {
			t.Error("it was seeded", err)
		}
	}
}

func TestOnlyWhatCanBeLostIsLeftAndOnlyOnce(t *testing.T) {
	filled := killedRow(t, job.Open, nil)
	mustLeave(t, engines.Bbolt, filled)
	cases := []struct {
		change  func(*job.Job)
		message string
	}{
		{func(row *job.Job) { row.Work.Seed = nil }, "nothing was seeded"},
		{func(row *job.Job) { row.Work.State = job.Settled }, "in another state"},
		{func(row *job.Job) { row.Store = "" }, "no empty store"},
		{func(row *job.Job) { row.Store = filled.Store }, "no empty store"},
	}
	for _, one := range cases {
		err := leave(t, engines.Bbolt, killedRow(t, job.Open, one.change))
		if err == nil || !strings.Contains(err.Error(), one.message) {
			t.Error(one.message, err)
		}
	}
}
