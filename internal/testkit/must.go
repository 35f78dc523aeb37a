package testkit

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// Must ends the test where err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value takes what a call returned, and returns a function that returns the value, and ends the test where there was an error:
//
//	data := testkit.Value(os.ReadFile(name))(t)
func Value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// Secret is what tests give as a password or a key: Fails notices an error that tells it.
const Secret = "s3cret"

// Fails reports an error that is missing or of another kind, one that lacks any of the words, and one that tells Secret.
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
		t.Errorf("the error tells the secret: %v", err)
	}
}
