// From an id and a version to the bytes of a value. A marked one says what it is and compresses as
// asked:
//
//	| mark = splitmix64(id ^ version << 40), u64 le | from a pool | its bitwise inverse, u64 le |
//
// Bytes come in chunks of 4 KiB. Chunk k has a number, the mark for the first and
// splitmix64(mark + k) for others, whose upper half says where in the pool it begins, and whose
// lowest byte is combined with each of its bytes: so the pool can be small enough for the
// processor's caches, and values still have nothing in common that would compress.
//
// A ramp is that of published benchmarks: bytes that count up.

package data

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// ValueBytesMin is the length of the shortest value.
const ValueBytesMin = 16

// ValueBytesMax is the length of the longest value.
const ValueBytesMax = 1<<20 - 1

const (
	poolBytes  = 64 << 10
	chunkBytes = 4 << 10
	// In each stretch of the pool the same share is a repeated byte.
	stretchBytes = 64
	// inEachByte, times a byte, is eight of it.
	inEachByte = 0x0101_0101_0101_0101
	// rampBytes is after how many bytes a ramp repeats.
	rampBytes = 256
)

// Absent is what is added for a key that was not found, so that a miss is seen in the sum, too.
const Absent uint64 = 0x9e37_79b9_7f4a_7c15

// malformed is what is added for a value too short to say what it is.
const malformed uint64 = 0x5bf0_3635

// ValueStyle says what values are made of.
type ValueStyle uint8

const (
	// Marked: marks at both ends, between them bytes that compress as asked.
	Marked ValueStyle = iota
	// Ramp: bytes that count up from the id and the version: 256 different values, and all
	// compress.
	Ramp
)

// UnmarshalText reads the name of a style.
func (s *ValueStyle) UnmarshalText(text []byte) error {
	switch string(text) {
	case "marked":
		*s = Marked
	case "ramp":
		*s = Ramp
	default:
		return fmt.Errorf("no such style of values: %s", text)
	}
	return nil
}

// Shape is what all values of a workload have in common.
type Shape struct {
	// Style says what they are made of.
	Style ValueStyle
	// Bytes is their length.
	Bytes uint32
	// CompressiblePercent is how much of them compresses away, if they are marked.
	CompressiblePercent uint32
}

// FoldOf is what the value of an id in a version must contribute to a sum.
func (s Shape) FoldOf(id, version uint32) uint64 {
	if s.Style == Ramp {
		first := firstOfRamp(id, version)
		last := first + byte(s.Bytes-8)
		return folded(rampWord(first), rampWord(last))
	}
	mark := mark(id, version)
	return folded(mark, ^mark)
}

// ValueMaker makes values of one shape in one place.
type ValueMaker struct {
	style ValueStyle
	pool  []byte
	value []byte
}

// NewValueMaker makes values of ValueBytesMin to ValueBytesMax bytes.
func NewValueMaker(shape Shape) ValueMaker {
	pool := newPool(shape.CompressiblePercent)
	return ValueMaker{style: shape.Style, pool: pool, value: make([]byte, shape.Bytes)}
}

// Again makes the same values in another place, for another thread.
func (m *ValueMaker) Again() ValueMaker {
	return ValueMaker{style: m.style, pool: m.pool, value: make([]byte, len(m.value))}
}

// Current is the value that was made last.
func (m *ValueMaker) Current() []byte {
	return m.value
}

// Value is the value of an id in a version, good until the next.
func (m *ValueMaker) Value(id, version uint32) []byte {
	if m.style == Ramp {
		writeRamp(m.value, firstOfRamp(id, version))
	} else {
		m.writeMarked(mark(id, version))
	}
	return m.value
}

func (m *ValueMaker) writeMarked(mark uint64) {
	number := mark
	for start := 0; start < len(m.value); start += chunkBytes {
		if start > 0 {
			number = Splitmix64(mark + uint64(start/chunkBytes))
		}
		// As a share of the choices: a remainder would cost more than the bytes.
		begin := (number >> 32) * (poolBytes - chunkBytes) >> 32
		chunk := m.value[start:min(start+chunkBytes, len(m.value))]
		combine(chunk, m.pool[begin:], byte(number))
	}
	binary.LittleEndian.PutUint64(m.value, mark)
	binary.LittleEndian.PutUint64(m.value[len(m.value)-8:], ^mark)
}

// combine fills a chunk with bytes of the pool, each combined with one byte: eight at a time, and
// four times eight in a turn of the loop, which fills 4 KiB three times as fast.
func combine(chunk, pooled []byte, with byte) {
	pooled = pooled[:len(chunk)]
	word := uint64(with) * inEachByte
	for len(chunk) >= 32 && len(pooled) >= 32 {
		to, from := (*[32]byte)(chunk), (*[32]byte)(pooled)
		binary.LittleEndian.PutUint64(to[:], binary.LittleEndian.Uint64(from[:])^word)
		binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:])^word)
		binary.LittleEndian.PutUint64(to[16:], binary.LittleEndian.Uint64(from[16:])^word)
		binary.LittleEndian.PutUint64(to[24:], binary.LittleEndian.Uint64(from[24:])^word)
		chunk, pooled = chunk[32:], pooled[32:]
	}
	for len(chunk) >= 8 && len(pooled) >= 8 {
		binary.LittleEndian.PutUint64(chunk, binary.LittleEndian.Uint64(pooled)^word)
		chunk, pooled = chunk[8:], pooled[8:]
	}
	for index, byte := range pooled {
		chunk[index] = byte ^ with
	}
}

func mark(id, version uint32) uint64 {
	return Splitmix64(uint64(id) ^ uint64(version)<<40)
}

func firstOfRamp(id, version uint32) byte {
	return byte(id + version)
}

// ramp counts up twice, so that any byte can be the first of a whole one.
var ramp = func() (ramp [2 * rampBytes]byte) {
	for index := range ramp {
		ramp[index] = byte(index)
	}
	return ramp
}()

// writeRamp writes bytes that count up.
func writeRamp(value []byte, first byte) {
	whole := ramp[first : int(first)+rampBytes]
	for len(value) > 0 {
		value = value[copy(value, whole):]
	}
}

// rampWord is eight bytes of a ramp.
func rampWord(first byte) uint64 {
	return binary.LittleEndian.Uint64(ramp[first:])
}

// Fold is what a value read contributes to a sum: its first and its last eight bytes.
func Fold(value []byte) uint64 {
	if len(value) < 8 {
		return malformed
	}
	first := binary.LittleEndian.Uint64(value)
	return folded(first, binary.LittleEndian.Uint64(value[len(value)-8:]))
}

func folded(first, last uint64) uint64 {
	return first ^ bits.RotateLeft64(last, 1)
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
