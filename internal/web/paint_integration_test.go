//go:build integration

package web

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/testkit"
)

// painted returns the milliseconds to the first paint of the current page, and its layout shift. It waits up to a minute for that paint: a browser on a
// busy host paints later than it loads.
const painted = `new Promise(done => {
  let shift = 0, tries = 0;
  const show = () => {
    new PerformanceObserver(list => { for (const e of list.getEntries()) if (!e.hadRecentInput) shift += e.value; }).observe({type: "layout-shift", buffered: true});
    const ask = () => {
      const paint = performance.getEntriesByName("first-contentful-paint")[0];
      if (paint || tries++ > 300) done(JSON.stringify([paint?.startTime ?? -1, shift]));
      else setTimeout(ask, 200);
    };
    setTimeout(ask, 200);
  };
  document.readyState === "complete" ? show() : addEventListener("load", show);
})`

// TestPaintInABrowser: pages about 50 clusters and 10,000 machines paint within 300 ms, without layout shift. The fastest try counts, because a
// busy host is slow at times; only the full tests enforce the limit.
func TestPaintInABrowser(t *testing.T) {
	b := startBrowser(t)
	b.crowded(50)
	b.signIn("/ui/")
	for _, path := range []string{"/ui/", "/ui/clusters", "/ui/clusters/cluster-007", "/ui/clusters/cluster-007/nodes", "/ui/clusters/cluster-007/backups", "/ui/clusters/cluster-007/actions"} {
		fastest, shifted := -1.0, 0.0
		for tries := 0; tries < 3 || testkit.Full() && tries < 20 && (fastest < 0 || fastest > 300); tries++ {
			b.do(chromedp.Navigate(b.url+path), chromedp.WaitVisible("main"))
			var paint, shift float64
			said := strings.Trim(got(b, chromedp.Evaluate[string](painted, chromedp.EvalAwaitPromise)), "[]")
			first, second, _ := strings.Cut(said, ",")
			paint, shift = number(t, first), number(t, second)
			if paint >= 0 && (fastest < 0 || paint < fastest) {
				fastest = paint
			}
			shifted = max(shifted, shift)
		}
		t.Logf("FIGURE of 50 clusters and 10,000 machines %s paints in %.0f ms, and shifts by %.3f", path, fastest, shifted)
		if fastest < 0 || testkit.Full() && fastest > 300 {
			t.Errorf("%s paints in %.0f ms", path, fastest)
		}
		if shifted > 0.05 {
			t.Errorf("the layout of %s shifts by %.3f", path, shifted)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
