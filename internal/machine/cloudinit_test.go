package machine

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7yqyH6N0cxwTqA4ytSXV9CRcMr5+1PTFQkEqQHlCMJ naupegos demo"

func userData() map[string]UserData {
	return map[string]UserData{
		"local.yaml": {Hostname: "demo-cp-1", SSHKeys: []string{publicKey}},
		"cloud.yaml": {Hostname: "harbour-general-1", FQDN: "harbour-general-1.example.org", SSHKeys: []string{publicKey, publicKey + `: "quoted" \`}, HostKeysToConsole: true},
	}
}

func TestCloudInitGolden(t *testing.T) {
	for name, o := range userData() {
		got, err := CloudInit(o)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, "cloudinit/"+name, got)
	}
}

// refused returns user-data that both kinds must refuse.
func refused() map[string]UserData {
	private := "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0LXNlY3JldA==\n-----END OPENSSH PRIVATE KEY-----"
	return map[string]UserData{
		"no key":         {Hostname: "a"},
		"no hostname":    {SSHKeys: []string{publicKey}},
		"bad hostname":   {Hostname: "A_b", SSHKeys: []string{publicKey}},
		"bad FQDN":       {Hostname: "a", FQDN: "a..b", SSHKeys: []string{publicKey}},
		"private key":    {Hostname: "a", SSHKeys: []string{private}},
		"flat private":   {Hostname: "a", SSHKeys: []string{strings.ReplaceAll(private, "\n", " ")}},
		"wrong type":     {Hostname: "a", SSHKeys: []string{strings.Replace(publicKey, "ed25519", "rsa", 1)}},
		"no base64":      {Hostname: "a", SSHKeys: []string{"ssh-ed25519 !!!"}},
		"short base64":   {Hostname: "a", SSHKeys: []string{"ssh-ed25519 AAAA"}},
		"length too big": {Hostname: "a", SSHKeys: []string{"ssh-ed25519 /////2E="}},
	}
}

func TestCloudInitRefuses(t *testing.T) {
	for name, o := range refused() {
		out, err := CloudInit(o)
		if err == nil {
			t.Errorf("%s: rendered:\n%s", name, out)
			continue
		}
		if fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
