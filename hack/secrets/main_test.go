package main

import (
	"strings"
	"testing"
)

// TestScan: scan finds one secret of each kind, with its line, and no similar texts. The examples are assembled here so that no file contains them.
func TestScan(t *testing.T) {
	many := func(n int) string { return strings.Repeat("A1b2C3d4E5", 20)[:n] }
	upper := strings.ToUpper(many(60))
	for kind, text := range map[string]string{
		"a private key": "-----BEGIN EC PRIVATE" + " KEY-----\n" + many(64), "an age identity": "AGE-SECRET-" + "KEY-1" + upper[:58], "an AWS access key": "AKIA" + upper[:16],
		"a GitHub token": "ghp_" + many(36), "a GitLab token": "glpat-" + many(20), "a Slack token": "xoxb-" + many(24), "a Google API key": "AIza" + many(35), "a Vault token": "hvs." + many(24),
		"a token of naupegos server": "naupegos_0123456789ab_" + many(43), "a JSON web token": "eyJ" + many(20) + ".eyJ" + many(20) + "." + many(20), "a password in an address": "postgres://" + "user:" + many(12) + "@db",
	} {
		found := scan("a.txt", []byte("first line\n"+text+"\n"))
		if len(found) != 1 || found[0].kind != kind || found[0].line != 2 {
			t.Errorf("%s: %+v", kind, found)
		}
		if found := scan("hack/secrets/main_test.go", []byte(text)); len(found) > 0 {
			t.Errorf("test data: %+v", found)
		}
		if found := scan("a.bin", append([]byte{0}, text...)); len(found) > 0 {
			t.Errorf("a binary file: %+v", found)
		}
	}
	if found := scan("a.txt", []byte("-----BEGIN PRIVATE"+" KEY-----\n…\nAKIA-no postgres://user@db https://$USER:$PASSWORD@host https://demo:naupegoslock_…@10.0.0.1 naupegos_0123456789ab_wrong")); len(found) > 0 {
		t.Errorf("false positives: %+v", found)
	}
}
