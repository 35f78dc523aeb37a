//go:build integration

package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// text returns the text of an element of the page.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return got(b, chromedp.Evaluate[string](`(document.querySelector(`+"`"+selector+"`"+`) || {textContent: ""}).textContent`))
}

// steps returns the boxes of the page's graph: each step with its state, as "configure/cp-1 running".
func (b *browser) steps() string {
	b.t.Helper()
	return got(b, chromedp.Evaluate[string](`[...document.querySelectorAll("svg.graph g")].map(g => [...g.querySelectorAll("text")].map(t => t.textContent).join(" ")).join(", ")`))
}

// until waits until the page shows a graph with these steps.
func (b *browser) until(want string) {
	b.t.Helper()
	said := ""
	testkit.Until(b.t, 120*time.Second, 50*time.Millisecond, testkit.That("its steps are "+want, func() bool { said = b.steps(); return said == want }))
}

// leads waits until the action has led to another page and this page shows an element.
func (b *browser) leads(to string, action chromedp.Action[chromedp.Void], shows string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`window.before = true; undefined`), action)
	testkit.Until(b.t, 120*time.Second, 50*time.Millisecond, func() error {
		at, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("window.before || document.readyState != 'complete' ? '' : location.pathname")) // fails during the navigation
		if err == nil && !strings.HasPrefix(at, to) {
			err = fail.New(fail.NotReady, "the browser is at %q, and not at %s", at, to)
		}
		return err
	})
	b.do(chromedp.WaitVisible(chromedp.CSS(shows)))
}

// TestCarriedOutInABrowser: an operator changes a cluster's document, reads the plan, consents, watches, cancels, and plans the rest. It uses the
// real server's code and one machine, which the test plays.
func TestCarriedOutInABrowser(t *testing.T) {
	g := newGiven(t)
	b := startBrowserAt(t, g.site)
	b.signIn("/ui/clusters")
	b.leads("/ui/clusters/harbour", chromedp.Click(`a[href="/ui/clusters/harbour"]`), ".tabs")
	b.leads("/ui/clusters/harbour/document", chromedp.Click(`a[href="/ui/clusters/harbour/document"]`), "#document")
	b.do(chromedp.Evaluate[chromedp.Void](`{ const d = document.getElementById("document"); d.value = d.value.replace("step: 10m", "step: 11m") }; undefined`))
	plans := func(button string) {
		t.Helper()
		b.leads("/ui/clusters/harbour/plan", chromedp.Click(button), `input[name="digest"] ~ p button.go`)
	}
	const carryOut = `input[name="digest"] ~ p button.go`
	plans(`textarea ~ p button.go`)
	if d := b.text("section.card pre"); !strings.Contains(d, "-  timeouts: {step: 10m}") || !strings.Contains(d, "+  timeouts: {step: 11m}") {
		t.Errorf("the document's changes are %s", d)
	}
	if s := b.steps(); s != "bundle pending, configure/harbour-cp-1 pending, api pending" {
		t.Errorf("the plan is drawn as %s", s)
	}

	// Without the required consent the browser sends nothing, and a client that sends the form gets a job that changes nothing.
	b.do(chromedp.Click(carryOut))
	if name := got(b, chromedp.Evaluate[string](`document.activeElement.matches(":invalid") ? document.activeElement.value : ""`)); name != "other-bundle" {
		t.Errorf("the browser asks for the consent %q", name)
	}
	b.at("/ui/clusters/harbour/plan")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=digest]").form.noValidate = true; undefined`))
	b.leads("/ui/jobs/", chromedp.Click(carryOut), "[role=alert]")
	if why := b.text("[role=alert]"); !strings.Contains(why, "needs your consent to other-bundle") || !strings.Contains(why, "nothing was changed") {
		t.Errorf("without the consent it says %s", why)
	}
	if runs := testkit.Value(g.store.Runs(t.Context(), "harbour", 1))(t); len(runs) != 0 {
		t.Errorf("it was begun all the same: %+v", runs)
	}

	// With the consent, the page follows the job by itself.
	plans(`form[action="/ui/clusters/harbour/plan"] button.go`)
	b.do(chromedp.Click("input[name=consent]"))
	b.leads("/ui/jobs/", chromedp.Click(carryOut), `form[action$="/stop"]`)
	const stays = `window.stays = true; undefined`
	b.do(chromedp.Evaluate[chromedp.Void](stays))
	b.until("bundle succeeded, configure/harbour-cp-1 running, api pending")
	if !got(b, chromedp.Evaluate[bool](`window.stays === true`)) {
		t.Error("the page was loaded anew to show what the steps do")
	}
	b.leads("/ui/jobs/", chromedp.Click(`form[action$="/stop"] button`), "svg.graph")
	b.do(chromedp.Evaluate[chromedp.Void](stays))
	testkit.Until(t, 120*time.Second, 50*time.Millisecond, testkit.That("the job says that it stops", func() bool { return strings.Contains(b.text("#now pre"), "stopping") }))
	b.until("bundle succeeded, configure/harbour-cp-1 running, api pending") // the running step completes first
	g.goOn()
	b.do(chromedp.WaitVisible("[role=alert]"))
	b.until("bundle succeeded, configure/harbour-cp-1 succeeded, api skipped")
	if why := b.text("[role=alert]"); !strings.Contains(why, "stopped") {
		t.Errorf("the job has ended with %s", why)
	}
	if !got(b, chromedp.Evaluate[bool](`window.stays === true`)) {
		t.Error("the page was loaded anew to show that the job has ended")
	}

	// The completed steps had their consent: the rest needs none.
	plans(`form[action="/ui/clusters/harbour/plan"] button.go`)
	if s := b.steps() + b.text("main"); strings.Contains(s, "configure/") || !strings.Contains(s, "wait for the Kubernetes API") || got(b, chromedp.Evaluate[int](`document.querySelectorAll("input[name=consent]").length`)) != 0 {
		t.Errorf("the rest is %s", s)
	}
}

// TestUpgradeIsAskedFor: the form leads to a plan, and the machine to pause after must exist.
func TestUpgradeIsAskedFor(t *testing.T) {
	g := newGiven(t)
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", g.url}
	form := url.Values{"verb": {"upgrade"}, "to": {"v1.37.2"}, "pause-after": {"harbour-cp-1"}}
	a := g.ask("POST", "/ui/clusters/harbour/plan", g.local, form, own...)
	for _, want := range []string{`name="pause-after" value="harbour-cp-1"`, "naupegos upgrade harbour --to v1.37.2 --pause-after harbour-cp-1", `value="other-bundle" required`} {
		if a.code != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%d, wanted %s: %s", a.code, want, a.body)
		}
	}
	form.Set("pause-after", "harbour-cp-9")
	if a := g.ask("POST", "/ui/clusters/harbour/plan", g.local, form, own...); !strings.Contains(a.body, "no machine harbour-cp-9 to pause after") || strings.Contains(a.body, `name="digest"`) {
		t.Errorf("a machine that there is not: %d %s", a.code, a.body)
	}
	if a := g.ask("POST", "/ui/clusters/harbour/plan", g.reader, form, own...); a.code != http.StatusForbidden {
		t.Errorf("a reader plans: %d", a.code)
	}
}
