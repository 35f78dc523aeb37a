package cluster

import "testing"

// TestStrangers wants apply to look again where a provider tells new machines' addresses only when they are made, for the
// configurations of the machines that are there name them.
func TestStrangers(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 2)).running(document(t, 1, 0, 1))
	o := l.observed(nil, controlPlanes(1)...)
	if !l.addressesPending(t.Context(), o) {
		t.Error("a new machine's address is taken for known")
	}
	if _, err := l.infrastructure(t.Context(), o); err != nil { // from here on it is, as a local machine's
		t.Fatal(err)
	}
	if l.addressesPending(t.Context(), o) {
		t.Error("apply would look again for nothing")
	}
}
