package report

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// Status is the present state of a cluster.
type Status struct {
	Name       string           `json:"name"`
	ID         string           `json:"id"`
	Provider   string           `json:"provider"`
	Kubernetes string           `json:"kubernetes"`           // version that the document wants
	Bundle     string           `json:"bundle,omitempty"`     // ID of the bundle that the cluster was last brought to
	Upgrade    string           `json:"upgrade,omitempty"`    // progress of an upgrade
	Rotation   string           `json:"rotation,omitempty"`   // progress of a rotation of authorities and keys
	Reset      string           `json:"reset,omitempty"`      // progress of a reset
	BundleNote string           `json:"bundleNote,omitempty"` // states that another bundle than the applied one, or a newer one, is available
	Endpoint   string           `json:"endpoint,omitempty"`
	State      State            `json:"state"`            // one word
	Cause      string           `json:"cause,omitempty"`  // the most severe of causes; empty if healthy
	Remedy     string           `json:"remedy,omitempty"` // the command that fixes cause
	Causes     []Cause          `json:"causes,omitempty"` // everything that keeps the cluster from being healthy, followed by remarks
	Healthy    bool             `json:"healthy"`          // state is healthy
	API        string           `json:"api"`              // "ready", or why not
	Etcd       string           `json:"etcd"`             // "3 of 3 voters healthy, 2 needed", or why etcd does not answer
	Quorum     *Quorum          `json:"quorum,omitempty"` // counts of etcd's voters; absent if etcd does not answer
	Machines   []MachineStatus  `json:"machines"`
	Expires    time.Time        `json:"certificateExpires,omitzero"` // expiry of the certificate that expires first
	ExpiresOf  string           `json:"certificateName,omitempty"`
	Due        []string         `json:"certificatesDue,omitempty"` // names of the certificates that the next apply renews
	Backups    *backups.Backups `json:"backups,omitempty"`
	Repairs    []string         `json:"repairs,omitempty"` // attempts to repair machines that are or were not Ready, one sentence each
	// DocumentFile is the file from which the stored document was last applied, as its user named it; empty: unknown.
	DocumentFile string `json:"documentFile,omitempty"`
}

// MachineStatus is the present state of a machine.
type MachineStatus struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Pool    string `json:"pool,omitempty"`
	Address string `json:"address,omitempty"`
	State   string `json:"state"`             // the provider's word, or "missing", "unwanted"
	Config  string `json:"config"`            // "up to date", "3 changes", or why it is unknown
	Changes *int   `json:"changes,omitempty"` // number of differing settings of the machine; absent if the machine was not asked
	Problem string `json:"problem,omitempty"` // why the machine can't be asked for its configuration
	Node    string `json:"node,omitempty"`    // "Ready", "Ready, cordoned", or why not; empty for gateways
	Version string `json:"version,omitempty"` // kubelet's
	Etcd    string `json:"etcd,omitempty"`    // "voter", "leader", "learner", or the problem

	Member      *Member      `json:"member,omitempty"`      // numbers of its etcd member
	Ended       []string     `json:"ended,omitempty"`       // programs that kubelet should run from its manifests, and that do not run
	Differs     []Difference `json:"differs,omitempty"`     // at most 20 of the changes
	NodeDiffers []string     `json:"nodeDiffers,omitempty"` // differing labels and taints of the node, such as "label tier: (none) -> web"
}

// Status observes the cluster and summarizes its state.
func (c *Reporter) Status(ctx context.Context) (*Status, error) {
	o, err := c.onlyLook(ctx)
	if err != nil {
		return nil, err
	}
	s := &Status{
		Name: c.Name(), ID: c.Record.ID, Provider: c.Doc.Spec.Provider.Name(), Kubernetes: c.Doc.Spec.Kubernetes.Version,
		API: "ready", BundleNote: c.BundleNote(), Upgrade: c.UpgradeNote(), Rotation: c.RotationNote(), Reset: c.ResetNote(),
	}
	_, s.Bundle = c.BuiltWith()
	if s.Endpoint, err = c.PublicEndpoint(ctx); err != nil {
		s.Endpoint = ""
	}
	switch {
	case !c.Facts.Bootstrapped():
		s.API = "not up yet"
	case o.APIErr != nil:
		s.API = o.APIErr.Error()
	}
	s.Etcd, s.DocumentFile = c.etcdStatus(o), c.Facts.Get(memory.DocumentFile)
	if o.EtcdErr == nil && o.Members != nil {
		s.Quorum = quorumOf(etcd.Now(o.Members, o.Health))
	}
	for _, w := range o.Expected() {
		m := c.MachineStatus(o, w)
		if tried := c.RepairNote(w.Name); tried != "" {
			s.Repairs = append(s.Repairs, tried)
		}
		s.Machines = append(s.Machines, m)
	}
	for _, m := range o.Remove {
		s.Machines = append(s.Machines, MachineStatus{Name: m.Name, Role: string(m.Role), Pool: m.Pool, Address: m.Address, State: unwanted})
	}
	if c.Facts.Bootstrapped() {
		s.Backups = c.Backups(ctx)
	}
	now := time.Now()
	if err := c.CertificateStatus(ctx, s, now); err != nil {
		return nil, err
	}
	s.setState(c.signs(o, now))
	return s, nil
}

// OK reports whether nothing is wrong with a machine.
func (m MachineStatus) OK() bool {
	return m.State == string(provider.Running) && m.Config == upToDate && (m.Node == "" || m.Node == "Ready" || m.Node == "Ready, cordoned")
}

// Difference is one differing setting of a machine.
type Difference struct {
	Kind   string `json:"kind"`          // "user", "file", "directory", "binary", "image", "sysctl", "module", "unit"
	Name   string `json:"name"`          // path or unit
	Action string `json:"action"`        // the change that apply makes: "create", "update", "remove", "start", "stop", "restart", "reload", "enable"
	Why    string `json:"why,omitempty"` // never the content of a secret
}

// mostDiffers is the maximum number of differences that a status lists per machine.
const mostDiffers = 20

// RepairNote describes the attempts to repair a machine; "" if there were none.
func (c *Reporter) RepairNote(name string) string {
	l, err := upkeep.ParseLadder(c.Facts.Of(memory.Repair, name))
	if err != nil || len(l.Tries) == 0 {
		return ""
	}
	return name + ": " + strings.Join(l.Words(), ", ")
}

// Words for the state of a machine, its configuration, node and etcd member.
const (
	upToDate      = "up to date"
	missing       = "missing"
	unwanted      = "unwanted"
	toBeReplaced  = "to be replaced"
	notRegistered = "not registered"
	notAMember    = "not a member"
	unreachable   = "unreachable"
	unknown       = "unknown"
)

// MachineStatus summarizes the observations of a wanted machine.
func (c *Reporter) MachineStatus(o *observe.Observed, w wanted.Slot) MachineStatus {
	m := MachineStatus{Name: w.Name, Role: string(w.Role), Pool: w.Pool, State: missing, Config: "-"}
	seen := o.Machines[w.Name]
	if seen != nil {
		m.Address, m.State = seen.Machine.Address, string(seen.Machine.State)
		m.Config = configStatus(seen)
		m.differences(seen)
	} else if old := o.Replaced[w.Name]; old != nil {
		m.Address, m.State, m.Config = old.Machine.Address, string(old.Machine.State), toBeReplaced
	}
	if w.Role == provider.Gateway {
		return m
	}
	m.Node = notRegistered
	if n, ok := o.Nodes[w.Name]; ok {
		m.Version, m.Node = n.Version, o.NodeWords(n)
		if !w.Surge {
			m.NodeDiffers = kube.Unmarked(n, c.Marks(w))
		}
	} else if o.Nodes == nil {
		m.Node = unknown
	}
	if w.IsControlPlane() {
		m.Etcd, m.Member = memberStatus(o, w.Name), memberNumbers(o, w.Name)
	}
	return m
}

func configStatus(s *observe.Seen) string {
	switch {
	case s.UpToDate():
		return upToDate
	case !s.Machine.MayRun():
		return "-"
	case s.Err != nil:
		return s.Err.Error()
	case s.Report == nil:
		return unknown
	}
	return words.Count(len(s.Report.Changes)+len(s.Report.Missing), "change", "changes")
}

// differences records what the machine's agent would change, or why the agent could not be asked.
func (m *MachineStatus) differences(s *observe.Seen) {
	if s.Err != nil && s.Machine.State == provider.Running {
		m.Problem = s.Err.Error()
	}
	if s.Report == nil {
		return
	}
	n := len(s.Report.Changes) + len(s.Report.Missing)
	m.Changes, m.Ended = &n, s.Report.Ended
	for _, ch := range s.Report.Changes[:min(len(s.Report.Changes), mostDiffers)] {
		m.Differs = append(m.Differs, Difference{Kind: ch.Kind, Name: ch.Name, Action: ch.Action, Why: ch.Why})
	}
}

func memberStatus(o *observe.Observed, name string) string {
	if o.Members == nil {
		return unknown
	}
	m, ok := o.Member(name)
	if !ok {
		return notAMember
	}
	for _, h := range o.Health {
		if h.ID != m.ID {
			continue
		}
		switch {
		case !h.Reachable:
			return unreachable
		case len(h.Alarms) > 0:
			return strings.Join(h.Alarms, ",")
		case h.Leader:
			return "leader"
		}
	}
	if m.Learner {
		return "learner"
	}
	return "voter"
}

func (c *Reporter) etcdStatus(o *observe.Observed) string {
	if o.EtcdErr != nil {
		return o.EtcdErr.Error()
	}
	if o.Members == nil {
		return "not up yet"
	}
	return nodes.EtcdProjection(o)
}

// CertificateStatus finds the certificate that expires first, and the certificates that are due for renewal by the next apply.
func (c *Reporter) CertificateStatus(ctx context.Context, s *Status, now time.Time) error {
	certs, err := c.Certificates(ctx)
	if err != nil {
		return err
	}
	for _, i := range certs {
		if s.Expires.IsZero() || i.NotAfter.Before(s.Expires) {
			s.Expires, s.ExpiresOf = i.NotAfter, i.Name
		}
		if i.Due(now) {
			s.Due = append(s.Due, i.Name)
		}
	}
	return nil
}

// Certificates lists every certificate that Naupegos issued for the cluster.
func (c *Reporter) Certificates(ctx context.Context) ([]pki.CertInfo, error) { return c.PKI.List(ctx) }

// onlyLook observes the cluster like Observe, but does not renew certificates that are due. It is for callers that change nothing.
func (c *Reporter) onlyLook(ctx context.Context) (*observe.Observed, error) {
	if c.Vault != nil {
		c.PKI.HoldRenewals(true)
		defer c.PKI.HoldRenewals(false)
	}
	return c.Observe(ctx)
}

// providerWarnings returns the warnings of the provider's preflight.
func (c *Reporter) providerWarnings(name string) (out []provider.Check) {
	if w, ok := c.Prov.(provider.Warner); ok {
		for _, text := range w.Warnings() {
			out = append(out, provider.Check{Name: name, Result: provider.Warning, Detail: text})
		}
	}
	return out
}

// Check reports whether the provider can serve the document, and which existing machines do not answer. It changes nothing. Problems that it finds
// are checks; it returns an error only if it can't look.
func (c *Reporter) Check(ctx context.Context) ([]provider.Check, error) {
	out, err := c.CheckIssuer(ctx)
	if err != nil {
		return out, err
	}
	o, err := c.onlyLook(ctx)
	if err != nil {
		return out, err
	}
	want, err := c.WantedMachines(o.Want)
	if err != nil {
		return out, err
	}
	name := "provider " + c.Doc.Spec.Provider.Name()
	served := provider.Check{Name: name, Result: provider.Fine, Detail: fmt.Sprintf("can provide the %s of cluster %s", words.Count(len(want.Machines), "machine", "machines"), c.Name())}
	err = c.Prov.Preflight(ctx, want)
	if err != nil {
		served.Result, served.Detail = provider.Failing, err.Error()
	}
	out = append(out, served)
	if err == nil {
		out = append(out, c.providerWarnings(name)...)
	}
	credential, err := c.CheckCredential(ctx)
	if err != nil {
		return out, err
	}
	out = append(out, credential...)
	for _, s := range o.Want {
		if seen := o.Machines[s.Name]; seen != nil {
			out = append(out, CheckMachine(s.Name, seen))
		}
	}
	return out, nil
}

// CheckMachine turns the observation of a machine into a check.
func CheckMachine(name string, seen *observe.Seen) provider.Check {
	check := provider.Check{Name: "machine " + name, Result: provider.Fine, Detail: "answers"}
	switch {
	case seen.Machine.State == provider.Unreachable:
		check.Result, check.Detail = provider.Failing, seen.Machine.Detail
	case seen.Machine.State != provider.Running:
		check.Result, check.Detail = provider.Warning, fmt.Sprintf("is %s: naupegos apply starts it", seen.Machine.State)
	case seen.Err != nil:
		check.Result, check.Detail = provider.Failing, seen.Err.Error()
	case seen.Report == nil:
		check.Result, check.Detail = provider.Warning, "was not checked: the cluster is not up yet, or its bundle is not available here"
	}
	return check
}

// logMachines limits how many machines are asked for their logs at once.
const logMachines = 8

// consoler is a provider that keeps its machines' console logs.
type consoler interface {
	// Console returns the end of a machine's console log, at most limit bytes.
	Console(name string, limit int64) ([]byte, error)
}

// Logs writes a support archive (tar, gzip) about the whole cluster to w: the logs of the machines' units and containers, facts about the machines,
// the cluster's status and document. Parts that can't be read are listed and do not fail the rest. Everything is redacted: the cluster's own secrets,
// and any text that looks like a secret.
func (c *Reporter) Logs(ctx context.Context, w io.Writer, o support.Options) ([]support.Problem, error) {
	r, err := support.NewRedactor(ctx, c.Secrets)
	if err != nil {
		return nil, err
	}
	col := support.NewCollection(w, o, c.Dialer, r)
	if err := c.collect(ctx, col); err != nil {
		return nil, err
	}
	return col.Finish()
}

func (c *Reporter) collect(ctx context.Context, col *support.Collection) error {
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return err
	}
	if err := c.LoadTarget(ctx); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(logMachines)
	for _, m := range inv.Machines {
		g.Go(func() error {
			if k, ok := c.Prov.(consoler); ok {
				text, err := k.Console(m.Name, col.Options.PerFile)
				col.Add(m.Name, "console.log", text, err)
			}
			col.Machine(ctx, m, func() (remote.Host, error) { return c.Host(ctx, m.Name) })
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for name, data := range col.Options.Extra {
		col.Add("", name, data, nil)
	}
	col.Add("", "document.yaml", c.Record.Document, nil)
	col.JSON("facts.json", func() (any, error) { return c.Facts.All(), nil })
	col.JSON("machines.json", func() (any, error) { return inv, nil })
	col.JSON("nodes.json", func() (any, error) { return c.NodeList(ctx) })
	// Status comes last, because it creates new slots.
	col.JSON("status.json", func() (any, error) { return c.Status(ctx) })
	return ctx.Err()
}
