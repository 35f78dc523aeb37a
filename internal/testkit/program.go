package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// S3Server is a real S3 server, which no go.mod requires: see Released.
const S3Server = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// Program builds a package of this module to the file out, with build tags (separated by commas, or "").
func Program(out, pkg, tags string) error {
	return goIn("", nil, "build", "-tags", tags, "-o", out, "github.com/naupegos/naupegos/"+pkg)
}

// Required builds a package of a module that the module in dir requires ("": the module of the test) to the file out.
func Required(dir, out, pkg string) error { return goIn(dir, nil, "build", "-o", out, pkg) }

// Released builds a package at a version that no go.mod requires, such as example.org/server/cmd/server@v1.2.3, and returns the path of the program,
// which is in dir.
func Released(dir, pkg string) (program string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(path.Base(pkg), "@")
	return filepath.Join(dir, name), goIn(dir, []string{"GOBIN=" + dir}, "install", pkg)
}

// goIn runs go build or go install in a directory. It uses make build's flags, so that compiled packages are reused.
func goIn(dir string, env []string, verb string, args ...string) error {
	cmd := exec.Command("go", append([]string{verb, "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", args[len(args)-1], err, said)
	}
	return nil
}
