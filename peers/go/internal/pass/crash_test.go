// Tests of crash tests and stores: commits are counted; a store is filled once, and its copies are
// complete.

package pass

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
)

func TestAllCommitsOfADatabaseThatWasClosedAreCounted(t *testing.T) {
	config := job.Config{
		WriteBufferBytes: 4 << 20, CacheBytes: 8 << 20, Codec: job.CodecNone,
		Durability: job.Synced, Families: 1, EntriesMax: 1000, BytesMax: 1 << 20,
	}
	test := &job.CrashTest{Dir: t.TempDir(), Config: config, Commits: 30}
	kind := engines.Bbolt
	var db engine.Engine
	open := kind.Open
	kind.Open = func(dir string, config *job.Config) (engine.Engine, error) {
		var err error
		db, err = open(dir, config)
		return db, err
	}
	told := uint64(0)
	tell := func(progress *job.Progress) { told = progress.Done }
	if err := Commit(kind, test, tell); err != nil || told != 30 {
		t.Fatal(told, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	test.Commits = 40
	survived, err := Count(kind, test)
	if err != nil || survived.Found != 30 || survived.Beyond != 0 {
		t.Fatal(survived, err)
	}
}

func TestAStoreIsFilledOnceAndEachCopyIsWhole(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	fills := 0
	fill := func(database string) ([]job.Phase, error) {
		fills++
		if err := os.Mkdir(filepath.Join(database, "inner"), 0o755); err != nil {
			return nil, err
		}
		path := filepath.Join(database, "inner", "table")
		return []job.Phase{{Ops: 7}}, os.WriteFile(path, []byte("rows"), 0o644)
	}
	for _, name := range []string{"first", "second"} {
		phases, err := copyTo(filepath.Join(dir, name), store, fill)
		if err != nil || fills != 1 || phases[0].Ops != 7 {
			t.Fatal(phases, fills, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, name, "inner", "table"))
		if err != nil || string(text) != "rows" {
			t.Fatal(string(text), err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "inner", "table"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHolesStayHoles(t *testing.T) {
	const length, middle = 1 << 30, 300 << 20
	from, to := t.TempDir(), t.TempDir()
	file, err := os.Create(filepath.Join(from, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, first := file.WriteAt([]byte("at the front"), 0)
	_, second := file.WriteAt([]byte("in the middle"), middle)
	err = errors.Join(first, second, file.Truncate(length), copyFolder(from, to))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.Open(filepath.Join(to, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	found := make([]byte, 20)
	pieces := map[int64]string{0: "at the front", middle: "in the middle", 1 << 20: ""}
	for at, wanted := range pieces {
		_, err := copied.ReadAt(found, at)
		if err != nil || string(bytes.TrimRight(found, "\x00")) != wanted {
			t.Error(string(found), err)
		}
	}
	info, err := copied.Stat()
	if err != nil || info.Size() != length {
		t.Error(info, err)
	}
	if taken, err := measure.DiskBytes(to); err != nil || taken > 1<<20 {
		t.Error(taken, err)
	}
}
