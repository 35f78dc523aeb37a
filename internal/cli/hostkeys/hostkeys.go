// Package hostkeys turns host addresses into the machines of a new document: it scans each host's SSH key and shows the fingerprints for a
// person to confirm.
//
// It logs in to no host.
package hostkeys

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// Scan gets a host's key; see remote.ScanHostKey.
type Scan func(ctx context.Context, address string, port int) (line, fingerprint string, err error)

// atOnce is how many hosts are scanned at the same time.
const atOnce = 16

// Machines returns the machines for hosts, which are given as [ROLE=]ADDRESS, with their host keys. Of the addresses without a role, the first
// controlPlanes become control-plane machines and the rest workers. confirm asks whether the fingerprints, which are written to w, are right.
func Machines(ctx context.Context, hosts []string, controlPlanes int, scan Scan, w io.Writer, confirm func(question string) error) ([]v1alpha1.HostMachine, error) {
	machines, err := Parse(hosts, controlPlanes)
	if err != nil {
		return nil, err
	}
	prints := make([]string, len(machines))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range machines {
		g.Go(func() (err error) {
			machines[i].HostKey, prints[i], err = scan(ctx, machines[i].Address, 22)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	fmt.Fprintln(w, "SSH host keys, as the hosts show them:")
	for i, m := range machines {
		fmt.Fprintf(w, "  %-15s %-13s %s\n", m.Address, m.Role, prints[i])
	}
	fmt.Fprintln(w, "Compare them with each machine's own: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on its console.")
	return machines, confirm("Are these fingerprints right?")
}

// Parse parses hosts, which are given as [ROLE=]ADDRESS; see Machines.
func Parse(hosts []string, controlPlanes int) ([]v1alpha1.HostMachine, error) {
	roles := []string{v1alpha1.RoleGateway, v1alpha1.RoleControlPlane, v1alpha1.RoleWorker}
	var machines []v1alpha1.HostMachine
	seen := map[netip.Addr]bool{}
	for _, text := range hosts {
		role, address, given := strings.Cut(text, "=")
		if !given {
			role, address = v1alpha1.RoleWorker, text
			if controlPlanes > 0 {
				role = v1alpha1.RoleControlPlane
				controlPlanes--
			}
		}
		ip, err := netip.ParseAddr(address)
		switch {
		case !slices.Contains(roles, role):
			return nil, fail.New(fail.Invalid, "--host %s: there is no role %q", text, role).Do("use %s", strings.Join(roles, ", "))
		case err != nil || !ip.Is4():
			return nil, fail.New(fail.Invalid, "--host %s: %q is no IPv4 address", text, address).Do("give the address by which the machines reach each other")
		case seen[ip]:
			return nil, fail.New(fail.Invalid, "--host %s: the address is given twice", text)
		}
		seen[ip] = true
		machines = append(machines, v1alpha1.HostMachine{Address: address, Role: role})
	}
	slices.SortStableFunc(machines, func(a, b v1alpha1.HostMachine) int { return slices.Index(roles, a.Role) - slices.Index(roles, b.Role) })
	return machines, nil
}

// Count returns the number of machines with a role.
func Count(machines []v1alpha1.HostMachine, role string) (n int) {
	for _, m := range machines {
		if m.Role == role {
			n++
		}
	}
	return n
}
