package engines

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

// Bbolt is a copy-on-write B+tree in a mapped file, with a single writer. A family is a bucket.
//
// A commit writes its pages to the file and then, unless NoSync, syncs. Without a sync it is in the
// page cache on return, so it survives a killed process. A put is a transaction of its own;
// DB.Batch, which gathers those of many goroutines, waits up to 10 ms for others and is not used.
// Reads use a read transaction, renewed after writes. A session ends its own before it writes,
// because a file that must be mapped again waits for all readers.
var Bbolt = engine.Kind{
	ID: "bbolt", Facts: bboltFacts, Open: openBbolt, NoCompaction: true,
	Isolation: "serializable: one writer",
}

const (
	// The map of a database may grow to this many times its entries: pages half full, and pages that
	// are free only after their readers end. It costs addresses, not memory.
	bboltMapFactor = 8
	bboltMapMin    = 1 << 30
)

func bboltFacts(config *job.Config) job.Facts {
	facts := job.Facts{Version: versionOf("go.etcd.io/bbolt"), Class: job.ClassProcess}
	why := "NoSync: a commit has written its pages to the file on return"
	if config.Durability == job.Synced {
		facts.Class, why = job.ClassPower, "fdatasync for each commit"
	}
	options := "free pages in a hash map and not written, mapped at once"
	switch {
	case config.Arm == job.ArmDefaults:
		options = "its own defaults"
	case config.IsOpenedOften:
		options = "free pages in a hash map and written, as opening would seek them, mapped at once"
	}
	facts.Options = options + ", no compression, the page cache is its cache; " + why
	return facts
}

func openBbolt(dir string, config *job.Config) (engine.Engine, error) {
	if config.Level0Runs != nil {
		return nil, job.Unsupported("no level 0")
	}
	options := *bolt.DefaultOptions
	if config.Arm == job.ArmEqual {
		// etcd, its main user, sets the same. Without a synced free list an open searches all pages for
		// free ones.
		options.FreelistType = bolt.FreelistMapType
		options.NoFreelistSync = !config.IsOpenedOften
		options.InitialMmapSize = int(config.BytesMax*bboltMapFactor + bboltMapMin)
	}
	if config.Durability == job.Buffered {
		options.NoSync, options.NoGrowSync = true, true
	}
	db, err := bolt.Open(filepath.Join(dir, "data.bbolt"), 0o644, &options)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for family := range max(config.Families, 1) {
			if _, err := tx.CreateBucketIfNotExists(bucketName(family)); err != nil {
				return err
			}
		}
		return nil
	})
	return &bbolt{db}, err
}

func bucketName(family uint32) []byte {
	return binary.BigEndian.AppendUint32(nil, family)
}

type bbolt struct {
	db *bolt.DB
}

func (e *bbolt) Session() (engine.Session, error) {
	return &bboltSession{db: e.db, name: bucketName(0)}, nil
}

// Settle returns at once: bbolt has no background work.
func (*bbolt) Settle() (time.Time, error) { return time.Now(), nil }

// Compact does nothing: bbolt cannot compact in place.
func (*bbolt) Compact() error { return nil }

func (e *bbolt) Close() error { return e.db.Close() }

type bboltSession struct {
	db *bolt.DB
	// name is the name of the bucket in use.
	name []byte
	// view is the read transaction of the reads so far; bucket and cursor belong to it.
	view   *bolt.Tx
	bucket *bolt.Bucket
	cursor *bolt.Cursor
	values arena
}

// commit is a transaction that writes.
func (s *bboltSession) commit(change func(*bolt.Bucket) error) error {
	if err := s.Refresh(); err != nil {
		return err
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	if err := change(tx.Bucket(s.name)); err != nil {
		// The original failure says more than one of the rollback.
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (s *bboltSession) Put(key, value []byte) error {
	return s.commit(func(bucket *bolt.Bucket) error { return bucket.Put(key, value) })
}

func (s *bboltSession) Delete(key []byte) error {
	return s.commit(func(bucket *bolt.Bucket) error { return bucket.Delete(key) })
}

func (s *bboltSession) Write(batch *engine.Batch) error {
	// A value must not change until the commit; a key is copied.
	s.values.clear()
	return s.commit(func(bucket *bolt.Bucket) error {
		for index := range batch.Len() {
			key, value := batch.At(index)
			var err error
			if value == nil {
				err = bucket.Delete(key)
			} else {
				err = bucket.Put(key, s.values.keep(value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Transact: one writer, so that nothing conflicts.
func (s *bboltSession) Transact(body func(engine.Transaction) error) error {
	s.values.clear()
	return s.commit(func(bucket *bolt.Bucket) error {
		return body(&bboltTransaction{bucket, &s.values})
	})
}

// bboltTransaction is a transaction on a bucket.
type bboltTransaction struct {
	bucket *bolt.Bucket
	values *arena
}

func (t *bboltTransaction) Get(key []byte, seen func([]byte)) (bool, error) {
	value := t.bucket.Get(key)
	if value == nil {
		return false, nil
	}
	seen(value)
	return true, nil
}

func (t *bboltTransaction) Scan(from, to []byte, seen func(_, _ []byte)) (uint64, error) {
	cursor := t.bucket.Cursor()
	count := uint64(0)
	key, value := cursor.Seek(from)
	for key != nil && bytes.Compare(key, to) < 0 {
		seen(key, value)
		count++
		key, value = cursor.Next()
	}
	return count, nil
}

// Put: a value must stay as it is until the commit; a key is copied.
func (t *bboltTransaction) Put(key, value []byte) error {
	return t.bucket.Put(key, t.values.keep(value))
}

// look makes sure that there is a read transaction on the bucket.
func (s *bboltSession) look() error {
	if s.view == nil {
		view, err := s.db.Begin(false)
		if err != nil {
			return err
		}
		s.view = view
	}
	if s.bucket == nil {
		s.bucket = s.view.Bucket(s.name)
		s.cursor = s.bucket.Cursor()
	}
	return nil
}

func (s *bboltSession) Get(key []byte, seen func([]byte)) (bool, error) {
	if err := s.look(); err != nil {
		return false, err
	}
	value := s.bucket.Get(key)
	if value == nil {
		return false, nil
	}
	seen(value)
	return true, nil
}

func (s *bboltSession) Seek(key []byte, seen func(_, _ []byte)) (bool, error) {
	if err := s.look(); err != nil {
		return false, err
	}
	found, value := s.cursor.Seek(key)
	if found == nil {
		return false, nil
	}
	seen(found, value)
	return true, nil
}

func (s *bboltSession) Scan(
	from []byte, limit uint64, way engine.Direction, seen func(_, _ []byte),
) (uint64, error) {
	if err := s.look(); err != nil {
		return 0, err
	}
	key, value := s.begin(from, way)
	count := uint64(0)
	for key != nil && count < limit {
		seen(key, value)
		count++
		if way == engine.Forward {
			key, value = s.cursor.Next()
		} else {
			key, value = s.cursor.Prev()
		}
	}
	return count, nil
}

// begin is the first entry of a scan.
func (s *bboltSession) begin(from []byte, way engine.Direction) (key, value []byte) {
	switch {
	case from == nil && way == engine.Forward:
		return s.cursor.First()
	case from == nil:
		return s.cursor.Last()
	}
	key, value = s.cursor.Seek(from)
	switch {
	case way == engine.Forward || bytes.Equal(key, from):
		return key, value
	case key == nil:
		return s.cursor.Last()
	}
	return s.cursor.Prev()
}

func (*bboltSession) DeleteRange(_, _ []byte) error {
	return job.Unsupported("no range delete")
}

func (s *bboltSession) SelectFamily(index uint32) error {
	binary.BigEndian.PutUint32(s.name, index)
	s.bucket, s.cursor = nil, nil
	return nil
}

func (s *bboltSession) Refresh() error {
	view := s.view
	s.view, s.bucket, s.cursor = nil, nil, nil
	if view == nil {
		return nil
	}
	return view.Rollback()
}

func (s *bboltSession) Close() error { return s.Refresh() }
