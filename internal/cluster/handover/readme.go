// Package handover writes the directory for the new owner of a cluster atomically: its files and its README.
//
// It does not know clusters: its caller provides the files' content and the facts for the README.
package handover

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
)

//go:embed readme.md.tmpl
var readmeTemplate string

// Readme holds the information of a handover's README that is not in its files.
type Readme struct {
	Name, ID, Provider, Kubernetes, Endpoint string
	Made                                     time.Time
	Machines                                 []provider.Machine
	Example                                  string   // a machine to log in to
	OwnKeys                                  []string // peers who put their own private key in
	Expiries                                 []Expiry
	Released                                 bool // Naupegos has forgotten the cluster
}

// Render writes the README of a handover with these files.
func (r Readme) Render(files map[string][]byte) ([]byte, error) {
	if r.Released {
		r.Expiries = withoutNaupegos(r.Expiries)
	}
	// Further data for the template.
	all := struct {
		Readme
		Clients []string
		Relayed bool
		Key     bool
		Clouds  string // name of the cloud in clouds.yaml; empty: none
	}{Readme: r, Key: files[KeyFile] != nil}
	var err error
	if all.Clouds, err = cloudName(files[CloudsFile]); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if rest, ok := strings.CutPrefix(name, WireGuardDir+"/"); ok {
			all.Clients = append(all.Clients, rest)
		}
	}
	all.Relayed = len(slices.DeleteFunc(slices.Clone(r.Machines), func(m provider.Machine) bool { return m.Role != provider.Gateway })) > 1
	t, err := template.New("handover").Funcs(template.FuncMap{"join": strings.Join, "day": day}).Parse(readmeTemplate)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the handover's template")
	}
	var b bytes.Buffer
	if err := t.Execute(&b, all); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the handover's README")
	}
	return b.Bytes(), nil
}

// Expiry is something that ends on a day.
type Expiry struct {
	What string
	On   time.Time
	Then string // what renews it
}

// withoutNaupegos returns the expiries with the renewal that the owner must do without Naupegos.
func withoutNaupegos(all []Expiry) []Expiry {
	out := slices.Clone(all)
	for i := range out {
		switch {
		case out[i].What == kubeconfig:
			out[i].Then = "`kubeadm kubeconfig user` on a control-plane machine, or its `admin.conf`"
		case strings.Contains(out[i].Then, "naupegos"):
			out[i].Then = "`kubeadm certs renew all` on each control-plane machine, then restarting its static pods"
		}
	}
	return out
}

// kubeconfig is the name of the kubeconfig's expiry.
const kubeconfig = "kubeconfig"

// UsedUntil returns the expiry of the kubeconfig, or zero.
func UsedUntil(all []Expiry) time.Time {
	if i := slices.IndexFunc(all, func(e Expiry) bool { return e.What == kubeconfig }); i >= 0 {
		return all[i].On
	}
	return time.Time{}
}

// Outside returns a machine's outside address, for the README.
func (r Readme) Outside(m provider.Machine) string {
	if m.Public != "" {
		return m.Public
	}
	return "-"
}

// Kind returns a machine's role and pool.
func (r Readme) Kind(m provider.Machine) string {
	if m.Pool != "" {
		return fmt.Sprintf("%s (%s)", m.Role, m.Pool)
	}
	return string(m.Role)
}

// cloudName returns the name of the only cloud in a clouds.yaml, or "" without the file.
func cloudName(data []byte) (string, error) {
	var file struct {
		Clouds map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return "", fail.New(fail.Internal, "the clouds.yaml of the cluster's credential is not YAML") // cause withheld: it may quote a secret
	}
	for name := range file.Clouds {
		return name, nil
	}
	return "", nil
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Expiries lists expiries, soonest day first, and of one day by name: the kubeconfig, the machines' certificates as one entry, the authorities.
func Expiries(certs []pki.CertInfo) []Expiry {
	var out []Expiry
	machines := 0
	for _, i := range certs {
		switch {
		case i.CA:
			out = append(out, Expiry{"certificate authority " + i.Name, i.NotAfter, "a new authority: plan it long before"})
		case i.Name == "admin":
			out = append(out, Expiry{kubeconfig, i.NotAfter, "`naupegos handover` or `naupegos kubeconfig` again"})
		default:
			if machines++; machines == 1 {
				out = append(out, Expiry{"the first of the machines' certificates", i.NotAfter, "`naupegos apply`"})
			}
			if e := &out[slices.IndexFunc(out, func(e Expiry) bool { return e.Then == "`naupegos apply`" })]; i.NotAfter.Before(e.On) {
				e.On = i.NotAfter
			}
		}
	}
	slices.SortFunc(out, func(a, b Expiry) int { return cmp.Or(cmp.Compare(day(a.On), day(b.On)), cmp.Compare(a.What, b.What)) })
	return out
}
