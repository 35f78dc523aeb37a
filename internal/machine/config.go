// Package machine describes the wanted state of one machine: files, units, kernel settings, binaries, images. Typed, not a script.
//
// It knows nothing of clusters or Kubernetes. The cluster package writes a Config, and the agent makes a host match it.
package machine

import "io/fs"

// Config is the complete wanted state of one machine, which the agent reads from standard input (JSON).
type Config struct {
	Machine     string            `json:"machine"`               // the machine's name, for messages
	Users       []string          `json:"users,omitempty"`       // system accounts without a login, each with a group of its own name; created if absent, never removed
	Directories []Directory       `json:"directories,omitempty"` // created if absent; mode and owner are kept right
	Files       []File            `json:"files,omitempty"`
	Links       []Link            `json:"links,omitempty"`    // symlinks to files of the machine
	Binaries    []Binary          `json:"binaries,omitempty"` // symlinks into the blob store
	Images      []Image           `json:"images,omitempty"`   // container images imported into containerd
	Packages    []string          `json:"packages,omitempty"` // Debian packages that must be installed; prepared images have them
	Modules     []string          `json:"modules,omitempty"`  // kernel modules that must be loaded or built in; one that the kernel lacks is a warning in the report
	Sysctls     map[string]string `json:"sysctls,omitempty"`  // written to a sysctl.d file and applied; a value that is already right is not written
	// KernelArguments are the kernel arguments that GRUB adds to its own, in this order. They take effect at the next boot.
	KernelArguments []string `json:"kernelArguments,omitempty"`
	Units           []Unit   `json:"units,omitempty"`   // systemd units, started in this order
	Release         string   `json:"release,omitempty"` // release that the machine runs; if it differs from the previous one, the apply is an upgrade
	Hooks           []Hook   `json:"hooks,omitempty"`   // run in this order
}

// Link is a symlink.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"` // absolute
}

// When hooks run. The agent recognizes an installation by the absence of its state, and an upgrade by a changed Config.Release.
const (
	BeforeInstall = "beforeInstall"
	AfterInstall  = "afterInstall"
	BeforeUpgrade = "beforeUpgrade"
	AfterUpgrade  = "afterUpgrade"
	BeforeReset   = "beforeReset"
	AfterReset    = "afterReset"
)

// Hook is a shell script that runs as root at one moment of a machine's life. Its failure stops the apply or reset.
type Hook struct {
	When    string `json:"when"`
	Name    string `json:"name"`
	Script  string `json:"script"`
	Seconds int    `json:"seconds"` // time limit
}

// Directory is a directory that exists with this mode.
type Directory struct {
	Path  string      `json:"path"`
	Mode  fs.FileMode `json:"mode"`
	Owner string      `json:"owner,omitempty"` // "user:group" by name or number; empty means root:root
}

// File is a file with this content.
type File struct {
	Path    string      `json:"path"`
	Mode    fs.FileMode `json:"mode"`
	Owner   string      `json:"owner,omitempty"`  // as Directory.Owner
	Content []byte      `json:"content"`          // base64 in JSON
	Secret  bool        `json:"secret,omitempty"` // never shown in diffs, logs or reports
	// RenewedAt is the path of a certificate that starts as this file and that the machine renews itself, as a kubelet does. The file is written, and
	// the path made a link to it, only if the path holds no certificate that is valid by the machine's clock and signed by Authority.
	RenewedAt string `json:"renewedAt,omitempty"`
	Authority []byte `json:"authority,omitempty"` // certificate (PEM) of the authority that signs the certificate at RenewedAt; empty: any authority
}

// Binary is an executable from the bundle. Path becomes a symlink into the machine's blob store.
type Binary struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // "sha256:<hex>" of the blob
	Size   int64  `json:"size"`   // bytes
}

// Image is an OCI/docker image archive from the bundle that containerd must know under Refs.
type Image struct {
	Refs   []string `json:"refs"`
	Digest string   `json:"digest"` // of the archive blob
	Size   int64    `json:"size"`   // bytes
	ID     string   `json:"id"`     // digest of the image (manifest), by which the agent checks whether it is already imported
}

// Unit is a systemd unit.
type Unit struct {
	Name    string   `json:"name"`              // "kubelet.service"
	Content string   `json:"content,omitempty"` // empty: the distribution's own unit
	DropIns []DropIn `json:"dropIns,omitempty"`
	Enabled bool     `json:"enabled"`
	Active  bool     `json:"active"` // started if not active; false: stopped if active
	// OnDemand means that another unit, such as a timer, starts and stops the unit: the agent does neither, whatever Active says.
	OnDemand bool     `json:"onDemand,omitempty"`
	Watches  []string `json:"watches,omitempty"` // paths (files, binaries) whose change makes the unit restart; its own file and drop-ins always do
	Reload   bool     `json:"reload,omitempty"`  // reload instead of restart if only watched files changed
	// Table is the table of nftables that the unit loads, as "inet NAME". If it has no rules although the unit is active, the unit loads it again.
	Table   string `json:"table,omitempty"`
	Private bool   `json:"private,omitempty"` // only root can read its file and drop-ins
	// Starts lists the programs that the unit starts from files, as kubelet starts static pods. While the unit runs, the agent places these files
	// only once all images are there, and restarts the unit only once the unit has restarted the changed programs.
	Starts []Start `json:"starts,omitempty"`
	// Forgets is the path of a program, usually the unit's own, that loses track of started programs when it is replaced by another version. If it
	// changes, the agent stops all of Starts before the unit restarts, and starts them afterwards. Empty: none.
	Forgets string `json:"forgets,omitempty"`
}

// Start is a program that a unit starts from a file; the program is named like the file without its extension.
type Start struct {
	File  string `json:"file"`
	Needs string `json:"needs,omitempty"` // file of another program on which this one depends: this one is stopped while the other changes
	Port  int    `json:"port,omitempty"`  // port on which it listens once programs that need it can use it; 0: it is ready as soon as it runs
}

// DropIn is a file in the unit's .d directory.
type DropIn struct {
	Name    string `json:"name"` // "10-naupegos.conf"
	Content string `json:"content"`
}

// Report is the agent's answer (JSON on standard output).
type Report struct {
	Digest  string   `json:"digest"`            // Config.Digest() of the installed state (empty after a dry run that found changes)
	Changes []Change `json:"changes,omitempty"` // what was (dry run: would be) changed
	Missing []string `json:"missing,omitempty"` // digests of blobs that the machine lacks; nothing is changed while any is missing
	// DiskFree is the number of bytes that root can still write below /var/lib. It is set if blobs are missing; 0 if unknown.
	DiskFree int64 `json:"diskFree,omitempty"`
	// Warnings reports deviations that are not errors, such as a module that this kernel does not have.
	Warnings []string `json:"warnings,omitempty"`
	Reboot   []string `json:"reboot,omitempty"` // parts of the configuration that take effect at the next reboot
	// Behind reports, after a dry run without changes, the programs that a unit starts by files (Unit.Starts) and that still run as before their files
	// were written: an earlier run was interrupted before they restarted.
	Behind []string `json:"behind,omitempty"`
	// Ended reports, after a dry run, the programs that a running unit starts from files and that do not run.
	Ended []string `json:"ended,omitempty"`
	Life           // as it was before any change
}

// Change is one change that the agent made, or would make.
type Change struct {
	Kind   string `json:"kind"`          // "user", "file", "directory", "link", "binary", "image", "package", "sysctl", "module", "unit", "command", "hook"
	Name   string `json:"name"`          // path or unit name
	Action string `json:"action"`        // "create", "update", "remove", "start", "stop", "restart", "reload", "enable", "run"
	Why    string `json:"why,omitempty"` // "content differs", "mode 0644 → 0600", …; never any content of a secret

	// A dry run on a machine that was configured before also reports the contents of text files of at most MaxShown bytes.
	Secret bool     `json:"secret,omitempty"` // the file holds a secret: its contents are not reported
	From   *Content `json:"from,omitempty"`   // of a file or a kernel setting: the present content; nil if it does not exist
	To     *Content `json:"to,omitempty"`     // the wanted content; nil if it is to be removed
}
