package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// paths are the requests that a machine sends in turn while it boots.
var paths = []string{"/ipxe", "/ignition", "/generic"}

// fewest is the minimum number of answers of a measurement, however long they take.
const fewest = 20

func query(i int) string {
	return fmt.Sprintf("?uuid=16e7d8a7-bfa9-428b-9117-3633%08x&mac=%s&domain=&hostname=&serial=S%d&arch=x86_64", i, strings.ReplaceAll(mac(i), ":", "-"), i)
}

// result is the measurement of one side.
type result struct {
	Took  time.Duration
	Times []time.Duration // time until each answer

	memory int
}

func (r *result) add(o result) { r.Took, r.Times = r.Took+o.Took, append(r.Times, o.Times...) }

func (r result) rate() float64 { return float64(len(r.Times)) / r.Took.Seconds() }

// p99 returns the time within which 99 of 100 requests were answered.
func (r result) p99() time.Duration {
	times := slices.Sorted(slices.Values(r.Times))
	return times[(len(times)*99+99)/100-1]
}

func (r result) String() string {
	return fmt.Sprintf("%8.0f requests/s, p99 %10s, %4d MiB, %d requests", r.rate(), r.p99().Round(10*time.Microsecond), r.memory, len(r.Times))
}

// ask runs the load in another process.
func ask(ctx context.Context, self, url string, machines int, o options) (result, error) {
	cmd := exec.CommandContext(ctx, self, "-load", url, "-machines", fmt.Sprint(machines), "-each", o.each.String(), "-connections", fmt.Sprint(o.connections))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("ask %s: %w", url, err)
	}
	var r result
	return r, json.Unmarshal(out, &r)
}

// load sends requests to a server for o.each, one per connection at a time, and prints the result. Every status except 200 is an error.
func load(ctx context.Context, url string, machines int, o options) error {
	client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: o.connections, MaxConnsPerHost: o.connections, DisableCompression: true}}
	if err := one(ctx, client, url, 0, 0); err != nil {
		return err
	}
	parts, errs := make([][]time.Duration, o.connections), make([]error, o.connections)
	began := time.Now()
	var group sync.WaitGroup
	for w := range o.connections {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), uint64(machines))) // the same machines for both sides
			for i := w; errs[w] == nil && (time.Since(began) < o.each || len(parts[w]) < 1+fewest/o.connections); i++ {
				at := time.Now()
				errs[w] = one(ctx, client, url, r.IntN(machines), i)
				parts[w] = append(parts[w], time.Since(at))
			}
		})
	}
	group.Wait()
	result := result{Took: time.Since(began), Times: slices.Concat(parts...)}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// one sends one request.
func one(ctx context.Context, client *http.Client, url string, machine, i int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+paths[i%len(paths)]+query(machine), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return nil
}

// row holds both sides' results at one size.
type row struct {
	machines     int
	ours, theirs result
}

func (r row) ratio() float64 { return r.ours.rate() / r.theirs.rate() }

// report prints the ratios and fails if a goal was missed.
func report(all []row, flat float64) error {
	fmt.Println()
	for _, r := range all {
		fmt.Printf("ratio at %d: %.1f\n", r.machines, r.ratio())
	}
	first, last := all[0], all[len(all)-1]
	fmt.Printf("flat: %.2f of the requests/s at %d machines are answered at %d\n", flat, first.machines, last.machines)
	var missed []string
	for _, r := range all {
		if r.ratio() < 1 {
			missed = append(missed, fmt.Sprintf("slower than matchbox at %d machines", r.machines))
		}
		if r.machines == 1000 && r.ratio() < 50 {
			missed = append(missed, "less than 50 times as fast at 1000 machines")
		}
	}
	if flat < 0.8 {
		missed = append(missed, "not flat")
	}
	if len(missed) > 0 {
		return fmt.Errorf("goals missed: %s", strings.Join(missed, "; "))
	}
	return nil
}
