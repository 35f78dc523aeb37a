package userdir

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
)

// mostLinks bounds the symbolic links on the way to a file.
const mostLinks = 40

// Strict refuses files of a directory that another user than root and this one could replace: on the way there, through all symbolic links, everything has
// to belong to one of these two, and only they may write there. Missing files are fine, and so are directories such as /tmp, where each user removes only
// their own files.
func Strict(dir string, files ...string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := walk(dir); err != nil {
		return err
	}
	for _, name := range files {
		if err := walk(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// walk checks an absolute path from its beginning on.
func walk(path string) error {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // this user is about to make it
		}
		if err != nil {
			return fail.Wrap(fail.Refused, err, "find out who may change the state directory")
		}
		if err := owned(at, info); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(at)
			if links++; err != nil || links > mostLinks {
				return fail.Wrap(fail.Refused, errors.Join(err, syscall.ELOOP), "follow the link").At(at)
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(to) {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
		}
		for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

// owned refuses what another user owns or may write to.
func owned(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fail.Wrap(fail.Internal, errors.ErrUnsupported, "find out the owner").At(path)
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		who := "user " + strconv.Itoa(int(st.Uid))
		if u, err := user.LookupId(strconv.Itoa(int(st.Uid))); err == nil {
			who = u.Username
		}
		return fail.New(fail.Refused, "belongs to %s, who could replace the server's store and its keys", who).At(path).
			Do("run the server as %s; or give it to the server's user, with chown -h %d %s, once you know that its files were not changed", who, os.Geteuid(), path)
	}
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0, mode.IsDir() && mode&fs.ModeSticky != 0:
		return nil
	case mode.Perm()&0o002 != 0:
		return fail.New(fail.Refused, "can be changed by all users (mode %04o), who could replace the server's store and its keys", mode.Perm()).At(path).Do("chmod o-w %s, once you know that its files were not changed", path)
	case mode.Perm()&0o020 != 0 && !private(st):
		return fail.New(fail.Refused, "can be changed by group %d (mode %04o), whose members could replace the server's store and its keys", st.Gid, mode.Perm()).At(path).Do("chmod g-w %s, once you know that its files were not changed", path)
	}
	return nil
}

// private reports whether a file's group is root's, or the one that many systems make for the owner alone.
func private(st *syscall.Stat_t) bool {
	if st.Gid == 0 {
		return true
	}
	u, err := user.LookupId(strconv.Itoa(int(st.Uid)))
	if err != nil {
		return st.Gid == st.Uid
	}
	g, err := user.LookupGroupId(strconv.Itoa(int(st.Gid)))
	return err == nil && g.Name == u.Username
}
