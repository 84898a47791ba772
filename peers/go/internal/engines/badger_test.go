package engines

import (
	"bytes"
	"path/filepath"
	"testing"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

func TestCompactingBadgerWritesTheMemtableOutAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	config := &job.Config{
		WriteBufferBytes: 16 << 20, CacheBytes: 8 << 20, BloomBitsPerKey: 10,
		Arm: job.ArmEqual, Families: 1,
	}
	db, err := openBadger(dir, config)
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "first")
	if err := db.Compact(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "data", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Errorf("no table: %v, %v", tables, err)
	}
	put(t, db, "second")
	session, err := db.Session()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"first", "second"} {
		seen := []byte{}
		found, err := session.Get([]byte(key), func(value []byte) { seen = bytes.Clone(value) })
		if !found || err != nil || string(seen) != "of "+key {
			t.Errorf("%s: found %q, %v", key, seen, err)
		}
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Flattening alone leaves the versions of keys that lie in level 0.
func TestCompactingBadgerMergesWhatLiesInLevelZero(t *testing.T) {
	config := &job.Config{
		WriteBufferBytes: 16 << 20, CacheBytes: 8 << 20, BloomBitsPerKey: 10,
		Arm: job.ArmEqual, Families: 1,
	}
	opened, err := openBadger(t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	db := opened.(*badgerDB)
	for range 3 {
		put(t, db, "again")
		// The memtable becomes a table of level 0.
		if err := db.reopen(db.options); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(); err != nil {
		t.Fatal(err)
	}
	for _, level := range db.db.Levels() {
		if level.Level == 0 && level.NumTables > 0 || level.NumTables > 1 {
			t.Errorf("%d tables in level %d", level.NumTables, level.Level)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, db engine.Engine, key string) {
	t.Helper()
	session, err := db.Session()
	if err == nil {
		err = session.Put([]byte(key), []byte("of "+key))
	}
	if err == nil {
		err = session.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
