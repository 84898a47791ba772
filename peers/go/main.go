// Command silt-bench-go is a worker of silt-bench: it drives the engines that are written in Go.
//
// It says who it is, reads one job from standard input, tells how it goes on standard output,
// answers, and ends. It does not know what becomes of its answers.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"silt-bench-go/internal/engines"
	"silt-bench-go/internal/job"
	"silt-bench-go/internal/measure"
	"silt-bench-go/internal/pass"
)

func main() {
	hello := &job.Hello{Protocol: job.Protocol}
	for _, kind := range engines.All() {
		version := kind.Facts(&job.Config{}).Version
		hello.Engines = append(hello.Engines, job.EngineInfo{Engine: kind.ID, Version: version})
	}
	say(&job.Line{Hello: hello})
	request, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err == io.EOF && len(request) == 0 {
		return
	}
	report, err := answer(request)
	if err != nil {
		say(&job.Line{Failed: job.FailureOf(err)})
		return
	}
	say(&job.Line{Report: report})
}

func answer(text []byte) (*job.Report, error) {
	var request job.Request
	if err := json.Unmarshal(text, &request); err != nil {
		return nil, err
	}
	watch := &measure.Watch{
		Tell: func(progress *job.Progress) { say(&job.Line{Progress: progress}) },
		Cap:  time.Duration(request.Job.CapSeconds * float64(time.Second)),
	}
	for _, kind := range engines.All() {
		if kind.ID == request.Job.Engine {
			return pass.Run(kind, &request.Job, watch)
		}
	}
	return nil, job.Refused("no engine " + request.Job.Engine)
}

// out keeps the lines of threads apart.
var out sync.Mutex

// say writes a line. If nobody listens any more there is nothing left to do.
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
