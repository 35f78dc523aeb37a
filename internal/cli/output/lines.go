package output

import (
	"fmt"
	"io"
)

// WriteLine prints v for programs on one line, as a stream of values needs it.
func WriteLine(w io.Writer, v any) error {
	b, err := versioned(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
