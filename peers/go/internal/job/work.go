// Workloads; other files make plans of them.

package job

import "silt-bench-go/internal/data"

// Work is a workload.
type Work struct {
	Keys uint32 `json:"keys"`
	// KeyStyle and ValueStyle may be left out; they are then the first of their kind.
	KeyStyle            data.KeyStyle   `json:"key_style"`
	KeyBytes            uint32          `json:"key_bytes"`
	ValueStyle          data.ValueStyle `json:"value_style"`
	ValueBytes          uint32          `json:"value_bytes"`
	CompressiblePercent uint32          `json:"compressible_percent"`
	Threads             uint32          `json:"threads"`
	Seed                []Seed          `json:"seed"`
	State               State           `json:"state"`
	// WarmUp: the throughput pass is done twice before it counts. It may be left out.
	WarmUp bool `json:"warm_up"`
	Run    Run  `json:"run"`
}

// EntryBytes are the bytes of a key and its value.
func (w *Work) EntryBytes() uint64 {
	return uint64(w.KeyBytes) + uint64(w.ValueBytes)
}

// Values is the shape of values.
func (w *Work) Values() data.Shape {
	return data.Shape{
		Style: w.ValueStyle, Bytes: w.ValueBytes, CompressiblePercent: w.CompressiblePercent,
	}
}

// IDs is the upper bound of the ids: the seeded ones and those that the measured phase inserts.
func (w *Work) IDs() uint64 {
	switch w.Run.Op {
	case YcsbD, YcsbE, MixedInsert, Queue:
		return uint64(w.Keys) + w.Run.Ops
	}
	return uint64(w.Keys)
}

// Seed is a phase before the measured one, timed on its own.
type Seed struct {
	Op      SeedOp `json:"op"`
	Percent uint32 `json:"percent"`
	Batch   uint32 `json:"batch"`
}

// SeedOp is the operation of a seed phase.
type SeedOp string

// The operations of seed phases.
const (
	SeedPut    SeedOp = "put"
	SeedDelete SeedOp = "delete"
	// SeedDeleteRange deletes the first ids in one operation; the row has one thread.
	SeedDeleteRange SeedOp = "delete-range"
)

// State is the state of the database before the measured phase.
type State string

// The states.
const (
	AsIs      State = "as-is"
	Settled   State = "settled"
	Compacted State = "compacted"
	Reopened  State = "reopened"
	// Cold is settled; each pass opens it within its time, with empty caches.
	Cold State = "cold"
	// Killed is left by a killed process: each opening finds a fresh copy.
	Killed State = "killed"
)

// Run is the measured phase.
type Run struct {
	Op              Op     `json:"op"`
	Ops             uint64 `json:"ops"`
	Batch           uint32 `json:"batch"`
	Range           uint32 `json:"range"`
	OpenLoopPercent uint32 `json:"open_loop_percent"`
	OpenLoopPerS    uint64 `json:"open_loop_per_s"`
	// Held are transactions that are held open meanwhile.
	Held uint32 `json:"held"`
}

// Op is a measured operation.
type Op string

// The operations; bench/src/job.rs says what each does.
const (
	Put         Op = "put"
	Delete      Op = "delete"
	PutDelete   Op = "put-delete"
	Get         Op = "get"
	GetMiss     Op = "get-miss"
	Seek        Op = "seek"
	Range       Op = "range"
	Scan        Op = "scan"
	ScanReverse Op = "scan-reverse"
	// Iterate is Scan: its engines have one kind of iterator.
	Iterate     Op = "iterate"
	Mixed       Op = "mixed"
	MixedInsert Op = "mixed-insert"
	YcsbA       Op = "ycsb-a"
	YcsbB       Op = "ycsb-b"
	YcsbC       Op = "ycsb-c"
	YcsbD       Op = "ycsb-d"
	YcsbE       Op = "ycsb-e"
	YcsbF       Op = "ycsb-f"
	Queue       Op = "queue"
	RangeDelete Op = "range-delete"
	Open        Op = "open"
	Compact     Op = "compact"
	// TransactionPut sets values, each batch in a transaction; the others are one transaction each.
	TransactionPut Op = "transaction-put"
	Increment      Op = "increment"
	RangeIncrement Op = "range-increment"
	Transfer       Op = "transfer"
	InsertAbsent   Op = "insert-absent"
)

// Competes says whether the threads of an operation change the same keys, by transactions: what the
// database must hold is known from what they committed.
func (op Op) Competes() bool {
	switch op {
	case Increment, RangeIncrement, Transfer, InsertAbsent:
		return true
	}
	return false
}

// IsSpecial says whether an operation is not made of the steps of a plan.
func (op Op) IsSpecial() bool {
	switch op {
	case Scan, ScanReverse, Iterate, Queue, RangeDelete, Open, Compact:
		return true
	}
	return op.Competes()
}

// Writes says whether an operation changes the database.
func (op Op) Writes() bool {
	switch op {
	case Get, GetMiss, Seek, Range, Scan, ScanReverse, Iterate, YcsbC, Open:
		return false
	}
	return true
}

// Inserts says whether an operation both inserts new keys and reads. A repetition on the same
// database would overwrite these keys instead, which may have another cost.
func (op Op) Inserts() bool {
	switch op {
	case MixedInsert, YcsbD, YcsbE:
		return true
	}
	return false
}

// Reads says whether an operation reads.
func (op Op) Reads() bool {
	switch op {
	case Put, Delete, PutDelete, TransactionPut:
		return false
	}
	return true
}
