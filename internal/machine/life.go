package machine

import "time"

// Life says since when a machine and what runs on it have been running. What somebody remembers of a machine, such as the conditions of
// its node, counts only where it is newer.
type Life struct {
	BootID string `json:"bootID,omitempty"` // the kernel's, another one after each start of the machine
	// Since has the units that run with a process, and when that process began: by the machine's own clock, to be compared only with what
	// the machine itself has written.
	Since map[string]time.Time `json:"since,omitempty"`
	// Down has the managed units that are not up, with what systemd says of them: also one that it keeps restarting, or that still starts.
	Down map[string]string `json:"down,omitempty"`
}
