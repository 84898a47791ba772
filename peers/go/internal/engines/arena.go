package engines

// arena keeps copies of keys and values for the life of a transaction: some engines hold what they
// are given until the commit, while a batch makes all in one place.
type arena struct {
	bytes []byte
}

// keep copies bytes. What was kept before stays where it is.
func (a *arena) keep(bytes []byte) []byte {
	if len(a.bytes)+len(bytes) > cap(a.bytes) {
		a.bytes = make([]byte, 0, max(2*cap(a.bytes), len(bytes), 64<<10))
	}
	start := len(a.bytes)
	a.bytes = append(a.bytes, bytes...)
	return a.bytes[start:len(a.bytes):len(a.bytes)]
}

// clear forgets all; the transaction is over.
func (a *arena) clear() {
	a.bytes = a.bytes[:0]
}
