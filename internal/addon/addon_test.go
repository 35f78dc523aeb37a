package addon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func testConf() CloudConf {
	return CloudConf{
		AuthURL: "https://keystone.example.org:5000/v3", Region: "RegionOne", CredentialID: "0123456789abcdef", CredentialSecret: `a"secret\with#every;thing`,
		CAFile: "/etc/naupegos/cloud-ca.pem", SubnetID: "subnet-1", FloatingNetworkID: "net-1",
	}
}

func testOpenStack(t *testing.T) OpenStack {
	t.Helper()
	conf, err := testConf().Render()
	if err != nil {
		t.Fatal(err)
	}
	m := bundle.Manifest{Kubernetes: "v1.36.3", Addons: []string{bundle.AddonOpenStack}}
	for _, name := range []string{bundle.ImageOpenStackCCM, bundle.ImageCinderCSI, bundle.ImageCinderCSINode} {
		m.Images = append(m.Images, bundle.Image{Name: name, Ref: bundle.Repository + "/" + name + ":v1.36.0-1"})
	}
	return OpenStack{ClusterID: "3f9c1a2b7d5e4f60", Bundle: m, CloudConf: conf, ControlPlanes: 3, PodCIDR: "10.244.0.0/16"}
}

func TestGoldenManifests(t *testing.T) {
	all, err := testOpenStack(t).Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		testkit.Golden(t, a.Name+".golden", a.Manifests)
	}
	testkit.Golden(t, "cloud.conf.golden", testOpenStack(t).CloudConf)
	classes := testConf()
	classes.FloatingSubnetID, classes.Classes = "floats-1", []BalancerClass{
		{Name: "dmz", FloatingNetworkID: "net-2", FloatingSubnetTags: []string{"services", "public"}}, {Name: "inner", NetworkID: "net-3", SubnetID: "subnet-3"},
	}
	text, err := classes.Render()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "cloud.conf-classes.golden", text)
}

// TestTheSecretIsInTheSecretAlone: only the Secret contains the credential.
func TestTheSecretIsInTheSecretAlone(t *testing.T) {
	o := testOpenStack(t)
	all, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if !a.Secret && strings.Contains(string(a.Manifests), "every;thing") {
			t.Errorf("%s holds the credential", a.Name)
		}
		if a.Name != NameCloudConfig && a.Secret {
			t.Errorf("%s is called secret", a.Name)
		}
	}
}

// TestControllersSeeTheAuthorities: programs that read cloud.conf have the directory of the cloud's CA certificates mounted.
func TestControllersSeeTheAuthorities(t *testing.T) {
	o := testOpenStack(t)
	all, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		text := string(a.Manifests)
		readers := strings.Count(text, "{name: cloud-config, mountPath: ")
		if seen := strings.Count(text, "{name: authorities, mountPath: "+AuthoritiesDir+", "); seen != readers {
			t.Errorf("%s: %d containers read cloud.conf, %d see %s", a.Name, readers, seen, AuthoritiesDir)
		}
		if readers > 0 && !strings.Contains(text, "hostPath: {path: "+AuthoritiesDir+", ") {
			t.Errorf("%s: %s is not the machine's", a.Name, AuthoritiesDir)
		}
	}
}

// TestNewCredentialRestartsControllers: a new credential restarts its readers, and nothing else.
func TestNewCredentialRestartsControllers(t *testing.T) {
	o := testOpenStack(t)
	before, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	o.CloudConf = append(o.CloudConf, '\n')
	after, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		changed := 0
		was, is := strings.Split(string(before[i].Manifests), "\n"), strings.Split(string(after[i].Manifests), "\n")
		for n := range was {
			if was[n] != is[n] {
				changed++
			}
		}
		if changed != 1 || len(was) != len(is) {
			t.Errorf("%s: %d lines change, want one", before[i].Name, changed)
		}
	}
}

// TestNewAuthoritiesRestartControllers: new CA certificates restart the controllers, which read them only at start.
func TestNewAuthoritiesRestartControllers(t *testing.T) {
	o := testOpenStack(t)
	before, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	o.Authorities = []byte("another")
	after, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range before {
		if same := bytes.Equal(a.Manifests, after[i].Manifests); same != (a.Name == NameCloudConfig) {
			t.Errorf("%s is the same as before: %v", a.Name, same)
		}
	}
}

func TestStorageClassOfAZoneAndType(t *testing.T) {
	o := testOpenStack(t)
	o.VolumeType, o.VolumeZone, o.ControlPlanes = `fast "x"`, "nova", 1
	got, err := o.CinderCSI()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`type: "fast \"x\""`, `availability: "nova"`, "replicas: 1\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestCloudConfWithoutLoadBalancers: without Octavia, cloud.conf disables load balancers; the controller manager would exit otherwise.
func TestCloudConfWithoutLoadBalancers(t *testing.T) {
	c := testConf()
	c.NoLoadBalancers = true
	got, err := c.Render()
	if err != nil || !strings.Contains(string(got), "[LoadBalancer]\nenabled = false\n") {
		t.Errorf("%v:\n%s", err, got)
	}
}

// TestWithoutVolumes: if the cloud has no volumes, driver and StorageClass are left out and the rest is unchanged.
func TestWithoutVolumes(t *testing.T) {
	o := testOpenStack(t)
	all, err := o.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	o.NoVolumes = true
	some, err := o.Catalogue()
	if err != nil || len(some) != len(all)-1 {
		t.Fatalf("%d addons: %v", len(some), err)
	}
	for i, a := range some {
		if a.Name == NameCinderCSI || string(a.Manifests) != string(all[i].Manifests) {
			t.Errorf("%s", a.Name)
		}
	}
}

func TestWithoutImages(t *testing.T) {
	o := testOpenStack(t)
	o.Bundle = bundle.Manifest{Kubernetes: "v1.36.3"}
	_, err := o.Catalogue()
	if fail.KindOf(err) != fail.NotFound || !strings.Contains(err.Error(), bundle.ImageOpenStackCCM) {
		t.Errorf("got %v", err)
	}
	if _, err := (OpenStack{}).Catalogue(); fail.KindOf(err) != fail.Internal {
		t.Errorf("got %v", err)
	}
}

func TestCloudConfRefusesWhatItCannotWrite(t *testing.T) {
	for name, change := range map[string]func(*CloudConf){
		"line break": func(c *CloudConf) { c.Region = "a\n[Global]" },
		"no secret":  func(c *CloudConf) { c.CredentialSecret = "" },
		"unseen CA":  func(c *CloudConf) { c.CAFile = "/etc/ssl/ca.pem" },
	} {
		c := testConf()
		change(&c)
		_, err := c.Render()
		if err == nil || strings.Contains(err.Error(), "every;thing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClientCertificate: if the cloud requires a client certificate, cloud.conf names it, the Secret contains it and its key, and a new certificate
// restarts pods.
func TestClientCertificate(t *testing.T) {
	c := testConf()
	c.ClientCert = true
	conf, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`cert-file = "/etc/config/client.crt"`, `key-file = "/etc/config/client.key"`} {
		if !strings.Contains(string(conf), line) {
			t.Errorf("cloud.conf lacks %s", line)
		}
	}
	o := testOpenStack(t)
	before := o.values(map[string]any{})["Checksum"]
	o.CloudConf, o.ClientCert, o.ClientKey = conf, []byte("CERT"), []byte("KEY")
	text, err := o.cloudConfig()
	if err != nil || !strings.Contains(string(text), "client.crt: Q0VSVA==\n") || !strings.Contains(string(text), "client.key: S0VZ\n") {
		t.Errorf("%s %v", text, err)
	}
	if o.values(map[string]any{})["Checksum"] == before {
		t.Error("another certificate restarts no pods")
	}
}
