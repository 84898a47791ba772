// Plans as they are told: they arrive as they were written, and what is not done as it is meant is
// refused.

package pass_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/plan"
)

func TestPlansArriveAsTheyWereWritten(t *testing.T) {
	for _, op := range append(append([]job.Op{}, ops...), transactions...) {
		work := &row(t, op, nil).Work
		drawn := draw(work)
		told, err := plan.Read(written(drawn), work)
		if err != nil {
			t.Fatal(op, err)
		}
		for index, one := range told.Plans {
			// As text, where an empty list is one that is nil.
			found, wanted := fmt.Sprintf("%+v", one), fmt.Sprintf("%+v", drawn.Plans[index])
			if found != wanted {
				t.Errorf("%s: %s is not %s", op, found, wanted)
			}
		}
		if told.Witness != drawn.Witness || !reflect.DeepEqual(told.Seeds, drawn.Seeds) {
			t.Errorf("%s: another seed or witness", op)
		}
	}
}

func TestAPlanThatIsCutShortIsRefused(t *testing.T) {
	work := &row(t, job.Mixed, nil).Work
	whole := written(draw(work)).Bytes()
	for _, length := range []int{0, 3, 24, 1000, 2100, len(whole) - 1} {
		_, err := plan.Read(bytes.NewReader(whole[:length]), work)
		if err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

func TestWhatIsNotDrivenIsUnsupported(t *testing.T) {
	work := &row(t, job.Put, nil).Work
	changes := map[int]byte{
		// The commit of the first seed: a bulk load.
		12: 1,
		// Its step, behind its ids: the first after those that there are.
		24 + 4*250: 8,
	}
	for at, value := range changes {
		bent := written(draw(work)).Bytes()
		bent[at] = value
		if _, err := plan.Read(bytes.NewReader(bent), work); !isUnsupported(err) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	if _, err := runRow(engines.Bbolt, seedOfRange(t)); !isUnsupported(err) {
		t.Error("it deletes no ranges, but says", err)
	}
	unknown := row(t, job.Put, nil)
	told := draw(&unknown.Work)
	told.Plans = []*plan.Plan{{}, {}}
	if _, err := runTold(engines.Bbolt, unknown, told); !isUnsupported(err) {
		t.Errorf("a plan of nothing: %v", err)
	}
}

func TestAnotherWitnessIsRefused(t *testing.T) {
	changes := []func(*plan.Witness){
		func(told *plan.Witness) { told.Entries++ },
		func(told *plan.Witness) { told.Sum++ },
		func(told *plan.Witness) { told.Samples++ },
	}
	for index, change := range changes {
		one := row(t, job.Get, nil)
		told := draw(&one.Work)
		change(&told.Witness)
		_, err := runTold(engines.Bbolt, one, told)
		if err == nil || !strings.Contains(err.Error(), "differ from those of the runner") {
			t.Errorf("change %d: %v", index, err)
		}
	}
}

// seedOfRange is a row whose seed ends with the deletion of a range.
func seedOfRange(t *testing.T) *job.Job {
	return row(t, job.Seek, func(row *job.Job) {
		row.Work.Threads = 1
		gone := job.Seed{Op: job.SeedDeleteRange, Percent: 60, Batch: 1}
		row.Work.Seed = append(row.Work.Seed, gone)
	})
}

func TestASeedDeletesARange(t *testing.T) {
	report, err := runRow(engines.Pebble, seedOfRange(t))
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, job.Seek, report)
	if left := report.LiveBytes / 116; left != 200 || report.Seed[1].Ops != 1 {
		t.Errorf("%d entries are left: %+v", left, report.Seed)
	}
}
