package machine

// Updates lists the available updates of a machine's packages, and the reasons to reboot it.
type Updates struct {
	Packages []PackageUpdate `json:"packages,omitempty"` // sorted by name; includes packages that are newly installed because others need them
	// Unfinished reports that an installation was interrupted. Only after it is finished is it known which packages could be newer.
	Unfinished bool     `json:"unfinished,omitempty"`
	Held       []string `json:"held,omitempty"`   // packages that could be newer but are kept as they are
	Reboot     []string `json:"reboot,omitempty"` // why it must reboot; empty if it need not
	Life                // of the machine
}

// PackageUpdate is the update of one package.
type PackageUpdate struct {
	Name string `json:"name"`           // with its architecture if that is a foreign one
	From string `json:"from,omitempty"` // the installed version; empty: the package is new
	To   string `json:"to"`
}

// String describes the update.
func (p PackageUpdate) String() string {
	if p.From == "" {
		return p.Name + " " + p.To + " (new)"
	}
	return p.Name + " " + p.From + " → " + p.To
}
