// The measurements of a worker; other files fill them in.

package job

import "encoding/json"

// Report is the measurements of a worker.
type Report struct {
	Facts      Facts      `json:"facts"`
	Seed       []Phase    `json:"seed"`
	Throughput Throughput `json:"throughput"`
	// Latency and DBBytesCompacted are left out if only throughput was measured.
	Latency          *Latency `json:"latency,omitempty"`
	Verified         Verified `json:"verified"`
	LogicalBytes     uint64   `json:"logical_bytes"`
	DBBytes          uint64   `json:"db_bytes"`
	DBBytesCompacted *uint64  `json:"db_bytes_compacted,omitempty"`
	LiveBytes        uint64   `json:"live_bytes"`
	Usage            Usage    `json:"usage"`
	// Transactions is left out where there were none.
	Transactions *Transactions `json:"transactions,omitempty"`
}

// Transactions says how the transactions of the throughput pass went.
type Transactions struct {
	// Isolation is the level that the engine has, in words.
	Isolation string `json:"isolation"`
	// Retries are attempts beyond the first of each.
	Retries uint64 `json:"retries"`
	// SlowestShare are transactions of the slowest thread, over the mean of all threads; left out
	// unless threads compete.
	SlowestShare *float64 `json:"slowest_share,omitempty"`
}

// Phase is a seed phase.
type Phase struct {
	Ops     uint64  `json:"ops"`
	Seconds float64 `json:"seconds"`
}

// Throughput is the throughput pass.
type Throughput struct {
	Ops            uint64   `json:"ops"`
	Seconds        float64  `json:"seconds"`
	SettledSeconds float64  `json:"settled_seconds"`
	Samples        []uint64 `json:"samples"`
	Capped         bool     `json:"capped"`
}

// Latency is the latency pass, in nanoseconds of a call.
type Latency struct {
	Calls      uint64   `json:"calls"`
	OpsPerCall uint64   `json:"ops_per_call"`
	Min        uint64   `json:"min"`
	Avg        float64  `json:"avg"`
	P50        uint64   `json:"p50"`
	P95        uint64   `json:"p95"`
	P99        uint64   `json:"p99"`
	P999       uint64   `json:"p999"`
	P9999      uint64   `json:"p9999"`
	Max        uint64   `json:"max"`
	CVPercent  float64  `json:"cv_percent"`
	Curve      []Point  `json:"curve"`
	Rate       *float64 `json:"rate"`
}

// Point is one of a percentile curve.
type Point struct {
	Percentile  float64
	Nanoseconds uint64
}

// MarshalJSON writes a pair.
func (p Point) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]any{p.Percentile, p.Nanoseconds})
}

// Verified counts the comparisons.
type Verified struct {
	Expected uint64 `json:"expected"`
	Checked  uint64 `json:"checked"`
}

// AllVerified is count comparisons without a difference.
func AllVerified(count uint64) Verified {
	return Verified{Expected: count, Checked: count}
}

// Add adds further comparisons.
func (v *Verified) Add(other Verified) {
	v.Expected += other.Expected
	v.Checked += other.Checked
}

// Usage is the resources of a process.
type Usage struct {
	HarnessRSSBytes uint64  `json:"harness_rss_bytes"`
	PeakRSSBytes    uint64  `json:"peak_rss_bytes"`
	PeakVMSBytes    uint64  `json:"peak_vms_bytes"`
	CPUPercent      float64 `json:"cpu_percent"`
	ContextSwitches uint64  `json:"context_switches"`
	BytesWritten    uint64  `json:"bytes_written"`
	CountedAtDevice bool    `json:"counted_at_device"`
}
