package backup_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/fail"
)

// closing records that it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TestReading: read errors in the middle of a file get a kind; io.EOF is passed through unchanged.
func TestReading(t *testing.T) {
	wrap := func(err error) error { return fail.Wrap(fail.Unreachable, err, "read a.set") }
	whole := &closing{Reader: strings.NewReader("all of it")}
	r := backup.Reading(whole, wrap)
	if data, err := io.ReadAll(r); string(data) != "all of it" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if err := r.Close(); err != nil || !whole.closed {
		t.Errorf("closed: %t, %v", whole.closed, err)
	}
	cut := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("connection reset")))
	data, err := io.ReadAll(backup.Reading(&closing{Reader: cut}, wrap))
	if string(data) != "half" || fail.KindOf(err) != fail.Unreachable || !strings.Contains(err.Error(), "read a.set") {
		t.Errorf("%q, %v", data, err)
	}
}
