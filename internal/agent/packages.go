package agent

import (
	"context"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// diffPackages returns the wanted packages that are not installed. Reading dpkg's database takes milliseconds, asking
// dpkg-query a process.
func (a *Agent) diffPackages(want []string) ([]string, error) {
	if len(want) == 0 {
		return nil, nil
	}
	have := installedPackages(a.root.Read(host.DpkgStatus))
	var out []string
	for _, p := range want {
		if !have[p] {
			out = append(out, p)
		}
	}
	return out, nil
}

// installedPackages reads the stanzas of dpkg's database.
func installedPackages(status string) map[string]bool {
	have := map[string]bool{}
	name := ""
	for line := range strings.Lines(status) {
		line = strings.TrimRight(line, "\n")
		if v, ok := strings.CutPrefix(line, "Package: "); ok {
			name = v
		}
		if line == "Status: install ok installed" || line == "Status: hold ok installed" {
			have[name] = true
		}
	}
	return have
}

// installPackages installs what lacks. The package lists are fetched again only where the ones at hand don't do.
func (a *Agent) installPackages(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	install := append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends", "--"}, names...)
	_, err := a.run.Run(ctx, nil, install...)
	if err == nil {
		return nil
	}
	if _, err = a.run.Run(ctx, nil, "apt-get", "update", "-q"); err == nil {
		_, err = a.run.Run(ctx, nil, install...)
	}
	if ctx.Err() != nil {
		return interrupted(ctx.Err())
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "install the packages %s", strings.Join(names, " ")).
			Do("the machine must reach a Debian or Ubuntu mirror, or have them installed beforehand")
	}
	return nil
}
