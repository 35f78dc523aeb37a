package store

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
)

// holder is one process, named so that another process can tell whether it still lives.
type holder struct {
	User  string `json:"user"`
	Host  string `json:"host"`
	Boot  string `json:"boot"`  // the host's boot ID; empty where there is none
	PIDNS string `json:"pidns"` // the PID namespace that PID counts in; empty where there is none
	PID   int    `json:"pid"`
	Start string `json:"start"` // when the process started, in the kernel's own count; empty where it can't be told
}

// String is the holder for people: "root@host, pid 42".
func (h holder) String() string { return fmt.Sprintf("%s@%s, pid %d", h.User, h.Host, h.PID) }

func (h holder) encode() string {
	raw, _ := json.Marshal(h) // strings and a number: can't fail
	return string(raw)
}

func decodeHolder(text string) (h holder, err error) {
	err = json.Unmarshal([]byte(text), &h)
	return h, err
}

// life is what is known of a process.
type life string

const (
	alive   life = "yes"
	dead    life = "no"
	unknown life = "unknown" // another host, or one that doesn't tell
)

// whoAmI returns this process.
func whoAmI() (holder, error) {
	host, err := os.Hostname()
	if err != nil {
		return holder{}, fail.Wrap(fail.Internal, err, "find this host's name")
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(name); err == nil { // a user without an entry goes by number
		name = u.Username
	}
	h := holder{User: name, Host: host, PID: os.Getpid()}
	h.Boot, h.PIDNS, h.Start = processFacts(h.PID)
	return h, nil
}

// lives reports whether h still runs, as far as the process self can tell.
func (h holder) lives(self holder) life {
	if h.Boot == "" || h.Start == "" || h.Boot != self.Boot || h.PIDNS != self.PIDNS {
		return unknown
	}
	return processLives(h.PID, h.Start)
}
