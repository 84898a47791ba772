// Package job is the protocol of silt-bench's workers: what one is told and what it answers, as
// JSON, one object a line. The types mirror bench/src/job.rs and bench/src/engine.rs, which are
// the specification. It does not know what the fields are used for.
package job

import "fmt"

// Protocol is the version that is spoken.
const Protocol = 1

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
}

// EngineInfo is an engine that a worker can drive.
type EngineInfo struct {
	Engine  string `json:"engine"`
	Version string `json:"version"`
}

// Progress says where a worker stands.
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
	// Leave is the database of a row in the state Killed: it is seeded into the store of the job,
	// and the worker waits to be killed.
	Leave *Job `json:"leave,omitempty"`
}

// CrashStep is a part of a crash test.
type CrashStep string

// To commit until the worker is killed, and to count what is left.
const (
	CrashCommit CrashStep = "commit"
	CrashCount  CrashStep = "count"
)

// CrashTest tries out what an acknowledged commit survives.
type CrashTest struct {
	Engine  string    `json:"engine"`
	Dir     string    `json:"dir"`
	Config  Config    `json:"config"`
	Step    CrashStep `json:"step"`
	Commits uint32    `json:"commits"`
}

// Survived is what was left: commits up to the first that is not there, and those beyond it.
type Survived struct {
	Class  Class  `json:"class"`
	Found  uint64 `json:"found"`
	Beyond uint64 `json:"beyond"`
}

// Left is a database that is there to be left by a kill.
type Left struct {
	// Acknowledged are operations.
	Acknowledged uint64 `json:"acknowledged"`
}

// Job is one row on one engine.
type Job struct {
	Engine     string  `json:"engine"`
	Dir        string  `json:"dir"`
	Config     Config  `json:"config"`
	Work       Work    `json:"work"`
	CapSeconds float64 `json:"cap_seconds"`
	// Store is where the database is kept as the measured phase shall find it; empty if it is not.
	// In the state Killed it has been filled by a worker that was told to leave it.
	Store string `json:"store"`
	// Extent may be left out: then it is full.
	Extent Extent `json:"extent"`
}

// Extent says how much of a row is done.
type Extent uint8

const (
	// ExtentFull is all passes.
	ExtentFull Extent = iota
	// ExtentThroughput is the throughput pass and what verifies it.
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

// Codec says how blocks are compressed.
type Codec string

// The codecs.
const (
	CodecNone Codec = "none"
	CodecLZ4  Codec = "lz4"
)

// Durability says when a commit is acknowledged.
type Durability string

// Without and after a sync.
const (
	Buffered Durability = "buffered"
	Synced   Durability = "synced"
)

// Class says what an acknowledged commit survives.
type Class string

// Nothing, a killed process, a power loss.
const (
	ClassMemory  Class = "memory"
	ClassProcess Class = "process"
	ClassPower   Class = "power"
)

// Arm says which options are set.
type Arm string

// The same for all engines, or each engine's own.
const (
	ArmEqual    Arm = "equal"
	ArmDefaults Arm = "defaults"
)

// TableKind says how tables are kept.
type TableKind string

// As the engine usually does, or as B+trees.
const (
	TableBlock TableKind = "block"
	TableBtree TableKind = "btree"
)

// Config says how a database is opened.
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
	// IsOpenedOften: opening is measured, or is a part of it.
	IsOpenedOften bool `json:"is_opened_often"`
}

// Facts is what an engine says of itself.
type Facts struct {
	Version string `json:"version"`
	Class   Class  `json:"class"`
	Options string `json:"options"`
}
