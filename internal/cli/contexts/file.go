// Package contexts reads and writes the user's configuration file, whose contexts say where clusters are kept, and selects one of them.
//
// It opens no store and sends no request to a server.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/userdir"
)

// Context is one named place where clusters are kept: a server, a team's database, or a state directory.
// Keys in the file are named after the flags.
type Context struct {
	Name      string `yaml:"name" json:"name"`
	Server    string `yaml:"server,omitempty" json:"server,omitempty"`
	ServerCA  string `yaml:"server-ca,omitempty" json:"serverCA,omitempty"`
	TokenFile string `yaml:"token-file,omitempty" json:"tokenFile,omitempty"` // a path: the file never holds a token
	Store     string `yaml:"store,omitempty" json:"store,omitempty"`
	StateDir  string `yaml:"state-dir,omitempty" json:"stateDir,omitempty"`
	Cluster   string `yaml:"cluster,omitempty" json:"cluster,omitempty"` // default for NAME
}

// located reports whether the context names a place; a context without one means this user's own store.
func (c *Context) located() bool { return c.Server != "" || c.Store != "" || c.StateDir != "" }

// place describes, for messages, where the context's clusters are.
func (c *Context) place() string {
	for _, at := range []string{c.Server, c.Store, c.StateDir} {
		if at != "" {
			return at
		}
	}
	return "this user's own store"
}

// Selection is a context with a default cluster.
type Selection struct {
	Context string `yaml:"context"`
	Cluster string `yaml:"cluster,omitempty"`
}

// File is the configuration file.
type File struct {
	Current  string     `yaml:"current,omitempty"`
	Previous *Selection `yaml:"previous,omitempty"` // `naupegos use -` returns to it
	Contexts []Context  `yaml:"contexts,omitempty"`

	path string
}

// own is the name of the context for this user's own store; the file has no entry for it until a cluster is chosen.
const own = "default"

// Path returns the path of the configuration file, $XDG_CONFIG_HOME/naupegos/config.yaml, or "" if this user has no home.
func Path() string {
	dir, err := userdir.Config()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "config.yaml")
}

// Read reads the configuration file; a missing file is an empty one.
func Read(path string) (*File, error) {
	f := &File{path: path}
	if path == "" {
		return f, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the configuration file")
	}
	if info.Mode().Perm()&0o022 != 0 { // its writers choose who gets this user's token
		return nil, fail.New(fail.Refused, "other users may write the configuration file (mode %04o)", info.Mode().Perm()).At(path).Do("chmod 600 %s", path)
	}
	return f, f.parse(data)
}

// position matches the line number in an error of the YAML library.
var position = regexp.MustCompile(`line (\d+): (.*)`)

// parse reads the file strictly. Errors name file and line; all wrong fields are reported together.
func (f *File) parse(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(f)
	switch {
	case errors.Is(err, io.EOF): // empty, or comments only
		return nil
	case err == nil:
		if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
			return f.wrong(data, 0, "there is more than one document in it")
		}
		return f.check(data)
	}
	var typed *yaml.TypeError
	all := []string{err.Error()}
	if errors.As(err, &typed) {
		all = typed.Errors
	}
	for i, text := range all {
		if at := position.FindStringSubmatch(text); at != nil {
			all[i] = at[1] + ": " + inWords(at[2])
		}
	}
	return fail.New(fail.Invalid, "%s:%s", f.path, strings.Join(all, "\n"+f.path+":")).Do("fix the file, or remove it: naupegos use --add writes another one")
}

// unknown matches the YAML library's error about an unknown field.
var unknown = regexp.MustCompile(`^field (\S+) not found in type contexts\.(\w+)$`)

// inWords rewrites an error of the YAML library without names of Go types.
func inWords(text string) string {
	at := unknown.FindStringSubmatch(text)
	if strings.HasPrefix(text, "cannot unmarshal") { // the library repeats the value
		return "a value of another kind belongs here"
	}
	if at == nil {
		return strings.TrimPrefix(text, "yaml: ")
	}
	known := map[string][]string{
		"File": {"current", "previous", "contexts"}, "Selection": {"context", "cluster"},
		"Context": {"name", "server", "server-ca", "token-file", "store", "state-dir", "cluster"},
	}[at[2]]
	if at[1] == "token" {
		return "a token never lies in this file; name a file that holds it: token-file"
	}
	if near := fail.Nearest(at[1], known); near != "" {
		return fmt.Sprintf("there is no field %s; did you mean %s?", at[1], near)
	}
	return fmt.Sprintf("there is no field %s; there are %s", at[1], strings.Join(known, ", "))
}

// wrong returns an error at the line of the nth context, or about the whole file if n is negative.
func (f *File) wrong(data []byte, n int, problem string, args ...any) error {
	where := f.path
	var lines struct {
		Contexts []yaml.Node `yaml:"contexts"`
	}
	if yaml.Unmarshal(data, &lines) == nil && n >= 0 && n < len(lines.Contexts) {
		where = fmt.Sprintf("%s:%d", f.path, lines.Contexts[n].Line)
	}
	return fail.New(fail.Invalid, "%s: %s", where, fmt.Sprintf(problem, args...))
}

// check refuses contexts that contradict themselves or each other.
func (f *File) check(data []byte) error {
	for i := range f.Contexts {
		c := &f.Contexts[i]
		if err := c.Check(); err != nil {
			return f.wrong(data, i, "%v", err)
		}
		if slices.ContainsFunc(f.Contexts[:i], func(o Context) bool { return o.Name == c.Name }) {
			return f.wrong(data, i, "there are two contexts %s", c.Name)
		}
	}
	if f.Current != "" && f.Current != own && f.context(f.Current) == nil {
		return f.wrong(data, -1, "current: there is no context %q%s", f.Current, f.known(f.Current))
	}
	return nil
}

// name matches valid names of contexts, which can't be mistaken for a flag, a path or `-`.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]*$`)

// Check refuses a context that names two places or holds a secret.
func (c *Context) Check() error {
	switch {
	case !name.MatchString(c.Name):
		return fail.New(fail.Invalid, "%q is no name of a context", c.Name).Do("use letters, digits and . _ @ -")
	case c.Server != "" && c.Store != "":
		return fail.New(fail.Invalid, "context %s names a server and a store", c.Name).Do("a server has a store of its own: leave one out")
	case c.Server == "" && (c.ServerCA != "" || c.TokenFile != ""):
		return fail.New(fail.Invalid, "context %s has server-ca or token-file, but no server", c.Name).Do("add server: https://HOST:PORT")
	case c.Server != "" && !strings.HasPrefix(c.Server, "https://"):
		return fail.New(fail.Invalid, "the server of context %s does not begin with https://", c.Name)
	case c.Store != "" && !strings.HasPrefix(c.Store, "postgres://") && !strings.HasPrefix(c.Store, "postgresql://"):
		return fail.New(fail.Invalid, "the store of context %s does not begin with postgres://", c.Name).Do("state-dir names a directory")
	case hasPassword(c.Store):
		return fail.New(fail.Invalid, "the store of context %s holds a password", c.Name).Do("leave it out; ~/.pgpass or $PGPASSWORD gives it")
	}
	return nil
}

// hasPassword reports whether an address contains a secret.
func hasPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return strings.Contains(address, "@") // perhaps a mistyped address with a password
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// context returns the context of this name, or nil.
func (f *File) context(name string) *Context {
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i]
		}
	}
	return nil
}

// names lists the contexts' names.
func (f *File) names() (names []string) {
	for i := range f.Contexts {
		names = append(names, f.Contexts[i].Name)
	}
	return names
}

// known returns the end of a message about an unknown context: a suggestion, or the known names.
func (f *File) known(name string) string {
	if near := fail.Nearest(name, f.names()); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(f.Contexts) == 0 {
		return "; there are none yet: naupegos use --add NAME --server https://HOST:PORT adds one"
	}
	return "; there are " + strings.Join(f.names(), ", ")
}

// write replaces the file. If root writes into a user's home (sudo -E), the user keeps owning the file and its directory.
func (f *File) write() error {
	if f.path == "" {
		return fail.New(fail.Invalid, "this user has no place for a configuration file").Do("set $HOME or $XDG_CONFIG_HOME")
	}
	data, err := yaml.Marshal(f)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the configuration file")
	}
	data = append([]byte("# Contexts of naupegos; `naupegos use` changes it. Keys are named after flags.\n"), data...)
	dir := filepath.Dir(f.path)
	owner, err := userdir.Owner(dir)
	if err == nil {
		err = userdir.Make(dir, 0o700)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write the configuration file").At(f.path)
	}
	if err := wholefile.Replace(f.path, data, 0o600); err != nil {
		return err
	}
	if os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	for _, path := range []string{dir, f.path} {
		if err := os.Lchown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return fail.Wrap(fail.Refused, err, "leave the configuration file to its user").At(path)
		}
	}
	return nil
}
