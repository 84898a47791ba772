// Rows of transactions, on the engine that has them.

package pass_test

import (
	"strings"
	"testing"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
)

var transactions = []job.Op{
	job.TransactionPut, job.Increment, job.RangeIncrement, job.Transfer, job.InsertAbsent,
}

// hot lets threads meet at few keys.
func hot(row *job.Job) {
	row.Work.Keys, row.Work.Threads, row.Work.Run.Range = 16, 4, 4
	for index := range row.Work.Seed {
		row.Work.Seed[index].Percent = 10_000
	}
}

func TestTransactionsLoseNoUpdate(t *testing.T) {
	for _, op := range transactions {
		for name, change := range map[string]func(*job.Job){"many keys": nil, "few keys": hot} {
			t.Run(string(op)+"/"+name, func(t *testing.T) {
				report, err := runRow(engines.Bbolt, row(t, op, change))
				if err != nil {
					t.Fatal(err)
				}
				verified, found := report.Verified, report.Transactions
				if verified.Expected != verified.Checked || verified.Checked == 0 {
					t.Errorf("verified %d of %d", verified.Checked, verified.Expected)
				}
				if report.Throughput.Ops != 2000 || report.LogicalBytes == 0 {
					t.Errorf("nothing was measured: %+v", report)
				}
				if found == nil || !strings.HasPrefix(found.Isolation, "serializable") {
					t.Fatalf("no level: %+v", found)
				}
				if (found.SlowestShare != nil) != op.Competes() || found.Retries != 0 {
					t.Errorf("no sense: %+v", found)
				}
			})
		}
	}
}

func TestAnHonestTransactionBehindTheLiarPasses(t *testing.T) {
	for _, op := range transactions {
		if _, err := runRow(liar("nothing"), row(t, op, hot)); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestTransactionsThatAreNotDrivenAreUnsupported(t *testing.T) {
	for _, kind := range []engine.Kind{engines.Pebble, engines.Badger} {
		for _, op := range transactions {
			if _, err := runRow(kind, row(t, op, nil)); !isUnsupported(err) {
				t.Errorf("%s, %s: %v", kind.ID, op, err)
			}
		}
	}
	held := func(row *job.Job) { row.Work.Run.Held = 1 }
	if _, err := runRow(engines.Bbolt, row(t, job.Increment, held)); !isUnsupported(err) {
		t.Errorf("held: %v", err)
	}
}

func TestTheNullEngineMeasuresTheHarnessOfTransactions(t *testing.T) {
	for _, op := range transactions {
		report, err := runRow(engines.Null, row(t, op, nil))
		if err != nil || report.Throughput.Ops != 2000 {
			t.Errorf("%s: %v", op, err)
		}
	}
}
