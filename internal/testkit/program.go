package testkit

import (
	"fmt"
	"os"
	"os/exec"
)

// Program builds a package of this module to the file out, with build tags (separated by commas, or ""). It uses make build's flags, so that
// compiled packages are reused.
func Program(out, pkg, tags string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-tags", tags, "-o", out,
		"github.com/naupegos/naupegos/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return nil
}
