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
