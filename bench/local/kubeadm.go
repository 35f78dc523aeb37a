package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/remote"
)

// side is one run of bare kubeadm.
type side struct {
	prov   *local.Provider
	dialer *remote.Dialer
	keys   *pki.PKI
	bundle *bundle.Bundle
	agent  string
	vip    string
	list   []provider.MachineSpec
}

// runKubeadm measures bare kubeadm, driven as fast as possible: all machines boot at once; each is prepared (containerd, kubelet, gateways) as
// soon as it answers; after init, the workers join in parallel and the control planes in turn.
func runKubeadm(ctx context.Context, program string) (_ times, err error) {
	s, err := newSide(ctx, program)
	if err != nil {
		return times{}, err
	}
	defer s.dialer.Close()
	defer func() {
		if e := s.destroy(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	began := time.Now()
	cpu, err := hostCPU()
	if err != nil {
		return times{}, err
	}
	steps, err := s.prov.Steps(ctx, provider.Wanted{Machines: s.list, VIP: true}, &provider.Inventory{})
	if err != nil {
		return times{}, err
	}
	if s.vip, err = s.prov.VIP(ctx); err != nil {
		return times{}, err
	}
	g, ctx := errgroup.WithContext(ctx)
	ready := s.perMachine()
	for _, st := range steps { // signal each machine's boot, so that its preparation can start
		if done := ready[st.ID]; done != nil {
			run := st.Run
			st.Run = func(ctx context.Context, p planProgress) error {
				if err := run(ctx, p); err != nil {
					return err
				}
				close(done)
				return nil
			}
		}
	}
	g.Go(func() error { return execute(ctx, steps) })
	g.Go(func() error { return s.form(ctx, ready) })
	var t times
	g.Go(func() error {
		var err error
		t, err = s.watch(ctx, began)
		return err
	})
	if err := g.Wait(); err != nil {
		return t, err
	}
	after, err := hostCPU()
	t.cpu = after - cpu
	return t, err
}

func newSide(ctx context.Context, program string) (*side, error) {
	s := &side{keys: pki.Open(&pkitest.MemorySecrets{}, pki.Options{})}
	if err := s.keys.Ensure(ctx); err != nil {
		return nil, err
	}
	publics, err := s.keys.SSHPublicKeys(ctx)
	if err != nil {
		return nil, err
	}
	private, err := s.keys.SSHKey(ctx)
	if err != nil {
		return nil, err
	}
	if s.bundle, err = theBundle(ctx); err != nil {
		return nil, err
	}
	if s.prov, s.agent, err = newProvider(ctx, program); err != nil {
		return nil, err
	}
	if s.list, err = machines(publics[0]); err != nil {
		return nil, err
	}
	s.dialer, err = newDialer(private, s.agent)
	return s, err
}

// perMachine returns a channel for each machine, closed when the machine has booted.
func (s *side) perMachine() map[string]chan struct{} {
	m := map[string]chan struct{}{}
	for _, spec := range s.list {
		m[provider.MachineStep(spec.Name)] = make(chan struct{})
	}
	return m
}

// form prepares the machines and runs kubeadm.
func (s *side) form(ctx context.Context, booted map[string]chan struct{}) error {
	g, ctx := errgroup.WithContext(ctx)
	prepared := map[string]chan struct{}{}
	for _, spec := range s.list {
		done := make(chan struct{})
		prepared[spec.Name] = done
		g.Go(func() error {
			select {
			case <-booted[provider.MachineStep(spec.Name)]:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := s.ready(ctx, spec); err != nil {
				return fmt.Errorf("prepare %s: %w", spec.Name, err)
			}
			close(done)
			return nil
		})
	}
	initialised := make(chan struct{})
	g.Go(func() error {
		if err := wait(ctx, prepared["bench-cp-1"]); err != nil {
			return err
		}
		if err := s.init(ctx); err != nil {
			return err
		}
		close(initialised)
		return nil
	})
	for _, w := range []string{"bench-general-1", "bench-general-2"} {
		g.Go(func() error {
			if err := wait(ctx, initialised, prepared[w]); err != nil {
				return err
			}
			return s.join(ctx, w, "")
		})
	}
	g.Go(func() error {
		for _, cp := range []string{"bench-cp-2", "bench-cp-3"} {
			if err := wait(ctx, initialised, prepared[cp]); err != nil {
				return err
			}
			if err := s.join(ctx, cp, controlPlaneJoin); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

func wait(ctx context.Context, what ...chan struct{}) error {
	for _, c := range what {
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *side) kubeadm(ctx context.Context, name, config string, args ...string) error {
	h, err := s.host(ctx, name)
	if err != nil {
		return err
	}
	path := "/root/kubeadm.yaml"
	if _, err := s.dialer.Run(ctx, h, strings.NewReader(config), "dd", "status=none", "of="+path); err != nil {
		return err
	}
	out, err := s.dialer.Run(ctx, h, nil, append(append([]string{"/usr/local/bin/kubeadm"}, args...), "--config", path)...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, out)
	}
	return err
}

func (s *side) init(ctx context.Context) error {
	conf, err := s.render(ctx, "bench-cp-1", initConfig)
	if err != nil {
		return err
	}
	return s.kubeadm(ctx, "bench-cp-1", conf, "init", "--upload-certs")
}

func (s *side) join(ctx context.Context, name, controlPlane string) error {
	conf, err := s.render(ctx, name, joinConfig+controlPlane)
	if err != nil {
		return err
	}
	return s.kubeadm(ctx, name, conf, "join")
}

// render renders a kubeadm configuration.
func (s *side) render(ctx context.Context, name, text string) (string, error) {
	m, err := s.prov.Machine(ctx, name)
	if err != nil {
		return "", err
	}
	ca, err := s.keys.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return "", err
	}
	hash, err := publicKeyHash(ca)
	if err != nil {
		return "", err
	}
	tags := map[string]string{}
	for _, img := range []string{"coredns", "etcd"} {
		i, err := s.bundle.Image(img)
		if err != nil {
			return "", err
		}
		tags[img] = i.Ref[strings.LastIndex(i.Ref, ":")+1:]
	}
	var out bytes.Buffer
	err = template.Must(template.New("kubeadm").Parse(text)).Execute(&out, map[string]any{
		"Address": m.Address, "VIP": s.vip, "Version": version, "Repository": s.bundle.Manifest.Repository, "Hash": hash, "Tags": tags,
	})
	return out.String(), err
}

// watch applies flannel and the workload as soon as possible and returns the times.
func (s *side) watch(ctx context.Context, began time.Time) (times, error) {
	p := s.params()
	conf, err := p.SuperAdminKubeconfig(ctx, s.keys, p.Endpoint)
	if err != nil {
		return times{}, err
	}
	client, err := kube.NewClient(conf, kube.ClientOptions{})
	if err != nil {
		return times{}, err
	}
	defer client.Close()
	manifests, err := p.Flannel()
	if err != nil {
		return times{}, err
	}
	img, err := s.bundle.Image("echo")
	if err != nil {
		return times{}, err
	}
	failed := make(chan error, 1)
	go func() {
		failed <- until(ctx, "flannel is applied", func(ctx context.Context) error {
			if err := client.Ready(ctx); err != nil {
				return err
			}
			_, err := client.Apply(ctx, manifests, kube.ApplyOptions{})
			return err
		})
	}()
	t, err := milestones(ctx, began, client, img.Ref, func(ctx context.Context, network, addr string) (net.Conn, error) {
		h, err := s.host(ctx, asked)
		if err != nil {
			return nil, err
		}
		return s.dialer.DialContext(ctx, h, network, addr)
	})
	if err != nil {
		return t, err
	}
	return t, <-failed
}

func (s *side) destroy(ctx context.Context) error {
	seen, err := s.prov.Observe(ctx)
	if err != nil {
		return err
	}
	return execute(ctx, s.prov.Destroy(ctx, seen))
}

// publicKeyHash returns the hash by which kubeadm's discovery pins the authority.
func publicKeyHash(ca []byte) (string, error) {
	block, _ := pem.Decode(ca)
	cert, err := parseCertificate(block)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), nil
}
