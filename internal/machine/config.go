// Package machine says what one machine should be: files, units, kernel settings, binaries, images. Typed, not a script.
//
// It knows nothing of clusters or Kubernetes; the agent makes a host match a Config, the cluster package writes it.
package machine

import "io/fs"

// Config is the whole wanted state of one machine, as the agent takes it on standard input (JSON).
type Config struct {
	Machine     string            `json:"machine"`               // the machine's name, for messages
	Users       []string          `json:"users,omitempty"`       // system accounts without a login, each with a group of its own name; created if absent, never removed
	Directories []Directory       `json:"directories,omitempty"` // made if absent; mode and owner kept right
	Files       []File            `json:"files,omitempty"`
	Binaries    []Binary          `json:"binaries,omitempty"` // symlinks into the blob store
	Images      []Image           `json:"images,omitempty"`   // container images imported into containerd
	Packages    []string          `json:"packages,omitempty"` // Debian packages that must be installed; prepared images have them
	Modules     []string          `json:"modules,omitempty"`  // kernel modules; built-in or loaded counts, one that the kernel does not have is a warning in the report
	Sysctls     map[string]string `json:"sysctls,omitempty"`  // written to a sysctl.d file and applied; a value that is already right is not written
	Units       []Unit            `json:"units,omitempty"`    // systemd units, started in this order
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
	// RenewedAt is the path at which the machine keeps a certificate that begins as this file and that it renews itself, as a kubelet
	// does. The file is written, and the path made a link to it, only while no certificate lies at the path that is valid by the
	// machine's clock and signed by Authority.
	RenewedAt string `json:"renewedAt,omitempty"`
	Authority []byte `json:"authority,omitempty"` // the certificate (PEM) of who signs what lies at RenewedAt; empty: anybody
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
	ID     string   `json:"id"`     // digest of the image (manifest), by which the agent reports whether it is already imported
}

// Unit is a systemd unit.
type Unit struct {
	Name    string   `json:"name"`              // "kubelet.service"
	Content string   `json:"content,omitempty"` // empty: the distribution's own unit
	DropIns []DropIn `json:"dropIns,omitempty"`
	Enabled bool     `json:"enabled"`
	Active  bool     `json:"active"` // started if not active; false: stopped if active
	// OnDemand has the unit be started and stopped by others, as a timer does: it is left as it is found, whatever Active says.
	OnDemand bool     `json:"onDemand,omitempty"`
	Watches  []string `json:"watches,omitempty"` // paths (files, binaries) whose change makes the unit restart; its own file and drop-ins always do
	Reload   bool     `json:"reload,omitempty"`  // reload in place of restart where only watched files changed
	Private  bool     `json:"private,omitempty"` // its file and drop-ins are readable by root alone
	// Starts lists what the unit starts by files, as kubelet starts static pods: while the unit runs such files are put in place once all images
	// are there, and it restarts only once it has started again what changed.
	Starts []Start `json:"starts,omitempty"`
	// Forgets is the path of a program, mostly the unit's own, whose other version does not know what the one before has started: where it
	// changes, all of Starts is stopped before the unit restarts, and started after it. Empty: none.
	Forgets string `json:"forgets,omitempty"`
}

// Start is a program that a unit starts by a file, named as the file without its extension.
type Start struct {
	File  string `json:"file"`
	Needs string `json:"needs,omitempty"` // the file of a program without which this one can answer nobody: it is stopped while that one is changed
	Port  int    `json:"port,omitempty"`  // where it listens once those that need it can use it; 0: that it runs is enough
}

// DropIn is a file in the unit's .d directory.
type DropIn struct {
	Name    string `json:"name"` // "10-naupegos.conf"
	Content string `json:"content"`
}

// Report is what the agent answers (JSON on standard output).
type Report struct {
	Digest  string   `json:"digest"`            // Config.Digest() of what is installed now (empty after a dry run that found changes)
	Changes []Change `json:"changes,omitempty"` // what was (dry run: would be) changed
	Missing []string `json:"missing,omitempty"` // blob digests the machine lacks; nothing was changed while any is missing
	// DiskFree is how many bytes root can still write below /var/lib, where blobs are missing; 0 where it is not known.
	DiskFree int64 `json:"diskFree,omitempty"`
	// Warnings reports what could not be made as wanted without being an error: a kernel module that this kernel does not have.
	Warnings []string `json:"warnings,omitempty"`
	Life              // before anything was changed
}

// Change is one thing the agent changed, or would.
type Change struct {
	Kind   string `json:"kind"`          // "user", "file", "directory", "binary", "image", "sysctl", "module", "unit"
	Name   string `json:"name"`          // path or unit name
	Action string `json:"action"`        // "create", "update", "remove", "start", "stop", "restart", "reload", "enable"
	Why    string `json:"why,omitempty"` // "content differs", "mode 0644 → 0600", …; never any content of a secret

	// A dry run on a machine that was configured before also reports contents, in text files of at most MaxShown bytes.
	Secret bool     `json:"secret,omitempty"` // it holds a secret: its contents are not reported
	From   *Content `json:"from,omitempty"`   // of a file, or of a kernel setting: what is there; absent: nothing
	To     *Content `json:"to,omitempty"`     // what is to be there; absent: nothing
}
