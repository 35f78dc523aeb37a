package machine

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

var digestA = "sha256:" + strings.Repeat("a", 64)

func sample() Config {
	return Config{
		Machine:     "demo-cp-1",
		Directories: []Directory{{Path: "/etc/b", Mode: 0o755}, {Path: "/etc/a", Mode: 0o700, Owner: "root:root"}},
		Files:       []File{{Path: "/etc/b/x", Mode: 0o644, Content: []byte("x")}, {Path: "/etc/a/y", Mode: 0o600, Secret: true}},
		Binaries:    []Binary{{Path: "/usr/local/bin/kubelet", Digest: digestA, Size: 5}},
		Images:      []Image{{Refs: []string{"n/b:1", "n/a:1"}, Digest: digestA, Size: 5, ID: digestA}},
		Users:       []string{"etcd", "backup"},
		Modules:     []string{"overlay", "br_netfilter"},
		Sysctls:     map[string]string{"net.ipv4.ip_forward": "1"},
		Units: []Unit{
			{Name: "a.service", Content: "[Service]\n", DropIns: []DropIn{{"b.conf", "2"}, {"a.conf", "1"}}, Watches: []string{"/b", "/a"}, Active: true},
			{Name: "b.service"},
		},
	}
}

func TestDigestIgnoresOrderWithoutMeaning(t *testing.T) {
	c := sample()
	want := c.Digest()
	c.Directories[0], c.Directories[1] = c.Directories[1], c.Directories[0]
	c.Directories[0].Owner = ""
	c.Files[0], c.Files[1] = c.Files[1], c.Files[0]
	c.Files[0].Content = []byte{}
	c.Images[0].Refs = []string{"n/a:1", "n/b:1"}
	c.Users = []string{"backup", "etcd", "etcd"}
	c.Modules = []string{"br_netfilter", "overlay", "overlay"}
	c.Units[0].DropIns = []DropIn{{"a.conf", "1"}, {"b.conf", "2"}}
	c.Units[0].Watches = []string{"/a", "/b"}
	if got := c.Digest(); got != want {
		t.Errorf("digest changed with order: %s, then %s", want, got)
	}
}

func TestDigestSeesEveryChange(t *testing.T) {
	changes := map[string]func(*Config){
		"machine":   func(c *Config) { c.Machine = "other" },
		"directory": func(c *Config) { c.Directories[0].Mode = 0o700 },
		"content":   func(c *Config) { c.Files[0].Content = []byte("z") },
		"renewed":   func(c *Config) { c.Files[0].RenewedAt = "/b" },
		"binary":    func(c *Config) { c.Binaries[0].Size++ },
		"image":     func(c *Config) { c.Images[0].Refs[0] = "n/c:1" },
		"module":    func(c *Config) { c.Modules[0] = "vxlan" },
		"user":      func(c *Config) { c.Users[0] = "other" },
		"private":   func(c *Config) { c.Units[0].Private = true },
		"sysctl":    func(c *Config) { c.Sysctls["net.ipv4.ip_forward"] = "0" },
		"drop-in":   func(c *Config) { c.Units[0].DropIns[0].Content = "3" },
		"order":     func(c *Config) { c.Units[0], c.Units[1] = c.Units[1], c.Units[0] },
		"enabled":   func(c *Config) { c.Units[1].Enabled = true },
	}
	base := sample().Digest()
	for name, change := range changes {
		c := sample()
		change(&c)
		if c.Digest() == base {
			t.Errorf("%s: the digest does not change", name)
		}
	}
	c := sample()
	c.Digest()
	if c.Files[0].Path != "/etc/b/x" || c.Images[0].Refs[0] != "n/b:1" {
		t.Error("Digest changed the configuration it was asked about")
	}
}

func TestMerge(t *testing.T) {
	a := Config{Machine: "m", Files: []File{{Path: "/f", Mode: 0o644, Content: []byte("1")}}, Sysctls: map[string]string{"a.b": "1"},
		Units: []Unit{{Name: "x.service", Content: "c", Active: true}}}
	b := Config{Files: a.Files, Modules: []string{"overlay"}, Sysctls: map[string]string{"a.c": "2"},
		Units: []Unit{{Name: "x.service", Active: true, DropIns: []DropIn{{"a.conf", "1"}}, Watches: []string{"/f"}}, {Name: "y.service"}}}
	got, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Files) != 1 || len(got.Sysctls) != 2 || len(got.Units) != 2 || got.Machine != "m" {
		t.Errorf("merged to %+v", got)
	}
	if u := got.Units[0]; u.Content != "c" || len(u.DropIns) != 1 || len(u.Watches) != 1 {
		t.Errorf("unit merged to %+v", u)
	}
	if len(a.Sysctls) != 1 || len(a.Units[0].Watches) != 0 {
		t.Error("Merge changed its input")
	}
}

func TestMergeConflicts(t *testing.T) {
	cases := map[string][2]Config{
		"file /f":                {{Files: []File{{Path: "/f", Content: []byte("1")}}}, {Files: []File{{Path: "/f", Content: []byte("2")}}}},
		"directory /d":           {{Directories: []Directory{{Path: "/d", Mode: 0o700}}}, {Directories: []Directory{{Path: "/d", Mode: 0o755}}}},
		"binary /b":              {{Binaries: []Binary{{Path: "/b", Digest: "1"}}}, {Binaries: []Binary{{Path: "/b", Digest: "2"}}}},
		"image r":                {{Images: []Image{{Refs: []string{"r"}, Digest: "1"}}}, {Images: []Image{{Refs: []string{"r"}, Digest: "2"}}}},
		"kernel setting k.v":     {{Sysctls: map[string]string{"k.v": "1"}}, {Sysctls: map[string]string{"k.v": "2"}}},
		"unit u.service":         {{Units: []Unit{{Name: "u.service", Content: "1"}}}, {Units: []Unit{{Name: "u.service", Content: "2"}}}},
		"unit e.service":         {{Units: []Unit{{Name: "e.service", Active: true}}}, {Units: []Unit{{Name: "e.service"}}}},
		"machine a":              {{Machine: "a"}, {Machine: "b"}},
		"secret in one of them ": {{Files: []File{{Path: "/s", Secret: true}}}, {Files: []File{{Path: "/s"}}}},
	}
	for what, layers := range cases {
		_, err := Merge(Config{}, layers[0], layers[1])
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		if fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "layers 2 and 3") {
			t.Errorf("%s: error %q names not the thing and both layers", what, err)
		}
		if strings.Contains(err.Error(), "[49]") {
			t.Errorf("%s: error %q shows content", what, err)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := sample().Validate(); err != nil {
		t.Fatalf("the sample is valid, but: %v", err)
	}
	faults := map[string]func(*Config){
		"must be absolute":         func(c *Config) { c.Files[0].Path = "etc/x" },
		"absolute and clean":       func(c *Config) { c.Files[0].Path = "/etc/../x" },
		"claimed twice: as":        func(c *Config) { c.Files[1].Path = "/usr/local/bin/kubelet" },
		"lets others":              func(c *Config) { c.Files[1].Mode = 0o644 },
		"not a permission mode":    func(c *Config) { c.Files[0].Mode = 0 },
		"owner: \"x\"":             func(c *Config) { c.Files[0].Owner = "x" },
		"digest: \"sha256:short\"": func(c *Config) { c.Binaries[0].Digest = "sha256:short" },
		"is not positive":          func(c *Config) { c.Binaries[0].Size = 0 },
		"has sizes":                func(c *Config) { c.Images[0].Size = 6 },
		"has no reference":         func(c *Config) { c.Images[0].Refs = nil },
		"image reference n/a:1":    func(c *Config) { c.Images[0].Refs = []string{"n/a:1", "n/a:1"} },
		"user: \"x y\"":            func(c *Config) { c.Users[0] = "x y" },
		"kernel module":            func(c *Config) { c.Modules[0] = "../x" },
		"kernel setting: ":         func(c *Config) { c.Sysctls["../../etc/passwd"] = "1" },
		"must be one line":         func(c *Config) { c.Sysctls["a.b"] = "1\nc.d=2" },
		"unit: \"x\"":              func(c *Config) { c.Units[0].Name = "x" },
		"drop-in: ":                func(c *Config) { c.Units[0].DropIns[0].Name = "../a.conf" },
		"not an absolute path":     func(c *Config) { c.Units[0].Watches[0] = "b" },
		"keeps its own":            func(c *Config) { c.Files[0].Path = StateKey },
		"which is a file":          func(c *Config) { c.Files[0].Path = "/etc/a/y/z" },
	}
	for want, spoil := range faults {
		c := sample()
		spoil(&c)
		err := c.Validate()
		if err == nil || fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("want a fault with %q, got: %v", want, err)
		}
	}
}
