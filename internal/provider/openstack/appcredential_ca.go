package openstack

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// caCert returns the certificates (PEM) that the user's settings name for checking the cloud's; empty where they name none. gophercloud
// reads them, but does not tell what it has read.
func (p *Provider) caCert() (string, error) {
	file := os.Getenv("OS_CACERT")
	if name := cmp.Or(p.spec().Cloud, os.Getenv("OS_CLOUD")); name != "" {
		data, err := os.ReadFile(cloudsFile())
		if err != nil {
			return "", fail.Wrap(fail.Invalid, err, "read the clouds' settings")
		}
		var all struct {
			Clouds map[string]struct {
				CACert string `yaml:"cacert"`
			} `yaml:"clouds"`
		}
		if err := yaml.Unmarshal(data, &all); err != nil {
			return "", fail.Wrap(fail.Invalid, err, "read %s", cloudsFile())
		}
		file = cmp.Or(all.Clouds[name].CACert, file)
	}
	if file == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fail.Wrap(fail.Invalid, err, "find %s", file)
		}
		file = filepath.Join(home, rest)
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the certificates of the cloud's authority")
	}
	return string(pem), nil
}
