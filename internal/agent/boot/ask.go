package boot

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// ask asks the server until the machine may be installed. An agent that can't install runs it.
func ask(ctx context.Context, m Machine) (End, error) {
	m.Say("asking to be installed")
	said := ""
	for {
		granted, words, err := authorized(ctx, m)
		switch {
		case granted:
			return 0, fail.New(fail.NotReady, "the machine may be installed, and this agent has nothing that installs it")
		case err != nil:
			words = err.Error()
		}
		if words != said {
			m.Say("not installed yet: " + words)
			said = words
		}
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return 0, fail.Wrap(fail.NotReady, context.Cause(ctx), "wait until the machine may be installed")
		}
	}
}

// authorized asks the server once.
func authorized(ctx context.Context, m Machine) (granted bool, words string, err error) {
	selector := "uuid=" + m.Discovery.Boot.UUID + "&mac=" + strings.ReplaceAll(m.Discovery.Boot.MAC, ":", "-")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Server+"/install-authorization/"+selector, nil)
	if err != nil {
		return false, "", err
	}
	res, err := m.HTTP.Do(req)
	if err != nil {
		return false, "", err
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // the lines read so far count
	switch words = strings.TrimSpace(string(body)); res.StatusCode {
	case http.StatusOK:
		return true, words, nil
	case http.StatusForbidden:
		return false, words, nil
	}
	return false, "", fmt.Errorf("the server answered %s: %s", res.Status, words)
}
