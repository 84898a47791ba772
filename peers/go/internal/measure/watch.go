// Package measure has clocks, histograms, seconds as they pass, and what the kernel says of this
// process, as bench/src/measure.rs has. It does not know what is measured.
package measure

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"silt-bench-go/internal/job"
)

// Watch is who hears how far a phase is, and after how long it is cut off.
type Watch struct {
	// Tell is called at least once a second.
	Tell func(*job.Progress)
	// Cap is the longest a measured phase may take.
	Cap time.Duration
}

// count is one thread's count of operations, alone in its cache lines.
type count struct {
	done atomic.Uint64
	_    [120]byte
}

// Pace says how far the threads of a phase are, and whether they shall stop.
type Pace struct {
	counts []count
	stop   atomic.Bool
	aside  aside
}

// aside is what was done beside a phase, and since when something is.
type aside struct {
	sync.Mutex
	counted Counted
	since   time.Time
}

// Aside does something that is no part of the phase, such as to copy into a directory: it takes
// nothing of the time after which the phase is cut off, and what it uses is told apart. One thread
// at a time.
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

// timeAside is how long it did something else so far.
func (p *Pace) timeAside() time.Duration {
	p.aside.Lock()
	defer p.aside.Unlock()
	if p.aside.since.IsZero() {
		return p.aside.counted.time
	}
	return p.aside.counted.time + time.Since(p.aside.since)
}

// GoesOn: a thread has done so many; whether it may go on.
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

// Watched is what a phase is called and how long it may be.
type Watched struct {
	Phase string
	// Total is the number of its operations; 0 if they are not counted.
	Total   uint64
	Threads uint32
	// Cap is after how long it is cut off; 0 is never.
	Cap time.Duration
}

// Seconds is how a phase went.
type Seconds struct {
	// Samples are the operations of each whole second.
	Samples []uint64
	// Capped: it was cut off.
	Capped bool
	// Aside is what it did beside its work.
	Aside Counted
}

// Run does a phase while another goroutine counts its seconds, tells of them, and cuts it off.
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
		// It moves on while the phase does something else.
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
