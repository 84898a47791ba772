// A clock around each call, and the summary of its histogram. It does not know the calls.

package measure

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"silt-bench-go/internal/job"
)

const (
	// callNanosMax is the longest call that a histogram holds: an hour.
	callNanosMax = 3_600_000_000_000
	// curvePoints is the number of points of a percentile curve.
	curvePoints = 40
)

// epoch is the base of the monotonic clock; a difference costs less than a reading of all clocks.
var epoch = time.Now()

// Clock measures each call. In an open loop each operation has a due time, and its latency counts
// from there. A nil clock measures nothing and reads no time, as in the throughput pass.
type Clock struct {
	// Histogram has the durations of calls, in nanoseconds.
	Histogram *hdrhistogram.Histogram
	period    time.Duration
	due       time.Duration
}

// NewClock makes a clock for one operation each period, or as fast as possible if it is 0.
func NewClock(period time.Duration) *Clock {
	return &Clock{Histogram: newHistogram(), period: period}
}

// Begin is called when the threads have started.
func (c *Clock) Begin() {
	if c != nil {
		c.due = time.Since(epoch)
	}
}

// Next is called before each operation; in an open loop it waits until the operation is due.
func (c *Clock) Next() {
	if c == nil || c.period == 0 {
		return
	}
	c.due += c.period
	for time.Since(epoch) < c.due {
	}
}

// Start is the begin of a call.
func (c *Clock) Start() time.Duration {
	if c == nil {
		return 0
	}
	if c.period > 0 {
		return c.due
	}
	return time.Since(epoch)
}

// Stop ends a call that began at start.
func (c *Clock) Stop(start time.Duration) error {
	if c == nil {
		return nil
	}
	nanos := (time.Since(epoch) - start).Nanoseconds()
	return c.Histogram.RecordValue(min(max(nanos, 1), callNanosMax))
}

// newHistogram is an empty histogram of nanoseconds with three exact digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, callNanosMax, 3)
}

// Merged adds up the histograms of clocks.
func Merged(clocks []*Clock) *hdrhistogram.Histogram {
	all := newHistogram()
	for _, clock := range clocks {
		all.Merge(clock.Histogram)
	}
	return all
}

// Latency is the summary of a histogram.
func Latency(all *hdrhistogram.Histogram, opsPerCall uint64, rate *float64) *job.Latency {
	if all.TotalCount() == 0 {
		return &job.Latency{OpsPerCall: opsPerCall, Rate: rate, Curve: []job.Point{}}
	}
	at := func(quantile float64) uint64 { return atQuantile(all, quantile) }
	return &job.Latency{
		Calls:      uint64(all.TotalCount()),
		OpsPerCall: opsPerCall,
		Min:        uint64(all.Min()),
		Avg:        all.Mean(),
		P50:        at(0.5),
		P95:        at(0.95),
		P99:        at(0.99),
		P999:       at(0.999),
		P9999:      at(0.9999),
		Max:        uint64(all.Max()),
		CVPercent:  100 * all.StdDev() / max(all.Mean(), 1),
		Curve:      curve(at),
		Rate:       rate,
	}
}

// atQuantile is the value that this share of the calls does not exceed. The rank is rounded up, as
// the Rust histogram does; the Go one rounds to the nearest.
func atQuantile(all *hdrhistogram.Histogram, quantile float64) uint64 {
	total := float64(all.TotalCount())
	rank := max(math.Ceil(quantile*total), 1)
	return uint64(min(all.ValueAtPercentile(100*rank/total), all.Max()))
}

// curve has even steps in the number of nines, from below the median to six nines.
func curve(at func(float64) uint64) []job.Point {
	points := make([]job.Point, curvePoints)
	for step := range points {
		quantile := 1 - math.Pow(10, -6*float64(step)/(curvePoints-1))
		points[step] = job.Point{Percentile: 100 * quantile, Nanoseconds: at(quantile)}
	}
	return points
}
