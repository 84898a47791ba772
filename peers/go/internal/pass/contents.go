// The contents that the seed phases leave, and whether the runner makes the same of the job.

package pass

import (
	"math"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/plan"
)

// The ids whose keys and values are sampled, and the versions of the values.
var (
	sampledIDs      = []uint32{0, 77, 1_000_000, math.MaxUint32}
	sampledVersions = []uint32{1, 2, math.MaxUint32}
)

// seededBy replays the seed phases.
func seededBy(work *job.Work, told *plan.Told) *model.Model {
	seeded, none := model.New(work), &model.Live{}
	for _, plans := range told.Seeds {
		for index, one := range plans {
			own := seeded.Part(uint32(index))
			own.Replay(one, len(one.IDs), none)
		}
	}
	return seeded
}

// WitnessOf is what this side makes of a job and its plan.
func WitnessOf(work *job.Work, told *plan.Told) plan.Witness {
	return witness(work, model.NewLive(seededBy(work, told)))
}

// witness is what this side makes of a job whose seed leaves these entries.
func witness(work *job.Work, live *model.Live) plan.Witness {
	all := live.Between(0, live.Len(), work.ValueBytes)
	keys, values := newKeys(work), data.NewValueMaker(work.Values())
	samples := uint64(0)
	add := func(bytes []byte) {
		for _, byte := range bytes {
			samples = data.Splitmix64(samples ^ uint64(byte))
		}
	}
	for _, id := range sampledIDs {
		add(keys.Key(id))
		add(keys.Missing(id))
		for _, version := range sampledVersions {
			add(values.Value(id, version))
		}
	}
	return plan.Witness{Entries: all.Found, Sum: all.Sum, Samples: samples}
}

// checkTold checks that the plan of a job is one that this side does as it is meant.
func checkTold(work *job.Work, told *plan.Told, live *model.Live) error {
	if witness(work, live) != told.Witness {
		return job.Refused("keys, values or seeded contents differ from those of the runner")
	}
	if work.Run.Op.IsSpecial() {
		return nil
	}
	for _, one := range told.Plans {
		if len(one.IDs) == 0 && work.Run.Ops >= uint64(work.Threads) {
			return job.Unsupported("such operations are not driven here")
		}
	}
	return nil
}
