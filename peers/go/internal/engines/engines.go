// Package engines holds the engines, each behind the interfaces of package engine, configured as
// its authors advise.
package engines

import (
	"fmt"
	"runtime/debug"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/job"
)

// All are the engines of this program.
func All() []engine.Kind {
	return []engine.Kind{Bbolt, Pebble, Badger, Null}
}

// versionOf is the version of a module that is built in.
func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}

// oneFamilyOfBlocks refuses configurations that engines without families and B+tree tables lack.
func oneFamilyOfBlocks(config *job.Config) error {
	if config.Families > 1 {
		return job.Unsupported("no families")
	}
	if config.Table == job.TableBtree {
		return job.Unsupported("one kind of table")
	}
	return nil
}

// knobs describes the equal options in words.
func knobs(config *job.Config) string {
	if config.Arm == job.ArmDefaults {
		return "its own defaults"
	}
	return fmt.Sprintf("memtable %d MiB, cache %d MiB, filter %d bits a key",
		config.WriteBufferBytes>>20, config.CacheBytes>>20, config.BloomBitsPerKey)
}

// snappy names the compression of engines that have Snappy instead of LZ4.
func snappy(config *job.Config) string {
	if config.Codec == job.CodecNone {
		return "no compression"
	}
	return "Snappy, for want of LZ4"
}
