//go:build openstack

package openstack

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// atOnce is how many tests speak to the test bed at a time: most of their time is waiting.
const atOnce = "4"

// onBed holds the state that all tests on the test bed share: the environment is the process's, and so is its clouds.yaml.
var onBed struct {
	once sync.Once
	err  error
	bed  *bed.Bed
	file string

	mu     sync.Mutex
	clouds map[string]any
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // which the command line may say otherwise
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if onBed.file != "" {
		if err := os.RemoveAll(filepath.Dir(onBed.file)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// useCloud has the test speak to the test bed of test/openstack, and never to a cloud that the user's environment names, beside other
// tests that do. Those that set the environment for themselves have ended then.
func useCloud(t *testing.T) *bed.Bed {
	t.Helper()
	t.Parallel()
	onBed.once.Do(func() { onBed.err = enterBed() })
	testkit.Must(t, onBed.err)
	return onBed.bed
}

func enterBed() (err error) {
	if onBed.bed, err = bed.Open(bed.Options{}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "naupegos-clouds-")
	if err != nil {
		return err
	}
	onBed.file = filepath.Join(dir, "clouds.yaml")
	if onBed.clouds, err = readClouds(onBed.bed.CloudsYAML()); err != nil {
		return err
	}
	return errors.Join(writeClouds(), os.Setenv("OS_CLIENT_CONFIG_FILE", onBed.file), os.Setenv("OS_CLOUD", bed.Cloud))
}

// addCloud has tests know an entry of another clouds.yaml by a name that no other test uses.
func addCloud(t *testing.T, name, file, entry string) {
	t.Helper()
	clouds, err := readClouds(file)
	testkit.Must(t, err)
	if clouds[entry] == nil {
		t.Fatalf("%s has no cloud %s", file, entry)
	}
	onBed.mu.Lock()
	defer onBed.mu.Unlock()
	if onBed.clouds[name] != nil {
		t.Fatalf("there is a cloud %s already", name)
	}
	onBed.clouds[name] = clouds[entry]
	testkit.Must(t, writeClouds())
}

func readClouds(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all struct {
		Clouds map[string]any `json:"clouds"`
	}
	return all.Clouds, yaml.Unmarshal(text, &all)
}

// writeClouds puts a new file in the old one's place, for others read it meanwhile.
func writeClouds() error {
	text, err := yaml.Marshal(map[string]any{"clouds": onBed.clouds})
	if err != nil {
		return err
	}
	next := onBed.file + ".new"
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, onBed.file))
}
