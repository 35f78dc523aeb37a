//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/chromium"
)

// browser is a Chromium that operates a cluster through the pages of naupegos ui.
type browser struct {
	r   *rig
	ctx context.Context
}

// TestPages operates a cluster through the web pages alone: by forms of naupegos ui in Chromium it is created, its machines are operated, and it is backed up,
// rehearsed, restored, upgraded, rotated and destroyed. The command line only starts naupegos ui, and reports on the cluster.
func TestPages(t *testing.T) {
	testkit.OnlyFull(t, "TestCarriedOutInABrowser carries a plan out on the same pages, with a simulated machine")
	r := newRig(t, "pages")
	at := directory(t, r.dir)
	former := release.Former(1)
	b := r.opensUI(t)

	b.leads("/ui/new", chromedp.Navigate(b.page("/ui/new?provider=local&name="+r.name+"&control-plane=1&workers=1&kubernetes="+former)), "#document")
	b.eval(`{ const d = document.getElementById("document"); d.value = d.value.trimEnd() + "\n  backup:\n" + ` + quoted(at.spec) + ` }`)
	b.leads("/ui/new", chromedp.Click(`textarea ~ p button.go`), carryOut)
	b.carriesOut("create")
	if s := r.status(); s.Kubernetes != former || !s.Healthy {
		t.Fatalf("after its creation the cluster is %+v", s)
	}

	b.operatesMachines()

	b.asks("backup create")
	b.carriesOut("back up")
	if sets := r.listed(); len(sets) != 1 {
		t.Fatalf("the backups are %+v", sets)
	}
	b.asks("backup rehearse")
	b.carriesOut("rehearse")

	before := r.fill(5)
	b.asks("backup create")
	b.carriesOut("back up")
	added := r.fill(8)
	b.asks("backup restore")
	b.carriesOut("restore")
	after := r.kept(clientOf(t, r.kubeconfig()))
	for key, digest := range before {
		if after[key] != digest {
			t.Errorf("%s is not as it was backed up", key)
		}
	}
	for key := range added {
		if _, old := before[key]; !old && after[key] != "" {
			t.Errorf("%s is younger than the restored backup", key)
		}
	}

	b.opens("actions")
	b.eval(`document.getElementById("to").value = ` + quoted(release.Default))
	b.plans("#upgrade button.go")
	b.carriesOut("upgrade")
	b.opens("actions")
	b.eval(`document.getElementById("way").value = "finish"`)
	b.plans("#upgrade button.go")
	b.carriesOut("finish the upgrade")
	if s := r.status(); s.Kubernetes != release.Default || !s.Healthy {
		t.Errorf("after the upgrade the cluster is %+v", s)
	}
	b.rotatesAll()

	b.opens("actions")
	b.eval(`document.getElementById("confirm").value = ` + quoted(r.name))
	b.plans("#destroy button")
	b.carriesOut("destroy")
	r.gone()
}

const carryOut = `input[name="digest"] ~ p button.go`

// opensUI starts naupegos ui on the rig's store, and Chromium at its link.
func (r *rig) opensUI(t *testing.T) *browser {
	t.Helper()
	log := testkit.Value(os.Create(filepath.Join(r.dir, "ui.log")))(t)
	cmd := exec.Command(built.bin, "--state-dir", r.state, "ui", "--no-open")
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Stderr = log
	out := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("naupegos ui said:\n%s", text)
		}
	})
	link := ""
	for lines := bufio.NewScanner(out); link == "" && lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://127.0.0.1:") {
			link = text
		}
	}
	if link == "" {
		t.Fatal("naupegos ui prints no link")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()

	b := &browser{r, chromium.Start(t)}
	b.do(chromedp.Navigate(link), chromedp.WaitVisible(`form[action="/ui/logout"] button`))
	return b
}

// page returns the address of a page of the site at which the browser is.
func (b *browser) page(path string) string {
	b.r.t.Helper()
	return b.text("location.origin") + path
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.r.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	testkit.Must(b.r.t, chromedp.Do(ctx, actions...))
}

// eval runs JavaScript on the page.
func (b *browser) eval(script string) {
	b.r.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script + "; undefined"))
}

// text returns the value of a JavaScript expression.
func (b *browser) text(expression string) string {
	b.r.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	return testkit.Value(chromedp.Run(ctx, chromedp.Evaluate[string](expression)))(b.r.t)
}

// leads acts, and waits until another page below a path shows an element. A plan may take a while: the server observes the cluster first.
func (b *browser) leads(to string, action chromedp.Action[chromedp.Void], shows string) {
	b.r.t.Helper()
	b.eval(`window.before = true`)
	b.do(action)
	until(b.r.t, 5*time.Minute, 100*time.Millisecond, func() error {
		const look = `window.before || document.readyState != "complete" ? "" : location.pathname + "\n" + !!document.querySelector(%s) + "\n" + ((document.querySelector("[role=alert]") || document.querySelector("main") || {}).innerText || "")`
		ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
		defer cancel()
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(look, quoted(shows)))) // fails between two pages
		if err == nil && !strings.HasPrefix(at, to+"\ntrue\n") && (!strings.HasSuffix(to, "/") || !strings.HasPrefix(at, to) || !strings.Contains(at, "\ntrue\n")) {
			err = fmt.Errorf("the browser is at %q, want %s with %s", at, to, shows)
		}
		return err
	})
}

// opens opens a tab of the cluster.
func (b *browser) opens(tab string) {
	b.r.t.Helper()
	to := "/ui/clusters/" + b.r.name + "/" + tab
	b.leads(to, chromedp.Navigate(b.page(to)), ".tabs")
}

// plans submits a form of the page, and waits for the plan.
func (b *browser) plans(button string) {
	b.r.t.Helper()
	b.leads("/ui/clusters/"+b.r.name+"/plan", chromedp.Click(button), carryOut)
}

// asks opens the actions of the cluster and plans a verb whose form needs no further answer.
func (b *browser) asks(verb string) {
	b.r.t.Helper()
	b.opens("actions")
	b.plans(`form:has(input[name=verb][value=` + quoted(verb) + `]) button`)
}

// carriesOut consents to the plan that the page shows, carries it out, and waits until its job has succeeded.
func (b *browser) carriesOut(what string) {
	b.r.t.Helper()
	began := time.Now()
	b.eval(`for (const c of document.querySelectorAll("input[name=consent]")) c.checked = true`)
	b.leads("/ui/jobs/", chromedp.Click(carryOut), "#now")
	until(b.r.t, 20*time.Minute, 500*time.Millisecond, func() error {
		switch state := b.text(`(document.querySelector("#now .pill") || {textContent: ""}).textContent`); {
		case b.text(`(document.querySelector("#now [role=alert]") || {textContent: ""}).textContent`) != "":
			b.r.t.Fatalf("%s: %s", what, b.text(`document.querySelector("main").innerText`))
			return nil
		case state != "ended":
			return fmt.Errorf("%s: the job is %s", what, state)
		}
		return nil
	})
	b.r.t.Logf("FIGURE %s: %v on the pages", what, time.Since(began).Round(time.Second))
}

// quoted returns a JavaScript string.
func quoted(s string) string { return fmt.Sprintf("%q", s) }
