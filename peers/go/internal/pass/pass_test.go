// Tests of all engines with all operations, at a small size.

package pass_test

import (
	"strings"
	"testing"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/pass"
	"silt-bench-go/internal/plan"
)

var ops = []job.Op{
	job.Put, job.Delete, job.PutDelete, job.Get, job.GetMiss, job.Seek, job.Range, job.Scan,
	job.ScanReverse, job.Iterate, job.Mixed, job.MixedInsert, job.YcsbA, job.YcsbB, job.YcsbC, job.YcsbD,
	job.YcsbE, job.YcsbF, job.Queue, job.RangeDelete, job.Open, job.Compact,
}

// row is a small row, changed by change.
func row(t *testing.T, op job.Op, change func(*job.Job)) *job.Job {
	run := job.Run{Op: op, Ops: 2000, Batch: 1, Range: 7}
	switch op {
	case job.Open:
		run.Ops = 3
	case job.RangeDelete:
		run.Ops = 20
	}
	work := job.Work{
		Keys: 500, KeyBytes: 16, ValueBytes: 100, CompressiblePercent: 50, Threads: 2,
		Seed:  []job.Seed{{Op: job.SeedPut, Percent: 100, Batch: 100}},
		State: job.Settled, Run: run,
	}
	if op == job.Queue {
		work.Threads = 1
	}
	if op == job.InsertAbsent {
		work.Seed = nil
	}
	config := job.Config{
		WriteBufferBytes: 16 << 20, CacheBytes: 8 << 20, BloomBitsPerKey: 10,
		Codec: job.CodecLZ4, Durability: job.Buffered, Arm: job.ArmEqual, Table: job.TableBlock,
		Families: 1, EntriesMax: 10_000, BytesMax: 4 << 20,
	}
	row := &job.Job{Dir: t.TempDir(), Config: config, Work: work, CapSeconds: 60}
	if change != nil {
		change(row)
	}
	return row
}

func runRow(kind engine.Kind, row *job.Job) (*job.Report, error) {
	return runTold(kind, row, draw(&row.Work))
}

func runTold(kind engine.Kind, row *job.Job, told *plan.Told) (*job.Report, error) {
	cap := time.Duration(row.CapSeconds * float64(time.Second))
	return pass.Run(kind, row, told, &measure.Watch{Tell: func(*job.Progress) {}, Cap: cap})
}

func isUnsupported(err error) bool {
	return err != nil && job.FailureOf(err).Kind == job.KindUnsupported
}

func TestEnginesPassEveryOperationThatTheyHave(t *testing.T) {
	for _, kind := range []engine.Kind{engines.Bbolt, engines.Pebble, engines.Badger} {
		for _, op := range ops {
			t.Run(kind.ID+"/"+string(op), func(t *testing.T) {
				report, err := runRow(kind, row(t, op, nil))
				lacks := op == job.RangeDelete && kind.ID != "pebble" ||
					op == job.Compact && kind.ID == "bbolt"
				if lacks {
					if !isUnsupported(err) {
						t.Fatalf("not told to be unsupported: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				checkReport(t, op, report)
			})
		}
	}
}

func checkReport(t *testing.T, op job.Op, report *job.Report) {
	t.Helper()
	verified := report.Verified
	if verified.Expected != verified.Checked || verified.Checked < 400 {
		t.Errorf("verified %d of %d", verified.Checked, verified.Expected)
	}
	if report.Throughput.Ops == 0 || report.Latency.Calls == 0 || report.DBBytes == 0 {
		t.Errorf("nothing was measured: %+v", report)
	}
	if report.LogicalBytes == 0 && op != job.GetMiss {
		t.Error("no logical bytes")
	}
	if len(report.Latency.Curve) == 0 || report.Latency.Max < report.Latency.P50 {
		t.Errorf("latency makes no sense: %+v", report.Latency)
	}
}

func TestStatesArmsAndBatchesHoldWhatWasWritten(t *testing.T) {
	changes := map[string]func(*job.Job){
		"as-is":     func(row *job.Job) { row.Work.State = job.AsIs },
		"compacted": func(row *job.Job) { row.Work.State = job.Compacted },
		"reopened":  func(row *job.Job) { row.Work.State = job.Reopened },
		"cold":      func(row *job.Job) { row.Work.State = job.Cold },
		"batches":   func(row *job.Job) { row.Work.Run.Batch = 30 },
		"defaults":  func(row *job.Job) { row.Config.Arm = job.ArmDefaults },
		"synced": func(row *job.Job) {
			row.Config.Durability = job.Synced
			row.Work.Run.Ops = 100
		},
		"open-loop":    func(row *job.Job) { row.Work.Run.OpenLoopPercent = 50 },
		"fixed-rate":   func(row *job.Job) { row.Work.Run.OpenLoopPerS = 20000 },
		"uncompressed": func(row *job.Job) { row.Config.Codec = job.CodecNone },
		"level0-runs":  func(row *job.Job) { runs := uint32(8); row.Config.Level0Runs = &runs },
	}
	for _, kind := range []engine.Kind{engines.Bbolt, engines.Pebble, engines.Badger} {
		for name, change := range changes {
			t.Run(kind.ID+"/"+name, func(t *testing.T) {
				_, err := runRow(kind, row(t, job.Mixed, change))
				if lacks := kind.ID == "bbolt" && name == "level0-runs"; lacks {
					if err == nil || job.FailureOf(err).Kind != job.KindUnsupported {
						t.Fatal("it has no level 0, but says", err)
					}
				} else if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestFamiliesAreBucketsOrUnsupported(t *testing.T) {
	families := func(row *job.Job) {
		row.Config.Families = 3
		row.Work.Seed[0].Batch = 1
	}
	if _, err := runRow(engines.Bbolt, row(t, job.Mixed, families)); err != nil {
		t.Error(err)
	}
	for _, kind := range []engine.Kind{engines.Pebble, engines.Badger} {
		if _, err := runRow(kind, row(t, job.Mixed, families)); !isUnsupported(err) {
			t.Errorf("%s: not told to be unsupported: %v", kind.ID, err)
		}
	}
}

func TestABatchThatExceedsATransactionIsUnsupported(t *testing.T) {
	_, err := runRow(engines.Badger, row(t, job.Put, func(row *job.Job) {
		row.Config.WriteBufferBytes = 4 << 20
		row.Work.ValueBytes = 10_000
		row.Work.Run.Batch = 500
	}))
	if !isUnsupported(err) || !strings.Contains(err.Error(), "exceed its transaction") {
		t.Fatal(err)
	}
}

func TestACappedRowIsVerifiedAsFarAsItCame(t *testing.T) {
	report, err := runRow(engines.Bbolt, row(t, job.YcsbA, func(row *job.Job) {
		row.Work.Run.Ops = 20_000_000
		row.CapSeconds = 0.05
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !report.Throughput.Capped || report.Throughput.Ops >= 20_000_000 {
		t.Errorf("not capped: %d operations", report.Throughput.Ops)
	}
	if report.Verified.Checked == 0 {
		t.Error("nothing was verified")
	}
}

func TestAPassDoesNoMoreThanTheOneBeforeThatWasCutOff(t *testing.T) {
	report, err := runRow(engines.Bbolt, row(t, job.Get, func(row *job.Job) {
		row.Work.Threads = 1
		row.Work.Run.Ops = 200_000
		// So slow with clocks that it is cut off.
		row.Work.Run.OpenLoopPercent = 1
		row.CapSeconds = 0.2
	}))
	if err != nil {
		t.Fatal(err)
	}
	ops, calls := report.Throughput.Ops, report.Latency.Calls
	if calls >= ops/2 || report.Verified.Checked != ops+calls {
		t.Errorf("%d operations, %d calls, %d checked", ops, calls, report.Verified.Checked)
	}
}

func TestTheNullEngineMeasuresTheHarness(t *testing.T) {
	for _, op := range ops {
		report, err := runRow(engines.Null, row(t, op, nil))
		if err != nil {
			t.Errorf("%s: %v", op, err)
		} else if report.Throughput.Ops == 0 && op != job.Compact {
			t.Errorf("%s: nothing was done", op)
		}
	}
}
