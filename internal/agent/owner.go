package agent

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// LookupOwner resolves "user:group", by name or number, against the host's accounts.
func LookupOwner(owner string) (uid, gid int, err error) {
	u, g, ok := strings.Cut(owner, ":")
	if !ok {
		return 0, 0, fmt.Errorf("owner %q is not of the form user:group", owner)
	}
	if u == "root" && g == "root" {
		return 0, 0, nil
	}
	if uid, err = strconv.Atoi(u); err != nil {
		found, err := user.Lookup(u)
		if err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
		if uid, err = strconv.Atoi(found.Uid); err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
	}
	if gid, err = strconv.Atoi(g); err != nil {
		found, err := user.LookupGroup(g)
		if err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
		if gid, err = strconv.Atoi(found.Gid); err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
	}
	return uid, gid, nil
}
