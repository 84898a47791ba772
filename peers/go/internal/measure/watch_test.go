// Tests of work beside a phase: it counts neither as its time nor as its resources.

package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"silt-bench-go/internal/job"
)

func TestWhatIsDoneAsideIsNotCounted(t *testing.T) {
	dir := t.TempDir()
	watch := &Watch{Tell: func(*job.Progress) {}, Cap: 400 * time.Millisecond}
	what := Watched{Phase: "test", Threads: 1, Cap: watch.Cap}
	copies := func() error {
		time.Sleep(2 * watch.Cap)
		return os.WriteFile(filepath.Join(dir, "copy"), make([]byte, 8<<20), 0o644)
	}
	meter := StartMeter(dir, AtProcess, 0)
	seconds, err := what.Run(watch, func(pace *Pace) error { return pace.Aside(dir, copies) })
	if err != nil || seconds.Capped || seconds.Aside.time < 2*watch.Cap {
		t.Fatal(seconds, err)
	}
	all, own := meter.Stop(Counted{}), meter.Stop(seconds.Aside)
	if all.BytesWritten > 0 && all.BytesWritten < own.BytesWritten+1<<20 {
		t.Error(all, own)
	}
	// After that, as much time is left as before.
	var rest time.Duration
	seconds, err = what.Run(watch, func(pace *Pace) error {
		time.Sleep(watch.Cap / 2)
		err := pace.Aside(dir, copies)
		start := time.Now()
		for pace.GoesOn(0, 0) {
			time.Sleep(time.Millisecond)
		}
		rest = time.Since(start)
		return err
	})
	if err != nil || !seconds.Capped || rest < watch.Cap/8 {
		t.Fatal(seconds, rest, err)
	}
}
