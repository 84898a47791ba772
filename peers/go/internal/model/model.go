// The versions of all ids and their replay. live.go has the present ids in order.

package model

import (
	"slices"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/plan"
)

// Entry is an id and the version of its value; version 0 is none.
type Entry struct {
	ID, Version uint32
}

// Model holds the versions of all ids; 0 for an absent one.
type Model struct {
	threads  uint32
	keyStyle data.KeyStyle
	keyBytes uint32
	values   data.Shape
	versions [][]uint32
}

// New is an empty database for a workload.
func New(work *job.Work) *Model {
	versions := make([][]uint32, work.Threads)
	for _, thread := range plan.Threads(work.Threads) {
		versions[thread.Index] = make([]uint32, thread.Share(work.IDs()))
	}
	return &Model{
		threads: work.Threads, keyStyle: work.KeyStyle, keyBytes: work.KeyBytes,
		values: work.Values(), versions: versions,
	}
}

// Clone is an independent copy.
func (m *Model) Clone() *Model {
	clone := *m
	clone.versions = make([][]uint32, len(m.versions))
	for index, own := range m.versions {
		clone.versions[index] = slices.Clone(own)
	}
	return &clone
}

// Part is the part of a model that one thread owns; parts do not overlap.
func (m *Model) Part(thread uint32) Own {
	return Own{m.threads, m.values, m.versions[thread]}
}

// Version is the version of an id; 0 if it is absent.
func (m *Model) Version(id uint32) uint32 {
	own := m.versions[id%m.threads]
	if index := int(id / m.threads); index < len(own) {
		return own[index]
	}
	return 0
}

// Set sets the version of an id.
func (m *Model) Set(id, version uint32) {
	m.versions[id%m.threads][id/m.threads] = version
}

// IDs is the upper bound of the ids.
func (m *Model) IDs() uint32 {
	ids := 0
	for _, own := range m.versions {
		ids += len(own)
	}
	return uint32(ids)
}

// Get adds the expected result of reading an id now.
func (m *Model) Get(id uint32, tally *Tally) {
	tally.Expect(m.values, id, m.Version(id))
}

// Entries are the present ids, and their versions, in the order of ids.
func (m *Model) Entries() []Entry {
	var entries []Entry
	for id := range m.IDs() {
		if version := m.Version(id); version != 0 {
			entries = append(entries, Entry{id, version})
		}
	}
	return entries
}

// Own is the part of a model that one thread owns.
type Own struct {
	threads  uint32
	values   data.Shape
	versions []uint32
}

// Replay replays the first done steps of a plan and returns the expected sum of its reads. Ranges
// and seeks read live.
func (o *Own) Replay(p *plan.Plan, done int, live *Live) Tally {
	var tally Tally
	var pending []Entry
	for index, id := range p.IDs[:done] {
		switch p.Step(index) {
		case plan.Put:
			pending = append(pending, Entry{id, p.Version(index)})
		case plan.Delete:
			pending = append(pending, Entry{id, 0})
		case plan.DeleteRange:
			for each := range uint32(p.Range(index)) {
				pending = append(pending, Entry{id + each, 0})
			}
		case plan.Get:
			tally.Expect(o.values, id, o.Committed(id))
		case plan.Miss:
			tally.Miss()
		case plan.Seek:
			live.tally(id, 1, o.values.Bytes, &tally)
		case plan.Range:
			live.tally(id, p.Range(index), o.values.Bytes, &tally)
		case plan.Modify:
			tally.Expect(o.values, id, o.Committed(id))
			pending = append(pending, Entry{id, p.Version(index)})
		}
		if len(pending) >= int(p.Batch) {
			pending = o.Apply(pending)
		}
	}
	o.Apply(pending)
	return tally
}

// Committed is the version of a thread's own id.
func (o *Own) Committed(id uint32) uint32 {
	return o.versions[id/o.threads]
}

// Apply applies the writes of a commit and returns the list, empty.
func (o *Own) Apply(pending []Entry) []Entry {
	for _, entry := range pending {
		o.versions[entry.ID/o.threads] = entry.Version
	}
	return pending[:0]
}
