package v1alpha1_test

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/sample"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// commentedOut matches a field that a document offers in a comment.
var commentedOut = regexp.MustCompile(`(?m)^( *)# ( *[A-Za-z]+:)`)

// TestNew writes documents from options and compares them with testdata/init/NAME.yaml; New itself parses each.
func TestNew(t *testing.T) {
	for name, o := range map[string]sample.Options{
		"defaults":       {},
		"small":          {Name: "small", ControlPlanes: 1, Workers: 1},
		"no-workers":     {ControlPlanes: 1, Workers: sample.NoWorkers},
		"one-gatewayed":  {ControlPlanes: 1, Gateways: 1},
		"five":           {Name: "big", ControlPlanes: 5, Workers: 12, Gateways: 3, Kubernetes: "v1.35.4", EtcdMode: "service"},
		"load-balancer":  {Address: "k8s.example.org:443"},
		"hosts":          {Provider: "hosts"},
		"hosts-small":    {Provider: "hosts", ControlPlanes: 1, Workers: sample.NoWorkers},
		"hosts-machines": {Provider: "hosts", SSHKeyFile: "keys/id: x", Hosts: machines(), Endpoint: "direct"},
		"examples":       {With: sample.Sections()},
		"odd-text":       {Name: "1e3", Address: "1.2.3.4"},

		"openstack":         {Provider: "openstack"},
		"openstack-octavia": {Provider: "openstack", Name: "harbour", Cloud: "mycloud", ExternalNetwork: "public", Flavor: "m1.large", Image: "debian: 12", Endpoint: "octavia", Workers: 5},
		"metal":             {Provider: "metal", VIP: "192.0.2.10"},
		"openstack-direct":  {Provider: "openstack", ControlPlanes: 1, Workers: sample.NoWorkers},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := sample.New(o)
			if err != nil {
				t.Fatal(err)
			}
			checkAccepted(t, mustParse(t, name, text))
			if o.Provider == "openstack" { // fields offered in comments must be valid, too
				offered := commentedOut.ReplaceAll(text, []byte("$1$2"))
				if strings.Count(string(offered), "CIDRs") != bytes.Count(text, []byte("CIDRs")) || commentedOut.Match(offered) {
					t.Fatalf("left in comments:\n%s", offered)
				}
				checkAccepted(t, mustParse(t, name+" with comments", offered))
			}
			testkit.Golden(t, "init/"+name+".yaml", text)
		})
	}
}

// TestExamples: every example is commented out, changes nothing so, and is valid without its marks, alone and with all others, for each provider.
func TestExamples(t *testing.T) {
	for _, provider := range v1alpha1.Providers() {
		o := sample.Options{Provider: provider}
		plain := testkit.Value(sample.New(o))(t)
		for _, with := range append([][]string{sample.Sections()}, singles(sample.Sections())...) {
			o.With = with
			text := testkit.Value(sample.New(o))(t)
			var uncommented []string
			for line := range strings.Lines(string(text)) {
				if !strings.Contains(string(plain), line) {
					blanks, example, marked := strings.Cut(line, "# ")
					if !marked || strings.TrimSpace(blanks) != "" {
						t.Fatalf("%s with %s: %q is no comment", provider, with, line)
					}
					line = blanks + example
				}
				uncommented = append(uncommented, line)
			}
			full := strings.Join(uncommented, "")
			base, got := mustParse(t, "plain", plain), mustParse(t, fmt.Sprint(provider, " with ", with), []byte(full))
			checkAccepted(t, got)
			if len(full) == len(text) || reflect.DeepEqual(base.Spec, got.Spec) {
				t.Errorf("%s with %s: the example changes nothing:\n%s", provider, with, full)
			}
			if !reflect.DeepEqual(base.Spec, mustParse(t, "comments", text).Spec) {
				t.Errorf("%s with %s: the comments change the document", provider, with)
			}
		}
	}
	_, err := sample.New(sample.Options{With: []string{"proxy", "registrys"}})
	testkit.Fails(t, err, fail.Invalid, `no example of a section "registrys"`, `did you mean "registries"?`, "identity, addons")
	_, err = sample.New(sample.Options{With: []string{"etcetera"}})
	testkit.Fails(t, err, fail.Invalid, `no example of a section "etcetera"`, "known: kubernetes, machines")
}

func singles(names []string) (all [][]string) {
	for _, name := range names {
		all = append(all, []string{name})
	}
	return all
}

func machines() []v1alpha1.HostMachine {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	return []v1alpha1.HostMachine{
		{Address: "192.0.2.1", Role: v1alpha1.RoleControlPlane, HostKey: key},
		{Address: "192.0.2.2", Role: v1alpha1.RoleWorker, Pool: "big", Name: "rose", HostKey: key},
	}
}

func TestNewRefuses(t *testing.T) {
	for want, o := range map[string]sample.Options{
		`unknown provider "aws"`:           {Provider: "aws"},
		`contains "\n"`:                    {Name: "x\nspec: {}"},
		"are even":                         {ControlPlanes: 2},
		"7 is not between 1 and 5":         {ControlPlanes: 7},
		"Kubernetes 1.20 is not supported": {Kubernetes: "v1.20.0"},
		"spec.endpoint.vip: is required":   {Provider: "hosts", Hosts: machines(), Endpoint: "gateways"},
		"direct needs a single":            {Endpoint: "direct"},
		"octavia is a load balancer of Op": {Endpoint: "octavia"},
		`unknown value "octopus"`:          {Endpoint: "octopus"},
		"can't be chosen with provider op": {Provider: "openstack", VIP: "10.1.0.9"},
	} {
		_, err := sample.New(o)
		if err == nil || !strings.Contains(err.Error(), want) || fail.KindOf(err) != fail.Invalid {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
}

// TestMadeUp: a document with placeholder values of New can be parsed, but is refused for use.
func TestMadeUp(t *testing.T) {
	text, err := sample.New(sample.Options{Provider: "hosts", ControlPlanes: 3, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = validation.ParseFilledIn("hosts.yaml", text)
	for _, want := range []string{"machines[0].address: 192.0.2.11 is an example's", "machines[5].hostKey: is the example key", "spec.endpoint.vip: 192.0.2.10 is an example's"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hosts.yaml:0") {
			t.Errorf("want %q: %v", want, err)
		}
	}
	mine := strings.NewReplacer("192.0.2.", "10.0.0.", machines()[0].HostKey, strings.TrimSuffix(machines()[0].HostKey, "A")+"B").Replace(string(text))
	if _, err := validation.ParseFilledIn("hosts.yaml", []byte(mine)); err != nil {
		t.Error(err)
	}

	text = testkit.Value(sample.New(sample.Options{Provider: "metal"}))(t)
	if _, err := validation.ParseFilledIn("metal.yaml", text); err == nil || !strings.Contains(err.Error(), "spec.endpoint.vip: 192.0.2.10 is an example's address") {
		t.Error(err)
	}
	if _, err := validation.ParseFilledIn("metal.yaml", bytes.Replace(text, []byte("192.0.2.10"), []byte("192.0.2.9"), 1)); err != nil {
		t.Error(err)
	}
}
