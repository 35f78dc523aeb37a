package agent

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// passwd lists the host's own accounts (passwd(5)).
const passwd = "/etc/passwd"

// missingUsers returns the wanted accounts that the host lacks.
func (a *Agent) missingUsers(want []string) []string {
	if len(want) == 0 {
		return nil
	}
	accounts := "\n" + a.root.Read(passwd)
	return slices.DeleteFunc(slices.Clone(want), func(name string) bool { return strings.Contains(accounts, "\n"+name+":") })
}

// makeUsers makes the missing system accounts, with locked passwords and no shell (sysusers.d(5)).
func (a *Agent) makeUsers(ctx context.Context, d *diff) error {
	if len(d.users) == 0 {
		return nil
	}
	var lines strings.Builder
	for _, name := range d.users {
		fmt.Fprintf(&lines, "u %s -\n", name)
	}
	if _, err := a.run.Run(ctx, strings.NewReader(lines.String()), "systemd-sysusers", "-"); err != nil {
		if ctx.Err() != nil {
			return interrupted(ctx.Err())
		}
		return fail.Wrap(kindOr(err, fail.Refused), err, "make the accounts %s", strings.Join(d.users, " ")).Do("make them by hand, as system accounts without a login, then run again")
	}
	return nil
}

// findOwners resolves the owners whose accounts were missing before packages, hooks and makeUsers created them.
func findOwners(a *Agent, d *diff) error {
	for _, ops := range [][]*op{d.directories, d.files} {
		for _, o := range ops {
			if !o.ownerMissing() {
				continue
			}
			var err error
			if o.uid, o.gid, err = a.resolve(o.owner, o.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// noOwner is the ID of an owner whose account does not exist yet.
const noOwner = -1

// ownerMissing reports whether the account of o's owner does not exist yet.
func (o *op) ownerMissing() bool { return o.uid == noOwner }

// ownerOf resolves an owner. The owner is noOwner if this run makes the account, or if the account is missing and a package of this run, or a hook
// that runs before the files are written, may make it.
func (a *Agent) ownerOf(d *diff, owner, where string) (uid, gid int, err error) {
	if user, _, _ := strings.Cut(owner, ":"); slices.Contains(d.users, user) {
		return noOwner, noOwner, nil
	}
	uid, gid, err = a.resolve(owner, where)
	before := func(hook machine.Change) bool { return strings.HasPrefix(hook.Name, "before") }
	if unknownAccount(err) && (len(d.packages) > 0 || slices.ContainsFunc(d.hooks, before)) {
		return noOwner, noOwner, nil
	}
	return uid, gid, err
}

func unknownAccount(err error) bool {
	var noUser user.UnknownUserError
	var noGroup user.UnknownGroupError
	return errors.As(err, &noUser) || errors.As(err, &noGroup)
}

func userChange(name string) machine.Change {
	return machine.Change{Kind: "user", Name: name, Action: "create"}
}
