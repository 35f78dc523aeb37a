package testkit

import "testing"

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
