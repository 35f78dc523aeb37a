package machine

import "time"

// Life says since when a machine and its units have been running. Earlier observations of the machine, such as its node's conditions, are outdated.
type Life struct {
	BootID string `json:"bootID,omitempty"` // the kernel's; it changes with each boot
	// Since has, for each unit with a running process, the start time of that process. It is by the machine's own clock: compare it only with times
	// that the machine itself has written.
	Since map[string]time.Time `json:"since,omitempty"`
	// Down has the managed units that are not up, with systemd's description of their state. It includes units that systemd keeps restarting, or that
	// are still starting.
	Down map[string]string `json:"down,omitempty"`
}
