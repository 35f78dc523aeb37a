//go:build integration

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/naupegos/naupegos/internal/testkit"
)

// looks are the screens and colour schemes that pages are tested with.
var looks = []struct {
	screen        string
	width, height int64
	scheme        string
}{{"desk", 1280, 800, "light"}, {"phone", 390, 800, "light"}, {"phone", 390, 800, "dark"}, {"desk", 1280, 800, "dark"}}

// pictures maps a page and its look to the name of a picture for the docs.
var pictures = map[string]string{
	"overview desk light": "overview", "clusters desk light": "clusters", "machines desk light": "machines", "machine desk light": "machine", "machine phone light": "machine-phone", "cluster desk light": "cluster", "cluster desk dark": "cluster-dark", "figures desk light": "figures",
	"plan desk light": "plan", "job running desk light": "job", "waves desk light": "waves", "backups desk light": "backups", "approvals desk light": "approvals",
}

// judge checks pages in all looks.
type judge struct {
	*browser
	axe string // axe-core's script; empty: no check of accessibility
}

// see checks the current page in all looks, and writes its pictures if NAUPEGOS_SCREENSHOTS is set.
func (j *judge) see(page string) {
	j.t.Helper()
	for _, l := range looks {
		j.look(l.width, l.height, l.scheme)
		what := page + " " + l.screen + " " + l.scheme
		if wide := got(j.browser, chromedp.Evaluate[string](tooWide)); wide != "" {
			j.t.Errorf("%s does not fit on the screen: %s", what, wide)
		}
		if two := got(j.browser, chromedp.Evaluate[string](secondRow)); l.screen == "phone" && two != "" {
			j.t.Errorf("%s: the header's first row has no room for %s", what, two)
		}
		if odd := got(j.browser, chromedp.Evaluate[string](crooked)); odd != "" {
			j.t.Errorf("%s: headings are not above their columns: %s", what, odd)
		}
		if j.axe != "" {
			j.accessible(what)
		}
		if dir, name := os.Getenv("NAUPEGOS_SCREENSHOTS"), pictures[what]; dir != "" && name != "" {
			j.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); scrollTo(0, 0); undefined`))
			testkit.Must(j.t, os.WriteFile(filepath.Join(dir, name+".png"), fewColours(j.t, got(j.browser, chromedp.FullScreenshot(100))), 0o644))
		}
	}
	j.look(looks[0].width, looks[0].height, looks[0].scheme)
}

// look sets the size of the screen and the colour scheme.
func (j *judge) look(width, height int64, scheme string) {
	j.t.Helper()
	j.do(chromedp.EmulateViewport(width, height), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}} // pulsing elements are half transparent at times
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media})
		return chromedp.Void{}, err
	})
}

// violation is a violation that axe-core found.
type violation struct {
	ID, Impact string
	Nodes      []string
}

// violations returns axe-core's findings on the current page.
func (j *judge) violations() (found []violation) {
	j.t.Helper()
	j.do(chromedp.Evaluate[chromedp.Void]("if (!window.axe) {\n" + j.axe + "\n}; undefined"))
	said := got(j.browser, chromedp.Evaluate[string](`axe.run({resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html).slice(0, 3)}))))`, chromedp.EvalAwaitPromise))
	testkit.Must(j.t, json.Unmarshal([]byte(said), &found))
	return found
}

// accessible fails if the current page has a serious violation.
func (j *judge) accessible(what string) {
	j.t.Helper()
	for _, v := range j.violations() {
		if v.Impact == "serious" || v.Impact == "critical" {
			j.t.Errorf("%s: %s (%s): %s", what, v.ID, v.Impact, strings.Join(v.Nodes, "\n"))
		}
	}
}

// judges checks that axe-core finds a violation: text of low contrast.
func (j *judge) judges() {
	j.t.Helper()
	j.do(chromedp.Evaluate[chromedp.Void](`document.documentElement.style.setProperty("--dim", "#b5bcc4"); undefined`))
	if found := j.violations(); !slices.ContainsFunc(found, func(v violation) bool { return v.ID == "color-contrast" && v.Impact == "serious" }) {
		j.t.Errorf("illegible words are fine: %+v", found)
	}
	j.do(chromedp.Evaluate[chromedp.Void](`document.documentElement.style.removeProperty("--dim"); undefined`))
}

// tallest is the maximum height of a picture in pixels.
const tallest = 1640

// fewColours returns the top of a picture in its 255 most frequent colours: pages have hardly more, and the file is a third as large.
func fewColours(t *testing.T, picture []byte) []byte {
	t.Helper()
	from := testkit.Value(png.Decode(bytes.NewReader(picture)))(t)
	area, often := from.Bounds(), map[color.Color]int{}
	area.Max.Y = min(area.Max.Y, area.Min.Y+tallest)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			often[from.At(x, y)]++
		}
	}
	vivid := func(c color.Color) int { // a vivid colour matters more than another grey
		r, g, b, _ := c.RGBA()
		return often[c] * int(64+max(r, g, b)>>8-min(r, g, b)>>8)
	}
	all := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return vivid(b) - vivid(a) })
	to := image.NewPaletted(area, color.Palette(all[:min(len(all), 255)]))
	index := map[color.Color]uint8{}
	for c := range often {
		index[c] = uint8(to.Palette.Index(c))
	}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			to.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var b bytes.Buffer
	testkit.Must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, to))
	return b.Bytes()
}

// goes opens a page, and waits for an element. For a plain string Chromium also searches text: "svg" is in the icon's address, and the icon is never visible.
func (j *judge) goes(path, shows string) {
	j.t.Helper()
	j.do(chromedp.Navigate(j.url+path), chromedp.WaitVisible(chromedp.CSS(shows)))
}

// tooWide returns the elements that make the page scroll sideways.
const tooWide = `document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1 ? "" :
	[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, pre") && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 80)).slice(0, 5).join(" | ")`

// secondRow returns the parts of the header below its first row, while the menu is closed.
const secondRow = `(() => {
	const parts = [...document.querySelectorAll("header.top > *")].filter(e => e.offsetParent && e.tagName != "NAV").map(e => [e, e.getBoundingClientRect()]);
	const end = Math.min(...parts.map(([, box]) => box.bottom));
	return parts.filter(([, box]) => box.top >= end).map(([e]) => e.innerText || e.id).join(", ");
})()`

// crooked returns the headings of a table whose room differs from that of the first one.
const crooked = `[...document.querySelectorAll("thead tr")].flatMap(r => [...r.cells].filter(c => c.offsetParent && r.cells[0].offsetParent && getComputedStyle(c).padding != getComputedStyle(r.cells[0]).padding).map(c => c.innerText)).slice(0, 5).join(", ")`

// newJudge starts a browser that looks at the pages of s, in make test-full with axe.
func newJudge(t *testing.T, s *site) *judge {
	t.Helper()
	j := &judge{browser: startBrowserAt(t, s)}
	if testkit.Full() && os.Getenv("NAUPEGOS_SCREENSHOTS") == "" {
		j.axe = axeCore(t)
	}
	return j
}

// TestEveryPage opens each kind of page, with machines and clusters, and the pages for users who have not signed in. No page may be wider than the
// screen. In make test-full, axe-core checks all pages; with NAUPEGOS_SCREENSHOTS=DIR the test takes the pictures for the docs instead.
func TestEveryPage(t *testing.T) {
	s := newScenery(t)
	j := newJudge(t, s.site)
	j.goes("/ui/login", "#token")
	if j.axe != "" {
		j.judges()
	}
	j.see("sign in")
	(&judge{&browser{withProvider(t, "operate=sub:id1"), j.ctx}, j.axe}).signedOut()
	j.signIn("/ui/machines")
	j.see("machines")
	j.goes("/ui/machines?unusable=any&order=-seen", "tbody tr")
	if n := got(j.browser, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`)); n != 4 {
		t.Errorf("%d machines can't be used, want the one that failed, the one in maintenance and the two that ask", n)
	}
	j.see("machines that can't be used")
	j.goes("/ui/machines?text=nothing-of-that-name", "main h1")
	j.see("no machines")
	j.goes("/ui/machines/"+rackUUID(serves), "svg")
	j.see("machine")
	j.goes("/ui/machines/"+rackUUID(installs), "svg")
	j.see("machine that is installed")
	j.goes("/ui/machines/"+rackUUID(11), "svg")
	j.see("machine that asks")
	j.goes("/ui/approvals", "button.go")
	j.see("approvals")
	j.goes("/ui/", ".tiles")
	j.see("overview")
	j.goes("/ui/clusters", "tbody tr")
	j.see("clusters")
	j.goes("/ui/clusters/quay", "svg.draw")
	if !strings.Contains(j.text("[role=status]"), "has paused after quay-cp-1") {
		t.Errorf("the page of a cluster that has paused says %s", j.text("main"))
	}
	j.see("cluster")
	for _, tab := range []string{"nodes", "runs", "backups", "certificates", "document", "actions", "machines/quay-cp-2"} {
		j.goes("/ui/clusters/quay/"+tab, ".tabs")
		j.see("cluster, " + tab)
	}
	j.goes("/ui/new", "#provider")
	j.see("new cluster")
	j.goes("/ui/nothing", "[role=alert]")
	j.see("no page")
	j.goes("/ui/runs/"+s.runs["apply"], ".timeline svg")
	j.see("run")
	j.goes("/ui/runs/"+s.runs["update"], ".timeline svg")
	j.see("run that failed")
	j.goes("/ui/runs/"+s.runs[upgrade], "[role=status]")
	j.see("run that paused")
	j.goes("/ui/backups", "main h2")
	j.see("backups")

	// A plan that needs a consent, its job while it runs, and after it was stopped.
	j.goes("/ui/clusters/harbour/document", "#document")
	j.do(chromedp.Evaluate[chromedp.Void](`{ const d = document.getElementById("document"); d.value = d.value.replace("step: 10m", "step: 11m") }; undefined`))
	j.leads("/ui/clusters/harbour/plan", chromedp.Click(`textarea ~ p button.go`), "input[name=consent]")
	j.see("plan")
	j.do(chromedp.Click("input[name=consent]"))
	j.leads("/ui/jobs/", chromedp.Click(`input[name="digest"] ~ p button.go`), `form[action$="/stop"]`)
	testkit.Until(t, 120*time.Second, 50*time.Millisecond, testkit.That("steps run", func() bool {
		return strings.Contains(j.steps(), "running") && strings.Contains(j.text("#now pre"), "running")
	}))
	j.see("job running")
	j.goes("/ui/waves", "main h2")
	j.see("waves")
	j.goes("/ui/clusters/harbour", `#head .note a[href^="/ui/jobs/"]`)
	j.do(chromedp.Click(`#head .note a[href^="/ui/jobs/"]`), chromedp.WaitVisible(`form[action$="/stop"]`))
	j.leads("/ui/jobs/", chromedp.Click(`form[action$="/stop"] button`), "svg.graph")
	s.goOn()
	j.do(chromedp.WaitVisible("[role=alert]"))
	j.see("job that was stopped")
	j.goes("/ui/waves", "main h2")
	j.see("waves that halted")
	j.goes("/ui/audit?text=harbour", "tbody tr")
	j.see("audit")

	j.goes("/ui/machines/"+rackUUID(99), "[role=alert]")
	j.see("what there is not")
	j.goes("/ui/machines", "tbody tr")
	j.do(chromedp.KeyEvent("?"), chromedp.WaitVisible("#keys[open] button"))
	j.see("keys")
	j.do(chromedp.KeyEvent(kb.Escape))
}

// axeVersion is the version of axe-core in npm's registry.
const axeVersion = "4.14.1"

// axeCore returns axe-core's script, from the cache or the registry.
func axeCore(t *testing.T) string {
	t.Helper()
	cache := testkit.Value(os.UserCacheDir())(t)
	dir := filepath.Join(cache, "naupegos", "tools", "axe-core-"+axeVersion)
	script := filepath.Join(dir, "package", "axe.min.js")
	if _, err := os.Stat(script); err != nil {
		tmp := t.TempDir()
		if out, err := exec.Command("npm", "pack", "--silent", "--pack-destination", tmp, "axe-core@"+axeVersion).CombinedOutput(); err != nil {
			t.Fatalf("npm gives no axe-core: %v: %s", err, out)
		}
		testkit.Must(t, os.MkdirAll(dir, 0o755))
		if out, err := exec.Command("tar", "-xzf", filepath.Join(tmp, fmt.Sprintf("axe-core-%s.tgz", axeVersion)), "-C", dir, "package/axe.min.js").CombinedOutput(); err != nil {
			t.Fatalf("unpack axe-core: %v: %s", err, out)
		}
	}
	return string(testkit.Value(os.ReadFile(script))(t))
}
