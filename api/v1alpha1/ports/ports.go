// Package ports knows which program owns each port of a cluster's machines, and finds settings that claim a port twice. It knows no document.
package ports

import (
	"fmt"

	"github.com/naupegos/naupegos/api/strict"
)

// The node ports of Services, as the API server has them by default.
const firstNodePort, lastNodePort = 30000, 32767

// Set is a set of ports with their owners.
type Set struct {
	owners map[string]string // by key
	reach  reach
}

type reach int

const (
	all           reach = iota
	apartServices       // no node ports
	onlyServices        // nothing but node ports
)

// Machines returns the ports that programs of a cluster's machines listen on. The node ports belong to Services.
func Machines() *Set {
	s := &Set{map[string]string{}, apartServices}
	for port, who := range map[int]string{22: "SSH", 2379: "etcd", 2380: "etcd", 2381: "etcd", 6443: "the API server", 10248: "kubelet", 10249: "kube-proxy", 10250: "kubelet",
		10256: "kube-proxy", 10257: "kube-controller-manager", 10258: "the cloud controller manager", 10259: "kube-scheduler"} {
		s.Hold("tcp", port, who)
	}
	return s
}

// Services returns the node ports of Services, all of them free.
func Services() *Set { return &Set{map[string]string{}, onlyServices} }

// Pod returns the ports of a pod, all of them free.
func Pod() *Set { return &Set{owners: map[string]string{}} }

func key(protocol string, port int) string { return fmt.Sprintf("%s/%d", protocol, port) }

// Hold gives a port an owner.
func (s *Set) Hold(protocol string, port int, who string) { s.owners[key(protocol, port)] = who }

// Claim gives a port an owner, or reports the field that claims it, if it has one already or is not of this set. The finding also depends on other
// fields: see Findings.Add.
func (s *Set) Claim(r *strict.Findings, field, protocol string, port int, who, hint string, dependsOn ...string) {
	ofServices := port >= firstNodePort && port <= lastNodePort
	owner := s.owners[key(protocol, port)]
	switch {
	case s.reach == onlyServices && !ofServices:
		r.Add(field, fmt.Sprintf("%d is no port of Services, which have %d to %d", port, firstNodePort, lastNodePort), hint, dependsOn...)
	case s.reach == apartServices && ofServices:
		r.Add(field, fmt.Sprintf("port %d belongs to Services (node ports)", port), hint, dependsOn...)
	case owner != "":
		r.Add(field, fmt.Sprintf("port %d belongs to %s", port, owner), hint, dependsOn...)
	default:
		s.Hold(protocol, port, who)
	}
}
