// Package engine says what an engine must offer to be measured, as bench/src/engine.rs does. It
// does not know rows or passes.
package engine

import (
	"time"

	"silt-bench-go/internal/job"
)

// Kind is an engine before anything is opened.
type Kind struct {
	// ID is its name in suites and reports.
	ID string
	// Facts says what it is with such a configuration.
	Facts func(config *job.Config) job.Facts
	// Open opens the database in a directory that exists; it creates it if there is none.
	Open func(dir string, config *job.Config) (Engine, error)
	// NoCompaction: its Compact has nothing to do, so a row that measures it has no figure.
	NoCompaction bool
	// Processors is the GOMAXPROCS that its documentation asks for; 0 is Go's own.
	Processors int
	// MeasuresHarness: it does nothing, so there is nothing to verify.
	MeasuresHarness bool
}

// Direction is which way a scan goes.
type Direction uint8

// Upwards; downwards, beginning at the last key at or before the one named.
const (
	Forward Direction = iota
	Reverse
)

// Engine is an engine with one database open. Threads share it.
type Engine interface {
	// Session is what one thread works with.
	Session() (Session, error)
	// Settle returns once background work is done, as far as the engine can say; it says since when
	// that is so. Looking for longer whether it stays quiet is not what the engine needs.
	Settle() (since time.Time, err error)
	// Compact brings the data into the shape that is best for reading; all sessions are closed.
	Compact() error
	// Close closes the database; all sessions are closed.
	Close() error
}

// Session is one thread's access to a database.
//
// What is shown is good only during the call. Callers pass functions that they made once: a
// closure made for each call would put an allocation on the clock.
type Session interface {
	// Put sets a value; a commit of its own.
	Put(key, value []byte) error
	// Delete deletes a key; a commit of its own.
	Delete(key []byte) error
	// Write commits a batch atomically.
	Write(batch *Batch) error
	// Get shows the value of a key, if there is one.
	Get(key []byte, seen func(value []byte)) (bool, error)
	// Seek shows the first entry at or after a key, if there is one.
	Seek(key []byte, seen func(key, value []byte)) (bool, error)
	// Scan shows up to limit entries from a key, included, or from the end if it is nil; it says
	// how many.
	Scan(from []byte, limit uint64, way Direction, seen func(key, value []byte)) (uint64, error)
	// DeleteRange deletes the keys in [from, to) in one commit.
	DeleteRange(from, to []byte) error
	// SelectFamily makes the session use this family.
	SelectFamily(index uint32) error
	// Refresh takes a new view for reading, if the session pinned one.
	Refresh() error
	// Close gives back what the session holds.
	Close() error
}

// Lacks is embedded by sessions of engines that have neither families nor range deletes.
type Lacks struct{}

// DeleteRange is refused.
func (Lacks) DeleteRange(_, _ []byte) error {
	return job.Unsupported("no range delete")
}

// SelectFamily knows the first family only.
func (Lacks) SelectFamily(index uint32) error {
	if index == 0 {
		return nil
	}
	return job.Unsupported("no families")
}
