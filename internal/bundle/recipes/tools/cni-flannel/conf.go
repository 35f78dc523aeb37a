package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

const (
	defaultSubnetFile  = "/run/flannel/subnet.env"
	defaultDataDir     = "/var/lib/cni/flannel"
	defaultWaitSeconds = 60
)

// conf is the plugin's configuration: upstream's keys and waitSeconds.
type conf struct {
	types.PluginConf
	SubnetFile    string         `json:"subnetFile"`
	DataDir       string         `json:"dataDir"`
	WaitSeconds   *int           `json:"waitSeconds"` // how long ADD waits for SubnetFile
	Delegate      map[string]any `json:"delegate"`
	RuntimeConfig map[string]any `json:"runtimeConfig"`
}

func loadConf(stdin []byte) (*conf, error) {
	c := &conf{SubnetFile: defaultSubnetFile, DataDir: defaultDataDir}
	if err := json.Unmarshal(stdin, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "read the network configuration", err.Error())
	}
	if c.WaitSeconds == nil {
		wait := defaultWaitSeconds
		c.WaitSeconds = &wait
	}
	for _, key := range []string{"name", "ipam"} {
		if _, ok := c.Delegate[key]; ok {
			return nil, invalid("delegate must not set %q, which this plugin sets", key)
		}
	}
	if t, ok := c.Delegate["type"]; ok {
		if _, isString := t.(string); !isString {
			return nil, invalid("delegate's type must be a string")
		}
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(format, args...), "")
}

// subnet is what flannel says about this machine.
type subnet struct {
	networks []*net.IPNet // of all pods
	subnets  []*net.IPNet // of this machine's pods
	mtu      uint64
	ipMasq   bool // flannel masquerades
}

// parseSubnet reads subnet.env. Its subnets are written with the gateway's address (10.244.1.1/24), which is masked off.
func parseSubnet(data string) (*subnet, error) {
	s := &subnet{}
	for line := range strings.Lines(data) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || value == "" {
			continue
		}
		var err error
		switch key {
		case "FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK":
			s.networks, err = appendNets(s.networks, value)
		case "FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET":
			s.subnets, err = appendNets(s.subnets, value)
		case "FLANNEL_MTU":
			s.mtu, err = strconv.ParseUint(value, 10, 32)
		case "FLANNEL_IPMASQ":
			s.ipMasq, err = strconv.ParseBool(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(s.networks) == 0 || len(s.subnets) == 0 || s.mtu == 0 {
		return nil, fmt.Errorf("FLANNEL_NETWORK, FLANNEL_SUBNET or FLANNEL_MTU is missing")
	}
	return s, nil
}

func appendNets(nets []*net.IPNet, value string) ([]*net.IPNet, error) {
	for _, cidr := range strings.Split(value, ",") {
		_, n, err := net.ParseCIDR(cidr)
		if err != nil {
			return nil, err
		}
		nets = append(nets, n)
	}
	return nets, nil
}

// delegate returns the configuration of the plugin that does the work, completed with what flannel says.
func (c *conf) delegate(s *subnet) ([]byte, error) {
	d := map[string]any{"type": "bridge", "ipMasq": !s.ipMasq, "mtu": s.mtu}
	for k, v := range c.Delegate {
		d[k] = v
	}
	if _, ok := d["isGateway"]; !ok && d["type"] == "bridge" {
		d["isGateway"] = true
	}
	d["name"] = c.Name
	if c.CNIVersion != "" {
		d["cniVersion"] = c.CNIVersion
	}
	if c.RuntimeConfig != nil {
		d["runtimeConfig"] = c.RuntimeConfig
	}
	var ranges [][]map[string]string
	for _, n := range s.subnets {
		ranges = append(ranges, []map[string]string{{"subnet": n.String()}})
	}
	var routes []map[string]string
	for _, n := range s.networks {
		routes = append(routes, map[string]string{"dst": n.String()})
	}
	d["ipam"] = map[string]any{"type": "host-local", "ranges": ranges, "routes": routes}
	return json.Marshal(d)
}

func readSubnet(path string) (*subnet, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := parseSubnet(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
