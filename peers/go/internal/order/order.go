// Package order draws sequences of indexes, as bench/src/order.rs does: the order in which the keys
// of a thread are visited. It does not know the operations on the keys.
package order

import (
	"math"
	"math/bits"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/job"
)

// theta is the skew of YCSB.
const theta = 0.99

// Draw draws count indexes below size in an order; seed selects the sequence.
func Draw(order job.Order, size uint32, count, seed uint64) []uint32 {
	if size == 0 {
		return nil
	}
	drawn := make([]uint32, count)
	wide := uint64(size)
	switch order {
	case job.Sequential, job.Timestamp:
		for i := range count {
			drawn[i] = uint32(i % wide)
		}
	case job.Reverse:
		for i := range count {
			drawn[i] = uint32(wide - 1 - i%wide)
		}
	case job.Random:
		for i := range count {
			shuffle := newShuffle(size, seed+i/wide)
			drawn[i] = shuffle.at(uint32(i % wide))
		}
	case job.Uniform:
		stream := data.Splitmix64(seed)
		for i := range count {
			drawn[i] = uint32(data.Splitmix64(stream^i) % wide)
		}
	case job.Zipfian:
		zipf := NewZipf(size)
		for i := range count {
			rank := zipf.Rank(Uniform(seed, i))
			drawn[i] = uint32(data.Splitmix64(uint64(rank)) % wide)
		}
	case job.ZipfianFirst:
		zipf := NewZipf(size)
		for i := range count {
			drawn[i] = zipf.Rank(Uniform(seed, i))
		}
	default:
		panic("orders are checked before they are drawn: " + string(order))
	}
	return drawn
}

// IsOrder says whether an order can be drawn.
func IsOrder(order job.Order) bool {
	switch order {
	case job.Sequential, job.Timestamp, job.Reverse, job.Random, job.Uniform, job.Zipfian,
		job.ZipfianFirst:
		return true
	}
	return false
}

// Uniform is number i of a stream in [0, 1).
func Uniform(seed, i uint64) float64 {
	return float64(data.Splitmix64(data.Splitmix64(seed)^i)>>11) / (1 << 53)
}

// shuffle is a bijection of [0, size): four Feistel rounds over the next even number of bits. A
// result outside walks its cycle until it is inside.
type shuffle struct {
	size     uint32
	halfBits int
	seed     uint64
}

func newShuffle(size uint32, seed uint64) shuffle {
	width := max(bits.Len32(max(size, 1)-1), 2)
	return shuffle{size: size, halfBits: (width + 1) / 2, seed: seed}
}

func (s *shuffle) at(index uint32) uint32 {
	number := uint64(index)
	for {
		number = s.rounds(number)
		if number < uint64(s.size) {
			return uint32(number)
		}
	}
}

func (s *shuffle) rounds(number uint64) uint64 {
	mask := uint64(1)<<s.halfBits - 1
	left, right := number>>s.halfBits, number&mask
	salt := bits.RotateLeft64(s.seed, 17)
	for round := range uint64(4) {
		mixed := data.Splitmix64(right^round<<40^salt) & mask
		left, right = right, left^mixed
	}
	return left<<s.halfBits | right
}

// Zipf is YCSB's generator of ranks (Gray et al. 1994), theta 0.99; rank 0 is drawn most.
//
// A power may differ from another library's in its last bit. A rank then differs only if it is that
// close to the next: about once in 10^9 draws. Each worker checks against its own plan.
type Zipf struct {
	size, zeta, alpha, eta float64
}

// NewZipf draws ranks below size. Making it costs a pass over all of them.
func NewZipf(size uint32) Zipf {
	whole, two := zeta(size), zeta(min(size, 2))
	// Rounded as on the Rust side; a constant expression of Go would be exact.
	skew := theta
	rest := 1 - skew
	eta := (1 - math.Pow(2/float64(size), rest)) / (1 - two/whole)
	return Zipf{size: float64(size), zeta: whole, alpha: 1 / rest, eta: eta}
}

func zeta(size uint32) float64 {
	sum := 0.0
	for i := uint32(1); i <= size; i++ {
		sum += math.Pow(float64(i), -theta)
	}
	return sum
}

// Rank is the rank that belongs to a number in [0, 1).
func (z *Zipf) Rank(u float64) uint32 {
	uz := u * z.zeta
	if uz < 1 || z.size < 2 {
		return 0
	}
	if uz < 1+math.Pow(0.5, theta) || z.size < 3 {
		return 1
	}
	rank := z.size * math.Pow(z.eta*u-z.eta+1, z.alpha)
	return uint32(min(rank, z.size-1))
}
