package addon

import (
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
}

// Only the Secret holds the credential.
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

// A new credential restarts what read the old one, and nothing else.
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
	} {
		c := testConf()
		change(&c)
		_, err := c.Render()
		if err == nil || strings.Contains(err.Error(), "every;thing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
