// Package job is the protocol of silt-bench's workers: requests and answers as JSON, one object a
// line. The types mirror bench/src/job.rs and bench/src/engine.rs, which are the specification. It
// does not know the use of the fields.
package job

import "fmt"

// Protocol is the version of the protocol.
const Protocol = 2

// PlansTold says that this worker reads the plan of a job after its request.
const PlansTold = "told"

// Line is a line of a worker: one of the fields is set.
type Line struct {
	Hello    *Hello    `json:"hello,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	Survived *Survived `json:"survived,omitempty"`
	Left     *Left     `json:"left,omitempty"`
	Failed   *Failure  `json:"failed,omitempty"`
}

// Hello is the first line of a worker.
type Hello struct {
	Protocol uint32       `json:"protocol"`
	Engines  []EngineInfo `json:"engines"`
	Plans    string       `json:"plans"`
}

// EngineInfo is an engine that a worker can drive.
type EngineInfo struct {
	Engine  string `json:"engine"`
	Version string `json:"version"`
}

// Progress is the progress of a worker.
type Progress struct {
	Phase     string `json:"phase"`
	Done      uint64 `json:"done"`
	Total     uint64 `json:"total"`
	SecondOps uint64 `json:"second_ops"`
}

// Request is the line of the runner: one of the fields is set.
type Request struct {
	Job   *Job       `json:"job,omitempty"`
	Crash *CrashTest `json:"crash,omitempty"`
	// Leave is the database of a row in the state Killed. The worker seeds it into the store of the
	// job and waits to be killed.
	Leave *Job `json:"leave,omitempty"`
}

// CrashStep is a part of a crash test.
type CrashStep string

// To commit until the worker is killed, and to count the remaining commits.
const (
	CrashCommit CrashStep = "commit"
	CrashCount  CrashStep = "count"
)

// CrashTest is a test of what an acknowledged commit survives.
type CrashTest struct {
	Engine  string    `json:"engine"`
	Dir     string    `json:"dir"`
	Config  Config    `json:"config"`
	Step    CrashStep `json:"step"`
	Commits uint32    `json:"commits"`
}

// Survived is the result of a crash test: commits up to the first missing one, and those beyond it.
type Survived struct {
	Class  Class  `json:"class"`
	Found  uint64 `json:"found"`
	Beyond uint64 `json:"beyond"`
}

// Left is a database that a kill will leave.
type Left struct {
	// Acknowledged is the number of acknowledged operations.
	Acknowledged uint64 `json:"acknowledged"`
}

// Job is one row on one engine.
type Job struct {
	Engine     string  `json:"engine"`
	Dir        string  `json:"dir"`
	Config     Config  `json:"config"`
	Work       Work    `json:"work"`
	CapSeconds float64 `json:"cap_seconds"`
	// Store is the directory of the seeded database, which each pass copies; empty without one. In the
	// state Killed a worker with a Leave request has filled it.
	Store string `json:"store"`
	// Extent may be left out; it is then full.
	Extent Extent `json:"extent"`
}

// Extent says which part of a row to do.
type Extent uint8

const (
	// ExtentFull is all passes.
	ExtentFull Extent = iota
	// ExtentThroughput is the throughput pass and its verification.
	ExtentThroughput
)

// UnmarshalText reads the name of an extent.
func (e *Extent) UnmarshalText(text []byte) error {
	switch string(text) {
	case "full":
		*e = ExtentFull
	case "throughput":
		*e = ExtentThroughput
	default:
		return fmt.Errorf("no such extent: %s", text)
	}
	return nil
}

// Codec is the compression of blocks.
type Codec string

// The codecs.
const (
	CodecNone Codec = "none"
	CodecLZ4  Codec = "lz4"
)

// Durability is the moment at which a commit is acknowledged.
type Durability string

// Without and after a sync.
const (
	Buffered Durability = "buffered"
	Synced   Durability = "synced"
)

// Class is the class of events that an acknowledged commit survives.
type Class string

// Survives nothing, a killed process, a power loss.
const (
	ClassMemory  Class = "memory"
	ClassProcess Class = "process"
	ClassPower   Class = "power"
)

// Arm is the set of options that engines get.
type Arm string

// The same for all engines, or each engine's own.
const (
	ArmEqual    Arm = "equal"
	ArmDefaults Arm = "defaults"
)

// TableKind is the form of tables.
type TableKind string

// The engine's usual form, or B+trees.
const (
	TableBlock TableKind = "block"
	TableBtree TableKind = "btree"
)

// Config is the configuration of a database.
type Config struct {
	WriteBufferBytes uint64     `json:"write_buffer_bytes"`
	CacheBytes       uint64     `json:"cache_bytes"`
	BloomBitsPerKey  uint32     `json:"bloom_bits_per_key"`
	Codec            Codec      `json:"codec"`
	Durability       Durability `json:"durability"`
	Arm              Arm        `json:"arm"`
	Table            TableKind  `json:"table"`
	Families         uint32     `json:"families"`
	Level0Runs       *uint32    `json:"level0_runs"`
	EntriesMax       uint64     `json:"entries_max"`
	BytesMax         uint64     `json:"bytes_max"`
	// IsOpenedOften: opening is measured, alone or as a part of the run.
	IsOpenedOften bool `json:"is_opened_often"`
}

// Facts are the facts that an adapter states about its engine.
type Facts struct {
	Version string `json:"version"`
	Class   Class  `json:"class"`
	Options string `json:"options"`
}
