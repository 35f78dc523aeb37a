package form

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/sample"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestForm is stumble 21: a bad name is refused before the next question, and the other answers are kept.
func TestForm(t *testing.T) {
	t.Setenv("TERM", "dumb")
	user, program := testkit.Terminal(t)
	testkit.Value(user.WriteString("demoX_y\nharbour\n1\n2\nmany\n7\n2\n"))(t)
	go func() { _, _ = io.Copy(io.Discard, user) }() // the terminal's echo; it ends with the terminal
	o, said := sample.Options{Provider: "local", ControlPlanes: 1, Workers: 2, EtcdMode: "stacked"}, &testkit.Buffer{}
	done := make(chan error, 1)
	go func() { done <- Ask(t.Context(), program, said, &o) }()
	select {
	case err := <-done:
		testkit.Must(t, err)
	case <-time.After(time.Minute):
		t.Fatalf("the form does not end: %s", said)
	}
	if o.Name != "harbour" || o.Provider != "local" || o.ControlPlanes != 3 || o.Workers != 7 || o.EtcdMode != "service" {
		t.Errorf("the answers are %+v: %s", o, said)
	}
	first, rest, asked := strings.Cut(said.String(), "Where do machines come from?")
	if !asked || !strings.Contains(first, "metadata.name") || !strings.Contains(rest, "a number from 0 to 1000") {
		t.Errorf("the form says %s", said)
	}
}
