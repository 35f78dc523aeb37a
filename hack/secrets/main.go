// Secrets scans the tracked files of this repository for texts that look like credentials. It fails if it finds one that is not listed as test data.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

// kinds are the kinds of secrets. Each expression begins with rare characters, which keeps a scan below a second.
var kinds = []struct {
	name string
	is   *regexp.Regexp
}{
	{"a private key", regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*\\?n?\s*[A-Za-z0-9+/]{20}`)},
	{"an age identity", regexp.MustCompile(`AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,}`)},
	{"an AWS access key", regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a GitHub token", regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})`)},
	{"a GitLab token", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"a Slack token", regexp.MustCompile(`\bxox[abposr]-[A-Za-z0-9-]{20,}`)},
	{"a Google API key", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b`)},
	{"a Vault token", regexp.MustCompile(`\bhv[sbr]\.[A-Za-z0-9_-]{24,}`)},
	{"a token of naupegos server", regexp.MustCompile(`\bnaupegos_[0-9a-f]{12}_[A-Za-z0-9_-]{40,}`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`)},
	{"a password in an address", regexp.MustCompile(`\b(?:postgres|postgresql|https?|amqp|redis)://[^\s:/@'"<>{}$%]+:[^\s/@'"<>{}$%…]{8,}@[a-z0-9]`)},
}

// testData lists files that contain such texts on purpose; they are made up and valid nowhere. A pattern is one of path.Match; an empty kind means
// any.
var testData = []struct{ file, kind string }{
	{"hack/secrets/main_test.go", ""},
	{"api/v1alpha1/testdata/bad/addons.txtar", "a password in an address"},
	{"api/v1alpha1/testdata/bad/backup.txtar", "an age identity"},
	{"api/v1alpha1/testdata/bad/settings.txtar", "a private key"},
	{"internal/agent/registrycheck/check_test.go", "a password in an address"},
	{"internal/cluster/support/collection_test.go", "a password in an address"},
	{"internal/cluster/support/collection_test.go", "an AWS access key"},
	{"internal/cluster/support/collection_test.go", "an age identity"},
	{"internal/provider/local/base_integration_test.go", "a password in an address"},
	{"test/e2e/restore_test.go", "an age identity"},
}

// finding is a text that looks like a secret.
type finding struct {
	file string
	line int
	kind string
}

// scan searches the text of a file.
func scan(file string, text []byte) []finding {
	if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return nil // a binary file
	}
	var all []finding
	for _, k := range kinds {
		for _, at := range k.is.FindAllIndex(text, -1) {
			if !allowed(file, k.name) {
				all = append(all, finding{file, 1 + bytes.Count(text[:at[0]], []byte("\n")), k.name})
			}
		}
	}
	return all
}

func allowed(file, kind string) bool {
	for _, t := range testData {
		if ok, err := path.Match(t.file, file); err == nil && ok && (t.kind == "" || t.kind == kind) {
			return true
		}
	}
	return false
}

func main() {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "secrets: list the tracked files:", err)
		os.Exit(1)
	}
	found := 0
	for _, file := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue // removed but not committed yet, or a link
		}
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "secrets:", err)
			os.Exit(1)
		}
		for _, f := range scan(file, text) {
			found++
			fmt.Printf("%s:%d: this looks like %s\n", f.file, f.line, f.kind)
		}
	}
	if found > 0 {
		fmt.Println("Remove it, and consider it known: it stays in the history. If it is made up for a test, hack/secrets/main.go has the list of such files.")
		os.Exit(1)
	}
}
