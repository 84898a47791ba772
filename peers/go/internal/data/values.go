// From an id and a version to the bytes of a value, which say what they are and compress as asked.
//
//	| splitmix64(id ^ version << 40), u64 le | from a pool | its bitwise inverse, u64 le |

package data

import (
	"encoding/binary"
	"math/bits"
)

// ValueBytesMin is the length of the shortest value.
const ValueBytesMin = 16

// ValueBytesMax is the length of the longest value: less than the pool.
const ValueBytesMax = poolBytes - 1

const (
	poolBytes = 1 << 20
	// In each stretch of the pool the same share is a repeated byte.
	stretchBytes = 64
)

// Absent is what is added for a key that was not found, so that a miss is seen in the sum, too.
const Absent uint64 = 0x9e37_79b9_7f4a_7c15

// malformed is what is added for a value too short to say what it is.
const malformed uint64 = 0x5bf0_3635

// ValueMaker makes values of one length and compressibility in one place.
type ValueMaker struct {
	pool  []byte
	value []byte
}

// NewValueMaker makes values of ValueBytesMin to ValueBytesMax bytes.
func NewValueMaker(length, compressiblePercent uint32) ValueMaker {
	return ValueMaker{pool: newPool(compressiblePercent), value: make([]byte, length)}
}

// Again makes the same values in another place, for another thread.
func (m *ValueMaker) Again() ValueMaker {
	return ValueMaker{pool: m.pool, value: make([]byte, len(m.value))}
}

// Current is the value that was made last.
func (m *ValueMaker) Current() []byte {
	return m.value
}

// Value is the value of an id in a version, good until the next.
func (m *ValueMaker) Value(id, version uint32) []byte {
	length := len(m.value)
	mix := uint64(id)*31 + uint64(version)
	choices := uint64(poolBytes - length)
	offset := (Splitmix64(mix) >> 32) * choices >> 32
	copy(m.value, m.pool[offset:])
	mark := mark(id, version)
	binary.LittleEndian.PutUint64(m.value, mark)
	binary.LittleEndian.PutUint64(m.value[length-8:], ^mark)
	return m.value
}

func mark(id, version uint32) uint64 {
	return Splitmix64(uint64(id) ^ uint64(version)<<40)
}

// Fold is what a value read contributes to a sum: its first and its last eight bytes.
func Fold(value []byte) uint64 {
	if len(value) < 8 {
		return malformed
	}
	first := binary.LittleEndian.Uint64(value)
	last := binary.LittleEndian.Uint64(value[len(value)-8:])
	return first ^ bits.RotateLeft64(last, 1)
}

// FoldOf is what the value of an id in a version must contribute.
func FoldOf(id, version uint32) uint64 {
	mark := mark(id, version)
	return mark ^ bits.RotateLeft64(^mark, 1)
}

// newPool makes pseudo-random bytes of which a share in each stretch is one repeated byte.
func newPool(compressiblePercent uint32) []byte {
	pool := make([]byte, poolBytes)
	for word := range uint64(poolBytes / 8) {
		bytes := Splitmix64(word ^ uint64(compressiblePercent)<<32)
		binary.LittleEndian.PutUint64(pool[8*word:], bytes)
	}
	repeated := stretchBytes * int(min(compressiblePercent, 100)) / 100
	for start := 0; start < poolBytes; start += stretchBytes {
		stretch := pool[start : start+repeated]
		byte := pool[start]
		for index := range stretch {
			stretch[index] = byte
		}
	}
	return pool
}
