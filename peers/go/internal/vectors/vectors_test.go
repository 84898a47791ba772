// Package vectors compares this program with bench/tests/vectors.json, the contract with the Rust
// side: keys, values, orders, plans and expected sums of reads.
package vectors

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/model"
	"silt-bench-go/internal/order"
	"silt-bench-go/internal/pass"
	"silt-bench-go/internal/plan"
)

type vectors struct {
	Keys []struct {
		Style        data.KeyStyle
		Bytes, ID    uint32
		Key, Missing string
	}
	Values []struct {
		Style               data.ValueStyle
		Bytes               uint32
		CompressiblePercent uint32 `json:"compressible_percent"`
		ID, Version         uint32
		Digest, Fold        uint64
	}
	Orders []struct {
		Order       job.Order
		Size        uint32
		Count, Seed uint64
		First       []uint32
		Digest      uint64
	}
	Workloads []struct {
		Work     job.Work
		Seeds    [][]uint64
		Plans    []uint64
		Seeded   uint64
		Expected []model.Tally
		After    uint64
	}
}

func told(t *testing.T) *vectors {
	t.Helper()
	text, err := os.ReadFile("../../../../bench/tests/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var told vectors
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	return &told
}

// digester folds numbers into one.
type digester uint64

func (d *digester) add(number uint64) {
	*d = digester(data.Splitmix64(uint64(*d) ^ number))
}

func TestKeysAreTheSame(t *testing.T) {
	keys := told(t).Keys
	if len(keys) < 30 {
		t.Fatalf("only %d keys are told", len(keys))
	}
	for _, told := range keys {
		maker := data.NewKeyMaker(told.Style, told.Bytes)
		key, missing := hex.EncodeToString(maker.Key(told.ID)), maker.Missing(told.ID)
		if key != told.Key || hex.EncodeToString(missing) != told.Missing {
			const other = "key of id %d in style %d with %d bytes: %s"
			t.Errorf(other, told.ID, told.Style, told.Bytes, key)
		}
	}
}

func TestValuesAreTheSame(t *testing.T) {
	values := told(t).Values
	if len(values) < 35 {
		t.Fatalf("only %d values are told", len(values))
	}
	for _, told := range values {
		shape := data.Shape{
			Style: told.Style, Bytes: told.Bytes, CompressiblePercent: told.CompressiblePercent,
		}
		maker := data.NewValueMaker(shape)
		value := maker.Value(told.ID, told.Version)
		var digest digester
		for _, byte := range value {
			digest.add(uint64(byte))
		}
		if uint64(digest) != told.Digest {
			t.Errorf("value of id %d in %+v differs", told.ID, shape)
		}
		if data.Fold(value) != told.Fold || shape.FoldOf(told.ID, told.Version) != told.Fold {
			t.Errorf("fold of id %d in %+v differs", told.ID, shape)
		}
	}
}

func TestOrdersAreTheSame(t *testing.T) {
	orders := told(t).Orders
	if len(orders) < 28 {
		t.Fatalf("only %d orders are told", len(orders))
	}
	for _, told := range orders {
		drawn := order.Draw(told.Order, told.Size, told.Count, told.Seed)
		var digest digester
		for _, index := range drawn {
			digest.add(uint64(index))
		}
		first := drawn[:len(told.First)]
		if !slices.Equal(first, told.First) || uint64(digest) != told.Digest {
			t.Errorf("%s of %d begins with %v, not %v", told.Order, told.Size, first, told.First)
		}
	}
}

func TestPlansAndWhatTheyReadAreTheSame(t *testing.T) {
	workloads := told(t).Workloads
	if len(workloads) < 38 {
		t.Fatalf("only %d workloads are told", len(workloads))
	}
	for _, told := range workloads {
		work := &told.Work
		drawn, err := pass.Draw(work)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, same bool) {
			if !same {
				t.Errorf("%s in %s order: %s differ", work.Run.Op, work.Run.Order, what)
			}
		}
		for phase, plans := range drawn.Seeds {
			check("seeds", slices.Equal(digestsOfPlans(plans), told.Seeds[phase]))
		}
		check("plans", slices.Equal(digestsOfPlans(drawn.Plans), told.Plans))
		check("seeded entries", digestOfModel(drawn.Model) == told.Seeded)
		after := drawn.Model.Clone()
		for _, thread := range plan.Threads(work.Threads) {
			tally := expected(work, drawn, thread, after)
			check("tallies", tally == told.Expected[thread.Index])
		}
		check("entries afterwards", digestOfModel(after) == told.After)
	}
}

// expected is the expected sum of a complete thread; scans read everything once.
func expected(
	work *job.Work, drawn *pass.Drawn, thread plan.Thread, after *model.Model,
) model.Tally {
	live := model.NewLive(drawn.Model)
	switch work.Run.Op {
	case job.Scan, job.ScanReverse:
		return pass.ExpectedScan(work, live, thread, 1)
	case job.Queue:
		return pass.ExpectedQueue(work, after, work.Run.Ops)
	case job.RangeDelete:
		pass.ExpectRangeDelete(work, after, thread, ^uint64(0))
		return model.Tally{}
	case job.Open:
		return pass.ExpectedOpen(work, drawn.Model, work.Run.Ops)
	}
	steps := drawn.Plans[thread.Index]
	own := after.Part(thread.Index)
	return own.Replay(steps, len(steps.IDs), live)
}

func digestsOfPlans(plans []*plan.Plan) []uint64 {
	var digests []uint64
	for _, one := range plans {
		var digest digester
		for index, id := range one.IDs {
			digest.add(uint64(id))
			digest.add(uint64(one.Step(index)))
			digest.add(uint64(one.Version(index)))
			digest.add(one.Range(index))
		}
		digest.add(uint64(one.Batch))
		digest.add(uint64(one.NextVersion()))
		digests = append(digests, uint64(digest))
	}
	return digests
}

func digestOfModel(holds *model.Model) uint64 {
	var digest digester
	for _, entry := range holds.Entries() {
		digest.add(uint64(entry.ID))
		digest.add(uint64(entry.Version))
	}
	return uint64(digest)
}
