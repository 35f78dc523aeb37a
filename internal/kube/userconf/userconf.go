// Package userconf writes kubeconfigs for people: under the cluster's name, merged into their own, or without a secret.
package userconf

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/naupegos/naupegos/internal/fail"
)

// Name gives the context and user of a kubeconfig the names that Merge gives them.
func Name(conf []byte, name, user string) ([]byte, error) {
	from, err := clientcmd.Load(conf)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the kubeconfig of cluster %s", name)
	}
	at := from.Contexts[from.CurrentContext]
	now, login := ContextName(name, user), name+"-"+cmp.Or(user, "admin")
	to := clientcmdapi.NewConfig()
	to.Clusters[name], to.AuthInfos[login] = from.Clusters[at.Cluster], from.AuthInfos[at.AuthInfo]
	to.Contexts[now], to.CurrentContext = &clientcmdapi.Context{Cluster: name, AuthInfo: login}, now
	return clientcmd.Write(*to)
}

// Merge adds the cluster, user and context of conf to the kubeconfig that kubectl uses, under the cluster's name, and makes the
// context current. For the administrator, user is empty; other users get a context USER@NAME. Entries of other clusters stay: it refuses to replace one that
// another context uses. It returns the file's path, whether a context of this name existed, and the server that this context led to if that was another
// cluster. The file is replaced atomically with mode 0600; if root merges, its owner stays.
func Merge(conf []byte, name, user string) (path string, replaced bool, other string, err error) {
	from, err := clientcmd.Load(conf)
	if err != nil {
		return "", false, "", fail.Wrap(fail.Internal, err, "read the kubeconfig of cluster %s", name)
	}
	at := from.Contexts[from.CurrentContext]
	path, err = kubectlsFile()
	if err != nil {
		return "", false, "", err
	}
	to, err := clientcmd.LoadFromFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		to = clientcmdapi.NewConfig()
	case err != nil:
		return "", false, "", fail.Wrap(fail.Invalid, err, "read the kubeconfig to merge into").At(path).
			Do("mend it, or use --file")
	}
	login := name + "-" + cmp.Or(user, "admin")
	now := ContextName(name, user)
	was, replaced := to.Clusters[name], to.Contexts[now] != nil
	if was != nil && anotherCluster(was, from.Clusters[at.Cluster]) {
		if by := foreignUser(to, name); by != "" {
			return "", false, "", fail.New(fail.Conflict, "context %s uses the cluster entry %s, which leads to %s", by, name, was.Server).At(path).
				Do("use --file, or merge into another file: KUBECONFIG=FILE")
		}
		if replaced {
			other = was.Server
		}
	}
	to.Clusters[name] = from.Clusters[at.Cluster]
	to.AuthInfos[login] = from.AuthInfos[at.AuthInfo]
	to.Contexts[now] = &clientcmdapi.Context{Cluster: name, AuthInfo: login}
	to.CurrentContext = now
	data, err := clientcmd.Write(*to)
	if err != nil {
		return "", false, "", fail.Wrap(fail.Internal, err, "render the merged kubeconfig")
	}
	return path, replaced, other, replacePrivately(path, data)
}

// kubectlsFile returns the file that kubectl adds to: of several in $KUBECONFIG the first that exists. A link to it stays, even if the file does not exist yet.
func kubectlsFile() (string, error) {
	path := cmp.Or(clientcmd.NewDefaultPathOptions().GetDefaultFilename(), clientcmd.RecommendedHomeFile) // KUBECONFIG=: names none
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // read or made later
	case info.IsDir():
		return "", fail.New(fail.Invalid, "is a directory, not a kubeconfig").At(path).Do("name a file in $KUBECONFIG, or use --file")
	case info.Mode().Perm()&0o200 == 0:
		return "", fail.New(fail.Refused, "the kubeconfig to merge into is read-only").At(path).Do("chmod u+w %s, or use --file", path)
	}
	return path, nil
}

// anotherCluster reports whether two entries lead to different clusters: a cluster keeps its server's address if its authority is rotated, and its authority
// if its address changes.
func anotherCluster(a, b *clientcmdapi.Cluster) bool {
	return a.Server != b.Server && !bytes.Equal(a.CertificateAuthorityData, b.CertificateAuthorityData)
}

// foreignUser returns a context that uses the cluster entry and was not merged by this program, or "".
func foreignUser(to *clientcmdapi.Config, cluster string) string {
	for _, context := range slices.Sorted(maps.Keys(to.Contexts)) {
		c := to.Contexts[context]
		user, has := strings.CutSuffix(context, "@"+cluster)
		mine := c.AuthInfo == cluster+"-admin" && context == cluster || has && c.AuthInfo == cluster+"-"+user
		if c.Cluster == cluster && !mine {
			return context
		}
	}
	return ""
}

// ContextName returns the name that Merge gives the context of a cluster's user; an empty user is the administrator.
func ContextName(cluster, user string) string {
	if user == "" {
		return cluster
	}
	return user + "@" + cluster
}

// replacePrivately replaces a file atomically, with mode 0600. A new file belongs to the owner of its directory, which matters when root
// works in another user's home.
func replacePrivately(path string, data []byte) (err error) {
	refused := func(err error) error {
		return fail.Wrap(fail.Refused, err, "write the merged kubeconfig").At(path).Do("use --file")
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return refused(err)
		}
		if err := sameOwner(dir, filepath.Dir(dir)); err != nil {
			return refused(err)
		}
	}
	f, err := os.CreateTemp(dir, ".config-*") // 0600
	if err != nil {
		return refused(err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return refused(err)
	}
	like := path
	if _, err := os.Stat(path); err != nil {
		like = dir
	}
	if err := sameOwner(f.Name(), like); err != nil {
		return refused(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return refused(err)
	}
	return nil
}

// sameOwner gives path to the owner of like if this process is root; other users own what they create.
func sameOwner(path, like string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Chown(path, int(st.Uid), int(st.Gid))
}

// Login is the provider and the client with which a person signs in by OpenID Connect.
type Login struct {
	Issuer   string   // URL
	ClientID string   // of a public client
	Scopes   []string // openid among them
	CA       []byte   // certificate (PEM) of the issuer's authority; empty: the system's
	Port     int      // of this machine, for the browser's return; 0: any free port
}

// Exec returns a kubeconfig without a secret: kubectl runs "naupegos get-token" for a token of its user. server is the API's URL, and ca the
// authority of its certificate.
func Exec(cluster, server string, ca []byte, user string, l Login) ([]byte, error) {
	args := []string{"get-token", "--issuer", l.Issuer, "--client-id", l.ClientID, "--scope", strings.Join(l.Scopes, ",")}
	if len(l.CA) > 0 {
		args = append(args, "--issuer-ca-data", base64.StdEncoding.EncodeToString(l.CA))
	}
	if l.Port != 0 {
		args = append(args, "--port", strconv.Itoa(l.Port))
	}
	to, now, login := clientcmdapi.NewConfig(), ContextName(cluster, user), cluster+"-"+user
	to.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	to.AuthInfos[login] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "naupegos", Args: args, InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		InstallHint: "The cluster's users sign in with naupegos: put the program into a directory of $PATH.",
	}}
	to.Contexts[now], to.CurrentContext = &clientcmdapi.Context{Cluster: cluster, AuthInfo: login}, now
	out, err := clientcmd.Write(*to)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the kubeconfig of cluster %s", cluster)
	}
	return out, nil
}
