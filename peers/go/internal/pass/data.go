// Keys, values and families of a workload; each thread has its own makers.

package pass

import (
	"silt-bench-go/internal/data"
	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

// maker makes the keys and values of a thread. Each thread has its own.
type maker struct {
	work   *job.Work
	keys   data.KeyMaker
	values data.ValueMaker
	// families is the number of families; an id lies in the family that is the id modulo that number.
	families uint32
}

func newMaker(work *job.Work, families uint32) *maker {
	return &maker{
		work:     work,
		keys:     newKeys(work),
		values:   data.NewValueMaker(work.Values()),
		families: families,
	}
}

// newKeys makes keys of a workload in one buffer.
func newKeys(work *job.Work) data.KeyMaker {
	return data.NewKeyMaker(work.KeyStyle, work.KeyBytes)
}

// again makes the same in another buffer.
func (m *maker) again() *maker {
	return &maker{
		work:     m.work,
		keys:     newKeys(m.work),
		values:   m.values.Again(),
		families: m.families,
	}
}

// batch is an empty batch.
func (m *maker) batch() *engine.Batch {
	return engine.NewBatch(newKeys(m.work), m.values.Again())
}

// choose makes a session use the family of an id.
func (m *maker) choose(session engine.Session, id uint32) error {
	if m.families > 1 {
		return session.SelectFamily(id % m.families)
	}
	return nil
}
