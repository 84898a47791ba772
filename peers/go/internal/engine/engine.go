// Package engine has the interfaces that an adapter implements so that its engine can be measured,
// as bench/src/engine.rs has. It knows no rows and no passes.
package engine

import (
	"time"

	"silt-bench-go/internal/job"
)

// Kind is an engine before anything is opened.
type Kind struct {
	// ID is its name in suites and reports.
	ID string
	// Facts returns the facts about the engine with a configuration.
	Facts func(config *job.Config) job.Facts
	// Open opens the database in an existing directory; it creates it if there is none.
	Open func(dir string, config *job.Config) (Engine, error)
	// NoCompaction: its Compact does nothing, so a row that measures it has no figure.
	NoCompaction bool
	// Processors is the GOMAXPROCS that its documentation advises; 0 is Go's default.
	Processors int
	// Isolation is the level of its transactions, in words; empty if they are not driven here.
	Isolation string
	// MeasuresHarness: the engine does nothing, so nothing is verified.
	MeasuresHarness bool
}

// Direction is the direction of a scan.
type Direction uint8

// Upwards; downwards, beginning at the last key at or before the given one.
const (
	Forward Direction = iota
	Reverse
)

// Engine is an engine with one database open. Threads share it.
type Engine interface {
	// Session makes a session for one thread.
	Session() (Session, error)
	// Settle returns once background work is done, as far as the engine can tell, and gives the time
	// from which that holds. Time spent on checking that it stays quiet does not count.
	Settle() (since time.Time, err error)
	// Compact compacts the data into the form that is best for reading; all sessions are closed.
	Compact() error
	// Close closes the database; all sessions are closed.
	Close() error
}

// Session is one thread's access to a database.
//
// Bytes passed to a function are valid only during the call. Callers pass functions that they made
// once, because a closure for each call would add an allocation to the measured time.
type Session interface {
	// Put sets a value, as a commit of its own.
	Put(key, value []byte) error
	// Delete deletes a key, as a commit of its own.
	Delete(key []byte) error
	// Write commits a batch atomically.
	Write(batch *Batch) error
	// Get passes the value of a key to seen, if there is one.
	Get(key []byte, seen func(value []byte)) (bool, error)
	// Seek passes the first entry at or after a key to seen, if there is one.
	Seek(key []byte, seen func(key, value []byte)) (bool, error)
	// Scan passes up to limit entries from a key on, inclusive, or from the end if it is nil; it
	// returns their number.
	Scan(from []byte, limit uint64, way Direction, seen func(key, value []byte)) (uint64, error)
	// DeleteRange deletes the keys in [from, to) in one commit.
	DeleteRange(from, to []byte) error
	// SelectFamily makes the session use this family.
	SelectFamily(index uint32) error
	// Refresh renews the session's read transaction, if it has one.
	Refresh() error
	// Close releases the resources of the session.
	Close() error
}

// Lacks is embedded by sessions of engines that have neither families nor range deletes.
type Lacks struct{}

// DeleteRange returns Unsupported.
func (Lacks) DeleteRange(_, _ []byte) error {
	return job.Unsupported("no range delete")
}

// SelectFamily accepts the first family only.
func (Lacks) SelectFamily(index uint32) error {
	if index == 0 {
		return nil
	}
	return job.Unsupported("no families")
}
