package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
)

// seedDir is where cloud-init's NoCloud data source looks for a seed on the disk.
const seedDir = "var/lib/cloud/seed/nocloud"

// seed holds the files that cloud-init reads when a machine boots.
type seed struct {
	userData, metaData, networkConfig []byte
}

// renderSeed renders a machine's seed. If userData is empty, it renders user-data that lets keys log in as root.
// "dsmode: local" makes cloud-init do all its work in its first stage, before the network is up: one Python start
// instead of four.
func renderSeed(r record, instance string, userData []byte, keys []string, resolvers []netip.Addr) (seed, error) {
	if len(userData) == 0 {
		var err error
		if userData, err = machine.CloudInit(machine.UserData{Hostname: r.Name, SSHKeys: keys}); err != nil {
			return seed{}, err
		}
	}
	var meta, net bytes.Buffer
	fmt.Fprintf(&meta, "instance-id: %s\nlocal-hostname: %s\ndsmode: local\n", yamlString(instance), yamlString(r.Name))
	fmt.Fprintf(&net, "version: 2\nethernets:\n  host0:\n    addresses: [%s]\n    gateway4: %s\n    accept-ra: false\n    dhcp4: false\n",
		yamlString(r.Address), yamlString(r.Gateway))
	if len(resolvers) > 0 {
		var list []string
		for _, a := range resolvers {
			list = append(list, yamlString(a.String()))
		}
		fmt.Fprintf(&net, "    nameservers: {addresses: [%s]}\n", strings.Join(list, ", "))
	}
	return seed{userData: userData, metaData: meta.Bytes(), networkConfig: net.Bytes()}, nil
}

// yamlString renders a YAML double-quoted scalar; a JSON string is also valid YAML.
func yamlString(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic("local: marshal string: " + err.Error()) // a string always marshals
	}
	return string(data)
}

// cloudImageFiles are put on the disks of machines that behave like cloud images; see Options.CloudImage.
var cloudImageFiles = map[string]string{
	"etc/systemd/system/naupegos-cloud-final.timer.d/10-at-once.conf": "[Timer]\nOnBootSec=\nOnBootSec=0\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
	"etc/cloud/cloud.cfg.d/95-naupegos-cloud-image.cfg":               "# made by naupegos\ncloud_final_modules: [write-files-deferred, scripts-user, keys-to-console, final-message]\n",
}
