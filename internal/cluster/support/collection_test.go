package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// ourSecrets returns secrets of a cluster as its store contains them.
func ourSecrets(t testing.TB) (*memory.Overlay, map[string]string) {
	t.Helper()
	s := memory.NewOverlay(nil)
	k := pki.Open(s, pki.Options{})
	if err := k.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "raw", []byte("\x01\x02\xff0123456789\x80abcdefghijklmnopq")); err != nil {
		t.Fatal(err)
	}
	unlucky := "-----BEGIN EC PRIVATE KEY-----\n" + strings.Repeat("AwEHoUQDQgAERbjlewhXVQLvihQcMRhjDoNWMvjbIhA/bBQ/oKyjqBUOFpjPWiy/\n", 3) + "-----END EC PRIVATE KEY-----\n"
	if err := s.Put(t.Context(), "key without a digit", []byte(unlucky)); err != nil {
		t.Fatal(err)
	}
	planted := map[string]string{}
	names, err := s.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		v, err := s.Get(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(v)), "\n")
		if len(lines) > 3 { // PEM: a line of the key itself
			planted[n+", a line"] = lines[len(lines)-3]
		}
		planted[n+", base64"] = strings.TrimRight(base64.StdEncoding.EncodeToString(v), "=")
		planted[n+", hexadecimal"] = hex.EncodeToString(v)
	}
	return s, planted
}

// foreign returns secrets that are recognisable only by their form, each with the part that must not appear.
func foreign() map[string][2]string {
	body := "MHcCAQEEIBkg4LVWM9nuwNSk3yByxZpYRTBnVJk5GkMkY1ZkP0QzoAoGCCqGSM49"
	key := "-----BEGIN EC PRIVATE KEY-----\n" + body + "\n-----END EC PRIVATE KEY-----\n"
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return map[string][2]string{
		"PEM":                     {key, body},
		"PEM in a journal":        {"Nov 21 host kubelet[1]: " + strings.ReplaceAll(key, "\n", "\nNov 21 host kubelet[1]: "), body},
		"PEM in a JSON string":    {`{"key":"` + strings.ReplaceAll(key, "\n", `\n`) + `"}`, body},
		"OpenSSH":                 {"-----BEGIN OPENSSH PRIVATE KEY-----\n" + body + "\n-----END OPENSSH PRIVATE KEY-----", body},
		"PEM whose end is cut":    {"a line\n-----BEGIN PRIVATE KEY-----\n" + body, body},
		"PEM whose start is cut":  {body + "\n-----END PRIVATE KEY-----\na line", body},
		"PEM in base64":           {"client-key-data: " + b64(key), b64(key)[30:90]},
		"PEM in base64, offset 1": {b64("a" + key), b64("a" + key)[40:90]},
		"PEM in base64, offset 2": {b64("ab" + key), b64("ab" + key)[40:90]},
		"bootstrap token":         {"join --token abcdef.0123456789abcdef now", "0123456789abcdef"},
		"service account token":   {"Authorization: Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl_-x", "eyJpc3MiOiJrdWJlIn0"},
		"half a JWT":              {"token eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0", "eyJpc3MiOiJrdWJlIn0"},
		"password":                {`password="correct-horse-battery-staple"`, "correct-horse"},
		"password in JSON":        {`{"password": "correct-horse-battery-staple"}`, "correct-horse"},
		"certificate key":         {"--certificate-key 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "9f86d081884c7d65"},
		"basic authorization":     {"Authorization: Basic bWU6Y29ycmVjdC1ob3JzZQ==", "bWU6Y29ycmVjdC1ob3JzZQ"},
		"login in an address":     {"dial postgres://naupegos:correct-horse@db.example:5432/naupegos: refused", "correct-horse"},
		"key of an object store":  {"access key AKIAIOSFODNN7EXAMPLE is unknown", "AKIAIOSFODNN7EXAMPLE"},
		"age":                     {"AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQQPZRY9X8GF2TVDW0S3", "QQPZRY9X8GF2TVDW0"},
	}
}

const harmless = `Nov 21 09:00:00 demo-cp-1 kubelet[812]: I1121 09:00:00.123456     812 kubelet.go:2537] "SyncLoop (PLEG): event for pod" pod="kube-system/coredns-c496579d6-cx95l"
Nov 21 09:00:01 demo-cp-1 containerd[300]: time="2026-11-21T09:00:01Z" level=info msg="RunPodSandbox" id=5566753e-ceb6-42d7-96f1-f3e0a08957c2
2026-11-21T09:00:02Z stderr F I1121 serving securely on [::]:6443 cert="/etc/kubernetes/pki/apiserver.crt" secret="kube-system/bootstrap-token"
image naupegos.dev/k8s/pause@sha256:9943015667b7d0a3f0b1f0a9a1c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0
dial tcp https://10.0.0.11:6443/healthz: refused by https://[::1]:6443, ssh://root@10.0.0.11
the token controller started; passwords are not used; system:kube-controller-manager-client
`

func TestRedact(t *testing.T) {
	secrets, planted := ourSecrets(t)
	r, err := NewRedactor(t.Context(), secrets)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range planted {
		if got := string(r.Redact([]byte("before " + p + " after"))); strings.Contains(got, p) || !strings.HasPrefix(got, "before ") {
			t.Errorf("our own secret %s is seen: %s", name, got)
		}
	}
	for name, f := range foreign() {
		if got := string(r.Redact([]byte(f[0]))); strings.Contains(got, f[1]) {
			t.Errorf("%s is seen: %s", name, got)
		}
	}
	if got := string(r.Redact([]byte(harmless))); got != harmless {
		t.Errorf("a harmless text is changed:\n%s", got)
	}
}

// machines answers for machines, with secrets in all its output.
type machines struct {
	says string
	dead map[string]bool
}

func (m machines) Stream(_ context.Context, h remote.Host, _ io.Reader, w io.Writer, argv ...string) error {
	if argv[0] == "find" {
		for i := range 3 {
			fmt.Fprintf(w, "1763715600.%010d /var/log/pods/ns_pod_uid/c/%d.log\n", i, i)
		}
		_, err := io.WriteString(w, "1763715600.9 /var/log/pods/../../../etc/kubernetes/pki/ca.key\n1763715600.9 /etc/shadow\n")
		return err
	}
	if argv[0] == "tail" && !strings.HasPrefix(argv[3], "/var/log/pods/ns_pod_uid/") {
		return fmt.Errorf("asked for %s", argv[3])
	}
	if argv[0] == "free" {
		return errors.New("free: command not found, token=" + "0123456789abcdef0123456789")
	}
	_, err := io.WriteString(w, strings.Join(argv, " ")+"\n"+m.says)
	return err
}

func (m machines) Agent(_ context.Context, h remote.Host, _ func() io.Reader, args ...string) ([]byte, error) {
	if m.dead[h.Name] {
		return nil, fail.New(fail.Unreachable, "connect").At(h.Name)
	}
	return []byte(`{"verb": "` + args[0] + `"}`), nil
}

func TestCollection(t *testing.T) {
	secrets, planted := ourSecrets(t)
	r, err := NewRedactor(t.Context(), secrets)
	if err != nil {
		t.Fatal(err)
	}
	var says strings.Builder
	for _, p := range planted {
		fmt.Fprintln(&says, "leak:", p)
	}
	for _, f := range foreign() {
		if !strings.Contains(f[0], "cut") && strings.Contains(f[0], "BEGIN") == strings.Contains(f[0], "END") {
			fmt.Fprintln(&says, f[0])
		}
	}
	var out bytes.Buffer
	col := &Collection{
		Options: Options{Since: 3600e9, PerFile: 1 << 20}, archive: newArchive(&out, "x", r),
		source: machines{says: says.String(), dead: map[string]bool{"demo-cp-2": true}},
	}
	for _, m := range []provider.Machine{
		{Name: "demo-gw-1", Role: provider.Gateway, State: provider.Running},
		{Name: "demo-cp-1", Role: provider.ControlPlane, State: provider.Running},
		{Name: "demo-cp-2", Role: provider.ControlPlane, State: provider.Running},
		{Name: "demo-a-1", Role: provider.Worker, State: provider.Stopped},
	} {
		col.Machine(t.Context(), m, func() (remote.Host, error) { return remote.Host{Name: m.Name}, nil })
	}
	problems, err := col.Finish()
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, &out)
	all := fmt.Sprint(files, problems)
	for name, p := range planted {
		if strings.Contains(all, p) {
			t.Errorf("our own secret %s is in the archive", name)
		}
	}
	for name, f := range foreign() {
		if strings.Contains(all, f[1]) && strings.Contains(says.String(), f[1]) {
			t.Errorf("%s is in the archive", name)
		}
	}
	if strings.Contains(all, "0123456789abcdef01234") {
		t.Error("a secret in an error is in the archive")
	}
	for _, want := range []string{
		"x/machines/demo-gw-1/journal/haproxy.log", "x/machines/demo-gw-1/journal/keepalived.log", "x/machines/demo-cp-1/journal/kubelet.log",
		"x/machines/demo-cp-1/journal/etcd.log", "x/machines/demo-cp-1/pods/ns_pod_uid/c/2.log", "x/machines/demo-cp-1/facts.json",
		"x/machines/demo-cp-1/agent-status.json", "x/problems.json",
	} {
		if _, ok := files[want]; !ok {
			t.Errorf("%s is missing", want)
		}
	}
	for name := range files {
		if strings.Contains(name, "etc/") || strings.Contains(name, "..") {
			t.Errorf("%s does not belong there", name)
		}
	}
	got := fmt.Sprint(problems)
	for _, want := range []string{"{demo-cp-2 everything demo-cp-2: connect}", "{demo-a-1 everything the machine is stopped", "{demo-cp-1 memory.txt"} {
		if !strings.Contains(got, want) {
			t.Errorf("problems %s do not tell %s", got, want)
		}
	}
}

func unpack(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
}

func TestTailBuffer(t *testing.T) {
	b := &tailBuffer{limit: 20}
	for i := range 1000 {
		fmt.Fprintf(b, "line %d\n", i)
	}
	if got := string(b.bytes()); got != "line 998\nline 999\n" {
		t.Errorf("the end is %q", got)
	}
	b = &tailBuffer{limit: 20}
	fmt.Fprint(b, "short\nbegin")
	if got := string(b.bytes()); got != "short\nbegin" {
		t.Errorf("what fits is %q", got)
	}
}

// FuzzRedact: none of the cluster's own secrets appears, whatever text surrounds it.
func FuzzRedact(f *testing.F) {
	secrets, planted := ourSecrets(f)
	r := testkit.Value(NewRedactor(f.Context(), secrets))(f)
	names := slices.Sorted(maps.Keys(planted))
	for i := range names {
		f.Add(uint8(i), "Nov 21 host kubelet[1]: key=", "\n-----END EC PRIVATE KEY-----")
		f.Add(uint8(i), "postgres://me:", "@db")
		f.Add(uint8(i), planted[names[0]][:5], planted[names[0]])
	}
	f.Fuzz(func(t *testing.T, which uint8, before, after string) {
		p := planted[names[int(which)%len(names)]]
		if got := string(r.Redact([]byte(before + p + after))); strings.Contains(got, p) {
			t.Fatalf("%s is seen: %q", names[int(which)%len(names)], got)
		}
	})
}

// TestAnswersOfMachinesAreBounded: a machine that answers with very much does not fill the archive; the list of problems tells of it.
func TestAnswersOfMachinesAreBounded(t *testing.T) {
	var out bytes.Buffer
	col := NewCollection(&out, Options{Prefix: "p", PerFile: 1 << 10}, nil, testkit.Value(NewRedactor(t.Context(), memory.NewOverlay(nil)))(t))
	col.Add("m", "facts.json", bytes.Repeat([]byte("a "), 4<<10), nil)
	col.Add("m", "agent-status.json", []byte("{}"), nil)
	problems := testkit.Value(col.Finish())(t)
	if len(problems) != 1 || problems[0].What != "facts.json" || !strings.Contains(problems[0].Error, "8192 bytes") {
		t.Errorf("the problems are %+v", problems)
	}
	r := tar.NewReader(testkit.Value(gzip.NewReader(&out))(t))
	var names []string
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		names = append(names, h.Name)
	}
	if !slices.Equal(names, []string{"p/machines/m/agent-status.json", "p/problems.json"}) {
		t.Errorf("the archive has %q", names)
	}
}
