//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// operatesMachines gets a kubeconfig and a support archive on the pages, and adds, cordons, drains, reboots, replaces and removes a worker there.
func (b *browser) operatesMachines() {
	r := b.r
	r.t.Helper()
	first, second := r.name+"-general-1", r.name+"-general-2"
	c := clientOf(r.t, b.downloads("kubeconfig", ".kubeconfig"))

	b.opens("actions")
	b.plans("#add form:has(#add-pool) button")
	b.carriesOut("add a node")
	added := b.node(c, second, func(n kube.NodeInfo) error { return unless(n.Ready, "not Ready") })

	b.onMachine(second, "node cordon")
	b.carriesOut("cordon")
	b.node(c, second, func(n kube.NodeInfo) error { return unless(n.Unschedulable, "schedulable") })
	b.onMachine(second, "node uncordon")
	b.carriesOut("uncordon")
	b.node(c, second, func(n kube.NodeInfo) error { return unless(!n.Unschedulable, "unschedulable") })
	b.opens("actions")
	b.chooses("drain-machine", second)
	b.plans("#nodes form:has(#drain-machine) button")
	b.carriesOut("drain")
	b.node(c, second, func(n kube.NodeInfo) error { return unless(n.Unschedulable, "schedulable") })

	before := r.initOf(second)
	b.onMachine(second, "machine reboot")
	b.carriesOut("reboot")
	if now := r.initOf(second); now == "" || now == before {
		r.t.Errorf("the first process of %s was %s before its reboot, and is %q", second, before, now)
	}
	b.onMachine(second, "node replace")
	b.carriesOut("replace")
	b.node(c, second, func(n kube.NodeInfo) error {
		return errors.Join(unless(!n.Created.Equal(added.Created), "the former one"), unless(n.Ready, "not Ready"))
	})
	b.onMachine(second, "node remove")
	b.carriesOut("remove")
	if s := r.status(); !s.Healthy || slices.ContainsFunc(s.Machines, func(m report.MachineStatus) bool { return m.Name == second }) {
		r.t.Errorf("after the worker left, the cluster is %+v", s)
	}

	at := filepath.Join(r.t.TempDir(), "support.tar.gz")
	testkit.Must(r.t, os.WriteFile(at, b.downloads("support", ".tar.gz"), 0o600))
	dir := filepath.Join(r.t.TempDir(), "support")
	testkit.Must(r.t, extract(at, dir))
	if found := testkit.Value(filepath.Glob(filepath.Join(dir, "*", first+"*")))(r.t); len(found) == 0 {
		r.t.Errorf("the support archive has nothing of %s: %v", first, testkit.Value(filepath.Glob(filepath.Join(dir, "*", "*")))(r.t))
	}
}

// rotatesAll rotates all keys on the pages: the kubeconfig from before no longer has the cluster's authority.
func (b *browser) rotatesAll() {
	r := b.r
	r.t.Helper()
	former := b.downloads("kubeconfig", ".kubeconfig")
	b.opens("actions")
	b.plans("#renew form:has(#rotate-what) button")
	b.carriesOut("rotate")
	now := b.downloads("kubeconfig", ".kubeconfig")
	if authority(former) == "" || authority(former) == authority(now) {
		r.t.Errorf("the authority before and after the rotation: %q, %q", authority(former), authority(now))
	}
	if s := r.status(); !s.Healthy {
		r.t.Errorf("after the rotation the cluster is %+v", s)
	}
}

// authority returns the authority of a kubeconfig, in base64.
func authority(kubeconfig []byte) string {
	_, rest, _ := strings.Cut(string(kubeconfig), "certificate-authority-data: ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// chooses sets an element of a form.
func (b *browser) chooses(id, value string) {
	b.r.t.Helper()
	b.eval(`document.getElementById(` + quoted(id) + `).value = ` + quoted(value))
	if got := b.text(`document.getElementById(` + quoted(id) + `).value`); got != value {
		b.r.t.Fatalf("%s offers no %s", id, value)
	}
}

// onMachine plans a verb of the form for one machine.
func (b *browser) onMachine(machine, verb string) {
	b.r.t.Helper()
	b.opens("actions")
	b.chooses("one-machine", machine)
	b.chooses("one-verb", verb)
	b.plans("#nodes form:has(#one-machine) button.go")
}

// node waits until a node is as wanted, and returns it.
func (b *browser) node(c *kube.Client, name string, wanted func(kube.NodeInfo) error) (n kube.NodeInfo) {
	b.r.t.Helper()
	until(b.r.t, time.Minute, time.Second, func() (err error) {
		if n, err = c.Node(b.ctx, name); err == nil {
			err = wanted(n)
		}
		return err
	})
	return n
}

// unless returns an error that names what holds, if ok is false.
func unless(ok bool, what string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the node is %s", what)
}

// downloads submits the form of a file on the actions' tab, and returns the file, whose name ends with ext.
func (b *browser) downloads(form, ext string) []byte {
	t := b.r.t
	t.Helper()
	dir := t.TempDir()
	b.opens("actions")
	b.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir})
		return chromedp.Void{}, err
	}, chromedp.Click(`#test form[action$="/`+form+`"] button`))
	var data []byte
	until(t, 5*time.Minute, 100*time.Millisecond, func() error {
		names, err := filepath.Glob(filepath.Join(dir, b.r.name+"*"+ext)) // a name without Chromium's .crdownload: the file is complete
		if err != nil || len(names) != 1 {
			return fmt.Errorf("there is no download yet: %v, %v", names, err)
		}
		data, err = os.ReadFile(names[0])
		return err
	})
	if len(bytes.TrimSpace(data)) == 0 {
		t.Fatalf("the download of %s is empty", form)
	}
	return data
}
