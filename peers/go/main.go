// Command silt-bench-go is a worker of silt-bench: it drives the engines that are written in Go.
//
// It sends its first line, reads one request from standard input, reports progress on standard
// output, answers, and ends. It does not know the use of its answers.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"silt-bench-go/internal/engine"
	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/pass"
	"silt-bench-go/internal/plan"
)

func main() {
	hello := &job.Hello{Protocol: job.Protocol, Plans: job.PlansTold}
	for _, kind := range engines.All() {
		version := kind.Facts(&job.Config{}).Version
		hello.Engines = append(hello.Engines, job.EngineInfo{Engine: kind.ID, Version: version})
	}
	say(&job.Line{Hello: hello})
	input := bufio.NewReader(os.Stdin)
	request, err := input.ReadBytes('\n')
	if err == io.EOF && len(request) == 0 {
		return
	}
	line, err := answer(request, input)
	if err != nil {
		line = &job.Line{Failed: job.FailureOf(err)}
	}
	say(line)
}

// answer also reads the plan, which follows the request of a job.
func answer(text []byte, input io.Reader) (*job.Line, error) {
	var request job.Request
	if err := json.Unmarshal(text, &request); err != nil {
		return nil, err
	}
	switch {
	case request.Job != nil:
		return row(request.Job, input)
	case request.Crash != nil:
		return crash(request.Crash)
	case request.Leave != nil:
		return nil, leave(request.Leave, input)
	}
	return nil, job.Refused("the request asks for nothing that is known")
}

func row(row *job.Job, input io.Reader) (*job.Line, error) {
	kind, told, err := prepared(row, input)
	if err != nil {
		return nil, err
	}
	report, err := pass.Run(kind, row, told, watch(row))
	return &job.Line{Report: report}, err
}

// prepared is the engine and the plan of a job.
func prepared(row *job.Job, input io.Reader) (engine.Kind, *plan.Told, error) {
	kind, err := named(row.Engine)
	if err != nil {
		return kind, nil, err
	}
	told, err := plan.Read(input, &row.Work)
	return kind, told, err
}

func watch(row *job.Job) *measure.Watch {
	cap := time.Duration(row.CapSeconds * float64(time.Second))
	return &measure.Watch{Tell: tell, Cap: cap}
}

// leave returns only on a failure.
func leave(row *job.Job, input io.Reader) error {
	kind, told, err := prepared(row, input)
	if err != nil {
		return err
	}
	db, left, err := pass.Leave(kind, row, told, watch(row))
	if err != nil {
		return err
	}
	say(&job.Line{Left: left})
	err = waitInVain()
	// Only a kill may end it earlier.
	runtime.KeepAlive(db)
	return err
}

// waitInVain waits to be killed.
func waitInVain() error {
	// The runner keeps the input open until it kills the worker.
	_, _ = os.Stdin.Read(make([]byte, 1))
	return job.Refused("the worker was not killed")
}

func crash(test *job.CrashTest) (*job.Line, error) {
	kind, err := named(test.Engine)
	if err != nil {
		return nil, err
	}
	if test.Step == job.CrashCount {
		survived, err := pass.Count(kind, test)
		return &job.Line{Survived: survived}, err
	}
	if err := pass.Commit(kind, test, tell); err != nil {
		return nil, err
	}
	return nil, waitInVain()
}

// named is the engine of that name; it also sets what the engine needs of Go.
func named(id string) (engine.Kind, error) {
	for _, kind := range engines.All() {
		if kind.ID == id {
			if kind.Processors > 0 {
				runtime.GOMAXPROCS(kind.Processors)
			}
			return kind, nil
		}
	}
	return engine.Kind{}, job.Refused("no engine " + id)
}

func tell(progress *job.Progress) {
	say(&job.Line{Progress: progress})
}

// out keeps the lines of threads apart.
var out sync.Mutex

// say writes a line. If no process reads it any more, nothing is left to do.
func say(line *job.Line) {
	out.Lock()
	defer out.Unlock()
	text, err := json.Marshal(line)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
