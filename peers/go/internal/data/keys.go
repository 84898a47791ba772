// Package data makes keys and values, byte for byte as bench/src/keys.rs and values.rs do. It does
// not know who holds which version of a value.
//
// A key; eight bytes are the first part alone, sixteen have no zeros:
//
//	| id * 2^20 + splitmix64(id) mod 2^20, u64 be | zeros | splitmix64(id ^ 0x5157), u64 be |
package data

import "encoding/binary"

// KeyBytesMin is the length of the shortest key.
const KeyBytesMin = 8

// KeyBytesMax is the length of the longest key.
const KeyBytesMax = 1024

const (
	tailSalt = 0x5157
	gapBits  = 20
)

// Splitmix64 is the only hash of the benchmark (Steele, Lea, Flood 2014).
func Splitmix64(input uint64) uint64 {
	z := input + 0x9e37_79b9_7f4a_7c15
	z = (z ^ z>>30) * 0xbf58_476d_1ce4_e5b9
	z = (z ^ z>>27) * 0x94d0_49bb_1331_11eb
	return z ^ z>>31
}

// IsKeyLength says whether keys can have this length: eight bytes, or 16 to KeyBytesMax.
func IsKeyLength(length uint32) bool {
	return length == KeyBytesMin || length >= 2*KeyBytesMin && length <= KeyBytesMax
}

// KeyMaker makes keys of one length in one place.
type KeyMaker struct {
	key     []byte
	missing []byte
}

// NewKeyMaker makes keys of a length that IsKeyLength accepts.
func NewKeyMaker(length uint32) KeyMaker {
	return KeyMaker{key: make([]byte, length), missing: make([]byte, length+1)}
}

// Key is the key of an id, good until the next.
func (m *KeyMaker) Key(id uint32) []byte {
	writeKey(m.key, id)
	return m.key
}

// Missing is a key that no id has, between that of id and the next.
func (m *KeyMaker) Missing(id uint32) []byte {
	writeKey(m.missing[:len(m.key)], id)
	return m.missing
}

func writeKey(key []byte, id uint32) {
	wide := uint64(id)
	gap := Splitmix64(wide) & (1<<gapBits - 1)
	binary.BigEndian.PutUint64(key, wide<<gapBits+gap)
	if len(key) > 8 {
		binary.BigEndian.PutUint64(key[len(key)-8:], Splitmix64(wide^tailSalt))
	}
}
