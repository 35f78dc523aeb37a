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
