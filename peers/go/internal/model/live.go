// The ids that exist, in order. It does not change: a model does.

package model

import (
	"sort"

	"silt-bench-go/internal/data"
)

// Live holds the ids that exist at a moment, in order, with sums up to each.
type Live struct {
	entries []Entry
	sums    []uint64
}

// NewLive is what a model holds now.
func NewLive(m *Model) *Live {
	live := &Live{sums: []uint64{0}}
	sum := uint64(0)
	for id := range m.IDs() {
		version := m.Version(id)
		if version == 0 {
			continue
		}
		sum += data.FoldOf(id, version)
		live.entries = append(live.entries, Entry{id, version})
		live.sums = append(live.sums, sum)
	}
	return live
}

// Len says how many ids exist.
func (l *Live) Len() int {
	return len(l.entries)
}

// Entries are all ids and versions.
func (l *Live) Entries() []Entry {
	return l.entries
}

// From is up to count ids and versions from an id on.
func (l *Live) From(id uint32, count uint64) []Entry {
	start := l.start(id)
	return l.entries[start : start+int(min(count, uint64(len(l.entries)-start)))]
}

func (l *Live) start(id uint32) int {
	return sort.Search(len(l.entries), func(index int) bool { return l.entries[index].ID >= id })
}

// tally is what reading up to count entries from an id on must give.
func (l *Live) tally(id uint32, count, valueBytes uint64, tally *Tally) {
	start := l.start(id)
	found := len(l.From(id, count))
	if found == 0 {
		tally.Miss()
		return
	}
	tally.Merge(l.Between(start, start+found, valueBytes))
}

// Between is what reading the entries between two positions must give.
func (l *Live) Between(start, end int, valueBytes uint64) Tally {
	found := uint64(end - start)
	return Tally{Sum: l.sums[end] - l.sums[start], Found: found, ValueBytes: found * valueBytes}
}
