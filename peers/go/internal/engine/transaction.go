package engine

// Transaction is one attempt of a transaction. What is shown is good only during the call, and what
// is given is copied or used up within it.
type Transaction interface {
	// Get shows the value of a key that the transaction means to write, if there is one.
	Get(key []byte, seen func(value []byte)) (bool, error)
	// Scan shows the entries from a key, included, up to another, excluded; it says how many.
	Scan(from, to []byte, seen func(key, value []byte)) (uint64, error)
	// Put sets a value, once the transaction commits.
	Put(key, value []byte) error
}

// Transactor is a session of an engine whose transactions are driven here.
type Transactor interface {
	// Transact runs a body in transactions, as the engine advises after a conflict, until one has
	// committed. An error of the body ends it.
	Transact(body func(Transaction) error) error
}
