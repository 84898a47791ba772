// Files on disk and in the page cache. It does not know databases.

package measure

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// DiskBytes are the bytes that the files below a directory take up on disk, without holes.
func DiskBytes(dir string) (uint64, error) {
	bytes := uint64(0)
	err := eachFile(dir, func(_ string, info fs.FileInfo) error {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += uint64(stat.Blocks) * sectorBytes
		}
		return nil
	})
	return bytes, err
}

// DropFromPageCache writes the files below a directory back and drops them from the page cache.
func DropFromPageCache(dir string) error {
	return eachFile(dir, func(path string, _ fs.FileInfo) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := file.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

func eachFile(dir string, visit func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return visit(path, info)
	})
}
