package machine

// Updates is what a machine's packages can be brought to, and why it has to be rebooted.
type Updates struct {
	Packages []PackageUpdate `json:"packages,omitempty"` // in the order of their names; those that come anew because others need them, too
	// Unfinished reports that an installation was cut off: what could be newer is known once it is finished.
	Unfinished bool     `json:"unfinished,omitempty"`
	Held       []string `json:"held,omitempty"`   // packages that could be newer, and are left as they are
	Reboot     []string `json:"reboot,omitempty"` // why it is to be rebooted; empty: it need not be
	Life                // of the machine
}

// PackageUpdate is one package.
type PackageUpdate struct {
	Name string `json:"name"`           // with its architecture, where that is a foreign one
	From string `json:"from,omitempty"` // the version that is installed; empty: it comes anew
	To   string `json:"to"`
}

// String says what becomes of the package.
func (p PackageUpdate) String() string {
	if p.From == "" {
		return p.Name + " " + p.To + " (new)"
	}
	return p.Name + " " + p.From + " → " + p.To
}
