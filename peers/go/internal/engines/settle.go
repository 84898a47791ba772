package engines

import "time"

const (
	// settleLook is the interval between two checks for background work.
	settleLook = 500 * time.Microsecond
	// quietLooks checks in a row must find nothing, because a follow-up job may be queued in between.
	quietLooks = 20
)

// waitUntilQuiet checks repeatedly until it was quiet a number of times in a row. It returns the
// time of the first of these.
func waitUntilQuiet(isQuiet func() (bool, error)) (time.Time, error) {
	var since time.Time
	for looks := 0; looks < quietLooks; {
		quiet, err := isQuiet()
		if err != nil {
			return time.Time{}, err
		}
		switch {
		case !quiet:
			looks = 0
		case looks == 0:
			since = time.Now()
			fallthrough
		default:
			looks++
		}
		if looks < quietLooks {
			time.Sleep(settleLook)
		}
	}
	return since, nil
}
