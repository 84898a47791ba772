package engines

// arena keeps copies of keys and values for the life of a transaction. Some engines refer to their
// arguments until the commit, while a batch makes all of them in one buffer.
type arena struct {
	bytes []byte
}

// keep copies bytes. Earlier copies stay in place.
func (a *arena) keep(bytes []byte) []byte {
	if len(a.bytes)+len(bytes) > cap(a.bytes) {
		a.bytes = make([]byte, 0, max(2*cap(a.bytes), len(bytes), 64<<10))
	}
	start := len(a.bytes)
	a.bytes = append(a.bytes, bytes...)
	return a.bytes[start:len(a.bytes):len(a.bytes)]
}

// clear drops all copies at the end of the transaction.
func (a *arena) clear() {
	a.bytes = a.bytes[:0]
}
