package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

const env = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"

func TestDelegate(t *testing.T) {
	for _, c := range []struct{ name, env, conf, want string }{
		{"the installed conflist", env,
			`{"cniVersion":"1.0.0","name":"cbr0","type":"flannel","delegate":{"hairpinMode":true,"isDefaultGateway":true}}`,
			`{"cniVersion":"1.0.0","name":"cbr0","type":"bridge","hairpinMode":true,"isDefaultGateway":true,"isGateway":true,"ipMasq":false,"mtu":1450,
			  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.1.0/24"}]],"routes":[{"dst":"10.244.0.0/16"}]}}`},
		{"the delegate's own settings win", env,
			`{"name":"n","delegate":{"type":"ptp","mtu":1400,"ipMasq":true},"runtimeConfig":{"portMappings":[]}}`,
			`{"name":"n","type":"ptp","ipMasq":true,"mtu":1400,"runtimeConfig":{"portMappings":[]},
			  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.1.0/24"}]],"routes":[{"dst":"10.244.0.0/16"}]}}`},
		{"two families, flannel does not masquerade",
			"FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd00::/48\nFLANNEL_IPV6_SUBNET=fd00:0:0:1::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n",
			`{"name":"n"}`,
			`{"name":"n","type":"bridge","isGateway":true,"ipMasq":true,"mtu":1450,
			  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.1.0/24"}],[{"subnet":"fd00:0:0:1::/64"}]],"routes":[{"dst":"10.244.0.0/16"},{"dst":"fd00::/48"}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parseSubnet(c.env)
			if err != nil {
				t.Fatal(err)
			}
			conf, err := loadConf([]byte(c.conf))
			if err != nil {
				t.Fatal(err)
			}
			got, err := conf.delegate(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, c.want), decode(t, string(got))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func decode(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBadInput(t *testing.T) {
	for _, bad := range []string{"", "FLANNEL_MTU=1450", env + "FLANNEL_MTU=big", env + "FLANNEL_SUBNET=10.1", "FLANNEL_NETWORK=10.0.0.0/8\nFLANNEL_SUBNET=10.1.1.1/24"} {
		if s, err := parseSubnet(bad); err == nil {
			t.Errorf("subnet.env %q: no error but %+v", bad, s)
		}
	}
	for _, bad := range []string{"{", `{"delegate":{"name":"x"}}`, `{"delegate":{"ipam":{}}}`, `{"delegate":{"type":3}}`} {
		if _, err := loadConf([]byte(bad)); err == nil {
			t.Errorf("configuration %q: no error", bad)
		}
	}
}

func TestWaitsForFlannel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	go func() {
		time.Sleep(2 * poll)
		if err := os.WriteFile(path, []byte(env), 0o644); err != nil {
			t.Error(err)
		}
	}()
	s, err := waitSubnet(path, 10*time.Second)
	if err != nil || s.mtu != 1450 {
		t.Fatalf("got %+v, %v", s, err)
	}
	_, err = waitSubnet(path+".absent", 0)
	var e *types.Error
	if !errors.As(err, &e) || e.Code != types.ErrTryAgainLater {
		t.Errorf("without flannel: got %v, want the code for trying again later", err)
	}
}

// The life of an attachment with a delegate that records what it is asked.
func TestAddThenDel(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "state")
	write(t, filepath.Join(dir, "subnet.env"), env, 0o644)
	script := "#!/bin/sh\ncat > " + dir + "/$CNI_COMMAND\n[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\":\"1.0.0\",\"ips\":[]}'\nexit 0\n"
	write(t, filepath.Join(dir, "fake"), script, 0o755)
	for k, v := range map[string]string{"CNI_PATH": dir, "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/none", "CNI_IFNAME": "eth0"} {
		t.Setenv(k, v)
	}
	args := &skel.CmdArgs{ContainerID: "c1", StdinData: []byte(`{"cniVersion":"1.0.0","name":"cbr0","type":"flannel","subnetFile":"` + dir + `/subnet.env","dataDir":"` + data + `","delegate":{"type":"fake"}}`)}
	if err := add(args); err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "ADD"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CNI_COMMAND", "DEL")
	if err := os.Remove(filepath.Join(dir, "subnet.env")); err != nil { // DEL must not need it
		t.Fatal(err)
	}
	for range 2 { // and must succeed again
		if err := del(args); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := os.ReadFile(filepath.Join(dir, "DEL"))
	if err != nil || string(taken) != string(asked) {
		t.Errorf("DEL was given %s, ADD %s (%v)", taken, asked, err)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
