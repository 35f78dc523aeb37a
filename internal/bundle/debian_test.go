package bundle

import (
	"slices"
	"testing"
)

func TestParseURIs(t *testing.T) {
	sum := hexOf(digestOf(nil))
	debs, err := parseURIs("'http://x/libgmp10_6.2_amd64.deb' libgmp10_2%3a6.2.1+dfsg1-1.1_amd64.deb 563836 SHA256:" + sum + "\n'http://x/a.deb' ca-certificates_20250419~deb12u2_all.deb 1 SHA256:" + sum + "\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []deb{{"ca-certificates", "20250419~deb12u2", "ca-certificates_20250419~deb12u2_all.deb", sum, ""}, {"libgmp10", "2:6.2.1+dfsg1-1.1", "libgmp10_2%3a6.2.1+dfsg1-1.1_amd64.deb", sum, ""}}
	if !slices.Equal(debs, want) {
		t.Errorf("got %+v", debs)
	}
	for _, bad := range []string{"'http://x' a_1_all.deb 1 MD5Sum:00", "'http://x' ../a_1_all.deb 1", "E: nothing"} {
		if _, err := parseURIs(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}
