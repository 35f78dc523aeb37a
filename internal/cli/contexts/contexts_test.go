package contexts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReadRefuses: errors name the line of each mistake in the file, report all wrong fields at once, and never contain a secret.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"contexts:\n- name: a\n  cluter: x\n":     ":3: there is no field cluter; did you mean cluster?",
		"contexts:\n- name: a\n  token: geheim\n": ":3: a token never lies in this file",
		"currant: a\n":                      ":1: there is no field currant; did you mean current?",
		"contexts:\n- name: a\n- name: a\n": ":3: there are two contexts a",
		"contexts:\n- name: a/b\n":          ":2: ",
		"contexts:\n- name: a\n  server: https://x\n  store: postgres://y/z\n":  ":2: ",
		"contexts:\n- name: a\n  store: postgres://u:geheim@y/z\n":              ":2: ",
		"contexts:\n- name: a\n  token-file: /x\n":                              ":2: ",
		"contexts:\n- name: a\n  server: [1]\n":                                 ":3: ",
		"contexts: {a: 1}\n":                                                    ":1: ",
		"contexts:\n- {name: a\n":                                               ":",
		"current: b\n":                                                          "there is no context \"b\"",
		"current: default\n---\ncurrent: default\n":                             "more than one document",
		"contexts:\n- name: a\n  server: https://x\n  server: https://y\n":      ":4: ",
		"contexts:\n- name: a\n  sever: x\n  stor: y\nprevious:\n  cluser: z\n": ":6: there is no field cluser",
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Read(path)
		testkit.Fails(t, err, fail.Invalid, want)
		if err != nil && (!strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "contexts.")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestReadRefusesForeignHands: a file that others can write is refused, because its contexts choose who gets the user's token.
func TestReadRefusesForeignHands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(path, nil, 0o600))
	testkit.Must(t, os.Chmod(path, 0o620))
	_, err := Read(path)
	testkit.Fails(t, err, fail.Refused, "chmod 600")
}

// TestWriteIsPrivate: the written file has mode 0600 and reads back.
func TestWriteIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	f := &File{path: path, Current: "a", Contexts: []Context{{Name: "a", Server: "https://x", Cluster: "demo"}}}
	testkit.Must(t, f.write())
	if info := testkit.Value(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	back := testkit.Value(Read(path))(t)
	if back.Current != "a" || len(back.Contexts) != 1 || back.Contexts[0].Cluster != "demo" {
		t.Errorf("read back: %+v", back)
	}
}

// TestOrder: flags win over the environment, which wins over the file; a context's token and cluster are never used with another place.
func TestOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(`current: prod
contexts:
- {name: prod, server: "https://prod", token-file: /prod-token, server-ca: /prod-ca, cluster: shop}
- {name: default, cluster: demo}
- {name: team, store: "postgres://db/x", cluster: team}
`), 0o600))
	for _, c := range []struct {
		server, store, dir, context string // flags
		env                         map[string]string
		want                        Context
		cluster                     string
	}{
		{want: Context{Name: "prod", Server: "https://prod", TokenFile: "/prod-token", ServerCA: "/prod-ca"}, cluster: "shop"},
		{server: "https://prod", want: Context{Name: "prod", Server: "https://prod", TokenFile: "/prod-token", ServerCA: "/prod-ca"}, cluster: "shop"},
		{server: "https://other", want: Context{Server: "https://other"}},
		{env: map[string]string{"NAUPEGOS_SERVER": "https://other"}, want: Context{Server: "https://other"}},
		{env: map[string]string{"NAUPEGOS_SERVER": "https://other", "NAUPEGOS_TOKEN_FILE": "/mine"}, want: Context{Server: "https://other", TokenFile: "/mine"}},
		{env: map[string]string{"NAUPEGOS_TOKEN_FILE": "/mine"}, want: Context{Name: "prod", Server: "https://prod", TokenFile: "/mine", ServerCA: "/prod-ca"}, cluster: "shop"},
		{dir: "/d", want: Context{StateDir: "/d"}},
		{env: map[string]string{"NAUPEGOS_CONTEXT": "team"}, want: Context{Name: "team", Store: "postgres://db/x"}, cluster: "team"},
		{context: "default", env: map[string]string{"NAUPEGOS_CONTEXT": "team"}, want: Context{Name: "default"}, cluster: "demo"},
		{context: "default", dir: "/d", want: Context{Name: "default", StateDir: "/d"}, cluster: "demo"},
		{env: map[string]string{"NAUPEGOS_CLUSTER": "mine"}, server: "https://other", want: Context{Server: "https://other"}, cluster: "mine"},
	} {
		for _, name := range []string{"NAUPEGOS_SERVER", "NAUPEGOS_SERVER_CA", "NAUPEGOS_STORE", "NAUPEGOS_CONTEXT", "NAUPEGOS_CLUSTER", "NAUPEGOS_TOKEN_FILE"} {
			t.Setenv(name, c.env[name])
		}
		f := &Flags{Server: c.server, Context: c.context, Store: &c.store, StateDir: &c.dir, path: path}
		got := testkit.Value(f.Now())(t)
		cluster, _, err := f.Cluster()
		got.Cluster = ""
		if err != nil || got != c.want || cluster != c.cluster {
			t.Errorf("%+v: %+v, cluster %q, %v", c, got, cluster, err)
		}
	}
}
