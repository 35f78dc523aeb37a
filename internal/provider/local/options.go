package local

import (
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
	"github.com/naupegos/naupegos/internal/userdir"
)

// SupervisorCommand is the hidden naupegos command that must call Supervise with its only argument, a machine's directory.
const SupervisorCommand = "local-machine"

// Options sets which cluster's machines a Provider handles, and its directories. Observing and destroying
// require only ClusterID; creating also needs AgentBinary and Bundle.
type Options struct {
	ClusterID   string // "demo-1a2b3c4d"; its last eight hexadecimal digits name links and tables
	ClusterName string // for messages

	Root      string // records and disks of machines; default /var/lib/naupegos/local
	ImageRoot string // prepared images; default /var/lib/naupegos/images; best on Root's file system (hard links)
	Cache     string // base images; default $XDG_CACHE_HOME/naupegos or ~/.cache/naupegos

	Suite string // Debian release of machines; default bookworm
	CIDR  string // subnet of the machines, /16 to /24; empty: a free /24 is chosen

	Base          *layers.Base   // the machines' root file system; nil: Debian's, made with mmdebstrap
	Bundle        *bundle.Bundle // put into machines' images; may be nil
	AgentBinary   string         // path of naupegos-agent on this host, put into machines' images; may be empty
	SSHPublicKeys []string       // may log in as root if the MachineSpec has no user-data

	// CloudImage makes machines behave like cloud images: cloud-init's later stages run at once instead of after the busiest
	// minutes, and print the SSH host keys on the console. It costs seconds of CPU time per boot.
	CloudImage bool
	// InstanceID returns a machine's cloud-init instance ID; nil: an ID made from its name, new for each disk.
	InstanceID func(provider.MachineSpec) string

	Supervisor []string // command line, without the machine's directory; default: this executable, SupervisorCommand
	Timeouts   Timeouts
}

// Timeouts bounds the provider's waits. Zero means the default.
type Timeouts struct {
	Boot  time.Duration // from start until SSH answers; default 3 minutes
	Stop  time.Duration // of a clean shutdown before the machine is killed; default 30 seconds
	Kill  time.Duration // until killed processes have ended; default 15 seconds
	Image time.Duration // base and prepared images; default 30 minutes
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (o *Options) setDefaults() error {
	if !dnsLabel.MatchString(o.ClusterID) {
		return fail.New(fail.Invalid, "cluster ID %q is not a DNS label", o.ClusterID)
	}
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&o.ClusterName, o.ClusterID)
	def(&o.Root, "/var/lib/naupegos/local")
	def(&o.ImageRoot, "/var/lib/naupegos/images")
	var err error
	if o.Root, err = filepath.Abs(o.Root); err != nil { // supervisors have another working directory, and commands with other roots read the path
		return fail.Wrap(fail.Refused, err, "find the directory of machines").At(o.Root)
	}
	def(&o.Suite, "bookworm")
	if o.Cache == "" {
		if o.Cache, err = userdir.Cache(); err != nil {
			return err
		}
	}
	if len(o.Supervisor) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return fail.Wrap(fail.Internal, err, "find the path of this program")
		}
		o.Supervisor = []string{exe, SupervisorCommand}
	}
	o.Timeouts.setDefaults()
	return nil
}

func (t *Timeouts) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&t.Boot, 3*time.Minute)
	def(&t.Stop, 30*time.Second)
	def(&t.Kill, 15*time.Second)
	def(&t.Image, 30*time.Minute)
}

var hexSuffix = regexp.MustCompile(`(?:^|-)([0-9a-f]{8})$`)

// shortID returns the eight hexadecimal digits in the names of a cluster's links and tables: the ID's own suffix, or else
// the beginning of its SHA-256.
func shortID(clusterID string) string {
	if m := hexSuffix.FindStringSubmatch(clusterID); m != nil {
		return m[1]
	}
	return files.Digest(clusterID)[:8]
}
