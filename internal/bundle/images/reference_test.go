package images

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestParseReference parses names as people write them.
func TestParseReference(t *testing.T) {
	d := sha(1)
	for text, want := range map[string]string{
		"nginx":                                   "docker.io/library/nginx:latest",
		"nginx:1.29":                              "docker.io/library/nginx:1.29",
		"library/nginx:1.29":                      "docker.io/library/nginx:1.29",
		"docker.io/nginx:1.29":                    "docker.io/library/nginx:1.29",
		"docker.io/library/nginx:1.29":            "docker.io/library/nginx:1.29",
		"index.docker.io/library/nginx:1.29":      "docker.io/library/nginx:1.29",
		"registry-1.docker.io/library/nginx:1":    "docker.io/library/nginx:1",
		"bitnami/redis":                           "docker.io/bitnami/redis:latest",
		"nginx@" + d:                              "docker.io/library/nginx@" + d,
		"nginx:1.29@" + d:                         "docker.io/library/nginx:1.29@" + d,
		"localhost/app:dev":                       "localhost/app:dev",
		"localhost:5000/app":                      "localhost:5000/app:latest",
		"127.0.0.1:5000/team/app:v1":              "127.0.0.1:5000/team/app:v1",
		"registry.example.org:5000/app":           "registry.example.org:5000/app:latest",
		"registry.example.org:5000/a/b/c:v1@" + d: "registry.example.org:5000/a/b/c:v1@" + d,
		"ghcr.io/o/a_b/c__d/e-f/g.h:V1.2_RC-3":    "ghcr.io/o/a_b/c__d/e-f/g.h:V1.2_RC-3",
	} {
		if r, err := ParseReference(text); err != nil || r.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, r, err, want)
		}
	}
	for text, says := range map[string]string{
		"":                             "empty",
		" ":                            "empty",
		"Nginx":                        "lower-case",
		"docker.io/Library/Nginx:1.29": "docker.io/library/nginx",
		"registry.Example.org/app":     "lower-case",
		"https://docker.io/nginx":      "leave out https://",
		"docker://nginx":               "leave out docker://",
		"nginx:":                       "not allowed",
		"nginx:1 29":                   "not allowed",
		"nginx@sha256:abc":             "64 hexadecimal digits",
		"nginx@" + d + "0":             "64 hexadecimal digits",
		"nginx@sha512:" + strings.Repeat("a", 128): "not a sha256 digest",
		"nginx@md5:abc":                     "not a sha256 digest",
		"{{ .Values.image }}":               "not the name of an image",
		"registry.example.org:port/app":     "not the name of an image",
		"a//b":                              "not the name of an image",
		"../../etc/passwd":                  "not the name of an image",
		"nginx:" + strings.Repeat("a", 129): "not allowed",
	} {
		_, err := ParseReference(text)
		if fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want one that says %q", text, err, says)
		}
	}
}
