package plan

import "testing"

// TestHeading: a heading names run and cluster in the order of the command line; runs of older versions have no title.
func TestHeading(t *testing.T) {
	for _, c := range []struct{ verb, title, want string }{
		{"apply", "", "apply demo"},
		{"apply", "apply", "apply demo"},
		{"node remove", "node remove demo-general-1", "node remove demo demo-general-1"},
		{"upgrade", "upgrade v1.36.4 → v1.37.2, hop 2 of 2", "upgrade demo v1.36.4 → v1.37.2, hop 2 of 2"},
		{"apply", "something else", "something else demo"},
	} {
		if got := (&Plan{Verb: c.verb, Title: c.title, Cluster: "demo"}).Heading(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestEvidence: evidence is one line, and adds up over the runs of a verb.
func TestEvidence(t *testing.T) {
	zero, two := 0, 2
	first := &Evidence{Requests: 5000, LongestMS: 100, Restarted: &zero}
	for _, c := range []struct {
		is   *Evidence
		want string
	}{
		{first.Add(&Evidence{Requests: 312, LongestMS: 212, Backup: "b1", Proven: true}), "0 of 5,312 API requests failed, longest 212 ms, 0 pods restarted; backup b1 proven"},
		{(*Evidence)(nil).Add(first).Add(nil), "0 of 5,000 API requests failed, longest 100 ms, 0 pods restarted"},
		{first.Add(&Evidence{Requests: 1, Failed: 1200, LongestMS: 12_340, Restarted: &two, Backup: "b1"}), "1,200 of 5,001 API requests failed, longest 12.3s, 2 pods restarted; backup b1 not rehearsed"},
		{&Evidence{Unknown: "the API did not answer"}, "not known: the API did not answer"},
		{&Evidence{Requests: 1, LongestMS: 3}, "0 of 1 API request failed, longest 3 ms"},
	} {
		if got := c.is.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
