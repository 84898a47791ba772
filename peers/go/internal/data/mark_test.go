// What a value says of itself is read back.

package data

import (
	"math"
	"slices"
	"testing"
)

func TestAMarkIsReadBackAndABentOneIsNot(t *testing.T) {
	maker := NewValueMaker(Shape{Style: Marked, Bytes: 100, CompressiblePercent: 50})
	cases := [][2]uint32{{0, 1}, {7, 300_000}, {math.MaxUint32, MarkVersions - 1}}
	for _, one := range cases {
		value := slices.Clone(maker.Value(one[0], one[1]))
		id, version, ok := ReadMark(value)
		if !ok || id != one[0] || version != one[1] {
			t.Errorf("%v is read as %d, %d, %v", one, id, version, ok)
		}
		value[99] ^= 1
		if _, _, ok := ReadMark(value); ok {
			t.Errorf("%v is whole though it is bent", one)
		}
	}
	if _, _, ok := ReadMark(make([]byte, 7)); ok {
		t.Error("a value that is too short is whole")
	}
}

func TestASparseKeyLeadsBackToItsID(t *testing.T) {
	maker := NewKeyMaker(Sparse, 16)
	for _, id := range []uint32{0, 1, 77_777, math.MaxUint32} {
		if found := IDOfSparse(maker.Key(id)); found != id {
			t.Errorf("%d is read as %d", id, found)
		}
	}
}
