package layout

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
	"github.com/naupegos/naupegos/internal/testkit"
)

// testSettings sets at least one setting of every program.
func testSettings() Settings {
	return Settings{
		APIServer: Program{
			Gates: map[string]bool{"AllBeta": true},
			Args:  []Argument{{"event-ttl", "2h"}, {"cors-allowed-origins", "//a$"}, {"cors-allowed-origins", "//b$"}, {"profiling", "true"}},
			Files: []ProgramFile{{Flag: "admission-control-config-file", Name: "admission.yaml", Content: "plugins: []\n"}},
		},
		ControllerManager: Program{Args: []Argument{{"concurrent-service-syncs", "2"}, {"concurrent-deployment-syncs", "9"}}},
		Scheduler:         Program{Config: map[string]any{"podMaxBackoffSeconds": 20}},
		Kubelet:           Program{Config: map[string]any{"maxPods": 200, "cpuManagerPolicy": "static"}, Gates: map[string]bool{"NodeSwap": true, "AllAlpha": false}, Args: []Argument{{"v", "4"}}},
		KubeProxy:         Program{Config: map[string]any{"mode": "iptables"}},
		Etcd:              Program{Args: []Argument{{"quota-backend-bytes", "1"}}, Gates: map[string]bool{"LeaseCheckpoint": true}},
		EnablePlugins:     []string{"AlwaysPullImages", "NoSuchPlugin"}, DisablePlugins: []string{"DenyServiceExternalIPs"},
		AuditWebhook: true,
	}
}

func textOf(t *testing.T, c machine.Config, path string) string {
	t.Helper()
	i := slices.IndexFunc(c.Files, func(f machine.File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("%s has no %s", c.Machine, path)
	}
	return string(c.Files[i].Content)
}

// TestSettings: settings reach the programs of a machine and kubeadm's records.
func TestSettings(t *testing.T) {
	p := testParams()
	p.Settings = testSettings()
	c := render(t, p, testPKI(t, testTime), 0)
	testkit.Must(t, c.Validate())
	for path, want := range map[string][]string{
		manifestOf("kube-apiserver"): {"--event-ttl=2h\n", "--cors-allowed-origins=//a$\n", "--cors-allowed-origins=//b$\n", "--feature-gates=AllBeta=true\n",
			"--enable-admission-plugins=NodeRestriction,AlwaysPullImages\n", "--disable-admission-plugins=DenyServiceExternalIPs\n",
			"--admission-control-config-file=/etc/kubernetes/naupegos/admission.yaml\n", "--profiling=true\n"},
		manifestOf("kube-controller-manager"): {"--concurrent-deployment-syncs=9\n"},
		manifestOf("kube-scheduler"):          {"--config=" + schedulerConfigPath + "\n", "mountPath: " + schedulerConfigPath},
		manifestOf("etcd"):                    {"--quota-backend-bytes=1\n", "--feature-gates=InitialCorruptCheck=true,LeaseCheckpoint=true\n"},
		kubeletConfigPath:                     {"maxPods: 200\n", "cpuManagerPolicy: static\n", "  NodeSwap: true\n"},
		kubeletFlagsPath:                      {" --v=4\""},
		schedulerConfigPath:                   {"podMaxBackoffSeconds: 20\n", "enableProfiling: false\n", "kubeconfig: " + schedulerConf},
		KubeadmConfigPath: {"name: concurrent-deployment-syncs", "maxPods: 200", "mode: iptables", "name: quota-backend-bytes", "name: v\n",
			"hostPath: " + schedulerConfigPath},
	} {
		text := textOf(t, c, path)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", path, w, text)
			}
		}
		for _, name := range []string{"event-ttl=", "profiling=", "quota-backend-bytes=", "--feature-gates="} {
			if n := strings.Count(text, name); n > 1 {
				t.Errorf("%s has %s %d times", path, name, n)
			}
		}
	}
	if text := textOf(t, c, manifestOf("kube-controller-manager")); strings.Contains(text, "concurrent-service-syncs") {
		t.Errorf("1.37 does not know the flag:\n%s", text)
	}
}

// TestSettingsOfOlderMachine: a machine of an older minor gets only the settings that its own release knows.
func TestSettingsOfOlderMachine(t *testing.T) {
	p := testParams()
	p.Settings = testSettings()
	member := p.ControlPlanes[1]
	member.Release = testRelease("v1.36.4")
	c := testkit.Value(p.ControlPlane(t.Context(), testPKI(t, testTime), member, p.NewEtcd()))(t)
	if text := textOf(t, c, manifestOf("kube-controller-manager")); !strings.Contains(text, "concurrent-service-syncs") {
		t.Errorf("1.36 knows the flag:\n%s", text)
	}
	// During an upgrade the newer servers emulate the older minor: they get only flags that both know.
	p.Servers = Servers{Release: testRelease(release.Default), Emulates: "1.36"}
	p.Settings.ControllerManager.Args = append(p.Settings.ControllerManager.Args, Argument{"concurrent-disruption-syncs", "3"})
	c = testkit.Value(p.ControlPlane(t.Context(), testPKI(t, testTime), member, p.NewEtcd()))(t)
	if text := textOf(t, c, manifestOf("kube-controller-manager")); strings.Contains(text, "concurrent-service-syncs") || strings.Contains(text, "concurrent-disruption-syncs") {
		t.Errorf("not both know the flags:\n%s", text)
	}
}

// TestPoolSettings: a machine's own kubelet settings override the cluster's, and kubeadm's records contain the cluster's.
func TestPoolSettings(t *testing.T) {
	p := testParams()
	p.Settings = testSettings()
	n := testWorker(p)
	n.Kubelet = &Program{Config: map[string]any{"maxPods": 50}}
	c := testkit.Value(p.Worker(t.Context(), testPKI(t, testTime), n))(t)
	var config map[string]any
	testkit.Must(t, yaml.Unmarshal([]byte(textOf(t, c, kubeletConfigPath)), &config))
	if config["maxPods"] != 50.0 || config["cpuManagerPolicy"] != nil {
		t.Errorf("%v", config)
	}
}

// TestKubeletCredentialProviders: kubelet restarts when the configuration of its credential providers changes.
func TestKubeletCredentialProviders(t *testing.T) {
	const config = "/etc/kubelet-credentials/config.yaml"
	for _, want := range []bool{false, true} {
		p := testParams()
		if want {
			p.Settings.Kubelet.Args = []Argument{{flags.CredentialConfig, config}, {flags.CredentialPrograms, "/usr/local/libexec/kubelet-credentials"}}
		}
		c := render(t, p, testPKI(t, testTime), 0)
		i := slices.IndexFunc(c.Units, func(u machine.Unit) bool { return u.Name == "kubelet.service" })
		if got := slices.Contains(c.Units[i].Watches, config); got != want {
			t.Errorf("kubelet watches %v", c.Units[i].Watches)
		}
	}
}

// TestSettingsRemoved: removing all settings restores the machine's original configuration, and kubelet forgets its managers' state.
func TestSettingsRemoved(t *testing.T) {
	p := testParams()
	k := testPKI(t, testTime)
	before := string(dump(render(t, p, k, 0)))
	p.Settings = testSettings()
	with := string(dump(render(t, p, k, 0)))
	p.Settings = Settings{Kubelet: Program{Config: map[string]any{}}}
	after := string(dump(render(t, p, k, 0)))
	if before != after || with == before {
		t.Error("the machine differs from what it was before")
	}
	if static, none := forgetManagers(testSettings().Kubelet), forgetManagers(Program{}); static == none || !strings.Contains(none, "cpu_manager_state") {
		t.Errorf("%s%s", static, none)
	}
}

// TestOurFlagsAreRefused: extraArgs can't override a flag that kubeadm or Naupegos sets because the cluster depends on it.
func TestOurFlagsAreRefused(t *testing.T) {
	p := testParams()
	n := p.ControlPlanes[0]
	free := []string{"snapshot-count", "watch-progress-notify-interval"}
	for program, args := range map[string][]arg{
		flags.APIServer: append(p.apiServerBaseArgs(n), arg{"authentication-config", ""}, arg{"kubelet-certificate-authority", ""}), flags.Scheduler: schedulerBaseArgs(),
		flags.ControllerManager: p.controllerManagerBaseArgs("", ""), flags.Etcd: etcdBaseArgs(n, p.NewEtcd()), flags.Kubelet: kubeletExtraArgs(p, n),
	} {
		for _, a := range args {
			if flags.Instead(program, a.Name) == "" && !slices.Contains(free, a.Name) {
				t.Errorf("%s: --%s can be replaced", program, a.Name)
			}
		}
	}
}

// TestSetFlagsAreSet: Naupegos sets each flag that extraArgs refuse "because Naupegos sets them".
func TestSetFlagsAreSet(t *testing.T) {
	p := testParams()
	start := p.NewEtcd()
	start.State = "existing"
	c := testkit.Value(p.ControlPlane(t.Context(), testPKI(t, testTime), p.ControlPlanes[0], start))(t)
	for _, program := range []string{flags.APIServer, flags.ControllerManager, flags.Scheduler, flags.Etcd} {
		text := textOf(t, c, manifestOf(program))
		for _, name := range flags.Set(program) {
			if !strings.Contains(text, " --"+name+"=") {
				t.Errorf("%s does not get --%s", program, name)
			}
		}
	}
}

// TestReads: a pod mounts the directories of the files that its flags name, restarts when the files change, and kubeadm's records have the mounts.
func TestReads(t *testing.T) {
	k := testPKI(t, testTime)
	of := func(content string) machine.Config {
		p := testParams()
		p.Settings.APIServer = Program{
			Args: []Argument{{"egress-selector-config-file", "/etc/kube-apiserver/egress.yaml"}, {"tls-sni-cert-key", "/etc/sni/a.crt,/etc/sni/a.key:a"}, {"peer-ca-file", pkiDir + "/ca.crt"}},
			Reads: []machine.File{{Path: "/etc/kube-apiserver/egress.yaml", Content: []byte(content)}, {Path: "/etc/sni/a.crt"}, {Path: "/etc/sni/a.key"},
				{Path: pkiDir + "/ca.crt"}, {Path: "/etc/ssl/certs/site/a.pem"}},
		}
		p.Settings.ControllerManager = Program{Args: []Argument{{"tls-sni-cert-key", "/etc/sni/a.crt,/etc/sni/a.key"}}, Reads: []machine.File{{Path: "/etc/sni/a.crt"}, {Path: "/etc/sni/a.key"}}}
		p.Settings.Scheduler = p.Settings.ControllerManager
		c := render(t, p, k, 0)
		testkit.Must(t, c.Validate())
		return c
	}
	c, other := of("a"), of("b")
	for program, dirs := range map[string][]string{flags.APIServer: {"/etc/kube-apiserver", "/etc/sni"}, flags.ControllerManager: {"/etc/sni"}, flags.Scheduler: {"/etc/sni"}} {
		text := textOf(t, c, manifestOf(program))
		for _, dir := range dirs {
			if strings.Count(text, "mountPath: "+dir+"\n      name: files-") != 1 || strings.Count(text, "path: "+dir+"\n      type: DirectoryOrCreate") != 1 {
				t.Errorf("%s does not mount %s once:\n%s", program, dir, text)
			}
		}
		if strings.Contains(text, "mountPath: /etc/ssl/certs/site") || strings.Count(text, "mountPath: "+pkiDir+"\n") > 1 {
			t.Errorf("%s mounts a directory twice:\n%s", program, text)
		}
		if same := text == textOf(t, other, manifestOf(program)); same == (program == flags.APIServer) {
			t.Errorf("%s: a changed file leaves the manifest as it is: %v", program, same)
		}
	}
	if text := textOf(t, c, KubeadmConfigPath); strings.Count(text, "hostPath: /etc/sni\n") != 3 || strings.Count(text, "hostPath: /etc/kube-apiserver\n") != 1 {
		t.Errorf("kubeadm's record lacks mounts:\n%s", text)
	}
}

// TestNodeMask: the controller manager and kubeadm's record contain NodeCIDRMaskSize, unless it is the default.
func TestNodeMask(t *testing.T) {
	k := testPKI(t, testTime)
	usual := string(dump(render(t, testParams(), k, 0)))
	p := testParams()
	p.NodeCIDRMaskSize = 24
	if string(dump(render(t, p, k, 0))) != usual {
		t.Error("the default changes a machine")
	}
	p.NodeCIDRMaskSize = 22
	c := render(t, p, k, 0)
	if !strings.Contains(textOf(t, c, manifestOf("kube-controller-manager")), "--node-cidr-mask-size=22\n") || !strings.Contains(textOf(t, c, KubeadmConfigPath), "name: node-cidr-mask-size\n") {
		t.Error("a /22 reaches the controller manager or kubeadm not")
	}
}
