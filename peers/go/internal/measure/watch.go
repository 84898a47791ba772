// Package measure has clocks, histograms, the operations of each second, and the kernel's counts
// for this process, as bench/src/measure.rs has. It does not know the measured work.
package measure

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"silt-bench-go/internal/job"
)

// Watch is the receiver of progress, and the time limit of a measured phase.
type Watch struct {
	// Tell is called at least once a second.
	Tell func(*job.Progress)
	// Cap is the time limit of a measured phase.
	Cap time.Duration
}

// count is one thread's count of operations, alone in its cache lines.
type count struct {
	done atomic.Uint64
	_    [120]byte
}

// Pace is the progress of the threads of a phase, and whether they must stop.
type Pace struct {
	counts []count
	stop   atomic.Bool
	aside  aside
}

// aside is the work done beside a phase, and the start of the present one.
type aside struct {
	sync.Mutex
	counted Counted
	since   time.Time
}

// Aside runs work that is not part of the phase, such as copying a directory. Its time does not
// count towards the time limit, and its resources are counted separately. Only one thread at a time
// may do this.
func (p *Pace) Aside(dir string, body func() error) error {
	begun := now(dir)
	p.aside.Lock()
	p.aside.since = begun.at
	p.aside.Unlock()
	err := body()
	p.aside.Lock()
	defer p.aside.Unlock()
	p.aside.since = time.Time{}
	p.aside.counted.Add(begun.countedSince())
	return err
}

// timeAside is the time spent on other work so far.
func (p *Pace) timeAside() time.Duration {
	p.aside.Lock()
	defer p.aside.Unlock()
	if p.aside.since.IsZero() {
		return p.aside.counted.time
	}
	return p.aside.counted.time + time.Since(p.aside.since)
}

// GoesOn records the operations that a thread has done; it returns whether the thread may continue.
func (p *Pace) GoesOn(thread uint32, done uint64) bool {
	p.counts[thread].done.Store(done)
	return !p.stop.Load()
}

func (p *Pace) done() uint64 {
	done := uint64(0)
	for index := range p.counts {
		done += p.counts[index].done.Load()
	}
	return done
}

// Watched is the name and the limits of a phase.
type Watched struct {
	Phase string
	// Total is the number of its operations; 0 if they are not counted.
	Total   uint64
	Threads uint32
	// Cap is its time limit; 0 is none.
	Cap time.Duration
}

// Seconds is the course of a phase.
type Seconds struct {
	// Samples are the operations of each whole second.
	Samples []uint64
	// Capped says whether it was cut off.
	Capped bool
	// Aside is the resources of work beside the phase.
	Aside Counted
}

// Run does a phase while another goroutine counts its seconds, reports them, and stops it at the
// time limit.
func (what Watched) Run(watch *Watch, body func(*Pace) error) (Seconds, error) {
	pace := &Pace{counts: make([]count, what.Threads)}
	over, sampled := make(chan struct{}), make(chan Seconds)
	go func() { sampled <- what.sample(watch, pace, over) }()
	err := body(pace)
	close(over)
	seconds := <-sampled
	seconds.Aside = pace.aside.counted
	return seconds, err
}

func (what Watched) sample(watch *Watch, pace *Pace, over <-chan struct{}) Seconds {
	start := time.Now()
	seconds := Seconds{Samples: []uint64{}}
	before := uint64(0)
	for {
		next := time.Duration(len(seconds.Samples)+1) * time.Second
		// The time limit is extended by the time of other work.
		limit := func() time.Duration {
			if what.Cap > 0 && !seconds.Capped {
				return what.Cap + pace.timeAside()
			}
			return math.MaxInt64
		}
		timer := time.NewTimer(min(next, limit()) - time.Since(start))
		select {
		case <-over:
			timer.Stop()
			return seconds
		case <-timer.C:
		}
		if time.Since(start) >= limit() {
			seconds.Capped = true
			pace.stop.Store(true)
		}
		if time.Since(start) >= next {
			done := pace.done()
			second := done - min(before, done)
			seconds.Samples = append(seconds.Samples, second)
			before = done
			watch.Tell(&job.Progress{
				Phase: what.Phase, Done: done, Total: what.Total, SecondOps: second,
			})
		}
	}
}
