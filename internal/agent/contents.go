package agent

import (
	"io"
	"os"

	"github.com/naupegos/naupegos/internal/machine"
)

// describe adds the old and new contents of files and kernel settings to the changes of a dry run. On a machine that was never configured, everything
// is new and there is nothing to compare.
func describe(a *Agent, changes []machine.Change, d *diff, st *state) {
	if len(st.Paths) == 0 {
		return
	}
	files := map[string]*op{}
	for _, o := range d.files {
		files[o.path] = o
	}
	settings := map[string]sysctlOp{}
	for _, s := range d.sysctls {
		settings[s.key] = s
	}
	for i := range changes {
		ch := &changes[i]
		if s, ok := settings[ch.Name]; ok && ch.Kind == "sysctl" {
			ch.From, ch.To = &machine.Content{Text: &s.old}, &machine.Content{Text: &s.value}
		} else if o := files[ch.Name]; o != nil {
			describeFile(a, ch, o, st.Paths[o.path].Secret || d.managed[o.path].Secret)
		} else if s, ok := st.Paths[ch.Name]; ok && ch.Action == "remove" && s.Kind == "file" {
			ch.From, ch.Secret = contentAt(a, ch.Name, s.Secret)
		}
	}
}

// describeFile adds the contents of one file. The file counts as secret if it was or will be secret.
func describeFile(a *Agent, ch *machine.Change, o *op, secret bool) {
	ch.From, ch.Secret = contentAt(a, o.path, secret)
	ch.Secret = ch.Secret || machine.Sensitive(o.content)
	ch.To = &machine.Content{Mode: machine.Octal(o.mode)}
	if !ch.Secret {
		ch.To = machine.ContentOf(o.content, o.mode)
	} else if ch.From != nil {
		ch.From.Text, ch.From.Size, ch.From.Digest = nil, 0, ""
	}
}

// contentAt describes the file at a path, without the content of a secret; nil if there is no regular file.
func contentAt(a *Agent, p string, secret bool) (c *machine.Content, isSecret bool) {
	f, err := os.Open(a.path(p))
	if err != nil {
		return nil, secret
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, secret
	}
	c = &machine.Content{Mode: machine.Octal(info.Mode()), Modified: info.ModTime().UTC()}
	if secret {
		return c, true
	}
	if info.Size() > mostRead {
		c.Size = info.Size()
		return c, false
	}
	data, err := io.ReadAll(io.LimitReader(f, mostRead))
	if err != nil || machine.Sensitive(data) {
		return c, true
	}
	at := c.Modified
	c = machine.ContentOf(data, info.Mode())
	c.Modified = at
	return c, false
}

// mostRead is the maximum size in bytes of a file that a dry run digests.
const mostRead = 64 << 20
