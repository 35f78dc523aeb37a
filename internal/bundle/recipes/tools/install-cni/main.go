// Command install-cni runs as init container of flannel and gives a machine the CNI plugins and configuration that it
// lacks. What is there already is left alone: machines that Naupegos configured have everything.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
)

//go:embed 10-flannel.conflist
var conflist []byte

func main() {
	log.SetFlags(0)
	from := flag.String("from", "/usr/libexec/cni", "directory of the plugins to copy")
	bin := flag.String("bin", "/opt/cni/bin", "directory of the machine's plugins")
	conf := flag.String("conf", "/etc/cni/net.d", "directory of the machine's CNI configuration")
	flag.Parse()
	if err := install(*from, *bin, *conf); err != nil {
		log.Fatalf("install-cni: %v", err)
	}
}

// install copies absent plugins and only then writes the configuration, which makes kubelet use them.
func install(from, bin, conf string) error {
	plugins, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("list plugins: %w", err)
	}
	for _, p := range plugins {
		src, err := os.Open(filepath.Join(from, p.Name()))
		if err != nil {
			return err
		}
		err = put(filepath.Join(bin, p.Name()), src, 0o755)
		if err = errors.Join(err, src.Close()); err != nil {
			return fmt.Errorf("copy plugin %s: %w", p.Name(), err)
		}
	}
	if err := put(filepath.Join(conf, "10-flannel.conflist"), bytes.NewReader(conflist), 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// put writes path atomically unless something is there. A link counts even where it dangles: seen from the container it
// leads nowhere, on the machine it leads to the plugin.
func put(path string, content io.Reader, mode fs.FileMode) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".naupegos-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the rename
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	log.Printf("writing %s", path)
	return os.Rename(f.Name(), path)
}
