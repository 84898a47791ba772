// The reasons why a row has no figure.

package job

import "errors"

// FailureKind is the kind of a failure.
type FailureKind string

// The kinds.
const (
	// KindError: the engine or its environment returned an error.
	KindError FailureKind = "error"
	// KindUnsupported: the engine lacks a feature that the row needs.
	KindUnsupported FailureKind = "unsupported"
	// KindVerification: the engine returned other data than was written.
	KindVerification FailureKind = "verification"
)

// Failure is a failure and its message.
type Failure struct {
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message"`
}

// Error makes a failure an error of Go.
func (f *Failure) Error() string {
	return string(f.Kind) + ": " + f.Message
}

// Unsupported is a failure because the engine lacks a feature.
func Unsupported(what string) error {
	return &Failure{Kind: KindUnsupported, Message: what}
}

// Verification is a failure because other data was returned than was written.
func Verification(message string) error {
	return &Failure{Kind: KindVerification, Message: message}
}

// Refused is a failure of the benchmark itself.
func Refused(message string) error {
	return &Failure{Kind: KindError, Message: message}
}

// FailureOf turns any error into a failure; an error of an engine keeps its message.
func FailureOf(err error) *Failure {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	return &Failure{Kind: KindError, Message: err.Error()}
}
