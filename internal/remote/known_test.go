package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	knownEd  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"
	knownEd2 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINVGOquRPP5AaKh1Fiun2SMOML+A5rSwA17xCIFyRdtN"
	knownEC  = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHAir8J6jCNZSzzCIb3vC6QnF5A9D4KIaeqITCjjgPsAErXH8wje1X7GKUiEcMJUlk+ksGTyyUuXxpeBfu7mJkE="
)

// knownCases are known_hosts files and lookups.
var knownCases = []struct {
	name, text, address string
	port                int
	want                []string
	skipped             int
}{
	{"plain", "192.0.2.1 " + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 0},
	{"no port", "192.0.2.1 " + knownEd + "\n", "192.0.2.1", 2222, []string{knownEd}, 0},
	{"no port, and the port", "192.0.2.1 " + knownEd + "\n[192.0.2.1]:2222 " + knownEC + "\n", "192.0.2.1", 2222, []string{knownEC}, 0},
	{"another port", "[192.0.2.1]:2223 " + knownEd + "\n", "192.0.2.1", 2222, nil, 0},
	{"revoked without a port", "@revoked 192.0.2.1 " + knownEd + "\n192.0.2.1 " + knownEd + "\n", "192.0.2.1", 2222, nil, 0},
	{"port", "[192.0.2.2]:2222 " + knownEd + "\n", "192.0.2.2", 2222, []string{knownEd}, 0},
	{"port, not 22", "[192.0.2.2]:2222 " + knownEd + "\n", "192.0.2.2", 22, nil, 0},
	{"another host", "192.0.2.1 " + knownEd + "\n", "192.0.2.3", 22, nil, 0},
	{"no end of line", "192.0.2.1 " + knownEd, "192.0.2.1", 22, []string{knownEd}, 0},
	{"CRLF", "192.0.2.1 " + knownEd + "\r\n\r\n# x\r\n", "192.0.2.1", 22, []string{knownEd}, 0},
	{"byte order mark", "\ufeff192.0.2.1 " + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 0},
	{"indented", "   192.0.2.1\t" + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 0},
	{"nonsense", "192.0.2.9 nonsense\n192.0.2.1 " + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 1},
	{"cut key", "192.0.2.1 ssh-ed25519 AAAAC3NzaC1lZDI1\n192.0.2.1 " + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 1},
	{"type and key differ", "192.0.2.1 ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv\n", "192.0.2.1", 22, nil, 1},
	{"a private key's line", "-----BEGIN OPENSSH PRIVATE KEY-----\n192.0.2.1 " + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 1},
	{"unknown marker", "@trusted 192.0.2.1 " + knownEd + "\n192.0.2.1 " + knownEC + "\n", "192.0.2.1", 22, []string{knownEC}, 1},
	{"Ed25519 first, once each", "192.0.2.1 " + knownEC + "\n192.0.2.1 " + knownEd + "\n192.0.2.1 " + knownEC + "\n", "192.0.2.1", 22, []string{knownEd, knownEC}, 0},
	{"authority", "@cert-authority * " + knownEd + "\n192.0.2.1 " + knownEC + "\n", "192.0.2.1", 22, []string{knownEC}, 0},
	{"revoked beside another", "@revoked * " + knownEd + "\n192.0.2.1 " + knownEd + "\n192.0.2.1 " + knownEC + "\n", "192.0.2.1", 22, []string{knownEC}, 0},
	{"wildcard", "192.0.2.* " + knownEd + "\n", "192.0.2.200", 22, []string{knownEd}, 0},
	{"question mark", "node?.example.org " + knownEd + "\n", "node1.example.org", 22, []string{knownEd}, 0},
	{"negated", "*.example.org,!bad.example.org " + knownEd + "\n", "bad.example.org", 22, nil, 0},
	{"wildcard port", "[*.example.org]:2222 " + knownEd + "\n", "a.example.org", 2222, []string{knownEd}, 0},
	{"upper case", "Node1.Example.ORG " + knownEd + "\n", "node1.example.org", 22, []string{knownEd}, 0},
	{"IPv6", "fd00::1 " + knownEd + "\n", "fd00::1", 22, []string{knownEd}, 0},
	{"IPv6 and port", "[fd00::1]:2222 " + knownEd + "\n", "fd00::1", 2222, []string{knownEd}, 0},
	{"of k0sctl", "[0.0.0.0]:0 " + knownEC + "\n192.0.2.1 " + knownEd + "\n", "192.0.2.1", 22, []string{knownEd}, 0},
	{"bad hash", "|1|nonsense|x " + knownEd + "\n192.0.2.1 " + knownEC + "\n", "192.0.2.1", 22, []string{knownEC}, 0},
	{"empty", "", "192.0.2.1", 22, nil, 0},
}

// TestSigned: Signed distinguishes hosts whose keys an authority signs from unknown hosts.
func TestSigned(t *testing.T) {
	text := "@cert-authority *.corp.example,10.1.* " + knownEd + "\n@cert-authority [bastion]:2222 " + knownEC + "\ncp9.corp.example " + knownEd2 + "\n"
	k := testkit.Value(ParseKnown("known", []byte(text)))(t)
	for _, c := range []struct {
		address string
		port    int
		signed  bool
	}{{"cp1.corp.example", 22, true}, {"CP1.corp.example", 2222, true}, {"10.1.0.7", 22, true}, {"bastion", 2222, true}, {"bastion", 22, false}, {"10.2.0.7", 22, false}, {"corp.example", 22, false}} {
		err := k.Signed(c.address, c.port)
		if c.signed {
			testkit.Fails(t, err, fail.Refused, "@cert-authority", c.address, "hostKey")
		} else if err != nil {
			t.Errorf("%s: %v", c.address, err)
		}
		if keys, err := k.Keys(c.address, c.port); err != nil || len(keys) > 0 {
			t.Errorf("%s: an authority's key counts as the host's: %v, %v", c.address, keys, err)
		}
	}
	if keys := testkit.Value(k.Keys("cp9.corp.example", 22))(t); !slices.Equal(keys, []string{knownEd2}) {
		t.Errorf("%v", keys)
	}
}

func TestKnown(t *testing.T) {
	for _, c := range knownCases {
		k := testkit.Value(ParseKnown("known", []byte(c.text)))(t)
		if got := testkit.Value(k.Keys(c.address, c.port))(t); !slices.Equal(got, c.want) || len(k.Skipped()) != c.skipped {
			t.Errorf("%s: %q, want %q; skipped %v", c.name, got, c.want, k.Skipped())
		}
	}
	k := testkit.Value(ParseKnown("known", []byte("@revoked 192.0.2.1 "+knownEd+"\n192.0.2.1 "+knownEd+"\n")))(t)
	_, err := k.Keys("192.0.2.1", 22)
	testkit.Fails(t, err, fail.Unauthorized, "known: the host key of 192.0.2.1:22 is marked @revoked")
	for _, text := range []string{"\x00\x01", strings.Repeat("x", maxKnownLine+1)} {
		_, err := ParseKnown("known", []byte(text))
		testkit.Fails(t, err, fail.Invalid, "known: read the known host keys")
	}
}

// TestKnownFiles parses files of real users: each has at most one odd line, and a key for 192.0.2.11.
func TestKnownFiles(t *testing.T) {
	files := testkit.Value(filepath.Glob("testdata/known/kh-*"))(t)
	if len(files) < 9 {
		t.Fatalf("only %d files", len(files))
	}
	for _, file := range files {
		k := testkit.Value(ParseKnown(file, testkit.Value(os.ReadFile(file))(t)))(t)
		port := 22
		if strings.HasSuffix(file, "-port") {
			port = 2222
		}
		if got := testkit.Value(k.Keys("192.0.2.11", port))(t); !slices.Equal(got, []string{knownEd2}) {
			t.Errorf("%s has %q", file, got)
		}
	}
}

// TestKnownAsOpenSSH compares the lookups with ssh-keygen's, with plain and with hashed names.
func TestKnownAsOpenSSH(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	for _, c := range knownCases {
		if strings.Contains(c.text, "@") || strings.Contains(c.text, "\ufeff") || c.skipped > 0 { // ssh-keygen -F shows marked and unreadable lines, too
			continue
		}
		file := filepath.Join(t.TempDir(), "known")
		testkit.Must(t, os.WriteFile(file, []byte(c.text), 0o600))
		for _, hashed := range []bool{false, true} {
			if hashed {
				_ = exec.Command(keygen, "-H", "-f", file).Run() // ssh-keygen keeps wildcards and exits with an error
			}
			name := c.address
			if c.port != 22 {
				name = "[" + name + "]:2222"
			}
			out, _ := exec.Command(keygen, "-F", name, "-f", file).Output() // 1: not found
			if len(out) == 0 {                                              // like ssh itself
				out, _ = exec.Command(keygen, "-F", c.address, "-f", file).Output()
			}
			k := testkit.Value(ParseKnown(file, testkit.Value(os.ReadFile(file))(t)))(t)
			got := testkit.Value(k.Keys(c.address, c.port))(t)
			for _, key := range got {
				if !strings.Contains(string(out), key) {
					t.Errorf("%s (hashed %t): found %s, but ssh-keygen found %s", c.name, hashed, key, out)
				}
			}
			if len(got) == 0 && strings.Contains(string(out), "AAAA") {
				t.Errorf("%s (hashed %t): ssh-keygen finds %s", c.name, hashed, out)
			}
		}
	}
}
