package layout

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestGoldenMachines(t *testing.T) {
	cloud, local, service := testParams(), localParams(), testParams()
	service.EtcdMode, service.CNI = EtcdService, CNINone
	openstack := testParams()
	openstack.ExternalCloud = true
	openstack.ControlPlanes[0].Cloud = testInstance()
	vault := testParams()
	vault.ExternalCA = true
	joining := EtcdStart{State: "existing", InitialCluster: cloud.NewEtcd().InitialCluster}
	for name, c := range map[string]struct {
		p     Params
		etcd  EtcdStart // none: a worker
		index int
	}{
		"control-plane-first":    {cloud, cloud.NewEtcd(), 0},
		"control-plane-joining":  {cloud, joining, 2},
		"control-plane-local":    {local, local.NewEtcd(), 0},
		"control-plane-external": {service, service.NewEtcd(), 1},
		"control-plane-cloud":    {openstack, openstack.NewEtcd(), 0},
		"control-plane-vault":    {vault, vault.NewEtcd(), 0},
		"worker":                 {p: cloud},
		"worker-vault":           {p: vault},
		"worker-local":           {p: local},
	} {
		t.Run(name, func(t *testing.T) {
			k := testPKI(t, testTime)
			if c.p.ExternalCA {
				k = pki.Open(&pkitest.MemorySecrets{}, pki.Options{Now: func() time.Time { return testTime }, Issuer: &pkitest.Issuer{Now: func() time.Time { return testTime }}})
			}
			config, err := c.p.Worker(t.Context(), k, testWorker(c.p))
			if c.etcd.State != "" {
				config, err = c.p.ControlPlane(t.Context(), k, c.p.ControlPlanes[c.index], c.etcd)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := config.Validate(); err != nil {
				t.Fatal(err)
			}
			client := KubeletClientPath(c.p.ExternalCA)
			if !slices.ContainsFunc(config.Files, func(f machine.File) bool { return f.Path == client || f.RenewedAt == client }) {
				t.Errorf("the machine has no %s", client)
			}
			testkit.Golden(t, name+".golden", dump(config))
		})
	}
}

func TestGoldenManifests(t *testing.T) {
	p := testParams()
	flannel, err := p.Flannel()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "flannel.golden", flannel)
	admin, err := p.AdminKubeconfig(t.Context(), testPKI(t, testTime), p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "admin-kubeconfig.golden", readable(admin))
}

// dump renders a readable configuration: it describes certificates and omits keys.
func dump(c machine.Config) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "machine %s\n", c.Machine)
	for _, u := range c.Users {
		fmt.Fprintf(&b, "user %s\n", u)
	}
	for _, d := range c.Directories {
		fmt.Fprintf(&b, "directory %s %04o%s\n", d.Path, d.Mode, word(d.Owner != "", " "+d.Owner))
	}
	for _, x := range c.Binaries {
		fmt.Fprintf(&b, "binary %s\n", x.Path)
	}
	for _, i := range c.Images {
		fmt.Fprintf(&b, "image %s\n", strings.Join(i.Refs, " "))
	}
	fmt.Fprintf(&b, "modules %s\n", strings.Join(c.Modules, " "))
	var keys []string
	for key, value := range c.Sysctls {
		keys = append(keys, key+"="+value)
	}
	slices.Sort(keys)
	fmt.Fprintf(&b, "sysctls %s\n", strings.Join(keys, " "))
	for _, f := range c.Files {
		fmt.Fprintf(&b, "\n==== file %s %04o%s%s\n%s", f.Path, f.Mode, word(f.RenewedAt != "", " renewed at "+f.RenewedAt), word(f.Secret, " secret"), readable(f.Content))
	}
	for _, u := range c.Units {
		fmt.Fprintf(&b, "\n==== unit %s%s%s%s\n%s", u.Name, word(u.Enabled, " enabled"), word(u.Active, " active"), word(u.Private, " private"), u.Content)
		for _, d := range u.DropIns {
			fmt.Fprintf(&b, "---- drop-in %s\n%s", d.Name, d.Content)
		}
		for _, w := range u.Watches {
			fmt.Fprintf(&b, "---- watches %s\n", w)
		}
	}
	return b.Bytes()
}

func word(yes bool, s string) string {
	if yes {
		return s
	}
	return ""
}

// readable replaces the random parts of a file.
func readable(content []byte) []byte {
	for pattern, replace := range map[string]func([]byte) []byte{
		`(?s)-----BEGIN .*-----END [A-Z ]+-----\n`: describePEM,
		`-data: LS0t\S+`:                 describeData,
		`naupegos.dev/files: sha256:\S+`: func([]byte) []byte { return []byte("naupegos.dev/files: <digest>") },
		`secret: \S{43}=`:                func([]byte) []byte { return []byte("secret: <32 bytes>") },
	} {
		content = regexp.MustCompile(pattern).ReplaceAllFunc(content, replace)
	}
	return content
}

func describeData(match []byte) []byte {
	data, err := base64.StdEncoding.DecodeString(string(bytes.TrimPrefix(match, []byte("-data: "))))
	if err != nil {
		return []byte("-data: " + err.Error())
	}
	return append([]byte("-data: "), bytes.TrimSpace(describePEM(data))...)
}

func describePEM(data []byte) []byte {
	var b bytes.Buffer
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return b.Bytes()
		}
		if block.Type != "CERTIFICATE" {
			fmt.Fprintf(&b, "<%s>\n", block.Type)
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return []byte(err.Error())
		}
		fmt.Fprintf(&b, "<CERTIFICATE %s by %s, %v %v, usages %v, %s to %s>\n", c.Subject, c.Issuer, c.DNSNames, c.IPAddresses, c.ExtKeyUsage,
			c.NotBefore.Format("2006-01-02T15:04:05Z"), c.NotAfter.Format("2006-01-02T15:04:05Z"))
	}
}
