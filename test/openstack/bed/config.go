package bed

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/naupegos/naupegos/internal/fail"
)

//go:embed etc/*.tmpl
var templates embed.FS

//go:embed all:plugins
var plugins embed.FS

// settings is the data of the configuration templates.
type settings struct {
	Address, Region, Etc, Var, Broker string
	VolumeZone                        string
	Ports                             ports
	Catalog                           []entry
	Secrets                           secrets
	User, Password                    string // of the service being rendered; set by the template function "as"
}

// configs maps each template to the path of its rendered file below etc.
var configs = map[string]string{
	"keystone.conf": "keystone", "glance-api.conf": "glance", "placement.conf": "placement", "nova.conf": "nova",
	"neutron.conf": "neutron", "ml2_conf.ini": "neutron", "cinder.conf": "cinder", "octavia.conf": "octavia", "rabbitmq.conf": "rabbitmq",
	"designate.conf": "designate", "pools.yaml": "designate", "named.conf": "bind", "rndc.key": "bind", "haproxy.cfg": "haproxy",
}

func (b *Bed) settings() settings {
	return settings{
		Address: b.o.Address, Region: region, Etc: b.etc(), Var: b.state(), Ports: inner, Catalog: catalog, Secrets: b.secrets,
		VolumeZone: VolumeZone,
		Broker:     fmt.Sprintf("rabbit://naupegos:%s@127.0.0.1:%d/", b.secrets.Broker, inner.Broker),
	}
}

func databaseURL(s settings, user, name string) string {
	return fmt.Sprintf("mysql+pymysql://%s:%s@127.0.0.1:%d/%s?charset=utf8", user, s.Secrets.Database, s.Ports.Database, name)
}

// render returns the content of every configuration file by its name.
func render(s settings) (map[string][]byte, error) {
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"db": func(user, name string) string { return databaseURL(s, user, name) },
		"as": func(user string) settings { s := s; s.User, s.Password = user, s.Secrets.Service; return s },
	}).ParseFS(templates, "etc/*.tmpl")
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name := range configs {
		var text bytes.Buffer
		if err := t.ExecuteTemplate(&text, name+".tmpl", s); err != nil {
			return nil, err
		}
		out[name] = text.Bytes()
	}
	return out, nil
}

// configure writes what the services read: the packages' own files (paste, policy, rootwrap) with the bed's configuration over them, the plugins,
// and a file for each fake compute host.
func configure(ctx context.Context, b *Bed) error {
	for _, dir := range []string{b.etc(), b.plugins()} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := b.makeDirs(); err != nil {
		return err
	}
	for _, service := range []string{"keystone", "glance", "placement", "nova", "neutron", "cinder", "octavia", "designate"} {
		if out, err := exec.CommandContext(ctx, "cp", "-rT", "/etc/"+service, filepath.Join(b.etc(), service)).CombinedOutput(); err != nil {
			return fail.Wrap(fail.Internal, err, "copy /etc/%s: %s", service, bytes.TrimSpace(out))
		}
	}
	rendered, err := render(b.settings())
	if err != nil {
		return fail.Wrap(fail.Internal, err, "render the configuration")
	}
	for name, text := range rendered {
		if err := write(filepath.Join(b.etc(), configs[name], name), text, 0o600); err != nil {
			return err
		}
	}
	if err := chown(filepath.Join(b.etc(), "rabbitmq", "rabbitmq.conf"), "rabbitmq"); err != nil {
		return err
	}
	for _, h := range Hosts {
		conf := fmt.Sprintf("[DEFAULT]\nhost = %s\nstate_path = %s\n", h.Name, filepath.Join(b.state(), "nova", h.Name))
		if err := write(filepath.Join(b.etc(), "nova", h.Name+".conf"), []byte(conf), 0o600); err != nil {
			return err
		}
	}
	if err := write(b.MetadataSecretFile(), []byte(b.secrets.Metadata+"\n"), 0o600); err != nil {
		return err
	}
	return writePlugins(b)
}

func writePlugins(b *Bed) error {
	return fs.WalkDir(plugins, "plugins", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := plugins.ReadFile(path)
		if err != nil {
			return err
		}
		return write(filepath.Join(b.plugins(), strings.TrimPrefix(path, "plugins/")), data, 0o644)
	})
}
