package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
)

const staticUID = "0123456789abcdef0123456789abcdef"

// machine makes a machine's logs: a journal behind a fake journalctl, which prints the file journal and, with --follow, the file coming as it grows.
func machine(t *testing.T) Reader {
	t.Helper()
	dir := t.TempDir()
	r := Reader{Dir: filepath.Join(dir, "pods"), Journalctl: filepath.Join(dir, "journalctl")}
	write(t, r.Journalctl, `#!/bin/sh
echo "$*" >> `+dir+`/args
case "$*" in *broken*) echo "No such unit" >&2; exit 1;; esac
case "$*" in *--follow*) exec tail -n +1 -f `+dir+`/coming;; esac
cat `+dir+`/journal
`)
	if err := os.Chmod(r.Journalctl, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "journal"), journal("kubelet.service", 1, "starting")+
		`{"__REALTIME_TIMESTAMP":"3000000","__CURSOR":"c3","MESSAGE":[108,97,116,105,110,49,58,255],"SYSLOG_IDENTIFIER":"kernel"}`+"\n"+
		`{"__REALTIME_TIMESTAMP":"5000000","__CURSOR":"c5","MESSAGE":["two","values"],"_SYSTEMD_UNIT":"init.scope","UNIT":"etcd.service"}`+"\n"+
		`{"__REALTIME_TIMESTAMP":"6000000","__CURSOR":"c6","MESSAGE":null,"SYSLOG_IDENTIFIER":"big"}`+"\n")
	write(t, filepath.Join(dir, "coming"), "")
	for path, text := range map[string]string{
		"kube-system_etcd-m_" + staticUID + "/etcd/0.log":                          cri(1, "a former run"),
		"kube-system_etcd-m_" + staticUID + "/etcd/1.log":                          cri(2, "etcd is up") + cri(4, "etcd is well"),
		"kube-system_etcd-m_" + staticUID + "/etcd/1.log.20261129":                 cri(0, "rotated"),
		"kube-system_coredns-x_8d2e1c9a-0000-4000-8000-000000000000/coredns/0.log": cri(2, "dns"),
		"default_web-1_8d2e1c9a-0000-4000-8000-000000000001/nginx/3.log":           cri(7, "GET /"),
		"default_web-1_8d2e1c9a-0000-4000-8000-000000000001/nginx/2.log":           cri(6, "crashed"),
		"default_web-1_8d2e1c9a-0000-4000-8000-000000000001/sidecar/0.log":         cri(8, "beside") + "1970-01-01T00:00:09Z stdout F cut o",
		"default_broken_name_8d2e1c9a-0000-4000-8000-000000000001/sidecar/0.log":   cri(8, "no pod"),
		"default_empty_8d2e1c9a-0000-4000-8000-000000000002/none/readme.txt":       "not a log",
		"default_odd_8d2e1c9a-0000-4000-8000-000000000003/odd/0.log":               "not CRI at all\n\n" + cri(9, ""),
		"default_long_8d2e1c9a-0000-4000-8000-000000000004/long/0.log":             cri(9, strings.Repeat("x", 3*longest)) + cri(10, "after it"),
	} {
		write(t, filepath.Join(r.Dir, path), text)
	}
	return r
}

func journal(unit string, second int, text string) string {
	return fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"%d000000","__CURSOR":"c%d","MESSAGE":%q,"_SYSTEMD_UNIT":%q,"SYSLOG_IDENTIFIER":"x"}`+"\n", second, second, text, unit)
}

func cri(second int, text string) string {
	return time.Unix(int64(second), 0).UTC().Format(time.RFC3339Nano) + " stderr F " + text + "\n"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// text renders lines: SECOND SOURCE: TEXT.
func text(l logs.Line) string { return fmt.Sprintf("%d %s: %s", l.Time.Unix(), l.Source(), l.Text) }

func TestPresent(t *testing.T) {
	r := machine(t)
	all := []string{"1 kubelet.service: starting", "2 etcd-m/etcd: etcd is up", "3 kernel: latin1:\ufffd", "4 etcd-m/etcd: etcd is well", "5 etcd.service: two", "5 etcd.service: values", "6 big: "}
	for name, c := range map[string]struct {
		req  logs.Request
		want []string
	}{
		"everything: the journal and the static pods": {logs.Request{}, all},
		"the last lines":                     {logs.Request{Tail: 3}, all[4:]},
		"since":                              {logs.Request{Since: time.Unix(4, 0)}, all[3:]},
		"lines that match":                   {logs.Request{Grep: "^etcd (is|was)"}, []string{all[1], all[3]}},
		"the last line that matches":         {logs.Request{Grep: "^etcd (is|was)", Tail: 1}, []string{all[3]}},
		"a unit: no pods":                    {logs.Request{Units: []string{"kubelet"}}, []string{all[0], all[2], all[4], all[5], all[6]}},
		"a pod: no journal":                  {logs.Request{Pod: "web"}, []string{"7 web-1/nginx: GET /", "8 web-1/sidecar: beside"}},
		"a pod of a namespace":               {logs.Request{Pod: "kube-system/coredns"}, []string{"2 coredns-x/coredns: dns"}},
		"a pod of another one":               {logs.Request{Pod: "kube-system/web"}, nil},
		"a container":                        {logs.Request{Container: "nginx"}, []string{"7 web-1/nginx: GET /"}},
		"the former run":                     {logs.Request{Container: "nginx", Previous: true}, []string{"6 web-1/nginx: crashed"}},
		"the former runs of static pods":     {logs.Request{Previous: true}, []string{"1 etcd-m/etcd: a former run"}},
		"a unit and a container, in order":   {logs.Request{Units: []string{"kubelet"}, Container: "etcd", Tail: 2}, []string{all[5], all[6]}},
		"what is no log":                     {logs.Request{Pod: "odd"}, []string{"9 odd/odd: "}},
		"a container of this name is absent": {logs.Request{Container: "none"}, nil},
	} {
		var out strings.Builder
		if err := r.Send(t.Context(), c.req, &out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			l, err := logs.Parse([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, text(l))
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	var out strings.Builder
	if err := r.Send(t.Context(), logs.Request{Pod: "long"}, &out); err != nil || !strings.Contains(out.String(), "after it") || out.Len() > 2*longest {
		t.Errorf("a long line: %d bytes, %v", out.Len(), err)
	}
}

func TestRefused(t *testing.T) {
	r := machine(t)
	if err := r.Send(t.Context(), logs.Request{Grep: "("}, io.Discard); fail.KindOf(err) != fail.Invalid {
		t.Errorf("a wrong expression: %v", err)
	}
	if err := r.Send(t.Context(), logs.Request{Units: []string{"broken"}}, io.Discard); err == nil || !strings.Contains(err.Error(), "No such unit") {
		t.Errorf("journalctl fails: %v", err)
	}
	if err := (Reader{Dir: r.Dir, Journalctl: "/nonexistent"}).Send(t.Context(), logs.Request{}, io.Discard); err == nil {
		t.Error("without journalctl there is no error")
	}
	if err := (Reader{Dir: t.TempDir() + "/absent", Journalctl: r.Journalctl}).Send(t.Context(), logs.Request{Pod: "x"}, io.Discard); err != nil {
		t.Errorf("a machine without pods: %v", err)
	}
	if err := r.Send(t.Context(), logs.Request{}, full{}); !errors.Is(err, errFull) {
		t.Errorf("a reader that is gone: %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestFollow: lines of the journal, of a growing file, of the next run of a container, of a rotated file and of a new pod are read once each.
func TestFollow(t *testing.T) {
	r := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := r.Send(ctx, logs.Request{Tail: 1, Follow: true}, in)
		_ = in.CloseWithError(io.EOF)
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("it ended: %v", <-ended)
		}
		l, err := logs.Parse(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if l.Present {
			return "present"
		}
		return text(l)
	}
	want := func(what string) {
		t.Helper()
		if got := next(); got != what {
			t.Fatalf("got %q, want %q", got, what)
		}
	}
	want("6 big: ")
	want("present")
	dir := filepath.Join(r.Dir, "kube-system_etcd-m_"+staticUID, "etcd")
	appendTo(t, filepath.Join(dir, "1.log"), cri(11, "more")+"1970-01-01T00:00:12Z stderr F half")
	want("11 etcd-m/etcd: more")
	appendTo(t, filepath.Join(dir, "1.log"), " a line\n")
	want("12 etcd-m/etcd: half a line")
	appendTo(t, filepath.Join(filepath.Dir(r.Journalctl), "coming"), journal("kubelet.service", 13, "restarted"))
	want("13 kubelet.service: restarted")
	write(t, filepath.Join(dir, "2.log"), cri(14, "the next run"))
	want("14 etcd-m/etcd: the next run")
	if err := os.Rename(filepath.Join(dir, "2.log"), filepath.Join(dir, "2.log.20261129")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "2.log"), cri(15, "after rotation"))
	want("15 etcd-m/etcd: after rotation")
	write(t, filepath.Join(r.Dir, "kube-system_etcd-m_fedcba98765432100123456789abcdef", "etcd", "0.log"), cri(16, "another manifest"))
	want("16 etcd-m/etcd: another manifest")
	cancel()
	if err := <-ended; err != nil && fail.KindOf(err) != fail.Interrupted && !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	args, err := os.ReadFile(filepath.Join(filepath.Dir(r.Journalctl), "args"))
	if err != nil || !strings.Contains(string(args), "--after-cursor=c6") {
		t.Errorf("journalctl was called with %s, %v", args, err)
	}
}
