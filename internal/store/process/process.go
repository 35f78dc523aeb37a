// Package process identifies the process that holds something in the store, and tells whether it is still alive.
package process

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
)

// ID identifies a process, so that another process can tell whether it is still alive.
type ID struct {
	User  string `json:"user"`
	Host  string `json:"host"`
	Boot  string `json:"boot"`  // the host's boot ID; empty if unknown
	PIDNS string `json:"pidns"` // the PID namespace of PID; empty if unknown
	PID   int    `json:"pid"`
	Start string `json:"start"` // start time of the process, in the kernel's units; empty if unknown
}

// String describes the process for people: "root@host, pid 42".
func (h ID) String() string { return fmt.Sprintf("%s@%s, pid %d", h.User, h.Host, h.PID) }

// Encode returns the text that Decode reads.
func (h ID) Encode() string {
	raw, _ := json.Marshal(h) // strings and a number: can't fail
	return string(raw)
}

// Decode reads the text of Encode.
func Decode(text string) (h ID, err error) {
	err = json.Unmarshal([]byte(text), &h)
	return h, err
}

// Life says whether a process is alive.
type Life string

// The answers to whether a process is alive.
const (
	Alive   Life = "yes"
	Dead    Life = "no"
	Unknown Life = "unknown" // on another host, or on one that does not tell
)

// Self returns the ID of this process.
func Self() (ID, error) {
	host, err := os.Hostname()
	if err != nil {
		return ID{}, fail.Wrap(fail.Internal, err, "find this host's name")
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(name); err == nil { // a user without an entry appears as a number
		name = u.Username
	}
	h := ID{User: name, Host: host, PID: os.Getpid()}
	h.Boot, h.PIDNS, h.Start = processFacts(h.PID)
	return h, nil
}

// Lives reports whether h is still alive, as far as self can tell.
func (h ID) Lives(self ID) Life {
	if h.Boot == "" || h.Start == "" || h.Boot != self.Boot || h.PIDNS != self.PIDNS {
		return Unknown
	}
	return processLives(h.PID, h.Start)
}
