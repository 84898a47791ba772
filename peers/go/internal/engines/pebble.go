package engines

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

// Pebble is CockroachDB's log-structured engine.
//
// A goroutine writes its log. With NoSync a commit returns before the kernel has it ("buffered
// inside the process", says WriteOptions.Sync), so it does not survive the process.
var Pebble = engine.Kind{ID: "pebble", Facts: pebbleFacts, Open: openPebble}

func pebbleFacts(config *job.Config) job.Facts {
	facts := job.Facts{
		Version: versionOf("github.com/cockroachdb/pebble/v2"),
		Class:   job.ClassMemory,
	}
	why := "NoSync: the log is still in the process on return, as its documentation says"
	if config.Durability == job.Synced {
		facts.Class, why = job.ClassPower, "Sync: the log is synced before return"
	}
	facts.Options = knobs(config) + ", " + snappy(config) + "; " + why
	return facts
}

func openPebble(dir string, config *job.Config) (engine.Engine, error) {
	if err := oneFamilyOfBlocks(config); err != nil {
		return nil, err
	}
	options := &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             quiet{},
	}
	if config.Arm == job.ArmEqual {
		// Pebble reserves its memtables in the cache: the one in use and one kept for the next. Blocks
		// get the rest. With these two added, blocks get the requested size.
		cache := pebble.NewCache(int64(config.CacheBytes + 2*config.WriteBufferBytes))
		// The database holds a reference from now on.
		defer cache.Unref()
		options.Cache = cache
		options.MemTableSize = config.WriteBufferBytes
		// Its own benchmark (cmd/pebble) and CockroachDB set the same.
		options.MemTableStopWritesThreshold = 4
		options.L0CompactionThreshold = 2
		options.L0StopWritesThreshold = 1000
		options.LBaseMaxBytes = 64 << 20
		options.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	}
	if config.Level0Runs != nil {
		options.L0CompactionThreshold = int(*config.Level0Runs)
	}
	compression := sstable.SnappyCompression
	if config.Codec == job.CodecNone {
		compression = sstable.NoCompression
	}
	for index := range options.Levels {
		level := &options.Levels[index]
		level.Compression = func() *sstable.CompressionProfile { return compression }
		if config.Arm == job.ArmEqual && config.BloomBitsPerKey > 0 {
			level.FilterPolicy = bloom.FilterPolicy(config.BloomBitsPerKey)
		}
	}
	db, err := pebble.Open(filepath.Join(dir, "data"), options)
	if err != nil {
		return nil, err
	}
	write := pebble.NoSync
	if config.Durability == job.Synced {
		write = pebble.Sync
	}
	return &pebbleDB{db, write}, nil
}

type pebbleDB struct {
	db    *pebble.DB
	write *pebble.WriteOptions
}

func (e *pebbleDB) Session() (engine.Session, error) {
	return &pebbleSession{db: e.db, write: e.write}, nil
}

// Settle flushes the memtables and waits until no background work runs.
func (e *pebbleDB) Settle() (time.Time, error) {
	if err := e.db.Flush(); err != nil {
		return time.Time{}, err
	}
	return waitUntilQuiet(func() (bool, error) {
		metrics := e.db.Metrics()
		return metrics.Compact.NumInProgress == 0 && metrics.Flush.NumInProgress == 0, nil
	})
}

// Compact compacts the whole range; keys of the benchmark begin below 255.
func (e *pebbleDB) Compact() error {
	return e.db.Compact(context.Background(), []byte{0}, []byte{255}, true)
}

func (e *pebbleDB) Close() error { return e.db.Close() }

type pebbleSession struct {
	db    *pebble.DB
	write *pebble.WriteOptions
	// iterator is the iterator of seeks and scans; it sees the state at its creation.
	iterator *pebble.Iterator
	batch    *pebble.Batch
}

func (s *pebbleSession) Put(key, value []byte) error {
	return s.db.Set(key, value, s.write)
}

func (s *pebbleSession) Delete(key []byte) error {
	return s.db.Delete(key, s.write)
}

func (s *pebbleSession) Write(batch *engine.Batch) error {
	if s.batch == nil {
		s.batch = s.db.NewBatch()
	}
	for index := range batch.Len() {
		key, value := batch.At(index)
		var err error
		if value == nil {
			err = s.batch.Delete(key, nil)
		} else {
			err = s.batch.Set(key, value, nil)
		}
		if err != nil {
			return err
		}
	}
	if err := s.batch.Commit(s.write); err != nil {
		return err
	}
	s.batch.Reset()
	return nil
}

// Get always reads the present state.
func (s *pebbleSession) Get(key []byte, seen func([]byte)) (bool, error) {
	value, closer, err := s.db.Get(key)
	if err == pebble.ErrNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	seen(value)
	return true, closer.Close()
}

func (s *pebbleSession) look() error {
	if s.iterator != nil {
		return nil
	}
	iterator, err := s.db.NewIter(nil)
	s.iterator = iterator
	return err
}

func (s *pebbleSession) Seek(key []byte, seen func(_, _ []byte)) (bool, error) {
	if err := s.look(); err != nil {
		return false, err
	}
	if !s.iterator.SeekGE(key) {
		return false, s.iterator.Error()
	}
	return true, s.show(seen)
}

// show passes the iterator's entry to seen.
func (s *pebbleSession) show(seen func(_, _ []byte)) error {
	value, err := s.iterator.ValueAndErr()
	if err != nil {
		return err
	}
	seen(s.iterator.Key(), value)
	return nil
}

func (s *pebbleSession) Scan(
	from []byte, limit uint64, way engine.Direction, seen func(_, _ []byte),
) (uint64, error) {
	if err := s.look(); err != nil {
		return 0, err
	}
	count := uint64(0)
	for valid := s.begin(from, way); valid && count < limit; {
		if err := s.show(seen); err != nil {
			return count, err
		}
		count++
		// No step beyond the last requested entry, because it may cost a block.
		if count == limit {
			break
		}
		if way == engine.Forward {
			valid = s.iterator.Next()
		} else {
			valid = s.iterator.Prev()
		}
	}
	return count, s.iterator.Error()
}

// begin seeks the first entry of a scan.
func (s *pebbleSession) begin(from []byte, way engine.Direction) bool {
	switch {
	case from == nil && way == engine.Forward:
		return s.iterator.First()
	case from == nil:
		return s.iterator.Last()
	case way == engine.Forward:
		return s.iterator.SeekGE(from)
	}
	// SeekLT stops below its key. The shortest key above the requested one makes it stop at or below
	// the requested one.
	return s.iterator.SeekLT(append(from[:len(from):len(from)], 0))
}

func (s *pebbleSession) DeleteRange(from, to []byte) error {
	return s.db.DeleteRange(from, to, s.write)
}

func (s *pebbleSession) SelectFamily(index uint32) error {
	return engine.Lacks{}.SelectFamily(index)
}

func (s *pebbleSession) Refresh() error {
	iterator := s.iterator
	s.iterator = nil
	if iterator == nil {
		return nil
	}
	return iterator.Close()
}

func (s *pebbleSession) Close() error {
	err := s.Refresh()
	if s.batch != nil {
		if closed := s.batch.Close(); err == nil {
			err = closed
		}
	}
	return err
}

// quiet is a logger that reports errors only.
type quiet struct{}

func (quiet) Infof(string, ...any) {}

func (quiet) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (quiet) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
