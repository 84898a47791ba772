// Tests of jobs: a field that is left out has the first value of its kind; unknown names are
// refused.

package job_test

import (
	"encoding/json"
	"testing"

	"silt-bench-go/internal/data"
	"silt-bench-go/internal/job"
)

func TestWhatIsLeftOutIsTheDefault(t *testing.T) {
	var told job.Job
	if err := json.Unmarshal([]byte(`{"work": {"keys": 7}}`), &told); err != nil {
		t.Fatal(err)
	}
	styles := told.Work.Values().Style == data.Marked && told.Work.KeyStyle == data.Sparse
	if !styles || told.Extent != job.ExtentFull || told.Work.Keys != 7 {
		t.Errorf("%+v", told)
	}
}

func TestNamesAreRead(t *testing.T) {
	const text = `{
		"extent": "throughput", "work": {"key_style": "reversed-counter", "value_style": "ramp"}
	}`
	var told job.Job
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatal(err)
	}
	styles := told.Work.Values().Style == data.Ramp && told.Work.KeyStyle == data.ReversedCounter
	if !styles || told.Extent != job.ExtentThroughput {
		t.Errorf("%+v", told)
	}
}

func TestNamesThatAreNotKnownAreRefused(t *testing.T) {
	texts := []string{
		`{"extent": "half"}`,
		`{"work": {"key_style": "sideways"}}`,
		`{"work": {"value_style": "blank"}}`,
		`{"work": {"value_style": 1}}`,
	}
	for _, text := range texts {
		var told job.Job
		if err := json.Unmarshal([]byte(text), &told); err == nil {
			t.Errorf("%s went through", text)
		}
	}
}

func TestAKillIsAskedForAndAnsweredByName(t *testing.T) {
	const text = `{"leave": {"engine": "bbolt", "store": "kept", "work": {"state": "killed"}}}`
	var request job.Request
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		t.Fatal(err)
	}
	asked := request.Leave
	if asked == nil || asked.Store != "kept" || asked.Work.State != job.Killed {
		t.Errorf("%+v", request)
	}
	line, err := json.Marshal(&job.Line{Left: &job.Left{Acknowledged: 7}})
	if err != nil || string(line) != `{"left":{"acknowledged":7}}` {
		t.Error(string(line), err)
	}
}
