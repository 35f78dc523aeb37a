package testkit

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value takes the results of a call. The returned function returns the value, or ends the test if there was an error:
//
//	data := testkit.Value(os.ReadFile(name))(t)
func Value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// Secret is the password or key in tests: Fails detects an error that contains it.
const Secret = "s3cret"

// Fails reports a missing error, an error of another kind, one that lacks any of the words, and one that contains Secret.
func Fails(t testing.TB, err error, kind fail.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it did not fail")
	}
	if got := fail.KindOf(err); got != kind {
		t.Errorf("the error is of kind %q, not %q: %v", got, kind, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	if strings.Contains(err.Error(), Secret) {
		t.Errorf("the error reveals the secret: %v", err)
	}
}
