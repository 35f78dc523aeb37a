package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed tofu/main.tf
var configuration embed.FS

// tofu is the side of OpenTofu with its OpenStack provider.
type tofu struct {
	program     string
	dir         string // of the configuration and the state
	parallelism int
	proxy       string
	clouds      string // clouds.yaml
}

func (t tofu) name() string { return fmt.Sprintf("OpenTofu -parallelism=%d", t.parallelism) }

// newTofu creates a directory for OpenTofu and configures the provider there, without a registry. The bench does not measure this.
func newTofu(ctx context.Context, dir string, program, providerProgram string, s size, rules []rule, ownVolumes bool) (tofu, error) {
	t := tofu{program: program, dir: dir}
	main, err := configuration.ReadFile("tofu/main.tf")
	if err != nil {
		return t, err
	}
	vars, err := variables(s, rules, ownVolumes)
	if err != nil {
		return t, err
	}
	values, err := json.MarshalIndent(vars, "", " ")
	if err != nil {
		return t, err
	}
	mirror := filepath.Join(dir, "mirror")
	place := filepath.Join(mirror, "registry.opentofu.org/terraform-provider-openstack/openstack", strings.TrimPrefix(openStackProvider.version, "v"),
		runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(place, 0o755); err != nil {
		return t, err
	}
	if err := os.Symlink(providerProgram, filepath.Join(place, "terraform-provider-openstack_"+openStackProvider.version)); err != nil {
		return t, err
	}
	for name, data := range map[string][]byte{
		"main.tf": main, "terraform.tfvars.json": values,
		"tofurc": fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return t, err
		}
	}
	return t, t.run(ctx, "init", "-input=false")
}

// variables returns the values of the configuration's variables.
func variables(s size, rules []rule, ownVolumes bool) (object, error) {
	machines, err := s.machines()
	if err != nil {
		return nil, err
	}
	list := object{}
	for _, m := range machines {
		list[m.Name] = object{"role": m.Role, "user_data": string(m.UserData)}
	}
	return object{
		"cloud": cloudName, "cluster": clusterID, "mark": "naupegos-cluster=" + clusterID, "cidr": cidr, "external_network": s.external,
		"image": s.image, "flavor": s.flavor, "volume_size": s.volume, "public_key": publicKey, "own_volumes": ownVolumes,
		"machines": list, "rules": byKey(rules),
	}, nil
}

func (t tofu) create(ctx context.Context) error {
	return t.run(ctx, "apply", "-auto-approve", "-input=false", t.parallel())
}

// nothing plans again. Exit code 2 means that there are changes.
func (t tofu) nothing(ctx context.Context) error {
	return t.run(ctx, "plan", "-detailed-exitcode", "-input=false", t.parallel())
}

func (t tofu) destroy(ctx context.Context) error {
	return t.run(ctx, "destroy", "-auto-approve", "-input=false", t.parallel())
}

func (t tofu) parallel() string { return "-parallelism=" + strconv.Itoa(t.parallelism) }

func (t tofu) run(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, t.program, append(args, "-no-color")...)
	c.Dir = t.dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                 // Cancel passes Ctrl-C on once: a second one would lose the state
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGINT) } // OpenTofu saves its state and exits
	c.WaitDelay = time.Minute
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.dir, "TMPDIR=" + os.TempDir(), "PWD=" + t.dir, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"TF_CLI_CONFIG_FILE=" + filepath.Join(t.dir, "tofurc"), "OS_CLIENT_CONFIG_FILE=" + t.clouds, "HTTP_PROXY=" + t.proxy,
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("tofu %s: %w\n%s", args[0], err, tail(out.String(), 6000))
	}
	return nil
}

// tail returns the end of a text, which contains the errors.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
