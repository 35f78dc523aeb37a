package machine

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"math/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_4"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestIgnitionGolden(t *testing.T) {
	for name, o := range userData() {
		name = strings.TrimSuffix(name, ".yaml") + ".ign"
		got, err := Ignition(o)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, "ignition/"+name, got)
	}
}

// TestIgnitionParses parses the rendered configuration with Ignition's own parser and looks for the content of cloud-init's user-data.
func TestIgnitionParses(t *testing.T) {
	for name, o := range userData() {
		data, err := Ignition(o)
		if err != nil {
			t.Fatal(err)
		}
		c, report, err := v3_4.Parse(data)
		if err != nil || len(report.Entries) > 0 {
			t.Fatalf("%s: %v: %s", name, err, report)
		}
		root := c.Passwd.Users[0]
		if len(c.Passwd.Users) != 1 || root.Name != "root" || len(root.SSHAuthorizedKeys) != len(o.SSHKeys) || root.PasswordHash != nil {
			t.Errorf("%s: users %+v", name, c.Passwd.Users)
		}
		for i, k := range root.SSHAuthorizedKeys {
			if string(k) != o.SSHKeys[i] {
				t.Errorf("%s: key %q, want %q", name, k, o.SSHKeys[i])
			}
		}
		if host := c.Storage.Files[0]; host.Path != "/etc/hostname" || text(t, *host.Contents.Source) != o.Hostname+"\n" {
			t.Errorf("%s: host name %q in %s", name, *host.Contents.Source, host.Path)
		}
		if got := len(c.Systemd.Units) == 1 && strings.Contains(*c.Systemd.Units[0].Contents, "BEGIN SSH HOST KEY KEYS"); got != o.HostKeysToConsole {
			t.Errorf("%s: host keys to console %t, want %t", name, got, o.HostKeysToConsole)
		}
	}
}

// text decodes a data URL.
func text(t *testing.T, source string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(source, "data:,")
	s, err := url.PathUnescape(rest)
	if !ok || err != nil {
		t.Fatalf("%q is not a plain data URL: %v", source, err)
	}
	return s
}

func TestIgnitionRefuses(t *testing.T) {
	for name, o := range refused() {
		if out, err := Ignition(o); fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: %v, rendered:\n%s", name, err, out)
		}
	}
}

// TestRender unpacks the user-data for clouds and compares it with the original.
func TestRender(t *testing.T) {
	o := userData()["cloud.yaml"]
	plain, err := CloudInit(o)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := o.Render(KindCloudInit)
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.Render(KindCloudInit)
	if err != nil || !bytes.Equal(packed, again) {
		t.Errorf("differs from one call to the next: %v", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(unpacked, plain) || len(packed) >= len(plain) {
		t.Errorf("%d bytes unpack to %d, want %d: %v", len(packed), len(unpacked), len(plain), err)
	}
	ign, err := o.Render(KindIgnition)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Ignition(o)
	if got := replaced(t, ign); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Ignition reads\n%s\nnot\n%s\n%v", got, want, err)
	}
	if _, err := o.Render("combustion"); fail.KindOf(err) != fail.Invalid {
		t.Errorf("unknown kind: %v", err)
	}
}

// replaced returns the configuration that Ignition's own parser finds as a replacement.
func replaced(t *testing.T, config []byte) []byte {
	t.Helper()
	c, report, err := v3_4.Parse(config)
	if err != nil || len(report.Entries) > 0 {
		t.Fatalf("%v: %s", err, report)
	}
	by := c.Ignition.Config.Replace
	if by.Source == nil || by.Compression == nil || *by.Compression != "gzip" {
		t.Fatalf("nothing compressed is to replace %s", config)
	}
	text, ok := strings.CutPrefix(*by.Source, "data:;base64,")
	packed, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		t.Fatalf("%s holds no base64: %v", *by.Source, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestManyKeysAreCompressed: even the keys of several users, which share only their form, become shorter.
func TestManyKeysAreCompressed(t *testing.T) {
	o := UserData{Hostname: "demo-cp-1"}
	rnd := rand.New(rand.NewSource(1))
	for range 700 {
		key := make([]byte, 51)
		rnd.Read(key)
		copy(key, "\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20")
		o.SSHKeys = append(o.SSHKeys, "ssh-ed25519 "+base64.StdEncoding.EncodeToString(key))
	}
	for kind, plain := range map[string]func(UserData) ([]byte, error){KindCloudInit: CloudInit, KindIgnition: Ignition} {
		full, err := plain(o)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := o.Render(kind)
		if err != nil || len(packed) > len(full)*4/5 {
			t.Errorf("%s: %d bytes of %d: %v", kind, len(packed), len(full), err)
		}
	}
}
