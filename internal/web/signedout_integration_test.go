//go:build integration

package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/naupegos/naupegos/internal/testkit"
)

// refresh matches the element that makes a browser leave a page before it can be checked.
var refresh = regexp.MustCompile(`<meta http-equiv="refresh"[^>]*>`)

// stays shows a page that redirects at once, without the redirect.
func (j *judge) stays(a answer, shows string) {
	j.t.Helper()
	if !refresh.MatchString(a.body) {
		j.t.Fatalf("the page does not lead onward: %d %s", a.code, a.body)
	}
	body := testkit.Value(json.Marshal(refresh.ReplaceAllString(a.body, "")))(j.t)
	j.goes("/ui/login", "#token")
	j.do(chromedp.Evaluate[chromedp.Void](`document.open(); document.write(`+string(body)+`); document.close(); undefined`), chromedp.WaitVisible(shows),
		chromedp.Evaluate[chromedp.Void](`document.readyState === "complete" ? undefined : new Promise(done => addEventListener("load", () => done(undefined)))`, chromedp.EvalAwaitPromise))
}

// signedOut checks the pages for users who are not signed in, of a site with a provider. It begins and ends without a session.
func (j *judge) signedOut() {
	t := j.t
	t.Helper()
	j.goes("/ui/login?to=/ui/waves", "a.button.go")
	j.see("sign in with a provider")
	j.do(chromedp.SendKeys("#token", "wrong"+kb.Enter), chromedp.WaitVisible("[role=alert]"))
	j.see("token that is wrong")
	j.do(chromedp.Click("a.button.go"), chromedp.WaitVisible("#username"), chromedp.SendKeys("#username", "test-user2"), chromedp.SendKeys("#password", "verysecure"+kb.Enter),
		chromedp.WaitVisible("[role=alert]"))
	j.at("/ui/login/callback")
	if said := j.text("[role=alert]"); !strings.Contains(said, "no rule of this server gives") {
		t.Errorf("for a person whom the provider knows, and who has no role, the page says %s", said)
	}
	j.see("sign in with a provider that failed")

	p := j.person()
	j.stays(p.get(p.back("/ui/waves")), `main a[href="/ui/waves"]`)
	j.see("signed in with a provider")
	j.stays(p.post(j.url+"/ui/logout", url.Values{}), `main p a`)
	j.see("sign out with a provider")
	for _, done := range []string{outHere, outThere} {
		j.goes("/ui/login?done="+done, "[role=status]")
		j.see("signed out: " + done)
	}

	// After too many failed attempts the site shows no page, not even the one to sign in on.
	forms := `document.querySelectorAll("header nav, #token").length`
	for shown := 1; shown > 0; shown = got(j.browser, chromedp.Evaluate[int](forms)) { // on a slow host, attempts expire meanwhile
		for range 20 {
			j.ask(http.MethodPost, "/ui/login", "", url.Values{"token": {"wrong"}})
		}
		j.do(chromedp.Evaluate[chromedp.Void](`document.cookie = "` + cookieName + `=wrong; Secure; Path=/"; undefined`))
		j.goes("/ui/waves", "main h1")
	}
	if said := j.text("[role=alert]"); !strings.Contains(said, "too many failed sign-ins") {
		t.Errorf("who tries too often is told %s", said)
	}
	j.see("too many attempts")
	j.do(chromedp.Evaluate[chromedp.Void](`document.cookie = "` + cookieName + `=; Max-Age=0; Secure; Path=/"; undefined`))
}
