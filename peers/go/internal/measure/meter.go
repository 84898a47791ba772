// What the kernel says of this process. It does not know phases.

package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"silt-bench-go/internal/job"
)

const (
	// ticksPerSecond are the clock ticks of /proc in a second, on every Linux.
	ticksPerSecond = 100
	// sectorBytes are the bytes of a sector in /sys, whatever the device's own.
	sectorBytes = 512
)

// CountAt says where bytes written are counted.
type CountAt uint8

const (
	// AtProcess counts what the process made dirty.
	AtProcess CountAt = iota
	// AtDevice counts what a sync sent to the block device under the directory; others' writes
	// count too.
	AtDevice
)

// Meter holds what the kernel has counted so far.
type Meter struct {
	harnessRSSBytes uint64
	cpuTicks        uint64
	contextSwitches uint64
	processWritten  uint64
	deviceStat      string
	deviceWritten   uint64
	started         time.Time
}

// StartMeter begins to count; it forgets the peak of memory so far. harnessRSSBytes is what the
// benchmark itself holds.
func StartMeter(dir string, at CountAt, harnessRSSBytes uint64) *Meter {
	// Refused by some kernels: then the peak is that of the whole process.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	meter := &Meter{
		harnessRSSBytes: harnessRSSBytes,
		cpuTicks:        cpuTicks(),
		contextSwitches: contextSwitches(),
		processWritten:  processWritten(),
	}
	if at == AtDevice {
		meter.watchDevice(dir)
	}
	meter.started = time.Now()
	return meter
}

// watchDevice looks for the counters of the device under a directory; where there are none, bytes
// are those of the process, and the report says so.
func (m *Meter) watchDevice(dir string) {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return
	}
	major, minor := unix.Major(stat.Dev), unix.Minor(stat.Dev)
	path := fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor)
	if written, ok := sectorsWritten(path); ok {
		m.deviceStat, m.deviceWritten = path, written
	}
}

// Stop says what was used since. Threads of Go do not end, so their context switches are all there.
func (m *Meter) Stop() job.Usage {
	status := read("/proc/self/status")
	seconds := max(time.Since(m.started).Seconds(), 1e-9)
	cpu := float64(since(m.cpuTicks, cpuTicks())) / ticksPerSecond
	usage := job.Usage{
		HarnessRSSBytes: m.harnessRSSBytes,
		PeakRSSBytes:    kib(status, "VmHWM:"),
		PeakVMSBytes:    kib(status, "VmPeak:"),
		CPUPercent:      100 * cpu / seconds,
		ContextSwitches: since(m.contextSwitches, contextSwitches()),
		BytesWritten:    since(m.processWritten, processWritten()),
	}
	if m.deviceStat != "" {
		if written, ok := sectorsWritten(m.deviceStat); ok {
			usage.BytesWritten = since(m.deviceWritten, written)
			usage.CountedAtDevice = true
		}
	}
	return usage
}

func since(before, now uint64) uint64 {
	return now - min(before, now)
}

// ResidentBytes is memory of this process that is resident now.
func ResidentBytes() uint64 {
	return kib(read("/proc/self/status"), "VmRSS:")
}

// read gives nothing for what cannot be read: a counter that a kernel lacks is 0.
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
	// The name may hold blanks; it ends with the last parenthesis.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	return number(fields[11]) + number(fields[12])
}

func processWritten() uint64 {
	return numberAfter(read("/proc/self/io"), "write_bytes:")
}

// contextSwitches are those of all threads that live.
func contextSwitches() uint64 {
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return 0
	}
	all := uint64(0)
	for _, task := range tasks {
		status := read(task)
		all += numberAfter(status, "voluntary_ctxt_switches:")
		all += numberAfter(status, "nonvoluntary_ctxt_switches:")
	}
	return all
}

func sectorsWritten(stat string) (uint64, bool) {
	fields := strings.Fields(read(stat))
	if len(fields) < 7 {
		return 0, false
	}
	return number(fields[6]) * sectorBytes, true
}
