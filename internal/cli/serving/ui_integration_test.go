//go:build integration

package serving

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/chromium"
)

// TestUIInABrowser follows the link in Chromium: the user is signed in within two seconds, and the key is gone from the address.
func TestUIInABrowser(t *testing.T) {
	ctx := chromium.Start(t) // the browser runs already, as its user's does
	began := time.Now()
	link, stopped := openUI(t)
	testkit.Must(t, chromedp.Do(ctx, chromedp.Navigate(link), chromedp.WaitVisible(`form[action="/ui/logout"] button`)))
	took := time.Since(began)
	t.Logf("FIGURE signed in in Chromium %d ms after the command", took.Milliseconds())
	if took > 2*time.Second && testkit.Full() {
		t.Errorf("signing in took %s, want 2 s", took)
	}
	at := testkit.Value(chromedp.Run(ctx, chromedp.Evaluate[string]("location.pathname + location.hash")))(t)
	if at != "/ui/" {
		t.Errorf("the browser is at %s", at)
	}
	testkit.Must(t, stopped())
}
