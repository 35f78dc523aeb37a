// Package adopt reads a kubeadm cluster that another tool made, from its hosts and its API. It returns the document that describes the cluster,
// what naupegos would leave, change or lose, and the authorities and keys that the cluster continues with.
//
// It changes and stores nothing: its caller adopts the cluster.
package adopt

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/remote"
)

// Way describes how to reach the hosts.
type Way struct {
	From  string       // address of a control-plane host
	User  string       // root, or one who may use sudo
	Port  int          // of SSH
	Key   []byte       // private, that logs in
	Known remote.Known // the hosts' pinned keys
	// Allowed refuses hosts that the key is not for before connecting: the list of hosts comes from the API. nil: the key is for all.
	Allowed func(address string) error
}

// Found is everything that was read of a cluster. It contains secrets.
type Found struct {
	Survey *kube.Survey
	Hosts  []Host // one for each node, by name
}

// Host is everything that was read on one host.
type Host struct {
	Name    string // of its node
	Address string
	Keys    []string          // its pinned SSH host keys
	Files   map[string][]byte // by absolute path; missing files are omitted
	Facts   map[string]string // output of factsScript, by name
}

// Reader reads from one cluster's hosts. Close it after use.
type Reader struct {
	way    Way
	dialer *remote.Dialer
}

// NewReader returns a Reader. It opens no connection yet.
func NewReader(w Way) (*Reader, error) {
	key, err := remote.ParseKey(w.Key)
	if err != nil {
		return nil, err
	}
	return &Reader{w, remote.NewDialer([]remote.Key{key}, remote.Options{})}, nil
}

// Close ends the connections.
func (r *Reader) Close() error { return r.dialer.Close() }

// readTimeout limits the reading of one host, and of the API.
const readTimeout = time.Minute

// adminConf is the kubeconfig for reading the API.
const adminConf = "/etc/kubernetes/admin.conf"

// Read reads a whole cluster. The error names the hosts that can't be read: a partly known cluster can't be judged.
func (r *Reader) Read(ctx context.Context) (*Found, error) {
	first, err := r.host(r.way.From, r.way.From)
	if err != nil {
		return nil, err
	}
	read, err := r.readHost(ctx, first)
	if err != nil {
		return nil, err
	}
	conf := read.Files[adminConf]
	if conf == nil {
		if name := distributionOf(read.Facts["distribution"]); name != "" {
			return nil, fail.New(fail.Refused, "%s runs %s", r.way.From, name).Do(notKubeadm)
		}
		return nil, fail.New(fail.Invalid, "there is no %s on %s", adminConf, r.way.From).Do("name a control-plane machine of a cluster that kubeadm has made")
	}
	survey, err := r.survey(ctx, first, conf)
	if err != nil {
		return nil, err
	}
	f := &Found{Survey: survey, Hosts: make([]Host, len(survey.Nodes))}
	failed := make([]error, len(survey.Nodes))
	var g errgroup.Group
	g.SetLimit(16)
	for i, n := range survey.Nodes {
		if n.OS != "linux" { // no machine of ours, which the findings tell; a virtual node has no host at all
			f.Hosts[i] = Host{Name: n.Name}
			continue
		}
		g.Go(func() error {
			f.Hosts[i], failed[i] = r.readNode(ctx, n)
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	var all []error
	for _, err := range failed {
		if err != nil {
			all = append(all, err)
		}
	}
	if len(all) > 1 {
		return f, fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "%d hosts can't be read; nothing was begun", len(all))
	}
	return f, errors.Join(all...)
}

func (r *Reader) readNode(ctx context.Context, n kube.SurveyedNode) (Host, error) {
	if len(n.Addresses) == 0 {
		return Host{Name: n.Name}, fail.New(fail.Refused, "its node has no internal address").At(n.Name)
	}
	h, err := r.host(n.Name, ipv4First(n.Addresses))
	if err != nil {
		return Host{Name: n.Name}, err
	}
	return r.readHost(ctx, h)
}

// ipv4First returns the first IPv4 address, for machines have no others; without one, the first address.
func ipv4First(addresses []string) string {
	for _, a := range addresses {
		if !isIPv6(a) {
			return a
		}
	}
	return addresses[0]
}

// host returns how to reach an address. Its host key must be pinned.
func (r *Reader) host(name, address string) (remote.Host, error) {
	if r.way.Allowed != nil {
		if err := r.way.Allowed(address); err != nil {
			return remote.Host{}, err
		}
	}
	keys, err := r.way.Known.Keys(address, r.way.Port)
	if err == nil && len(keys) == 0 && name != address { // who logs in by name has pinned the key for the name
		keys, err = r.way.Known.Keys(name, r.way.Port)
	}
	if err == nil && len(keys) == 0 {
		err = cmp.Or(r.way.Known.Signed(address, r.way.Port), r.way.Known.Signed(name, r.way.Port))
	}
	if err != nil {
		return remote.Host{}, err
	}
	if len(keys) == 0 {
		return remote.Host{}, fail.New(fail.Refused, "no SSH host key is known for %s", net.JoinHostPort(address, fmt.Sprint(r.way.Port))).At(name).
			Do("ssh-keyscan -p %d %s from a trusted place prints it; add it to the file that --known-hosts names", r.way.Port, address)
	}
	return remote.Host{Name: name, Address: address, Port: r.way.Port, User: r.way.User, HostKeys: keys}, nil
}

// survey asks the API, through a host.
func (r *Reader) survey(ctx context.Context, through remote.Host, conf []byte) (*kube.Survey, error) {
	client, err := kube.NewClient(conf, kube.ClientOptions{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return r.dialer.DialContext(ctx, through, network, addr)
	}})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return client.Survey(ctx)
}

// maxFile bounds a file that is read.
const maxFile = 4 << 20

// files reads files of a host by patterns of their paths.
func (r *Reader) files(ctx context.Context, h remote.Host, patterns string) (map[string][]byte, error) {
	archive, err := r.dialer.Run(ctx, h, nil, "sh", "-c", filesScript(patterns))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for t := tar.NewReader(bytes.NewReader(archive)); ; {
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err == nil && head.Typeflag == tar.TypeReg {
			files["/"+head.Name], err = io.ReadAll(io.LimitReader(t, maxFile))
		}
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read files of the host").At(h.Name)
		}
	}
}

// runs returns a description of what runs on a host with which files: if it is the same twice, nothing restarted in between.
func (h Host) runs() string {
	lines := []string{"kubelet " + h.Facts["kubelet"], "containerd " + h.Facts["containerd"]}
	config, _ := h.kubeletConfig()
	for path, data := range h.Files {
		if strings.HasPrefix(path, manifestDir) || slices.Contains([]string{config, kubeletConfig, kubeletFlags, kubeletExtra, h.containerdFile()}, path) {
			lines = append(lines, path+" "+digest(data))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Changed describes what runs differently on the hosts now; empty if nothing does.
func (f *Found) Changed(now *Found) string {
	var all []string
	for i, h := range f.Hosts {
		if i >= len(now.Hosts) || now.Hosts[i].Name != h.Name {
			return "other nodes are there than before"
		}
		if h.runs() != now.Hosts[i].runs() {
			all = append(all, h.Name)
		}
	}
	if len(all) == 0 && len(now.Hosts) == len(f.Hosts) {
		return ""
	}
	return "what runs, or by which files, has changed on " + strings.Join(all, ", ")
}
