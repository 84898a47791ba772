// Seeded databases, kept to be copied: a row is seeded once for all its passes and repeats. What is
// kept has been brought to the state of the row and closed.

package pass

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"silt-bench-go/internal/job"
)

const (
	// storeDatabase is the database within a store.
	storeDatabase = "database"
	// storePhases says how its seed phases went; written last, so that a store without it holds
	// nothing.
	storePhases = "phases.json"
)

// copyTo copies the database of a store to a directory and says how its seed phases went. make
// fills the store if it holds nothing.
func copyTo(dir, store string, make func(dir string) ([]job.Phase, error)) ([]job.Phase, error) {
	database, phases := filepath.Join(store, storeDatabase), filepath.Join(store, storePhases)
	if _, err := os.Stat(phases); os.IsNotExist(err) {
		// It may hold something of an attempt that failed.
		if err := os.RemoveAll(database); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(database, 0o755); err != nil {
			return nil, err
		}
		made, err := make(database)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(made)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(phases, text, 0o644); err != nil {
			return nil, err
		}
	}
	if err := copyFolder(database, dir); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(phases)
	if err != nil {
		return nil, err
	}
	var made []job.Phase
	return made, json.Unmarshal(text, &made)
}

// copyFolder copies a folder. The copy is synced: nothing of it is written while something is
// measured.
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

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	return inTurn(target.Sync, target.Close)
}
