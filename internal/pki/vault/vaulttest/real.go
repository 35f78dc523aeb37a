package vaulttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	module  = "github.com/naupegos/naupegos"
	version = "v1.21.4" // the version in server/go.mod
	build   = "2"       // increase it when the module server changes, because existing builds are reused
)

// Program returns the path of Vault, which it builds from the module server unless it was built before. The first build takes ten minutes.
var Program = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "naupegos", "tools", "vault-"+version+"-"+build)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	root, err := run("", "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "naupegos-vault-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	server, part := filepath.Join(dir, "server"), fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part)
	if err := os.CopyFS(server, os.DirFS(filepath.Join(root, "internal/pki/vault/vaulttest/server"))); err != nil {
		return "", err
	}
	if err := mend(server, filepath.Join(dir, "vault")); err != nil {
		return "", err
	}
	_, err = run(server, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", part, ".")
	if err != nil {
		return "", err
	}
	return path, os.Rename(part, path)
})

// mend replaces Vault's release in a module by a copy with two lines adapted to the sdk that the module proxy has for it: the sdk in the
// release's own repository is not a separate module. The lines concern the deduplication of identities.
func mend(server, copied string) error {
	const released = "github.com/hashicorp/vault"
	if _, err := run(server, "go", "mod", "download", released); err != nil {
		return err
	}
	at, err := run(server, "go", "list", "-m", "-f", "{{.Dir}}", released)
	if err != nil {
		return err
	}
	if err := os.CopyFS(copied, os.DirFS(at)); err != nil {
		return err
	}
	for file, lines := range map[string][2]string{
		"identity_store.go": {"ActivationFunc: iStore.activateDeduplication,",
			"ActivationFunc: func(ctx context.Context, r *logical.Request, _ string) error { return iStore.activateDeduplication(ctx, r) },"},
		"logical_system_activation_flags.go": {"ActivationFunc(ctx, nil)", `ActivationFunc(ctx, nil, "")`},
	} {
		path := filepath.Join(copied, "vault", file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil { // files copied from the module cache are read-only
			return err
		}
		if err := os.WriteFile(path, bytes.Replace(text, []byte(lines[0]), []byte(lines[1]), 1), 0o600); err != nil {
			return err
		}
	}
	_, err = run(server, "go", "mod", "edit", "-replace", released+"="+copied)
	return err
}

// run runs a program in a directory, and returns its output.
func run(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, args[0], err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Server is a real Vault with its data on disk, initialized and unsealed.
type Server struct {
	Address string
	Root    string // a token that may do everything
	Bin     string // a directory with the vault command

	t      *testing.T
	dir    string
	unseal string
	cmd    *exec.Cmd
}

// Start starts a Server that ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	program := testkit.Value(Program())(t)
	s := &Server{t: t, dir: t.TempDir(), Bin: t.TempDir()}
	testkit.Must(t, os.Symlink(program, filepath.Join(s.Bin, "vault")))
	s.Address = fmt.Sprintf("http://127.0.0.1:%d", testkit.FreePort(t))
	s.Run()
	t.Cleanup(s.Stop)
	var keys struct {
		Keys []string `json:"keys_base64"`
		Root string   `json:"root_token"`
	}
	s.call(http.MethodPut, "sys/init", map[string]int{"secret_shares": 1, "secret_threshold": 1}, &keys)
	s.unseal, s.Root = keys.Keys[0], keys.Root
	s.Unseal()
	return s
}

// Run starts the server, sealed; after Stop it starts it again.
func (s *Server) Run() {
	s.t.Helper()
	log := testkit.Value(os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(s.t)
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(s.Bin, "vault"), "server", filepath.Join(s.dir, "data"), strings.TrimPrefix(s.Address, "http://"))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(s.t, s.cmd.Start())
	testkit.Until(s.t, time.Minute, 50*time.Millisecond, func() error {
		res, err := http.Get(s.Address + "/v1/sys/seal-status")
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
}

// Stop kills the server, like a power cut.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Seal seals the server.
func (s *Server) Seal() { s.t.Helper(); s.call(http.MethodPut, "sys/seal", nil, nil) }

// Unseal unseals the server, and waits until it serves.
func (s *Server) Unseal() {
	s.t.Helper()
	s.call(http.MethodPut, "sys/unseal", map[string]string{"key": s.unseal}, nil)
	testkit.Until(s.t, 30*time.Second, 50*time.Millisecond, func() error {
		res, err := http.Get(s.Address + "/v1/sys/health")
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil || res.StatusCode == http.StatusOK {
			return err
		}
		return errors.New(res.Status)
	})
}

// Script runs a shell script with root's token for its vault command, and returns the output.
func (s *Server) Script(script string) string {
	s.t.Helper()
	out, err := s.Try(script)
	testkit.Must(s.t, err)
	return out
}

// Try is like Script, but for scripts that may fail.
func (s *Server) Try(script string) (string, error) {
	cmd := exec.Command("sh", "-s")
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+s.Bin+":"+os.Getenv("PATH"), "VAULT_ADDR="+s.Address, "VAULT_TOKEN="+s.Root, "HOME="+s.dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s%s", err, out, said.String())
	}
	return string(out), err
}

// call makes a call that must succeed.
func (s *Server) call(method, path string, in, out any) {
	s.t.Helper()
	r := testkit.Value(http.NewRequestWithContext(s.t.Context(), method, s.Address+"/v1/"+path, bytes.NewReader(testkit.Value(json.Marshal(in))(s.t))))(s.t)
	r.Header.Set("X-Vault-Token", s.Root)
	res, err := http.DefaultClient.Do(r)
	testkit.Must(s.t, err)
	defer res.Body.Close()
	data := testkit.Value(io.ReadAll(res.Body))(s.t)
	if res.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s: %s", method, path, res.Status, data)
	}
	if out != nil {
		testkit.Must(s.t, json.Unmarshal(data, out))
	}
}
