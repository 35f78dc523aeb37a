package agent

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// filterTool stands for nft and records its calls; list is its error for a table that does not exist.
type filterTool struct {
	calls []string
	list  error
}

func (f *filterTool) Run(_ context.Context, _ io.Reader, argv ...string) ([]byte, error) {
	f.calls = append(f.calls, strings.Join(argv, " "))
	if argv[1] == "list" {
		return nil, f.list
	}
	return nil, nil
}

func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		name string
		list error
		want string
	}{
		{"there is a filter", nil, "nft add element inet fence visitors { 10.0.0.1 timeout 3600s }\nnft add element inet fence visitors { 10.0.0.2 timeout 3600s }"},
		{"there is none", &CommandError{Code: 1}, ""},
		{"there is no nft", fmt.Errorf("start: %w", exec.ErrNotFound), ""},
	} {
		f := &filterTool{list: c.list}
		testkit.Must(t, New(Options{Runner: f}).Admit(t.Context(), "fence", "visitors", time.Hour, []string{"10.0.0.1", "10.0.0.2"}))
		if got := strings.Join(f.calls[1:], "\n"); got != c.want {
			t.Errorf("%s: it runs\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	f := &filterTool{}
	testkit.Fails(t, New(Options{Runner: f}).Admit(t.Context(), "fence", "visitors", time.Hour, []string{"10.0.0.1", "; reboot"}), fail.Invalid, "reboot")
	if len(f.calls) > 0 {
		t.Errorf("it ran %q", f.calls)
	}
}
