package agent

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// dryRun returns the changes that a dry run reports, by name.
func dryRun(t *testing.T, f *fakeHost, c machine.Config) map[string]machine.Change {
	t.Helper()
	r := testkit.Value(f.agent().Apply(t.Context(), c, true))(t)
	out := map[string]machine.Change{}
	for _, ch := range r.Changes {
		out[ch.Name] = ch
	}
	return out
}

// TestDryRunReportsContents: for text files and kernel settings, a dry run reports the old and the new content and the time of the last change.
func TestDryRunReportsContents(t *testing.T) {
	f := applied(t)
	const p = "/etc/app/other.conf"
	at := time.Date(2026, 11, 28, 13, 16, 58, 0, time.UTC)
	write(t, f.root+p, "other\n# by hand\n")
	testkit.Must(t, os.Chmod(f.root+p, 0o640))
	testkit.Must(t, os.Chtimes(f.root+p, at, at))
	write(t, f.root+"/proc/sys/net/ipv4/ip_forward", "0\n")
	ch := dryRun(t, f, config())[p]
	if ch.Secret || ch.From == nil || ch.To == nil || *ch.From.Text != "other\n# by hand\n" || *ch.To.Text != "other" || ch.From.Mode != "0640" || ch.To.Mode != "0644" || !ch.From.Modified.Equal(at) {
		t.Errorf("%+v %+v %+v", ch, ch.From, ch.To)
	}
	if ch := dryRun(t, f, config())["net.ipv4.ip_forward"]; *ch.From.Text != "0" || *ch.To.Text != "1" {
		t.Errorf("%+v", ch)
	}
	c := config()
	c.Files = c.Files[:1:1] // the second file is to be removed
	if ch := dryRun(t, f, c)[p]; ch.Action != "remove" || ch.From == nil || !strings.Contains(*ch.From.Text, "by hand") || ch.To != nil {
		t.Errorf("%+v", ch)
	}
	real := testkit.Value(f.agent().Apply(t.Context(), config(), false))(t)
	for _, ch := range real.Changes {
		if ch.From != nil || ch.To != nil {
			t.Errorf("an apply reports contents: %+v", ch)
		}
	}
}

// TestDryRunBoundsContents: large files and binary ones are reported by size and digest.
func TestDryRunBoundsContents(t *testing.T) {
	for what, content := range map[string]string{"large": strings.Repeat("x", machine.MaxShown+1), "binary": "a\x00b", "not UTF-8": "\xff\xfe"} {
		f := applied(t)
		write(t, f.root+"/etc/app/other.conf", content)
		ch := dryRun(t, f, config())["/etc/app/other.conf"]
		if ch.From.Text != nil || ch.From.Size != int64(len(content)) || ch.From.Digest != digestOf(content) || *ch.To.Text != "other" {
			t.Errorf("%s: %+v", what, ch.From)
		}
	}
}

// TestDryRunReportsNothingOnANewMachine: on a new machine a dry run reports no contents, because everything is new.
func TestDryRunReportsNothingOnANewMachine(t *testing.T) {
	f := newFakeHost(t)
	for _, ch := range dryRun(t, f, config()) {
		if ch.From != nil || ch.To != nil {
			t.Errorf("%+v", ch)
		}
	}
}

// TestDryRunMasksSecrets: a file is masked if it is or was marked secret, or if its content looks like a secret.
func TestDryRunMasksSecrets(t *testing.T) {
	const token = "s3cr3t-t0ken"
	mark := func(c machine.Config, secret bool) machine.Config {
		c.Files[0].Secret = secret
		return c
	}
	with := func(c machine.Config, content string) machine.Config {
		c.Files[1].Content = []byte(content)
		return c
	}
	for what, try := range map[string]func(t *testing.T, f *fakeHost) machine.Config{
		"marked, edited by hand": func(t *testing.T, f *fakeHost) machine.Config {
			write(t, f.root+"/etc/app/app.conf", token)
			return config()
		},
		"marked, another one is wanted": func(*testing.T, *fakeHost) machine.Config {
			c := config()
			c.Files[0].Content = []byte(token)
			return c
		},
		"no longer marked": func(t *testing.T, f *fakeHost) machine.Config {
			write(t, f.root+"/etc/app/app.conf", token)
			return mark(config(), false)
		},
		"marked from now on": func(t *testing.T, f *fakeHost) machine.Config {
			f.apply(t, mark(config(), false))
			c := config()
			c.Files[0].Content = []byte(token)
			return c
		},
		"removed": func(t *testing.T, f *fakeHost) machine.Config {
			write(t, f.root+"/etc/app/app.conf", token)
			c := config()
			c.Files = c.Files[1:]
			return c
		},
		"a private key by hand": func(t *testing.T, f *fakeHost) machine.Config {
			write(t, f.root+"/etc/app/other.conf", "-----BEGIN EC PRIVATE KEY-----\n"+token)
			return config()
		},
		"a kubeconfig by hand, removed": func(t *testing.T, f *fakeHost) machine.Config {
			write(t, f.root+"/etc/app/other.conf", "users:\n- user:\n    token: "+token+"\n")
			c := config()
			c.Files = c.Files[:1:1]
			return c
		},
		"an encryption configuration": func(*testing.T, *fakeHost) machine.Config {
			return with(config(), "kind: EncryptionConfiguration\nresources: ["+token+"]\n")
		},
		"a Secret":   func(*testing.T, *fakeHost) machine.Config { return with(config(), `{"kind": "Secret",`+"\n"+token+"}") },
		"a password": func(*testing.T, *fakeHost) machine.Config { return with(config(), "  auth_pass "+token+"\n") },
		"a password in URL": func(*testing.T, *fakeHost) machine.Config {
			return with(config(), "Environment=HTTP_PROXY=http://me:"+token+"@proxy\n")
		},
	} {
		f := applied(t)
		changes := dryRun(t, f, try(t, f))
		report := string(testkit.Value(json.Marshal(changes))(t))
		if strings.Contains(report, token) || !strings.Contains(report, `"secret":true`) || strings.Contains(report, digestOf(token)) {
			t.Errorf("%s: %s", what, report)
		}
	}
}
