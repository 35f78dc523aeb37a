package swift

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCredentialOf parses a Horizon file and a file of plain lines, and reads the environment. The file that Credentials makes for machines contains
// the same credential.
func TestCredentialOf(t *testing.T) {
	for text, want := range map[string]credential{
		"#!/bin/bash\nexport OS_AUTH_URL=https://x\nexport OS_APPLICATION_CREDENTIAL_ID=a\nexport OS_APPLICATION_CREDENTIAL_SECRET=\"b=c\"\n": {"a", "b=c"},
		" OS_APPLICATION_CREDENTIAL_SECRET = 'b' \n OS_APPLICATION_CREDENTIAL_ID = a":                                                         {"a", "b"},
		"OS_USERNAME=jo\nOS_PASSWORD=word\n": {},
	} {
		if got := parse(text); got != want {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	t.Setenv(idName, "id")
	t.Setenv(secretName, "")
	_, err := Credentials(t.Context(), Spec{Container: "c"}, Source{})
	testkit.Fails(t, err, fail.Unauthorized, "no application credential for the container c", "spec.backup.to.swift.credentialsFile")
	t.Setenv(secretName, "word")
	if got := parse(string(testkit.Value(Credentials(t.Context(), Spec{Container: "c"}, Source{}))(t))); got != (credential{"id", "word"}) {
		t.Errorf("machines are given %v", got)
	}
}

// TestStoreIn finds a catalogue's only store, or that of the document's region, and refuses to choose among several without a region.
func TestStoreIn(t *testing.T) {
	entry := func(kind, iface, region string) string {
		return fmt.Sprintf(`{"type": %q, "endpoints": [{"interface": %q, "region": %q, "url": "https://%s/v1/"}]}`, kind, iface, region, region)
	}
	one, two, other := entry("object-store", "public", "one"), entry("object-store", "public", "two"), entry("compute", "public", "one")
	for _, c := range []struct {
		catalog, region, want string
		kind                  fail.Kind
	}{
		{other + "," + one, "", "https://one/v1", 0}, {one + "," + two, "two", "https://two/v1", 0},
		{one + "," + two, "", "", fail.Invalid}, {other, "", "", fail.Refused}, {one, "two", "", fail.Refused}, {entry("object-store", "internal", "one"), "", "", fail.Refused},
	} {
		var catalog []service
		testkit.Must(t, json.Unmarshal([]byte("["+c.catalog+"]"), &catalog))
		got, err := New(Spec{Region: c.region}).storeIn(catalog)
		if got != c.want || fail.KindOf(err) != c.kind {
			t.Errorf("%s in region %q: %q, %v", c.catalog, c.region, got, err)
		}
	}
}
