// Package chromium starts a headless browser for a test.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/naupegos/naupegos/internal/testkit"
)

// Start starts Chromium with a profile of its own and these additional options, and returns the context of its first tab. The browser ends with the test.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatal("chromium is not installed: hack/setup test installs it")
	}
	tmp, err := os.MkdirTemp("", "chromium") // short, because a socket lies below it
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(tmp)) })
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1400, 900), chromedp.Flag("disable-component-update", true), chromedp.Env("TMPDIR="+tmp))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), append(opts, more...)...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(end)
	testkit.Must(t, chromedp.Do(ctx, chromedp.Navigate("about:blank"))) // the browser lives as long as the context of its first action
	return ctx
}
