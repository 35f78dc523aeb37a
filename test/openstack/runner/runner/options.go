package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// Options selects the cloud that the runner serves, and the runner's directories. The zero value serves the bed of `make openstack-up`.
type Options struct {
	State      string // the bed's state directory; default $NAUPEGOS_OPENSTACK_ROOT or /var/lib/naupegos/openstack
	CloudsYAML string // default clouds.yaml in State
	Cloud      string // its user must be an administrator, to see every project; default naupegos-admin

	Consoles string // where the bed's Nova reads the servers' consoles; default console in State

	MetadataURL    string // of nova-api-metadata; default http://192.0.2.10:8775
	MetadataSecret string // Nova's metadata_proxy_shared_secret; default: read from metadata-secret in State

	Networks []string // IDs or names of the Neutron networks to serve; "demo-*" is a prefix; empty: all except those of tests

	Machines local.Options // uses Root, ImageRoot, Cache, AgentBinary, Supervisor and Timeouts; the runner sets the rest
	Bundles  string        // the bundle library; default bundle.DefaultRoot

	Pace     time.Duration // minimum time between two reads of the cloud; default 1 second
	Parallel int           // machines that boot at the same time; default 8
	Log      *slog.Logger  // default slog.Default()
}

func (o *Options) setDefaults() error {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&o.State, os.Getenv("NAUPEGOS_OPENSTACK_ROOT"))
	def(&o.State, "/var/lib/naupegos/openstack")
	def(&o.CloudsYAML, filepath.Join(o.State, "clouds.yaml"))
	def(&o.Cloud, "naupegos-admin")
	def(&o.Consoles, filepath.Join(o.State, "console"))
	def(&o.MetadataURL, "http://192.0.2.10:8775")
	if o.MetadataSecret == "" {
		secret, err := os.ReadFile(filepath.Join(o.State, "metadata-secret"))
		if err != nil {
			return fail.Wrap(fail.Refused, err, "read the metadata service's secret").Do("start the bed first: make openstack-up")
		}
		o.MetadataSecret = strings.TrimSpace(string(secret))
	}
	if o.Bundles == "" {
		root, err := bundle.DefaultRoot()
		if err != nil {
			return err
		}
		o.Bundles = root
	}
	if o.Pace == 0 {
		o.Pace = time.Second
	}
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// TestPrefix is the prefix of networks that tests create for runners of their own.
const TestPrefix = "test-"

// serves reports whether the runner boots machines for the servers of a network.
func (o *Options) serves(sub subnet) bool {
	if len(o.Networks) == 0 {
		return !strings.HasPrefix(sub.Name, TestPrefix)
	}
	return slices.ContainsFunc(o.Networks, func(want string) bool {
		begin, open := strings.CutSuffix(want, "*")
		return want == sub.Network || want == sub.Name || open && strings.HasPrefix(sub.Name, begin)
	})
}

// Paths in the bed's state directory.
func (o *Options) dir() string       { return filepath.Join(o.State, "runner") }
func (o *Options) lockFile() string  { return filepath.Join(o.dir(), "lock") }
func (o *Options) stateFile() string { return filepath.Join(o.dir(), "state.json") }

// short distinguishes the bed's kernel objects from those of other beds.
func (o *Options) short() string {
	sum := sha256.Sum256([]byte(o.State))
	return hex.EncodeToString(sum[:4])
}

func (o *Options) table() string { return "naupegos_os_" + o.short() }
func (o *Options) link() string  { return "nauos" + o.short() } // 13 characters; the kernel allows 15
