package problem

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestThereAndBack: the client gets the same error as the server returned.
func TestThereAndBack(t *testing.T) {
	for kind, status := range map[fail.Kind]int{
		fail.Internal: 500, fail.Invalid: 400, fail.Refused: 403, fail.NotReady: 503, fail.Conflict: 409, fail.Unreachable: 502,
		fail.Unauthorized: 401, fail.Interrupted: 503, fail.NotFound: 404,
	} {
		w := httptest.NewRecorder()
		was := fail.New(kind, "do it").At("demo").Do("do something else")
		Write(w, was)
		res := w.Result()
		if res.StatusCode != status || res.Header.Get("Content-Type") != ContentType {
			t.Errorf("%s: status %d, %s", kind, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if err := Read(res); fail.KindOf(err) != kind || err.Error() != was.Error() {
			t.Errorf("%s: came back as %s: %v", kind, fail.KindOf(err), err)
		}
	}
}

func TestNoDocument(t *testing.T) {
	res := &http.Response{StatusCode: 502, Status: "502 Bad Gateway", Body: http.NoBody}
	if err := Read(res); fail.KindOf(err) != fail.Unreachable || !strings.Contains(err.Error(), "502") {
		t.Error(err)
	}
}

func TestTooLarge(t *testing.T) {
	p := Of(errors.Join(errors.New("read"), &http.MaxBytesError{Limit: 7}))
	if p.Status != 413 || !strings.Contains(p.Detail, "7 bytes") {
		t.Errorf("%+v", p)
	}
}

// TestAnswer: a browser that opens an address gets a page; scripts and other clients get the document.
func TestAnswer(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct{ method, accept, content string }{
		{"GET", browser, "text/html; charset=utf-8"}, {"POST", browser, ContentType}, {"GET", "*/*", ContentType}, {"GET", "", ContentType}, {"GET", "application/json", ContentType},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(c.method, "/nothing", nil)
		r.Header.Set("Accept", c.accept)
		Of(fail.New(fail.NotFound, "there is nothing at /<script>")).Answer(w, r)
		if res := w.Result(); res.StatusCode != 404 || res.Header.Get("Content-Type") != c.content {
			t.Errorf("%s of %q: %d %s", c.method, c.accept, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if page := w.Body.String(); c.content != ContentType && (!strings.Contains(page, "<h1>not found</h1><p>there is nothing at /&lt;script&gt;</p>") || w.Header().Get("Content-Security-Policy") == "") {
			t.Errorf("the page is %s", page)
		}
	}
}
