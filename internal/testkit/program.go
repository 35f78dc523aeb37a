package testkit

import (
	"fmt"
	"os"
	"os/exec"
)

// Program builds a package of this module as make build does, so that nothing is compiled twice, with build tags (separated by commas, or
// none) to the file out.
func Program(out, pkg, tags string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-tags", tags, "-o", out,
		"github.com/naupegos/naupegos/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return nil
}
