package access

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTenantsReadNoPaths: what an operator of one cluster reads names no path of the server, in errors, jobs and texts; an operator of all clusters reads all.
func TestTenantsReadNoPaths(t *testing.T) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	defer st.Close()
	_, missing := os.Stat(filepath.Join(st.Dir(), "nothing"))
	backup := filepath.Join(st.Dir(), "backups", "demo", "20260101T000000Z-abcd")
	for _, c := range []struct {
		who   Operator
		shown bool
	}{{Operator{Name: "all"}, true}, {Operator{Name: "one", Cluster: "demo"}, false}} {
		texts := map[string]string{
			"an error":  c.who.Told(fail.Wrap(fail.Invalid, missing, "read it")).Error(),
			"a place":   c.who.Told(fail.New(fail.Refused, "it is damaged").At(backup)).Error(),
			"a backup":  c.who.Hide(st, backup),
			"in a list": c.who.Hide(st, st.Dir()+"/backups"),
		}
		if !c.shown {
			j := &store.Job{Result: json.RawMessage(`{"where":"` + backup + `","error":""}`)}
			(&view{st}).strip(j)
			if texts["a job"] = string(j.Result); !json.Valid(j.Result) {
				t.Errorf("a job's result became %s", j.Result)
			}
		}
		for what, text := range texts {
			if strings.Contains(text, st.Dir()) != c.shown {
				t.Errorf("%s to %s: %s", what, c.who.Name, text)
			}
		}
	}
}
