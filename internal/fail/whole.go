package fail

import "errors"

// Whole returns err with the confidential text of the errors in its chain, for the host's user and for operators of all clusters. All other texts of
// an error (records of jobs and runs, checks, answers to operators of one cluster) omit it.
func Whole(err error) error {
	var done *whole
	if err == nil || errors.As(err, &done) {
		return err
	}
	if rest := restOf(err); rest != "" {
		return &whole{err, rest}
	}
	return err
}

// whole is an error with its confidential text.
type whole struct {
	error
	rest string
}

// Error implements error.
func (w *whole) Error() string { return w.error.Error() + "\n" + w.rest }

// Unwrap returns the error without the text.
func (w *whole) Unwrap() error { return w.error }

// restOf returns the confidential texts in an error's tree, one after another.
func restOf(err error) (rest string) {
	add := func(text string) {
		if rest != "" && text != "" {
			rest += "\n"
		}
		rest += text
	}
	switch e := err.(type) { //nolint:errorlint // this function unwraps it
	case *Error:
		add(e.Rest)
		add(restOf(e.Err))
	case interface{ Unwrap() error }:
		add(restOf(e.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			add(restOf(one))
		}
	}
	return rest
}
