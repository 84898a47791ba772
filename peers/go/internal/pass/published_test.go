// Tests of keys and values of published benchmarks, of seeding that is cut off, and of rows with
// throughput only.

package pass_test

import (
	"encoding/json"
	"strings"
	"testing"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
)

// reading are operations whose answers depend on the order of keys, and gets.
var reading = []job.Op{job.Get, job.GetMiss, job.Seek, job.Range, job.Scan, job.ScanReverse}

func TestKeysAndValuesOfPublishedBenchmarksAreFoundInTheirOrder(t *testing.T) {
	for _, style := range []data.KeyStyle{data.Counter, data.ReversedCounter} {
		for _, op := range reading {
			report, err := runRow(engines.Bbolt, row(t, op, func(row *job.Job) {
				row.Work.KeyStyle, row.Work.ValueStyle = style, data.Ramp
				// Ranges skip deleted keys, and gets do not find them.
				gone := job.Seed{Op: job.SeedDelete, Percent: 10, Batch: 100}
				row.Work.Seed = append(row.Work.Seed, gone)
			}))
			if err != nil {
				t.Errorf("%s in style %d: %v", op, style, err)
				continue
			}
			checkReport(t, op, report)
		}
	}
}

func TestLiesAboutKeysInReversedOrderAreRefused(t *testing.T) {
	cases := []struct {
		lie lie
		op  job.Op
	}{{seeksPast, job.Seek}, {swapsEntries, job.Range}, {truncatesScans, job.Scan}}
	for _, one := range cases {
		_, err := runRow(liar(one.lie), row(t, one.op, func(row *job.Job) {
			row.Work.KeyStyle, row.Work.ValueStyle = data.ReversedCounter, data.Ramp
			row.Work.Threads = 1
		}))
		if err == nil || job.FailureOf(err).Kind != job.KindVerification {
			t.Errorf("%s: %s: %v", one.op, one.lie, err)
		}
	}
}

func TestSeedingIsNotCutOff(t *testing.T) {
	report, err := runRow(engines.Bbolt, row(t, job.Get, func(row *job.Job) {
		row.Work.Keys = 5_000
		row.Work.Seed[0].Batch = 10
		row.CapSeconds = 0.001
	}))
	if err != nil {
		t.Fatal(err)
	}
	if seed := report.Seed[0]; seed.Ops != 5_000 || seed.Seconds < 0.01 {
		t.Errorf("%+v", seed)
	}
}

func TestOnlyThroughputIsMeasuredWhereOnlyThatIsAskedFor(t *testing.T) {
	for _, op := range ops {
		if op == job.Compact || op == job.RangeDelete {
			continue
		}
		opened := 0
		kind := engines.Bbolt
		kind.Open = func(dir string, config *job.Config) (engine.Engine, error) {
			opened++
			return engines.Bbolt.Open(dir, config)
		}
		report, err := runRow(kind, row(t, op, func(row *job.Job) {
			row.Extent = job.ExtentThroughput
		}))
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		verified, throughput := report.Verified, report.Throughput
		if verified.Expected != verified.Checked || verified.Checked == 0 && op != job.GetMiss {
			t.Errorf("%s: verified %d of %d", op, verified.Checked, verified.Expected)
		}
		if throughput.Ops == 0 || report.DBBytes == 0 || len(report.Seed) != 1 {
			t.Errorf("%s: nothing was measured: %+v", op, report)
		}
		// Once to seed. Rows that write reopen it to compare; the operation Open opens it, too.
		expected := 1
		if op.Writes() {
			expected = 2
		} else if op == job.Open {
			expected = 1 + int(throughput.Ops)
		}
		if opened != expected {
			t.Errorf("%s: opened %d times, not %d", op, opened, expected)
		}
		checkLeftOut(t, report)
	}
}

func checkLeftOut(t *testing.T, report *job.Report) {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"latency", "db_bytes_compacted"} {
		if _, isThere := fields[name]; isThere {
			t.Errorf("%s is told", name)
		}
	}
	stay := []string{
		"seed", "throughput", "usage", "verified", "db_bytes", "live_bytes", "logical_bytes",
		"facts",
	}
	for _, name := range stay {
		if _, isThere := fields[name]; !isThere {
			t.Errorf("%s is not told", name)
		}
	}
}

func TestLiesAreRefusedWhereOnlyThroughputIsMeasured(t *testing.T) {
	cases := []struct {
		lie     lie
		op      job.Op
		message string
	}{
		{dropsWrites, job.Put, "scan: another entry"},
		{staleValues, job.YcsbA, "do not add up"},
		{truncatesScans, job.Scan, "other entries were found"},
		{findsMissing, job.GetMiss, "do not add up"},
	}
	for _, one := range cases {
		_, err := runRow(liar(one.lie), row(t, one.op, func(row *job.Job) {
			row.Extent, row.Work.Threads = job.ExtentThroughput, 1
		}))
		if err == nil || !strings.Contains(err.Error(), one.message) {
			t.Errorf("%s: %s: %v", one.op, one.lie, err)
		}
	}
}
