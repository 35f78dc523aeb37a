//go:build integration

package web

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// becomes waits until a script of the page returns true.
func (b *browser) becomes(what, script string) {
	b.t.Helper()
	testkit.Until(b.t, 60*time.Second, 50*time.Millisecond, testkit.That(what, func() bool { return got(b, chromedp.Evaluate[bool](script)) }))
}

// run runs a script on the page.
func (b *browser) run(script string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void]("{" + script + "}; undefined"))
}

// TestLivePagesInABrowser: a live page keeps the reader's focus, scroll position and selection, says when it is not connected, and says when the
// session has ended.
func TestLivePagesInABrowser(t *testing.T) {
	b := startBrowser(t)
	first := b.discover(1)
	b.signIn("/ui/machines")
	appears := func(n int, also string) {
		t.Helper()
		uuid := b.discover(n)
		b.becomes("the new machine is shown", `!!document.querySelector('a[href="/ui/machines/`+uuid+`"]')`+also)
	}

	b.run(`document.head.insertAdjacentHTML("beforeend", "<style>.scroll { width: 100px }</style>");
		document.querySelector("#list .scroll").scrollLeft = 40;
		document.querySelector('a[href="/ui/machines/` + first + `"]').closest("tr").focus({preventScroll: true})`)
	appears(2, ` && document.activeElement.querySelector("a")?.getAttribute("href") === "/ui/machines/`+first+`" && document.querySelector("#list .scroll").scrollLeft === 40`)

	b.run(`document.activeElement.blur(); getSelection().selectAllChildren(document.querySelector("#list td"))`)
	third := b.discover(3)
	b.becomes("the page says that it waits", `document.getElementById("connection").textContent.startsWith("Updates wait")`)
	if got(b, chromedp.Evaluate[bool](`getSelection().isCollapsed || !!document.querySelector('a[href="/ui/machines/`+third+`"]')`)) {
		t.Error("the selection was lost")
	}
	b.run(`getSelection().removeAllRanges()`)
	b.becomes("the page goes on", `!!document.querySelector('a[href="/ui/machines/`+third+`"]') && document.getElementById("connection").textContent === ""`)

	b.down.Store(true)
	b.server.CloseClientConnections()
	b.becomes("the page says that it is not connected", `document.getElementById("connection").textContent.startsWith("Not connected since ")`)
	b.down.Store(false)
	appears(4, ` && document.getElementById("connection").textContent === ""`)

	for _, s := range testkit.Value(b.store.Sessions(t.Context()))(t) {
		testkit.Must(t, b.store.EndSession(t.Context(), s.ID))
	}
	b.becomes("the page says that the session has ended", `document.querySelector("#connection a")?.getAttribute("href") === "/ui/login?to=%2Fui%2Fmachines"`)
	if said := b.text("#connection"); said != "Your session has ended. Sign in" {
		t.Errorf("it says %q", said)
	}
}

// TestFormsInABrowser: browsers understand every pattern of an input, and send an agreement once.
func TestFormsInABrowser(t *testing.T) {
	b := startBrowser(t)
	testkit.Value(b.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	b.signIn("/ui/new")
	found := 0
	for _, name := range testkit.Value(fs.Glob(files, "pages/*.html"))(t) {
		for _, m := range regexp.MustCompile(`pattern="([^"]*)"`).FindAllStringSubmatch(string(testkit.Value(files.ReadFile(name))(t)), -1) {
			found++
			pattern := testkit.Value(json.Marshal(strings.ReplaceAll(m[1], "{{$h.Name}}", "harbour-1")))(t)
			if why := got(b, chromedp.Evaluate[string](`(() => { try { new RegExp(`+string(pattern)+`, "v"); return "" } catch (e) { return String(e) } })()`)); why != "" {
				t.Errorf("%s: %s", name, why)
			}
		}
	}
	if found < 2 {
		t.Errorf("there are %d patterns", found)
	}
	for name, valid := range map[string]bool{"DEMO_X": false, "demo-": false, "demo-1": true, "d": true} {
		if got(b, chromedp.Evaluate[bool](`(() => { const n = document.getElementById("name"); n.value = "`+name+`"; return n.checkValidity() })()`)) != valid {
			t.Errorf("the browser takes the name %q: %t", name, !valid)
		}
	}
	b.run(`document.querySelector("main").insertAdjacentHTML("beforeend", '<form method="dialog" data-once><button id="twice">Carry out</button></form>'); document.getElementById("twice").click()`)
	b.becomes("the button is locked", `document.getElementById("twice").disabled`)
}
