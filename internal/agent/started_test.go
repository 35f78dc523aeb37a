package agent

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnitThatStartsPrograms has a unit that starts a program by a file restart only once it has started it again, and the file in place
// only once the images are there.
func TestUnitThatStartsPrograms(t *testing.T) {
	const pod = "/etc/app/server.yaml"
	with := func(content string) machine.Config {
		c := config()
		c.Files = append(c.Files, machine.File{Path: pod, Mode: 0o600, Content: []byte(content)})
		c.Units[1].Starts = []string{pod}
		return c
	}
	other := with("two") // with another image, and the unit's own configuration changed
	other.Files[0].Content = []byte("two")
	id := "sha256:" + strings.Repeat("fe", 32)
	more := "naupegos.local/server:2 " + id
	other.Images = append(other.Images, machine.Image{Refs: []string{"naupegos.local/server:2"}, Digest: digestOf(more), Size: int64(len(more)), ID: id})

	for name, starts := range map[string]bool{"it starts it again": true, "it never does": false} {
		t.Run(name, func(t *testing.T) {
			f := newFakeHost(t)
			putBlobs(t, f)
			f.process(t, 7, "server", time.Now().Add(-time.Hour))
			f.apply(t, with("one")) // the unit does not run yet: the file is there when it starts
			testkit.Must(t, os.Chtimes(f.root+pod, time.Time{}, time.Now().Add(-time.Hour)))
			testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf(more), int64(len(more)), strings.NewReader(more)))

			a := f.agent()
			a.startWait = 500 * time.Millisecond
			var began, restarted time.Time
			started := make(chan struct{})
			f.fail = func(argv []string) error {
				switch line := strings.Join(argv, " "); {
				case strings.Contains(line, " images import") && f.content(pod) != "one":
					t.Error("the file is in place before the image is there")
				case strings.HasPrefix(line, "systemctl restart"):
					restarted = time.Now()
				}
				return nil
			}
			if starts {
				a.startWait = time.Minute
				go func() { // the unit's own doing
					defer close(started)
					for f.content(pod) != "two" {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(50 * time.Millisecond)
					began = time.Now()
					f.process(t, 8, "server", began.Add(20*time.Millisecond)) // the kernel counts in hundredths of seconds
				}()
			}
			from := time.Now()
			report, err := a.Apply(t.Context(), other, false)
			testkit.Must(t, err)
			if !slices.ContainsFunc(report.Changes, func(c machine.Change) bool { return c.Name == "app.service" && c.Action == "restart" }) {
				t.Fatalf("the unit was not to restart: %v", report.Changes)
			}
			if starts {
				<-started
			}
			switch {
			case starts && !restarted.After(began):
				t.Errorf("the unit restarted %v before its program", began.Sub(restarted))
			case !starts && restarted.Sub(from) < a.startWait:
				t.Errorf("the unit restarted after %v already", restarted.Sub(from))
			}
		})
	}
}
