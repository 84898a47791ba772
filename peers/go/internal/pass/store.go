// Seeded databases, kept and copied: a row is seeded once for all its passes and repeats. A kept
// database is in the state of the row and closed, or as a killed process left it.

package pass

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"silt-bench-go/internal/job"
)

const (
	// storeDatabase is the name of the database within a store.
	storeDatabase = "database"
	// storePhases has the results of the seed phases. It is written last, so that a store without it
	// counts as empty.
	storePhases = "phases.json"
)

// isFilled says whether a store holds a database.
func isFilled(store string) bool {
	_, err := os.Stat(filepath.Join(store, storePhases))
	return err == nil
}

// fill fills a store with the database that make creates in a directory. It stores the results of
// its seed phases.
func fill(store string, make func(dir string) ([]job.Phase, error)) error {
	database := filepath.Join(store, storeDatabase)
	// Removes the remains of a failed attempt.
	if err := os.RemoveAll(database); err != nil {
		return err
	}
	if err := os.MkdirAll(database, 0o755); err != nil {
		return err
	}
	made, err := make(database)
	if err != nil {
		return err
	}
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(store, storePhases), text, 0o644)
}

// copyTo copies the database of a store to a directory and returns the results of its seed phases.
// make fills the store if it is empty.
func copyTo(dir, store string, make func(dir string) ([]job.Phase, error)) ([]job.Phase, error) {
	if !isFilled(store) {
		if err := fill(store, make); err != nil {
			return nil, err
		}
	}
	if err := copyFolder(filepath.Join(store, storeDatabase), dir); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(store, storePhases))
	if err != nil {
		return nil, err
	}
	var made []job.Phase
	return made, json.Unmarshal(text, &made)
}

// copyAnew replaces the contents of a directory by a fresh copy of the database of a store.
func copyAnew(dir, store string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return copyFolder(filepath.Join(store, storeDatabase), dir)
}

// copyFolder copies a directory and syncs the copy, so that no write-back remains for a measured
// phase.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return copyFile(path, target)
	})
}

// copyFile copies a file without its holes, because killed engines leave gigabytes of preallocated
// space.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = target.Truncate(info.Size())
	if err == nil {
		err = copyData(source, target, info.Size())
	}
	if err != nil {
		target.Close()
		return err
	}
	return inTurn(target.Sync, target.Close)
}

// copyData copies the parts that are not holes.
func copyData(source, target *os.File, size int64) error {
	for end := int64(0); end < size; {
		start, err := source.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			// Only a hole remains.
			return nil
		}
		if err == nil {
			end, err = source.Seek(start, unix.SEEK_HOLE)
		}
		if err == nil {
			_, err = source.Seek(start, io.SeekStart)
		}
		if err == nil {
			_, err = target.Seek(start, io.SeekStart)
		}
		if err == nil {
			_, err = io.CopyN(target, source, end-start)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
