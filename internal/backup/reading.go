package backup

import (
	"errors"
	"io"
)

// Reading passes read errors other than io.EOF through wrap, which gives them a kind.
func Reading(file io.ReadCloser, wrap func(error) error) io.ReadCloser {
	return reading{file, wrap}
}

type reading struct {
	io.ReadCloser
	wrap func(error) error
}

// Read implements io.Reader.
func (r reading) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.wrap(err)
	}
	return n, err
}
