package engines

import (
	"errors"
	"expvar"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

// Badger is Dgraph's log-structured engine, which keeps large values in a log of their own.
//
// All writes go through mapped files, so a commit without a sync survives a killed process, as
// WithSyncWrites says. With SyncWrites the log of the memtable is synced by msync before return.
// Writes are transactions: one for each put, one for each batch.
var Badger = engine.Kind{
	ID: "badger", Facts: badgerFacts, Open: openBadger, Processors: badgerProcessors,
}

// badgerProcessors: its manual advises a high GOMAXPROCS, "which allows Go to observe the full IOPS
// throughput provided by modern SSDs", and names the 128 of Dgraph. Its own tool uses the same.
const badgerProcessors = 128

// badgerIdleMax: tables of level 0 are merged with each other once they are ten seconds old, so a
// state that lasts longer will not change.
const badgerIdleMax = 15 * time.Second

func badgerFacts(config *job.Config) job.Facts {
	facts := job.Facts{
		Version: versionOf("github.com/dgraph-io/badger/v4"),
		Class:   job.ClassProcess,
	}
	why := "writes go through mapped files: in the page cache on return"
	if config.Durability == job.Synced {
		facts.Class, why = job.ClassPower, "SyncWrites: msync of the log before return"
	}
	facts.Options = knobs(config) + ", " + snappy(config)
	if config.Arm == job.ArmEqual {
		facts.Options += ", no detection of conflicts"
	}
	facts.Options += fmt.Sprintf(", GOMAXPROCS %d; %s", badgerProcessors, why)
	return facts
}

// falsePositives of a Bloom filter with this many bits a key: 0.6185 to their power; 0 is no
// filter.
func falsePositives(bits uint32) float64 {
	if bits == 0 {
		return 0
	}
	return math.Pow(0.6185, float64(bits))
}

func openBadger(dir string, config *job.Config) (engine.Engine, error) {
	if err := oneFamilyOfBlocks(config); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "data")
	// One version of a key is kept, which is the default, and there is no logger.
	chosen := badger.DefaultOptions(path).
		WithNumVersionsToKeep(1).
		WithLogger(nil).
		WithSyncWrites(config.Durability == job.Synced).
		WithCompression(options.Snappy)
	if config.Codec == job.CodecNone {
		chosen = chosen.WithCompression(options.None)
	}
	if config.Arm == job.ArmEqual {
		// Each thread writes keys of its own, so transactions cannot conflict. Its manual advises to turn
		// the detection off then. A value in the tables must fit into a transaction, which is 15 % of a
		// memtable.
		valueBytesMax := min(chosen.ValueThreshold, int64(config.WriteBufferBytes)*15/100)
		chosen = chosen.
			WithValueThreshold(valueBytesMax).
			WithMemTableSize(int64(config.WriteBufferBytes)).
			WithBlockCacheSize(int64(config.CacheBytes)).
			WithBloomFalsePositive(falsePositives(config.BloomBitsPerKey)).
			WithDetectConflicts(false)
	}
	if config.Level0Runs != nil {
		runs := int(*config.Level0Runs)
		stall := max(chosen.NumLevelZeroTablesStall, runs+1)
		chosen = chosen.WithNumLevelZeroTables(runs).WithNumLevelZeroTablesStall(stall)
	}
	db, err := badger.Open(chosen)
	if err != nil {
		return nil, err
	}
	return &badgerDB{db, chosen}, nil
}

type badgerDB struct {
	db      *badger.DB
	options badger.Options
}

func (e *badgerDB) Session() (engine.Session, error) {
	return &badgerSession{db: e.db}, nil
}

// Settle waits until no memtable waits for a flush, no table is being compacted and no level needs
// compaction. It also returns if no level has changed for so long that no compaction will follow.
// Badger has no call to flush the memtable; closing does that.
func (e *badgerDB) Settle() (time.Time, error) {
	before, changed := e.db.Levels(), time.Now()
	isIdle := false
	since, err := waitUntilQuiet(func() (bool, error) {
		if levels := e.db.Levels(); compacting() || !slices.Equal(levels, before) {
			before, changed = levels, time.Now()
		}
		isIdle = isIdle || time.Since(changed) >= badgerIdleMax
		if isIdle {
			return true, nil
		}
		return e.isQuiet()
	})
	if isIdle {
		since = changed
	}
	return since, err
}

// compacting says whether tables are being compacted, by the count that Badger publishes.
func compacting() bool {
	tables, ok := expvar.Get("badger_compaction_current_num_lsm").(*expvar.Int)
	return ok && tables.Value() > 0
}

func (e *badgerDB) isQuiet() (bool, error) {
	// The log of a memtable is deleted once it is a table, so the last log is that of the active one.
	logs, err := filepath.Glob(filepath.Join(e.options.Dir, "*.mem"))
	if err != nil || len(logs) > 1 || compacting() {
		return false, err
	}
	levels := e.db.Levels()
	for _, level := range levels[:len(levels)-1] {
		if level.Score >= 1 {
			return false, nil
		}
	}
	return true, nil
}

// Compact writes the memtable out, which only closing does, merges level 0 into the next, and moves
// all tables to one level. There must be no sessions.
//
// Flatten alone would not change a database that has tables in level 0 only, with every version of
// each key. Closing merges them, if requested.
func (e *badgerDB) Compact() error {
	for _, chosen := range []badger.Options{e.options.WithCompactL0OnClose(true), e.options} {
		if err := e.reopen(chosen); err != nil {
			return err
		}
	}
	return e.db.Flatten(2)
}

func (e *badgerDB) reopen(chosen badger.Options) error {
	if err := e.db.Close(); err != nil {
		return err
	}
	db, err := badger.Open(chosen)
	if err != nil {
		return err
	}
	e.db = db
	return nil
}

func (e *badgerDB) Close() error { return e.db.Close() }

type badgerSession struct {
	engine.Lacks
	db *badger.DB
	// view is the read transaction of the reads so far; the iterators belong to it.
	view    *badger.Txn
	forward *badger.Iterator
	reverse *badger.Iterator
	kept    arena
}

// commit is a transaction that writes.
func (s *badgerSession) commit(operations int, change func(*badger.Txn) error) error {
	tx := s.db.NewTransaction(true)
	defer tx.Discard()
	err := change(tx)
	if err == nil {
		err = tx.Commit()
	}
	if errors.Is(err, badger.ErrTxnTooBig) {
		const exceeds = "batches of %d exceed its transaction"
		return job.Unsupported(fmt.Sprintf(exceeds, operations))
	}
	return err
}

func (s *badgerSession) Put(key, value []byte) error {
	return s.commit(1, func(tx *badger.Txn) error { return tx.Set(key, value) })
}

func (s *badgerSession) Delete(key []byte) error {
	return s.commit(1, func(tx *badger.Txn) error { return tx.Delete(key) })
}

func (s *badgerSession) Write(batch *engine.Batch) error {
	// Keys and values must not change until the commit.
	s.kept.clear()
	return s.commit(batch.Len(), func(tx *badger.Txn) error {
		for index := range batch.Len() {
			key, value := batch.At(index)
			var err error
			if value == nil {
				err = tx.Delete(s.kept.keep(key))
			} else {
				err = tx.Set(s.kept.keep(key), s.kept.keep(value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *badgerSession) look() *badger.Txn {
	if s.view == nil {
		s.view = s.db.NewTransaction(false)
	}
	return s.view
}

// iterator is an iterator of the view. Values are read on demand, because they lie beside their
// keys and prefetching them would cost extra work.
func (s *badgerSession) iterator(way engine.Direction) *badger.Iterator {
	place := &s.forward
	if way == engine.Reverse {
		place = &s.reverse
	}
	if *place == nil {
		*place = s.look().NewIterator(badger.IteratorOptions{Reverse: way == engine.Reverse})
	}
	return *place
}

func (s *badgerSession) Get(key []byte, seen func([]byte)) (bool, error) {
	item, err := s.look().Get(key)
	if err == badger.ErrKeyNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, item.Value(func(value []byte) error {
		seen(value)
		return nil
	})
}

func (s *badgerSession) Seek(key []byte, seen func(_, _ []byte)) (bool, error) {
	count, err := s.Scan(key, 1, engine.Forward, seen)
	return count > 0, err
}

func (s *badgerSession) Scan(
	from []byte, limit uint64, way engine.Direction, seen func(_, _ []byte),
) (uint64, error) {
	iterator := s.iterator(way)
	var key []byte
	show := func(value []byte) error {
		seen(key, value)
		return nil
	}
	if from == nil {
		iterator.Rewind()
	} else {
		iterator.Seek(from)
	}
	count := uint64(0)
	for count < limit && iterator.Valid() {
		item := iterator.Item()
		key = item.Key()
		if err := item.Value(show); err != nil {
			return count, err
		}
		count++
		if count < limit {
			iterator.Next()
		}
	}
	return count, nil
}

func (s *badgerSession) Refresh() error {
	for _, iterator := range []*badger.Iterator{s.forward, s.reverse} {
		if iterator != nil {
			iterator.Close()
		}
	}
	if s.view != nil {
		s.view.Discard()
	}
	s.view, s.forward, s.reverse = nil, nil, nil
	return nil
}

func (s *badgerSession) Close() error { return s.Refresh() }
