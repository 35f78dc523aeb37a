package handover

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/within"
)

// The files of a handover, except the WireGuard configurations, which have a directory of their own.
const (
	ReadmeFile     = "README.md"
	KubeconfigFile = "kubeconfig"
	SSHConfigFile  = "ssh_config"
	KnownHostsFile = "known_hosts"
	KeyFile        = "id_ed25519"
	CloudsFile     = "clouds.yaml"
	CloudCAFile    = "cloud-ca.crt" // next to clouds.yaml, which names it
	WireGuardDir   = "wireguard"
	PKIDir         = "pki"          // of a cluster that is released: authorities and keys, named as kubeadm does
	DocumentFile   = "cluster.yaml" // of a released cluster: as last applied
)

// markFile identifies a handover, and lists its files.
const markFile = ".naupegos-handover"

type record struct {
	Cluster string    `json:"cluster"`
	Made    time.Time `json:"made"`
	Files   []string  `json:"files"` // slash-separated, this one left out
}

// Write atomically writes files as the directory dir, of mode 0700 with files of mode 0600. It fills an empty directory. With force it replaces
// an earlier handover without foreign files; everything else in that place gives fail.Refused.
func Write(dir, cluster string, files map[string][]byte, now time.Time, force bool) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return fail.Wrap(fail.Invalid, err, "directory %s", dir)
	}
	replace, err := checkPlace(dir, force)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fail.Wrap(fail.Refused, err, "make directory %s", filepath.Dir(dir))
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-") // 0700
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write beside %s", dir)
	}
	defer func() { // after an exchange, the former one
		if e := os.RemoveAll(tmp); err == nil && e != nil {
			err = fail.Wrap(fail.Refused, e, "remove %s, which holds secrets", tmp).Do("remove it by hand")
		}
	}()
	mark, err := json.Marshal(record{Cluster: cluster, Made: now, Files: slices.Sorted(maps.Keys(files))})
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write %s", markFile)
	}
	all := maps.Clone(files)
	all[markFile] = append(mark, '\n')
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !filepath.IsLocal(filepath.FromSlash(name)) { // a server may have named it
			return fail.New(fail.Refused, "%q is not a name of a file of a handover", name).At(dir)
		}
		if err := writePrivate(filepath.Join(tmp, filepath.FromSlash(name)), all[name]); err != nil {
			return fail.Wrap(fail.Refused, err, "write %s", name).At(dir)
		}
	}
	if replace {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	} else {
		err = unix.Rename(tmp, dir) // fills an empty directory, fails where something came into it
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "put the handover at %s", dir)
	}
	return nil
}

// CheckPlace reports in advance whether Write would refuse the place.
func CheckPlace(dir string, force bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "directory %s", dir)
	}
	_, err = checkPlace(dir, force)
	return err
}

// Released reports whether dir contains the handover of a release of this cluster, which a continued release may replace.
func Released(dir, cluster string) bool {
	rec, err := readMark(dir)
	return err == nil && rec.Cluster == cluster && slices.ContainsFunc(rec.Files, func(name string) bool { return strings.HasPrefix(name, PKIDir+"/") })
}

// maxMark is how many bytes a mark may have.
const maxMark = 1 << 20

func readMark(dir string) (rec record, err error) {
	in, err := within.Open(dir)
	if err != nil {
		return rec, err
	}
	defer in.Close() // read only
	data, err := in.Read(markFile, maxMark)
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	return rec, err
}

// checkPlace reports whether dir is an earlier handover to replace, and refuses other occupied places.
func checkPlace(dir string, force bool) (replace bool, err error) {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fail.Wrap(fail.Refused, err, "look at %s", dir)
	case !info.IsDir():
		return false, fail.New(fail.Refused, "%s exists and is not a directory", dir).Do("name another place")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fail.Wrap(fail.Refused, err, "look into %s", dir)
	}
	if len(entries) == 0 {
		return false, nil
	}
	rec, err := readMark(dir)
	if err != nil {
		return false, fail.Wrap(fail.Refused, err, "%s contains something other than a handover", dir).Do("name another directory")
	}
	if !force {
		return false, fail.New(fail.Refused, "%s holds the handover of cluster %s of %s", dir, rec.Cluster, day(rec.Made)).Do("--force replaces it; or name another directory")
	}
	return true, foreignFiles(dir, rec.Files)
}

// foreignFiles refuses a handover that contains files of others.
func foreignFiles(dir string, own []string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if name := filepath.ToSlash(rel); err == nil && name != markFile && !slices.Contains(own, name) {
			return fail.New(fail.Refused, "%s is not of the handover, and would be lost", path).Do("move it away first")
		}
		return err
	})
	if fail.KindOf(err) == fail.Refused {
		return err
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "look into %s", dir)
	}
	return nil
}

// writePrivate writes a file that only its owner may read, to the disk, and the directories above it.
func writePrivate(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Sync(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// Names lists the files of a handover for people, secrets marked.
func Names(files map[string][]byte) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, WireGuardDir+"/") || slices.Contains([]string{KubeconfigFile, KeyFile, CloudsFile}, name) {
			name += " (secret)"
		}
		out = append(out, name)
	}
	return out
}
