package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// The files of a hand-over, but for the WireGuard configurations, which lie in a directory of their own.
const (
	handoverReadme     = "README.md"
	handoverKubeconfig = "kubeconfig"
	handoverSSHConfig  = "ssh_config"
	handoverKnownHosts = "known_hosts"
	handoverKey        = "id_ed25519"
	handoverClouds     = "clouds.yaml"
	handoverCloudCA    = "cloud-ca.crt" // beside clouds.yaml, which names it
	handoverWireGuard  = "wireguard"
)

//go:embed handover.md.tmpl
var handoverTemplate string

// HandoverOptions says what a hand-over holds beyond what every cluster has.
type HandoverOptions struct {
	// CloudsYAML returns a clouds.yaml with the cluster's restricted credential; nil, or fail.NotFound from it, where there is none.
	CloudsYAML func(ctx context.Context) ([]byte, error)
	// CloudCA returns the authorities that sign the cloud's certificate, as PEM; nil, or nothing from it, where the system's do.
	CloudCA func(ctx context.Context) ([]byte, error)
	Now     time.Time // for the README
}

// Handover returns what somebody needs who takes the cluster over, as files by their slash-separated names. Most hold secrets.
// fail.Refused where the cluster never came up.
func (c *Cluster) Handover(ctx context.Context, o HandoverOptions) (map[string][]byte, error) {
	if !c.facts.Bootstrapped() {
		return nil, fail.New(fail.Refused, "cluster %s has not come up yet: there is nothing to hand over", c.Name()).Do("naupegos apply first")
	}
	files := map[string][]byte{}
	var err error
	if files[handoverKubeconfig], err = c.Kubeconfig(ctx); err != nil {
		return nil, err
	}
	if err := c.handOverSSH(ctx, files); err != nil {
		return nil, err
	}
	clients, err := c.WireGuardClients(ctx)
	if err != nil {
		return nil, err
	}
	for name, data := range clients {
		files[path.Join(handoverWireGuard, name)] = data
	}
	if err := o.cloud(ctx, files); err != nil {
		return nil, err
	}
	files[handoverReadme], err = c.handoverText(ctx, files, o.Now)
	return files, err
}

// cloud adds the cluster's credential of its cloud, where it has one.
func (o HandoverOptions) cloud(ctx context.Context, files map[string][]byte) error {
	for name, get := range map[string]func(context.Context) ([]byte, error){handoverClouds: o.CloudsYAML, handoverCloudCA: o.CloudCA} {
		if get == nil {
			continue
		}
		data, err := get(ctx)
		if err != nil && fail.KindOf(err) != fail.NotFound {
			return err
		}
		if err == nil && len(data) > 0 {
			files[name] = data
		}
	}
	return nil
}

// handOverSSH adds ssh's configuration, with paths that hold wherever the directory is moved to, and the cluster's key. Hosts
// given by address are logged in to with a key of the user's, which is not ours to hand on.
func (c *Cluster) handOverSSH(ctx context.Context, files map[string][]byte) error {
	hs, err := c.hosts(ctx)
	if err != nil {
		return err
	}
	files[handoverSSHConfig] = remote.SSHConfig(hs, handoverKey, handoverKnownHosts)
	files[handoverKnownHosts] = remote.KnownHosts(hs)
	if c.prov.Traits().Given {
		return nil
	}
	if files[handoverKey], err = c.pki.SSHKey(ctx); err != nil {
		return err
	}
	files[handoverKey+".pub"] = []byte(strings.TrimSpace(c.publicKey) + "\n")
	return nil
}

// handoverView is what the README's template sees.
type handoverView struct {
	Name, ID, Provider, Kubernetes, Endpoint string
	Made                                     time.Time
	Machines                                 []provider.Machine
	Example                                  string // a machine to log in to
	Clients                                  []string
	OwnKeys                                  []string // peers who put their own private key in
	Key                                      bool
	Clouds                                   string // name of the cloud in clouds.yaml; empty: there is none
	Expiries                                 []expiry
}

// expiry is something that ends on a day.
type expiry struct {
	What string
	On   time.Time
	Then string // what renews it
}

func (c *Cluster) handoverText(ctx context.Context, files map[string][]byte, now time.Time) ([]byte, error) {
	v := handoverView{
		Name: c.Name(), ID: c.rec.ID, Provider: c.doc.Spec.Provider.Name(), Kubernetes: c.doc.Spec.Kubernetes.Version, Made: now,
		Key: files[handoverKey] != nil,
	}
	var err error
	if v.Clouds, err = cloudName(files[handoverClouds]); err != nil {
		return nil, err
	}
	if v.Endpoint, err = c.publicEndpoint(ctx); err != nil {
		return nil, err
	}
	if v.Machines, err = c.addresses(ctx); err != nil {
		return nil, err
	}
	if v.Expiries, err = c.expiries(ctx); err != nil {
		return nil, err
	}
	if names := c.namesOf(provider.ControlPlane); len(names) > 0 {
		v.Example = names[0]
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if rest, ok := strings.CutPrefix(name, handoverWireGuard+"/"); ok {
			v.Clients = append(v.Clients, rest)
		}
	}
	if w := c.doc.Spec.Access.WireGuard; w != nil {
		for _, p := range w.Peers {
			if p.PublicKey != "" {
				v.OwnKeys = append(v.OwnKeys, p.Name)
			}
		}
	}
	t, err := template.New("handover").Funcs(template.FuncMap{"join": strings.Join, "day": day}).Parse(handoverTemplate)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the hand-over's template")
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the hand-over's README")
	}
	return b.Bytes(), nil
}

// cloudName finds what the only cloud of a clouds.yaml is called; "" where there is no such file.
func cloudName(data []byte) (string, error) {
	var file struct {
		Clouds map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return "", fail.New(fail.Internal, "the clouds.yaml of the cluster's credential is not YAML") // the cause might show it
	}
	for name := range file.Clouds {
		return name, nil
	}
	return "", nil
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// expiries lists what ends when, soonest first: the kubeconfig, the machines' certificates by their first, the authorities.
func (c *Cluster) expiries(ctx context.Context) ([]expiry, error) {
	certs, err := c.Certificates(ctx)
	if err != nil {
		return nil, err
	}
	var out []expiry
	machines := 0
	for _, i := range certs {
		switch {
		case i.CA:
			out = append(out, expiry{"certificate authority " + i.Name, i.NotAfter, "a new authority: plan it long before"})
		case i.Name == "admin":
			out = append(out, expiry{"kubeconfig", i.NotAfter, "`naupegos handover` or `naupegos kubeconfig` again"})
		default:
			if machines++; machines == 1 {
				out = append(out, expiry{"the first of the machines' certificates", i.NotAfter, "`naupegos apply`"})
			}
			if e := &out[slices.IndexFunc(out, func(e expiry) bool { return e.Then == "`naupegos apply`" })]; i.NotAfter.Before(e.On) {
				e.On = i.NotAfter
			}
		}
	}
	slices.SortStableFunc(out, func(a, b expiry) int { return a.On.Compare(b.On) })
	return out, nil
}

// Outside is where a machine is reached from outside, for the README.
func (v handoverView) Outside(m provider.Machine) string {
	if m.Public != "" {
		return m.Public
	}
	return "-"
}

// Kind tells a machine's role and pool.
func (v handoverView) Kind(m provider.Machine) string {
	if m.Pool != "" {
		return fmt.Sprintf("%s (%s)", m.Role, m.Pool)
	}
	return string(m.Role)
}
