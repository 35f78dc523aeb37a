package v1alpha1

// MachineSettings configures machines beyond what Naupegos itself sets up. spec.machines applies to all machines; the same settings under
// spec.controlPlane, spec.endpoint.gateways and a pool add to it, and take precedence where both set the same thing.
type MachineSettings struct {
	// Kernel settings by name, such as "vm.max_map_count": "262144". When a setting leaves the document, its previous value is restored.
	Sysctls map[string]string `json:"sysctls,omitempty" yaml:"sysctls,omitempty"`
	// Kernel modules to load, now and at every boot. A module that leaves the document stays loaded until the next boot.
	Modules []string `json:"modules,omitempty" yaml:"modules,omitempty" jsonschema:"maxItems=100"`
	// Arguments of the kernel, such as "hugepagesz=1G", for machines that boot by GRUB. They take effect when a machine reboots: naupegos update reboots one machine after another. An argument that leaves the document is gone after the next reboot.
	KernelArguments []string `json:"kernelArguments,omitempty" yaml:"kernelArguments,omitempty" jsonschema:"maxItems=100"`
	// Files. When a file leaves the document, it is removed, and the file that it replaced is restored. Documents are not secret: put no passwords in here.
	Files []MachineFile `json:"files,omitempty" yaml:"files,omitempty" jsonschema:"maxItems=200"`
	// systemd units. When a unit leaves the document, it is stopped and removed.
	Units []MachineUnit `json:"units,omitempty" yaml:"units,omitempty" jsonschema:"maxItems=100"`
	// Debian packages to install. When a package that Naupegos installed leaves the document, it is removed, together with the packages that were installed for it.
	Packages []string `json:"packages,omitempty" yaml:"packages,omitempty" jsonschema:"maxItems=200"`
	// Package sources, in addition to the machine's existing ones.
	Repositories []PackageRepository `json:"repositories,omitempty" yaml:"repositories,omitempty" jsonschema:"maxItems=50"`
	// Time servers of the machines, for systemd-timesyncd or chrony, whichever the machine has.
	NTP NTP `json:"ntp,omitzero" yaml:"ntp,omitempty"`
	// How machines resolve names. Pods use the same servers for names outside the cluster.
	DNS DNS `json:"dns,omitzero" yaml:"dns,omitempty"`
	// CA certificates (PEM) that the machines trust in addition to the system's own. A change restarts containerd; running containers are not affected.
	TrustedCAs []string `json:"trustedCAs,omitempty" yaml:"trustedCAs,omitempty" jsonschema:"maxItems=50" host:"none"`
	// Time zone, such as "Europe/Berlin". Left out: the machine's own.
	TimeZone string `json:"timeZone,omitempty" yaml:"timeZone,omitempty" jsonschema:"maxLength=64"`
	// Scripts to run at certain points of a machine's life.
	Hooks Hooks `json:"hooks,omitzero" yaml:"hooks,omitempty"`
}

// MachineFile is a file on machines.
type MachineFile struct {
	// Absolute path. Its directory is created if it does not exist.
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
	// Name with its type, such as "backup.timer".
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=200"`
	// Content of the unit file. Left out: the unit comes with the distribution or a package.
	Content string `json:"content,omitempty" yaml:"content,omitempty"`
	// Start it at boot. Set it to false for a unit without an [Install] section.
	Enabled *bool `json:"enabled,omitempty" yaml:"enabled,omitempty" jsonschema:"default=true"`
	// Start it now; false stops it. It restarts when its file changes, or a file of files whose path its content mentions.
	Started *bool `json:"started,omitempty" yaml:"started,omitempty" jsonschema:"default=true"`
	// Absolute paths, such as paths of files. The unit restarts when one of these files changes. A unit from a package needs this list, because Naupegos can't see which files it reads.
	RestartOn []string `json:"restartOn,omitempty" yaml:"restartOn,omitempty" jsonschema:"maxItems=50"`
}

// PackageRepository is a source of Debian packages.
type PackageRepository struct {
	// Name, for the files on the machine: lower-case letters, digits and dashes.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Address, such as https://packages.example.org/debian. Machines connect to it.
	URL string `json:"url" yaml:"url" jsonschema:"required" host:"none"`
	// Suite, such as "bookworm". A suite that ends in a slash names a directory and has no components.
	Suite string `json:"suite" yaml:"suite" jsonschema:"required,maxLength=200"`
	// Components. Default: main.
	Components []string `json:"components,omitempty" yaml:"components,omitempty" jsonschema:"maxItems=20"`
	// Public key that signs the repository, in ASCII armor: -----BEGIN PGP PUBLIC KEY BLOCK-----. Left out: a key that the machine already trusts.
	Key string `json:"key,omitempty" yaml:"key,omitempty" host:"none"`
}

// NTP says where machines get the time.
type NTP struct {
	// Time servers, by name or address. They replace the distribution's servers and, for chrony, its file chrony.conf; files in /etc/chrony/conf.d stay.
	Servers []string `json:"servers,omitempty" yaml:"servers,omitempty" jsonschema:"maxItems=10" host:"none"`
}

// DNS says how machines resolve names.
type DNS struct {
	// Addresses of name servers. They replace the servers that the machine gets from its network; where systemd-resolved runs, the machine's own programs may ask those, too, pods do not.
	Servers []string `json:"servers,omitempty" yaml:"servers,omitempty" jsonschema:"maxItems=3" host:"none"`
	// Domains that short names are looked up in. Needs servers.
	SearchDomains []string `json:"searchDomains,omitempty" yaml:"searchDomains,omitempty" jsonschema:"maxItems=6"`
}

// Hooks are scripts that run at certain points of a machine's life. A script that fails or exceeds its time limit fails the step and stops the
// rollout. If a step is repeated, its scripts run again.
type Hooks struct {
	// Before Naupegos changes anything on a new machine.
	BeforeInstall []Hook `json:"beforeInstall,omitempty" yaml:"beforeInstall,omitempty" jsonschema:"maxItems=20"`
	// After a new machine has been configured, before its node is Ready.
	AfterInstall []Hook `json:"afterInstall,omitempty" yaml:"afterInstall,omitempty" jsonschema:"maxItems=20"`
	// Before a machine's Kubernetes release changes. A worker has been drained by then.
	BeforeUpgrade []Hook `json:"beforeUpgrade,omitempty" yaml:"beforeUpgrade,omitempty" jsonschema:"maxItems=20"`
	// After a machine's Kubernetes release has changed. A worker does not accept pods yet.
	AfterUpgrade []Hook `json:"afterUpgrade,omitempty" yaml:"afterUpgrade,omitempty" jsonschema:"maxItems=20"`
	// Before Naupegos removes its parts from a machine that is kept. Machines that are destroyed run no hooks.
	BeforeReset []Hook `json:"beforeReset,omitempty" yaml:"beforeReset,omitempty" jsonschema:"maxItems=20"`
	// After Naupegos has removed its parts from a machine.
	AfterReset []Hook `json:"afterReset,omitempty" yaml:"afterReset,omitempty" jsonschema:"maxItems=20"`
}

// Hook is a shell script that runs as root.
type Hook struct {
	// Name, for messages: lower-case letters, digits and dashes, unique at its moment.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// The script, for /bin/sh. Begin it with "set -e" to stop at the first command that fails.
	Run string `json:"run" yaml:"run" jsonschema:"required"`
	// Time limit, 10s to 1h, and no longer than spec.timeouts.step. When it expires, the script's processes are killed.
	Timeout Duration `json:"timeout,omitzero" yaml:"timeout,omitempty" jsonschema:"default=5m"`
}
