package v1alpha1

// MachineSettings is what machines have besides what Naupegos itself puts on them. spec.machines is for all machines; the same under
// spec.controlPlane, spec.endpoint.gateways and a pool adds to it, and wins where both set the same thing.
type MachineSettings struct {
	// Kernel settings by name, as "vm.max_map_count": "262144". A setting that leaves the document gets the value from before.
	Sysctls map[string]string `json:"sysctls,omitempty" yaml:"sysctls,omitempty"`
	// Kernel modules to load, now and at every boot. A module that leaves the document stays loaded until the next boot.
	Modules []string `json:"modules,omitempty" yaml:"modules,omitempty" jsonschema:"maxItems=100"`
	// Files. One that leaves the document goes, and the file that had its place before comes back. Documents are not secret: put no passwords in here.
	Files []MachineFile `json:"files,omitempty" yaml:"files,omitempty" jsonschema:"maxItems=200"`
	// systemd units. One that leaves the document is stopped and removed.
	Units []MachineUnit `json:"units,omitempty" yaml:"units,omitempty" jsonschema:"maxItems=100"`
	// Debian packages to install. One that leaves the document is removed with what came with it, if Naupegos installed it.
	Packages []string `json:"packages,omitempty" yaml:"packages,omitempty" jsonschema:"maxItems=200"`
	// Where packages come from, besides the sources that the machine has.
	Repositories []PackageRepository `json:"repositories,omitempty" yaml:"repositories,omitempty" jsonschema:"maxItems=50"`
	// Where the machine's clock gets the time. systemd-timesyncd and chrony take it over.
	NTP NTP `json:"ntp,omitzero" yaml:"ntp,omitempty"`
	// How machines resolve names. Pods whose names are not in the cluster are resolved by the same servers.
	DNS DNS `json:"dns,omitzero" yaml:"dns,omitempty"`
	// Certificates of authorities (PEM) that the machines trust besides the system's own. containerd restarts; containers that run go on.
	TrustedCAs []string `json:"trustedCAs,omitempty" yaml:"trustedCAs,omitempty" jsonschema:"maxItems=50" host:"none"`
	// Time zone, as "Europe/Berlin". Left out: the machine's own.
	TimeZone string `json:"timeZone,omitempty" yaml:"timeZone,omitempty" jsonschema:"maxLength=64"`
	// Scripts at certain moments of a machine's life.
	Hooks Hooks `json:"hooks,omitzero" yaml:"hooks,omitempty"`
}

// MachineFile is a file on machines.
type MachineFile struct {
	// Absolute path. Its directory is made if it is absent.
	Path string `json:"path" yaml:"path" jsonschema:"required,maxLength=1024" host:"none"`
	// Content, as text.
	Content string `json:"content,omitempty" yaml:"content,omitempty"`
	// Mode in octal, in quotes: "0640".
	Mode string `json:"mode,omitempty" yaml:"mode,omitempty" jsonschema:"default=0644,pattern=^[0-7]?[0-7]{3}$"`
	// Owner as user:group, by name or number. The account must exist.
	Owner string `json:"owner,omitempty" yaml:"owner,omitempty" jsonschema:"default=root:root"`
}

// String names the file without its content.
func (f MachineFile) String() string { return f.Path }

// MachineUnit is a systemd unit on machines.
type MachineUnit struct {
	// Name with its type: "backup.timer".
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=200"`
	// The unit's file. Left out: a unit that the distribution or a package brings.
	Content string `json:"content,omitempty" yaml:"content,omitempty"`
	// Start it at boot. Set it to false for a unit without an [Install] section.
	Enabled *bool `json:"enabled,omitempty" yaml:"enabled,omitempty" jsonschema:"default=true"`
	// Start it now; false stops it. It restarts when its file changes.
	Started *bool `json:"started,omitempty" yaml:"started,omitempty" jsonschema:"default=true"`
}

// PackageRepository is a source of Debian packages.
type PackageRepository struct {
	// Name, for the files on the machine: lower-case letters, digits and dashes.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Address, as https://packages.example.org/debian. Machines connect there.
	URL string `json:"url" yaml:"url" jsonschema:"required" host:"none"`
	// Suite, as "bookworm". One that ends in a slash names a directory, and has no components.
	Suite string `json:"suite" yaml:"suite" jsonschema:"required,maxLength=200"`
	// Components. Default: main.
	Components []string `json:"components,omitempty" yaml:"components,omitempty" jsonschema:"maxItems=20"`
	// Public key that signs the repository, in armor: -----BEGIN PGP PUBLIC KEY BLOCK-----. Left out: a key that the machine trusts already.
	Key string `json:"key,omitempty" yaml:"key,omitempty" host:"none"`
}

// NTP says where machines get the time.
type NTP struct {
	// Time servers, by name or address. They replace those of the distribution.
	Servers []string `json:"servers,omitempty" yaml:"servers,omitempty" jsonschema:"maxItems=10" host:"none"`
}

// DNS says how machines resolve names.
type DNS struct {
	// Addresses of name servers. They replace those that the machine gets from its network.
	Servers []string `json:"servers,omitempty" yaml:"servers,omitempty" jsonschema:"maxItems=3" host:"none"`
	// Domains that short names are looked up in. Needs servers.
	SearchDomains []string `json:"searchDomains,omitempty" yaml:"searchDomains,omitempty" jsonschema:"maxItems=6"`
}

// Hooks are scripts at certain moments of a machine's life. A script that fails or exceeds its limit fails the step and stops the roll. A step that is
// repeated runs its scripts again.
type Hooks struct {
	// Before Naupegos changes anything on a new machine.
	BeforeInstall []Hook `json:"beforeInstall,omitempty" yaml:"beforeInstall,omitempty" jsonschema:"maxItems=20"`
	// After a new machine was configured, before its node is Ready.
	AfterInstall []Hook `json:"afterInstall,omitempty" yaml:"afterInstall,omitempty" jsonschema:"maxItems=20"`
	// Before a machine's Kubernetes release changes. A worker is drained by then.
	BeforeUpgrade []Hook `json:"beforeUpgrade,omitempty" yaml:"beforeUpgrade,omitempty" jsonschema:"maxItems=20"`
	// After a machine's Kubernetes release changed. A worker still takes no pods.
	AfterUpgrade []Hook `json:"afterUpgrade,omitempty" yaml:"afterUpgrade,omitempty" jsonschema:"maxItems=20"`
	// Before Naupegos removes its parts from a machine, which stays. A machine that is destroyed runs none.
	BeforeReset []Hook `json:"beforeReset,omitempty" yaml:"beforeReset,omitempty" jsonschema:"maxItems=20"`
	// After Naupegos removed its parts from a machine.
	AfterReset []Hook `json:"afterReset,omitempty" yaml:"afterReset,omitempty" jsonschema:"maxItems=20"`
}

// Hook is a shell script that runs as root.
type Hook struct {
	// Name, for messages: lower-case letters, digits and dashes, unique at its moment.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// The script, for /bin/sh. Begin it with "set -e" to stop at the first command that fails.
	Run string `json:"run" yaml:"run" jsonschema:"required"`
	// Time limit, 10s to 1h, and no longer than spec.timeouts.step. Its processes are ended then.
	Timeout Duration `json:"timeout,omitzero" yaml:"timeout,omitempty" jsonschema:"default=5m"`
}
