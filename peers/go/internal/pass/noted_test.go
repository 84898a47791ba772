// The requests of a pass to an engine besides its calls, and their times: a bbolt that notes them.

package pass_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
)

const (
	// opening is the least duration of an opening.
	opening = 20 * time.Millisecond
	// looking is the duration for which settling continues to check after everything is quiet.
	looking = 200 * time.Millisecond
)

// notes are the requests in the throughput pass.
type notes struct {
	asked []string
	// cold says of each opening whether the page cache held nothing of the database, as far as the
	// system reports it.
	cold []bool
	// sessions is the number of sessions made.
	sessions atomic.Int64
}

func (n *notes) kind() engine.Kind {
	kind := engines.Bbolt
	kind.Open = func(dir string, config *job.Config) (engine.Engine, error) {
		isNoted := filepath.Base(dir) == "throughput"
		if isNoted {
			n.asked = append(n.asked, "open")
			n.cold = append(n.cold, !isWarm(filepath.Join(dir, "data.bbolt")))
			time.Sleep(opening)
		}
		db, err := engines.Bbolt.Open(dir, config)
		if !isNoted {
			return db, err
		}
		return &notedEngine{Engine: db, notes: n}, err
	}
	return kind
}

// isWarm says whether the page cache holds a part of a file. A non-blocking read would not tell,
// because it may start the read itself.
func isWarm(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	pages, err := exec.Command("fincore", "--noheadings", "--output", "PAGES", path).Output()
	return err == nil && strings.TrimSpace(string(pages)) != "0"
}

type notedEngine struct {
	engine.Engine
	notes *notes
}

func (e *notedEngine) Settle() (time.Time, error) {
	e.notes.asked = append(e.notes.asked, "settle")
	since, err := e.Engine.Settle()
	time.Sleep(looking)
	return since, err
}

func (e *notedEngine) Session() (engine.Session, error) {
	e.notes.sessions.Add(1)
	return e.Engine.Session()
}

func (e *notedEngine) Close() error {
	e.notes.asked = append(e.notes.asked, "close")
	return e.Engine.Close()
}

func noted(t *testing.T, op job.Op, change func(*job.Job)) (*notes, *job.Report) {
	t.Helper()
	var notes notes
	report, err := runRow(notes.kind(), row(t, op, change))
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return &notes, report
}

func TestAColdRowIsOpenedWithinEachOfItsPasses(t *testing.T) {
	notes, report := noted(t, job.Get, func(row *job.Job) { row.Work.State = job.Cold })
	wanted := strings.Fields("open settle close open settle close open close open settle close")
	if !slices.Equal(notes.asked, wanted) {
		t.Errorf("asked for %v", notes.asked)
	}
	if !notes.cold[1] || !notes.cold[2] {
		t.Errorf("not cold: %v", notes.cold)
	}
	if report.Throughput.Seconds < opening.Seconds() {
		t.Errorf("opening was not on the clock: %+v", report.Throughput)
	}
	if report.Latency.Calls != 2000 {
		t.Errorf("an opening is not a call: %d", report.Latency.Calls)
	}
}

func TestAWarmRowIsDoneTwiceMoreOnTheSameDatabaseAndCountedOnce(t *testing.T) {
	of := func(warmUp bool) (*notes, *job.Report) {
		return noted(t, job.Get, func(row *job.Job) {
			row.Extent = job.ExtentThroughput
			row.Work.WarmUp = warmUp
		})
	}
	cold, coldReport := of(false)
	warm, warmReport := of(true)
	threads := int64(row(t, job.Get, func(*job.Job) {}).Work.Threads)
	if warm.sessions.Load() != cold.sessions.Load()+2*threads {
		t.Errorf("%d sessions, and %d", cold.sessions.Load(), warm.sessions.Load())
	}
	if !slices.Equal(warm.asked, cold.asked) {
		t.Errorf("asked for %v, and %v", cold.asked, warm.asked)
	}
	if warmReport.Throughput.Ops != coldReport.Throughput.Ops {
		t.Errorf("%d operations, and %d", coldReport.Throughput.Ops, warmReport.Throughput.Ops)
	}
	if warmReport.Verified != coldReport.Verified {
		t.Errorf("%+v, and %+v", coldReport.Verified, warmReport.Verified)
	}
}

func TestEachOpeningOfAColdRowIsCold(t *testing.T) {
	notes, report := noted(t, job.Open, func(row *job.Job) {
		row.Work.State = job.Cold
		row.Extent = job.ExtentThroughput
	})
	wanted := strings.Fields("open settle close open close open close open settle close")
	if !slices.Equal(notes.asked, wanted) {
		t.Errorf("asked for %v", notes.asked)
	}
	if slices.Contains(notes.cold, false) {
		t.Errorf("not cold: %v", notes.cold)
	}
	if report.Throughput.Ops != 3 {
		t.Errorf("opened %d times", report.Throughput.Ops)
	}
}

func TestRowsThatWritePayForNoDebtOfTheirSeed(t *testing.T) {
	cases := []struct {
		op      job.Op
		state   job.State
		isBare  bool
		settles int
	}{
		// Once before the clock starts, once on it.
		{job.Mixed, job.AsIs, false, 2},
		{job.Get, job.AsIs, false, 1},
		{job.Mixed, job.Reopened, false, 1},
		{job.Put, job.AsIs, true, 1},
	}
	for _, one := range cases {
		notes, _ := noted(t, one.op, func(row *job.Job) {
			row.Extent = job.ExtentThroughput
			row.Work.State = one.state
			if one.isBare {
				row.Work.Seed = nil
			}
		})
		settles := 0
		for _, asked := range notes.asked {
			if asked == "settle" {
				settles++
			}
		}
		if settles != one.settles {
			t.Errorf("%+v: settled %d times", one, settles)
		}
	}
}

func TestLookingWhetherItStaysQuietIsNotCharged(t *testing.T) {
	_, report := noted(t, job.Put, func(row *job.Job) { row.Extent = job.ExtentThroughput })
	settling := report.Throughput.SettledSeconds - report.Throughput.Seconds
	if settling > looking.Seconds()/2 {
		t.Errorf("charged with %f s", settling)
	}
}
