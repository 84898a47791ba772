// Package data makes keys and values, byte for byte as bench/src/keys.rs and values.rs do. It does
// not know the versions of ids.
//
// A sparse key; eight bytes are the first part alone, sixteen have no zeros:
//
//	| id * 2^20 + splitmix64(id) mod 2^20, u64 be | zeros | splitmix64(id ^ 0x5157), u64 be |
//
// The other styles are those of published benchmarks: numbers in digits, with leading zeros.
package data

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// KeyBytesMin is the length of the shortest key.
const KeyBytesMin = 8

const (
	tailSalt = 0x5157
	gapBits  = 20
	// malformedKey is the contribution of a key that is too short to a sum, which no key of the
	// benchmark has.
	malformedKey = 0x6b65_7973_2061_6c6c
)

// Splitmix64 is the only hash of the benchmark (Steele, Lea, Flood 2014).
func Splitmix64(input uint64) uint64 {
	z := input + 0x9e37_79b9_7f4a_7c15
	z = (z ^ z>>30) * 0xbf58_476d_1ce4_e5b9
	z = (z ^ z>>27) * 0x94d0_49bb_1331_11eb
	return z ^ z>>31
}

// Unsplitmix64 is what Splitmix64 was given.
func Unsplitmix64(output uint64) uint64 {
	z := output ^ output>>31 ^ output>>62
	z *= 0x3196_42b2_d24d_8ec3
	z = z ^ z>>27 ^ z>>54
	z *= 0x96de_1b17_3f11_9089
	z = z ^ z>>30 ^ z>>60
	return z - 0x9e37_79b9_7f4a_7c15
}

// KeyStyle is the mapping of an id to a key.
type KeyStyle uint8

const (
	// Sparse: numbers far apart, and a tail that does not compress.
	Sparse KeyStyle = iota
	// Counter: the id in decimal digits.
	Counter
	// ReversedCounter: the id with its bytes in reverse order, in hexadecimal digits, so that
	// ascending ids give scattered keys.
	ReversedCounter
)

// UnmarshalText reads the name of a style.
func (s *KeyStyle) UnmarshalText(text []byte) error {
	switch string(text) {
	case "sparse":
		*s = Sparse
	case "counter":
		*s = Counter
	case "reversed-counter":
		*s = ReversedCounter
	default:
		return fmt.Errorf("no such style of keys: %s", text)
	}
	return nil
}

// Rank is the rank of an id: of two ids, the one with the lower rank has the lower key.
func (s KeyStyle) Rank(id uint32) uint32 {
	if s == ReversedCounter {
		return bits.ReverseBytes32(id)
	}
	return id
}

func (s KeyStyle) write(key []byte, id uint32) {
	switch s {
	case Sparse:
		writeSparse(key, id)
	case Counter:
		writeDecimal(key, id)
	case ReversedCounter:
		writeHexadecimal(key, bits.ReverseBytes32(id))
	}
}

// KeyMaker makes keys of one style and length in one buffer.
type KeyMaker struct {
	style   KeyStyle
	key     []byte
	missing []byte
}

// NewKeyMaker makes keys of a length that fits their style.
func NewKeyMaker(style KeyStyle, length uint32) KeyMaker {
	return KeyMaker{style: style, key: make([]byte, length), missing: make([]byte, length+1)}
}

// Key is the key of an id, valid until the next call.
func (m *KeyMaker) Key(id uint32) []byte {
	m.style.write(m.key, id)
	return m.key
}

// Missing is a key that no id has, between that of id and the next.
func (m *KeyMaker) Missing(id uint32) []byte {
	m.style.write(m.missing[:len(m.key)], id)
	return m.missing
}

// IDOfSparse is the id of a sparse key; 0 of what is too short to be one.
func IDOfSparse(key []byte) uint32 {
	if len(key) < KeyBytesMin {
		return 0
	}
	return uint32(binary.BigEndian.Uint64(key) >> gapBits)
}

// FoldKey is the contribution of a key to a sum: its last eight bytes, which differ between ids.
func FoldKey(key []byte) uint64 {
	if len(key) < 8 {
		return malformedKey
	}
	return binary.LittleEndian.Uint64(key[len(key)-8:])
}

// writeDecimal writes digits at the end, with zeros before them.
func writeDecimal(key []byte, number uint32) {
	for index := len(key) - 1; index >= 0; index-- {
		key[index] = byte('0' + number%10)
		number /= 10
	}
}

// writeHexadecimal does the same with sixteen digits.
func writeHexadecimal(key []byte, number uint32) {
	for index := len(key) - 1; index >= 0; index-- {
		key[index] = "0123456789abcdef"[number%16]
		number /= 16
	}
}

func writeSparse(key []byte, id uint32) {
	wide := uint64(id)
	gap := Splitmix64(wide) & (1<<gapBits - 1)
	binary.BigEndian.PutUint64(key, wide<<gapBits+gap)
	if len(key) > 8 {
		binary.BigEndian.PutUint64(key[len(key)-8:], Splitmix64(wide^tailSalt))
	}
}
