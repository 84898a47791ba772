// Reads the plan of a job, which follows the request; bench/src/told.rs writes it and describes its
// bytes.

package plan

import (
	"encoding/binary"
	"fmt"
	"io"

	"silt-bench-go/internal/job"
)

// pieceBytes is the size of the buffer through which numbers are read.
const pieceBytes = 64 << 10

// How batches of writes are committed.
const (
	inBatches = iota
	asBulkLoad
	inTransactions
)

// Told is all operations of a job.
type Told struct {
	// Seeds are the seed phases, each with a plan for each thread.
	Seeds [][]*Plan
	// Plans has the measured phase of each thread.
	Plans   []*Plan
	Witness Witness
}

// Witness is what both sides must make of a job: other bytes of keys or values, or another replay of
// the seed would make another workload of it.
type Witness struct {
	// Entries are those that the seed leaves.
	Entries uint64
	// Sum is that of reading each of them with its key.
	Sum uint64
	// Samples is the digest of sampled keys and values.
	Samples uint64
}

// Read reads the plan of a job.
func Read(from io.Reader, work *job.Work) (*Told, error) {
	told := &Told{}
	for range work.Seed {
		plans, err := readPhase(from, work.Threads)
		if err != nil {
			return nil, err
		}
		told.Seeds = append(told.Seeds, plans)
	}
	var err error
	if told.Plans, err = readPhase(from, work.Threads); err != nil {
		return nil, err
	}
	if err := binary.Read(from, binary.LittleEndian, &told.Witness); err != nil {
		return nil, cutShort(err)
	}
	return told, nil
}

func readPhase(from io.Reader, threads uint32) ([]*Plan, error) {
	plans := make([]*Plan, threads)
	for index := range plans {
		var err error
		if plans[index], err = readPlan(from); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

func readPlan(from io.Reader) (*Plan, error) {
	var head struct{ IDs, FirstVersion, Batch, Commit, Steps, Lengths uint32 }
	if err := binary.Read(from, binary.LittleEndian, &head); err != nil {
		return nil, cutShort(err)
	}
	if head.Commit == asBulkLoad {
		return nil, job.Unsupported("no bulk loading is driven here")
	}
	plan := &Plan{
		Batch: head.Batch, FirstVersion: head.FirstVersion, Steps: make([]Step, head.Steps),
		InTransactions: head.Commit == inTransactions,
	}
	var err error
	if plan.IDs, err = readNumbers(from, head.IDs); err != nil {
		return nil, err
	}
	steps := make([]byte, head.Steps)
	if _, err := io.ReadFull(from, steps); err != nil {
		return nil, cutShort(err)
	}
	for index, step := range steps {
		if plan.Steps[index] = Step(step); step >= byte(unknown) {
			return nil, job.Unsupported("a step of the plan is not driven here")
		}
	}
	plan.Lengths, err = readNumbers(from, head.Lengths)
	return plan, err
}

// readNumbers reads numbers of four bytes.
func readNumbers(from io.Reader, count uint32) ([]uint32, error) {
	numbers := make([]uint32, count)
	piece := make([]byte, pieceBytes)
	for rest := numbers; len(rest) > 0; {
		here := piece[:min(4*len(rest), pieceBytes)]
		if _, err := io.ReadFull(from, here); err != nil {
			return nil, cutShort(err)
		}
		for ; len(here) > 0; here, rest = here[4:], rest[1:] {
			rest[0] = binary.LittleEndian.Uint32(here)
		}
	}
	return numbers, nil
}

func cutShort(err error) error {
	return job.Refused(fmt.Sprintf("the plan is cut short: %v", err))
}
