package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDebianSources(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"mirror and third party", map[string]string{
			"sources.list":               "# deb http://old/debian bookworm main\ndeb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib # c\ndeb-src http://mirror.example/debian bookworm main\n",
			"sources.list.d/docker.list": "deb https://download.docker.example/linux/debian bookworm stable\n",
		}, []string{"deb [signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib"}},
		{"deb822", map[string]string{
			"sources.list.d/debian.sources": "Types: deb deb-src\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\nEnabled: no\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: bookworm-security\nComponents: main\n",
		}, []string{
			"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main",
			"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm-updates main",
		}},
		{"another distribution", map[string]string{
			"sources.list": "deb http://archive.example/ubuntu noble main\n",
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			etc := t.TempDir()
			if err := os.Mkdir(filepath.Join(etc, "sources.list.d"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := debianSources(etc, "bookworm")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// FuzzSources: every entry from arbitrary package sources of a host is a single line that apt reads as one entry.
func FuzzSources(f *testing.F) {
	f.Add("deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib # c\n")
	f.Add("Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n")
	f.Add(": deb\n deb\n\nTypes\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range append(oneLineEntries(text), deb822Entries(text)...) {
			if !strings.HasPrefix(e, "deb ") || strings.ContainsAny(e, "\r\n") {
				t.Fatalf("%q", e)
			}
			if debianEntry(e, "bookworm") && !strings.Contains(e, " bookworm") {
				t.Fatalf("%q is of another suite", e)
			}
		}
	})
}
