package engines

import (
	"testing"
	"time"
)

func TestItIsQuietSinceTheFirstOfARunOfQuietLooks(t *testing.T) {
	var looks []time.Time
	since, err := waitUntilQuiet(func() (bool, error) {
		looks = append(looks, time.Now())
		// Work appears once more after the checks seemed quiet.
		return len(looks) != 5, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(looks) != 5+quietLooks {
		t.Errorf("looked %d times", len(looks))
	}
	if since.Before(looks[5]) || since.After(looks[6]) {
		t.Errorf("quiet since %v, looked at %v", since, looks)
	}
}
