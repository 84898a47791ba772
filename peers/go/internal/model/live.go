// The present ids, in the order of their keys. It does not change; a model does.

package model

import (
	"cmp"
	"slices"
	"sort"

	"silt-bench-go/internal/data"
)

// Live holds the ids present at a moment, in the order of their keys, with sums up to each.
type Live struct {
	keys    data.KeyStyle
	entries []Entry
	sums    []uint64
}

// NewLive is the present contents of a model.
func NewLive(m *Model) *Live {
	live := &Live{keys: m.keyStyle, entries: m.Entries()}
	if m.keyStyle == data.ReversedCounter {
		slices.SortFunc(live.entries, func(a, b Entry) int {
			return cmp.Compare(m.keyStyle.Rank(a.ID), m.keyStyle.Rank(b.ID))
		})
	}
	keys := data.NewKeyMaker(m.keyStyle, m.keyBytes)
	sum := uint64(0)
	live.sums = append(make([]uint64, 0, len(live.entries)+1), sum)
	for _, entry := range live.entries {
		sum += m.values.FoldOf(entry.ID, entry.Version) + data.FoldKey(keys.Key(entry.ID))
		live.sums = append(live.sums, sum)
	}
	return live
}

// Len is the number of present ids.
func (l *Live) Len() int {
	return len(l.entries)
}

// Entries are all ids and versions.
func (l *Live) Entries() []Entry {
	return l.entries
}

// From is up to count ids and versions, from that of an id on.
func (l *Live) From(id uint32, count uint64) []Entry {
	start := l.position(id)
	return l.entries[start : start+int(min(count, uint64(len(l.entries)-start)))]
}

// position is the position of the first entry whose key is not below that of an id.
func (l *Live) position(id uint32) int {
	rank := l.keys.Rank(id)
	return sort.Search(len(l.entries), func(index int) bool {
		return l.keys.Rank(l.entries[index].ID) >= rank
	})
}

// tally is the expected result of reading up to count entries from an id on.
func (l *Live) tally(id uint32, count uint64, valueBytes uint32, tally *Tally) {
	start := l.position(id)
	found := len(l.From(id, count))
	if found == 0 {
		tally.Miss()
		return
	}
	tally.Merge(l.Between(start, start+found, valueBytes))
}

// Between is the expected result of reading the entries between two positions.
func (l *Live) Between(start, end int, valueBytes uint32) Tally {
	found := uint64(end - start)
	bytes := found * uint64(valueBytes)
	return Tally{Sum: l.sums[end] - l.sums[start], Found: found, ValueBytes: bytes}
}
