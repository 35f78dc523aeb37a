package rootfs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/naupegos/naupegos/internal/tool"
)

// aptFiles configure mmdebstrap's apt, and what remains of that configuration in the root file system.
type aptFiles struct {
	settings    string // file with the host's settings, which may contain a proxy's password; only root reads it
	kept        string // file with the same without logins
	keptSources string // file with the package sources without logins; empty: mmdebstrap chose them
}

// newAptFiles writes the files into tmp.
func newAptFiles(ctx context.Context, tmp string, sources []string) (aptFiles, error) {
	lines, err := aptSettings(ctx)
	if err != nil {
		return aptFiles{}, err
	}
	text := strings.Join(lines, "\n") + "\n"
	f := aptFiles{settings: filepath.Join(tmp, "apt.conf"), kept: filepath.Join(tmp, "apt-kept.conf")}
	err = errors.Join(os.WriteFile(f.settings, []byte(text), 0o600), os.WriteFile(f.kept, []byte(withoutLogins(text)), 0o600))
	if len(sources) > 0 {
		f.keptSources = filepath.Join(tmp, "sources-kept.list")
		err = errors.Join(err, os.WriteFile(f.keptSources, []byte(withoutLogins(strings.Join(sources, "\n")+"\n")), 0o600))
	}
	return f, err
}

// hooks return the hooks that replace apt's settings and sources in the root file system by copies without logins. mmdebstrap writes the
// originals there.
func (f aptFiles) hooks() []string {
	out := []string{upload(f.kept, "/etc/apt/apt.conf.d/99mmdebstrap")}
	if f.keptSources != "" {
		out = append(out, upload(f.keptSources, "/etc/apt/sources.list"))
	}
	return out
}

// upload is a hook of mmdebstrap that replaces a file of the root file system.
func upload(file, path string) string {
	return "customize-hook=upload '" + strings.ReplaceAll(file, "'", `'\''`) + "' " + path
}

var login = regexp.MustCompile(`://[^/\s"]*@`)

// withoutLogins takes users and passwords out of all URLs of a text.
func withoutLogins(text string) string { return login.ReplaceAllString(text, "://") }

// aptSettings returns the lines of an apt.conf with which this host reaches its mirrors.
func aptSettings(ctx context.Context) ([]string, error) {
	lines := []string{`Acquire::Retries "3";`, `APT::Install-Recommends "false";`}
	if _, err := exec.LookPath("apt-config"); err != nil {
		return lines, nil //nolint:nilerr // not a Debian
	}
	out, err := tool.Run(ctx, nil, "apt-config", "dump", "Acquire")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, " ")
		if strings.HasSuffix(strings.ToLower(name), "::proxy") || name == "Acquire::Check-Valid-Until" || name == "Acquire::Check-Date" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, nil
}
