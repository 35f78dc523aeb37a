// Package hops computes the steps by which the parts of a cluster change from one Kubernetes release to another.
//
// It is arithmetic on versions and knows nothing of machines.
package hops

import (
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// Releases are the releases that the parts of a cluster run. A minor upgrade takes three hops, a patch two:
//
//	the files of the new release are on every machine
//	the servers run the new release and behave as the old minor (--emulated-version)
//	everything runs the new release
//
// After the second hop the way back is to the old servers, with what etcd holds; after the third it is a backup.
type Releases struct {
	Servers  string // API server, controller manager and scheduler: "v1.37.2"
	Emulates string // the minor that they behave as, "1.36"; empty: their own
	Machines string // everything else: etcd, kubelet, the other programs on machines, and the cluster's records
	Ahead    string // another release that is present on machines; empty: none
}

// Of returns a cluster that runs one release.
func Of(version string) Releases { return Releases{Servers: version, Machines: version} }

// Settled reports whether all parts run the same.
func (r Releases) Settled() bool { return r == Of(r.Machines) }

// OfPool returns the release of a pool's machines; version is the release that the document fixes for the pool, or empty. No pool is ahead of the
// others.
func OfPool(r Releases, version string) string {
	if version == "" || release.Compare(version, r.Machines) > 0 {
		return r.Machines
	}
	return version
}

// Soaking reports whether the servers behave as the minor that the machines run, and could go back to it.
func (r Releases) Soaking() bool { return r.Emulates != "" }

// Versions lists the releases that anything of is used.
func (r Releases) Versions() []string {
	out := []string{r.Machines}
	for _, v := range []string{r.Servers, r.Ahead} {
		if v != "" && v != r.Machines && v != out[len(out)-1] {
			out = append(out, v)
		}
	}
	return out
}

// String is the form that Parse reads.
func (r Releases) String() string {
	return strings.Join([]string{r.Servers, r.Emulates, r.Machines, r.Ahead}, ",")
}

// Parse parses the output of String.
func Parse(s string) (Releases, error) {
	p := strings.Split(s, ",")
	if len(p) != 4 {
		return Releases{}, fail.New(fail.Internal, "%q does not say which releases a cluster runs", s)
	}
	return Releases{Servers: p[0], Emulates: p[1], Machines: p[2], Ahead: p[3]}, nil
}

// Words describes what the parts run.
func (r Releases) Words() string {
	switch {
	case r.Soaking():
		return fmt.Sprintf("all API servers run %s and emulate %s", r.Servers, r.Emulates)
	case r.Ahead != "":
		return "every machine has the files of " + r.Ahead
	}
	return "everything runs " + r.Machines
}

// Goal is the wanted state of an upgrade.
type Goal struct {
	Version string // the release
	Finish  bool   // do not stop at the last hop that can be undone
}

// Next returns the hop after now, which all machines have completed, or now if there is none. It returns fail.Refused if no hops lead to the
// goal.
func Next(now Releases, g Goal) (Releases, error) {
	switch from := minor(now.Machines); {
	case g.Version == now.Machines:
		return Of(now.Machines), nil // there, or back
	case minor(g.Version) < from:
		return now, fail.New(fail.Refused, "Kubernetes %s can't follow on %s: etcd holds what only the newer minor can read", g.Version, now.Machines).
			Do("restore a backup from before the upgrade")
	case minor(g.Version) == from && now.Soaking():
		return Of(now.Machines), nil // the servers back first
	case minor(g.Version) == from:
		return afterLayingOut(now, g.Version, Of(g.Version)), nil
	case minor(g.Version) == from+1:
		return nextOfMinor(now, g.Version, g.Finish), nil
	}
	through, err := newestOf(minor(now.Machines) + 1)
	if err != nil {
		return now, err
	}
	return nextOfMinor(now, through, true), nil
}

// nextOfMinor returns the hop after now on the way to a release of the minor that follows on the machines'.
func nextOfMinor(now Releases, version string, finish bool) Releases {
	soak := Releases{Servers: version, Emulates: release.MinorOf(now.Machines), Machines: now.Machines, Ahead: version}
	switch {
	case now == soak && finish:
		return Of(version)
	case now == soak:
		return now
	case now.Soaking() && now.Ahead != version: // another patch of the servers' minor was requested in the meantime
		now.Ahead = version
		return now
	}
	return afterLayingOut(now, version, soak)
}

// afterLayingOut returns next if a release is present on all machines; otherwise it returns the hop that copies it there.
func afterLayingOut(now Releases, version string, next Releases) Releases {
	if now.Ahead == version {
		return next
	}
	now.Ahead = version
	return now
}

// newestOf returns the newest release of a minor of Kubernetes 1 that there is a recipe for.
func newestOf(minor int) (string, error) {
	name := fmt.Sprintf("1.%d", minor)
	for _, v := range release.Versions() {
		if release.MinorOf(v) == name {
			return v, nil
		}
	}
	return "", fail.New(fail.Refused, "minors can't be skipped, and this naupegos knows no release of Kubernetes %s", name).
		Do("upgrade with a naupegos that does first")
}

// minor returns the minor number of a release, or 0 for an invalid version.
func minor(version string) int {
	v, _ := release.Parse(version)
	return v[1]
}

// Path returns the hops from now to the goal, which is the last one. It returns fail.Refused if none lead there.
func Path(now Releases, g Goal) ([]Releases, error) {
	var path []Releases
	for {
		next, err := Next(now, g)
		if err != nil || next == now {
			return path, err
		}
		path = append(path, next)
		now = next
	}
}

// Turn returns the configuration for machines while not all of them run the last one: the last one or, if the goal is the release that the
// machines still run, the way back to it. It returns fail.Refused if there is none.
func Turn(told Releases, run Releases, g Goal) (Releases, error) {
	switch {
	case g.Version == told.Machines && told.Machines == run.Machines:
		return Of(told.Machines), nil
	case told.Machines != run.Machines && minor(g.Version) < minor(told.Machines):
		return told, fail.New(fail.Refused, "Kubernetes %s is being finished on the machines: there is no way back to %s", told.Machines, g.Version).
			Do("let apply finish it; the way back is the snapshot that was taken before")
	}
	return told, nil
}
