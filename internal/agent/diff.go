package agent

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// op is one difference between the host and the configuration, with the data to remove it.
type op struct {
	machine.Change
	path     string // answers of programs, by the beginning of the command
	content  []byte // what the kernel can load, and the effect
	write    bool   // the content must be written; otherwise only mode and owner are set
	mode     fs.FileMode
	owner    string // as in the configuration
	uid, gid int    // noOwner if the account does not exist yet
	target   string // of a binary's symlink
	link     string // path of a link to the written file; empty: none
}

// found describes the file at a path.
type found struct {
	info     fs.FileInfo
	uid, gid int
}

func (a *Agent) look(p string) (*found, error) {
	info, err := os.Lstat(a.path(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fileError(err, "look at", p)
	}
	f := &found{info: info}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.uid, f.gid = int(st.Uid), int(st.Gid)
	}
	return f, nil
}

// attributes describes how mode and owner differ; empty if they do not.
func (f *found) attributes(mode fs.FileMode, uid, gid int) string {
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	switch have := f.info.Mode() & bits; {
	case have != mode:
		return fmt.Sprintf("mode %s → %s", machine.Octal(have), machine.Octal(mode))
	case uid == noOwner:
		return fmt.Sprintf("owner %d:%d → an account that is made first", f.uid, f.gid)
	case f.uid != uid || f.gid != gid:
		return fmt.Sprintf("owner %d:%d → %d:%d", f.uid, f.gid, uid, gid)
	}
	return ""
}

func (a *Agent) resolve(owner, where string) (int, int, error) {
	if owner == "" {
		owner = machine.DefaultOwner
	}
	uid, gid, err := a.owner(owner)
	if err != nil {
		return 0, 0, fail.Wrap(fail.Invalid, err, "find the owner").At(where).Do("create the account, or name the owner by number")
	}
	return uid, gid, nil
}

func (a *Agent) diffDirectory(all *diff, d machine.Directory) (*op, error) {
	uid, gid, err := a.ownerOf(all, d.Owner, d.Path)
	if err != nil {
		return nil, err
	}
	o := &op{path: d.Path, mode: d.Mode, owner: d.Owner, uid: uid, gid: gid}
	info, err := os.Stat(a.path(d.Path)) // a symlink to a directory suffices
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.Change = machine.Change{Kind: "directory", Name: d.Path, Action: "create"}
		return o, nil
	case err != nil:
		return nil, fileError(err, "look at", d.Path)
	case !info.IsDir():
		return nil, fail.New(fail.Conflict, "a directory is wanted in place of a file").At(d.Path).Do("move the file away, then run again")
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	f := &found{info: info, uid: int(st.Uid), gid: int(st.Gid)}
	if why := f.attributes(d.Mode, uid, gid); why != "" {
		o.Change = machine.Change{Kind: "directory", Name: d.Path, Action: "update", Why: why}
		return o, nil
	}
	return nil, nil
}

func (a *Agent) diffFile(all *diff, w wantedFile) (*op, error) {
	uid, gid, err := a.ownerOf(all, w.Owner, w.Path)
	if err != nil {
		return nil, err
	}
	f, err := a.look(w.Path)
	if err != nil {
		return nil, err
	}
	o := &op{path: w.Path, content: w.Content, mode: w.Mode, owner: w.Owner, uid: uid, gid: gid, write: true}
	o.Change = machine.Change{Kind: w.kind, Name: w.Path, Action: "update"}
	if w.RenewedAt != "" {
		if o.Why, err = a.unusable(w.RenewedAt, w.Authority); err != nil || o.Why == "" {
			return nil, err
		}
		o.link = w.RenewedAt
	}
	switch {
	case f == nil:
		o.Action = "create"
		return o, nil
	case w.RenewedAt != "":
		return o, nil
	case f.info.IsDir():
		return nil, fail.New(fail.Conflict, "a file is wanted in place of a directory").At(w.Path).Do("move the directory away, then run again")
	case !f.info.Mode().IsRegular():
		o.Why = "was " + f.info.Mode().Type().String() + ", no regular file"
		return o, nil
	}
	same := f.info.Size() == int64(len(w.Content))
	if same {
		have, err := os.ReadFile(a.path(w.Path))
		if err != nil {
			return nil, fileError(err, "read", w.Path)
		}
		same = bytes.Equal(have, w.Content)
	}
	if !same {
		o.Why = "content differs"
		return o, nil
	}
	if o.Why = f.attributes(w.Mode, uid, gid); o.Why != "" {
		o.write = false
		return o, nil
	}
	return nil, nil
}

// unusable returns why the file at p, with links followed, is not a currently valid certificate signed by the authority, if one is given; "" if it is
// one.
func (a *Agent) unusable(p string, authority []byte) (string, error) {
	data, err := os.ReadFile(a.path(p))
	if errors.Is(err, fs.ErrNotExist) {
		return "no certificate at " + p, nil
	}
	if err != nil {
		return "", fileError(err, "read", p)
	}
	cert, err := certificateIn(data)
	if err != nil {
		return "what lies at " + p + " is no certificate: " + err.Error(), nil
	}
	if end := cert.NotAfter; time.Now().After(end) {
		return fmt.Sprintf("the certificate at %s expired at %s", p, end.UTC().Format(time.RFC3339)), nil
	}
	if len(authority) == 0 {
		return "", nil
	}
	by, err := certificateIn(authority)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the authority of the certificate").At(p)
	}
	if cert.CheckSignatureFrom(by) != nil {
		return "the certificate at " + p + " is of another authority", nil
	}
	return "", nil
}

// certificateIn returns the first certificate in PEM data.
func certificateIn(data []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(data)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, errors.New("it holds no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// diffLink compares a link: one into the blob store, for a binary, or one that the configuration contains.
func (a *Agent) diffLink(kind, p, to string) (*op, error) {
	f, err := a.look(p)
	if err != nil {
		return nil, err
	}
	o := &op{path: p, target: to}
	o.Change = machine.Change{Kind: kind, Name: p, Action: "update"}
	switch {
	case f == nil:
		o.Action = "create"
		return o, nil
	case f.info.IsDir():
		return nil, fail.New(fail.Conflict, "a %s is wanted in place of a directory", kind).At(p).Do("move the directory away, then run again")
	case f.info.Mode()&fs.ModeSymlink == 0:
		o.Why = "was no link"
		return o, nil
	}
	target, err := os.Readlink(a.path(p))
	if err != nil {
		return nil, fileError(err, "read", p)
	}
	if target != o.target {
		o.Why = "links to another file"
		return o, nil
	}
	return nil, nil
}
