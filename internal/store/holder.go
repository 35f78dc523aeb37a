package store

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
)

// holder identifies a process, so that another process can tell whether it is still alive.
type holder struct {
	User  string `json:"user"`
	Host  string `json:"host"`
	Boot  string `json:"boot"`  // the host's boot ID; empty if unknown
	PIDNS string `json:"pidns"` // the PID namespace of PID; empty if unknown
	PID   int    `json:"pid"`
	Start string `json:"start"` // start time of the process, in the kernel's units; empty if unknown
}

// String describes the holder for people: "root@host, pid 42".
func (h holder) String() string { return fmt.Sprintf("%s@%s, pid %d", h.User, h.Host, h.PID) }

func (h holder) encode() string {
	raw, _ := json.Marshal(h) // strings and a number: can't fail
	return string(raw)
}

func decodeHolder(text string) (h holder, err error) {
	err = json.Unmarshal([]byte(text), &h)
	return h, err
}

// life says whether a process is alive.
type life string

const (
	alive   life = "yes"
	dead    life = "no"
	unknown life = "unknown" // on another host, or on one that does not tell
)

// whoAmI returns the holder for this process.
func whoAmI() (holder, error) {
	host, err := os.Hostname()
	if err != nil {
		return holder{}, fail.Wrap(fail.Internal, err, "find this host's name")
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(name); err == nil { // a user without an entry appears as a number
		name = u.Username
	}
	h := holder{User: name, Host: host, PID: os.Getpid()}
	h.Boot, h.PIDNS, h.Start = processFacts(h.PID)
	return h, nil
}

// lives reports whether h is still alive, as far as self can tell.
func (h holder) lives(self holder) life {
	if h.Boot == "" || h.Start == "" || h.Boot != self.Boot || h.PIDNS != self.PIDNS {
		return unknown
	}
	return processLives(h.PID, h.Start)
}
