package netbooting_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/testkit"
)

func config(t *testing.T, http string, args ...string) (netboot.Config, error) {
	t.Helper()
	var f netbooting.Flags
	set := pflag.NewFlagSet("server", pflag.ContinueOnError)
	f.Bind(set)
	testkit.Must(t, set.Parse(args))
	return f.Config("/state", http, slog.New(slog.DiscardHandler))
}

func TestFlags(t *testing.T) {
	cfg := testkit.Value(config(t, ":8080", "--netboot-interface", "eth1", "--dhcp", "on", "--dhcp-range", "10.0.0.10-10.0.0.20", "--dhcp-dns", "10.0.0.1,10.0.0.2", "--dhcp-router", "10.0.0.1"))(t)
	if cfg.HTTP != 8080 || cfg.Range.Last.String() != "10.0.0.20" || len(cfg.DNS) != 2 || cfg.Leases != "/state/dhcp/leases" || cfg.Lease != time.Hour || cfg.Address.IsValid() {
		t.Errorf("the config is %+v", cfg)
	}
	if cfg := testkit.Value(config(t, "10.0.0.1:80", "--netboot-interface", "eth1"))(t); cfg.DHCP != netboot.Proxy || cfg.Leases != "" {
		t.Errorf("the default is %+v", cfg)
	}
	if cfg := testkit.Value(config(t, ":0"))(t); cfg.Interface != "" {
		t.Errorf("without flags: %+v", cfg)
	}
	for _, bad := range [][]string{{":0", "--netboot-interface", "a"}, {"8080", "--netboot-interface", "a"}, {":80", "--dhcp-range", "10.0.0.1-10.0.0.2"}, {":80", "--netboot-interface", "a", "--dhcp-range", "x"},
		{":80", "--netboot-interface", "a", "--dhcp-dns", "x"}, {":80", "--netboot-interface", "a", "--dhcp-router", "::1"}, {":80", "--netboot-interface", "a", "--netboot-address", "1"}} {
		_, err := config(t, bad[0], bad[1:]...)
		testkit.Fails(t, err, fail.Invalid)
	}
}

func TestImportVerb(t *testing.T) {
	state := t.TempDir()
	verb := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := netbooting.NewImport(&out, func() (string, error) { return state, nil })
		c.SetArgs(args)
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	const rack = "../../netboot/boot/testdata/rack"
	if out := testkit.Value(verb(rack, "--dry-run"))(t); !strings.HasPrefix(out, "Would import") || !strings.Contains(out, "no answer: groups/broken.json") {
		t.Error(out)
	}
	if _, err := os.Stat(netbooting.Dir(state)); err == nil {
		t.Error("a dry run has made the directory")
	}
	out := testkit.Value(verb(rack, "-o", "json"))(t)
	var did struct {
		Groups int
		New    []string
		Done   bool
	}
	testkit.Must(t, json.Unmarshal([]byte(out), &did))
	if !did.Done || did.Groups < 20 || len(did.New) < 60 {
		t.Errorf("%+v", did)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(netbooting.Dir(state), "generic/worker.txt"), []byte("mine"), 0o644))
	_, err := verb(rack)
	testkit.Fails(t, err, fail.Conflict, "generic/worker.txt", "--replace")
	if out := testkit.Value(verb(rack, "--replace"))(t); !strings.Contains(out, "0 new files, 1 that differ") {
		t.Error(out)
	}
}
