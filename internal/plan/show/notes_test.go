package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestNoteWriter(t *testing.T) {
	var b bytes.Buffer
	w := NoteWriter(&b)
	for _, part := range []string{`{"event":"begin"}`, "\nThe bundle is ", "not here.\n\n", "cluster.yaml was changed.\n"} {
		testkit.Value(fmt.Fprint(w, part))(t)
	}
	var got []string
	for dec := json.NewDecoder(&b); dec.More(); {
		var l lineJSON
		testkit.Must(t, dec.Decode(&l))
		got = append(got, l.Event+" "+l.Text)
	}
	if want := "[begin  note The bundle is not here. note cluster.yaml was changed.]"; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
}
