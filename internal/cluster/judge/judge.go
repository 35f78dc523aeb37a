// Package judge decides from the facts that a machine's agent reports whether the machine can fill its role, before anything is changed on it.
//
// One table lists every fact and its check. The package knows facts and roles, and connects to nothing.
package judge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// Subject is a machine as the document describes it.
type Subject struct {
	Name    string
	Role    provider.Role
	Given   bool   // the document gives the machine by address; Naupegos did not create it
	Adopted bool   // the cluster used the machine before this plan
	Address string // at which other machines reach it; empty: unknown
	Ports   []Port // that the role needs
	Network string // file name of the pod network's configuration; empty: Naupegos sets up none
	Boots   bool   // the document gives its kernel arguments
	VIP     string // that the machine may hold; empty: none, or another one's business
}

// Judge keeps the latest facts of each machine. The zero Judge knows no machine. It is safe for concurrent use.
type Judge struct {
	mu   sync.Mutex
	seen map[string]report
}

// report is what one machine reported.
type report struct {
	Subject
	facts machine.Facts
	at    time.Time // when it came
}

// rule is the check of one fact. It has one of refuse, warn, compare and unchecked, or refuse and warn.
type rule struct {
	fact      string // a field of machine.Facts
	fresh     bool   // checked only before Naupegos configures the machine: later, the fact describes Naupegos' own work
	refuse    func(report) error
	warn      func(report) string        // one sentence, or nothing
	compare   func(all []report) []error // checks the machines against each other
	unchecked string                     // the reason
}

// applies reports whether the rule checks a machine.
func (r rule) applies(m report) bool { return !r.fresh || m.facts.Fresh }

// rules lists the rule of every fact, in order. A test requires a rule for each field of machine.Facts: an unchecked requirement fails late, as a
// timeout, on machines that are changed already.
func rules() []rule {
	return []rule{
		{fact: "Systemd", refuse: systemd},
		{fact: "Dpkg", refuse: dpkg},
		{fact: "OS", unchecked: "Dpkg decides, and names the system"},
		{fact: "Hostname", refuse: hostname},
		{fact: "Architecture", unchecked: "the agent is built for one architecture and answers on no other"},
		{fact: "Kernel", fresh: true, refuse: kernel},
		{fact: "CPUs", unchecked: "one CPU is slow, but enough"},
		{fact: "MemoryBytes", fresh: true, refuse: memory},
		{fact: "CgroupVersion", unchecked: "both versions work: kubelet is configured accordingly"},
		{fact: "AppArmor", unchecked: "containerd works with and without it"},
		{fact: "SysResource", unchecked: "units are rendered accordingly"},
		{fact: "Interface", unchecked: "keepalived is rendered accordingly"},
		{fact: "Address", unchecked: "Addresses has it too"},
		{fact: "Addresses", fresh: true, refuse: addresses},
		{fact: "Container", unchecked: "a container is rendered without its host's settings"},
		{fact: "ResolvConf", unchecked: "kubelet is configured accordingly"},
		{fact: "NoResolver", unchecked: "kubelet is configured accordingly"},
		{fact: "Swap", unchecked: "kubelet is configured to tolerate it"},
		{fact: "GRUB", refuse: grub},
		{fact: "MachineID", compare: machineIDs},
		{fact: "BootID", unchecked: "it only distinguishes boots"},
		{fact: "Fresh", unchecked: "it selects the checks"},
		{fact: "Links", refuse: vip},
		{fact: "Volumes", fresh: true, refuse: disk},
		{fact: "Clock", refuse: clock, warn: clockInUse},
		{fact: "Firewall", fresh: true, warn: firewall},
		{fact: "Services", fresh: true, warn: services},
		{fact: "Balancers", fresh: true, refuse: balancers},
		{fact: "SELinux", fresh: true, warn: selinux},
		{fact: "Leftovers", fresh: true, refuse: leftovers},
		{fact: "ForwardDrops", fresh: true, warn: forwardDrops},
		{fact: "Listeners", refuse: listeners},
	}
}

// Facts records what a machine reports. It returns an error if the machine can't fill its role.
func (j *Judge) Facts(s Subject, f machine.Facts) error {
	m := report{s, f, time.Now()}
	j.mu.Lock()
	if j.seen == nil {
		j.seen = map[string]report{}
	}
	j.seen[s.Name] = m
	j.mu.Unlock()
	for _, r := range rules() {
		if r.refuse == nil || !r.applies(m) {
			continue
		}
		if err := r.refuse(m); err != nil {
			return err
		}
	}
	return nil
}

// Among compares machines with each other and returns an error if they can't be in one cluster.
func (j *Judge) Among(names []string) error {
	all := j.reports(names)
	var found []error
	for _, r := range rules() {
		if r.compare != nil {
			found = append(found, r.compare(all)...)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	said := make([]string, len(found))
	for i, err := range found {
		said[i] = err.Error()
	}
	return fail.New(fail.KindOf(found[0]), "%s", strings.Join(said, "; "))
}

// Warnings returns what a plan reports about machines, in their order.
func (j *Judge) Warnings(names []string) (all []string) {
	for _, m := range j.reports(names) {
		for _, r := range rules() {
			if r.warn == nil || !r.applies(m) {
				continue
			}
			if text := r.warn(m); text != "" {
				all = append(all, fmt.Sprintf("%s: %s", m.Name, text))
			}
		}
	}
	return all
}

// reports returns the latest report of each named machine that sent one.
func (j *Judge) reports(names []string) (all []report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range names {
		if m, known := j.seen[name]; known && !slices.ContainsFunc(all, func(o report) bool { return o.Name == name }) {
			all = append(all, m)
		}
	}
	return all
}
