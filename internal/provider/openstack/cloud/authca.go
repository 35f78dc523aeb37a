package cloud

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// CACert returns the certificates (PEM) that the user's settings name for checking those of a cloud of clouds.yaml, of $OS_CLOUD where
// none is named; empty where they name none. gophercloud reads them, but does not tell what it has read.
func CACert(cloud string) (string, error) {
	file := os.Getenv("OS_CACERT")
	if name := cmp.Or(cloud, os.Getenv("OS_CLOUD")); file == "" && name != "" {
		for _, f := range []string{filepath.Join(filepath.Dir(cloudsFile()), "secure.yaml"), cloudsFile()} { // the first goes before the second
			named, err := caFileOf(f, name)
			if err != nil {
				return "", err
			}
			file = cmp.Or(file, named)
		}
	}
	return readCACert(file)
}

// readCACert reads the certificates of a file; empty: there are none.
func readCACert(file string) (string, error) {
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

// caFileOf reads what a clouds.yaml or secure.yaml names for a cloud; nothing where there is no such file: login has told by then.
func caFileOf(file, cloud string) (string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var all struct {
		Clouds map[string]struct {
			CACert string `yaml:"cacert"`
		} `yaml:"clouds"`
	}
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the clouds' settings")
	}
	if yaml.Unmarshal(data, &all) != nil { // what it says could repeat a password
		return "", fail.New(fail.Invalid, "%s is not YAML that describes clouds", file)
	}
	return all.Clouds[cloud].CACert, nil
}
