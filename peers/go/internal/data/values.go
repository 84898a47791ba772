// The bytes of the value of an id in a version. A marked value identifies itself and compresses by
// the requested share:
//
//	| mark = splitmix64(id ^ version << 40), u64 le | from a pool | its bitwise inverse, u64 le |
//
// Bytes come in chunks of 4 KiB. Chunk k has a number, the mark for the first and splitmix64(mark +
// k) for others. Its upper half gives the chunk's start in the pool, and its lowest byte is
// combined with each of its bytes. So the pool can be small enough for the processor's caches, and
// values still have nothing in common that would compress.
//
// A ramp is that of published benchmarks: bytes that count up.

package data

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	poolBytes  = 64 << 10
	chunkBytes = 4 << 10
	// Each stretch of the pool has the same share of a repeated byte.
	stretchBytes = 64
	// inEachByte, times a byte, repeats it eight times.
	inEachByte = 0x0101_0101_0101_0101
	// markShift is where the version begins in what a mark is made of; below it is the id.
	markShift = 40
	// unusedMarkBits are those between the two.
	unusedMarkBits = 0xff << 32
	// rampBytes is the period of a ramp.
	rampBytes = 256
)

// Absent is the contribution of an absent key to a sum, so that the sum shows misses, too.
const Absent uint64 = 0x9e37_79b9_7f4a_7c15

// malformed is the contribution of a value that is too short to identify itself.
const malformed uint64 = 0x5bf0_3635

// ValueStyle says the contents of values.
type ValueStyle uint8

const (
	// Marked: marks at both ends, between them bytes that compress by the requested share.
	Marked ValueStyle = iota
	// Ramp: bytes that count up from the id and the version: 256 different values, which all compress.
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

// Shape is the common properties of all values of a workload.
type Shape struct {
	// Style is their contents.
	Style ValueStyle
	// Bytes is their length.
	Bytes uint32
	// CompressiblePercent is their compressible share, if they are marked.
	CompressiblePercent uint32
}

// FoldOf is the contribution of the value of an id in a version to a sum.
func (s Shape) FoldOf(id, version uint32) uint64 {
	if s.Style == Ramp {
		first := firstOfRamp(id, version)
		last := first + byte(s.Bytes-8)
		return folded(rampWord(first), rampWord(last))
	}
	mark := mark(id, version)
	return folded(mark, ^mark)
}

// ValueMaker makes values of one shape in one buffer.
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

// Again makes the same values in another buffer, for another thread.
func (m *ValueMaker) Again() ValueMaker {
	return ValueMaker{style: m.style, pool: m.pool, value: make([]byte, len(m.value))}
}

// Current is the last value.
func (m *ValueMaker) Current() []byte {
	return m.value
}

// Value is the value of an id in a version, valid until the next call.
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
		// A share of the choices, because a remainder would cost more than the bytes.
		begin := (number >> 32) * (poolBytes - chunkBytes) >> 32
		chunk := m.value[start:min(start+chunkBytes, len(m.value))]
		combine(chunk, m.pool[begin:], byte(number))
	}
	binary.LittleEndian.PutUint64(m.value, mark)
	binary.LittleEndian.PutUint64(m.value[len(m.value)-8:], ^mark)
}

// combine fills a chunk with bytes of the pool, each combined with one byte. It handles eight bytes
// at a time, and four times eight in an iteration, which fills 4 KiB three times as fast.
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
	return Splitmix64(uint64(id) ^ uint64(version)<<markShift)
}

// MarkVersions are the versions that a mark tells apart.
const MarkVersions = 1 << (64 - markShift)

// WriteMark makes a value one of an id and a version, as far as ReadMark looks at it.
func WriteMark(value []byte, id, version uint32) {
	mark := mark(id, version)
	binary.LittleEndian.PutUint64(value, mark)
	binary.LittleEndian.PutUint64(value[len(value)-8:], ^mark)
}

// ReadMark is the id and the version that a marked value says it is of; ok is false if it is not
// whole.
func ReadMark(value []byte) (id, version uint32, ok bool) {
	if len(value) < 8 {
		return 0, 0, false
	}
	mark := binary.LittleEndian.Uint64(value)
	inverse := binary.LittleEndian.Uint64(value[len(value)-8:])
	named := Unsplitmix64(mark)
	ok = inverse == ^mark && named&unusedMarkBits == 0
	return uint32(named), uint32(named >> markShift), ok
}

func firstOfRamp(id, version uint32) byte {
	return byte(id + version)
}

// ramp counts up twice, so that each byte can begin a complete one.
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

// Fold is the contribution of a value that was read to a sum: its first and its last eight bytes.
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
