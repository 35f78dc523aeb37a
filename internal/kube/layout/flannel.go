package layout

import (
	_ "embed" // for flannel's manifest
	"encoding/json"
	"net"
	"strings"
	"text/template"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// FlannelConflistPath is the path of the pod network's configuration on machines.
const FlannelConflistPath = cniConfDir + "/10-flannel.conflist"

// FlannelConflist returns the pod network's configuration. It is the same on every machine, because the flannel plugin reads the
// machine's subnet from a file of flanneld. The flannel image's install-cni would write the same content.
func FlannelConflist() string { return string(bundle.FlannelConflist()) }

//go:embed manifests/flannel.yaml
var flannelManifest string

// Flannel renders flannel's manifests: VXLAN between the interfaces with the nodes' addresses, and masquerading of pods' outbound traffic.
func (p Params) Flannel() ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	image, err := p.Release.image("flannel")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(p.Endpoint)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the endpoint")
	}
	netConf, err := json.Marshal(map[string]any{
		"Network": p.PodCIDR, "EnableNFTables": true, "Backend": map[string]string{"Type": "vxlan"},
	})
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render flannel's network")
	}
	t, err := template.New("flannel").Option("missingkey=error").Parse(flannelManifest)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read flannel's manifest")
	}
	var out strings.Builder
	values := map[string]any{"Image": image.Ref, "Host": host, "Port": port, "NetConf": string(netConf), "Env": ConnectionEnv()}
	if err := t.Execute(&out, values); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render flannel's manifest")
	}
	return []byte(out.String()), nil
}
