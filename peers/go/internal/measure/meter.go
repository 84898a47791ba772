// The kernel's counts for this process. It does not know phases.

package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"silt-bench-go/internal/job"
)

const (
	// ticksPerSecond are the clock ticks of /proc in a second, on every Linux.
	ticksPerSecond = 100
	// sectorBytes are the bytes of a sector in /sys, independent of the device's own.
	sectorBytes = 512
)

// CountAt is the place at which written bytes are counted.
type CountAt uint8

const (
	// AtProcess counts the pages that the process made dirty.
	AtProcess CountAt = iota
	// AtDevice counts writes to the block device under the directory, as after a sync; those of other
	// processes count too.
	AtDevice
)

// Counted is the kernel's counts over some time.
type Counted struct {
	time            time.Duration
	cpuTicks        uint64
	contextSwitches uint64
	processWritten  uint64
	// deviceWritten is the writes of all processes to the block device under a directory.
	deviceWritten uint64
}

// Add adds the counts of another time.
func (c *Counted) Add(other Counted) {
	c.time += other.time
	c.cpuTicks += other.cpuTicks
	c.contextSwitches += other.contextSwitches
	c.processWritten += other.processWritten
	c.deviceWritten += other.deviceWritten
}

// without subtracts the counts of a part of the time.
func (c Counted) without(part Counted) Counted {
	return Counted{
		time:            c.time - min(part.time, c.time),
		cpuTicks:        since(part.cpuTicks, c.cpuTicks),
		contextSwitches: since(part.contextSwitches, c.contextSwitches),
		processWritten:  since(part.processWritten, c.processWritten),
		deviceWritten:   since(part.deviceWritten, c.deviceWritten),
	}
}

// moment is a moment, and the kernel's counts up to it.
type moment struct {
	at time.Time
	// deviceStat is the file with the counts of the device; empty if there is none.
	deviceStat string
	counted    Counted
}

func now(dir string) moment {
	stat := deviceStat(dir)
	return moment{deviceStat: stat, counted: countedSoFar(stat), at: time.Now()}
}

func (m *moment) countedSince() Counted {
	took := time.Since(m.at)
	counted := countedSoFar(m.deviceStat).without(m.counted)
	counted.time = took
	return counted
}

// countedSoFar has all counts except time.
func countedSoFar(deviceStat string) Counted {
	written, _ := sectorsWritten(deviceStat)
	return Counted{
		cpuTicks:        cpuTicks(),
		contextSwitches: contextSwitches(),
		processWritten:  processWritten(),
		deviceWritten:   written,
	}
}

// Meter measures the use of resources.
type Meter struct {
	harnessRSSBytes uint64
	at              CountAt
	started         moment
}

// StartMeter begins to count, and resets the peak of memory. harnessRSSBytes is the memory of the
// benchmark itself.
func StartMeter(dir string, at CountAt, harnessRSSBytes uint64) *Meter {
	// Some kernels refuse this; then the peak is that of the whole process.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return &Meter{harnessRSSBytes: harnessRSSBytes, at: at, started: now(dir)}
}

// deviceStat is the kernel's file of counts of the device under a directory. Without it, bytes are
// those of the process, and the report says so.
func deviceStat(dir string) string {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return ""
	}
	major, minor := unix.Major(stat.Dev), unix.Minor(stat.Dev)
	path := fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor)
	if _, ok := sectorsWritten(path); !ok {
		return ""
	}
	return path
}

// Stop returns the resources used since then, without those used aside.
func (m *Meter) Stop(aside Counted) job.Usage {
	status := read("/proc/self/status")
	used := m.started.countedSince().without(aside)
	cpuSeconds := float64(used.cpuTicks) / ticksPerSecond
	usage := job.Usage{
		HarnessRSSBytes: m.harnessRSSBytes,
		PeakRSSBytes:    kib(status, "VmHWM:"),
		PeakVMSBytes:    kib(status, "VmPeak:"),
		CPUPercent:      100 * cpuSeconds / max(used.time.Seconds(), 1e-9),
		ContextSwitches: used.contextSwitches,
		BytesWritten:    used.processWritten,
	}
	if m.at == AtDevice && m.started.deviceStat != "" {
		usage.BytesWritten = used.deviceWritten
		usage.CountedAtDevice = true
	}
	return usage
}

func since(before, now uint64) uint64 {
	return now - min(before, now)
}

// ResidentBytes is the resident memory of this process now.
func ResidentBytes() uint64 {
	return kib(read("/proc/self/status"), "VmRSS:")
}

// read returns nothing for an unreadable file, so that a missing counter is 0.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// kib reads a line `name 123 kB` of a status, in bytes.
func kib(status, name string) uint64 {
	return numberAfter(status, name) << 10
}

func numberAfter(text, name string) uint64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if fields := strings.Fields(rest); len(fields) > 0 {
			return number(fields[0])
		}
	}
	return 0
}

func number(text string) uint64 {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

func cpuTicks() uint64 {
	stat := read("/proc/self/stat")
	// The name may contain blanks; it ends with the last parenthesis.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	return number(fields[11]) + number(fields[12])
}

func processWritten() uint64 {
	return numberAfter(read("/proc/self/io"), "write_bytes:")
}

// contextSwitches are those of all threads, including those that have ended.
func contextSwitches() uint64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return uint64(usage.Nvcsw) + uint64(usage.Nivcsw)
}

func sectorsWritten(stat string) (uint64, bool) {
	fields := strings.Fields(read(stat))
	if len(fields) < 7 {
		return 0, false
	}
	return number(fields[6]) * sectorBytes, true
}
