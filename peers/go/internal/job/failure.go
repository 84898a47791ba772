// Why a row has no figure.

package job

import "errors"

// FailureKind is what kind of failure kept a row from having a figure.
type FailureKind string

// The kinds.
const (
	// KindError: the engine, or what stands around it, returned an error.
	KindError FailureKind = "error"
	// KindUnsupported: the engine does not have what the row needs.
	KindUnsupported FailureKind = "unsupported"
	// KindVerification: the engine returned something else than was written.
	KindVerification FailureKind = "verification"
)

// Failure is a failure and what it says.
type Failure struct {
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message"`
}

// Error makes a failure an error of Go.
func (f *Failure) Error() string {
	return string(f.Kind) + ": " + f.Message
}

// Unsupported says that the engine does not have what is asked for.
func Unsupported(what string) error {
	return &Failure{Kind: KindUnsupported, Message: what}
}

// Verification says that something else came back than was written.
func Verification(message string) error {
	return &Failure{Kind: KindVerification, Message: message}
}

// Refused says that the benchmark itself cannot go on.
func Refused(message string) error {
	return &Failure{Kind: KindError, Message: message}
}

// FailureOf turns any error into a failure; an error of an engine keeps its words.
func FailureOf(err error) *Failure {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	return &Failure{Kind: KindError, Message: err.Error()}
}
