package engines

import "time"

const (
	// settleLook is how often a look is taken at what happens in the background.
	settleLook = 500 * time.Microsecond
	// quietLooks in a row must find nothing: work that follows other work may be queued between.
	quietLooks = 20
)

// waitUntilQuiet looks again and again until it was quiet a number of times in a row; it returns
// when it was for the first of these times.
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
