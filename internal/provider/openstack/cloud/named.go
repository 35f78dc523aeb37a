package cloud

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/settings"
)

// namedFile stands for the clouds.yaml of a credential.
const namedFile = "/credential/clouds.yaml"

// namedSource reads a credential's clouds.yaml, no other settings and no variable. The server's administrator wrote it, so it may name files with
// certificates.
func namedSource(n provider.NamedCloud) settings.Source {
	return settings.Source{
		Getenv: func(name string) string {
			if name == "OS_CLIENT_CONFIG_FILE" {
				return namedFile
			}
			return ""
		},
		ReadFile: func(path string) ([]byte, error) {
			switch filepath.Ext(path) {
			case ".yaml", ".yml", ".json":
				if path == namedFile {
					return n.YAML, nil
				}
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			return os.ReadFile(path)
		},
		Home: func() (string, error) { return "", fs.ErrNotExist },
	}
}

// pick returns the name of the selected cloud: the only one if the document names none.
func pick(n provider.NamedCloud, cloud string) (string, error) {
	var all struct {
		Clouds map[string]any `yaml:"clouds"`
	}
	if yaml.Unmarshal(n.YAML, &all) != nil || len(all.Clouds) == 0 { // the error could repeat a password
		return "", fail.New(fail.Invalid, "credential %s holds no clouds.yaml", n.Name).Do("its value needs clouds: with one entry for each cloud")
	}
	if names := slices.Sorted(maps.Keys(all.Clouds)); cloud == "" && len(names) == 1 {
		return names[0], nil
	}
	if cloud == "" {
		return "", fail.New(fail.Invalid, "credential %s holds %d clouds", n.Name, len(all.Clouds)).Do("name one in spec.provider.openstack.cloud")
	}
	return cloud, nil
}

// ReadNamed is ReadLogin for the clouds.yaml of a named credential. It reads no variables and no other clouds.yaml.
func ReadNamed(n provider.NamedCloud, cloud, region string) (Login, error) {
	cloud, err := pick(n, cloud)
	if err != nil {
		return Login{}, err
	}
	l, err := LoginFrom(namedSource(n), cloud, region)
	l.Source = `cloud "` + cloud + `" of credential ` + n.Name
	if err != nil && quotesSecret(n.YAML, err.Error()) {
		return l, fail.New(fail.Invalid, "%s can't be read", l.Source).Do("openstack --os-cloud NAME token issue tries the file") // cause withheld: it quotes a secret
	}
	if err != nil {
		return l, fail.Wrap(fail.KindOf(err), err, "read %s", l.Source)
	}
	return l, n.Allowed(l.Options.IdentityEndpoint)
}

// CACertNamed is CACert for the clouds.yaml of a named credential.
func CACertNamed(n provider.NamedCloud, cloud, region string) (string, error) {
	cloud, err := pick(n, cloud)
	if err != nil {
		return "", err
	}
	s, err := settings.Trust(namedSource(n), cloud, region)
	return string(s.CACert), err
}

// ClientCertificateNamed is ClientCertificate for the clouds.yaml of a named credential.
func ClientCertificateNamed(n provider.NamedCloud, cloud, region string) (cert, key []byte, err error) {
	if cloud, err = pick(n, cloud); err != nil {
		return nil, nil, err
	}
	s, err := settings.Trust(namedSource(n), cloud, region)
	return s.Cert, s.Key, err
}

// secretKeys match the settings whose values are secret.
var secretKeys = regexp.MustCompile(`(?i)password|passcode|secret|token`)

// quotesSecret reports whether a text repeats a secret of a clouds.yaml, or the file can't be searched for its secrets.
func quotesSecret(file []byte, text string) bool {
	var root yaml.Node
	if yaml.Unmarshal(file, &root) != nil {
		return true
	}
	var found func(n *yaml.Node) bool
	found = func(n *yaml.Node) bool {
		for i, c := range n.Content {
			secret := n.Kind == yaml.MappingNode && i%2 == 1 && secretKeys.MatchString(n.Content[i-1].Value)
			if secret && c.Value != "" && strings.Contains(text, c.Value) || found(c) {
				return true
			}
		}
		return false
	}
	return found(&root)
}
